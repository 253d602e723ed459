"""Plan nodes of applications: the rows of a virtual relation, and all sinks of one job under one root."""

# ruff: noqa: D102, ARG002 — methods of nodes, and what they get, are described once, in Node
from __future__ import annotations

from dataclasses import dataclass, replace

from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.join import IntervalJoin, TemporalJoin
from ds_dagster.plan.nodes.node import Field, Names, Node, Passing, Sources
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.rows import Filter, Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.shaping import Shaper, ShapeScope
from ds_dagster.plan.nodes.static import StaticJoin
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.window import Window, Windowed
from ds_dagster.plan.nodes.window_join import WindowJoin


@dataclass(frozen=True, slots=True)
class Virtual(Passing):
    """Rows of the virtual relation ``name`` (qualified, as text): what its SELECT gives, unchanged. Equal in every
    query that reads it."""

    name: str

    def shape(self, shaper: Shaper) -> Shape:
        return []

    def whole_shape(self, scope: ShapeScope) -> Shape:
        """What it is called, and that others read it too, means nothing."""
        return self.input.whole_shape(scope)

    def about(self) -> str:
        return self.name

    def pruned(self, needed: Names) -> Virtual:
        """The same for every reader, so that its rows can be made once."""
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

    def shape(self, shaper: Shaper) -> Shape:
        return []

    def about(self) -> str:
        return f"{len(self.sinks)} results"

    def lineage(self, below: Sources) -> Sources:
        return {}

    def pruned(self, needed: Names) -> Bundle:
        return replace(self, sinks=tuple(sink.pruned(sink.names) for sink in self.sinks))


PLAIN = (Scan, Filter, Project, Union, Unnest, Virtual)
"""Nodes that make rows of rows, one by one, and keep nothing."""


def is_plain(node: Node) -> bool:
    """Whether everything from here down only reads and changes rows one by one."""
    return all(isinstance(below, PLAIN) for below in node.walk())


def keeps_time(node: Node) -> bool:
    """Whether rows of a node can be told with their event time."""
    if isinstance(node, Aggregate):
        return node.window is not None
    if isinstance(node, Union):
        return all(map(is_plain, node.branches))
    if isinstance(node, StaticJoin):
        return keeps_time(node.left)
    if isinstance(node, Filter | Project | Unnest | Virtual | Window | Windowed):
        return keeps_time(node.input)
    return isinstance(node, Scan | IntervalJoin | TemporalJoin | WindowJoin | Over)


def shared_name(node: Node) -> str:
    """What tells a part of a plan that several sinks may have in common; empty for others."""
    if isinstance(node, Scan):
        return node.source_name
    return f"virtual {node.name}" if isinstance(node, Virtual) else ""


def readings(root: Node) -> dict[str, int]:
    """Shared name → how often its rows are read; what stands below rows that are made once is
    counted once."""
    counts: dict[str, int] = {}

    def visit(node: Node) -> None:
        name = shared_name(node)
        if name:
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > 1:
                return
        for child in node.inputs:
            visit(child)

    visit(root)
    return counts


def shares_state(root: Node) -> bool:
    """Whether several sinks read rows of steps that keep something."""
    counts = readings(root)
    return any(counts.get(shared_name(node), 0) > 1 and not is_plain(node) for node in root.walk())
