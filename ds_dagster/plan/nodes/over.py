"""Plan node of OVER: results over the rows up to a row, in event time."""

# ruff: noqa: D102 — methods of nodes are described once, in Node
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from ds_dagster.datatypes import DataType
from ds_dagster.errors import error
from ds_dagster.plan.expressions.field_names import column_of
from ds_dagster.plan.nodes.describing import by_text, rests, text
from ds_dagster.plan.nodes.node import BoundExpression, Field, Keeps, Names, Node, Sources
from ds_dagster.plan.nodes.reading import columns_read, merged, require
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.shaping import Shaper, forgets


@dataclass(frozen=True, slots=True)
class OverCall:
    """One result: an aggregate, FIRST_VALUE, LAST_VALUE or LAG. ``argument`` None: COUNT(*); ``filter``: the condition
    of rows that count."""

    name: str
    function: str
    argument: BoundExpression | None
    type: DataType
    filter: BoundExpression | None = None
    nullable: bool = True

    @property
    def field(self) -> Field:
        """The field it makes."""
        return Field(self.name, self.type, self.nullable)


@dataclass(frozen=True, slots=True)
class Over(Node):
    """Appended rows with results over the rows of their partition up to them in event time, once time has passed them.

    Attributes:
        input: a stream whose event time is known.
        partition: rows with equal values are one partition.
        calls: results.
        by_time: True (RANGE): ``before`` is in microseconds, and rows of the same time are in each other's frame.
            False (ROWS): ``before`` is a number of rows.
        before: how far the frame reaches back; negative: to the beginning.
        ttl_millis: event time without a row after which a partition starts over; 0: never.
    """

    input: Node
    partition: tuple[BoundExpression, ...]
    calls: tuple[OverCall, ...]
    by_time: bool
    before: int
    ttl_millis: int = 0
    asks_time: ClassVar[bool] = True
    drops_late_rows: ClassVar[bool] = True
    keeps: ClassVar[Keeps] = "results"
    layout: ClassVar[tuple[int, ...]] = (4,)

    def __post_init__(self) -> None:
        if self.input.changelog != "append":
            raise error("INTERNAL", where="OVER of rows that may be retracted")
        require(self.input, self._read(self.calls), "over")

    @property
    def output(self) -> tuple[Field, ...]:
        return (*self.input.output, *(call.field for call in self.calls))

    @property
    def is_stateful(self) -> bool:
        return True

    @property
    def untimed(self) -> str:
        return self.input.untimed

    @property
    def late_step(self) -> str:
        return "an OVER aggregate"

    @property
    def waits_for_time(self) -> bool:
        return True

    def _read(self, calls: tuple[OverCall, ...]) -> Names:
        parts = [part for call in calls for part in (call.argument, call.filter)]
        return columns_read([*self.partition, *parts])

    def growth(self) -> Iterator[str]:
        """If every field is in the partition, there are as many partitions as different rows."""
        fields = {field.name for field in self.input.output}
        if self.before < 0 and not self.ttl_millis and fields <= {part.tree.name for part in self.partition}:
            yield f"the first of each value of {', '.join(sorted(map(column_of, fields)))} is kept"

    def shape(self, shaper: Shaper) -> Shape:
        calls = [[c.function, shaper.text(c.argument), shaper.text(c.filter), str(c.type)] for c in self.calls]
        return [shaper.texts(self.partition), calls, self.by_time, self.before, *forgets(self.ttl_millis)]

    def about(self) -> str:
        reach = "all rows before" if self.before < 0 else f"{self.before} {'µs' if self.by_time else 'rows'} before"
        calls = ", ".join(f"{call.function}({text(call.argument) if call.argument else '*'})" for call in self.calls)
        first = f"{calls}{by_text(self.partition)} in event time"
        return " · ".join([first, reach, "once time has passed a row", *rests(self.ttl_millis)])

    def lineage(self, below: Sources) -> Sources:
        return {**below, **{call.name: merged(below, [call.argument, call.filter]) for call in self.calls}}

    def pruned(self, needed: Names) -> Over:
        calls = tuple(call for call in self.calls if call.name in needed) or self.calls[:1]
        own = {call.name for call in self.calls}
        return replace(self, input=self.input.pruned((needed - own) | self._read(calls)), calls=calls)
