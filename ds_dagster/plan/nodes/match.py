"""The plan node of MATCH_RECOGNIZE. Operator: ``jvm/src/dsdagster/match``."""

# ruff: noqa: D102, ARG002 — methods of nodes and their arguments are described once, in Node
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ds_dagster.datatypes import DataType
from ds_dagster.errors import error
from ds_dagster.plan.expressions.field_names import shown
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.describing import named_text, rests, text
from ds_dagster.plan.nodes.node import BoundExpression, Field, Keeps, Named, Names, Node, Sources
from ds_dagster.plan.nodes.reading import lineage_of, merged, require
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.shaping import Shaper
from ds_dagster.plan.patterns.pattern import Pattern, is_unbounded, pattern_text, variables
from ds_dagster.sql.expressions import SKIPS
from ds_dagster.sql.generator import duration_text

MatchFunction = Literal["FIRST", "LAST", "COUNT", "SUM", "AVG", "MIN", "MAX", "ROWTIME"]
Skip = Literal["past_last", "to_next", "to_first", "to_last"]


@dataclass(frozen=True, slots=True)
class MatchValue:
    """A value computed from the rows of a match so far.

    Attributes:
        name: internal name of the field it makes.
        function: FIRST and LAST: ``argument`` of the row that is ``offset`` after the first or before the last.
            COUNT, SUM, AVG, MIN, MAX over the rows (COUNT without argument: of rows). ROWTIME: event time of the last.
        variable: the one whose rows count; empty: all rows of the match.
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

    def about(self) -> str:
        """The text EXPLAIN shows."""
        argument = "*" if self.argument is None else text(self.argument)
        offset = f", {self.offset}" if self.offset else ""
        return f"{self.function}({argument}{offset} OF {self.variable or 'all'})"


@dataclass(frozen=True, slots=True)
class Definition:
    """The condition a row must satisfy to be a row of ``variable``, over the row's fields and over values of the match
    so far, this row included."""

    variable: str
    condition: BoundExpression


@dataclass(frozen=True, slots=True)
class RowOrder:
    """A column that orders rows of the same event time."""

    expression: BoundExpression
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Match(Node):
    """MATCH_RECOGNIZE over appended rows: one row per match, the partition's columns and then the measures.

    Rows of a partition are read in the order of event time, once time has passed them. A search begins at each row that
    no ``skip`` has jumped over; of several matches the one that the SQL standard prefers is taken, see
    ``plan/patterns/pattern.py``.

    Attributes:
        input: rows.
        partition, measures: the columns of the result, measures over the fields of ``values``.
        order: columns after event time; rows that are equal in them are in the order of their source.
        pattern, definitions: a variable without a definition takes any row.
        skip, skip_variable: where the search continues after a match.
        values: values of the rows of a match that definitions and measures read, at least one.
        within_millis: the last row of a match is less than that later than its first; None: no limit.
        ttl_millis: event time without a row after which a partition is forgotten with its waiting rows, so that no
            match spans such a gap; 0: never.
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
    asks_time: ClassVar[bool] = True
    drops_late_rows: ClassVar[bool] = True
    keeps: ClassVar[Keeps] = "rows"
    layout: ClassVar[tuple[int, ...]] = (2,)

    def __post_init__(self) -> None:
        if self.input.changelog != "append" or not self.values:
            raise error("INTERNAL", where="a pattern over rows that may be retracted, or without a value")
        own = frozenset(value.name for value in self.values)
        require(self.input, self.read_columns(), "pattern")
        strange = sorted(frozenset().union(*(named.expression.columns() for named in self.measures)) - own)
        if strange:
            raise error("INTERNAL", where=f"a measure reads {strange}")

    def read_columns(self) -> frozenset[str]:
        """Fields of the input that it reads."""
        own = frozenset(value.name for value in self.values)
        parts = [named.expression for named in self.partition]
        parts += [item.expression for item in self.order] + [item.condition for item in self.definitions]
        parts += [value.argument for value in self.values if value.argument is not None]
        return frozenset().union(*(part.columns() for part in parts)) - own

    @property
    def output(self) -> tuple[Field, ...]:
        return tuple(named.field for named in (*self.partition, *self.measures))

    @property
    def is_stateful(self) -> bool:
        return True

    @property
    def may_wait_for_ever(self) -> bool:
        """Whether an open match may keep more and more rows without a limit."""
        return self.within_millis is None and not self.ttl_millis and is_unbounded(self.pattern)

    @property
    def untimed(self) -> str:
        """A match has rows of several event times."""
        return "a pattern match"

    @property
    def settles(self) -> bool:
        return True

    @property
    def waits_for_time(self) -> bool:
        return True

    @property
    def wait_millis(self) -> int:
        return self.within_millis or 0

    def growth(self) -> Iterator[str]:
        """It has a warning of its own, see :attr:`may_wait_for_ever`."""
        return iter(())

    def shape(self, shaper: Shaper) -> Shape:
        """Variables and values by their numbers: their names do not count."""
        names = {name: f"v{index}" for index, name in enumerate(variables(self.pattern))} | {"": ""}
        values = {value.name: f"@{index}" for index, value in enumerate(self.values)}
        ttl = [self.ttl_millis] if self.ttl_millis else []
        return [
            shaper.texts([named.expression for named in self.partition]),
            [[shaper.text(term.expression), term.descending] for term in self.order],
            pattern_text(self.pattern, names),
            [
                [names[definition.variable], shaper.text(definition.condition, values)]
                for definition in self.definitions
            ],
            [self.skip, names[self.skip_variable], self.within_millis, *ttl],
            [[v.function, names[v.variable], shaper.text(v.argument), v.offset, str(v.type)] for v in self.values],
            [shaper.text(named.expression, values) for named in self.measures],
        ]

    def about(self) -> str:
        values = {value.name: value.about() for value in self.values}
        facts = [f"by {named_text(self.partition)}"] if self.partition else ["all rows in one partition"]
        if self.order:
            ordered = [text(term.expression) + (" DESC" if term.descending else "") for term in self.order]
            facts.append(f"then in the order of {', '.join(ordered)}")
        facts.append(f"({pattern_text(self.pattern)})")
        if self.within_millis is not None:
            facts.append(f"within {duration_text(self.within_millis)}")
        facts += rests(self.ttl_millis)
        facts += [f"{definition.variable}: {_with(definition.condition, values)}" for definition in self.definitions]
        facts.append(f"skip {' '.join(SKIPS[self.skip])} {self.skip_variable}".rstrip())
        measures = [f"{shown(m.name)} {m.expression.type} = {_with(m.expression, values)}" for m in self.measures]
        return " · ".join([*facts, ", ".join(measures)])

    def lineage(self, below: Sources) -> Sources:
        values = {value.name: merged(below, [value.argument]) for value in self.values}
        return lineage_of({**below, **values}, (*self.partition, *self.measures))

    def pruned(self, needed: Names) -> Match:
        """Keeps all measures, since the rows of a match are part of its state."""
        return replace(self, input=self.input.pruned(self.read_columns()))


def _with(expression: BoundExpression, values: Mapping[str, str]) -> str:
    return expression_text(expression.tree, lambda name: values.get(name) or shown(name))
