"""Shared by the entity operations of all kinds: refusals, records, rows as JSON, types of other systems in ours."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ds_dagster.catalog.entity import EntityPlan, RawRecord
from ds_dagster.catalog.entity_operations import EntityPath, NewRecord
from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TINYINT,
    VARBINARY,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructField,
    StructType,
    decimal,
)
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean

MAX_PRECISION = 38
KINDS = exp.DType
SCALARS: Mapping[exp.DType, Scalar] = MappingProxyType(
    {
        KINDS.BOOLEAN: BOOLEAN,
        KINDS.BIT: BOOLEAN,
        KINDS.TINYINT: TINYINT,
        KINDS.SMALLINT: SMALLINT,
        KINDS.INT: INTEGER,
        KINDS.BIGINT: BIGINT,
        KINDS.FLOAT: FLOAT,
        KINDS.DOUBLE: DOUBLE,
        KINDS.CHAR: VARCHAR,
        KINDS.NCHAR: VARCHAR,
        KINDS.BPCHAR: VARCHAR,
        KINDS.VARCHAR: VARCHAR,
        KINDS.NVARCHAR: VARCHAR,
        KINDS.TEXT: VARCHAR,
        KINDS.NAME: VARCHAR,
        KINDS.UUID: VARCHAR,
        KINDS.JSON: VARCHAR,
        KINDS.JSONB: VARCHAR,
        KINDS.XML: VARCHAR,
        KINDS.VARIANT: VARCHAR,
        KINDS.OBJECT: VARCHAR,
        KINDS.INET: VARCHAR,
        KINDS.DATE: DATE,
        KINDS.TIME: Scalar("TIME"),
        KINDS.TIMETZ: Scalar("TIME"),
        KINDS.TIMESTAMP: TIMESTAMP,
        KINDS.TIMESTAMPNTZ: TIMESTAMP,
        KINDS.DATETIME: TIMESTAMP,
        KINDS.TIMESTAMPTZ: TIMESTAMP_LTZ,
        KINDS.TIMESTAMPLTZ: TIMESTAMP_LTZ,
        KINDS.BINARY: VARBINARY,
        KINDS.VARBINARY: VARBINARY,
    }
)
"""Type of another system, as sqlglot names it → ours. JSON, XML and similar types are text."""


def refused(kind: str, store: str, statement: str, reason: str, fix: str) -> DsError:
    """ENTITY_STATEMENT_REFUSED."""
    return error("ENTITY_STATEMENT_REFUSED", statement=statement, store=store, type=kind, reason=reason, fix=fix)


def path_invalid(store: str, path: EntityPath, shape: str) -> DsError:
    """ENTITY_PATH_INVALID; ``shape`` shows a valid path."""
    return error("ENTITY_PATH_INVALID", path=shown_path(path) or "(nothing)", store=store, shape=shape)


def not_found(store: str, path: EntityPath, names: Sequence[str] = ()) -> DsError:
    """ENTITY_NOT_FOUND with the nearest names."""
    nearest = did_you_mean(path[-1] if path else "", names)
    return error("ENTITY_NOT_FOUND", entity=shown_path(path), store=store, nearest=nearest)


def shown_path(path: EntityPath) -> str:
    """A path as a statement writes it: every part in double quotes."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in path)


class TableOperations:
    """Base of the entity operations of kinds that hold tables."""

    follows = False
    kind = ""
    store = ""

    def update(self, path: EntityPath, plan: EntityPlan) -> None:
        """Refused: a table has no properties that an entity's WITH could change."""
        raise refused(
            self.kind, self.store, "UPDATE ENTITY", "tables have no properties of that kind", "use the store's own DDL"
        )

    def close(self) -> None:
        """Nothing is open."""

    def table_without_columns(self) -> DsError:
        """The refusal of CREATE ENTITY for a table."""
        reason = "a table needs columns, which CREATE ENTITY does not have"
        fix = "CREATE TABLE … AS SELECT makes it with the columns of its query"
        return refused(self.kind, self.store, "CREATE ENTITY of a table", reason, fix)


