"""The grammar of MATCH_RECOGNIZE (…) and of the pattern inside of it."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from ds_dagster.sql.expressions import (
    SKIPS,
    MatchRef,
    PatternChoice,
    PatternRepeat,
    PatternSequence,
    PatternVariable,
    RelationRef,
)
from ds_dagster.sql.grammar.expression import ExpressionParser

MOST_REPEATS = 1000
"""Largest number in ``{n,m}``."""
_QUANTIFIERS: dict[TokenType, tuple[int, int | None]] = {
    TokenType.STAR: (0, None),
    TokenType.PLUS: (1, None),
    TokenType.PLACEHOLDER: (0, 1),
}
_REFUSED_PARTS: dict[TokenType, str] = {
    TokenType.CARET: "^ in a PATTERN",
    TokenType.DOLLAR: "$ in a PATTERN",
    TokenType.L_BRACE: "an exclusion in a PATTERN",
}


class MatchParser(ExpressionParser):
    """MATCH_RECOGNIZE; the order of its clauses is fixed, as in the standard."""

    def duration(self, kind: TokenType = TokenType.NUMBER) -> int:
        """``n unit``, with the number in a token of type ``kind``; implemented in ``grammar/query.py``."""
        raise NotImplementedError

    def match(self, source: exp.Expression) -> MatchRef:
        """``MATCH_RECOGNIZE ( [PARTITION BY] ORDER BY MEASURES [AFTER MATCH] PATTERN [WITHIN] DEFINE )``."""
        token = self._curr
        if not isinstance(source, RelationRef | exp.Subquery):
            raise self.refuse("MATCH_SOURCE")
        self._advance()
        self.need_symbol(TokenType.L_PAREN, "(")
        node = MatchRef(this=source)
        node.update_positions(token)
        if self.take("partition", "by"):
            node.set("partition", self.separated(self.expr))
        if not self.at_words("order", "by"):
            raise self.refuse("MATCH_WITHOUT_ORDER", token)
        node.set("order", self.order_by())
        self.need("measures")
        node.set("measures", self.separated(self._measure))
        self._rows_per_match()
        self._after_match(node)
        self.need("pattern")
        self.need_symbol(TokenType.L_PAREN, "(")
        node.set("pattern", self._alternatives())
        self.need_symbol(TokenType.R_PAREN, "')'")
        if self.take("within"):
            node.set("within", self._interval_or_duration())
        if self.at("subset"):
            raise self.refuse("CLAUSE_UNSUPPORTED", clause="SUBSET")
        self.need("define")
        node.set("definitions", self.separated(self._definition))
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        return node

    def _measure(self) -> exp.Expression:
        this = self.expr()
        self.need("as")
        return exp.Alias(this=this, alias=self.identifier("a column's name after AS"))

    def _rows_per_match(self) -> None:
        if self.at_words("all", "rows", "per", "match"):
            raise self.refuse("CLAUSE_UNSUPPORTED", clause="ALL ROWS PER MATCH")
        self.take("one", "row", "per", "match")

    def _after_match(self, node: MatchRef) -> None:
        node.set("skip", "past_last")
        if not self.take("after", "match"):
            return
        self.need("skip")
        for skip, words in SKIPS.items():
            if self.take(*words):
                node.set("skip", skip)
                if skip in ("to_first", "to_last"):
                    node.set("variable", self.identifier("a pattern variable"))
                return
        raise self.expected("PAST LAST ROW, TO NEXT ROW, TO FIRST variable or TO LAST variable")

    def _interval_or_duration(self) -> int:
        """``n unit``, or ``INTERVAL 'n' unit`` as in Flink."""
        if not self.take("interval"):
            return self.duration()
        return self.duration(TokenType.STRING if self.at_symbol(TokenType.STRING) else TokenType.NUMBER)

    def _definition(self) -> exp.Expression:
        variable = self.identifier("a pattern variable")
        self.need("as")
        return exp.Alias(this=self.expr(), alias=variable)

    # the pattern

    def _alternatives(self) -> exp.Expression:
        with self.nested():
            choices = [self._sequence()]
            while self.take_symbol(TokenType.PIPE):
                choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else PatternChoice(expressions=choices)

    def _sequence(self) -> exp.Expression:
        parts = [self._repeated()]
        while self._curr.token_type not in (TokenType.PIPE, TokenType.R_PAREN) and not self.ended:
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else PatternSequence(expressions=parts)

    def _repeated(self) -> exp.Expression:
        part = self._part()
        token = self._curr
        times = _QUANTIFIERS.get(token.token_type)
        if times is not None:
            self._advance()
        elif token.token_type is TokenType.L_BRACE and self.ahead().token_type is not TokenType.DASH:
            times = self._counted()
        else:
            return part
        reluctant = self.take_symbol(TokenType.PLACEHOLDER) or None
        return PatternRepeat(this=part, least=times[0], most=times[1], reluctant=reluctant)

    def _part(self) -> exp.Expression:
        if self.take_symbol(TokenType.L_PAREN):
            inner = self._alternatives()
            self.need_symbol(TokenType.R_PAREN, "a pattern variable, '|' or ')'")
            return inner
        refused = _REFUSED_PARTS.get(self._curr.token_type)
        if refused or (self.at("permute") and self.ahead().token_type is TokenType.L_PAREN):
            raise self.refuse("CLAUSE_UNSUPPORTED", clause=refused or "PERMUTE")
        return PatternVariable(this=self.identifier("a pattern variable"))

    def _counted(self) -> tuple[int, int | None]:
        """``{n}``, ``{n,}``, ``{,m}``, ``{n,m}``."""
        first = self._curr
        self._advance()
        least = self._times() if self.at_symbol(TokenType.NUMBER) else None
        most = least
        if self.take_symbol(TokenType.COMMA):
            most = self._times() if self.at_symbol(TokenType.NUMBER) else None
        self.need_symbol(TokenType.R_BRACE, "'}'")
        if (least is None and most is None) or most == 0 or (most is not None and (least or 0) > most):
            expected = "n, n with a comma, or n,m with n up to m"
            raise self.refuse("SYNTAX_EXPECTED", first, expected=expected, found="other numbers")
        return least or 0, most

    def _times(self) -> int:
        token = self._curr
        self._advance()
        if not token.text.isdecimal() or int(token.text) > MOST_REPEATS:
            expected = f"a whole number up to {MOST_REPEATS}"
            raise self.refuse("SYNTAX_EXPECTED", token, expected=expected, found=token.text)
        return int(token.text)
