"""A value of every type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ds_dagster.datatypes import ArrayType, DataType, MapType, StructType
from tests.spark.functions.calls_of_types import COLUMNS, READ

COLUMN_TYPES = {column: READ[text] for text, column in COLUMNS.items()}
VALUES: Mapping[str, Any] = {
    "BOOLEAN": True,
    "VARCHAR": "täxt",
    "TINYINT": -7,
    "SMALLINT": 300,
    "INTEGER": 70_000,
    "BIGINT": 5_000_000_000,
    "FLOAT": 1.5,
    "DOUBLE": 0.1,
    "DECIMAL": 12.25,
    "DATE": "2024-02-29",
    "TIME": "12:34:56",
    "TIMESTAMP": "2024-02-29 12:34:56.789",
    "TIMESTAMP_LTZ": "2024-02-29 12:34:56.789Z",
    "VARBINARY": "AAH/",
}
"""Type → a value, as JSON has it."""


def value_of(type_: DataType, *more: None) -> Any:
    """A value of a type; ``more``: elements of each ARRAY behind the first."""
    if isinstance(type_, ArrayType):
        return [value_of(type_.element, *more), *more]
    if isinstance(type_, MapType):
        key = value_of(type_.key, *more)
        return {key if isinstance(key, str) else json.dumps(key): value_of(type_.value, *more)}
    if isinstance(type_, StructType):
        return {field.name: value_of(field.type, *more) for field in type_.fields}
    return "täxt"[: type_.length] if type_.name == "VARCHAR" else VALUES[type_.name]
