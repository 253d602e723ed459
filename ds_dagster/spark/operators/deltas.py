"""Rows with weights: the plan's delta nodes as calls of the operators in our jar.

Each operator is a ``transformWithState`` in append mode with its state in RocksDB, and uses no time unless state
expires (``ttl_millis``). Spark allows no native stateful step after such an operator; plans have none there.
"""

from __future__ import annotations

import json

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from sqlglot import exp

from ds_dagster.datatypes import INTEGER
from ds_dagster.plan.nodes.aggregate import AggregateCall
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin, Distinct, Fold, Weigh
from ds_dagster.plan.nodes.node import BoundExpression, Field
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.spark.expressions import compile_condition
from ds_dagster.spark.functions.aggregates import call_argument, delta_form, delta_result, delta_type
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.operators.group_keys import compile_key, one_zero
from ds_dagster.spark.operators.join_keys import shared_keys
from ds_dagster.spark.operators.key_places import place_of_changes, place_of_partitions
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field, with_missing


def weigh(spark: SparkSession, node: Weigh, frame: DataFrame) -> DataFrame:
    """Appended rows, or the changes of upserts.

    Args:
        frame: the node's input; for upserts with ``ORDER`` and, if rows may be deletes, ``DELETED``.
    """
    if not node.is_stateful:
        rows = frame.select(*[field(f.name) for f in node.output])
        return rows.withColumn(names.WEIGHT, sf.lit(1).cast("bigint"))
    keyed = frame.select(
        *_keys(node.key, node.output),
        sf.coalesce(sf.col(names.ORDER), sf.lit("")).cast("binary").alias("ord"),
        names.deleted(frame).alias("deleted"),
        _row(node.output).alias("row"),
    )
    deltas = operators(spark).upsert_to_delta(keyed, len(node.key), ttl_millis=node.ttl_millis)
    return deltas.select(*_fields("row", node.output), sf.col("w").alias(names.WEIGHT))


def aggregate(spark: SparkSession, node: DeltaAggregate, frame: DataFrame) -> DataFrame:
    """Groups of rows with weights. Equal arguments with equal FILTER conditions share a column."""
    keys = [compile_key(frame, named.expression).alias(f"k{index}") for index, named in enumerate(node.group)]
    arguments: dict[str, Column] = {}
    calls = [_call(frame, call, arguments) for call in node.calls]
    values = [column.alias(f"a{index}") for index, column in enumerate(arguments.values())]
    rows = operators(spark).delta_aggregate(
        frame.select(*keys, *values, sf.col(names.WEIGHT).alias("w")),
        len(keys),
        json.dumps(calls),
        appends_only=node.input.only_grows,
        weighted=node.weighted,
        ttl_millis=node.ttl_millis,
    )
    output = [sf.col(f"k{index}").alias(named.name) for index, named in enumerate(node.group)]
    output += [delta_result(sf.col(f"c{index}"), call) for index, call in enumerate(node.calls)]
    last = sf.col("w").alias(names.WEIGHT) if node.weighted else sf.col("deleted").alias(names.DELETED)
    return rows.select(*output, last)


def _call(frame: DataFrame, call: AggregateCall, arguments: dict[str, Column]) -> dict[str, object]:
    """A call in the operator's JSON; adds its argument to ``arguments`` unless an equal one is there."""
    index = -1
    if call.argument is not None or call.filter is not None:
        text = repr((call.argument, call.filter, call.order))
        arguments.setdefault(text, _value(frame, call))
        index = list(arguments).index(text)
    form = delta_form(call)
    return {
        "function": form.function,
        "argument": index,
        "distinct": form.distinct,
        "type": delta_type(call).jsonValue(),
    }


def _value(frame: DataFrame, call: AggregateCall) -> Column:
    value = call_argument(frame, call)
    return value if call.argument is None or call.order is not None else one_zero(value, call.argument.type)


