"""Values of results: as JSON (the form that every ``--json`` prints) and as cells of tables."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timezone
from datetime import time as day_time
from decimal import ROUND_HALF_UP, Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.datatypes import INTEGERS, ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.functions.values.casts import read_moment
from ds_dagster.functions.values.float_texts import double_text
from ds_dagster.json_text import to_json

if TYPE_CHECKING:
    import pyarrow

Row = dict[str, Any]
EXACT_DIGITS = 15
"""Decimals whose precision is at most this are JSON numbers, others are texts."""


def json_value(value: Any, type_: DataType) -> Any:
    """A value from SQLite, Postgres or a record as JSON: times in ISO 8601, bytes in base64, at every depth.

    Args:
        value: value from the driver.
        type_: type of the result column.
    """
    if value is None:
        return None
    if not isinstance(type_, Scalar):
        return _nested(json.loads(value) if isinstance(value, str | bytes) else value, type_)
    if type_.name in INTEGERS:
        return int(value)
    return _SHAPES[type_.name](value, type_)


def json_rows(columns: Sequence[tuple[str, DataType]], table: pyarrow.Table) -> list[Row]:
    """Rows of an answer: column → JSON value.

    Args:
        columns: names and types of the columns, in order.
        table: rows of the answer.
    """
    values = [
        [json_value(value, type_) for value in _utc(column).to_pylist()]
        for column, (_, type_) in zip(table.columns, columns, strict=True)
    ]
    names = [name for name, _ in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _utc(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Timestamps without their zone, UTC: with a zone, Arrow's conversion to Python would import pandas."""
    import pyarrow as pa

    is_zoned = pa.types.is_timestamp(column.type) and column.type.tz
    return column.cast(pa.timestamp(column.type.unit)) if is_zoned else column


def cell(value: Any) -> str:
    """A JSON value as text for a cell of a table."""
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else to_json(value)


def line(row: Mapping[str, Any]) -> str:
    """A row as one line of JSON without blanks."""
    return to_json(row, separators=(",", ":"))


def _nested(value: Any, type_: DataType | None) -> Any:
    """A value inside a STRUCT, MAP or ARRAY. Arrow returns maps as pairs, Databricks' connector returns numpy arrays,
    and Postgres and Snowflake store JSON, which loses types."""
    if not isinstance(value, memoryview) and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(type_, MapType):
        pairs = value.items() if isinstance(value, Mapping) else value or ()
        return None if value is None else {str(name): _nested(inner, type_.value) for name, inner in pairs}
    if isinstance(value, Mapping):
        fields = {f.name: f.type for f in type_.fields} if isinstance(type_, StructType) else {}
        return {str(name): _nested(inner, fields.get(str(name))) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_nested(inner, type_.element if isinstance(type_, ArrayType) else None) for inner in value]
    if isinstance(type_, Scalar):
        return json_value(value, type_)
    if isinstance(value, datetime | date | day_time):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    return str(value) if isinstance(value, Decimal) else value


def _truth(value: Any, _: Scalar) -> bool:
    return bool(value)


def _float(value: Any, _: Scalar) -> float | str:
    """A number; one that JSON lacks as the text that records and CAST have for it: NaN, Infinity."""
    number = float(value)
    return number if math.isfinite(number) else double_text(number)


def _decimal(value: Any, type_: Scalar) -> float | str:
    exact = Decimal(str(value)).quantize(Decimal(1).scaleb(-(type_.scale or 0)), rounding=ROUND_HALF_UP)
    return float(exact) if (type_.precision or 0) <= EXACT_DIGITS else str(exact)


def _iso_text(value: Any, _: Scalar) -> str:
    return value.isoformat() if isinstance(value, date | day_time) else str(value)


def _timestamp(value: Any, type_: Scalar) -> str:
    moment = value if isinstance(value, datetime) else read_moment(str(value))
    if moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc).replace(tzinfo=None)
    fraction = "milliseconds" if moment.microsecond % 1000 == 0 else "microseconds"
    return moment.isoformat(timespec=fraction) + ("Z" if type_.name == "TIMESTAMP_LTZ" else "")


def _bytes(value: Any, _: Scalar) -> str:
    """Bytes as base64; a text from a store's JSON is base64 already."""
    return value if isinstance(value, str) else base64.b64encode(bytes(value)).decode("ascii")


_SHAPES: Mapping[str, Callable[[Any, Scalar], Any]] = MappingProxyType(
    {
        "BOOLEAN": _truth,
        "FLOAT": _float,
        "DOUBLE": _float,
        "DECIMAL": _decimal,
        "VARCHAR": _iso_text,
        "DATE": _iso_text,
        "TIME": _iso_text,
        "TIMESTAMP": _timestamp,
        "TIMESTAMP_LTZ": _timestamp,
        "VARBINARY": _bytes,
    }
)
