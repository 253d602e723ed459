"""A call of an aggregate in a question, as its record gets it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from ds_dagster.datatypes import DataType
from ds_dagster.functions.question import named

Computing = Callable[[Callable[..., Any], Sequence[exp.Expression], Sequence[DataType], DataType], exp.Expression]
"""A Python function over arguments of these types, as an expression of a type; it is called with NULLs too."""
Reached = Callable[[exp.Expression], exp.Expression]
"""DuckDB's call over the rows that count, followed by FILTER and OVER."""


@dataclass(frozen=True, slots=True)
class QuestionAggregate:
    """One call.

    Attributes:
        arguments: in DuckDB's words.
        types: of the arguments.
        distinct: each value counts once.
        result: type of the result.
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
