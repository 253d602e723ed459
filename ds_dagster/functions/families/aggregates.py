"""Aggregates of values in any order; Flink SQL's names and meanings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, BOOLEAN, DOUBLE, FLOATS, ArrayType, DataType, Scalar, decimal, is_integer
from ds_dagster.functions.function import first
from ds_dagster.functions.group_function import GroupFunction, MadeOf, SparkAggregate, aggregate
from ds_dagster.functions.question import named
from ds_dagster.functions.spark import Functions

if TYPE_CHECKING:
    from decimal import Decimal

    from ds_dagster.functions.values.aggregate import QuestionAggregate

# --- types ------------------------------------------------------------------------------------------------------------


def _total(types: Sequence[DataType]) -> DataType:
    type_ = types[0]
    if is_integer(type_):
        return BIGINT
    if isinstance(type_, Scalar) and type_.name == "DECIMAL":
        return decimal(38, type_.scale or 0)
    return DOUBLE


def _mean(types: Sequence[DataType]) -> DataType:
    type_ = types[0]
    if isinstance(type_, Scalar) and type_.name == "DECIMAL":
        return decimal(38, max(type_.scale or 0, 6))
    return DOUBLE


# --- Spark ------------------------------------------------------------------------------------------------------------


def _spark_sum(f: Functions, values: Any, type_: Any) -> Any:
    """The sum of an ARRAY; NULL if it is empty."""
    total = f.aggregate(values, f.lit(0).cast(type_), lambda so_far, item: (so_far + item).cast(type_))
    return f.when(f.size(values) > 0, total)


def _spark_average(f: Functions, values: Any, type_: Any) -> Any:
    return _spark_sum(f, values, type_) / f.size(values)


def _spread(name: str, *, sample: bool, root: bool) -> SparkAggregate:
    """A variance or a standard deviation."""

    def of_values(f: Functions, listed: Any, _type: Any) -> Any:
        values = f.transform(listed, lambda item: item.cast("double"))
        number = f.size(values)
        mean = f.aggregate(values, f.lit(0.0), lambda so_far, item: so_far + item) / number
        squares = f.aggregate(values, f.lit(0.0), lambda so_far, item: so_far + (item - mean) * (item - mean))
        variance = f.when(number > int(sample), squares / (number - int(sample)))
        return f.sqrt(variance) if root else variance

    return SparkAggregate(name, of_values)


# --- questions --------------------------------------------------------------------------------------------------------


def _count(call: QuestionAggregate) -> exp.Expression:
    return call.over(call.raw("count") if call.arguments else exp.Count(this=exp.Star()))


def _count_distinct(call: QuestionAggregate) -> exp.Expression:
    return call.over(named("count", exp.Distinct(expressions=list(call.arguments))))


def _is_float(type_: DataType) -> bool:
    return isinstance(type_, Scalar) and type_.name in FLOATS


def _sum(call: QuestionAggregate) -> exp.Expression:
    return _of_floats(call, exact_sum) if _is_float(call.types[0]) else call.over(call.raw("sum"))


def _of_floats(call: QuestionAggregate, function: Callable[[list[float]], float]) -> exp.Expression:
    """Floats are added exactly, so that their order does not matter."""

    def result(values: list[float] | None) -> float | None:
        return function(values) if values else None

    return call.compute(result, [call.present(call.raw("list"))], [ArrayType(call.types[0])], call.result)


def exact_sum(values: list[float]) -> float:
    """The sum, rounded once; with infinities or NaN as IEEE 754 adds them."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return sum(values)


def _average(call: QuestionAggregate) -> exp.Expression:
    from ds_dagster.functions.values.casts import divided

    source, result = call.types[0], call.result
    if _is_float(source):
        return _of_floats(call, lambda values: exact_sum(values) / len(values))
    if is_integer(source):
        return call.over(call.raw("avg"))
    assert isinstance(source, Scalar) and isinstance(result, Scalar)

    def mean(total: Decimal | None, count: int) -> Decimal | None:
        return divided(total, count, result) if total is not None else None

    parts = [call.over(call.raw("sum")), call.over(call.raw("count"))]
    return call.compute(mean, parts, [decimal(38, source.scale or 0), BIGINT], result)


