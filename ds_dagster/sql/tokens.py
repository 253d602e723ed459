"""The dialect's tokenizer.

All words become ``VAR`` tokens. The grammar recognizes keywords by their text, so that nearly every word may be a
column's name and no clause of another dialect is accepted by accident.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

LITERALS = frozenset({TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER})


class DeltaStreamTokenizer(Tokenizer):
    """Quotes: ``'text'`` (doubled inside), ``"name"`` and back-ticks; comments: ``--`` and ``/* */`` (not nested)."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        "/*+": TokenType.HINT,
        "<=": TokenType.LTE,
        ">=": TokenType.GTE,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "||": TokenType.DPIPE,
        "->": TokenType.ARROW,
        "::": TokenType.DCOLON,
    }
    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
    NESTED_COMMENTS = False
    TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = {TokenType.VAR}

    def tokenize(self, sql: str) -> list[Token]:
        """Tokens with unquoted words in lower case and without comments."""
        tokens = super().tokenize(sql)
        for token in tokens:
            if token.token_type not in LITERALS:
                token.text = token.text.lower()
            if token.comments:
                token.comments = []
        return tokens


# Template comments ({# … #}) are not comments here.
DeltaStreamTokenizer._COMMENTS = {
    opening: closing for opening, closing in DeltaStreamTokenizer._COMMENTS.items() if opening != "{#"
}
# N'…' is not a string here.
DeltaStreamTokenizer._FORMAT_STRINGS = {}
