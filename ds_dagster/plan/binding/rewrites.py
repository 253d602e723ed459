"""Plan → plan, schema of the root kept: filters of one side go below joins, scans decode only what is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ds_dagster.errors import error
from ds_dagster.plan.binding.filter_rules import push_filters
from ds_dagster.plan.nodes.aggregate import Aggregate, AggregateCall
from ds_dagster.plan.nodes.application import Virtual
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin, Distinct, Fold, Unweigh, Weigh
from ds_dagster.plan.nodes.join import IntervalJoin, TemporalJoin
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.rows import Filter, Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.static import StaticJoin
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.window import Window, Windowed
from ds_dagster.plan.nodes.window_join import WindowJoin

Needed = frozenset[str]


def rewrite(root: Sink) -> Sink:
    """Apply all rules in order; the root's output is the same before and after each."""
    for rule in RULES:
        made = rule(root)
        if made.output != root.output:
            raise error("INTERNAL", where=f"rewrite {rule.__name__}: the schema changed")
        root = made
    return root


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
    parts += [part for call in calls for part in call.parts]
    return calls, frozenset().union(*(part.columns() for part in parts))


def _prune_aggregate(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Aggregate)
    calls, used = _kept_calls(node, needed)
    return replace(node.with_inputs(lambda below: _prune(below, used)), calls=calls)


def _prune_delta_aggregate(node: Node, needed: Needed) -> Node:
    assert isinstance(node, DeltaAggregate)
    calls, used = _kept_calls(node, needed)
    return replace(node, input=_prune(node.input, used), calls=calls)


def _prune_weigh(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Weigh)
    return replace(node, input=_prune(node.input, needed | frozenset(node.input.key)))


def _prune_fold(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Fold)
    return replace(node, input=_prune(node.input, needed | frozenset(node.key_names)))


def _prune_union(node: Node, needed: Needed) -> Node:
    """All branches keep the same fields: they are projections with the same names."""
    assert isinstance(node, Union)
    kept = needed | frozenset(node.key_names)
    return replace(node, branches=tuple(_prune(branch, kept) for branch in node.branches))


def _prune_distinct(node: Node, _needed: Needed) -> Node:
    """Every field tells rows apart."""
    assert isinstance(node, Distinct)
    return replace(node, input=_prune(node.input, frozenset(field.name for field in node.output)))


def _prune_unweigh(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Unweigh)
    return replace(node, input=_prune(node.input, needed))


def _prune_over(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Over)
    calls = tuple(call for call in node.calls if call.name in needed) or node.calls[:1]
    parts = [part for call in calls for part in (call.argument, call.filter) if part is not None]
    used = [expression.columns() for expression in (*node.partition, *parts)]
    own = {call.name for call in node.calls}
    return replace(node, input=_prune(node.input, (needed - own).union(*used)), calls=calls)


def _prune_unnest(node: Node, needed: Needed) -> Node:
    """All parts of an element stay: what is not needed costs nothing."""
    assert isinstance(node, Unnest)
    below = (needed - {field.name for field in node.own}) | node.value.columns() | frozenset(node.input.key)
    return replace(node, input=_prune(node.input, below))


def _prune_top_n(node: Node, needed: Needed) -> Node:
    """The rank where somebody needs it: without, a row that only moves is no change."""
    assert isinstance(node, TopN)
    kept = needed | frozenset(node.key_names)
    used = [expression.columns() for expression in (*node.partition, *(term.expression for term in node.order))]
    below = (kept - {node.rank}).union(*used)
    return replace(node, input=_prune(node.input, below), ranked=node.rank in kept)


def _prune_join(node: Node, needed: Needed) -> Node:
    assert isinstance(node, IntervalJoin | TemporalJoin | DeltaJoin | WindowJoin)
    if isinstance(node, WindowJoin):
        needed |= {node.left_end, node.right_end}
    elif node.residual is not None:
        needed |= node.residual.columns()
    sides = []
    for side, keys in ((node.left, node.left_keys), (node.right, node.right_keys)):
        sides.append(_prune(side, needed.union(*(key.columns() for key in keys), side.key)))
    return replace(node, left=sides[0], right=sides[1])


def _prune_windowed(node: Node, needed: Needed) -> Node:
    assert isinstance(node, Windowed)
    return replace(node, input=_prune(node.input, needed | {node.start, node.end}))


def _prune_match(node: Node, _needed: Needed) -> Node:
    """All its measures stay: what a match keeps of its rows is part of its state."""
    assert isinstance(node, Match)
    return replace(node, input=_prune(node.input, node.read_columns()))


def _prune_static_join(node: Node, needed: Needed) -> Node:
    assert isinstance(node, StaticJoin)
    left = _prune(node.left, needed.union(*(key.columns() for key in node.left_keys)))
    wanted = needed.union(*(key.columns() for key in node.right_keys))
    scan = node.right
    kept = tuple(column.name for column in scan.relation.columns if scan.field_name(column.name) in wanted)
    columns = None if len(kept) == len(scan.relation.columns) else kept
    return replace(node, left=left, right=replace(scan, columns=columns))


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


def _prune_virtual(node: Node, _needed: Needed) -> Node:
    """The same for every reader, so that its rows can be made once."""
    assert isinstance(node, Virtual)
    return replace(node, input=_prune(node.input, frozenset(field.name for field in node.output)))


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
    DeltaJoin: _prune_join,
    Fold: _prune_fold,
    Union: _prune_union,
    Distinct: _prune_distinct,
    Match: _prune_match,
    Windowed: _prune_windowed,
    WindowJoin: _prune_join,
    Virtual: _prune_virtual,
    TopN: _prune_top_n,
    Unweigh: _prune_unweigh,
    Over: _prune_over,
    Unnest: _prune_unnest,
    StaticJoin: _prune_static_join,
}
RULES: tuple[Callable[[Sink], Sink], ...] = (push_filters, prune)
