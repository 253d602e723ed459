"""Plan nodes over the rows of one window: their join, and the rows with the greatest or least value."""

# ruff: noqa: D102 — methods of nodes are described once, in Node
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ds_dagster.plan.expressions.field_names import shown
from ds_dagster.plan.nodes.describing import by_text, text
from ds_dagster.plan.nodes.join import BOTH, LEFT, Side, TimedJoin, pairs_text
from ds_dagster.plan.nodes.node import BoundExpression, Bounds, ChangelogKind, Field, Keeps, Names
from ds_dagster.plan.nodes.reading import columns_read, or_null, require
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.rows import Passing
from ds_dagster.plan.nodes.shaping import Shaper

MOST_DIGITS = 18
"""Most digits of a DECIMAL that fit into a BIGINT as a whole number."""


@dataclass(frozen=True, slots=True)
class WindowJoin(TimedJoin):
    """Rows of two sides that are in the same window: ends and keys equal. NULL keys match nothing. All rows of a window
    are emitted once, when time passes its end; then its state is dropped.

    ``left_end``, ``right_end``: the fields that hold the end.
    """

    layout: ClassVar[tuple[int, ...]] = (3,)

    left_end: str
    right_end: str

    @property
    def output(self) -> tuple[Field, ...]:
        return (*or_null(self.left, self.kind == "full"), *or_null(self.right, self.kind != "inner"))

    @property
    def late_step(self) -> str:
        return "a join of windows"

    @property
    def settles(self) -> bool:
        return True

    @property
    def sides_of_filters(self) -> tuple[Side, ...]:
        return {"inner": BOTH, "left": LEFT, "full": ()}[self.kind]

    def own_columns(self) -> Names:
        return frozenset((self.left_end, self.right_end))

    def shape(self, shaper: Shaper) -> Shape:
        ends = [shaper.position(self.left_end), shaper.position(self.right_end)]
        return [self.kind, ends, self.keys_shape(shaper)]

    def about(self) -> str:
        ends = f"{shown(self.left_end)} = {shown(self.right_end)}"
        keys = f" and {pairs_text(self.left_keys, self.right_keys)}" if self.left_keys else ""
        return f"{self.kind} on {ends}{keys} · once, when the window closes"


@dataclass(frozen=True, slots=True)
class WindowExtreme(Passing):
    """The rows whose ``value`` is the greatest of their window and ``keys``, or the least with ``greatest`` False;
    several if their values are equal. Rows with a NULL value or key are dropped. Rows are emitted once, when time
    passes the window's end; then its state is dropped.

    ``end``: the field that holds the end. ``value``: a whole number, a DECIMAL of up to :data:`MOST_DIGITS` digits, a
    DATE or a TIMESTAMP.
    """

    end: str
    value: BoundExpression
    keys: tuple[BoundExpression, ...] = ()
    greatest: bool = True
    passes_time: ClassVar[bool] = False
    keeps: ClassVar[Keeps] = "rows"

    def __post_init__(self) -> None:
        require(self.input, self.own_columns(), "window")

    @property
    def is_stateful(self) -> bool:
        return True

    @property
    def changelog(self) -> ChangelogKind:
        return "append"

    @property
    def is_final(self) -> bool:
        return True

    @property
    def key(self) -> tuple[str, ...]:
        return ()

    @property
    def windows(self) -> tuple[Bounds, ...]:
        return self.input.windows

    @property
    def late_step(self) -> str:
        return "the extreme of a window"

    @property
    def settles(self) -> bool:
        return True

    def own_columns(self) -> Names:
        return columns_read([self.value, *self.keys]) | {self.end}

    def growth(self) -> Iterator[str]:
        """None: event time bounds the state."""
        return iter(())

    def shape(self, shaper: Shaper) -> Shape:
        return [shaper.position(self.end), shaper.text(self.value), shaper.texts(self.keys), self.greatest]

    def about(self) -> str:
        which = "greatest" if self.greatest else "least"
        return f"{which} {text(self.value)} of {shown(self.end)}{by_text(self.keys)} · once, when the window closes"