def row_values(path: EntityPath, record: NewRecord, columns: Sequence[str]) -> Mapping[str, Any]:
    """Column → value of a record for a table; columns that are missing in the record get their default.

    Raises:
        UserError: ENTITY_RECORD_INVALID for anything but an object of known columns.
    """
    if record.value is None or record.key is not None:
        reason = "a table takes whole rows: no key, no delete"
        raise record_invalid(path, reason)
    values = json_object(path, record.value)
    unknown = [name for name in values if name not in columns]
    if unknown:
        raise record_invalid(path, f"it has no column {unknown[0]}; nearest: {did_you_mean(unknown[0], columns)}")
    return values


def json_object(path: EntityPath, text: str) -> dict[str, Any]:
    """A JSON object that is not empty; numbers with a fraction are Decimals, with all digits.

    Raises:
        UserError: ENTITY_RECORD_INVALID.
    """
    value: Any = json_value(path, text)
    if not isinstance(value, dict):
        raise record_invalid(path, "it is not a valid JSON object")
    if not value:
        raise record_invalid(path, "it is empty")
    return value


def json_value(path: EntityPath, text: str) -> Any:
    """Any JSON value; numbers with a fraction are Decimals.

    Raises:
        UserError: ENTITY_RECORD_INVALID.
    """

    def refuse(text: str) -> Any:
        raise record_invalid(path, f"{text} is not a valid JSON number")

    try:
        return json.loads(text, parse_float=Decimal, parse_constant=refuse)
    except ValueError as problem:
        raise record_invalid(path, f"it is not valid JSON ({problem})") from None


def record_invalid(path: EntityPath, reason: str) -> DsError:
    """ENTITY_RECORD_INVALID."""
    return error("ENTITY_RECORD_INVALID", entity=shown_path(path), reason=reason)


def row_record(row: Mapping[str, Any]) -> RawRecord:
    """A row as a record without key and time."""
    text = json.dumps(row, default=jsonable, ensure_ascii=False, separators=(",", ":"))
    return RawRecord(partition="", position="", timestamp_millis=0, key=None, value=text.encode())


def jsonable(value: Any) -> Any:
    """Values without a form in JSON: times in ISO 8601, decimals as numbers if a float holds them exactly, else as
    text, bytes in base64, others as text."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        number = float(value)
        return number if Decimal(repr(number)) == value else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    return str(value)


def type_of(native: str, dialect: str | None) -> DataType | None:
    """The type of ours that holds every value of another system's, None when there is none.

    Args:
        native: as the system writes it: ``character varying(3)``, ``array<struct<a:int>>``, ``NUMBER(38,0)``.
        dialect: sqlglot's name of the system; None for our own words.
    """
    try:
        parsed = sqlglot.parse_one(native, into=exp.DataType, dialect=dialect)
    except SqlglotError:
        return None
    return _ours(parsed)


def _ours(node: exp.DataType) -> DataType | None:
    inside = [part for part in node.expressions if isinstance(part, exp.DataType | exp.ColumnDef)]
    if node.this in (KINDS.ARRAY, KINDS.LIST):
        element = _ours(inside[0]) if inside and isinstance(inside[0], exp.DataType) else None
        return ArrayType(element) if element else None
    if node.this is KINDS.MAP:
        parts = [_ours(part) for part in inside if isinstance(part, exp.DataType)]
        key, value = parts if len(parts) == 2 else (None, None)
        return MapType(key, value) if isinstance(key, Scalar) and value else None
    if node.this is KINDS.STRUCT:
        fields = [(part.name, _ours(part.kind)) for part in inside if isinstance(part, exp.ColumnDef) and part.kind]
        typed = tuple(StructField(name, type_) for name, type_ in fields if type_ is not None)
        return StructType(typed) if typed and len(typed) == len(node.expressions) else None
    if node.this in (KINDS.DECIMAL, KINDS.BIGDECIMAL):
        return _number([int(part.name) for part in node.expressions])
    return SCALARS.get(node.this)


def _number(parts: Sequence[int]) -> DataType:
    """DECIMAL, or VARCHAR for a number without bounds or with more than 38 digits, which DECIMAL cannot hold."""
    if not parts or parts[0] > MAX_PRECISION:
        return VARCHAR
    return decimal(parts[0], parts[1] if len(parts) > 1 else 0)
