"""OVER, results over the rows before a row: the plan's node as a call of the operator in our jar."""

from __future__ import annotations

import json

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.over import Over, OverCall
from ds_dagster.spark.clocks.ticks import carry_time
from ds_dagster.spark.expressions import compile_condition, compile_expression
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.operators.group_keys import flat_key
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field
from ds_dagster.spark.records.typemap import to_spark


def over(spark: SparkSession, node: Over, frame: DataFrame, *, timed: bool) -> DataFrame:
    """Rows with their results, once event time has passed them.

    Args:
        frame: the node's input with ``EVENT_TIME``, the watermark on it.
        timed: the result has ``EVENT_TIME``, with the watermark on it.
    """
    partition = [flat_key(compile_expression(frame, e), e.type) for e in node.partition] or [sf.lit(0)]
    keys = [column.alias(f"k{index}") for index, column in enumerate(partition)]
    arguments = [_argument(frame, call).alias(f"a{index}") for index, call in enumerate(node.calls)]
    time = [sf.col(names.EVENT_TIME)] if timed else []
    row = sf.struct(*[field(f.name).alias(f.name) for f in node.input.output], *time).alias("row")
    calls = [
        {"function": call.function, "argument": index, "type": to_spark(call.type).jsonValue()}
        for index, call in enumerate(node.calls)
    ]
    rows_over = operators(spark).event_over(
        frame.select(*keys, carry_time(sf.col(names.EVENT_TIME), "et"), *arguments, row),
        len(keys),
        json.dumps(calls),
        by_time=node.by_time,
        before=node.before,
        ttl_millis=node.ttl_millis,
    )
    fields = [sf.col("row").getField(f.name).alias(f.name) for f in node.input.output]
    results = [sf.col(f"c{index}").alias(call.name) for index, call in enumerate(node.calls)]
    carried = [carry_time(sf.col("row").getField(names.EVENT_TIME), names.EVENT_TIME)] if timed else []
    return rows_over.select(*fields, *results, *carried)


def _argument(frame: DataFrame, call: OverCall) -> Column:
    value = sf.lit(1) if call.argument is None else compile_expression(frame, call.argument)
    return value if call.filter is None else sf.when(compile_condition(frame, call.filter), value)
