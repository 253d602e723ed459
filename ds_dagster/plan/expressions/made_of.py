"""Aggregates of the dialect that are computed from other aggregates; plans and state hold only the other ones."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ds_dagster.datatypes import ArrayType, is_orderable
from ds_dagster.errors import DsError, UserError
from ds_dagster.functions.families.ordered_aggregates import literal_part
from ds_dagster.functions.function import FAMILIES
from ds_dagster.functions.group_function import GroupFunction, MadeOf
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed
from ds_dagster.plan.expressions.calls import bound_aggregate
from ds_dagster.plan.expressions.forms import written_name


def bind_made_of(
    binder: ExpressionBinder, node: exp.Expression, call: exp.Expression, function: GroupFunction, made_of: MadeOf
) -> Typed:
    """Bind a call of an aggregate with a :class:`MadeOf`. ``node``: the call, or FILTER of it.

    Raises:
        UserError: FUNCTION_ARGUMENT_COUNT, FUNCTION_ARGUMENT_TYPE, PERCENTILE_PART.
    """
    arguments, distinct = _arguments(call, unwraps=made_of.keeps_distinct or function.once)
    _check(binder, node, arguments, function, made_of)
    by = None if made_of.by is None else arguments[made_of.by]
    try:
        base = bound_aggregate(
            binder, node, made_of.aggregate, arguments[0], distinct and made_of.keeps_distinct, by=by
        )
    except UserError as refused:
        if refused.condition != "FUNCTION_ARGUMENT_TYPE" or refused.params["function"] != written_name(
            node, made_of.aggregate
        ):
            raise
        raise _unfit(binder, node, function, refused.params["types"]) from None
    assert base.type is not None
    type_ = base.type.element if made_of.aggregate == "ARRAY_AGG" and isinstance(base.type, ArrayType) else base.type
    signature = function.signatures[0]
    if made_of.literal == "text":
        _check_text(binder, node, function, str(type_), arguments, fits=FAMILIES[signature.word(0)](type_))
    elif not FAMILIES[signature.word(0)](type_):
        raise _unfit(binder, node, function, [str(type_)])
    tree = base.tree if made_of.value is None else made_of.value(base.tree, base.type, arguments)
    return Typed(tree, signature.type_of([type_]), base.nullable and function.nulls != "never")


def _arguments(call: exp.Expression, *, unwraps: bool) -> tuple[Sequence[exp.Expression], bool]:
    """The arguments, and whether DISTINCT is written; DISTINCT stays in the tree if the aggregate does not take it."""
    arguments: Sequence[exp.Expression] = call.expressions
    if unwraps and len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        return arguments[0].expressions, True
    return arguments, False


def _check(
    binder: ExpressionBinder,
    node: exp.Expression,
    arguments: Sequence[exp.Expression],
    function: GroupFunction,
    made_of: MadeOf,
) -> None:
    name, signature = written_name(node, function.name), function.signatures[0]
    if not signature.accepts_count(len(arguments)):
        count = len(arguments)
        raise binder.refuse("FUNCTION_ARGUMENT_COUNT", node, function=name, count=count, expected=str(signature))
    if made_of.literal == "part" and literal_part(arguments[1]) is None:
        raise binder.refuse("PERCENTILE_PART", arguments[1], function=name)
    if made_of.by is not None:
        by = ExpressionBinder(binder.scope, f"an aggregate ({name})").expression(arguments[made_of.by])
        if not is_orderable(by.type):
            raise _unfit(binder, node, function, [str(by.type)])


def _check_text(
    binder: ExpressionBinder,
    node: exp.Expression,
    function: GroupFunction,
    type_: str,
    arguments: Sequence[exp.Expression],
    *,
    fits: bool,
) -> None:
    """Check LISTAGG: its values are texts, its separator is a text literal."""
    between = arguments[1] if len(arguments) > 1 else exp.Literal.string(",")
    is_text = isinstance(between, exp.Literal) and between.is_string
    if is_text and fits:
        return
    types = [type_, f"VARCHAR, {'a literal' if is_text else 'not a literal'}"]
    name = written_name(node, function.name)
    raise binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=name, types=types, expected="(text, 'literal')")


def _unfit(binder: ExpressionBinder, node: exp.Expression, function: GroupFunction, types: object) -> DsError:
    name, expected = written_name(node, function.name), str(function.signatures[0])
    return binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=name, types=types, expected=expected)
