"""Our SQL types ↔ Spark's: a table for scalars; nested types keep their structure.

TIMESTAMP is Spark's TIMESTAMP_NTZ and TIMESTAMP_LTZ its TIMESTAMP; every session runs in UTC. Lengths of text and
precisions of time are only declarations: Spark stores whole text and microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import types as spark_types

from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructField, StructType
from ds_dagster.errors import error

SCALARS: Mapping[str, spark_types.DataType] = MappingProxyType(
    {
        "BOOLEAN": spark_types.BooleanType(),
        "VARCHAR": spark_types.StringType(),
        "TINYINT": spark_types.ByteType(),
        "SMALLINT": spark_types.ShortType(),
        "INTEGER": spark_types.IntegerType(),
        "BIGINT": spark_types.LongType(),
        "FLOAT": spark_types.FloatType(),
        "DOUBLE": spark_types.DoubleType(),
        "DATE": spark_types.DateType(),
        "TIME": spark_types.TimeType(6),
        "TIMESTAMP": spark_types.TimestampNTZType(),
        "TIMESTAMP_LTZ": spark_types.TimestampType(),
        "VARBINARY": spark_types.BinaryType(),
    }
)
"""Scalar name → Spark type. DECIMAL is not listed: its type depends on precision and scale."""


def to_spark(type_: DataType) -> spark_types.DataType:
    """The Spark type that holds values of a type."""
    if isinstance(type_, ArrayType):
        return spark_types.ArrayType(to_spark(type_.element))
    if isinstance(type_, MapType):
        return spark_types.MapType(to_spark(type_.key), to_spark(type_.value))
    if isinstance(type_, StructType):
        return spark_types.StructType([spark_types.StructField(f.name, to_spark(f.type)) for f in type_.fields])
    if type_.name == "DECIMAL":
        return spark_types.DecimalType(type_.precision or 10, type_.scale or 0)
    return SCALARS[type_.name]


def spark_sql(type_: DataType) -> str:
    """The Spark type as text for Spark's parser: ``struct<`a b`:bigint>``."""
    if isinstance(type_, ArrayType):
        return f"array<{spark_sql(type_.element)}>"
    if isinstance(type_, MapType):
        return f"map<{spark_sql(type_.key)},{spark_sql(type_.value)}>"
    if isinstance(type_, StructType):
        return "struct<" + ",".join(f"{quoted(f.name)}:{spark_sql(f.type)}" for f in type_.fields) + ">"
    return to_spark(type_).simpleString()


def from_spark(type_: spark_types.DataType) -> DataType:
    """The type of a Spark column.

    Raises:
        InternalError: INTERNAL for a type without a counterpart in SQL.
    """
    if isinstance(type_, spark_types.ArrayType):
        return ArrayType(from_spark(type_.elementType))
    if isinstance(type_, spark_types.MapType):
        return MapType(from_spark(type_.keyType), from_spark(type_.valueType))
    if isinstance(type_, spark_types.StructType):
        return StructType(tuple(_field(field) for field in type_.fields))
    if isinstance(type_, spark_types.DecimalType):
        return Scalar("DECIMAL", precision=type_.precision, scale=type_.scale)
    for name, scalar in SCALARS.items():
        if type(scalar) is type(type_):
            return Scalar(name)  # type: ignore[arg-type]  # the table's keys are the names
    raise error("INTERNAL", where=f"no SQL type for Spark's {type_.simpleString()}")


def _field(field: spark_types.StructField) -> StructField:
    return StructField(field.name, from_spark(field.dataType))


def quoted(name: str) -> str:
    """An identifier for Spark's parser."""
    return "`" + name.replace("`", "``") + "`"
