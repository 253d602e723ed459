"""The plan node that joins rows in the same window."""

# ruff: noqa: D102 — methods of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass

from ds_dagster.plan.expressions.field_names import shown
from ds_dagster.plan.nodes.join import BOTH, LEFT, Side, TimedJoin, pairs_text
from ds_dagster.plan.nodes.node import Field, Names
from ds_dagster.plan.nodes.reading import or_null
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.shaping import Shaper


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
