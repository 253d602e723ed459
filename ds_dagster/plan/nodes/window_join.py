"""Joins of rows in the same window, and which fields of a plan's rows are the bounds of a window."""

# ruff: noqa: D102 — methods of nodes are described once, in Node
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from sqlglot import exp

from ds_dagster.plan.expressions.field_names import shown
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.join import BOTH, LEFT, IntervalJoin, Side, TemporalJoin, TimedJoin, pairs_text
from ds_dagster.plan.nodes.node import Field, Named, Names, Node, or_null
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.rows import Filter, Project
from ds_dagster.plan.nodes.shaping import Shaper
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.window import Window, Windowed


@dataclass(frozen=True, slots=True)
class WindowJoin(TimedJoin):
    """Rows of two sides that are in the same window: ends and keys equal. NULL keys match nothing. All of a window's
    rows leave when time passes its end, once and for good; then the window is forgotten.

    ``left_end``, ``right_end``: the fields that hold the end.
    """

    left_end: str
    right_end: str

    @property
    def output(self) -> tuple[Field, ...]:
        return (*or_null(self.left, self.kind == "full"), *or_null(self.right, self.kind != "inner"))

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


class Bounds(NamedTuple):
    """Names of the fields that hold the start and the end of a row's window."""

    start: str
    end: str


def window_bounds(node: Node) -> tuple[Bounds, ...]:
    """The windows a node's rows are in, none where they are in none or their bounds are not known yet (sessions before
    they have ended). Flink calls this the window attribute of a relation.

    Rows with bounds come before time has passed the end, or in the moment it does: so a step above may close the same
    window once more.
    """
    found = _BOUNDS.get(type(node))
    return () if found is None else found(node)


def _own(node: Node) -> tuple[Bounds, ...]:
    assert isinstance(node, Window)
    return () if node.function == "SESSION" else (Bounds(node.start, node.end),)


def _known(node: Node) -> tuple[Bounds, ...]:
    assert isinstance(node, Windowed)
    return (Bounds(node.start, node.end),)


def _of_input(node: Node) -> tuple[Bounds, ...]:
    assert isinstance(node, Filter | Unnest)
    return window_bounds(node.input)


def _projected(node: Node) -> tuple[Bounds, ...]:
    assert isinstance(node, Project)
    return _renamed(window_bounds(node.input), node.columns)


def _grouped(node: Node) -> tuple[Bounds, ...]:
    """A window that has closed: only the one the groups are made of."""
    assert isinstance(node, Aggregate)
    if node.window is None or node.updates:
        return ()
    return _renamed((Bounds(node.window.start, node.window.end),), node.group)


def _joined(node: Node) -> tuple[Bounds, ...]:
    """Bounds that an outer join may have set to NULL are none."""
    assert isinstance(node, IntervalJoin | TemporalJoin | WindowJoin)
    left = () if node.kind == "full" else window_bounds(node.left)
    return (*left, *(window_bounds(node.right) if node.kind == "inner" else ()))


def _renamed(bounds: tuple[Bounds, ...], columns: tuple[Named, ...]) -> tuple[Bounds, ...]:
    names: dict[str, list[str]] = {}
    for named in columns:
        if isinstance(named.expression.tree, exp.Column):
            names.setdefault(named.expression.tree.name, []).append(named.name)
    return tuple(
        Bounds(start, end) for pair in bounds for start in names.get(pair.start, ()) for end in names.get(pair.end, ())
    )


_BOUNDS: Mapping[type[Node], Callable[[Node], tuple[Bounds, ...]]] = MappingProxyType(
    {
        Window: _own,
        Windowed: _known,
        Filter: _of_input,
        Unnest: _of_input,
        Project: _projected,
        Aggregate: _grouped,
        IntervalJoin: _joined,
        TemporalJoin: _joined,
        WindowJoin: _joined,
    }
)
