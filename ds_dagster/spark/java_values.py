"""Values that methods of our jar compute: the part of the bridge that needs no more than columns, see
:mod:`ds_dagster.spark.jvm`."""

from __future__ import annotations

from typing import Any, Literal, cast

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType

from ds_dagster.spark.gateway import Package


def time_of_text(text: Column, pattern: Column) -> Column:
    """Milliseconds since 1970 (BIGINT) of a text in UTC by a pattern of Java's SimpleDateFormat; what stands behind
    the pattern is not looked at. NULL when the text does not begin so, and for days that do not exist.

    Fails with PATTERN_INVALID where it is evaluated.
    """
    return _column(_scalars().Times.millis(_java(text), _java(pattern)))


def with_digits(value: Column, digits: Column, mode: Literal["HALF_UP", "DOWN"], type_: DataType) -> Column:
    """A DOUBLE, FLOAT or DECIMAL (``type_``) rounded or cut to so many digits behind the point, in its own type; NULL
    where that cannot hold it. Floats go by their shortest decimal text."""
    return _column(_scalars().Digits.column(_java(value), _java(digits.cast("int")), mode, type_.json()))


def _scalars() -> Any:
    context = cast(Any, SparkContext)._active_spark_context
    return Package("dsdagster.scalar", context._gateway._gateway_client)


def _java(column: Column) -> Any:
    return cast(Any, column)._jc


def _column(made: Any) -> Column:
    return cast(Column, ClassicColumn(made))
