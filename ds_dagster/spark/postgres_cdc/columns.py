"""Texts of the server → typed Arrow columns, a whole column at a time. A value that does not fit becomes null and is
marked as bad; the scan's rule for bad records decides about its record.

The texts come from the server's output functions with ``DateStyle ISO``, ``TimeZone UTC``, ``bytea_output hex``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.errors import error
from ds_dagster.spark.postgres_cdc.tuples import Mask, gather

BYTEA, BPCHAR = 17, 1042
"""OIDs of ``bytea`` and ``character(n)``: the same in every server (pg_type.dat)."""

ARROW: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "BOOLEAN": pa.bool_(),
        "VARCHAR": pa.string(),
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "DATE": pa.date32(),
        "TIME": pa.time64("us"),
        "TIMESTAMP": pa.timestamp("us"),
        "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
        "VARBINARY": pa.binary(),
    }
)
"""Scalar name → Arrow type for Spark. DECIMAL is not listed: its type depends on precision and scale."""


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A typed column. ``bad``: where a text was not a valid value of the type; None if all are valid."""

    values: pa.Array
    bad: Mask | None = None


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type for a declared type."""
    if isinstance(type_, ArrayType):
        return pa.list_(arrow_type(type_.element))
    if isinstance(type_, StructType):
        return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in type_.fields])
    if isinstance(type_, MapType):
        raise error("INTERNAL", where=f"a column of Postgres as {type_}")
    if type_.name == "DECIMAL":
        return pa.decimal128(type_.precision or 10, type_.scale or 0)
    return ARROW[type_.name]


def typed(texts: pa.Array, oid: int, type_: DataType) -> TypedColumn:
    """A column of texts in a declared type.

    Args:
        texts: texts from the server.
        oid: OID of the server's type.
        type_: declared type; a scalar or an ARRAY of scalars or ARRAYs.
    """
    if isinstance(type_, ArrayType):
        return _arrays(texts, type_)
    if isinstance(type_, MapType | StructType):
        raise error("INTERNAL", where=f"a column of Postgres as {type_}")
    if texts.null_count == len(texts):
        return TypedColumn(pa.nulls(len(texts), arrow_type(type_)))
    if type_.name in ("VARCHAR", "VARBINARY"):
        return _characters_or_bytes(texts, oid, type_)
    if type_.name == "BOOLEAN":
        return _booleans(texts)
    return _cast(texts, arrow_type(type_))


def _characters_or_bytes(texts: pa.Array, oid: int, type_: Scalar) -> TypedColumn:
    if type_.name == "VARBINARY":
        return TypedColumn(unhex(texts) if oid == BYTEA else texts.cast(pa.binary()))
    # a snapshot reads character(n) without its padding, so changes do too
    return TypedColumn(pc.utf8_rtrim(texts, " ") if oid == BPCHAR else texts)


def _booleans(texts: pa.Array) -> TypedColumn:
    is_true = pc.is_in(texts, pa.array(["t", "true"]))
    is_valid = pc.is_in(texts, pa.array(["t", "true", "f", "false"]))
    return _checked(pc.if_else(pc.is_valid(texts), is_true, pa.scalar(None, pa.bool_())), texts, is_valid)


def _checked(values: pa.Array, texts: pa.Array, is_valid: pa.Array) -> TypedColumn:
    bad = pc.and_(pc.is_valid(texts), pc.invert(is_valid)).to_numpy(zero_copy_only=False)
    if not bad.any():
        return TypedColumn(values)
    return TypedColumn(pc.if_else(pa.array(~bad), values, pa.scalar(None, values.type)), bad)


def _cast(texts: pa.Array, type_: pa.DataType) -> TypedColumn:
    if pa.types.is_time(type_):
        moments = _cast(pc.binary_join_element_wise("1970-01-01", texts, " "), pa.timestamp("us"))
        return TypedColumn(moments.values.cast(type_), moments.bad)
    try:
        return TypedColumn(texts.cast(type_))
    except pa.ArrowInvalid:
        return _by_halves(texts, type_)


def _by_halves(texts: pa.Array, type_: pa.DataType) -> TypedColumn:
    """Find the values that do not fit by halving; all others are cast in large parts."""
    if len(texts) == 1:
        try:
            return TypedColumn(texts.cast(type_))
        except pa.ArrowInvalid:
            return TypedColumn(pa.nulls(1, type_), np.ones(1, bool))
    middle = len(texts) // 2
    parts = [_cast(texts[:middle], type_), _cast(texts[middle:], type_)]
    bad = [np.zeros(len(part.values), bool) if part.bad is None else part.bad for part in parts]
    return TypedColumn(pa.concat_arrays([part.values for part in parts]), np.concatenate(bad))


_NIBBLES = np.zeros(256, np.uint8)
_NIBBLES[[ord(c) for c in "0123456789abcdef"]] = np.arange(16, dtype=np.uint8)


def unhex(texts: pa.Array) -> pa.Array:
    """Texts ``\\x…`` as bytes."""
    valid = pc.is_valid(texts).to_numpy(zero_copy_only=False)
    _, offsets, data = texts.buffers()
    wide = pa.types.is_large_string(texts.type)
    every = np.frombuffer(offsets, np.int64 if wide else np.int32)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.where(valid, np.diff(every) - 2, 0).astype(np.int64)
    digits = gather(np.frombuffer(data or b"", np.uint8), every[:-1].astype(np.int64) + 2, lengths, valid)
    _, offsets, data = digits.buffers()
    held = np.frombuffer(data, np.uint8)
    joined_nibbles = (_NIBBLES[held[0::2]] << 4) | _NIBBLES[held[1::2]]
    halves = pa.py_buffer(
        (np.frombuffer(offsets, np.int64 if pa.types.is_large_string(digits.type) else np.int32) // 2).astype(np.int32)
    )
    return pa.Array.from_buffers(pa.binary(), len(digits), [digits.buffers()[0], halves, pa.py_buffer(joined_nibbles)])


# --- arrays -----------------------------------------------------------------------------------------------------------


def _arrays(texts: pa.Array, type_: ArrayType) -> TypedColumn:
    """Arrays; a value with more or fewer dimensions than declared is bad."""
    offsets, elements = [0], []
    bad = np.zeros(len(texts), bool)
    missing = np.zeros(len(texts), bool)
    for at, text in enumerate(texts.to_pylist()):
        parts = None if text is None else _elements_at(text, is_deeper=isinstance(type_.element, ArrayType))
        missing[at] = parts is None
        bad[at] = text is not None and parts is None
        elements += parts or []
        offsets.append(len(elements))
    inside = _elements(elements, type_.element)
    if inside.bad is not None:
        first = np.searchsorted(np.asarray(offsets), np.flatnonzero(inside.bad), side="right") - 1
        bad[first] = missing[first] = True
    array = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), inside.values, mask=pa.array(missing) if missing.any() else None
    )
    return TypedColumn(array, bad if bad.any() else None)


def _elements_at(text: str, *, is_deeper: bool) -> list[str | None] | None:
    """The texts of an array's elements; None if the text is not an array, or if its elements are arrays and
    ``is_deeper`` is false, or the reverse."""
    parts = parse_array(text)
    fits = parts is not None and all(part is None or isinstance(part, InnerArray) == is_deeper for part in parts)
    return parts if fits else None


def _elements(parts: list[str | None], type_: DataType) -> TypedColumn:
    texts = pa.array(parts, pa.string())
    if isinstance(type_, Scalar) and type_.name == "VARBINARY":
        return typed(texts, BYTEA, type_)
    return typed(texts, 0, type_)


class InnerArray(str):
    """The text of an array inside another array; a quoted text that only looks like an array is a plain ``str``."""

    __slots__ = ()


def parse_array(text: str) -> list[str | None] | None:
    """The elements of an array's text, inner arrays as :class:`InnerArray`; None if it is not an array.

    Source of the rule: PostgreSQL documentation, "Array Input and Output Syntax".
    """
    if text.startswith("["):  # bounds other than 1 are written first
        text = text.partition("=")[2]
    if len(text) < 2 or text[0] != "{" or text[-1] != "}":
        return None
    return [] if text == "{}" else list(_parts(text[1:-1]))


def _parts(text: str) -> Iterator[str | None]:
    at = 0
    while at <= len(text):
        step = _STEPS.get(text[at : at + 1], _plain)
        part, at = step(text, at)
        yield part
        at += 1


def _quoted(text: str, at: int) -> tuple[str | None, int]:
    characters, at = [], at + 1
    while text[at] != '"':
        at += text[at] == "\\"
        characters.append(text[at])
        at += 1
    return "".join(characters), at + 1


def _nested(text: str, at: int) -> tuple[str | None, int]:
    begun, depth = at, 0
    while True:
        if text[at] == '"':
            at = _quoted(text, at)[1]
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return InnerArray(text[begun:at]), at


def _plain(text: str, at: int) -> tuple[str | None, int]:
    end = text.find(",", at)
    end = len(text) if end < 0 else end
    part = text[at:end]
    return (None if part == "NULL" else part), end


_STEPS: Mapping[str, Callable[[str, int], tuple[str | None, int]]] = MappingProxyType({'"': _quoted, "{": _nested})
"""First character of an element → how it is read."""
