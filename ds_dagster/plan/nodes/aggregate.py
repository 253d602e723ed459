"""The plan node of GROUP BY over appended rows, and the calls of aggregates."""

# ruff: noqa: D102 — methods of nodes are described once, in Node
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ds_dagster.datatypes import DATE, DataType, is_temporal
from ds_dagster.errors import error
from ds_dagster.plan.expressions.field_names import column_of, shown
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.describing import named_text, text
from ds_dagster.plan.nodes.node import BoundExpression, Bounds, ChangelogKind, Field, Keeps, Named, Names, Node, Sources
from ds_dagster.plan.nodes.reading import columns_read, lineage_of, merged, plain_name, renamed_bounds, require
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.shaping import Shaper
from ds_dagster.plan.nodes.window import OVERLAPPING, Window, Windowed, window_below

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
KEEP_VALUES = frozenset({"ARRAY_AGG"})
"""Aggregates that keep every value, DISTINCT or not (LISTAGG and JSON_ARRAYAGG are made of it)."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate: ``argument`` None for COUNT(*); ``distinct``: each value once; ``filter`` a condition; ``order``
    the order of FIRST_VALUE and LAST_VALUE."""

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

    def shape(self, shaper: Shaper) -> Shape:
        """Its part of the shape of its node."""
        order = [shaper.text(self.order)] if self.order else []
        parts = [shaper.text(self.argument), shaper.text(self.filter)]
        return [self.function, *parts, self.distinct, str(self.type), *order]

    def about(self) -> str:
        """The field it makes and how, for people."""
        argument = "*" if self.argument is None else text(self.argument)
        condition = "" if self.filter is None else f" FILTER (WHERE {text(self.filter)})"
        distinct = "DISTINCT " if self.distinct else ""
        return f"{shown(self.name)} {self.type} = {self.function}({distinct}{argument}){condition}"

    def as_written(self) -> str:
        """The call with the plain names of columns."""
        argument = "*" if self.argument is None else expression_text(self.argument.tree, column_of)
        return f"{self.function}({'DISTINCT ' * self.distinct}{argument})"


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """GROUP BY; its rows are upserts by ``group``.

    With a window below and both of its bounds in ``group``: one final row per group when time passes the window's end,
    or with ``updates`` a row for every change. Without a window: the last value of each changed group, once per batch.

    ``held``: the state has exactly these calls in this order, even if some are not read. False: only the calls that are
    read, in Spark's order, see ``plan/identity/state_order.py``.
    """

    input: Node
    group: tuple[Named, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | Windowed | None = None
    updates: bool = False
    held: bool = True
    keeps: ClassVar[Keeps] = "results"
    one_per_key: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.input.is_final:
            raise error("INTERNAL", where="aggregate over rows that may be retracted")
        for named in self.group:
            require(self.input, named.expression.columns(), f"group {named.name}")

    def with_inputs(self, change: Callable[[Node], Node]) -> Aggregate:
        """Also replaces ``window``, by the window below with the same bounds."""
        rebuilt = super(Aggregate, self).with_inputs(change)
        if rebuilt is self or self.window is None:
            return rebuilt
        return replace(rebuilt, window=_window_of(rebuilt.input, self.window))

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

    @property
    def untimed(self) -> str:
        """A group of a closed window has the window's last moment as its event time."""
        return "an aggregate" if self.window is None else self.input.untimed

    @property
    def windows(self) -> tuple[Bounds, ...]:
        """Only the window the groups are made of, and only if the rows are final."""
        if self.window is None or self.updates:
            return ()
        return renamed_bounds((Bounds(self.window.start, self.window.end),), self.group)

    @property
    def pane_window(self) -> Window | None:
        """The overlapping window by whose panes its state may be kept: its rows are final, and neither it nor a step
        since the window reads the window's bounds, except to group by them. None: each window is kept."""
        if self.window is None or self.updates:
            return None
        bounds = frozenset((self.window.start, self.window.end))
        keys = [named.expression for named in self.group if not plain_name(named.expression)]
        read = columns_read([*keys, *(part for call in self.calls for part in call.parts)])
        window = window_below(self.input, bounds) if read.isdisjoint(bounds) else None
        return window if window is not None and window.function in OVERLAPPING else None

    @property
    def open_windows(self) -> tuple[Node, ...]:
        return ()

    @property
    def late_step(self) -> str:
        return "an aggregate"

    @property
    def is_refined(self) -> bool:
        return (self.window is not None and self.updates) or self.input.is_refined

    def takes_filters(self, names: Names) -> bool:
        return not names.isdisjoint(self.key)

    def shape(self, shaper: Shaper) -> Shape:
        return [*groups_shape(shaper, self.group, self.calls), self.updates, self.window is not None]

    def about(self) -> str:
        closes = self.window is not None and not self.updates
        return groups_text(self.group, self.calls, "once, when the window closes" if closes else "every change")

    def lineage(self, below: Sources) -> Sources:
        return groups_lineage(below, self.group, self.calls)

    def pruned(self, needed: Names) -> Aggregate:
        calls, used = needed_calls(self.group, self.calls, needed)
        return replace(self.with_inputs(lambda below: below.pruned(used)), calls=calls)

    def growth(self) -> Iterator[str]:
        return iter(()) if self.window is not None else groups_growth(self.input, self.group, self.calls, KEEP_VALUES)


def is_by_pane(node: Node) -> bool:
    """Whether the state of a step may be kept by pane of overlapping windows."""
    return isinstance(node, Aggregate) and node.pane_window is not None


def groups_shape(shaper: Shaper, group: tuple[Named, ...], calls: tuple[AggregateCall, ...]) -> Shape:
    """Groups and calls as a part of a shape."""
    return [shaper.texts([named.expression for named in group]), [call.shape(shaper) for call in calls]]


def groups_text(group: tuple[Named, ...], calls: tuple[AggregateCall, ...], when: str) -> str:
    """Groups and calls as text, and when a group's row is emitted."""
    return f"by {named_text(group)} · {', '.join(call.about() for call in calls)} · {when}"


def groups_lineage(below: Sources, group: tuple[Named, ...], calls: tuple[AggregateCall, ...]) -> Sources:
    """Source columns of groups and results."""
    return {**lineage_of(below, group), **{c.name: merged(below, [c.argument, c.filter]) for c in calls}}


def needed_calls(
    group: tuple[Named, ...], calls: tuple[AggregateCall, ...], needed: Names
) -> tuple[tuple[AggregateCall, ...], Names]:
    """The calls that are read above, at least one, and the fields that groups and calls read."""
    used_calls = tuple(call for call in calls if call.name in needed) or calls[:1]
    parts = [part for call in used_calls for part in call.parts]
    return used_calls, columns_read([*(named.expression for named in group), *parts])


def groups_growth(
    rows: Node, group: tuple[Named, ...], calls: tuple[AggregateCall, ...], keep_values: frozenset[str]
) -> Iterator[str]:
    """Texts that name the state of groups over ``rows`` that grows with every record. ``keep_values``: aggregates that
    keep every value."""
    if not rows.only_grows:
        return
    names = ", ".join(column_of(named.name) for named in group)
    for call in calls:
        if call.distinct or call.function in keep_values:
            yield f"{call.as_written()} by {names} keeps every value"
    yield from (f"GROUP BY {names} keeps a group per {column_of(g.name)}" for g in group if _is_moment(rows, g))


def _is_moment(rows: Node, group: Named) -> bool:
    """Whether a group is a point in time: a TIMESTAMP, or the event time itself."""
    scans = [below for below in rows.walk() if isinstance(below, Scan)]
    times = {scan.time.column for scan in scans} | {scan.rowtime_field for scan in scans}
    type_ = group.expression.type
    return (is_temporal(type_) and type_ != DATE) or bool(times & {group.expression.tree.name})


def _window_of(below: Node, old: Window | Windowed) -> Window | Windowed:
    bounds = (old.start, old.end)
    return next(n for n in below.walk() if isinstance(n, Window | Windowed) and (n.start, n.end) == bounds)
