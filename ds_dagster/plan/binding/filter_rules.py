"""Filters are pushed below joins, so that fewer rows are in the state of joins.

A condition on the fields of one side is pushed below the join if every row of the result holds that side's row
unchanged: both sides of an INNER JOIN, the left of a LEFT JOIN; never the side that an outer join may fill with NULL.
It stays above the scan, where rows report their time to the clock, so event time does not change.
"""

from __future__ import annotations

from dataclasses import replace

from ds_dagster.plan.expressions.binder import conjunction, conjuncts
from ds_dagster.plan.nodes.delta import Weigh
from ds_dagster.plan.nodes.join import Join
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.nodes.rows import Filter, Sink


def push_filters(root: Sink) -> Sink:
    """Push all conditions as far below joins as allowed."""
    return replace(root, input=_push(root.input))


def _push(node: Node) -> Node:
    if isinstance(node, Filter):
        pushed = _pushed(node)
        if pushed is not None:
            return _push(pushed)
    return node.with_inputs(_push)


def _pushed(node: Filter) -> Node | None:
    """The same rows with conditions of the filter, and of filters directly below it, moved below the join; None if no
    condition can move."""
    parts: list[BoundExpression] = []
    below: Node = node
    while isinstance(below, Filter):
        parts = [*conjuncts(below.condition), *parts]
        below = below.input
    if not isinstance(below, Join):
        return None
    sides = {name: getattr(below, name) for name in below.sides_of_filters}
    moved: dict[str, list[BoundExpression]] = {}
    above = []
    for part in parts:
        side = next((name for name, input_ in sides.items() if _is_over(part, input_)), None)
        if side is None:
            above.append(part)
        else:
            moved.setdefault(side, []).append(part)
    if not moved:
        return None
    joined: Node = replace(
        below, left=_filtered(below.left, moved.get("left")), right=_filtered(below.right, moved.get("right"))
    )
    return Filter(joined, conjunction(above)) if above else joined


def _is_over(part: BoundExpression, node: Node) -> bool:
    read = part.columns()
    return bool(read) and all(node.has(name) for name in read)


def _filtered(node: Node, conditions: list[BoundExpression] | None) -> Node:
    """The filter over a side. For upserts it is pushed below the step that keeps the last row, which then keeps fewer
    rows."""
    if not conditions:
        return node
    if isinstance(node, Weigh):
        return replace(node, input=_filtered(node.input, conditions))
    return Filter(node, conjunction(conditions))
