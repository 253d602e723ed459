"""A function of the rows of a group: an aggregate of plans, or one that is computed from another aggregate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlglot import exp

from ds_dagster.datatypes import DataType
from ds_dagster.functions.function import Example, Function, Nulls, ResultRule, signature
from ds_dagster.functions.spark import Functions

if TYPE_CHECKING:
    from ds_dagster.functions.values.aggregate import QuestionAggregate

# --- Spark ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SparkAggregate:
    """An aggregate that plans hold.

    Attributes:
        rows: name of Spark's aggregate, or a function of PySpark's functions and the column.
        values: for DISTINCT: a function of PySpark's functions, the ARRAY of different values and Spark's type of the
            result; None if DISTINCT makes no difference. Spark has no distinct aggregate over streams, but keeps sets.
        unordered: instead of ``rows`` for values that cannot be compared.
        operator: its name in our operator of changelogs; empty: the same name.
        placed: the operator gets each value with its position in time.
        distinct: the operator counts each value once.
    """

    rows: str | Callable[[Functions, Any], Any]
    values: Callable[[Functions, Any, Any], Any] | None = None
    unordered: Callable[[Functions, Any], Any] | None = None
    operator: str = ""
    placed: bool = False
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class MadeOf:
    """An aggregate that is computed from another one; plans, their state and their retractions hold only that one.

    Attributes:
        aggregate: the other aggregate, over the first argument.
        value: (tree of that aggregate, its type, all arguments) → tree of the value; None: the aggregate itself.
        by: number of the argument that orders rows, for FIRST_VALUE and LAST_VALUE; None: event time.
        literal: the last argument must be a literal: a ``text``, or a ``part`` of all values from 0 to 1; empty: none.
        keeps_distinct: DISTINCT may be written and makes a difference.
    """

    aggregate: Literal["ARRAY_AGG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"]
    value: Callable[[exp.Expression, DataType, Sequence[exp.Expression]], exp.Expression] | None = None
    by: int | None = None
    literal: Literal["", "text", "part"] = ""
    keeps_distinct: bool = False


# --- questions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OnlyOver:
    """A function that questions support with OVER only, since their rows have no order without it. ``name``: of
    DuckDB's function."""

    name: str


GroupMeaning = str | Callable[["QuestionAggregate"], exp.Expression] | OnlyOver
"""The name of DuckDB's aggregate, or a function that makes DuckDB's expression for a call."""

# --- records ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFunction(Function):
    """An aggregate.

    Attributes:
        spark: meaning on Spark.
        question: meaning in a question.
        by_time: it depends on the position of rows in time.
        once: DISTINCT makes no difference.
    """

    spark: SparkAggregate | MadeOf
    question: GroupMeaning
    by_time: bool = False
    once: bool = False


def aggregate(
    name: str,
    words: str,
    result: DataType | ResultRule,
    meaning: str,
    *examples: tuple[str, str],
    spark: SparkAggregate | MadeOf,
    question: GroupMeaning,
    nulls: Nulls = "any",
    aliases: tuple[str, ...] = (),
    by_time: bool = False,
    once: bool = False,
) -> GroupFunction:
    """An aggregate; see :func:`~ds_dagster.functions.function.scalar` and :class:`GroupFunction`. Examples are over the
    rows of :data:`EXAMPLE_ROWS`."""
    return GroupFunction(
        name,
        (signature(words, result),),
        meaning,
        kind="aggregate",
        nulls=nulls,
        aliases=aliases,
        examples=tuple(Example(call, gives) for call, gives in examples),
        spark=spark,
        question=question,
        by_time=by_time,
        once=once,
    )


EXAMPLE_COLUMNS = "k VARCHAR, n INTEGER, ok BOOLEAN"
EXAMPLE_ROWS: tuple[tuple[str | None, int | None, bool | None], ...] = (
    ("b", 2, True),
    ("a", 4, True),
    ("a", 6, False),
    (None, None, None),
)
"""Rows for the examples of aggregates, in the order of their time."""
