"""Calls of aggregates and their arguments, for Spark's own aggregates and for ours."""

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
    """A call for our operator.

    Attributes:
        function: name of the aggregate in the operator.
        placed: its argument is a struct of an order and a value.
        distinct: each value counts once.
    """

    function: str
    placed: bool
    distinct: bool


def _record(call: AggregateCall) -> SparkAggregate:
    meaning = GROUP_FUNCTIONS[call.function].spark
    if not isinstance(meaning, SparkAggregate):
        raise error("INTERNAL", where=f"{call.function} is made of other aggregates")
    return meaning


def call_argument(frame: DataFrame, call: AggregateCall) -> Column:
    """The argument of an aggregate for a row: a value, 1 for COUNT(*), or a struct of order and value for aggregates
    with an order. NULL if the FILTER condition does not hold."""
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
    """Groups with a condition that is always true and reads every result, so that Spark neither drops nor reorders
    results that are not used above."""
    return frame.where(sf.xxhash64(*map(_hashed, calls)) >= sf.lit(LEAST_HASH))


def _hashed(call: AggregateCall) -> Column:
    """The value to hash for a result: Spark cannot hash maps, and hashing a long array is slow."""
    result, type_ = field(call.name), to_spark(call.type)
    if isinstance(type_, spark_types.ArrayType | spark_types.MapType):
        return sf.size(result)
    return result.isNull() if isinstance(type_, spark_types.StructType) else result


def delta_form(call: AggregateCall) -> DeltaForm:
    """A call in the form that our operator needs."""
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
