"""Values that methods of our jar compute: the part of the bridge that needs no more than columns, see
:mod:`ds_dagster.spark.jvm`."""

from __future__ import annotations

from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql.classic.column import Column as ClassicColumn

from ds_dagster.spark.gateway import Package


def time_of_text(text: Column, pattern: Column) -> Column:
    """Milliseconds since 1970 (BIGINT) of a text in UTC by a pattern of Java's SimpleDateFormat; what stands behind
    the pattern is not looked at. NULL when the text does not begin so, and for days that do not exist.

    Fails with PATTERN_INVALID where it is evaluated.
    """
    return _column(_scalars().millis(_java(text), _java(pattern)))


def truncated(value: Column, digits: Column, *, wide: bool) -> Column:
    """A DOUBLE (``wide``) or FLOAT cut to so many digits behind the point, by its shortest decimal text."""
    return _column(_scalars().truncate(_java(value), _java(digits.cast("int")), wide))


def _scalars() -> Any:
    context = cast(Any, SparkContext)._active_spark_context
    return Package("dsdagster", context._gateway._gateway_client).scalar.Scalars


def _java(column: Column) -> Any:
    return cast(Any, column)._jc


def _column(made: Any) -> Column:
    return cast(Column, ClassicColumn(made))
