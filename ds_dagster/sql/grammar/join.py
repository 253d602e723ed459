"""The grammar after the first source of FROM: joins and UNNEST."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.names import meant
from ds_dagster.sql.expressions import StreamJoin, UnnestRef
from ds_dagster.sql.grammar.call import placed
from ds_dagster.sql.grammar.sets import SetOperationParser
from ds_dagster.sql.hints.mistakes import UnreadableError

JOINS: dict[tuple[str, ...], dict[str, str]] = {
    ("join",): {},
    ("inner", "join"): {},
    ("left", "join"): {"side": "LEFT"},
    ("left", "outer", "join"): {"side": "LEFT"},
    ("right", "join"): {"side": "RIGHT"},
    ("right", "outer", "join"): {"side": "RIGHT"},
    ("full", "join"): {"side": "FULL"},
    ("full", "outer", "join"): {"side": "FULL"},
}
_REFUSED_JOINS: tuple[tuple[str, ...], ...] = (
    ("left", "semi", "join"),
    ("left", "anti", "join"),
    *(
        words
        for side in ("natural", "semi", "anti", "asof", "lateral", "straight")
        for words in ((side, "join"), (side, "outer", "join"), (side, "left", "join"), (side, "inner", "join"))
    ),
)
_INSTEAD = {
    "natural": "JOIN … ON left.column = right.column",
    "asof": "JOIN changelog ON … over a stream: each row is joined with the version that was valid at its time",
}
"""First word of a refused join → what to write instead."""
_SIDES = frozenset(("inner", "left", "right", "full"))
_JOIN_WORDS = frozenset(words[0] for words in (*JOINS, *_REFUSED_JOINS))


class JoinParser(SetOperationParser):
    """The grammar of joins."""

    def source_reference(self) -> exp.Expression:
        """A source; implemented in ``grammar/query.py``."""
        raise NotImplementedError

    def duration(self, kind: TokenType = TokenType.NUMBER) -> int:
        """``n unit``; implemented in ``grammar/query.py``."""
        raise NotImplementedError

    def at_alias(self) -> bool:
        """Whether a name without AS comes next; implemented in ``grammar/query.py``."""
        raise NotImplementedError

    def joins(self, *, starred: bool) -> list[exp.Expression]:
        """Joins after the first source; ``starred``: the SELECT list has ``*``, which shows the order of the sources,
        so RIGHT JOIN is refused."""
        joins: list[exp.Expression] = []
        while True:
            if self.at_symbol(TokenType.COMMA) or self.at_words("cross", "join"):
                joins.append(self._elements())
                continue
            if not self.at_any(_JOIN_WORDS):
                return joins
            if self.at("right") and (joins or starred):
                raise self.refuse("JOIN_UNSUPPORTED", join="RIGHT")
            words = next((words for words in JOINS if self.take(*words)), None)
            if words is None:
                self._refuse_join()
                if self.at_any(_SIDES):
                    self._advance()
                    raise self.expected("JOIN")
                return joins
            joins.append(self._join(words))

    def _elements(self) -> exp.Expression:
        """``CROSS JOIN UNNEST(…)`` or ``, UNNEST(…)``; other operands are refused."""
        is_comma = self.at_symbol(TokenType.COMMA)
        if not _is_unnest(self.ahead(1 if is_comma else 2)):
            raise self.refuse("COMMA_JOIN_UNSUPPORTED" if is_comma else "CROSS_JOIN_UNSUPPORTED")
        self._advance(1 if is_comma else 2)
        token = self._curr
        return placed(StreamJoin(this=self.unnest()), token)

    def unnest(self) -> UnnestRef:
        """``UNNEST(value) [WITH ORDINALITY] [[AS] alias [(column, …)]]``."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        node = UnnestRef(this=self.expr(), alias=exp.TableAlias(this=exp.to_identifier("unnest")))
        self.need_symbol(TokenType.R_PAREN, "')'")
        node.update_positions(token)
        if self.take("with", "ordinality"):
            node.set("ordinality", True)
        if self.take("as") or self.at_alias():
            node.set("alias", exp.TableAlias(this=self.identifier("an alias")))
            if self.at_symbol(TokenType.L_PAREN):
                node.set("columns", self.listed(lambda: self.identifier("a column's name")))
        return node

    def _refuse_join(self) -> None:
        for words in _REFUSED_JOINS:
            if self.at_words(*words):
                join = " ".join(words[:-1]).upper()
                if words[0] in _INSTEAD:
                    raise self.refuse("FORM_INSTEAD", written=f"{join} JOIN", instead=_INSTEAD[words[0]])
                raise self.refuse("JOIN_UNSUPPORTED", join=join)

    def _join(self, words: tuple[str, ...]) -> exp.Expression:
        token = self._prev
        if _is_unnest(self._curr) and words[0] in ("right", "full"):
            raise self.refuse("JOIN_UNSUPPORTED", token, join=words[0].upper())
        source = self.unnest() if _is_unnest(self._curr) else self.source_reference()
        within = self.duration() if self.take("within") else None
        if self.at("using"):
            raise self.refuse("JOIN_USING_UNSUPPORTED")
        if not self.take("on"):
            raise self._without_on(token, source)
        condition = self.expr()
        if self.at("within"):
            raise self.refuse("SYNTAX_UNEXPECTED", found="WITHIN", fix="write it before ON: WITHIN n unit ON …")
        node = StreamJoin(this=source, on=condition, **JOINS[words])
        if within is not None:
            node.set("within", within)
        node.update_positions(token)
        return node

    def _without_on(self, token: Token, source: exp.Expression) -> UnreadableError:
        """The refusal of a join without ON; also if ON is misspelt and was therefore read as an alias."""
        for word in (self._prev, self._curr) if not self.ended else ():
            near = meant(word.text, ("on", "within"), shortest=2) if word.token_type is TokenType.VAR else ""
            if near:
                shown = word.text.upper()
                fix = f"did you mean {near.upper()} instead of {shown}?"
                return self.refuse("SYNTAX_EXPECTED", word, expected=near.upper(), found=shown, fix=fix)
        return self.refuse("JOIN_WITHOUT_ON", token, name=source.alias)


def _is_unnest(token: Token) -> bool:
    return token.token_type is TokenType.VAR and token.text == "unnest"