# --- records ----------------------------------------------------------------------------------------------------------

AGGREGATE_FUNCTIONS: tuple[GroupFunction, ...] = (
    aggregate(
        "COUNT",
        "any?",
        BIGINT,
        "number of rows, or of values that are not NULL",
        ("COUNT(*)", "4"),
        ("COUNT(n)", "3"),
        ("COUNT(DISTINCT k)", "2"),
        nulls="never",
        spark=SparkAggregate("count", lambda f, values, _: f.size(values)),
        question=_count,
    ),
    aggregate(
        "SUM",
        "number",
        _total,
        "sum: BIGINT for whole numbers, DECIMAL(38,s) for DECIMAL(p,s), DOUBLE for floats",
        ("SUM(n)", "12"),
        spark=SparkAggregate("sum", _spark_sum),
        question=_sum,
    ),
    aggregate(
        "AVG",
        "number",
        _mean,
        "mean: DECIMAL(38,max(s,6)) for DECIMAL(p,s), else DOUBLE",
        ("AVG(n)", "4"),
        spark=SparkAggregate("avg", _spark_average),
        question=_average,
    ),
    aggregate(
        "MIN",
        "orderable",
        first,
        "smallest value that is not NULL",
        ("MIN(k)", "'a'"),
        spark=SparkAggregate("min"),
        question="min",
        once=True,
    ),
    aggregate(
        "MAX",
        "orderable",
        first,
        "largest value that is not NULL",
        ("MAX(n)", "6"),
        spark=SparkAggregate("max"),
        question="max",
        once=True,
    ),
    aggregate(
        "VAR_POP",
        "number",
        DOUBLE,
        "variance of all values",
        ("ROUND(VAR_POP(n), 3)", "2.667"),
        spark=_spread("var_pop", sample=False, root=False),
        question="var_pop",
    ),
    aggregate(
        "VAR_SAMP",
        "number",
        DOUBLE,
        "variance of a sample; NULL for one value",
        ("VAR_SAMP(n)", "4"),
        nulls="always",
        aliases=("VARIANCE",),
        spark=_spread("var_samp", sample=True, root=False),
        question="var_samp",
    ),
    aggregate(
        "STDDEV_POP",
        "number",
        DOUBLE,
        "standard deviation of all values",
        ("ROUND(STDDEV_POP(n), 3)", "1.633"),
        spark=_spread("stddev_pop", sample=False, root=True),
        question="stddev_pop",
    ),
    aggregate(
        "STDDEV_SAMP",
        "number",
        DOUBLE,
        "standard deviation of a sample; NULL for one value",
        ("STDDEV_SAMP(n)", "2"),
        nulls="always",
        aliases=("STDDEV",),
        spark=_spread("stddev_samp", sample=True, root=True),
        question="stddev_samp",
    ),
    aggregate(
        "ANY_VALUE",
        "orderable",
        first,
        "one of the values that are not NULL: the smallest, so that it is always the same",
        ("ANY_VALUE(k)", "'a'"),
        spark=MadeOf("MIN"),
        question="min",
        once=True,
    ),
    aggregate(
        "BOOL_AND",
        "boolean",
        BOOLEAN,
        "whether all values that are not NULL are true; NULL without any",
        ("BOOL_AND(ok)", "FALSE"),
        aliases=("EVERY",),
        spark=MadeOf("MIN"),
        question="bool_and",
        once=True,
    ),
    aggregate(
        "BOOL_OR",
        "boolean",
        BOOLEAN,
        "whether any value is true; NULL without any that is not NULL",
        ("BOOL_OR(ok)", "TRUE"),
        aliases=("SOME",),
        spark=MadeOf("MAX"),
        question="bool_or",
        once=True,
    ),
    aggregate(
        "APPROX_COUNT_DISTINCT",
        "hashable",
        BIGINT,
        "number of different values; over a stream, with or without a window, an estimate with a standard deviation of "
        "5 % in state of fixed size, over changelogs and other aggregates exact, like COUNT(DISTINCT …)",
        ("APPROX_COUNT_DISTINCT(k)", "2"),
        nulls="never",
        spark=SparkAggregate("approx_count_distinct", operator="COUNT", distinct=True),
        question=_count_distinct,
        once=True,
    ),
)
