"""Calls of aggregates: their inputs from a row, for Spark's own aggregates and for ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.datatypes import is_comparable
from ds_dagster.errors import error
from ds_dagster.functions.families.ordered_aggregates import PLACED_VALUE
from ds_dagster.functions.group_function import SparkAggregate
from ds_dagster.functions.table import GROUP_FUNCTIONS
from ds_dagster.plan.nodes.aggregate import AggregateCall
from ds_dagster.spark.expressions import compile_condition, compile_expression
from ds_dagster.spark.records.columns import field
from ds_dagster.spark.records.typemap import to_spark

LEAST_HASH = -(1 << 63)


class DeltaForm(NamedTuple):
    """A call as our operator has it: its name there, and whether it goes over values behind their place (``placed``) or
    over values that count once (``distinct``)."""

    function: str
    placed: bool
    distinct: bool


def _record(call: AggregateCall) -> SparkAggregate:
    meaning = GROUP_FUNCTIONS[call.function].spark
    if not isinstance(meaning, SparkAggregate):
        raise error("INTERNAL", where=f"{call.function} is made of other aggregates")
    return meaning


def call_argument(frame: DataFrame, call: AggregateCall) -> Column:
    """What an aggregate takes of a row, NULL where its condition does not hold: a value, 1 for COUNT(*), or a value
    behind its place in time."""
    value = sf.lit(1) if call.argument is None else compile_expression(frame, call.argument)
    if call.order is not None:
        placed = sf.struct(compile_expression(frame, call.order).alias("order"), value.alias(PLACED_VALUE))
        value = sf.when(value.isNotNull(), placed)
    return value if call.filter is None else sf.when(compile_condition(frame, call.filter), value)


def native_call(frame: DataFrame, call: AggregateCall) -> Column:
    """A call as Spark's own aggregate."""
    value, type_, meaning = call_argument(frame, call), to_spark(call.type), _record(call)
    if call.distinct and meaning.values is not None:
        aggregated = meaning.values(sf, sf.collect_set(value), type_)
    elif meaning.unordered is not None and not is_comparable(call.type):
        aggregated = meaning.unordered(sf, value)
    elif isinstance(meaning.rows, str):
        aggregated = sf.call_function(meaning.rows, value)
    else:
        aggregated = meaning.rows(sf, value)
    column: Column = aggregated.cast(type_).alias(call.name)
    return column


def all_computed(frame: DataFrame, calls: Sequence[AggregateCall]) -> DataFrame:
    """Groups of which Spark leaves out no result and changes no order, whatever is read of them: a condition that
    always holds reads them all."""
    return frame.where(sf.xxhash64(*map(_hashed, calls)) >= sf.lit(LEAST_HASH))


def _hashed(call: AggregateCall) -> Column:
    """What is hashed of a result: Spark hashes no map, and a long array takes time."""
    result, type_ = field(call.name), to_spark(call.type)
    if isinstance(type_, spark_types.ArrayType | spark_types.MapType):
        return sf.size(result)
    return result.isNull() if isinstance(type_, spark_types.StructType) else result


def delta_form(call: AggregateCall) -> DeltaForm:
    """A call as our operator has it."""
    meaning = _record(call)
    return DeltaForm(meaning.operator or call.function, meaning.placed, meaning.distinct or call.distinct)


def delta_type(call: AggregateCall) -> spark_types.DataType:
    """The type of our operator's result."""
    type_ = to_spark(call.type)
    if call.order is None:
        return type_
    placed = spark_types.StructType().add("order", to_spark(call.order.type))
    return placed.add(PLACED_VALUE, type_)


def delta_result(column: Column, call: AggregateCall) -> Column:
    """The call's result from our operator's result."""
    return (column.getField(PLACED_VALUE) if delta_form(call).placed else column).alias(call.name)
