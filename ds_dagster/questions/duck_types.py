"""Types of the dialect in DuckDB and in Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.datatypes import FLOATS, INTEGERS, ArrayType, DataType, MapType, Scalar
from ds_dagster.functions.values.casts import DEFAULT_PRECISION, TIMES

if TYPE_CHECKING:
    import pyarrow

DUCK_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INTEGER", "BIGINT": "BIGINT",
        "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "VARCHAR": "VARCHAR", "DATE": "DATE", "TIME": "TIME",
        "TIMESTAMP": "TIMESTAMP", "TIMESTAMP_LTZ": "TIMESTAMP WITH TIME ZONE", "VARBINARY": "BLOB",
    }
)  # fmt: skip
"""Scalar type → its name in DuckDB. DECIMAL is not listed: its name has precision and scale."""

OF_INNER_NAMES: Mapping[str, str] = MappingProxyType(
    {"INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INTEGER", "INT64": "BIGINT"}
)
"""Name of a type in DuckDB's messages → scalar type."""
MARK = "^"
"""Escape character before capitals, and before itself, in names for DuckDB."""
CAPITALS = re.compile(r"[A-Z^]")
MARKED = re.compile(r"\^(.)", re.DOTALL)
EASY_CASTS = frozenset(
    {
        *((source, target) for source in INTEGERS for target in (*INTEGERS, *FLOATS, "DECIMAL")),
        ("FLOAT", "DOUBLE"),
        *(("DECIMAL", target) for target in FLOATS),
        ("DATE", "TIMESTAMP"),
        ("DATE", "TIMESTAMP_LTZ"),
        *((source, target) for source in ("TIMESTAMP", "TIMESTAMP_LTZ") for target in ("TIMESTAMP", "TIMESTAMP_LTZ")),
    }
)
"""Casts that DuckDB, with UTC as its time zone, does as the dialect does."""
NAMING = (exp.Column, exp.Alias, exp.TableAlias, exp.Table)
"""Nodes with names that DuckDB looks up."""
INNER_NAMES = re.compile(rf"\b({'|'.join(OF_INNER_NAMES)})\b")


def duck_name(type_: DataType) -> str:
    """DuckDB's name of a type. Times have microseconds in DuckDB, whatever their precision."""
    if isinstance(type_, ArrayType):
        return f"{duck_name(type_.element)}[]"
    if isinstance(type_, MapType):
        return f"MAP({duck_name(type_.key)}, {duck_name(type_.value)})"
    if isinstance(type_, Scalar):
        if type_.name == "DECIMAL":
            return f"DECIMAL({type_.precision}, {type_.scale})"
        return DUCK_NAMES[type_.name]
    fields = ", ".join(f"{quoted(field.name)} {duck_name(field.type)}" for field in type_.fields)
    return f"STRUCT({fields})"


def duck_type(type_: DataType) -> exp.DataType:
    """DuckDB's type as the target of a cast."""
    return exp.DataType.build(duck_name(type_), dialect="duckdb")


def duck_identifier(name: str) -> str:
    """The name of a table, an alias or a column for DuckDB. DuckDB ignores the case of names, also of quoted ones, so
    capitals are escaped."""
    return CAPITALS.sub(lambda match: MARK + match[0], name)


def keep_apart(tree: exp.Expression) -> None:
    """Escape the capitals in names of tables, aliases and columns, but not in fields of a STRUCT."""
    for node in list(tree.find_all(*NAMING)):
        parts = node.args.get("columns") if isinstance(node, exp.TableAlias) else ()
        for part in (node.args.get("this"), node.args.get("table"), node.args.get("alias"), *(parts or ())):
            if isinstance(part, exp.Identifier):
                part.set("this", duck_identifier(part.name))


def name_of_identifier(identifier: str) -> str:
    """The original name for a result of :func:`duck_identifier`."""
    return MARKED.sub(lambda match: match[1], identifier)


def quoted(name: str) -> str:
    """A name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def arrow_type(type_: DataType) -> pyarrow.DataType:
    """The Arrow type of a type: times in microseconds, TIMESTAMP_LTZ in UTC."""
    import pyarrow as pa

    if isinstance(type_, ArrayType):
        return pa.list_(arrow_type(type_.element))
    if isinstance(type_, MapType):
        return pa.map_(arrow_type(type_.key), arrow_type(type_.value))
    if isinstance(type_, Scalar):
        return _arrow_scalar(pa, type_)
    return pa.struct([(field.name, arrow_type(field.type)) for field in type_.fields])


def _arrow_scalar(pa: Any, type_: Scalar) -> pyarrow.DataType:
    if type_.name == "DECIMAL":
        return pa.decimal128(type_.precision or 10, type_.scale or 0)
    factories: Mapping[str, Callable[[], Any]] = {
        "BOOLEAN": pa.bool_, "TINYINT": pa.int8, "SMALLINT": pa.int16, "INTEGER": pa.int32, "BIGINT": pa.int64,
        "FLOAT": pa.float32, "DOUBLE": pa.float64, "VARCHAR": pa.string, "DATE": pa.date32,
        "TIME": lambda: pa.time64("us"), "TIMESTAMP": lambda: pa.timestamp("us"),
        "TIMESTAMP_LTZ": lambda: pa.timestamp("us", "UTC"), "VARBINARY": pa.binary,
    }  # fmt: skip
    return factories[type_.name]()


def is_easy(source: DataType, target: DataType) -> bool:
    """Whether DuckDB casts as the dialect does."""
    if not isinstance(source, Scalar) or not isinstance(target, Scalar):
        return False
    if source.name == target.name == "DECIMAL":
        room = (target.precision or 10) - (target.scale or 0) >= (source.precision or 10) - (source.scale or 0)
        return room and (target.scale or 0) >= (source.scale or 0)
    if target.name in TIMES:
        return (source.name, target.name) in EASY_CASTS and _digits(target) >= _digits(source)
    return (source.name, target.name) in EASY_CASTS


def _digits(type_: Scalar) -> int:
    """Of the fraction of a second; a DATE has none."""
    return type_.precision if type_.precision is not None else DEFAULT_PRECISION.get(type_.name, 0)
