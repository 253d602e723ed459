"""Aggregates of the dialect that are made of others: the plan, its state and its retraction know those alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.datatypes import BOOLEAN, VARCHAR, ArrayType, is_orderable
from ds_dagster.plan.calls import bound_aggregate, distinct_argument
from ds_dagster.plan.expressions import ExpressionBinder, Typed
from ds_dagster.plan.function import FAMILIES
from ds_dagster.plan.functions import FUNCTIONS
from ds_dagster.plan.json_functions import JSON_TEXTS
from ds_dagster.plan.nodes import AggregateFunction

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


DERIVED: Mapping[str, Derive] = MappingProxyType(
    {
        "LISTAGG": _listagg,
        "JSON_ARRAYAGG": _json_arrayagg,
        "ANY_VALUE": _one_of("ANY_VALUE", "MIN", only_boolean=False),
        "BOOL_AND": _one_of("BOOL_AND", "MIN", only_boolean=True),
        "BOOL_OR": _one_of("BOOL_OR", "MAX", only_boolean=True),
        "MIN_BY": _value_by("MIN_BY", "FIRST_VALUE"),
        "MAX_BY": _value_by("MAX_BY", "LAST_VALUE"),
    }
)
"""Aggregate → how it is bound."""
