"""Plan → plan, schema of the root kept: filters of one side go below a temporal join, scans decode only what is
needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ds_dagster.errors import error
from ds_dagster.plan.delta_nodes import DeltaAggregate, DeltaJoin, Fold, Weigh
from ds_dagster.plan.expressions import conjunction, conjuncts
from ds_dagster.plan.nodes import (
    Aggregate,
    AggregateCall,
    Filter,
    IntervalJoin,
    Node,
    Project,
    Scan,
    Sink,
    TemporalJoin,
    Window,
)

Needed = frozenset[str]


def rewrite(root: Sink) -> Sink:
    """Apply all rules in order; the root's output is the same before and after each."""
    for rule in RULES:
        made = rule(root)
        if made.output != root.output:
            raise error("INTERNAL", where=f"rewrite {rule.__name__}: the schema changed")
        root = made
    return root


# filters below temporal joins


def push_filters(root: Sink) -> Sink:
    """Conditions on the stream alone go below a temporal join: fewer rows wait in its state. Both INNER and LEFT keep
    each left row or drop it as a whole, so the order does not matter."""
    return replace(root, input=_push(root.input))


def _push(node: Node) -> Node:
    if isinstance(node, Filter) and isinstance(node.input, TemporalJoin):
        return _pushed(node, node.input)
    if isinstance(node, Filter | Project | Aggregate | Window | Weigh | DeltaAggregate | Fold):
        inner = _push(node.input)
        return node if inner is node.input else replace(node, input=inner)
    return node


def _pushed(node: Filter, join: TemporalJoin) -> Node:
    left = frozenset(field.name for field in join.left.output)
    parts = conjuncts(node.condition)
    below = [part for part in parts if part.columns() and part.columns() <= left]
    above = [part for part in parts if part not in below]
    if not below:
        return node
    made = replace(join, left=Filter(join.left, conjunction(below)))
    return Filter(made, conjunction(above)) if above else made


# pruning


def prune(root: Sink) -> Sink:
    """Scans read only the columns something above needs; sub-selects and aggregates make only what is used."""
    return replace(root, input=_prune(root.input, frozenset(root.columns), top=True))


def _prune(node: Node, needed: Needed, *, top: bool = False) -> Node:
    if top and isinstance(node, Fold):
        return replace(node, input=_prune(node.input, needed, top=True))
    return PRUNERS[type(node)](node, needed) if not (top and isinstance(node, Project)) else _all_columns(node)


def _all_columns(node: Project) -> Node:
    used = frozenset().union(*(named.expression.columns() for named in node.columns))
    return replace(node, input=_prune(node.input, used | frozenset(node.input.key)))


def _prune_project(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Project)
    kept = tuple(named for named in node.columns if named.name in needed or named.name in node.key_names)
    return _all_columns(replace(node, columns=kept or node.columns[:1]))


def _prune_filter(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Filter)
    return replace(node, input=_prune(node.input, needed | node.condition.columns()))


def _prune_window(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Window)
    kept = frozenset(field for _, field in node.late.fields) if node.late is not None else frozenset()
    return replace(node, input=_prune(node.input, needed | kept))


def _kept_calls(node: Aggregate | DeltaAggregate, needed: Needed) -> tuple[tuple[AggregateCall, ...], Needed]:
    """The calls somebody needs, at least one, and the fields that groups and calls read."""
    calls = tuple(call for call in node.calls if call.name in needed) or node.calls[:1]
    parts = [named.expression for named in node.group]
    parts += [part for call in calls for part in (call.argument, call.filter) if part is not None]
    return calls, frozenset().union(*(part.columns() for part in parts))


def _prune_aggregate(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Aggregate)
    calls, used = _kept_calls(node, needed)
    below = _prune(node.input, used)
    window = next((n for n in below.walk() if isinstance(n, Window)), None) if node.window is not None else None
    return replace(node, input=below, calls=calls, window=window)


def _prune_delta_aggregate(node: Node, needed: Needed) -> Node:
    assert isinstance(node, DeltaAggregate)
    calls, used = _kept_calls(node, needed)
    return replace(node, input=_prune(node.input, used), calls=calls)


def _prune_delta_join(node: Node, needed: Needed) -> Node:
    assert isinstance(node, DeltaJoin)
    left = _prune(node.left, needed.union(*(key.columns() for key in node.left_keys), node.left.key))
    right = _prune(node.right, needed.union(*(key.columns() for key in node.right_keys), node.right.key))
    return replace(node, left=left, right=right)


def _prune_weigh(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Weigh)
    return replace(node, input=_prune(node.input, needed | frozenset(node.input.key)))


def _prune_fold(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Fold)
    return replace(node, input=_prune(node.input, needed | frozenset(node.key_names)))


def _prune_join(node: Node, needed: Needed) -> Node:
    assert isinstance(node, IntervalJoin | TemporalJoin)
    left = _prune(node.left, needed | node.left_key.columns())
    right = _prune(node.right, needed | node.right_key.columns())
    return replace(node, left=left, right=right)


def _prune_scan(node: Node, needed: Needed) -> Node:
    """Besides what is needed: key, NOT NULL and event-time columns (a record without them is a bad one), and never
    nothing."""
    assert isinstance(node, Scan)
    relation = node.relation
    always = {*relation.primary_key, *(column.name for column in relation.columns if not column.nullable)}
    kept = tuple(
        column.name
        for column in relation.columns
        if column.name in always or (name := node.field_name(column.name)) in needed or name == node.time.column
    )
    kept = kept or (relation.columns[0].name,)
    columns = None if len(kept) == len(relation.columns) else kept
    beside = tuple(field for field in node.record_fields if field.name in needed)
    return replace(node, columns=columns, rowtime=node.rowtime_field in needed, record_fields=beside)


Pruner = Callable[[Node, Needed], Node]
PRUNERS: dict[type[Node], Pruner] = {
    Scan: _prune_scan,
    Filter: _prune_filter,
    Project: _prune_project,
    Window: _prune_window,
    Aggregate: _prune_aggregate,
    IntervalJoin: _prune_join,
    TemporalJoin: _prune_join,
    Weigh: _prune_weigh,
    DeltaAggregate: _prune_delta_aggregate,
    DeltaJoin: _prune_delta_join,
    Fold: _prune_fold,
}
RULES: tuple[Callable[[Sink], Sink], ...] = (push_filters, prune)
