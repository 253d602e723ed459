"""Aggregates of the dialect that are made of others: the plan, its state and its retraction know those alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, BOOLEAN, DOUBLE, INTEGER, VARCHAR, ArrayType, is_orderable
from ds_dagster.functions.function import FAMILIES
from ds_dagster.functions.json_texts import JSON_TEXTS
from ds_dagster.functions.table import FUNCTIONS
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed
from ds_dagster.plan.expressions.bound_trees import converted
from ds_dagster.plan.expressions.calls import bound_aggregate, distinct_argument
from ds_dagster.plan.nodes.aggregate import AggregateFunction

PERCENTILES = frozenset({"PERCENTILE", "PERCENTILE_DISC"})
"""Aggregates whose second argument is a part of the values."""
Derive = Callable[[ExpressionBinder, exp.Expression, exp.Expression], Typed]


def _listagg(binder: ExpressionBinder, node: exp.Expression, call: exp.Expression) -> Typed:
    """ARRAY_AGG with a text between its values."""
    arguments = call.expressions
    distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    arguments = arguments[0].expressions if distinct else arguments
    expected = str(FUNCTIONS["LISTAGG"].signatures[0])
    if len(arguments) not in (1, 2):
        raise binder.refuse(
            "FUNCTION_ARGUMENT_COUNT", node, function="LISTAGG", count=len(arguments), expected=expected
        )
    between = arguments[1] if len(arguments) == 2 else exp.Literal.string(",")
    values = bound_aggregate(binder, node, "ARRAY_AGG", arguments[0], distinct)
    is_text = isinstance(between, exp.Literal) and between.is_string
    assert isinstance(values.type, ArrayType)
    if not is_text or not FAMILIES["text"](values.type.element):
        shown = "a literal" if is_text else "no literal"
        types = [str(values.type.element), f"VARCHAR, {shown}"]
        raise binder.refuse(
            "FUNCTION_ARGUMENT_TYPE", node, function="LISTAGG", types=types, expected="(text, 'literal')"
        )
    return Typed(exp.Anonymous(this="ARRAY_JOIN", expressions=[values.tree, between]), VARCHAR, values.nullable)


def _json_arrayagg(binder: ExpressionBinder, node: exp.Expression, call: exp.Expression) -> Typed:
    """ARRAY_AGG as JSON; what functions of JSON give stands inside as it is."""
    argument, distinct = distinct_argument(binder, node, call, "JSON_ARRAYAGG")
    values = bound_aggregate(binder, node, "ARRAY_AGG", argument, distinct)
    if isinstance(argument, exp.Anonymous) and str(argument.this).upper() in JSON_TEXTS:
        joined = exp.Anonymous(this="ARRAY_JOIN", expressions=[values.tree, exp.Literal.string(",")])
        inside = exp.Anonymous(this="COALESCE", expressions=[joined, exp.Literal.string("")])
        made = exp.Anonymous(this="CONCAT", expressions=[exp.Literal.string("["), inside, exp.Literal.string("]")])
    else:
        shown = exp.Anonymous(this="JSON_STRING", expressions=[values.tree])
        made = exp.Anonymous(this="COALESCE", expressions=[shown, exp.Literal.string("[]")])
    return Typed(made, VARCHAR, nullable=False)


def _one_of(function: str, made_of: AggregateFunction, *, only_boolean: bool) -> Derive:
    """The least or largest value: of BOOLEAN it says whether all or any are true."""

    def derive(binder: ExpressionBinder, node: exp.Expression, call: exp.Expression) -> Typed:
        argument, _ = distinct_argument(binder, node, call, function)
        made = bound_aggregate(binder, node, made_of, argument, distinct=False)
        if only_boolean and made.type != BOOLEAN:
            expected = str(FUNCTIONS[function].signatures[0])
            raise binder.refuse(
                "FUNCTION_ARGUMENT_TYPE", node, function=function, types=[str(made.type)], expected=expected
            )
        return made

    return derive


def _value_by(function: str, made_of: AggregateFunction) -> Derive:
    """The first or last value in the order of another."""

    def derive(binder: ExpressionBinder, node: exp.Expression, call: exp.Expression) -> Typed:
        arguments = call.expressions
        expected = str(FUNCTIONS[function].signatures[0])
        if len(arguments) != 2 or isinstance(arguments[0], exp.Distinct):
            count = len(arguments)
            raise binder.refuse("FUNCTION_ARGUMENT_COUNT", node, function=function, count=count, expected=expected)
        by = ExpressionBinder(binder.scope, f"an aggregate ({function})").expression(arguments[1])
        if not is_orderable(by.type):
            types = [str(by.type)]
            raise binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=function, types=types, expected=expected)
        return bound_aggregate(binder, node, made_of, arguments[0], distinct=False, by=arguments[1])

    return derive


def _percentile(function: str, place: Callable[[Typed, Fraction], exp.Expression], part: Fraction | None) -> Derive:
    """A value at its place among all values in their order; ``part``: which one, None where it is an argument."""

    def derive(binder: ExpressionBinder, node: exp.Expression, call: exp.Expression) -> Typed:
        arguments, expected = call.expressions, str(FUNCTIONS[function].signatures[0])
        if len(arguments) != (2 if part is None else 1):
            count = len(arguments)
            raise binder.refuse("FUNCTION_ARGUMENT_COUNT", node, function=function, count=count, expected=expected)
        wanted = literal_part(arguments[1]) if part is None else part
        if wanted is None:
            raise binder.refuse("PERCENTILE_PART", arguments[1], function=function)
        values = bound_aggregate(binder, node, "ARRAY_AGG", arguments[0], distinct=False)
        assert isinstance(values.type, ArrayType)
        element, result = values.type.element, FUNCTIONS[function].signatures[0].type_of([values.type.element])
        if not FAMILIES[FUNCTIONS[function].signatures[0].word(0)](element):
            types = [str(element)]
            raise binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=function, types=types, expected=expected)
        return Typed(place(values, wanted), result, nullable=True)

    return derive


def literal_part(tree: exp.Expression) -> Fraction | None:
    """A literal from 0 to 1 with at most nine digits, None for everything else."""
    is_number = isinstance(tree, exp.Literal) and not tree.is_string
    part = Fraction(str(tree.this)) if is_number else Fraction(-1)
    return part if 0 <= part <= 1 and 10**9 % part.denominator == 0 else None


def _number(value: int) -> exp.Expression:
    return exp.Literal.number(value)


def _product(values: Typed, part: Fraction, *, less: int) -> exp.Expression:
    """The numerator of the place; ``less``: by how much the number of values is reduced."""
    count = converted(Typed(exp.Anonymous(this="CARDINALITY", expressions=[values.tree]), INTEGER, True), BIGINT)
    whole = exp.Paren(this=exp.Sub(this=count, expression=_number(less)))
    return exp.Paren(this=exp.Mul(this=whole, expression=_number(part.numerator)))


def _between(values: Typed, part: Fraction) -> exp.Expression:
    """``a + (b - a) * rest`` of the values beside the place, in whole numbers up to the last step."""
    assert isinstance(values.type, ArrayType)
    element, above = values.type.element, _product(values, part, less=1)
    size = _number(part.denominator)
    first = exp.Add(this=exp.IntDiv(this=above, expression=size), expression=_number(1))
    places = [first, exp.Add(this=first.copy(), expression=_number(1))]
    low, high = (
        converted(Typed(exp.Bracket(this=values.tree.copy(), expressions=[place]), element, True), DOUBLE)
        for place in places
    )
    rest = exp.Anonymous(this="MOD", expressions=[above.copy(), size.copy()])
    share = exp.Div(this=converted(Typed(rest, BIGINT, True), DOUBLE), expression=_number_as_double(part.denominator))
    distance = exp.Paren(this=exp.Sub(this=high, expression=low.copy()))
    made = exp.Add(this=low.copy(), expression=exp.Mul(this=distance, expression=exp.Paren(this=share)))
    is_there = exp.EQ(this=rest.copy(), expression=_number(0))
    return exp.Case(ifs=[exp.If(this=is_there, true=low)], default=made)


def _number_as_double(value: int) -> exp.Expression:
    return exp.Literal.number(f"{value}e0")


def _at(values: Typed, part: Fraction) -> exp.Expression:
    """The value at the place, rounded up, at least the first."""
    above = exp.Add(this=_product(values, part, less=0), expression=_number(part.denominator - 1))
    place = exp.IntDiv(this=exp.Paren(this=above), expression=_number(part.denominator))
    at_least = exp.Anonymous(this="GREATEST", expressions=[place, converted(Typed(_number(1), INTEGER, False), BIGINT)])
    return exp.Bracket(this=values.tree.copy(), expressions=[at_least])


DERIVED: Mapping[str, Derive] = MappingProxyType(
    {
        "LISTAGG": _listagg,
        "JSON_ARRAYAGG": _json_arrayagg,
        "ANY_VALUE": _one_of("ANY_VALUE", "MIN", only_boolean=False),
        "BOOL_AND": _one_of("BOOL_AND", "MIN", only_boolean=True),
        "BOOL_OR": _one_of("BOOL_OR", "MAX", only_boolean=True),
        "MIN_BY": _value_by("MIN_BY", "FIRST_VALUE"),
        "PERCENTILE": _percentile("PERCENTILE", _between, None),
        "PERCENTILE_DISC": _percentile("PERCENTILE_DISC", _at, None),
        "MEDIAN": _percentile("MEDIAN", _between, Fraction(1, 2)),
        "MAX_BY": _value_by("MAX_BY", "LAST_VALUE"),
    }
)
"""Aggregate → how it is bound."""
