"""Aggregates that order their values or rows: by the values, by another column, or by time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, DOUBLE, INTEGER, VARCHAR, ArrayType, DataType
from ds_dagster.functions.families.json_texts import JSON_TEXTS
from ds_dagster.functions.function import first
from ds_dagster.functions.group_function import (
    GroupFunction,
    MadeOf,
    OnlyOver,
    SparkAggregate,
    aggregate,
)
from ds_dagster.functions.question import named
from ds_dagster.functions.spark import Functions
from ds_dagster.sql.typetext import cast_node

if TYPE_CHECKING:
    from fractions import Fraction

    from pyspark.sql import Column

    from ds_dagster.functions.values.aggregate import QuestionAggregate

PLACED_VALUE = "value"
"""Field of the value, after its position in time."""


def _array(types: Sequence[DataType]) -> DataType:
    return ArrayType(types[0])


# --- Spark ------------------------------------------------------------------------------------------------------------


def _sorted_or_null(f: Functions, values: Column) -> Any:
    """The values in their own order, where Spark's order is that in which tasks finish; NULL without values."""
    return f.when(f.size(values) > 0, f.sort_array(values))


def _placed(operator: str) -> SparkAggregate:
    """The first (MIN) or last (MAX) value by its position in time; values that cannot be compared are ordered by their
    position, then by their text."""

    def unordered(f: Functions, placed: Column) -> Any:
        value = placed.getField(PLACED_VALUE)
        order = f.struct(placed.getField("order"), f.to_json(f.array(value)))
        return f.call_function(f"{operator.lower()}_by", value, f.when(placed.isNotNull(), order))

    def ordered(f: Functions, placed: Column) -> Any:
        return f.call_function(operator.lower(), placed).getField(PLACED_VALUE)

    return SparkAggregate(ordered, unordered=unordered, operator=operator, placed=True)


# --- made of others ---------------------------------------------------------------------------------------------------


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _joined(values: exp.Expression, _type: DataType, arguments: Sequence[exp.Expression]) -> exp.Expression:
    return _call("ARRAY_JOIN", values, arguments[1] if len(arguments) > 1 else exp.Literal.string(","))


def _as_json(values: exp.Expression, _type: DataType, arguments: Sequence[exp.Expression]) -> exp.Expression:
    """Results of functions of JSON are inserted unchanged."""
    argument = arguments[0]
    if isinstance(argument, exp.Anonymous) and str(argument.this).upper() in JSON_TEXTS:
        inside = _call("COALESCE", _call("ARRAY_JOIN", values, exp.Literal.string(",")), exp.Literal.string(""))
        return _call("CONCAT", exp.Literal.string("["), inside, exp.Literal.string("]"))
    return _call("COALESCE", _call("JSON_STRING", values), exp.Literal.string("[]"))


def literal_part(tree: exp.Expression) -> Fraction | None:
    """A literal from 0 to 1 with at most nine decimals, None for everything else."""
    from fractions import Fraction

    is_number = isinstance(tree, exp.Literal) and not tree.is_string
    part = Fraction(str(tree.this)) if is_number else Fraction(-1)
    return part if 0 <= part <= 1 and 10**9 % part.denominator == 0 else None


def _part_of(arguments: Sequence[exp.Expression]) -> Fraction:
    """The second argument; 1/2 without one."""
    part = literal_part(arguments[1] if len(arguments) > 1 else _number("0.5"))
    assert part is not None
    return part


def _number(value: object) -> exp.Expression:
    return exp.Literal.number(str(value))


def _product(values: exp.Expression, part: Fraction, *, less: int) -> exp.Expression:
    """The numerator of the place: (number of values - ``less``) * numerator of the part."""
    count = cast_node(_call("CARDINALITY", values), INTEGER, BIGINT)
    whole = exp.Paren(this=exp.Sub(this=count, expression=_number(less)))
    return exp.Paren(this=exp.Mul(this=whole, expression=_number(part.numerator)))


