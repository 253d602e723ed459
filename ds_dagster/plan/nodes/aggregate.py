"""The plan node of GROUP BY over rows that only come, and the calls of aggregates."""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ds_dagster.datatypes import DataType
from ds_dagster.errors import error
from ds_dagster.plan.nodes.node import BoundExpression, ChangelogKind, Field, Named, Node, require
from ds_dagster.plan.nodes.window import Window, Windowed

AggregateFunction = Literal[
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "VAR_POP",
    "VAR_SAMP",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "ARRAY_AGG",
    "FIRST_VALUE",
    "LAST_VALUE",
    "APPROX_COUNT_DISTINCT",
]


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate: ``argument`` None for COUNT(*); ``distinct``: each value once; ``filter`` a condition; ``order``
    what FIRST_VALUE and LAST_VALUE go by."""

    name: str
    function: AggregateFunction
    argument: BoundExpression | None
    type: DataType
    distinct: bool = False
    filter: BoundExpression | None = None
    nullable: bool = True
    order: BoundExpression | None = None

    @property
    def parts(self) -> tuple[BoundExpression, ...]:
        """The expressions it reads."""
        return tuple(part for part in (self.argument, self.filter, self.order) if part is not None)

    @property
    def field(self) -> Field:
        """The field it makes."""
        return Field(self.name, self.type, self.nullable)


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """GROUP BY. With a Window below and both bounds in ``group``: one final row per group when time passes the
    window's end (``updates`` False), or refinements. Without: the last value of each changed group per batch. Upsert
    by ``group``."""

    input: Node
    group: tuple[Named, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | Windowed | None = None
    updates: bool = False

    def __post_init__(self) -> None:
        if not self.input.is_final:
            raise error("INTERNAL", where="aggregate over rows that may go")
        for named in self.group:
            require(self.input, named.expression.columns(), f"group {named.name}")

    def with_inputs(self, change: Callable[[Node], Node]) -> Aggregate:
        """It names its window a second time: the one of the same bounds in what stands below it then."""
        made = super(Aggregate, self).with_inputs(change)
        if made is self or self.window is None:
            return made
        return replace(made, window=_window_of(made.input, self.window))

    @property
    def output(self) -> tuple[Field, ...]:
        return (*(named.field for named in self.group), *(call.field for call in self.calls))

    @property
    def changelog(self) -> ChangelogKind:
        return "upsert"

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(named.name for named in self.group)

    @property
    def is_final(self) -> bool:
        return self.window is not None and not self.updates

    @property
    def is_stateful(self) -> bool:
        return True


def _window_of(below: Node, old: Window | Windowed) -> Window | Windowed:
    bounds = (old.start, old.end)
    return next(n for n in below.walk() if isinstance(n, Window | Windowed) and (n.start, n.end) == bounds)
