"""How Spark computes the functions of the dialect; the keys are those of ``plan/functions.py`` (a test holds them
equal).

Where Flink's meaning differs from Spark's, the entry is written out: positions from 0, NULL instead of an empty text,
NULL instead of
a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.errors import error


class Arguments(Protocol):
    """Arguments of one call."""

    @property
    def columns(self) -> list[Column]:
        """The arguments, left to right."""

    def literal(self, position: int) -> str | None:
        """Text of an argument that is written as a text literal, else None."""

    def type_of(self, position: int) -> spark_types.DataType:
        """Spark's type of an argument."""


Scalar = Callable[[Arguments], Column]
Aggregate = Callable[[Column], Column]

DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"


def _plain(function: Callable[..., Column]) -> Scalar:
    """A function of Spark with the same meaning and order of arguments."""
    return lambda arguments: function(*arguments.columns)


def _null_if_any(function: Callable[..., Column]) -> Scalar:
    """GREATEST and LEAST: Spark skips NULLs, the dialect does not."""

    def made(arguments: Arguments) -> Column:
        some_null = reduce(or_, [column.isNull() for column in arguments.columns])
        result = function(*arguments.columns) if len(arguments.columns) > 1 else arguments.columns[0]
        return sf.when(~some_null, result)

    return made


def _like_first(function: Callable[..., Column]) -> Scalar:
    """FLOOR and CEIL: Spark makes BIGINT of floats and small numbers; decimals are as we want them."""

    def made(arguments: Arguments) -> Column:
        type_ = arguments.type_of(0)
        result = function(*arguments.columns)
        return result if isinstance(type_, spark_types.DecimalType) else result.cast(type_)

    return made


def _round(arguments: Arguments) -> Column:
    value, *digits = arguments.columns
    return sf.round(value, digits[0] if digits else 0)


def _split_index(arguments: Arguments) -> Column:
    text, separator, position = arguments.columns
    written = arguments.literal(1)
    pattern = sf.lit(re.escape(written)) if written is not None else sf.concat(sf.lit("\\Q"), separator, sf.lit("\\E"))
    return sf.get(sf.split(text, pattern, -1), position)


def _regexp_extract(arguments: Arguments) -> Column:
    text, pattern, *group = arguments.columns
    found = sf.call_function("regexp_extract", text, pattern, group[0] if group else sf.lit(0))
    return sf.when(sf.rlike(text, pattern), found)


def _time_of_text(arguments: Arguments) -> Column:
    return sf.try_to_timestamp(*arguments.columns)


def _to_timestamp_ltz(arguments: Arguments) -> Column:
    if isinstance(arguments.type_of(0), spark_types.StringType):
        return _time_of_text(arguments)
    number, *precision = arguments.columns
    millis = sf.timestamp_millis(number.cast("bigint"))
    return sf.when(precision[0] == 0, sf.timestamp_seconds(number)).otherwise(millis) if precision else millis


def _from_unixtime(arguments: Arguments) -> Column:
    seconds, *pattern = arguments.columns
    return sf.call_function("from_unixtime", seconds, pattern[0] if pattern else sf.lit(DEFAULT_PATTERN))


def _unix_timestamp(arguments: Arguments) -> Column:
    return sf.unix_seconds(_time_of_text(arguments) if arguments.columns else sf.current_timestamp())


def _date_format(arguments: Arguments) -> Column:
    value, pattern = arguments.columns
    if isinstance(arguments.type_of(0), spark_types.StringType):
        value = sf.try_to_timestamp(value)
    return sf.call_function("date_format", value, pattern)


def _json_value(arguments: Arguments) -> Column:
    """Text of a scalar. A text that looks like an object may be one or a text of that shape; only then the JSON
    is looked at
    again."""
    text, path = arguments.columns
    found = sf.call_function("get_json_object", text, path)
    inside = sf.call_function("try_variant_get", sf.try_parse_json(text), path, sf.lit("variant"))
    nested = sf.rlike(sf.schema_of_variant(inside), sf.lit("^(OBJECT|ARRAY)"))
    looks_nested = sf.rlike(found, sf.lit("^[\\[{]"))
    return sf.when(looks_nested, sf.when(~nested, found)).otherwise(found)