def _between_two(values: exp.Expression, type_: DataType, arguments: Sequence[exp.Expression]) -> exp.Expression:
    """``a + (b - a) * rest`` of the values before and after the place; whole numbers up to the last step."""
    assert isinstance(type_, ArrayType)
    part = _part_of(arguments)
    above, size = _product(values, part, less=1), _number(part.denominator)
    place = exp.Add(this=exp.IntDiv(this=above, expression=size), expression=_number(1))
    places = [place, exp.Add(this=place.copy(), expression=_number(1))]
    low, high = (
        cast_node(exp.Bracket(this=values.copy(), expressions=[place]), type_.element, DOUBLE) for place in places
    )
    rest = _call("MOD", above.copy(), size.copy())
    share = exp.Div(this=cast_node(rest, BIGINT, DOUBLE), expression=_number(f"{part.denominator}e0"))
    distance = exp.Paren(this=exp.Sub(this=high, expression=low.copy()))
    interpolated = exp.Add(this=low.copy(), expression=exp.Mul(this=distance, expression=exp.Paren(this=share)))
    is_there = exp.EQ(this=rest.copy(), expression=_number(0))
    return exp.Case(ifs=[exp.If(this=is_there, true=low)], default=interpolated)


def _one_of_them(values: exp.Expression, _type: DataType, arguments: Sequence[exp.Expression]) -> exp.Expression:
    """The value at the place, rounded up, at least the first."""
    part = _part_of(arguments)
    above = exp.Add(this=_product(values, part, less=0), expression=_number(part.denominator - 1))
    place = exp.IntDiv(this=exp.Paren(this=above), expression=_number(part.denominator))
    at_least = _call("GREATEST", place, cast_node(_number(1), INTEGER, BIGINT))
    return exp.Bracket(this=values.copy(), expressions=[at_least])


# --- questions --------------------------------------------------------------------------------------------------------


def _sorted_list(call: QuestionAggregate) -> exp.Expression:
    value = call.arguments[0].copy()
    inside = exp.Distinct(expressions=[value]) if call.distinct else value
    return named("list_sort", call.present(named("list", inside)))


def _text_list(call: QuestionAggregate) -> exp.Expression:
    between = call.arguments[1] if len(call.arguments) > 1 else exp.Literal.string(",")
    return named("array_to_string", _sorted_list(call), between)


def _json_list(call: QuestionAggregate) -> exp.Expression:
    from ds_dagster.functions.values import json_texts

    type_ = call.types[0]

    def shown(values: list[Any] | None) -> str:
        return json_texts.json_array([json_texts.as_json(value, type_) for value in values or ()], absent=True)

    return call.compute(shown, [_sorted_list(call)], [ArrayType(type_)], call.result)


def _value_by(extreme: str) -> Callable[[QuestionAggregate], exp.Expression]:
    """The first argument of the row with the extreme second one; of several such rows the extreme first argument."""

    def expression(call: QuestionAggregate) -> exp.Expression:
        value, key = (argument.copy() for argument in call.arguments)
        pairs = [
            exp.PropertyEQ(this=exp.to_identifier("k"), expression=key),
            exp.PropertyEQ(this=exp.to_identifier("v"), expression=value),
        ]
        row = call.present(named(extreme, exp.Struct(expressions=pairs)))
        return named("struct_extract", row, exp.Literal.string("v"))

    return expression


def _percentile(choose: Callable[[list[Any], Fraction], Any]) -> Callable[[QuestionAggregate], exp.Expression]:
    """A value at its place among all values in their order."""

    def expression(call: QuestionAggregate) -> exp.Expression:
        part = _part_of(call.arguments)
        values = named("list_sort", call.present(named("list", call.arguments[0].copy())))
        types = [ArrayType(call.types[0])]
        return call.compute(lambda values: choose(values, part) if values else None, [values], types, call.result)

    return expression


def _between(values: list[Any], part: Fraction) -> float:
    place, rest = divmod(part * (len(values) - 1), 1)
    low = float(values[int(place)])
    return low if rest == 0 else low + (float(values[int(place) + 1]) - low) * float(rest)


def _at(values: list[Any], part: Fraction) -> Any:
    return values[max(math.ceil(part * len(values)), 1) - 1]


# --- records ----------------------------------------------------------------------------------------------------------

