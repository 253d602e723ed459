"""A function of the rows of a group: an aggregate of plans, or one that is made of another."""

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
    """An aggregate that plans know.

    Attributes:
        rows: Spark's aggregate of that name, or what is called with PySpark's functions and the column.
        values: the same over values that count once: called with PySpark's functions, the ARRAY of them and Spark's
            type of the result; None for an aggregate to which that makes no difference. Spark has no distinct
            aggregate over streams, but keeps sets.
        unordered: instead of ``rows`` for values that cannot be compared.
        operator: its name in our operator of changelogs, where it is another.
        placed: the operator takes values after their position in time.
        distinct: the operator takes values once.
    """

    rows: str | Callable[[Functions, Any], Any]
    values: Callable[[Functions, Any, Any], Any] | None = None
    unordered: Callable[[Functions, Any], Any] | None = None
    operator: str = ""
    placed: bool = False
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class MadeOf:
    """An aggregate that is made of one that plans know, so that their state and their retraction know that one alone.

    Attributes:
        aggregate: the one it is made of, over the first argument.
        value: from its tree, its type and all arguments the tree of the value; None: the same.
        by: the argument that orders rows, for FIRST_VALUE and LAST_VALUE; None: event time.
        literal: what the last argument has to be where it is a literal: a text, or a part of all values from 0 to 1.
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
    """DuckDB's function of other rows; without OVER a question has no order of rows. ``name``: DuckDB's."""

    name: str


GroupMeaning = str | Callable[["QuestionAggregate"], exp.Expression] | OnlyOver
"""The name of DuckDB's aggregate, or what makes its expression of a call."""

# --- records ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFunction(Function):
    """An aggregate.

    Attributes:
        spark: meaning on Spark.
        question: meaning in a question.
        by_time: it depends on the position of rows in time.
        once: it makes no difference whether each value counts once.
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
"""Rows of the examples of aggregates, in the order of their time."""
