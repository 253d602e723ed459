"""The plan node of MATCH_RECOGNIZE. Operator: ``jvm/src/dsdagster/match``."""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ds_dagster.datatypes import DataType
from ds_dagster.errors import error
from ds_dagster.plan.nodes.node import BoundExpression, Field, Named, Node, require
from ds_dagster.plan.patterns.pattern import Pattern

MatchFunction = Literal["FIRST", "LAST", "COUNT", "SUM", "AVG", "MIN", "MAX", "ROWTIME"]
Skip = Literal["past_last", "to_next", "to_first", "to_last"]


@dataclass(frozen=True, slots=True)
class MatchValue:
    """Something the rows of a match so far give.

    Attributes:
        name: internal name of the field it makes.
        function: FIRST and LAST: ``argument`` of the row that is ``offset`` behind the first or in front of the last.
            COUNT, SUM, AVG, MIN, MAX over the rows (COUNT without argument: of rows). ROWTIME: event time of the last.
        variable: whose rows; empty: all of the match.
        argument: over the fields of the input.
    """

    name: str
    function: MatchFunction
    variable: str
    argument: BoundExpression | None
    type: DataType
    nullable: bool = True
    offset: int = 0

    @property
    def field(self) -> Field:
        """The field it makes."""
        return Field(self.name, self.type, self.nullable)


@dataclass(frozen=True, slots=True)
class Definition:
    """What a row must fulfil to be one of ``variable``: over the row's fields and over values of the match so far, in
    which the row counts already."""

    variable: str
    condition: BoundExpression


@dataclass(frozen=True, slots=True)
class RowOrder:
    """A column that orders rows of one time."""

    expression: BoundExpression
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Match(Node):
    """MATCH_RECOGNIZE over appended rows: one row per match, the partition's columns and then the measures.

    Rows of a partition are looked at in the order of event time, once time has passed them. A search begins at each
    row that no ``skip`` has jumped over; what is found is what the standard prefers, see ``plan/patterns/pattern.py``.

    Attributes:
        input: rows.
        partition, measures: what comes out, measures over the fields of ``values``.
        order: behind event time; what is equal then comes in the order of its source.
        pattern, definitions: a variable without definition takes any row.
        skip, skip_variable: where the search goes on behind a match.
        values: what definitions and measures need of the rows of a match, never nothing.
        within_millis: the last row of a match is less than that behind its first; None: any time.
        ttl_millis: event time without a row after which a partition is forgotten with what it waits for, so that no
            match spans such a silence; 0: never.
    """

    input: Node
    partition: tuple[Named, ...]
    order: tuple[RowOrder, ...]
    pattern: Pattern
    definitions: tuple[Definition, ...]
    skip: Skip
    values: tuple[MatchValue, ...]
    measures: tuple[Named, ...]
    skip_variable: str = ""
    within_millis: int | None = None
    ttl_millis: int = 0

    def __post_init__(self) -> None:
        if self.input.changelog != "append" or not self.values:
            raise error("INTERNAL", where="a pattern over rows that may go, or without a value")
        own = frozenset(value.name for value in self.values)
        require(self.input, self.read_columns(), "pattern")
        strange = sorted(frozenset().union(*(named.expression.columns() for named in self.measures)) - own)
        if strange:
            raise error("INTERNAL", where=f"a measure reads {strange}")

    def read_columns(self) -> frozenset[str]:
        """Fields of the input that it reads."""
        own = frozenset(value.name for value in self.values)
        parts = [named.expression for named in self.partition]
        parts += [one.expression for one in self.order] + [one.condition for one in self.definitions]
        parts += [value.argument for value in self.values if value.argument is not None]
        return frozenset().union(*(part.columns() for part in parts)) - own

    @property
    def output(self) -> tuple[Field, ...]:
        return tuple(named.field for named in (*self.partition, *self.measures))

    @property
    def is_stateful(self) -> bool:
        return True
