"""Shape of Delta tables: types, existing columns and their difference from a target, rows in the stored form, the
expressions of a merge (DataFusion's SQL, composed as trees)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.name_rules import NameRule
from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.stores.table_sink import DELETED, column_difference

if TYPE_CHECKING:
    import pyarrow

NATIVE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "BOOLEAN": "boolean",
        "VARCHAR": "string",
        "TINYINT": "tinyint",
        "SMALLINT": "smallint",
        "INTEGER": "int",
        "BIGINT": "bigint",
        "FLOAT": "float",
        "DOUBLE": "double",
        "DATE": "date",
        "TIME": "string",
        "TIMESTAMP": "timestamp_ntz",
        "TIMESTAMP_LTZ": "timestamp",
        "VARBINARY": "binary",
    }
)
"""Scalar → column type, in Spark SQL's words. Delta has no time of day: TIME is text, ``13:45:00.000007``."""
PROTOCOL_TYPES: Mapping[str, str] = MappingProxyType(
    {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
)
"""Type of the Delta protocol → its name in SQL, where they differ."""
COLUMN_RULE = NameRule(
    "no spaces, commas, semicolons, braces, parentheses and equals signs, no two names that differ in upper and lower "
    "case alone",
    r"[^ ,;{}()\n\t=]+",
    folds_case=True,
)
"""Column names of a Delta table without column mapping (Delta protocol; Spark refuses others)."""
NEW = "_ds_new_"
"""Prefix of the folder that a full refresh loads into. Readers and VACUUM skip folders that begin with ``_``."""
ROWS, STAGED = "r", "s"
"""Aliases in a merge: the table, the batch."""


def native_type(type_: DataType) -> str:
    """The column type of a Delta table: ``struct<city:string,at:array<timestamp>>``."""
    if isinstance(type_, ArrayType):
        return f"array<{native_type(type_.element)}>"
    if isinstance(type_, MapType):
        return f"map<{native_type(type_.key)},{native_type(type_.value)}>"
    if isinstance(type_, StructType):
        return "struct<" + ",".join(f"{field.name}:{native_type(field.type)}" for field in type_.fields) + ">"
    if type_.name == "DECIMAL":
        return f"decimal({type_.precision},{type_.scale})"
    return NATIVE_TYPES[type_.name]


def arrow_schema(columns: Sequence[TableColumn]) -> pyarrow.Schema:
    """The Arrow schema whose Delta table has exactly these columns."""
    import pyarrow

    return pyarrow.schema([pyarrow.field(c.name, _arrow(c.type), c.nullable) for c in columns])


def _arrow(type_: DataType) -> pyarrow.DataType:
    import pyarrow

    if isinstance(type_, ArrayType):
        return pyarrow.list_(_arrow(type_.element))
    if isinstance(type_, MapType):
        return pyarrow.map_(_arrow(type_.key), _arrow(type_.value))
    if isinstance(type_, StructType):
        return pyarrow.struct([pyarrow.field(field.name, _arrow(field.type)) for field in type_.fields])
    return _arrow_scalar(type_)


def _arrow_scalar(type_: Scalar) -> pyarrow.DataType:
    import pyarrow

    if type_.name == "DECIMAL":
        return pyarrow.decimal128(type_.precision or 10, type_.scale or 0)
    arrow_types = {
        "boolean": pyarrow.bool_,
        "string": pyarrow.string,
        "tinyint": pyarrow.int8,
        "smallint": pyarrow.int16,
        "int": pyarrow.int32,
        "bigint": pyarrow.int64,
        "float": pyarrow.float32,
        "double": pyarrow.float64,
        "date": pyarrow.date32,
        "timestamp_ntz": lambda: pyarrow.timestamp("us"),
        "timestamp": lambda: pyarrow.timestamp("us", "UTC"),
        "binary": pyarrow.binary,
    }
    return arrow_types[NATIVE_TYPES[type_.name]]()


def storable(rows: pyarrow.Table, target: TableTarget) -> pyarrow.Table:
    """The target's columns in order with its types (and ``__deleted`` as a plain truth value).

    Raises:
        ValueError: a value that the column cannot hold.
    """
    import pyarrow
    import pyarrow.compute as compute

    schema = arrow_schema(target.columns)
    if target.mode != "upsert":
        return rows.select(schema.names).cast(schema)
    marks = rows[DELETED] if DELETED in rows.column_names else pyarrow.array([False] * rows.num_rows, pyarrow.bool_())
    marks = compute.fill_null(marks, False)
    loose = pyarrow.schema([field.with_nullable(True) for field in schema])  # a delete has only its key
    table = rows.select(schema.names).cast(loose)
    live = table.filter(compute.invert(marks)) if rows.num_rows else table
    live.cast(schema)  # refuses NULL in a NOT NULL column before anything is written
    return table.append_column(DELETED, marks)


def live_rows(rows: pyarrow.Table, target: TableTarget) -> pyarrow.Table:
    """Rows in the stored form without deletes, and without the column that marks them."""
    import pyarrow.compute as compute

    if DELETED not in rows.column_names:
        return rows
    return rows.filter(compute.invert(rows[DELETED])).drop_columns([DELETED]).cast(arrow_schema(target.columns))


def existing_columns(schema_json: str) -> Mapping[str, tuple[str, bool]]:
    """Column → (type, NOT NULL) of a Delta schema as the protocol writes it."""
    fields = json.loads(schema_json)["fields"]
    return {field["name"]: (_existing_type(field["type"]), not field["nullable"]) for field in fields}


def _existing_type(type_: Any) -> str:
    if isinstance(type_, str):
        return PROTOCOL_TYPES.get(type_, type_)
    if type_["type"] == "array":
        return f"array<{_existing_type(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{_existing_type(type_['keyType'])},{_existing_type(type_['valueType'])}>"
    return "struct<" + ",".join(f"{f['name']}:{_existing_type(f['type'])}" for f in type_["fields"]) + ">"


def shape_difference(existing: Mapping[str, tuple[str, bool]], target: TableTarget) -> str:
    """Why a table cannot take the rows of a target, column by column; empty if it can. The order of columns does not
    matter."""
    wanted = {column.name: column.native_type for column in target.columns}
    types = {name: type_ for name, (type_, _) in existing.items()}
    differences = [column_difference(types, wanted)] if types != wanted else []
    differences += [
        f"{column.name} is NOT NULL, the query's may be NULL"
        for column in target.columns
        if column.nullable and existing.get(column.name, ("", False))[1]
    ]
    return "; ".join(differences)


def same_key(rows: pyarrow.Table, key: Sequence[str]) -> str:
    """Condition that a row of the table has the key of a staged row. NULL equals NULL only in key columns where the
    batch has a NULL: a plain ``=`` is faster, since it joins by hash and skips files by their bounds."""
    pairs: list[exp.Expr] = []
    for name in key:
        comparison = exp.NullSafeEQ if rows[name].null_count else exp.EQ
        # in brackets: DataFusion reads all that follows IS NOT DISTINCT FROM, further ANDs too, as its right side
        pairs.append(exp.paren(comparison(this=_column(name, ROWS), expression=_column(name, STAGED))))
    return _printed(exp.and_(*pairs))


def staged_values(columns: Sequence[TableColumn]) -> dict[str, str]:
    """Column → expression of the staged value."""
    return {_printed(_column(c.name)): _printed(_column(c.name, STAGED)) for c in columns}


def staged_deleted() -> str:
    """Condition that a staged row is a delete."""
    return _printed(_column(DELETED, STAGED))


def staged_live() -> str:
    """Condition that a staged row is not a delete."""
    return _printed(exp.not_(_column(DELETED, STAGED)))


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(name, table=table, quoted=True)


def _printed(expression: exp.Expr) -> str:
    return expression.sql(dialect="postgres")


def new_folder(identity: SinkIdentity) -> str:
    """Folder inside the table's folder that a full refresh loads into, one per job and version."""
    return f"{new_prefix(identity.job)}{identity.version}"


def new_prefix(job: str) -> str:
    """Prefix of the folders of all versions of a job."""
    return f"{NEW}{hashlib.sha256(job.encode()).hexdigest()[:10]}_v"
