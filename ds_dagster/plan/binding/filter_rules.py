"""Filters go below joins: fewer rows wait in their state.

A condition on one side's fields alone may stand below the join where every row that comes out holds that side's row
unchanged: both sides of an INNER JOIN, the left of a LEFT JOIN; never the side that an outer join may leave out. It
stays above the scan, where rows tell the clock their time, so time does not change.
"""

from __future__ import annotations

from dataclasses import replace

from ds_dagster.plan.expressions.binder import conjunction, conjuncts
from ds_dagster.plan.nodes.delta import Weigh
from ds_dagster.plan.nodes.join import Join
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.nodes.rows import Filter, Sink


def push_filters(root: Sink) -> Sink:
    """All conditions as far below joins as they may go."""
    return replace(root, input=_push(root.input))


def _push(node: Node) -> Node:
    if isinstance(node, Filter):
        pushed = _pushed(node)
        if pushed is not None:
            return _push(pushed)
    return node.with_inputs(_push)


def _pushed(node: Filter) -> Node | None:
    """The same rows with conditions of the filter, and of filters right below it, inside of the join; None where
    nothing can move."""
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
    """Of upserts the filter stands below the step that keeps the last row: it keeps only rows that hold."""
    if not conditions:
        return node
    if isinstance(node, Weigh):
        return replace(node, input=_filtered(node.input, conditions))
    return Filter(node, conjunction(conditions))
