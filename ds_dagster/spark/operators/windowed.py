"""Joins of rows in the same window, as calls of the operator in our jar."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.window_join import WindowJoin
from ds_dagster.spark.clocks.ticks import carry_time
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.operators.join_keys import shared_keys
from ds_dagster.spark.operators.windows import last_moment
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field, with_missing


def join(spark: SparkSession, node: WindowJoin, frames: list[DataFrame], wants: frozenset[str]) -> DataFrame:
    """Pairs of a window, and the rows without partner of outer joins, once time has passed its end.

    Args:
        frames: both sides; the ends of their windows come from steps that carry time.
        wants: technical columns somebody above asks for; only the event time is known here, the last moment of the
            window.
    """
    sides = [_side(node, frame, side) for side, frame in enumerate(frames)]
    both = with_missing(sides[0], "r", sides[1]).unionByName(with_missing(sides[1], "l", sides[0]))
    keys = [f"k{index}" for index in range(len(node.left_keys))]
    timed = both.select("end", *keys, "side", "l", "r", carry_time(sf.col("end"), "et"))
    joined = operators(spark).window_join(timed, len(keys) + 1, node.kind)
    output = [sf.col("l").getField(f.name).alias(f.name) for f in node.left.output]
    output += [sf.col("r").getField(f.name).alias(f.name) for f in node.right.output]
    if names.EVENT_TIME in wants:
        output.append(last_moment(sf.col("end")))
    return joined.select(*output)


def _side(node: WindowJoin, frame: DataFrame, side: int) -> DataFrame:
    input_, end = (node.right, node.right_end) if side else (node.left, node.left_end)
    keys = [key.alias(f"k{index}") for index, key in enumerate(shared_keys(frame, node, side))]
    row = sf.struct(*[field(f.name).alias(f.name) for f in input_.output])
    return frame.select(field(end).alias("end"), *keys, sf.lit(side).alias("side"), row.alias("r" if side else "l"))