def _extract(arguments: Arguments) -> Column:
    unit = sf.lit(str(arguments.literal(0)))
    return sf.date_part(unit, arguments.columns[1]).cast("bigint")


def _record_field(_arguments: Arguments) -> Column:
    raise error("INTERNAL", where="metadata of a record is a field of its scan, not a call")


SCALARS: Mapping[str, Scalar] = MappingProxyType(
    {
        "COALESCE": _plain(sf.coalesce),
        "NULLIF": _plain(sf.nullif),
        "GREATEST": _null_if_any(sf.greatest),
        "LEAST": _null_if_any(sf.least),
        "CONCAT": _plain(sf.concat),
        "UPPER": _plain(sf.upper),
        "LOWER": _plain(sf.lower),
        "TRIM": _plain(sf.trim),
        "LTRIM": _plain(sf.ltrim),
        "RTRIM": _plain(sf.rtrim),
        "SUBSTRING": lambda a: sf.call_function("substring", *a.columns),
        "CHAR_LENGTH": _plain(sf.char_length),
        "REPLACE": _plain(sf.replace),
        "SPLIT_INDEX": _split_index,
        "REGEXP_EXTRACT": _regexp_extract,
        "ABS": _plain(sf.abs),
        "ROUND": _round,
        "FLOOR": _like_first(sf.floor),
        "CEIL": _like_first(sf.ceil),
        "MOD": lambda a: a.columns[0] % a.columns[1],
        "TO_TIMESTAMP": lambda a: _time_of_text(a).cast("timestamp_ntz"),
        "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
        "FROM_UNIXTIME": _from_unixtime,
        "UNIX_TIMESTAMP": _unix_timestamp,
        "DATE_FORMAT": _date_format,
        "CURRENT_TIMESTAMP": _plain(sf.current_timestamp),
        "JSON_VALUE": _json_value,
        "CARDINALITY": _plain(sf.size),
        "EXTRACT": _extract,
        "POSITION": _plain(sf.position),
        "UUID": _plain(sf.uuid),
        "MD5": lambda a: sf.md5(a.columns[0].cast("binary")),
        "SHA256": lambda a: sf.sha2(a.columns[0].cast("binary"), 256),
        "ROWTIME": _record_field,
        "ROWKEY": _record_field,
        "ROWMETADATA": _record_field,
    }
)
"""Scalar and metadata function → Spark."""

AGGREGATES: Mapping[str, Aggregate] = MappingProxyType(
    {"COUNT": sf.count, "SUM": sf.sum, "AVG": sf.avg, "MIN": sf.min, "MAX": sf.max}
)
"""Aggregate → Spark, over rows that pass its condition."""


def _sum_of_set(value: Column, type_: spark_types.DataType) -> Column:
    """NULL without values, as SUM and AVG have it."""
    values = sf.collect_set(value)
    total = sf.aggregate(values, sf.lit(0).cast(type_), lambda so_far, one: (so_far + one).cast(type_))
    return sf.when(sf.size(values) > 0, total)


def _average_of_set(value: Column, type_: spark_types.DataType) -> Column:
    return _sum_of_set(value, type_) / sf.size(sf.collect_set(value))


DISTINCT_AGGREGATES: Mapping[str, Callable[[Column, spark_types.DataType], Column]] = MappingProxyType(
    {
        "COUNT": lambda value, _type: sf.size(sf.collect_set(value)),
        "SUM": _sum_of_set,
        "AVG": _average_of_set,
    }
)
"""The same with DISTINCT, given the result's type. Spark has no distinct aggregate over streams, but keeps sets."""
