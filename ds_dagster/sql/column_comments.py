"""Comments on columns: ``COMMENT 'text'`` in a column list, and ``--`` after a column on its line or above it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.diagnostics import Span
from ds_dagster.sql.source import SourceText, split
from ds_dagster.sql.statements import Origin

_BESIDE = re.compile(r"[ \t]*--[ \t]*([^\r\n]*)")
_ABOVE = re.compile(r"\n[ \t]*--[ \t]*([^\r\n]*)")
_OPEN = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET))
_CLOSE = frozenset((TokenType.R_PAREN, TokenType.R_BRACKET))
_NESTED = frozenset(("array", "map", "struct", "row"))
"""Types with ``<…>`` after their name; elsewhere ``<`` and ``>`` are comparisons."""


@dataclass(frozen=True, slots=True)
class _Lexed:
    source: SourceText
    tokens: tuple[Token, ...]


def column_comments(origin: Origin, columns: Iterable[tuple[str, Span | None]]) -> Mapping[str, str]:
    """Column → its comment, for the columns of a column list or the items of a SELECT.

    The order of precedence: ``COMMENT 'text'``, a ``--`` comment on the line where the column ends, whole lines of
    ``--`` directly above the column. Columns without a comment are left out.

    Args:
        origin: origin of the statement.
        columns: (name, span) of each column; a column without a span in the statement has no comment.
    """
    if "--" not in origin.text and "comment" not in origin.text.lower():
        return {}
    source = SourceText(origin.span.file, origin.text)
    pieces = split(source)
    if len(pieces) != 1:
        return {}
    text = _Lexed(source, pieces[0].tokens)
    places = {(token.line, token.col): index for index, token in enumerate(text.tokens)}
    comments: dict[str, str] = {}
    for name, span in columns:
        index = places.get(_place(origin.span, span)) if span else None
        comment = _comment(text, index) if index is not None else ""
        if comment:
            comments[name] = comment
    return comments


def _place(statement: Span, span: Span) -> tuple[int, int]:
    """Line and column of a span in the statement's own text."""
    line = span.line - statement.line + 1
    return line, span.column - statement.column + 1 if line == 1 else span.column


def _comment(text: _Lexed, start: int) -> str:
    end = _end(text.tokens, start)
    for index in range(start + 1, end):
        if text.tokens[index].text == "comment" and text.tokens[index + 1].token_type is TokenType.STRING:
            return text.tokens[index + 1].text
    after = end + 1 if end < len(text.tokens) and text.tokens[end].token_type is TokenType.COMMA else end
    beside = _BESIDE.match(text.source.text, text.tokens[after - 1].end + 1)
    return beside[1].strip() if beside else _above(text, start)


def _end(tokens: tuple[Token, ...], start: int) -> int:
    """Index of the comma, parenthesis or FROM after a column."""
    depth = angles = 0
    for index in range(start, len(tokens)):
        kind = tokens[index].token_type
        if depth + angles == 0 and (kind in _CLOSE or kind is TokenType.COMMA or tokens[index].text == "from"):
            return index
        depth += (kind in _OPEN) - (kind in _CLOSE)
        angles += kind is TokenType.LT and tokens[index - 1].text in _NESTED
        angles -= kind is TokenType.GT and angles > 0
    return len(tokens)


def _above(text: _Lexed, start: int) -> str:
    """Whole lines of ``--`` between a column and the token before it."""
    begin = text.tokens[start - 1].end + 1 if start else 0
    between = text.source.text[begin : text.tokens[start].start]
    return " ".join(line.strip() for line in _ABOVE.findall(between) if line.strip())
