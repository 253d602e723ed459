"""The grammar of literals: texts, numbers, NULL and truth values, ``TYPE 'text'``, INTERVAL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.grammar.call import CallParser, placed
from ds_dagster.sql.typetext import OF_OTHER_DIALECTS, SCALARS, type_node

INTERVAL_UNITS = {
    name: unit
    for unit in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
    for name in (unit.lower(), unit.lower() + "s")
}
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?|[+-]?\.\d+", re.ASCII)
_AMOUNTS: Mapping[str, re.Pattern[str]] = {
    "YEAR": _WHOLE,
    "MONTH": _WHOLE,
    **dict.fromkeys(("DAY", "HOUR", "MINUTE", "SECOND"), _NUMBER),
}
"""Unit of an INTERVAL → valid amounts. Only whole years and months: half a month has no fixed number of days."""
_TYPES_OF_WORDS: Mapping[tuple[str, ...], str] = {
    ("timestamp", "with", "time", "zone"): "TIMESTAMP_LTZ",
    ("timestamp", "with", "local", "time", "zone"): "TIMESTAMP_LTZ",
    ("timestamp", "without", "time", "zone"): "TIMESTAMP",
    ("time", "without", "time", "zone"): "TIME",
    ("double", "precision"): "DOUBLE",
    ("character", "varying"): "VARCHAR",
    **{(word,): name for word, name in OF_OTHER_DIALECTS.items()},
}
"""Words of a type of another dialect → our type that holds its values."""
_BEGINNING: Mapping[str, tuple[tuple[str, ...], ...]] = {
    first: tuple(words for words in _TYPES_OF_WORDS if words[0] == first) for first, *_ in _TYPES_OF_WORDS
}
"""First word → the entries of ``_TYPES_OF_WORDS`` that begin with it, for fast look-ups: every term of an expression
needs one."""
IS_VALUES: dict[str, Callable[[], exp.Expression]] = {
    "null": exp.Null,
    "true": lambda: exp.Boolean(this=True),
    "false": lambda: exp.Boolean(this=False),
}
"""Word → its constant."""


class LiteralParser(CallParser):
    """Constants."""

    def typed_literal(self) -> exp.Expression | None:
        """``TYPE 'text'``, which means CAST('text' AS TYPE), or an INTERVAL; None if neither comes next.

        Raises:
            UnreadableError: FORM_INSTEAD, a type of another dialect.
        """
        token, next_kind = self._curr, self.ahead().token_type
        if token.text == "interval" and next_kind in (TokenType.STRING, TokenType.NUMBER):
            return self._interval()
        if token.text in SCALARS and self.ahead(self._type_length()).token_type is TokenType.STRING:
            type_ = type_node(self.data_type())
            return placed(exp.Cast(this=self._text_literal(), to=type_), token)
        if token.text == "x" and next_kind is TokenType.STRING:
            raise self.refuse("FORM_INSTEAD", token, written="a literal of bytes", instead="UNHEX('48692E')")
        for words in _BEGINNING.get(token.text, ()):
            if self.at_words(*words) and self.ahead(len(words)).token_type is TokenType.STRING:
                text = self.ahead(len(words)).text.replace("'", "''")
                written = f"a literal of type {' '.join(words).upper()}"
                instead = f"CAST('{text}' AS {_TYPES_OF_WORDS[words]})"
                raise self.refuse("FORM_INSTEAD", token, written=written, instead=instead)
        return None

    def _type_length(self) -> int:
        """Number of tokens of a type, with numbers in parentheses if it has them: ``DECIMAL(10, 2)``."""
        if self.ahead().token_type is not TokenType.L_PAREN:
            return 1
        return 6 if self.ahead(3).token_type is TokenType.COMMA else 4

    def _text_literal(self) -> exp.Expression:
        token = self.need_symbol(TokenType.STRING, "a text in quotes")
        if self.at_symbol(TokenType.STRING):
            raise self.refuse("SYNTAX_UNEXPECTED", found="a second text in quotes")
        if "${" in token.text:
            reference = token.text[token.text.index("${") :].partition("}")[0] + "}"
            self.note("ENVIRONMENT_REFERENCE_IN_QUERY", token, reference=reference)
        return placed(exp.Literal(this=token.text, is_string=True), token)

    def _number_literal(self) -> exp.Expression:
        token = self.number()
        self._no_word_glued_to(token)
        return placed(exp.Literal(this=token.text, is_string=False), token)

    def _no_word_glued_to(self, token: Token) -> None:
        if self._curr.token_type is TokenType.VAR and self._curr.start == token.end + 1:
            raise self.refuse("SYNTAX_UNEXPECTED", found=self.found())

    def _constant(self) -> exp.Expression:
        token = self.next_token()
        return placed(IS_VALUES[token.text](), token)

    def _interval(self) -> exp.Expression:
        token = self.next_token()
        amount = self.next_token()
        unit = INTERVAL_UNITS.get(self._curr.text) if self._curr.token_type is TokenType.VAR else None
        if unit is None:
            self._check_amount(amount)
            self.check_unit(INTERVAL_UNITS)
            raise self.expected(" or ".join(sorted({*INTERVAL_UNITS.values()})))
        if _AMOUNTS[unit].fullmatch(amount.text.strip()) is None:
            expected = "a whole number" if _AMOUNTS[unit] is _WHOLE else "a number"
            raise self.refuse("SYNTAX_EXPECTED", amount, expected=expected, found=f"'{amount.text}'")
        self._advance()
        return placed(exp.Interval(this=exp.Literal.string(amount.text), unit=exp.Var(this=unit)), token)

    def _check_amount(self, amount: Token) -> None:
        """Refuse an amount whose unit is inside the quotes: ``INTERVAL '5 minutes'``."""
        number, _, unit = amount.text.strip().partition(" ")
        if INTERVAL_UNITS.get(unit.strip().lower()) is not None:
            written, instead = "an INTERVAL with its unit in quotes", f"INTERVAL '{number}' {unit.strip().upper()}"
            raise self.refuse("FORM_INSTEAD", amount, written=written, instead=instead)