def join(spark: SparkSession, node: DeltaJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """Pairs of rows with weights; for outer joins also the rows without a partner."""
    sides = (_side(node, left, 0), _side(node, right, 1))
    both = with_missing(sides[0], "r", sides[1]).unionByName(with_missing(sides[1], "l", sides[0]))
    keys = len(node.left_keys)
    ordered = both.select(*[f"k{index}" for index in range(keys)], "side", "l", "r", "w")
    if node.residual is None:
        rows = operators(spark).delta_join(ordered, keys, node.kind, ttl_millis=node.ttl_millis)
    else:
        rows = _residual_join(spark, node, ordered, node.residual)
    output = _fields("l", node.left.output)
    if node.kind not in ("semi", "anti"):
        output += _fields("r", node.right.output)
    return rows.select(*output, sf.col("w").alias(names.WEIGHT))


def _residual_join(spark: SparkSession, node: DeltaJoin, both: DataFrame, residual: BoundExpression) -> DataFrame:
    """An outer join with conditions besides the keys: the pairs that satisfy them, and the rows that are in none of
    these pairs. State does not expire: such a join is refused with a time to live."""
    rows = operators(spark).delta_join(both, len(node.left_keys), f"{node.kind}_own")
    wide = rows.select("l", "r", "w", *_fields("l", node.left.output), *_fields("r", node.right.output))
    is_single = sf.col("l").isNull() | sf.col("r").isNull()
    counted = wide.where(is_single | compile_condition(wide, residual)).select("l", "r", "w")
    counted = operators(spark).lonely(counted, is_left=True)
    return operators(spark).lonely(counted, is_left=False) if node.kind == "full" else counted


def _side(node: DeltaJoin, frame: DataFrame, side: int) -> DataFrame:
    input_ = node.right if side else node.left
    keys = [key.alias(f"k{index}") for index, key in enumerate(shared_keys(frame, node, side))]
    row = _row(input_.output).alias("r" if side else "l")
    return frame.select(*keys, sf.lit(side).alias("side"), row, sf.col(names.WEIGHT).alias("w"))


def distinct(spark: SparkSession, node: Distinct, frame: DataFrame) -> DataFrame:
    """Each row once: with weights, or appended if there are no retractions."""
    keys = _keys(tuple(f.name for f in node.output), node.output)
    rows = frame.select(*keys, sf.col(names.WEIGHT).alias("w"))
    deltas = operators(spark).distinct(rows, appends_only=node.changelog == "append", ttl_millis=node.ttl_millis)
    output = [sf.col(f"k{index}").alias(f.name) for index, f in enumerate(node.output)]
    return deltas.select(*output, *([] if node.changelog == "append" else [sf.col("w").alias(names.WEIGHT)]))


def unweigh(frame: DataFrame, output: tuple[Field, ...]) -> DataFrame:
    """Each row as many times as its weight."""
    copies = sf.explode(sf.array_repeat(sf.lit(1), sf.col(names.WEIGHT).cast("int"))).alias("__copy")
    fields = [field(f.name) for f in output]
    return frame.select(*fields, copies).select(*fields)


def top_n(spark: SparkSession, node: TopN, frame: DataFrame) -> DataFrame:
    """The first rows of each partition; without PARTITION BY all rows are in one partition."""
    partition = node.partition or (BoundExpression(exp.Literal.number(0), INTEGER, nullable=False),)
    keys = [compile_key(frame, expression).alias(f"k{index}") for index, expression in enumerate(partition)]
    order = [compile_key(frame, term.expression).alias(f"o{index}") for index, term in enumerate(node.order)]
    terms = [{"descending": term.descending, "nulls_first": term.nulls_first} for term in node.order]
    rows = operators(spark).top_n(
        frame.select(*keys, *order, _row(node.input.output).alias("row"), sf.col(names.WEIGHT).alias("w")),
        len(keys),
        json.dumps({"function": node.function, "limit": node.limit, "order": terms}),
        appends_only=node.input.only_grows,
        whole=node.is_whole,
        ranked=node.ranked,
        ttl_millis=node.ttl_millis,
        place=place_of_partitions(node),
    )
    rank = [sf.col("rank").alias(node.rank)] if node.ranked else []
    return rows.select(*_fields("row", node.input.output), *rank, sf.col("w").alias(names.WEIGHT))


def fold(spark: SparkSession, node: Fold, frame: DataFrame) -> DataFrame:
    """At most one upsert or delete per key."""
    keys = _keys(node.key, node.output)
    keyed = frame.select(*keys, _row(node.output).alias("row"), sf.col(names.WEIGHT).alias("w"))
    rows = operators(spark).fold(keyed, len(keys), place_of_changes(node))
    return rows.select(*_fields("row", node.output), sf.col("deleted").alias(names.DELETED))


def _keys(key: tuple[str, ...], fields: tuple[Field, ...]) -> list[Column]:
    types = {f.name: f.type for f in fields}
    return [one_zero(field(name), types[name]).alias(f"k{index}") for index, name in enumerate(key)]


def _row(fields: tuple[Field, ...]) -> Column:
    return sf.struct(*[field(f.name).alias(f.name) for f in fields])


def _fields(struct: str, fields: tuple[Field, ...]) -> list[Column]:
    return [sf.col(struct).getField(f.name).alias(f.name) for f in fields]
