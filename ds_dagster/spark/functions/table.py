"""How Spark computes the aggregates of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

Aggregate = Callable[[Column], Column]
PLACED_VALUE = "value"
"""Field of the value behind its place in time."""


def _sorted_or_null(values: Column) -> Column:
    """Spark keeps the order in which tasks came; ours is the values' own."""
    return sf.when(sf.size(values) > 0, sf.sort_array(values))


AGGREGATES: Mapping[str, Aggregate] = MappingProxyType(
    {
        "COUNT": sf.count,
        "SUM": sf.sum,
        "AVG": sf.avg,
        "MIN": sf.min,
        "MAX": sf.max,
        "VAR_POP": sf.var_pop,
        "VAR_SAMP": sf.var_samp,
        "STDDEV_POP": sf.stddev_pop,
        "STDDEV_SAMP": sf.stddev_samp,
        "ARRAY_AGG": lambda value: _sorted_or_null(sf.collect_list(value)),
        "FIRST_VALUE": lambda placed: sf.min(placed).getField(PLACED_VALUE),
        "LAST_VALUE": lambda placed: sf.max(placed).getField(PLACED_VALUE),
        "APPROX_COUNT_DISTINCT": sf.approx_count_distinct,
    }
)
"""Aggregate → Spark, over what ``aggregate_calls.call_argument`` gives."""


def _by_place(pick: Callable[[Column, Column], Column]) -> Aggregate:
    """By the place alone, and the value's text where places are equal: a MAP has no order."""

    def made(placed: Column) -> Column:
        value = placed.getField(PLACED_VALUE)
        order = sf.struct(placed.getField("order"), sf.to_json(sf.array(value)))
        return pick(value, sf.when(placed.isNotNull(), order))

    return made


UNORDERED_AGGREGATES: Mapping[str, Aggregate] = MappingProxyType(
    {"FIRST_VALUE": _by_place(sf.min_by), "LAST_VALUE": _by_place(sf.max_by)}
)
"""The same of values that cannot be compared."""


def _sum_of_set(value: Column, type_: spark_types.DataType) -> Column:
    """NULL without values, as SUM and AVG have it."""
    values = sf.collect_set(value)
    total = sf.aggregate(values, sf.lit(0).cast(type_), lambda so_far, one: (so_far + one).cast(type_))
    return sf.when(sf.size(values) > 0, total)


def _average_of_set(value: Column, type_: spark_types.DataType) -> Column:
    return _sum_of_set(value, type_) / sf.size(sf.collect_set(value))


def _spread_of_set(sample: bool, root: bool) -> Callable[[Column, spark_types.DataType], Column]:
    def made(value: Column, _type: spark_types.DataType) -> Column:
        values = sf.transform(sf.collect_set(value), lambda one: one.cast("double"))
        number = sf.size(values)
        mean = sf.aggregate(values, sf.lit(0.0), lambda so_far, one: so_far + one) / number
        squares = sf.aggregate(values, sf.lit(0.0), lambda so_far, one: so_far + (one - mean) * (one - mean))
        variance = sf.when(number > int(sample), squares / (number - int(sample)))
        return sf.sqrt(variance) if root else variance

    return made


DISTINCT_AGGREGATES: Mapping[str, Callable[[Column, spark_types.DataType], Column]] = MappingProxyType(
    {
        "COUNT": lambda value, _type: sf.size(sf.collect_set(value)),
        "SUM": _sum_of_set,
        "AVG": _average_of_set,
        "VAR_POP": _spread_of_set(sample=False, root=False),
        "VAR_SAMP": _spread_of_set(sample=True, root=False),
        "STDDEV_POP": _spread_of_set(sample=False, root=True),
        "STDDEV_SAMP": _spread_of_set(sample=True, root=True),
        "ARRAY_AGG": lambda value, _type: _sorted_or_null(sf.collect_set(value)),
    }
)
"""The same with DISTINCT, given the result's type. Spark has no distinct aggregate over streams, but keeps sets."""
