"""Reads the definitions of the source tables from the server, and checks that their changes can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ds_dagster.datatypes import StructType
from ds_dagster.errors import error
from ds_dagster.spark.postgres_cdc.pgoutput import SourceColumn, SourceTable
from ds_dagster.spark.postgres_cdc.rows import Shape

TABLE_QUERY = """
    SELECT c.oid, c.relkind::text, c.relreplident::text, c.relpersistence::text
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
COLUMNS_QUERY = """
    SELECT a.attname::text, a.atttypid, a.attgenerated <> '',
        coalesce(a.attnum = ANY (k.indkey::int2[]), false)
    FROM pg_attribute a
    LEFT JOIN pg_index k ON k.indrelid = a.attrelid
        AND CASE %(identity)s WHEN 'i' THEN k.indisreplident ELSE k.indisprimary END
    WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
READABLE = ("r", "p")
"""Kinds of relations that publish changes: tables and partitioned tables."""


def source_tables(cursor: Any, tables: Sequence[tuple[str, str]], shape: Shape) -> tuple[SourceTable, ...]:
    """The current definitions of the tables; ``is_key`` marks the columns of the row's identity.

    Raises:
        UserError: CDC_TABLE_MISSING, CDC_TABLE_UNREADABLE, CDC_TABLE_WITHOUT_KEY, CDC_COLUMN_GONE, CDC_KEY_DIFFERS.
    """
    source = tuple(_table(cursor, schema, name) for schema, name in tables)
    for table in source:
        _check_columns(table, shape)
        if shape.key:
            _check_key(table, shape.key)
    return source


def _table(cursor: Any, schema: str, name: str) -> SourceTable:
    shown = f"{schema}.{name}"
    cursor.execute(TABLE_QUERY, (schema, name))
    row = cursor.fetchone()
    if row is None:
        raise error("CDC_TABLE_MISSING", table=shown)
    oid, kind, identity, persistence = row
    if kind not in READABLE or persistence != "p":
        raise error("CDC_TABLE_UNREADABLE", table=shown)
    cursor.execute(COLUMNS_QUERY, {"oid": oid, "identity": identity})
    columns = tuple(
        SourceColumn(column, type_, is_key) for column, type_, generated, is_key in cursor.fetchall() if not generated
    )
    has_key = any(column.is_key for column in columns)
    if identity == "n" or (identity in "di" and not has_key):
        raise error("CDC_TABLE_WITHOUT_KEY", table=shown)
    return SourceTable(oid, schema, name, columns, identity)


def needed(shape: Shape) -> tuple[str, ...]:
    """Names of the table's columns that the relation reads."""
    if shape.key:
        return tuple(column.name for column in shape.columns)
    rows = [c.type for c in shape.columns if c.name in ("before", "after") and isinstance(c.type, StructType)]
    return tuple(dict.fromkeys(field.name for type_ in rows for field in type_.fields))


def takes_whole_rows(shape: Shape) -> bool:
    """Whether rows are read as JSON with all columns."""
    return not shape.key and any(
        column.name in ("before", "after") and not isinstance(column.type, StructType) for column in shape.columns
    )


def _check_columns(table: SourceTable, shape: Shape) -> None:
    names = {column.name for column in table.columns}
    for name in needed(shape):
        if name not in names:
            raise error("CDC_COLUMN_GONE", table=f"{table.schema}.{table.name}", column=name)


def _check_key(table: SourceTable, key: Sequence[str]) -> None:
    """Check that the relation's primary key is the table's key (its replica identity)."""
    key_of_server = [column.name for column in table.columns if column.is_key]
    if set(key_of_server) != set(key):
        raise error(
            "CDC_KEY_DIFFERS",
            table=f"{table.schema}.{table.name}",
            found=", ".join(key_of_server) or "(none)",
            wanted=", ".join(key),
        )
