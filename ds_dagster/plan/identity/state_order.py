"""The order of the results of Spark's own aggregates in a checkpoint.

Spark keeps the results that the query reads, in the order in which it reads them, so a changed projection would change
the state. Therefore plans hold all results in their own order (``Aggregate.held``). Checkpoints of earlier versions of
this package have Spark's order, which is the plan's order if the query shows each result as it is, in that order.
"""

from __future__ import annotations

from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.reading import plain_name
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.rows import Project, Sink
from ds_dagster.plan.nodes.shaping import ShapeScope, places
from ds_dagster.plan.query import BoundQuery


def has_order_of_plan(query: BoundQuery) -> bool:
    """Whether the results of its aggregates have the plan's order in its checkpoint."""
    return all(node.held for node in _groups(query)) or shows_in_order(query)


def shows_in_order(query: BoundQuery) -> bool:
    """Whether a query shows every result of its aggregate as it is, in the order of the plan, which is Spark's then."""
    groups = _groups(query)
    if not groups:
        return True
    if query.is_application or len(groups) > 1:
        return False
    shown, root = _shown(query.plan, groups[0]), query.parts[0].root
    names = [shown.get(name, "") for name in root.columns]
    calls = [call.name for call in groups[0].calls]
    return [name for name in dict.fromkeys(names) if name in calls] == calls


def shows_otherwise(old: BoundQuery, new: BoundQuery) -> bool:
    """Whether the new definition may have another order of its state than a checkpoint of an earlier version of this
    package."""
    return not has_order_of_plan(old) and [_rows(part.root) for part in old.parts] != [_rows(p.root) for p in new.parts]


def _groups(query: BoundQuery) -> list[Aggregate]:
    return [node for node in query.plan.walk() if isinstance(node, Aggregate)]


def _shown(node: Node, groups: Aggregate) -> dict[str, str]:
    """Field → its result of the groups, empty for computed fields; no fields if a step above does more than project."""
    if node is groups:
        return {field.name: field.name for field in groups.output}
    if isinstance(node, Sink):
        return _shown(node.input, groups)
    if not isinstance(node, Project):
        return {}
    below = _shown(node.input, groups)
    return {named.name: below.get(plain_name(named.expression), "") for named in node.columns}


def _rows(root: Sink) -> Shape:
    return [root.input.whole_shape(ShapeScope(pace=False)), places(root.columns, root.input.output)]
