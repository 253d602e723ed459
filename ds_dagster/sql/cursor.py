"""The lowest layer of the parser: a cursor over one statement's tokens, and its refusals.

Words are matched by their folded text. A mistake that makes the rest unreadable raises :class:`UnreadableError`. Other
mistakes (a duplicate property, a clause that has no meaning) are noted, so that several are reported together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.diagnostics import Severity, Span
from ds_dagster.names import fold, meant, nearest
from ds_dagster.sql.hints.mistakes import Mistake, UnreadableError
from ds_dagster.sql.source import SourceText
from ds_dagster.sql.statements import WrittenName
from ds_dagster.sql.tokens import LITERALS

T = TypeVar("T")
MAX_DEPTH = 50
NOTHING_RESERVED: frozenset[str] = frozenset()
END = Token(TokenType.SENTINEL, "")
_RESERVED = """
    all and as between by case cast create cross distinct else end except exists false from full group having in inner
    insert intersect into is join left like limit natural not null offset on or order outer partition right select then
    true try_cast union using values when where with within
"""
RESERVED = frozenset(_RESERVED.split())
KEYWORDS = RESERVED | {"partition", "primary", "key", "query", "store", "stream", "changelog", "materialized", "view"}
"""Words that hints suggest for a misspelt word."""
_EXPECTING = re.compile(r"Expect(?:ing|ed) (?P<what>.+?)(?: but got.*)?$")


class CursorParser(Parser):
    """Cursor, names, spans and refusals."""

    def begin(self, source: SourceText, tokens: tuple[Token, ...]) -> None:
        """Start with the tokens of one statement."""
        self.reset()
        self.source = source
        self.notes: list[Mistake] = []
        self._depth = 0
        self._sub_selects = 0
        self._finite = False
        self._has_over = False
        self._named: dict[str, Any] = {}
        self._tokens = list(tokens)
        self._tokens_size = len(self._tokens)
        self._advance(0)

    def _parse_batch_statements(
        self, parse_method: Callable[[Parser], exp.Expr | None], sep_first_statement: bool = True
    ) -> list[exp.Expr | None]:
        """Called by sqlglot (``sqlglot.parse_one``, ``exp.condition``): initializes what :meth:`begin` does."""
        self.source = SourceText("<text>", self.sql)
        self.notes, self._depth, self._sub_selects, self._named = [], 0, 0, {}
        self._finite = self._has_over = False
        return super()._parse_batch_statements(parse_method, sep_first_statement)

    # looking

    def at(self, word: str) -> bool:
        """Whether the next token is this word (lower case)."""
        token = self._curr
        return token.text == word and token.token_type is TokenType.VAR

    def at_any(self, words: frozenset[str] | Mapping[str, object]) -> bool:
        """Whether the next token is one of these words."""
        return self._curr.token_type is TokenType.VAR and self._curr.text in words

    def at_words(self, *words: str) -> bool:
        """Whether the next tokens are these words."""
        tokens, index = self._tokens, self._index
        if index + len(words) > self._tokens_size:
            return False
        return all(
            tokens[index + position].text == word and tokens[index + position].token_type is TokenType.VAR
            for position, word in enumerate(words)
        )

    def at_symbol(self, symbol: TokenType) -> bool:
        """Whether the next token is this symbol."""
        return self._curr.token_type is symbol

    def ahead(self, count: int = 1) -> Token:
        """The token ``count`` places after the next one; ``END`` if there is none."""
        index = self._index + count
        return self._tokens[index] if index < self._tokens_size else END

    @property
    def ended(self) -> bool:
        """Whether no token is left."""
        return self._index >= self._tokens_size

    # taking

    def take(self, *words: str) -> bool:
        """Consume these words if all of them come next; otherwise nothing."""
        if not self.at_words(*words):
            return False
        self._advance(len(words))
        return True

    def take_symbol(self, symbol: TokenType) -> bool:
        """Consume a symbol if it comes next."""
        if self._curr.token_type is not symbol:
            return False
        self._advance()
        return True

    def need(self, *words: str) -> None:
        """Consume these words.

        Raises:
            UnreadableError: SYNTAX_EXPECTED.
        """
        for word in words:
            if not self.take(word):
                raise self.expected(word.upper())

    def need_symbol(self, symbol: TokenType, shown: str) -> Token:
        """Consume a symbol; ``shown`` is its name in messages.

        Raises:
            UnreadableError: SYNTAX_EXPECTED.
        """
        if self._curr.token_type is not symbol:
            raise self.expected(shown)
        self._advance()
        return self._prev

    def number(self) -> Token:
        """Consume a number. The tokenizer reads ``1e`` as a number, this refuses it.

        Raises:
            UnreadableError: SYNTAX_EXPECTED.
        """
        token = self.need_symbol(TokenType.NUMBER, "a number")
        if token.text[-1] in "eE":
            raise self.refuse("SYNTAX_EXPECTED", token, expected="a number", found=token.text)
        return token

    def next_token(self) -> Token:
        """Consume the next token, of any kind."""
        self._advance()
        return self._prev

    def listed(self, item: Callable[[], T], closing: str = ")") -> list[T]:
        """``( item, … )``."""
        self.need_symbol(TokenType.L_PAREN, "(")
        items = [item()]
        while self.take_symbol(TokenType.COMMA):
            items.append(item())
        self.need_symbol(TokenType.R_PAREN, f"',' or '{closing}'")
        return items

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One level of nesting.

        Raises:
            UnreadableError: SYNTAX_TOO_DEEP, more than ``MAX_DEPTH`` levels.
        """
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.refuse("SYNTAX_TOO_DEEP", limit=MAX_DEPTH)
        yield
        self._depth -= 1

    # names

    def name_token(self, role: str, reserved: frozenset[str] = RESERVED) -> Token:
        """Consume an identifier: quoted, or a word that is not in ``reserved``."""
        token = self._curr
        if token.token_type is TokenType.IDENTIFIER:
            if not token.text:
                raise self.expected(role)
        elif token.token_type is not TokenType.VAR:
            raise self.expected(role)
        elif token.text in reserved:
            raise self.refuse("SYNTAX_RESERVED_WORD", word=token.text, role=role)
        elif not token.text.isidentifier():
            raise self.refuse("SYNTAX_BAD_CHARACTER", character=_odd_character(token.text))
        self._advance()
        return token

    def simple_name(self, role: str) -> WrittenName:
        """A name of one part."""
        token = self.name_token(role)
        return WrittenName((self.folded(token),), self.span(token))

    def written_name(self, role: str, limit: int = 3) -> WrittenName:
        """A name of up to ``limit`` parts with dots between them."""
        first = token = self.name_token(role)
        parts = [self.folded(first)]
        while self.take_symbol(TokenType.DOT):
            token = self.name_token("a name after the dot")
            parts.append(self.folded(token))
        if len(parts) > limit:
            raise self.refuse("NAME_TOO_MANY_PARTS", first, name=".".join(parts), count=len(parts), limit=limit)
        return WrittenName(tuple(parts), self.span(first, token))

    @staticmethod
    def folded(token: Token) -> str:
        """The identifier in a token."""
        return fold(token.text, quoted=token.token_type is TokenType.IDENTIFIER)

    # refusing

    def span(self, first: Token, last: Token | None = None) -> Span:
        """Span from the first token to the end of the last one (default: of the first)."""
        return self.source.span(first.start, (last or first).end + 1)

    def refuse(
        self, condition: str, token: Token | None = None, *, related: tuple[Span, ...] = (), **params: object
    ) -> UnreadableError:
        """The exception to raise, with the position of ``token`` (default: the next token)."""
        return UnreadableError(self._mistake(condition, token, related, params))

    def note(
        self,
        condition: str,
        token: Token | None = None,
        *,
        related: tuple[Span, ...] = (),
        severity: Severity = "error",
        **params: object,
    ) -> None:
        """Note a mistake and continue."""
        self.notes.append(replace(self._mistake(condition, token, related, params), severity=severity))

    def _mistake(
        self, condition: str, token: Token | None, related: tuple[Span, ...], params: dict[str, object]
    ) -> Mistake:
        if condition in ("SYNTAX_EXPECTED", "SYNTAX_UNEXPECTED"):
            params = {"fix": self._fix(params), **params}
        if token is None and self.ended and self._tokens:
            end = self._tokens[-1].end + 1
            return Mistake(self.source, end, end, condition, params, related)
        at = token or self._curr
        return Mistake(self.source, at.start, at.end + 1, condition, params, related)

    def _fix(self, params: Mapping[str, object]) -> str:
        """The hint: a suggestion for a misspelt keyword at the cursor or before it, otherwise the expected text."""
        expected = str(params.get("expected", ""))
        slip = self._slip(expected)
        if slip:
            return slip
        words = [word.lower() for word in re.findall(r"\b[A-Z]{2,}\b", expected)]
        for token, candidates in ((self._curr, words), (self._prev, KEYWORDS), (self._curr, KEYWORDS)):
            if token.token_type is not TokenType.VAR or token.text in KEYWORDS:
                continue
            near = meant(token.text, candidates) or next(iter(nearest(token.text, KEYWORDS, 1, cutoff=0.7)), "")
            if near and near in KEYWORDS | set(words):
                return f"did you mean {near.upper()} instead of {token.text.upper()}?"
        return f"write {expected} there" if expected else "remove it, or end the statement before it"

    def _slip(self, expected: str) -> str:
        """The hint for a common slip that the two tokens at the cursor show; empty if there is none."""
        kinds = (self._prev.token_type if self._prev else TokenType.SENTINEL, self._curr.token_type)
        if kinds[1] is TokenType.STRING and expected.endswith("number"):
            return "write it without quotes: 5 MINUTES"
        if kinds[1] is TokenType.NUMBER and expected.startswith("SIZE "):
            return "write SIZE before it"
        if expected == "an expression" and kinds[1] is TokenType.VAR and self._curr.text in KEYWORDS:
            name = self._curr.text
            comma = kinds[0] is TokenType.COMMA and name == "from"
            return "remove the comma before FROM" if comma else f'quote the name if it is a column: "{name}"'
        return _SLIPS.get(kinds, "")

    def expected(self, what: str) -> UnreadableError:
        """The refusal for a missing ``what``: SYNTAX_EXPECTED with the token that is there instead."""
        return self.refuse("SYNTAX_EXPECTED", expected=what, found=self.found())

    def check_unit(self, units: Iterable[str]) -> None:
        """Refuse the next word if it looks like a misspelt unit of time.

        Raises:
            UnreadableError: UNIT_UNKNOWN.
        """
        close = nearest(self._curr.text, units, cutoff=0.7) if self._curr.token_type is TokenType.VAR else ()
        if close:
            raise self.refuse("UNIT_UNKNOWN", name=self.found(), nearest=", ".join(close).upper())

    def found(self, token: Token | None = None) -> str:
        """The name of a token in messages (default: the next one). Texts in quotes may be secrets and are not shown."""
        token = token or self._curr
        if self.ended and token is self._curr:
            return "the end of the statement"
        if token.token_type is TokenType.STRING:
            return "a text in quotes"
        if token.token_type in LITERALS or token.token_type is not TokenType.VAR:
            return self.source.text[token.start : token.end + 1]
        return token.text.upper()

    def raise_error(self, message: str, token: Token = END) -> None:
        """Called by sqlglot for its own refusals: raises SYNTAX_EXPECTED or SYNTAX_UNEXPECTED."""
        at = token if token.token_type is not TokenType.SENTINEL else None
        match = _EXPECTING.match(message)
        if match:
            raise self.refuse("SYNTAX_EXPECTED", at, expected=match["what"], found=self.found(at))
        raise self.refuse("SYNTAX_UNEXPECTED", at, found=self.found(at))


_SLIPS = {
    (TokenType.STRING, TokenType.STRING): "write a comma before it",
    (TokenType.EQ, TokenType.EQ): "write = once",
    (TokenType.R_PAREN, TokenType.L_PAREN): "write WITH before it",
    (TokenType.ARROW, TokenType.GT): "for a JSON text write JSON_VALUE(text, '$.name')",
    (
        TokenType.VAR,
        TokenType.COLON,
    ): "for a JSON text write JSON_VALUE(text, '$.name'); for a STRUCT write value->name",
}
"""Kinds of two neighbouring tokens that are a mistake → hint."""


def _odd_character(text: str) -> str:
    odd = next((character for character in text if not character.isidentifier() and not character.isdigit()), text[:1])
    return repr(odd)
