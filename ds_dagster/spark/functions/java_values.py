"""Values that methods of our jar compute; unlike :mod:`ds_dagster.spark.jvm`, these need only columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    MapType,
    StructType,
)

from ds_dagster.datatypes import MAX_DECIMAL_PRECISION
from ds_dagster.errors import error
from ds_dagster.functions.spark import SparkCall, limited
from ds_dagster.spark.gateway import Package


def time_of_text(text: Column, pattern: Column) -> Column:
    """Milliseconds since 1970 (BIGINT) of a text in UTC by a pattern of Java's SimpleDateFormat; text after
    the pattern is ignored. NULL if the text does not match, and for days that do not exist.

    An invalid pattern fails the batch with PATTERN_INVALID.
    """
    return _column(_package("scalar").Times.millis(_java(text), _java(pattern)))


def to_digits(call: SparkCall, mode: Literal["HALF_UP", "DOWN"]) -> Column:
    """The first argument of a call, rounded or cut to the number of digits in the second argument (default 0), in its
    own type. Whole numbers are computed as DECIMAL; a DECIMAL result is one digit wider than its argument."""
    value, *digits = call.columns
    type_, places = call.type_of(0), sf.lit(0)
    if digits:
        places = limited(sf, digits[0]) if isinstance(call.type_of(1), LongType) else digits[0]
    if isinstance(type_, FloatType | DoubleType):
        return with_digits(value, places, mode, type_)
    if isinstance(type_, IntegralType):
        exact = DecimalType(20, 0)
        return with_digits(value.cast(exact), places, mode, exact).cast(type_) if digits else value
    if not isinstance(type_, DecimalType):
        raise error("INTERNAL", where=f"digits of a {type_.simpleString()}")
    wide = DecimalType(min(type_.precision + 1, MAX_DECIMAL_PRECISION), type_.scale)
    return with_digits(value.cast(wide), places, mode, wide)


def scalar(method: str, *columns: Column) -> Column:
    """A method of a class of ``dsdagster.scalar`` over columns: ``JsonTexts.value``."""
    owner, _, name = method.partition(".")
    return _column(getattr(getattr(_package("scalar"), owner), name)(*map(_java, columns)))


def negated(number: Column, type_: DataType) -> Column:
    """The negated number; in Java for a DECIMAL, which Spark's negation cuts to 34 digits."""
    if isinstance(type_, DecimalType):
        return _column(_package("scalar").Digits.negated(_java(number), type_.json()))
    return -number


def json(value: Column, type_: DataType) -> Column:
    """A value of a type as JSON (VARCHAR), null for null, with times in ISO 8601."""
    if isinstance(type_, StructType | ArrayType | MapType):
        return json_text(value, type_, separator="T", digits=0)
    listed = json_text(sf.array(value), ArrayType(type_), separator="T", digits=0)
    return sf.when(value.isNotNull(), sf.substring(listed, sf.lit(2), sf.length(listed) - 2))


def with_digits(value: Column, digits: Column, mode: Literal["HALF_UP", "DOWN"], type_: DataType) -> Column:
    """A DOUBLE, FLOAT or DECIMAL (``type_``), rounded or cut to so many digits after the point, in its own type; NULL
    if the result does not fit the type. Floats are rounded by their shortest decimal text."""
    return _column(_package("scalar").Digits.column(_java(value), _java(digits.cast("int")), mode, type_.json()))


def json_columns(
    part: Column, columns: StructType, types: Sequence[str], *, reason: str, kind: Literal["value", "key"]
) -> Column:
    """A struct of the columns of a JSON object; the last field is the reason why it cannot be read, or null.

    Args:
        part: bytes of the record's part; null gives null.
        columns: a field that is not nullable is required.
        types: SQL types of the columns, for reasons.
        reason: name of the last field.
        kind: name of the part in reasons.
    """
    make = _package("json").JsonDecoder.column
    return _column(make(_java(part.cast("binary")), columns.json(), list(types), reason, kind))


def json_text(value: Column, type_: DataType, *, separator: str, digits: int) -> Column:
    """JSON (VARCHAR) of a struct, an array or a map, null for null; NULL fields are written as ``null``.

    Args:
        value: cast to ``type_``.
        separator: one character between date and time of day.
        digits: digits of the fraction of a second in times, 3 or 6; 0: 3, or 6 if a time has microseconds.
    """
    make = _package("json").JsonEncoder.column
    return _column(make(_java(value.cast(type_)), type_.json(), separator, digits))


def _package(name: str) -> Any:
    context = cast(Any, SparkContext)._active_spark_context
    return Package(f"dsdagster.{name}", context._gateway._gateway_client)


def _java(column: Column) -> Any:
    return cast(Any, column)._jc


def _column(java_column: Any) -> Column:
    return cast(Column, ClassicColumn(java_column))
