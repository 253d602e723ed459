"""PRIMITIVE values and keys: the whole record part is one number (big-endian), text, bytes or truth value, as the
serializers of Kafka write them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.errors import error
from ds_dagster.spark.functions.java_values import json_columns
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.records.typemap import spark_sql, to_spark

WIDTHS: Mapping[str, int] = MappingProxyType({"TINYINT": 1, "SMALLINT": 2, "INTEGER": 4, "BIGINT": 8})
"""Whole numbers → bytes."""
FLOATS: Mapping[str, int] = MappingProxyType({"FLOAT": 4, "DOUBLE": 8})
"""Floating-point numbers (IEEE 754) → bytes."""
TEXTS = frozenset({"VARCHAR"})
BYTES = frozenset({"VARBINARY"})


def check_primitive(type_: DataType, entity: str) -> Scalar:
    """The type, if it is allowed as PRIMITIVE.

    Raises:
        NotYetError: PRIMITIVE_TYPE_NOT_BUILT.
    """
    if isinstance(type_, Scalar) and type_.name in {*WIDTHS, *FLOATS, *TEXTS, *BYTES, "BOOLEAN"}:
        return type_
    raise error("PRIMITIVE_TYPE_NOT_BUILT", type=str(type_), entity=entity)


def decode_primitive(session: SparkSession, part: Column, type_: Scalar) -> Column:
    """Bytes to a value; NULL if the number of bytes does not fit the type."""
    if type_.name in FLOATS:
        read = operators(session).read_float(part, wide=type_.name == "DOUBLE")
        return sf.when(sf.octet_length(part) == FLOATS[type_.name], read)
    if type_.name in TEXTS:
        return part.cast("string")
    if type_.name in BYTES:
        return part
    if type_.name == "BOOLEAN":
        return sf.when(sf.octet_length(part) == 1, sf.hex(part) != sf.lit("00"))
    digits = sf.hex(part)
    signed = sf.when(digits >= sf.lit("8"), sf.lpad(digits, 16, "F")).otherwise(sf.lpad(digits, 16, "0"))
    number = sf.conv(signed, 16, -10).cast("bigint").cast(spark_sql(type_))
    return sf.when(sf.octet_length(part) == WIDTHS[type_.name], number)


def encode_primitive(session: SparkSession, value: Column, type_: Scalar) -> Column:
    """A value to bytes; NULL stays NULL."""
    if type_.name in FLOATS:
        return operators(session).write_float(value.cast(spark_sql(type_)), wide=type_.name == "DOUBLE")
    if type_.name in TEXTS:
        return value.cast("binary")
    if type_.name in BYTES:
        return value
    if type_.name == "BOOLEAN":
        return sf.when(value, sf.unhex(sf.lit("01"))).when(~value, sf.unhex(sf.lit("00")))
    digits = sf.lpad(sf.hex(value.cast("bigint")), 16, "0")
    return sf.unhex(sf.right(digits, sf.lit(2 * WIDTHS[type_.name])))


def text_to_value(text: Column, type_: Scalar, *, is_json: bool) -> Column:
    """Raw text of a key to a value; NULL if it is not a valid value of the type.

    Args:
        text: text of the key, not a JSON object.
        type_: type of the value.
        is_json: the text may be a JSON string, as Kafka Connect's JSON converter writes a key of one field.
    """
    value = text if type_.name in TEXTS else text.try_cast(spark_sql(type_))
    return sf.coalesce(_of_json_string(text, type_), value) if is_json else value


def _of_json_string(text: Column, type_: Scalar) -> Column:
    """The value of a JSON string; NULL for other texts."""
    member = sf.concat(sf.lit('{"v":'), text, sf.lit("}"))
    field = spark_types.StructField("v", to_spark(type_))
    read = json_columns(member, spark_types.StructType([field]), [str(type_)], reason="reason", kind="key")
    return sf.when(sf.startswith(sf.ltrim(text), sf.lit('"')), read.getField("v"))
