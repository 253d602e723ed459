"""Calls of the user's functions: the choice among functions of one name, and the types of arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from sqlglot import exp

from ds_dagster.catalog.user_function import UserCode, UserFunction
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.functions.table import KNOWN_LATER, MISPLACED, find_function
from ds_dagster.plan.expressions.arithmetic import widens
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed, widened
from ds_dagster.sql.expressions import UserCall


def user_names(binder: ExpressionBinder) -> Collection[str]:
    """Names of the user's functions, also of those that were refused."""
    code = binder.scope.functions
    return {*code.functions, *code.refused}


def bind_user_call(
    binder: ExpressionBinder, node: exp.Expression, name: str, arguments: Sequence[exp.Expression]
) -> Typed:
    """Bind a call of the function of that name whose types equal the arguments', else of the first they widen to.

    Raises:
        UserError: FUNCTION_REFUSED, FUNCTION_ARGUMENT_COUNT, FUNCTION_ARGUMENT_TYPE.
    """
    overloads = binder.scope.functions.functions.get(name.lower(), ())
    if not overloads:
        raise binder.refuse("FUNCTION_REFUSED", node, name=name.lower())
    values = [binder.bind(argument) for argument in arguments]
    shown = " or ".join(str(function).removeprefix(function.name) for function in overloads)
    counted = [function for function in overloads if len(function.types) == len(values)]
    if not counted:
        count = len(values)
        raise binder.refuse("FUNCTION_ARGUMENT_COUNT", node, function=name.lower(), count=count, expected=shown)
    fitting = [function for function in counted if _fits(function, values)]
    if not fitting:
        types = [str(value.type) if value.type else "NULL" for value in values]
        raise binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=name.lower(), types=types, expected=shown)
    same = [function for function in fitting if [*function.types] == [value.type for value in values]]
    chosen = (same or fitting)[0]
    trees = [widened(value, type_) for value, type_ in zip(values, chosen.types, strict=True)]
    return Typed(UserCall(function=chosen, expressions=trees), chosen.returns, True)


def _fits(function: UserFunction, values: Sequence[Typed]) -> bool:
    pairs = zip(values, function.types, strict=True)
    return all(value.type is None or widens(value.type, type_) for value, type_ in pairs)


def check_names(code: UserCode) -> tuple[Diagnostic, ...]:
    """FUNCTION_IS_BUILT_IN for every function of the user with the name of a built-in one, which calls would mean."""
    functions = chain.from_iterable(code.functions.values())
    other = {*KNOWN_LATER, *MISPLACED}
    taken = [function for function in functions if find_function(function.name) or function.name.upper() in other]
    return tuple(
        error("FUNCTION_IS_BUILT_IN", span=function.origin.span, name=function.name.upper()).diagnostic()
        for function in taken
    )


def called(tree: exp.Expression, code: UserCode) -> Iterable[UserFunction]:
    """The functions of the user that a SELECT may call, by name."""
    names = {str(node.this).lower() for node in tree.find_all(exp.Anonymous)}
    return chain.from_iterable(overloads for name, overloads in code.functions.items() if name in names)
