"""Blanks between two tokens on one line."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.cursor import RESERVED
from ds_dagster.sql.formatting.pieces import OPENING, brackets
from ds_dagster.sql.formatting.words import angles

_GLUED_BEFORE = frozenset(
    {TokenType.COMMA, TokenType.SEMICOLON, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.DOT, TokenType.DCOLON,
     TokenType.ARROW}
)  # fmt: skip
_GLUED_AFTER = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.DOT, TokenType.DCOLON, TokenType.ARROW})
_SPACED = frozenset(
    {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.PLUS,
     TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.DPIPE}
)  # fmt: skip
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_VALUES = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.R_PAREN, TokenType.R_BRACKET})
_CALLED = frozenset({"left", "right", "cast", "try_cast", "exists"})
"""Reserved words that are written like functions."""
_SPACED_WORDS = frozenset({"over", "filter", "check", "pattern", "match_recognize", "key", "columns", "group", "sets"})
"""Words with a blank before their bracket."""


def blanks(tokens: Sequence[Token], originals: Sequence[bool]) -> list[bool]:
    """For each token whether a blank precedes it; ``originals``: the same for the text of the file."""
    types = {place for pair in angles(tokens) for place in pair}
    as_written = _patterns(tokens)
    lists = _list_of_create(tokens)
    return [
        originals[place] if place in as_written else place > 0 and _is_blank(tokens, place, types, lists, originals)
        for place in range(len(tokens))
    ]


def _patterns(tokens: Sequence[Token]) -> set[int]:
    """Indexes of tokens inside of ``PATTERN (…)``, where blanks stay as they were written."""
    places: set[int] = set()
    for opening, closing in brackets(tokens).items():
        if opening and tokens[opening - 1].text == "pattern":
            places.update(range(opening + 1, closing + 1))
    return places


def _list_of_create(tokens: Sequence[Token]) -> int:
    """Index of the bracket after the name of CREATE or INSERT INTO; 0 if there is none."""
    words = [token.text for token in tokens]
    begin = next((place for place, word in enumerate(words[:6]) if word in ("create", "insert")), -1)
    if begin < 0 or "function" in words[begin : begin + 2] or "entity" in words[begin : begin + 3]:
        return 0
    for place in range(begin, len(tokens)):
        if words[place] in ("as", "with", "select"):
            return 0
        if tokens[place].token_type is TokenType.L_PAREN:
            return place
    return 0


def _is_blank(tokens: Sequence[Token], place: int, types: set[int], lists: int, originals: Sequence[bool]) -> bool:
    kind, before = tokens[place].token_type, tokens[place - 1].token_type
    if place in types or place - 1 in types:
        return place - 1 in types and before is TokenType.GT and kind in (*_NAMES, TokenType.STRING)
    if kind in _GLUED_BEFORE or before in _GLUED_AFTER:
        return False
    if kind is TokenType.L_PAREN:
        return place == lists or _is_blank_before_bracket(tokens[place - 1])
    if kind is TokenType.L_BRACKET:
        return before not in (*_NAMES, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.STRING)
    if _is_sign(tokens, place - 1):
        return kind is TokenType.DASH
    if kind in _SPACED or before in _SPACED or before is TokenType.COMMA:
        return True
    if kind in (*_NAMES, *_VALUES) and before in (*_NAMES, *_VALUES):
        return not (kind in _NAMES and before is TokenType.NUMBER) or originals[place]
    return originals[place]


def _is_blank_before_bracket(before: Token) -> bool:
    if before.token_type is TokenType.VAR:
        is_word = before.text in RESERVED or before.text in _SPACED_WORDS
        return is_word and before.text not in _CALLED
    return before.token_type is not TokenType.IDENTIFIER


def _is_sign(tokens: Sequence[Token], place: int) -> bool:
    """Whether a minus or plus is the sign of the next token, not an operator."""
    if tokens[place].token_type not in (TokenType.DASH, TokenType.PLUS):
        return False
    if not place:
        return True
    before = tokens[place - 1]
    if before.token_type is TokenType.VAR:
        return before.text in RESERVED and before.text not in ("end", "null", "true", "false")
    return before.token_type in _SPACED or before.token_type in OPENING or before.token_type is TokenType.COMMA
