"""Steps over the rows of one window, as calls of the operators in our jar: joins, and rows with the greatest value."""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.plan.nodes.window_join import MOST_DIGITS, WindowExtreme, WindowJoin
from ds_dagster.spark.clocks.ticks import carry_time
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.operators.group_keys import flat_key
from ds_dagster.spark.operators.join_keys import shared_keys
from ds_dagster.spark.operators.windows import last_moment
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field, with_missing


def join(spark: SparkSession, node: WindowJoin, frames: list[DataFrame], wants: frozenset[str]) -> DataFrame:
    """Pairs of a window, once event time has passed its end; for outer joins also the rows without a partner.

    Args:
        frames: both sides; the steps below have set the watermark.
        wants: technical columns that a node above needs; only the event time is available, the last moment of the
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


def extreme(spark: SparkSession, node: WindowExtreme, frame: DataFrame, wants: frozenset[str]) -> DataFrame:
    """The rows with the greatest (or least) value of each window, once event time has passed its end.

    Args:
        frame: rows with the end of their window; the steps below have set the watermark.
        wants: as for :func:`join`.
    """
    keys = [flat_key(compile_expression(frame, key), key.type) for key in node.keys]
    value = _whole_number(compile_expression(frame, node.value), node.value.type)
    row = sf.struct(*[field(f.name).alias(f.name) for f in node.output])
    timed = frame.select(
        field(node.end).alias("end"),
        *[key.alias(f"k{index}") for index, key in enumerate(keys)],
        (value if node.greatest else sf.bitwise_not(value)).alias("value"),
        row.alias("row"),
        carry_time(field(node.end), "et"),
    )
    leaders = operators(spark).window_extreme(timed, len(keys) + 1)
    output = [sf.col("row").getField(f.name).alias(f.name) for f in node.output]
    if names.EVENT_TIME in wants:
        output.append(last_moment(sf.col("end")))
    return leaders.select(*output)


def _whole_number(value: Column, type_: DataType) -> Column:
    """A BIGINT that sorts like the values and differs for different values."""
    name = type_.name if isinstance(type_, Scalar) else ""
    if name == "DECIMAL" and isinstance(type_, Scalar):
        scale = type_.scale or 0
        times = sf.lit(Decimal(10**scale)).cast(spark_types.DecimalType(MOST_DIGITS + 1, 0))
        return (value.cast(spark_types.DecimalType(MOST_DIGITS, scale)) * times).cast("bigint")
    if name == "DATE":
        return sf.unix_date(value).cast("bigint")
    if name == "TIMESTAMP":
        value = value.cast("timestamp")
    return sf.unix_micros(value) if name.startswith("TIMESTAMP") else value.cast("bigint")


def _side(node: WindowJoin, frame: DataFrame, side: int) -> DataFrame:
    input_, end = (node.right, node.right_end) if side else (node.left, node.left_end)
    keys = [key.alias(f"k{index}") for index, key in enumerate(shared_keys(frame, node, side))]
    row = sf.struct(*[field(f.name).alias(f.name) for f in input_.output])
    return frame.select(field(end).alias("end"), *keys, sf.lit(side).alias("side"), row.alias("r" if side else "l"))
