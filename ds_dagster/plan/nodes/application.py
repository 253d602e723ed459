"""Plan nodes of applications: the rows of a virtual relation, and all sinks of one job under one root."""

# ruff: noqa: D102, ARG002 — methods of nodes and their arguments are described once, in Node
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ds_dagster.plan.nodes.node import Field, Names, Node, Sources
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.rows import Passing, Sink
from ds_dagster.plan.nodes.shaping import Shaper, ShapeScope


@dataclass(frozen=True, slots=True)
class Virtual(Passing):
    """Rows of the virtual relation ``name`` (qualified, as text): the rows of its SELECT, unchanged. Equal in every
    query that reads it."""

    one_by_one: ClassVar[bool] = True
    only_shows: ClassVar[bool] = True
    name: str

    @property
    def shared_name(self) -> str:
        return f"virtual {self.name}"

    def shape(self, shaper: Shaper) -> Shape:
        return []

    def whole_shape(self, scope: ShapeScope) -> Shape:
        """The shape of its SELECT: its name and its other readers do not count."""
        return self.input.whole_shape(scope)

    def about(self) -> str:
        return self.name

    def pruned(self, needed: Names) -> Virtual:
        """Keeps all fields, so that the node is equal for every reader and its rows can be computed once."""
        return replace(self, input=self.input.pruned(self.names))


@dataclass(frozen=True, slots=True)
class Bundle(Node):
    """Root of an application: its sinks, in the order of the statements."""

    sinks: tuple[Sink, ...]

    @property
    def output(self) -> tuple[Field, ...]:
        return ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sinks

    @property
    def untimed(self) -> str:
        return "an application"

    def shape(self, shaper: Shaper) -> Shape:
        return []

    def about(self) -> str:
        return f"{len(self.sinks)} results"

    def lineage(self, below: Sources) -> Sources:
        return {}

    def pruned(self, needed: Names) -> Bundle:
        return replace(self, sinks=tuple(sink.pruned(sink.names) for sink in self.sinks))


def readings(root: Node) -> dict[str, int]:
    """Shared name → how often its rows are read; nodes below rows that are computed once are counted once."""
    counts: dict[str, int] = {}

    def visit(node: Node) -> None:
        name = node.shared_name
        if name:
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > 1:
                return
        for child in node.inputs:
            visit(child)

    visit(root)
    return counts
