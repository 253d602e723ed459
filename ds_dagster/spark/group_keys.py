"""Keys that are floats: 0 and -0 are one number, and so are all spellings of NaN.

Spark hashes and sorts them alike, so rows of both come to an operator as one key that is spelled like the first of
them, while state is found by how a key is spelled. Spark's own aggregates and joins spell them alike before; so do we.
"""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.datatypes import FLOATS, DataType, Scalar
from ds_dagster.plan.nodes import BoundExpression
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.typemap import spark_sql


def one_zero(column: Column, type_: DataType) -> Column:
    """A value of that type, 0 for -0 and one NaN for all; of other types as it is."""
    if not isinstance(type_, Scalar) or type_.name not in FLOATS:
        return column
    zero, nan = (sf.lit(value).cast(spark_sql(type_)) for value in (0.0, math.nan))
    return sf.when(column == zero, zero).when(sf.isnan(column), nan).otherwise(column)


def compile_key(frame: DataFrame, expression: BoundExpression) -> Column:
    """An expression that tells rows apart."""
    return one_zero(compile_expression(frame, expression), expression.type)
