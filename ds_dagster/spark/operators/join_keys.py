"""Keys of joins: each side's expressions, in the types that both sides share."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.datatypes import common_type
from ds_dagster.plan.nodes.delta import DeltaJoin
from ds_dagster.plan.nodes.join import IntervalJoin, TemporalJoin
from ds_dagster.plan.nodes.window_join import WindowJoin
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.operators.group_keys import flat_key
from ds_dagster.spark.records.typemap import spark_sql


def shared_keys(
    frame: DataFrame, node: IntervalJoin | TemporalJoin | DeltaJoin | WindowJoin, side: int
) -> list[Column]:
    """The keys of one side (0 left, 1 right) over its frame, in order; equal keys have equal bits."""
    keys = []
    for pair in zip(node.left_keys, node.right_keys, strict=True):
        shared = common_type(pair[0].type, pair[1].type) or pair[0].type
        keys.append(flat_key(compile_expression(frame, pair[side]).cast(spark_sql(shared)), shared))
    return keys


def null_mark(keys: list[Column], side: int) -> Column:
    """An additional key that differs between the sides if a key is NULL. Spark's FULL join of streams looks up rows by
    their keys and treats two NULLs as equal; its other joins filter NULLs first."""
    missing = reduce(Column.__or__, [key.isNull() for key in keys])
    return sf.when(missing, sf.lit(side + 1)).otherwise(sf.lit(0))
