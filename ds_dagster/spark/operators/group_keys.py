"""Keys that are floats: 0 and -0 are one number, and so are all spellings of NaN.

Spark hashes and sorts them alike, so rows of both come to an operator as one key that is spelled like the first of
them, while state is found by how a key is spelled. Spark's own aggregates and joins spell them alike before; so do we.
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
    """A value of that type, 0 for -0 and one NaN for all, also inside of ARRAY and STRUCT; others as they are."""
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
    """A key that no row is made of again, as a single value: Spark's timers take no key with an ARRAY inside."""
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
