"""A query that shows other results of an aggregate than its checkpoint holds. The state stays as it is: results that
are no longer shown are still computed, and the order in the state is not the order of the columns.

An aggregate that the state has no place for needs a new checkpoint, or a permission: for old groups it counts only rows
after the change, see :mod:`ds_dagster.plan.identity.grown`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ds_dagster.plan.identity.fingerprint import StateParts, state_parts
from ds_dagster.plan.identity.state_order import has_order_of_plan
from ds_dagster.plan.nodes.aggregate import Aggregate, AggregateCall, is_by_pane
from ds_dagster.plan.nodes.delta import DeltaAggregate
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.shaping import Shaper, ShapeScope
from ds_dagster.plan.query import BoundQuery
from ds_dagster.plan.state_store import cannot_move

Groups: TypeAlias = Aggregate | DeltaAggregate
HIDDEN = "held_{}"
"""Internal name of a result that is computed only for the state; with its number among the calls."""
SCOPE = ShapeScope(pace=False)


def over_state_of(old: BoundQuery, new: BoundQuery) -> BoundQuery | None:
    """The new definition over the groups of the old definition's checkpoint.

    Args:
        old: the definition whose state the checkpoint holds.
        new: the new definition, with the source names of the checkpoint.

    Returns:
        None if the checkpoint does not hold all results of the new definition, or the plans differ elsewhere.
    """
    before, after = only_groups(old), only_groups(new)
    if cannot_move(old, new):
        return None
    if before is None or after is None or type(before) is not type(after) or not has_order_of_plan(old):
        return None
    scans = {scan.source_name: scan for scan in new.scans}
    if not all(_is_read(node, scans.get(node.source_name)) for node in before.walk() if isinstance(node, Scan)):
        return None
    rows = before.with_inputs(lambda node: _paced(node, scans))
    pairs = _pairs(rows, after)
    if pairs is None or not _is_same_but_order(rows, after, pairs) or _others(old, before) != _others(new, after):
        return None
    node = _shown_as(rows, after, pairs)
    if node.state_shape(SCOPE) != before.state_shape(SCOPE) or is_by_pane(node) != is_by_pane(before):
        return None
    part = new.parts[0]
    root = part.root.with_inputs(lambda below: replaced(below, after, node))
    bound = replace(part, root=root, state_signature=old.state_signature, earlier_signatures=())
    return replace(new, parts=(bound,), state_signature=old.state_signature, earlier_signatures=())


def hides_results(query: BoundQuery) -> bool:
    """Whether the query computes results only for the state."""
    groups = only_groups(query)
    return groups is not None and any(call.name == HIDDEN.format(i) for i, call in enumerate(groups.calls))


def adds_results(old: BoundQuery, new: BoundQuery) -> bool:
    """Whether the new definition has all results of the old groups, and more results of the same groups."""
    before, after = only_groups(old), only_groups(new)
    if before is None or after is None or len(before.group) != len(after.group):
        return False
    left = [call.as_written() for call in after.calls]
    for call in before.calls:
        if call.as_written() not in left:
            return False
        left.remove(call.as_written())
    return bool(left)


def only_groups(query: BoundQuery) -> Groups | None:
    """The aggregate of a query without another stateful step, else None."""
    stateful = [node for node in query.plan.walk() if node.is_stateful]
    if query.is_application or len(stateful) != 1 or not isinstance(stateful[0], Aggregate | DeltaAggregate):
        return None
    return stateful[0]


def _paced(node: Node, scans: Mapping[str, Scan]) -> Node:
    """Rows of the old definition, with the scans' settings of the new one."""
    if not isinstance(node, Scan):
        return node.with_inputs(lambda below: _paced(below, scans))
    scan = _over_columns(scans[node.source_name], node)
    return scan if scan.alias == node.alias else replace(node, relation=scan.relation, columns=scan.columns)


def _is_read(node: Scan, scan: Scan | None) -> bool:
    """Whether the new definition has all columns that the old one reads of a source and, if its alias is another one,
    reads them in the same way."""
    if scan is None or any(scan.relation.column(column.name) is None for column in node.read_columns):
        return False
    shapes = (read.shape(Shaper((), ShapeScope())) for read in (node, _over_columns(scan, node)))
    return scan.alias == node.alias or next(shapes) == next(shapes)


def _over_columns(scan: Scan, node: Scan) -> Scan:
    """A scan of the columns that another one reads."""
    names = tuple(column.name for column in node.read_columns)
    columns = None if set(names) == {column.name for column in scan.relation.columns} else names
    return replace(scan, columns=columns, rowtime=node.rowtime, record_fields=node.record_fields)


def _pairs(rows: Groups, after: Groups) -> Mapping[str, AggregateCall] | None:
    """Name of a result of the new definition → its call in the state; None if one is missing."""
    pairs: dict[str, AggregateCall] = {}
    for call, held in paired(rows, after):
        if held is None:
            return None
        pairs[call.name] = held
    return pairs


def paired(rows: Groups, after: Groups) -> Iterator[tuple[AggregateCall, AggregateCall | None]]:
    """Each call of the new groups with its call in the old ones, None if they have none. Equal calls are paired in
    their order."""
    left = list(rows.calls)
    for call in after.calls:
        match = next((held for held in left if held.as_written() == call.as_written() and _is_like(held, call)), None)
        if match is not None:
            left.remove(match)
        yield call, match


def _is_like(held: AggregateCall, call: AggregateCall) -> bool:
    """Whether two calls may be the same; their conditions and orders are compared later, with the shapes."""
    same = (held.function, held.distinct, held.type) == (call.function, call.distinct, call.type)
    return same and (held.filter is None, held.order is None) == (call.filter is None, call.order is None)


def _is_same_but_order(rows: Groups, after: Groups, pairs: Mapping[str, AggregateCall]) -> bool:
    """Whether the new definition's state would be that of the old groups with only its calls, in its order."""
    alone = rows.pruned(frozenset(call.name for call in pairs.values()))
    wanted = replace(alone, calls=tuple(pairs[call.name] for call in after.calls))
    return wanted.state_shape(SCOPE) == after.state_shape(SCOPE)


def _shown_as(rows: Groups, after: Groups, pairs: Mapping[str, AggregateCall]) -> Groups:
    """The groups of the state with the names of the new definition."""
    names = {call.name: name for name, call in pairs.items()}
    calls = tuple(
        replace(call, name=names.get(call.name, HIDDEN.format(index))) for index, call in enumerate(rows.calls)
    )
    group = tuple(replace(named, name=other.name) for named, other in zip(rows.group, after.group, strict=True))
    if isinstance(rows, Aggregate):
        return replace(rows, group=group, calls=calls, held=True)
    return replace(rows, group=group, calls=calls)


def replaced(node: Node, old: Node, new: Node) -> Node:
    """The plan with a node replaced, and nothing else changed."""
    return new if node is old else node.with_inputs(lambda below: replaced(below, old, new))


def _others(query: BoundQuery, groups: Groups) -> StateParts:
    """The content of the checkpoint without the groups."""
    parts = state_parts(query.parts[0].root, SCOPE)
    return replace(parts, steps=[shape for shape in parts.steps if shape != groups.state_shape(SCOPE)])
