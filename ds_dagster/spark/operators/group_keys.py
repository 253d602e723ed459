"""Keys that are floats: 0 and -0 are equal, and all bit patterns of NaN are equal.

Spark hashes and sorts equal floats alike, so their rows reach an operator as one key with the bits of the first row,
but state is looked up by bits. Spark's own aggregates and joins normalize such keys first; we do the same.
"""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.datatypes import FLOATS, ArrayType, DataType, Scalar, StructType, is_primitive
from ds_dagster.plan.nodes.node import BoundExpression
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.records.columns import AS_JSON
from ds_dagster.spark.records.typemap import spark_sql


def one_zero(column: Column, type_: DataType) -> Column:
    """A value with 0 for -0 and one NaN for all, also inside ARRAY and STRUCT; values of other types unchanged."""
    if not _has_floats(type_):
        return column
    if isinstance(type_, ArrayType):
        element = type_.element
        return sf.transform(column, lambda item: one_zero(item, element))
    if isinstance(type_, StructType):
        parts = [one_zero(column.getField(part.name), part.type).alias(part.name) for part in type_.fields]
        return sf.when(column.isNotNull(), sf.struct(*parts))
    zero, nan = (sf.lit(value).cast(spark_sql(type_)) for value in (0.0, math.nan))
    return sf.when(column == zero, zero).when(sf.isnan(column), nan).otherwise(column)


def flat_key(column: Column, type_: DataType) -> Column:
    """A key as a single value (nested values as JSON): Spark's timers accept no key with an ARRAY inside. Use it for
    keys that are not read back."""
    spelled = one_zero(column, type_)
    return spelled if is_primitive(type_) else sf.when(column.isNotNull(), sf.to_json(sf.array(spelled), dict(AS_JSON)))


def _has_floats(type_: DataType) -> bool:
    if isinstance(type_, ArrayType):
        return _has_floats(type_.element)
    if isinstance(type_, StructType):
        return any(_has_floats(part.type) for part in type_.fields)
    return isinstance(type_, Scalar) and type_.name in FLOATS


def compile_key(frame: DataFrame, expression: BoundExpression) -> Column:
    """An expression as a grouping key."""
    return one_zero(compile_expression(frame, expression), expression.type)
