"""Rows with weights: the plan's delta nodes as calls of the operators in our jar.

Spark takes no native stateful step behind these operators and needs none: each is a ``transformWithState`` in append
mode, without time unless it forgets (``ttl_millis``), and keeps its state in RocksDB.
"""

from __future__ import annotations

import json

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.datatypes import common_type
from ds_dagster.plan.delta_nodes import DeltaAggregate, DeltaJoin, Fold, Weigh, appends_only
from ds_dagster.plan.nodes import AggregateCall, Field
from ds_dagster.spark import columns as names
from ds_dagster.spark.aggregate_calls import call_argument, delta_form, delta_result, delta_type
from ds_dagster.spark.columns import field, with_missing
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.typemap import to_spark


def weigh(spark: SparkSession, node: Weigh, frame: DataFrame) -> DataFrame:
    """Rows that come for good, or what upserts change.

    Args:
        frame: the node's input; of upserts with ``ORDER`` and, where rows may be deletes, ``DELETED``.
    """
    if not node.is_stateful:
        rows = frame.select(*[field(f.name) for f in node.output])
        return rows.withColumn(names.WEIGHT, sf.lit(1).cast("bigint"))
    keyed = frame.select(
        *[field(name).alias(f"k{index}") for index, name in enumerate(node.key)],
        sf.coalesce(sf.col(names.ORDER), sf.lit("")).cast("binary").alias("ord"),
        names.deleted(frame).alias("deleted"),
        _row(node.output).alias("row"),
    )
    made = operators(spark).upsert_to_delta(keyed, len(node.key), ttl_millis=node.ttl_millis)
    return made.select(*_fields("row", node.output), sf.col("w").alias(names.WEIGHT))


def aggregate(spark: SparkSession, node: DeltaAggregate, frame: DataFrame) -> DataFrame:
    """Groups of rows with weights. Equal arguments with equal conditions are one column."""
    keys = [compile_expression(frame, named.expression).alias(f"k{index}") for index, named in enumerate(node.group)]
    arguments: dict[str, Column] = {}
    calls = [_call(frame, call, arguments) for call in node.calls]
    values = [column.alias(f"a{index}") for index, column in enumerate(arguments.values())]
    made = operators(spark).delta_aggregate(
        frame.select(*keys, *values, sf.col(names.WEIGHT).alias("w")),
        len(keys),
        json.dumps(calls),
        appends_only=appends_only(node.input),
        weighted=node.weighted,
        ttl_millis=node.ttl_millis,
    )
    output = [sf.col(f"k{index}").alias(named.name) for index, named in enumerate(node.group)]
    output += [delta_result(sf.col(f"c{index}"), call) for index, call in enumerate(node.calls)]
    last = sf.col("w").alias(names.WEIGHT) if node.weighted else sf.col("deleted").alias(names.DELETED)
    return made.select(*output, last)


def _call(frame: DataFrame, call: AggregateCall, arguments: dict[str, Column]) -> dict[str, object]:
    """A call as the operator reads it; its argument joins those known already."""
    index = -1
    if call.argument is not None or call.filter is not None:
        text = repr((call.argument, call.filter, call.order))
        arguments.setdefault(text, call_argument(frame, call))
        index = list(arguments).index(text)
    form = delta_form(call)
    return {
        "function": form.function,
        "argument": index,
        "distinct": form.distinct,
        "type": delta_type(call).jsonValue(),
    }


def join(spark: SparkSession, node: DeltaJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """Pairs of rows with weights, and the rows without partner of outer joins."""
    sides = (_side(node, left, 0), _side(node, right, 1))
    both = with_missing(sides[0], "r", sides[1]).unionByName(with_missing(sides[1], "l", sides[0]))
    keys = len(node.left_keys)
    ordered = both.select(*[f"k{index}" for index in range(keys)], "side", "l", "r", "w")
    made = operators(spark).delta_join(ordered, keys, node.kind, ttl_millis=node.ttl_millis)
    output = _fields("l", node.left.output)
    if node.kind not in ("semi", "anti"):
        output += _fields("r", node.right.output)
    return made.select(*output, sf.col("w").alias(names.WEIGHT))


def _side(node: DeltaJoin, frame: DataFrame, side: int) -> DataFrame:
    input_ = node.right if side else node.left
    keys = []
    for index, pair in enumerate(zip(node.left_keys, node.right_keys, strict=True)):
        shared = to_spark(common_type(pair[0].type, pair[1].type) or pair[0].type)
        keys.append(compile_expression(frame, pair[side]).cast(shared).alias(f"k{index}"))
    row = _row(input_.output).alias("r" if side else "l")
    return frame.select(*keys, sf.lit(side).alias("side"), row, sf.col(names.WEIGHT).alias("w"))


def fold(spark: SparkSession, node: Fold, frame: DataFrame) -> DataFrame:
    """At most one upsert or delete per key."""
    keys = [field(name).alias(f"k{index}") for index, name in enumerate(node.key)]
    keyed = frame.select(*keys, _row(node.output).alias("row"), sf.col(names.WEIGHT).alias("w"))
    made = operators(spark).fold(keyed, len(keys))
    return made.select(*_fields("row", node.output), sf.col("deleted").alias(names.DELETED))


def _row(fields: tuple[Field, ...]) -> Column:
    return sf.struct(*[field(f.name).alias(f.name) for f in fields])


def _fields(struct: str, fields: tuple[Field, ...]) -> list[Column]:
    return [sf.col(struct).getField(f.name).alias(f.name) for f in fields]
