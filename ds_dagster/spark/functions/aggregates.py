"""Calls of aggregates: what they take of a row, for Spark's own aggregates and for ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.datatypes import is_comparable
from ds_dagster.plan.nodes.aggregate import AggregateCall
from ds_dagster.spark.expressions import compile_condition, compile_expression
from ds_dagster.spark.functions.table import AGGREGATES, DISTINCT_AGGREGATES, PLACED_VALUE, UNORDERED_AGGREGATES
from ds_dagster.spark.records.typemap import to_spark


class DeltaForm(NamedTuple):
    """A function that our operator has under another name: over values behind their place (``placed``), or over values
    that count once (``distinct``)."""

    function: str
    placed: bool = False
    distinct: bool = False


DELTA_FORMS: Mapping[str, DeltaForm] = MappingProxyType(
    {
        "FIRST_VALUE": DeltaForm("MIN", placed=True),
        "LAST_VALUE": DeltaForm("MAX", placed=True),
        "APPROX_COUNT_DISTINCT": DeltaForm("COUNT", distinct=True),
    }
)


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
    value, type_ = call_argument(frame, call), to_spark(call.type)
    if call.distinct:
        made = DISTINCT_AGGREGATES[call.function](value, type_)
    elif is_comparable(call.type):
        made = AGGREGATES[call.function](value)
    else:
        made = UNORDERED_AGGREGATES[call.function](value)
    return made.cast(type_).alias(call.name)


def delta_form(call: AggregateCall) -> DeltaForm:
    """A call as our operator has it."""
    form = DELTA_FORMS.get(call.function, DeltaForm(call.function))
    return form._replace(distinct=form.distinct or call.distinct)


def delta_type(call: AggregateCall) -> spark_types.DataType:
    """The type of what our operator gives."""
    type_ = to_spark(call.type)
    if call.order is None:
        return type_
    placed = spark_types.StructType().add("order", to_spark(call.order.type))
    return placed.add(PLACED_VALUE, type_)


def delta_result(column: Column, call: AggregateCall) -> Column:
    """The call's result from what our operator gives."""
    return (column.getField(PLACED_VALUE) if delta_form(call).placed else column).alias(call.name)
