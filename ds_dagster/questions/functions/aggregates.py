"""Aggregates and functions of other rows in questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ds_dagster.datatypes import FLOATS, ArrayType, DataType, Scalar, is_integer
from ds_dagster.functions.question import named
from ds_dagster.functions.values import json_texts
from ds_dagster.functions.values.casts import EXACT, fitted
from ds_dagster.plan.binding.derived_aggregates import literal_part

Computing = Callable[[Callable[..., Any], Sequence[exp.Expression], Sequence[DataType], DataType], exp.Expression]
"""A Python function over arguments of these types, as an expression of a type; it is called with NULLs too."""
Reached = Callable[[exp.Expression], exp.Expression]
"""DuckDB's call over the rows that count: with FILTER and OVER behind it."""
COUNT_TYPE = Scalar("BIGINT")


@dataclass(frozen=True, slots=True)
class QuestionAggregate:
    """One call.

    Attributes:
        arguments: in DuckDB's words.
        types: of the arguments.
        distinct: each value counts once.
        result: type of what it gives.
        over: the rows that count; without rows in which an argument is NULL in :attr:`present`.
        present: see there.
        compute: see :data:`Computing`.
    """

    arguments: Sequence[exp.Expression]
    types: Sequence[DataType]
    distinct: bool
    result: DataType
    over: Reached
    present: Reached
    compute: Computing

    def raw(self, name: str) -> exp.Expression:
        """DuckDB's aggregate of that name over the arguments."""
        arguments = [argument.copy() for argument in self.arguments]
        return named(name, *([exp.Distinct(expressions=arguments)] if self.distinct else arguments))


def _plain(name: str) -> Callable[[QuestionAggregate], exp.Expression]:
    return lambda call: call.over(call.raw(name))


def _count(call: QuestionAggregate) -> exp.Expression:
    return call.over(call.raw("count") if call.arguments else exp.Count(this=exp.Star()))


def _count_distinct(call: QuestionAggregate) -> exp.Expression:
    return call.over(named("count", exp.Distinct(expressions=list(call.arguments))))


def _is(type_: DataType, *names: str) -> bool:
    return isinstance(type_, Scalar) and type_.name in names


def _sum(call: QuestionAggregate) -> exp.Expression:
    return _of_floats(call, exact_sum) if _is(call.types[0], *FLOATS) else call.over(call.raw("sum"))


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
    source, result = call.types[0], call.result
    if _is(source, *FLOATS):
        return _of_floats(call, lambda values: exact_sum(values) / len(values))
    if is_integer(source):
        return call.over(call.raw("avg"))
    assert isinstance(source, Scalar) and isinstance(result, Scalar)
    total = Scalar("DECIMAL", precision=38, scale=source.scale)

    def mean(whole: Decimal | None, count: int) -> Decimal | None:
        return fitted(EXACT.divide(whole, Decimal(count)), result) if whole is not None else None

    parts = [call.over(call.raw("sum")), call.over(call.raw("count"))]
    return call.compute(mean, parts, [total, COUNT_TYPE], result)


def _sorted_list(call: QuestionAggregate) -> exp.Expression:
    value = call.arguments[0].copy()
    inside = exp.Distinct(expressions=[value]) if call.distinct else value
    return named("list_sort", call.present(named("list", inside)))


def _text_list(call: QuestionAggregate) -> exp.Expression:
    between = call.arguments[1] if len(call.arguments) > 1 else exp.Literal.string(",")
    return named("array_to_string", _sorted_list(call), between)


def _json_list(call: QuestionAggregate) -> exp.Expression:
    type_ = call.types[0]

    def shown(values: list[Any] | None) -> str:
        return json_texts.json_array([json_texts.as_json(value, type_) for value in values or ()], absent=True)

    return call.compute(shown, [_sorted_list(call)], [ArrayType(type_)], call.result)


def _value_by(extreme: str) -> Callable[[QuestionAggregate], exp.Expression]:
    """The first argument beside the extreme second one; of several such rows the extreme first argument."""

    def made(call: QuestionAggregate) -> exp.Expression:
        value, key = (argument.copy() for argument in call.arguments)
        pairs = [
            exp.PropertyEQ(this=exp.to_identifier("k"), expression=key),
            exp.PropertyEQ(this=exp.to_identifier("v"), expression=value),
        ]
        row = call.present(named(extreme, exp.Struct(expressions=pairs)))
        return named("struct_extract", row, exp.Literal.string("v"))

    return made


def _percentile(
    choose: Callable[[list[Any], Fraction], Any], part: Fraction | None = None
) -> Callable[[QuestionAggregate], exp.Expression]:
    """A value at its place among all values in their order."""

    def made(call: QuestionAggregate) -> exp.Expression:
        wanted = part if part is not None else literal_part(call.arguments[1])
        assert wanted is not None
        values = named("list_sort", call.present(named("list", call.arguments[0].copy())))
        types = [ArrayType(call.types[0])]
        return call.compute(lambda values: choose(values, wanted) if values else None, [values], types, call.result)

    return made


def _between(values: list[Any], part: Fraction) -> float:
    place, rest = divmod(part * (len(values) - 1), 1)
    low = float(values[int(place)])
    return low if rest == 0 else low + (float(values[int(place) + 1]) - low) * float(rest)


def _at(values: list[Any], part: Fraction) -> Any:
    return values[max(math.ceil(part * len(values)), 1) - 1]


AGGREGATES: Mapping[str, Callable[[QuestionAggregate], exp.Expression]] = MappingProxyType(
    {
        "COUNT": _count,
        "SUM": _sum,
        "AVG": _average,
        "MIN": _plain("min"),
        "MAX": _plain("max"),
        "VAR_POP": _plain("var_pop"),
        "VAR_SAMP": _plain("var_samp"),
        "STDDEV_POP": _plain("stddev_pop"),
        "STDDEV_SAMP": _plain("stddev_samp"),
        "ARRAY_AGG": _sorted_list,
        "LISTAGG": _text_list,
        "JSON_ARRAYAGG": _json_list,
        "APPROX_COUNT_DISTINCT": _count_distinct,
        "ANY_VALUE": _plain("min"),
        "BOOL_AND": _plain("bool_and"),
        "BOOL_OR": _plain("bool_or"),
        "PERCENTILE": _percentile(_between),
        "PERCENTILE_DISC": _percentile(_at),
        "MEDIAN": _percentile(_between, Fraction(1, 2)),
        "MIN_BY": _value_by("min"),
        "MAX_BY": _value_by("max"),
    }
)
"""Aggregate → DuckDB."""
OF_ROWS: Mapping[str, str] = MappingProxyType(
    {
        "ROW_NUMBER": "row_number",
        "RANK": "rank",
        "DENSE_RANK": "dense_rank",
        "NTILE": "ntile",
        "LAG": "lag",
        "LEAD": "lead",
        "FIRST_VALUE": "first_value",
        "LAST_VALUE": "last_value",
    }
)
"""Function of other rows, with OVER only → DuckDB."""
