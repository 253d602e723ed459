"""The inputs of a temporal join's operator, and conditions on the joined version."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.join import TemporalJoin
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.spark.expressions import compile_condition
from ds_dagster.spark.operators.join_keys import shared_keys
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field


def side(node: TemporalJoin, frame: DataFrame, number: int) -> DataFrame:
    """One side (0 rows, 1 versions) in the operator's columns; source position breaks ties between versions."""
    input_ = node.right if number else node.left
    keys = [key.alias(f"k{index}") for index, key in enumerate(shared_keys(frame, node, number))]
    row = [field(f.name).alias(f.name) for f in input_.output]
    row += [] if number else [sf.col(names.EVENT_TIME)]
    return frame.select(
        sf.struct(*keys).alias("k"),
        sf.lit(number).alias("side"),
        sf.unix_micros(sf.col(names.EVENT_TIME)).alias("ts"),
        (sf.col(names.ORDER) if number else sf.lit("")).alias("ord"),
        (names.deleted(frame) if number else sf.lit(False)).alias("deleted"),
        sf.struct(*row).alias("r" if number else "l"),
        sf.col(names.EVENT_TIME).alias("et"),
    )


def without_version(frame: DataFrame, residual: BoundExpression, versions: Node) -> DataFrame:
    """Joined rows; a version that fails the other conditions of ON counts as missing."""
    holds = compile_condition(frame, residual)
    version = versions.names
    return frame.select(*[sf.when(holds, field(n)).alias(n) if n in version else field(n) for n in frame.columns])
