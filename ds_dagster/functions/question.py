"""The meaning of a function in questions: an expression of DuckDB, or a Python function over the values.

DuckDB's functions are used if they give the dialect's answer for every input; all others are computed in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sqlglot import exp

from ds_dagster.datatypes import DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A call in a question.

    Attributes:
        arguments: as trees of DuckDB.
        written: the arguments as bound trees.
        types: of the arguments; None for a bare NULL.
        result: type of the result.
    """

    arguments: Sequence[exp.Expression]
    written: Sequence[exp.Expression]
    types: Sequence[DataType | None]
    result: DataType

    def literal(self, position: int) -> str:
        """Text of an argument that is written as a literal, empty for any other."""
        tree = self.written[position]
        return str(tree.this) if isinstance(tree, exp.Literal) else ""


@dataclass(frozen=True, slots=True)
class Native:
    """A function that is an expression of DuckDB."""

    build: Callable[[Call], exp.Expression]


@dataclass(frozen=True, slots=True)
class Computed:
    """A function that Python computes, row by row.

    Attributes:
        make: the call → a function of its arguments' values.
        takes_nulls: it is called with NULLs too; else any NULL argument gives NULL.
        changes: it has another value for each row, so DuckDB must not compute it once.
    """

    make: Callable[[Call], Callable[..., Any]]
    takes_nulls: bool = False
    changes: bool = False


@dataclass(frozen=True, slots=True)
class ByTypes:
    """A function whose meaning is chosen by the type of its result."""

    choose: Callable[[DataType], Native | Computed]


Meaning = Native | Computed | ByTypes
ValueFunction = Callable[..., Any] | str
"""A function of values; or ``module.name`` of one in ``functions/values/``, which is imported when a question needs it,
so that projects load without it."""


def strict(function: ValueFunction) -> Computed:
    """A Python function; NULL if any argument is NULL."""
    return Computed(lambda _: _loaded(function))


def nullable(function: ValueFunction) -> Computed:
    """A Python function that is called with NULLs too."""
    return Computed(lambda _: _loaded(function), takes_nulls=True)


def _loaded(function: ValueFunction) -> Callable[..., Any]:
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(".")
    loaded: Callable[..., Any] = getattr(import_module(f"ds_dagster.functions.values.{module}"), name)
    return loaded


def native(name: str) -> Native:
    """DuckDB's function of that name, with the same arguments."""
    return Native(lambda call: named(name, *call.arguments))


def named(name: str, *arguments: exp.Expression) -> exp.Anonymous:
    """A call of a function of DuckDB."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def computed_once(
    changing: Sequence[bool],
    values: Sequence[exp.Expression],
    build: Callable[[Sequence[exp.Expression]], exp.Expression],
) -> exp.Expression:
    """An expression of DuckDB that computes each value once, although ``build`` may use it several times.

    DuckDB computes each mention of RAND() again, also in its own macros (``nullif``); the parameter of a lambda has one
    value.

    Args:
        changing: for each value, whether it differs each time it is computed.
        values: as trees of DuckDB.
        build: values → the expression.
    """
    parameters = {place: f"value {place}" for place, is_changing in enumerate(changing) if is_changing}
    parts = [
        exp.column(exp.to_identifier(parameters[place], quoted=True)) if place in parameters else value
        for place, value in enumerate(values)
    ]
    tree = build(parts)
    for place, name in parameters.items():
        body = exp.Lambda(this=tree, expressions=[exp.to_identifier(name, quoted=True)])
        rows = named("list_transform", named("list_value", values[place]), body)
        tree = named("list_extract", rows, exp.Literal.number(1))
    return tree


def whole_quotient(sides: Sequence[exp.Expression]) -> exp.Expression:
    """(left, right) → quotient of whole numbers, cut towards zero; division by zero fails."""
    left, right = sides
    is_zero = exp.EQ(this=right.copy(), expression=exp.Literal.number(0))
    by_zero = exp.and_(is_zero, exp.Not(this=exp.Is(this=left.copy(), expression=exp.Null())))
    fails = exp.If(this=by_zero, true=named("error", exp.Literal.string("division by zero")))
    return exp.Case(ifs=[fails], default=exp.IntDiv(this=left, expression=right))


def list_element(parts: Sequence[exp.Expression]) -> exp.Expression:
    """(list, place from 1) → element; NULL outside of the list."""
    value, index = parts
    inside = exp.GTE(this=exp.Paren(this=index.copy()), expression=exp.Literal.number(1))
    return exp.Case(ifs=[exp.If(this=inside, true=named("list_extract", value, index))])
