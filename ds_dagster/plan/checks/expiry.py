"""``'state.ttl.millis'``: the steps of a plan that forget state, and what else it changes in the plan."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.weights import weighted

STATE_TTL = "state.ttl.millis"
_FIELD = "ttl_millis"


def expiring(root: Sink, ttl_millis: int, span: Span) -> Sink:
    """The plan whose steps forget state that does not change for ``ttl_millis`` (above 0).

    Every stateful node that has a field ``ttl_millis`` gets it. An aggregate without a window becomes a
    :class:`DeltaAggregate`, since Spark's own never forgets. Windows, interval joins and temporal joins are bounded by
    event time and stay.

    Raises:
        UserError: STATE_TTL_WITHOUT_STATE: no step can forget. UnsupportedError: STATE_TTL_CONDITIONS.
    """
    joins = (node for node in root.walk() if isinstance(node, DeltaJoin))
    if any(join.kind != "inner" and join.residual is not None for join in joins):
        raise error("STATE_TTL_CONDITIONS", span=span)
    below = _expiring(root.input, ttl_millis)
    if not forgets(below):
        raise error("STATE_TTL_WITHOUT_STATE", span=span)
    return replace(root, input=below)


def forgets(root: Node) -> bool:
    """Whether some step forgets."""
    return any(getattr(node, _FIELD, 0) for node in root.walk())


def _expiring(node: Node, ttl_millis: int) -> Node:
    rebuilt = node.with_inputs(lambda below: _expiring(below, ttl_millis))
    if isinstance(rebuilt, Aggregate) and rebuilt.window is None:
        return DeltaAggregate(weighted(rebuilt.input), rebuilt.group, rebuilt.calls, ttl_millis=ttl_millis)
    if rebuilt.is_stateful and any(field.name == _FIELD for field in fields(rebuilt)):
        forgetting: dict[str, Any] = {_FIELD: ttl_millis}
        return replace(rebuilt, **forgetting)
    return rebuilt