ORDERED_AGGREGATES: tuple[GroupFunction, ...] = (
    aggregate(
        "ARRAY_AGG",
        "comparable",
        _array,
        "all values that are not NULL, in their own order; NULL without any",
        ("ARRAY_AGG(k)", "ARRAY['a', 'a', 'b']"),
        aliases=("COLLECT",),
        spark=SparkAggregate(
            lambda f, value: _sorted_or_null(f, f.collect_list(value)),
            lambda f, values, _: _sorted_or_null(f, values),
        ),
        question=_sorted_list,
    ),
    aggregate(
        "LISTAGG",
        "text text?",
        VARCHAR,
        "all texts that are not NULL, in their own order, with the second argument (a literal, ',') between them; NULL "
        "without any",
        ("LISTAGG(k, '-')", "'a-a-b'"),
        ("LISTAGG(DISTINCT k)", "'a,b'"),
        aliases=("STRING_AGG",),
        spark=MadeOf("ARRAY_AGG", _joined, literal="text", keeps_distinct=True),
        question=_text_list,
    ),
    aggregate(
        "JSON_ARRAYAGG",
        "comparable",
        VARCHAR,
        "all values that are not NULL, in their own order, as a JSON array; `[]` without any; results of functions of "
        "JSON are inserted as JSON",
        ("JSON_ARRAYAGG(n)", "'[2,4,6]'"),
        nulls="never",
        spark=MadeOf("ARRAY_AGG", _as_json, keeps_distinct=True),
        question=_json_list,
    ),
    aggregate(
        "FIRST_VALUE",
        "any",
        first,
        "value that is not NULL of the earliest row: by event time, then by position in its topic; in a join, time and "
        "position in the first relation of FROM count. With OVER: value of the frame's first row, also NULL",
        ("FIRST_VALUE(k)", "'b'"),
        spark=_placed("MIN"),
        question=OnlyOver("first_value"),
        by_time=True,
        once=True,
    ),
    aggregate(
        "LAST_VALUE",
        "any",
        first,
        "value that is not NULL of the latest row, in the order of FIRST_VALUE. With OVER: value of the frame's last "
        "row, also NULL",
        ("LAST_VALUE(n)", "6"),
        spark=_placed("MAX"),
        question=OnlyOver("last_value"),
        by_time=True,
        once=True,
    ),
    aggregate(
        "MIN_BY",
        "any orderable",
        first,
        "first argument in the row where the second is smallest; rows in which either is NULL do not count; of several "
        "such rows the smallest first argument",
        ("MIN_BY(k, n)", "'b'"),
        spark=MadeOf("FIRST_VALUE", by=1),
        question=_value_by("min"),
    ),
    aggregate(
        "MAX_BY",
        "any orderable",
        first,
        "like MIN_BY, in the row where the second is largest; of several such rows the largest first argument",
        ("MAX_BY(k, n)", "'a'"),
        spark=MadeOf("LAST_VALUE", by=1),
        question=_value_by("max"),
    ),
    aggregate(
        "PERCENTILE",
        "number number",
        DOUBLE,
        "the value below which that part (a literal from 0 to 1) of all values is, interpolated between two values; "
        "exact, so every value is kept. `PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)` is `PERCENTILE(x, 0.9)`",
        ("PERCENTILE(n, 0.25)", "3"),
        aliases=("PERCENTILE_CONT", "QUANTILE"),
        spark=MadeOf("ARRAY_AGG", _between_two, literal="part"),
        question=_percentile(_between),
    ),
    aggregate(
        "PERCENTILE_DISC",
        "orderable number",
        first,
        "the smallest value that at least that part of all values does not exceed, also as `PERCENTILE_DISC(0.9) "
        "WITHIN GROUP (ORDER BY x)`",
        ("PERCENTILE_DISC(k, 0.5)", "'a'"),
        spark=MadeOf("ARRAY_AGG", _one_of_them, literal="part"),
        question=_percentile(_at),
    ),
    aggregate(
        "MEDIAN",
        "number",
        DOUBLE,
        "the middle value, or the mean of the two middle ones: `PERCENTILE(x, 0.5)`",
        ("MEDIAN(n)", "4"),
        spark=MadeOf("ARRAY_AGG", _between_two),
        question=_percentile(_between),
    ),
)
