"""What a function of the dialect is in DuckDB: an expression of its own, or a Python function over the values.

DuckDB's functions are used where they give the dialect's answer for every input; all others are computed in Python,
where the meaning is written out.
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
        arguments: already in DuckDB's words.
        written: the same as they were bound.
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
    """A function that DuckDB has."""

    build: Callable[[Call], exp.Expression]


@dataclass(frozen=True, slots=True)
class Computed:
    """A function that Python computes, row by row.

    Attributes:
        make: the call → a function of its arguments' values.
        takes_nulls: it is called with NULLs too; else NULL in gives NULL out.
        changes: another value for each row, so DuckDB may not compute it once.
    """

    make: Callable[[Call], Callable[..., Any]]
    takes_nulls: bool = False
    changes: bool = False


Meaning = Native | Computed
ValueFunction = Callable[..., Any] | str
"""A function of values; a text: the module and name of one in ``functions/values/``, which is loaded for a question
that needs it, so that projects load without it."""


def strict(function: ValueFunction) -> Computed:
    """A Python function; NULL when any argument is NULL."""
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
    """DuckDB's function of that name and the same arguments."""
    return Native(lambda call: named(name, *call.arguments))


def named(name: str, *arguments: exp.Expression) -> exp.Anonymous:
    """A call in DuckDB's words."""
    return exp.Anonymous(this=name, expressions=list(arguments))
