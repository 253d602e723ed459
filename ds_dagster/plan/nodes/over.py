"""Plan node of results over the rows before a row."""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ds_dagster.datatypes import DataType
from ds_dagster.errors import error
from ds_dagster.plan.nodes.node import BoundExpression, Field, Node, require
from ds_dagster.plan.nodes.rows import Filter, Project
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.unnest import Unnest


@dataclass(frozen=True, slots=True)
class OverCall:
    """One result: an aggregate, FIRST_VALUE, LAST_VALUE or LAG. ``argument`` None: COUNT(*); ``filter``: rows that
    count."""

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
        partition: rows that see one another.
        calls: results.
        by_time: the frame is so many microseconds, and rows of one time see one another (RANGE); else so many rows
            (ROWS).
        before: how far the frame reaches back; negative: to the beginning.
        ttl_millis: event time without a row after which the next one begins a partition anew; 0: never.
    """

    input: Node
    partition: tuple[BoundExpression, ...]
    calls: tuple[OverCall, ...]
    by_time: bool
    before: int
    ttl_millis: int = 0

    def __post_init__(self) -> None:
        if self.input.changelog != "append":
            raise error("INTERNAL", where="results over rows that may go")
        parts = [part for call in self.calls for part in (call.argument, call.filter) if part is not None]
        for expression in (*self.partition, *parts):
            require(self.input, expression.columns(), "over")

    @property
    def output(self) -> tuple[Field, ...]:
        return (*self.input.output, *(call.field for call in self.calls))

    @property
    def is_stateful(self) -> bool:
        return True


def event_time_fields(node: Node) -> frozenset[str]:
    """Fields that hold the event time of a node's rows, unchanged."""
    if isinstance(node, Scan):
        return frozenset({node.time.column or node.rowtime_field})
    if isinstance(node, Filter | Unnest):
        return event_time_fields(node.input)
    if isinstance(node, Project):
        below = event_time_fields(node.input)
        trees = ((named.name, named.expression.tree) for named in node.columns)
        return frozenset(name for name, tree in trees if isinstance(tree, exp.Column) and tree.name in below)
    if isinstance(node, Union):
        return frozenset.intersection(*map(event_time_fields, node.branches))
    return frozenset()
