"""Whole rows as JSON texts, for relations that declare ``before`` and ``after`` as text or bytes: with several tables,
rows have no common type. The texts can be parsed into the types that a relation declares.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from types import MappingProxyType

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ds_dagster.spark.postgres_cdc.columns import BPCHAR, BYTEA, InnerArray, parse_array
from ds_dagster.spark.postgres_cdc.pgoutput import SourceTable
from ds_dagster.spark.postgres_cdc.tuples import Tuples

BOOL, JSON, JSONB, TIMESTAMPTZ = 16, 114, 3802, 1184
NUMBERS = frozenset({20, 21, 23, 26, 700, 701, 1700})
"""int8, int2, int4, oid, float4, float8, numeric (pg_type.dat)."""
NUMBER_ARRAYS = frozenset({1005, 1007, 1016, 1021, 1022, 1028, 1231})
BOOL_ARRAY = 1000
TEXT_ARRAYS = frozenset({1002, 1003, 1009, 1014, 1015, 1115, 1182, 1183, 1185, 2951, 199, 3807})
"""char, name, text, bpchar, varchar, timestamp, date, time, timestamptz, uuid, json, jsonb arrays."""


def json_rows(table: SourceTable, rows: Tuples) -> pa.Array:
    """One JSON object per row, with columns in the table's order; null if the row is absent."""
    parts: list[pa.Array | str] = []
    for at, column in enumerate(table.columns):
        name = orjson.dumps(column.name).decode()
        parts += [f"{',' if at else '{'}{name}:", pc.fill_null(_literals(rows.values[at], column.oid), "null")]
    if not parts:
        parts = [pa.array(["{"] * len(rows.present))]
    objects = pc.binary_join_element_wise(*parts, "}", "")
    return objects if rows.present.all() else pc.if_else(pa.array(rows.present), objects, pa.scalar(None, pa.string()))


def _literals(texts: pa.Array, oid: int) -> pa.Array:
    """JSON literals; null stays null."""
    if texts.null_count == len(texts):
        return texts
    return _LITERALS.get(oid, _strings)(texts)


def _strings(texts: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(escaped, r"[\x00-\x1f]")).as_py():
        return _each(texts, lambda text: orjson.dumps(text).decode())
    return pc.binary_join_element_wise('"', escaped, '"', "")


def _numbers(texts: pa.Array) -> pa.Array:
    """Numbers as JSON. NaN and the infinities are not JSON numbers; they become strings, as FLOAT and DOUBLE accept."""
    odd = pc.match_substring_regex(texts, "[a-zA-Z]$")
    return pc.if_else(odd, _strings(texts), texts) if pc.any(odd).as_py() else texts


def _each(texts: pa.Array, make: Callable[[str], str]) -> pa.Array:
    return pa.array([None if text is None else make(text) for text in texts.to_pylist()], pa.string())


def _base64(text: str) -> str:
    return f'"{base64.b64encode(bytes.fromhex(text[2:])).decode()}"'


def _array(make: Callable[[str], object]) -> Callable[[pa.Array], pa.Array]:
    def value(part: str | None) -> object:
        return None if part is None else values(part) if isinstance(part, InnerArray) else make(part)

    def values(text: str) -> object:
        parts = parse_array(text)
        return text if parts is None else [value(part) for part in parts]

    return lambda texts: _each(texts, lambda text: orjson.dumps(values(text)).decode())


def _number(text: str) -> object:
    """A JSON number with all its digits; a string for NaN and the infinities."""
    return text if text[-1:].isalpha() else orjson.Fragment(text)


_LITERALS: Mapping[int, Callable[[pa.Array], pa.Array]] = MappingProxyType(
    {
        **dict.fromkeys(NUMBERS, _numbers),
        **dict.fromkeys(NUMBER_ARRAYS, _array(_number)),
        **dict.fromkeys(TEXT_ARRAYS, _array(str)),
        BOOL_ARRAY: _array(lambda text: text == "t"),
        BOOL: lambda texts: pc.if_else(pc.is_in(texts, pa.array(["t", "true"])), "true", "false"),
        JSON: lambda texts: texts,
        JSONB: lambda texts: texts,
        BYTEA: lambda texts: _each(texts, _base64),
        BPCHAR: lambda texts: _strings(pc.utf8_rtrim(texts, " ")),
        TIMESTAMPTZ: lambda texts: _strings(pc.replace_substring_regex(texts, r"\+00$", "Z")),
    }
)
"""OID of a type → function that returns JSON literals; values of other types become strings."""
