"""How values become the JSON of records: :func:`json_row` and :func:`json_value`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.catalog.relation import TimestampFormat
from ds_dagster.datatypes import DataType, Scalar, StructType
from ds_dagster.spark.functions.java_values import json_text
from ds_dagster.spark.records.typemap import to_spark

TEXT_IN_JSON = ("TIMESTAMP", "TIMESTAMP_LTZ")
"""Types of times whose number of fraction digits is declared."""
_SEPARATORS = {"sql": " ", "iso8601": "T"}


def json_row(fields: Sequence[tuple[str, Column, DataType]], timestamp_format: TimestampFormat) -> Column:
    """A JSON object (VARCHAR) of named values, NULL as ``null``.

    Times have milliseconds, or microseconds if one of the types has more than three digits; times with a zone are in
    UTC and end with ``Z``.
    """
    row = spark_types.StructType([spark_types.StructField(name, to_spark(type_)) for name, _, type_ in fields])
    struct = sf.struct(*[value.alias(name) for name, value, _ in fields])
    return json_text(struct, row, separator=_SEPARATORS[timestamp_format], digits=_digits(t for _, _, t in fields))


def json_value(value: Column, type_: DataType, timestamp_format: TimestampFormat) -> Column:
    """A STRUCT, an ARRAY or a MAP as JSON (VARCHAR), NULL as NULL; times as in :func:`json_row`."""
    separator = _SEPARATORS[timestamp_format]
    return json_text(value, to_spark(type_), separator=separator, digits=_digits([type_]))


def _digits(types: Iterable[DataType]) -> int:
    return 6 if any(_precision(type_) > 3 for type_ in types) else 3


def _precision(type_: DataType) -> int:
    if isinstance(type_, Scalar):
        return (type_.precision or 3) if type_.name in TEXT_IN_JSON else 0
    if isinstance(type_, StructType):
        return max((_precision(f.type) for f in type_.fields), default=0)
    return max(_precision(getattr(type_, part)) for part in ("element", "key", "value") if hasattr(type_, part))
