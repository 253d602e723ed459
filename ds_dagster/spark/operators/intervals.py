"""Interval joins that use the operator in our jar (:func:`ds_dagster.plan.state_store.own_joins`).

Spark's own join searches all rows of a key for partners, and stores each row as a separate state; ours stores a key's
rows in time order as one state. But Spark delays its watermark by the bound, since a pair is as old as its left row,
and an operator cannot do that: if a step above needs the event time of the pairs, Spark's join is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.join import IntervalJoin, JoinKind
from ds_dagster.spark.clocks.ticks import carry_time
from ds_dagster.spark.expressions import compile_condition
from ds_dagster.spark.functions.java_values import scalar
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.operators.join_keys import null_mark, shared_keys
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field, with_missing

_NATIVE_KINDS: Mapping[JoinKind, str] = MappingProxyType({"inner": "inner", "left": "left_outer", "full": "full_outer"})


def join(
    spark: SparkSession, node: IntervalJoin, frames: tuple[DataFrame, DataFrame], wants: frozenset[str]
) -> DataFrame:
    """Pairs; for outer joins also the rows without a partner, once no partner can arrive.

    Args:
        frames: both sides with ``EVENT_TIME``, the watermark on it.
        wants: technical columns that a node above needs; only the event time is available: that of the left row, or of
            a right row without a partner. It carries no watermark.
    """
    sides = [_side(node, frame, side) for side, frame in enumerate(frames)]
    both = with_missing(sides[0], "r", sides[1]).unionByName(with_missing(sides[1], "l", sides[0]))
    keys = [f"k{index}" for index in range(len(node.left_keys))]
    timed = both.select(*keys, "side", "l", "r", carry_time(sf.col("et"), "et"))
    joined = operators(spark).interval_join(timed, len(keys), node.kind, node.within_millis * 1000)
    output = [sf.col("l").getField(f.name).alias(f.name) for f in node.left.output]
    output += [sf.col("r").getField(f.name).alias(f.name) for f in node.right.output]
    if names.EVENT_TIME in wants:
        times = [sf.col(side).getField(names.EVENT_TIME) for side in ("l", "r")]
        output.append(sf.coalesce(*times).alias(names.EVENT_TIME))
    return joined.select(*output)


def native_join(node: IntervalJoin, frames: tuple[DataFrame, DataFrame], wants: frozenset[str]) -> DataFrame:
    """Spark's own join: two range predicates over the event times, from which Spark derives how long rows are kept. The
    event time is that of the left row, or of a right row without a partner; it carries the watermark.

    Args:
        frames: both sides with ``EVENT_TIME``, the watermark on it.
        wants: technical columns that a node above needs; only the event time is available.
    """
    left, right = (_native_side(node, frame, side) for side, frame in enumerate(frames))
    within = sf.lit(timedelta(milliseconds=node.within_millis))
    left_time, right_time = sf.col("__left_time"), sf.col("__right_time")
    condition = (right_time >= left_time - within) & (right_time <= left_time + within)
    for name in left.columns:
        if name.startswith("__left_key"):
            condition = condition & (sf.col(name) == sf.col(name.replace("left", "right", 1)))
    if node.residual is not None:
        condition = condition & compile_condition(left.join(right, sf.lit(True)), node.residual)
    time = []
    if names.EVENT_TIME in wants:
        both = sf.coalesce(left_time, right_time) if node.kind == "full" else left_time
        time.append(carry_time(both, names.EVENT_TIME))
    joined = left.join(right, condition, _NATIVE_KINDS[node.kind])
    return joined.select(*[field(f.name) for f in node.output], *time)


def _native_side(node: IntervalJoin, frame: DataFrame, side: int) -> DataFrame:
    """One side: its fields, its keys in the types that both sides share, and its event time. Spark keeps the schema of
    a side with nullability, and ends a query that starts again with another one."""
    name, input_ = ("right", node.right) if side else ("left", node.left)
    keys = shared_keys(frame, node, side)
    keys += [null_mark(keys, side)] if node.kind == "full" else []
    key_columns = [key.alias(f"__{name}_key{index}") for index, key in enumerate(keys)]
    time = carry_time(scalar("Nullable.time", sf.col(names.EVENT_TIME)), f"__{name}_time")
    return frame.select(*[field(f.name) for f in input_.output], *key_columns, time)


def _side(node: IntervalJoin, frame: DataFrame, side: int) -> DataFrame:
    input_ = node.right if side else node.left
    keys = [key.alias(f"k{index}") for index, key in enumerate(shared_keys(frame, node, side))]
    time = sf.col(names.EVENT_TIME)
    row = sf.struct(*[field(f.name).alias(f.name) for f in input_.output], time).alias("r" if side else "l")
    return frame.select(*keys, sf.lit(side).alias("side"), row, time.alias("et"))
