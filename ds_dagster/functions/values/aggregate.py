"""A call of an aggregate in a question, the argument of :data:`~ds_dagster.functions.group_function.GroupMeaning`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from ds_dagster.datatypes import DataType
from ds_dagster.functions.question import named

Computing = Callable[[Callable[..., Any], Sequence[exp.Expression], Sequence[DataType], DataType], exp.Expression]
"""(Python function, arguments, their types, type of the result) → expression. The function is called with NULLs too."""
Reached = Callable[[exp.Expression], exp.Expression]
"""DuckDB's call of an aggregate → the call over the rows that count, with FILTER and OVER."""


@dataclass(frozen=True, slots=True)
class QuestionAggregate:
    """One call.

    Attributes:
        arguments: as trees of DuckDB.
        types: of the arguments.
        distinct: each value counts once.
        result: type of the result.
        over: adds FILTER and OVER as they are written.
        present: like ``over``, but rows in which an argument is NULL do not count.
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
