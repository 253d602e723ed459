"""Plan → the same rows with weights: which nodes change if an operator above must see additions and retractions."""

from __future__ import annotations

from dataclasses import replace

from ds_dagster.errors import error
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.application import Virtual
from ds_dagster.plan.nodes.delta import DeltaAggregate, Fold, Unweigh, Weigh
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rows import Filter, Project


def weighted(node: Node) -> Node:
    """A node whose rows carry weights.

    Appended rows and groups of closed windows are never retracted. Filters and projections pass weights on and stay
    above, so the state of an upsert source is the row as it was read. A projection of closed windows without their key
    has weights below it. A stateless virtual relation stays as it is, since other queries read it too.

    Raises:
        InternalError: INTERNAL for a windowed aggregate that is refined.
    """
    if node.changelog == "weighted":
        return node
    if isinstance(node, Unweigh):
        return node.input
    if node.is_final and not (isinstance(node, Project) and node.changelog == "upsert" and not node.key):
        return Weigh(node)
    if isinstance(node, Virtual) and node.is_plain:
        return Weigh(node)
    if isinstance(node, Filter | Project | Virtual):
        return replace(node, input=weighted(node.input))
    if isinstance(node, Fold):
        return node.input
    if isinstance(node, DeltaAggregate):
        return replace(node, weighted=True)
    if isinstance(node, Aggregate):
        if node.window is not None:
            raise error("INTERNAL", where="weights of windows that are refined")
        return DeltaAggregate(weighted(node.input), node.group, node.calls, weighted=True)
    return Weigh(node)


def has_weights(node: Node) -> bool:
    """Whether the node or a step below works on weights."""
    return any(below.changelog == "weighted" or isinstance(below, DeltaAggregate) for below in node.walk())
