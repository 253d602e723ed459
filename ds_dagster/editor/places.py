"""Places: spans of the compiler (lines and columns from 1, in characters) ↔ positions of the protocol (from 0, in the
units that the editor has chosen, mostly UTF-16)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types
from pygls.workspace import PositionCodec

from ds_dagster.diagnostics import Span
from ds_dagster.editor.project import Snapshot

_WORD = re.compile(r"\w+|\"[^\"\n]*\"|'[^'\n]*'|\S")


def range_of(span: Span, text: str, codec: PositionCodec) -> types.Range:
    """The range of a span; a span without an end ends with the word that begins there."""
    lines = text.splitlines(keepends=True) or [""]
    line = min(span.line, len(lines)) - 1
    column = min(span.column, len(lines[line].rstrip("\r\n")) + 1) - 1
    start = types.Position(line, column)
    if span.end_line is not None and span.end_column is not None:
        end = types.Position(min(span.end_line, len(lines)) - 1, span.end_column - 1)
    else:
        word = _WORD.match(lines[line], column)
        end = types.Position(line, word.end() if word else column)
    return codec.range_to_client_units(lines, types.Range(start, end))


def location_of(snapshot: Snapshot, span: Span, codec: PositionCodec) -> types.Location:
    """The place of a span in a file of a project."""
    return types.Location((snapshot.root / span.file).as_uri(), range_of(span, snapshot.texts[span.file], codec))


def range_between(text: str, start: int, end: int, codec: PositionCodec) -> types.Range:
    """The range between two offsets of a text."""
    lines = text.splitlines(keepends=True) or [""]
    return codec.range_to_client_units(lines, types.Range(_position(text, start), _position(text, end)))


def offset_at(position: types.Position, text: str, codec: PositionCodec) -> int:
    """The offset of an editor's position in a text."""
    lines = text.splitlines(keepends=True) or [""]
    if position.line >= len(lines):
        return len(text)
    own = codec.position_from_client_units(lines, position)
    return sum(map(len, lines[: own.line])) + own.character


def whole(text: str, codec: PositionCodec) -> types.Range:
    """The range of a whole text."""
    return range_between(text, 0, len(text), codec)


def _position(text: str, offset: int) -> types.Position:
    before: Sequence[str] = text[:offset].splitlines(keepends=True)
    if not before or before[-1].endswith(("\n", "\r")):
        return types.Position(len(before), 0)
    return types.Position(len(before) - 1, len(before[-1]))
