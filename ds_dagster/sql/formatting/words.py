"""Finds the keywords of a statement. Words without quotes are folded, so changing their case is safe."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.cursor import RESERVED
from ds_dagster.sql.formatting.pieces import brackets, enclosing
from ds_dagster.sql.typetext import NESTED, SCALARS

_HEAD_WORDS = """
    create virtual store stream changelog table materialized view database schema schema_registry secret function
    descriptor_source function_source compute_pool entity if not exists insert into use update begin end application
    print list show describe drop terminate restart query
"""
_HEAD = frozenset(_HEAD_WORDS.split())
"""Words at the beginning of a statement, before its name."""
_PHRASES = tuple(
    tuple(phrase.split())
    for phrase in (
        "primary key", "query with", "advance by", "nulls first", "nulls last", "current row", "unbounded preceding",
        "unbounded following", "rows between", "range between", "rows unbounded", "range unbounded", "at time zone",
        "is json", "is not json", "with ordinality", "grouping sets", "on violation", "within group", "rows interval",
        "range interval", "after match skip past last row", "after match skip to next row", "after match skip to first",
        "after match skip to last", "distinct from", "similar to", "not similar to", "end application", "in store",
        "in database",
    )
)  # fmt: skip
_BEFORE_BRACKET = frozenset(
    {"over", "filter", "pattern", "match_recognize", "tumble", "hop", "cumulate", "session", "unnest", "check",
     "rollup", "cube", "value"}
)  # fmt: skip
_BEFORE_NUMBER = frozenset({"size", "gap", "step", "rows", "for"})
_UNITS = frozenset(
    unit + plural
    for unit in ("millisecond", "second", "minute", "hour", "day", "month", "year")
    for plural in ("", "s")
)
_OF_PATTERNS = frozenset({"measures", "define", "pattern", "after"})
_VIOLATION = frozenset({"warn", "drop", "row", "quarantine", "fail", "update"})
_OPERATORS = frozenset({"ilike", "escape", "asc", "desc", "preceding", "following", "recursive", "emit"})
TYPES = frozenset((*SCALARS, *NESTED))
_OF_NAMES = frozenset({TokenType.DOT, TokenType.ARROW})
_BEFORE_TYPE = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.COMMA, TokenType.LT})
_BEHIND_TYPE = frozenset({TokenType.COMMA, TokenType.GT, TokenType.LT, TokenType.L_PAREN})


def with_groups(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Brackets of properties: ``WITH ('name' = value)``."""
    closing = brackets(tokens)
    return [
        (place, closing[place])
        for place in closing
        if place and tokens[place - 1].text == "with" and tokens[place + 1].token_type is TokenType.STRING
    ]


def printed(tokens: Sequence[Token], texts: Sequence[str]) -> list[str]:
    """The texts with keywords in upper case. Properties in ``WITH (…)`` do not change."""
    untouched = {place for first, last in with_groups(tokens) for place in range(first, last)}
    keywords = _keywords(tokens) - untouched
    return [text.upper() if place in keywords else text for place, text in enumerate(texts)]


def _keywords(tokens: Sequence[Token]) -> set[int]:
    words = [token.text if token.token_type is TokenType.VAR else "" for token in tokens]
    kinds = [token.token_type for token in tokens]
    places = {place for place in range(len(tokens)) if _is_keyword(words, kinds, place)}
    for place in range(len(tokens)):
        for phrase in _PHRASES:
            if tuple(words[place : place + len(phrase)]) == phrase:
                places.update(range(place, place + len(phrase)))
    return {
        place
        for place in places | _heads(words) | _types(tokens, words, kinds) | _violations(words)
        if not (place and kinds[place - 1] in _OF_NAMES) and kinds[place + 1 : place + 2] != [TokenType.DOT]
    }


def _is_keyword(words: Sequence[str], kinds: Sequence[TokenType], place: int) -> bool:
    word = words[place]
    after = kinds[place + 1] if place + 1 < len(kinds) else None
    before = kinds[place - 1] if place else None
    if not word or after is TokenType.DOT:
        return False
    if word in RESERVED:
        return word not in ("left", "right") or after is not TokenType.L_PAREN
    if after is TokenType.L_PAREN and word in _BEFORE_BRACKET:
        return True
    if after is TokenType.NUMBER and word in _BEFORE_NUMBER:
        return True
    if after is TokenType.STRING and (word in SCALARS or word in ("interval", "comment")):
        return True
    if after in (TokenType.L_BRACKET, TokenType.LT) and word in NESTED:
        return True
    if word in _UNITS and place > 1:
        is_interval = before is TokenType.STRING and words[place - 2] == "interval"
        return before is TokenType.NUMBER or is_interval
    is_operator = word in _OPERATORS and bool(place) and before is not TokenType.COMMA
    return is_operator or (word in _OF_PATTERNS and "match_recognize" in words)


def _heads(words: Sequence[str]) -> set[int]:
    places: set[int] = set()
    begin = 0
    while begin < len(words) and words[begin] in _HEAD:
        end = begin
        while end < len(words) and words[end] in _HEAD:
            end += 1
        places.update(range(begin, end))
        begin = end + 1 if words[begin : begin + 2] == ["begin", "application"] else len(words)
    return places


def _violations(words: Sequence[str]) -> set[int]:
    places: set[int] = set()
    for place, word in enumerate(words):
        if word == "violation":
            place += 1
            while place < len(words) and words[place] in _VIOLATION:
                places.add(place)
                place += 1
        elif word == "constraint" and words[place + 2 : place + 3] == ["check"]:
            places.add(place)
    return places


def _types(tokens: Sequence[Token], words: Sequence[str], kinds: Sequence[TokenType]) -> set[int]:
    """Indexes of types: of columns in a list, after ``AS`` in a CAST, after ``::`` and RETURNS, and in ``<…>``."""
    around = enclosing(tokens)
    columns = _column_list(words, kinds)
    places: set[int] = set()
    for place, word in enumerate(words):
        if word not in TYPES or not place:
            continue
        before, bracket = words[place - 1], around[place]
        is_cast = before == "as" and bracket > 0 and words[bracket - 1] in ("cast", "try_cast")
        is_column = bracket == columns and columns >= 0 and kinds[place - 1] in (TokenType.VAR, TokenType.IDENTIFIER)
        in_angles = kinds[place - 1] is TokenType.LT and words[place - 2] in NESTED
        if is_cast or in_angles or is_column or kinds[place - 1] is TokenType.DCOLON or before == "returns":
            places.add(place)
    inside = {place for first, last in angles(tokens) for place in range(first, last) if words[place] in TYPES}
    return places | {place for place in inside if kinds[place - 1] in _BEFORE_TYPE and kinds[place + 1] in _BEHIND_TYPE}


def _column_list(words: Sequence[str], kinds: Sequence[TokenType]) -> int:
    """Index of the opening bracket of a column list; -2 if there is none."""
    if not words or words[0] != "create":
        return -2
    for place, kind in enumerate(kinds):
        if words[place] in ("as", "with"):
            return -2
        if kind is TokenType.L_PAREN:
            return place
    return -2


def angles(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Indexes of the ``<`` and ``>`` of types."""
    pairs: list[tuple[int, int]] = []
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.LT and place and tokens[place - 1].text in NESTED:
            opened.append(place)
        elif token.token_type is TokenType.GT and opened:
            pairs.append((opened.pop(), place))
        elif token.token_type is TokenType.SEMICOLON:
            opened.clear()
    return pairs
