"""Columns of whole numbers that get another width below totals: the state of counts, sums and averages is the same."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.plan.identity.fingerprint import state_parts
from ds_dagster.plan.identity.held import SCOPE
from ds_dagster.plan.nodes.aggregate import Aggregate, AggregateCall
from ds_dagster.plan.nodes.delta import DeltaAggregate
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.query import BoundQuery

INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})
TOTALS = frozenset({"COUNT", "SUM", "AVG"})
"""Aggregates whose state does not depend on the width of their argument: a count, and a sum of the widest type."""
GROUPS = (Aggregate, DeltaAggregate)


def differ_in_widths_alone(old: BoundQuery, new: BoundQuery) -> bool:
    """Whether two definitions have equal state, although whole numbers that they read have other widths."""
    before, after = (state_parts(query.parts[0].root, SCOPE) for query in (old, new))
    if old.is_application or new.is_application:
        return False
    if (before.positions, before.result) != (after.positions, after.result):
        return False
    steps = [[node for node in query.plan.walk() if node.is_stateful] for query in (old, new)]
    return (
        _is_alike(before.filters, after.filters)
        and _is_alike(before.steps, after.steps)
        and all(map(_keep_the_same, *steps))
    )


def _keep_the_same(old: Node, new: Node) -> bool:
    if old.state_shape(SCOPE) == new.state_shape(SCOPE):
        return True
    if not isinstance(old, GROUPS) or not isinstance(new, GROUPS):
        return False
    keys = ([str(named.expression.type) for named in node.group] for node in (old, new))
    return next(keys) == next(keys) and all(map(_is_same_total, old.calls, new.calls))


def _is_same_total(old: AggregateCall, new: AggregateCall) -> bool:
    types = [[str(part.type) for part in call.parts] for call in (old, new)]
    is_total = old.function in TOTALS and not old.distinct and old.order is None
    return old.type == new.type and (types[0] == types[1] or is_total)


def _is_alike(old: object, new: object) -> bool:
    """Whether shapes are equal except for the widths of whole numbers."""
    if isinstance(old, Sequence) and isinstance(new, Sequence) and not isinstance(old, str):
        return len(old) == len(new) and not isinstance(new, str) and all(map(_is_alike, old, new))
    return old == new or (isinstance(old, str) and isinstance(new, str) and {old, new} <= INTEGERS)
