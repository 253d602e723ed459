"""Rows of stores as Arrow with the catalog's types. Stores have STRUCT, MAP and ARRAY as JSON text or as own types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.functions.values.casts import cast
from ds_dagster.questions.duck_types import arrow_type

if TYPE_CHECKING:
    import pyarrow

VARCHAR = Scalar("VARCHAR")
Columns = Iterable[tuple[str, DataType]]


def table_of(batches: Iterable[pyarrow.RecordBatch], columns: Columns) -> pyarrow.Table:
    """Batches of a store's reader as one table with the catalog's types."""
    import pyarrow as pa

    named = list(columns)
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in named])
    parts = [
        pa.table([as_type(batch.column(place), type_) for place, (_, type_) in enumerate(named)], schema=schema)
        for batch in batches
    ]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def as_type(values: pyarrow.Array, type_: DataType) -> pyarrow.Array:
    """A column converted to a type."""
    import pyarrow as pa

    target = arrow_type(type_)
    if values.type == target:
        return values
    if isinstance(type_, Scalar) and not pa.types.is_binary(values.type):
        return values.cast(target)
    return pa.array([value_of(value, type_) for value in values.to_pylist()], target)


def value_of(value: Any, type_: DataType) -> Any:
    """A value of a store or of JSON in the form that Arrow needs: maps as pairs, times as Python's."""
    if value is None:
        return None
    if not isinstance(type_, Scalar):
        return _nested(json.loads(value) if isinstance(value, str | bytes) else value, type_)
    if isinstance(value, str) and type_.name not in ("VARCHAR", "VARBINARY"):
        return cast(value, VARCHAR, type_)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode() if type_.name == "VARCHAR" else bytes(value)
    return json.dumps(value, separators=(",", ":")) if type_.name == "VARCHAR" and not isinstance(value, str) else value


def _nested(value: Any, type_: DataType) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(type_, ArrayType):
        return [value_of(inner, type_.element) for inner in value]
    if isinstance(type_, MapType):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(value_of(key, type_.key), value_of(inner, type_.value)) for key, inner in pairs]
    assert isinstance(type_, StructType)
    fields = value if isinstance(value, Mapping) else dict(zip((f.name for f in type_.fields), value, strict=False))
    return {field.name: value_of(fields.get(field.name), field.type) for field in type_.fields}


def parquet(table: pyarrow.Table) -> memoryview:
    """A table as the content of a Parquet file."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    out = pa.BufferOutputStream()
    write_table(table, out)
    return memoryview(out.getvalue())
