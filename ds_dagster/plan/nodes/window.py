"""Plan nodes that assign rows to windows, and the place of rows that are too late for their window."""

# ruff: noqa: D102, ARG002 — methods of nodes and their arguments are described once, in Node
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import TIMESTAMP_LTZ
from ds_dagster.plan.expressions.field_names import field_name, shown
from ds_dagster.plan.nodes.node import Bounds, Field, Names, Node, Sources, expressions_of
from ds_dagster.plan.nodes.reading import columns_read, plain_name, require
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.rows import Passing, Project
from ds_dagster.plan.nodes.shaping import Shaper
from ds_dagster.sql.generator import duration_text

WindowFunction = Literal["TUMBLE", "HOP", "CUMULATE", "SESSION"]
OVERLAPPING: frozenset[WindowFunction] = frozenset({"HOP", "CUMULATE"})
"""Functions that may put a row into several windows."""


@dataclass(frozen=True, slots=True)
class LateRows:
    """The place of rows that are too late for a window.

    Attributes:
        relation: a stream that the project declares.
        fields: (column of the relation, field of the window's input).
        tells: the relation has a column with how late a row is.
        record: (column of the relation, column of a row log) for the record of a row and the query it is late for.
    """

    relation: Relation
    fields: tuple[tuple[str, str], ...]
    tells: bool
    record: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Window(Node):
    """Assigns rows to windows of event time: adds ``window_start`` and ``window_end`` (TIMESTAMP_LTZ), named
    ``alias$window_start`` and ``alias$window_end``. A window includes its start and excludes its end; all but sessions
    are aligned to the epoch.

    Attributes:
        input, alias: rows, and the first part of the bounds' names.
        size_millis: length; for a session the gap that ends it.
        function: TUMBLE: one window per row. HOP: one begins every ``step_millis`` (there may be gaps between them).
            CUMULATE: all that begin at a multiple of the size and end at a multiple of ``step_millis``. SESSION: while
            rows of a group are no further apart than the gap; its bounds are known to the aggregate only.
        step_millis: of HOP and CUMULATE, else 0.
        late: the place of rows that arrive after their window has closed; None: they are dropped.
    """

    asks_time: ClassVar[bool] = True
    input: Node
    alias: str
    size_millis: int
    function: WindowFunction = "TUMBLE"
    step_millis: int = 0
    late: LateRows | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        bounds = (Field(self.start, TIMESTAMP_LTZ, False), Field(self.end, TIMESTAMP_LTZ, False))
        return (*self.input.output, *bounds)

    @property
    def start(self) -> str:
        """Internal name of the window's start."""
        return field_name(self.alias, "window_start")

    @property
    def end(self) -> str:
        """Internal name of the window's end."""
        return field_name(self.alias, "window_end")

    @property
    def untimed(self) -> str:
        return self.input.untimed

    @property
    def windows(self) -> tuple[Bounds, ...]:
        return () if self.function == "SESSION" else (Bounds(self.start, self.end),)

    @property
    def open_windows(self) -> tuple[Node, ...]:
        return (self, *self.input.open_windows)

    @property
    def waits_for_time(self) -> bool:
        return True

    @property
    def wait_millis(self) -> int:
        return self.size_millis

    def shape(self, shaper: Shaper) -> Shape:
        return [self.function, self.size_millis, *([self.step_millis] if self.step_millis else [])]

    def about(self) -> str:
        step = f" every {duration_text(self.step_millis)}" if self.step_millis else ""
        late = "" if self.late is None else f" · late rows kept in {self.late.relation.name.name}"
        return f"{self.function} {duration_text(self.size_millis)}{step}{late}"

    def lineage(self, below: Sources) -> Sources:
        return {**below, self.start: (), self.end: ()}

    def pruned(self, needed: Names) -> Window:
        late = frozenset(field for _, field in self.late.fields) if self.late is not None else frozenset()
        return replace(self, input=self.input.pruned(needed | late))


@dataclass(frozen=True, slots=True)
class Windowed(Passing):
    """Rows that a step below has assigned to a window: ``start`` and ``end`` are the fields of its bounds. A row
    arrives before time passes the end, or at the moment it does."""

    start: str
    end: str

    def __post_init__(self) -> None:
        require(self.input, self.own_columns(), "window")

    @property
    def windows(self) -> tuple[Bounds, ...]:
        return (Bounds(self.start, self.end),)

    def shape(self, shaper: Shaper) -> Shape:
        return [shaper.position(self.start), shaper.position(self.end)]

    def about(self) -> str:
        return f"from {shown(self.start)} to {shown(self.end)}"

    def own_columns(self) -> Names:
        return frozenset((self.start, self.end))


def window_below(node: Node, bounds: Names) -> Window | None:
    """The window whose bounds are these fields, if the steps since then treat its rows one by one, and only pass its
    bounds on; else None."""
    if isinstance(node, Window):
        return node if bounds == {node.start, node.end} else None
    if not (node.one_by_one or isinstance(node, Windowed)) or len(node.inputs) != 1:
        return None
    columns = node.columns if isinstance(node, Project) else ()
    below = frozenset(plain_name(named.expression) for named in columns if named.name in bounds) or bounds
    others = [named.expression for named in columns if named.name not in bounds]
    read = columns_read(others if columns else expressions_of(node))
    is_passed = len(below) == len(bounds) and "" not in below
    return window_below(node.inputs[0], below) if is_passed and read.isdisjoint(below) else None
