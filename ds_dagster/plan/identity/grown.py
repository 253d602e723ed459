"""A state that gets more results of an aggregate than its checkpoint holds. Each group gets the added results as they
are before the first row, so in groups that exist they count only the rows since the change.

Only Spark's own aggregates are changed like this: their state is one row per group, with all results in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ds_dagster.catalog.properties.latency import realtime_millis
from ds_dagster.plan.expressions.printing import identity_text
from ds_dagster.plan.identity.fingerprint import state_signature
from ds_dagster.plan.identity.held import SCOPE, Groups, only_groups, over_state_of, paired, replaced
from ds_dagster.plan.identity.state_order import has_order_of_plan
from ds_dagster.plan.nodes.aggregate import Aggregate, AggregateCall, is_by_pane
from ds_dagster.plan.nodes.node import Named, Names, Node
from ds_dagster.plan.nodes.reading import columns_read
from ds_dagster.plan.nodes.relation_shapes import StoreKinds
from ds_dagster.plan.nodes.rows import Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.window import Window
from ds_dagster.plan.query import BoundQuery

ADDED = "added_{}"
"""Internal name of an added result whose own name another result has; with its number among the calls."""


def grown_state(old: BoundQuery, new: BoundQuery, store_kinds: StoreKinds) -> BoundQuery | None:
    """The old definition with the results of the new one that its state has no place for, after its own results.

    Args:
        old: the definition whose state the checkpoint holds.
        new: the new definition, with the source names of the checkpoint.
        store_kinds: folded store name → kind.

    Returns:
        None if no result is added, or if the state cannot be kept.
    """
    before, after = only_groups(old), only_groups(new)
    if not isinstance(before, Aggregate) or not isinstance(after, Aggregate) or not _may_grow(old, new):
        return None
    added = tuple(_added(before, after))
    rows = _merged(before.input, after.input)
    if not added or rows is None or _may_violate(new.root, after, added):
        return None
    calls = tuple(_named_apart(before.calls, added))
    groups = replace(before.with_inputs(lambda _: rows), calls=(*before.calls, *calls), held=True)
    if not _holds(groups, before) or is_by_pane(groups) != is_by_pane(before):
        return None
    part = old.parts[0]
    root = part.root.with_inputs(lambda below: replaced(below, before, groups))
    signature = state_signature(root, store_kinds=store_kinds)
    part = replace(part, root=root, state_signature=signature, earlier_signatures=())
    grown = replace(old, parts=(part,), state_signature=signature, earlier_signatures=())
    return grown if over_state_of(grown, new) is not None else None


def added_results(old: BoundQuery, new: BoundQuery) -> tuple[str, ...]:
    """The results of the new definition that the old one's state has no place for, as they are written."""
    before, after = only_groups(old), only_groups(new)
    if before is None or after is None:
        return ()
    return tuple(dict.fromkeys(call.as_written() for call in _added(before, after)))


def _may_grow(old: BoundQuery, new: BoundQuery) -> bool:
    """Whether both queries run all the time, in batches, without sessions, and the order of the results in the state is
    known. The state of sessions has another form."""
    has_sessions = any(isinstance(node, Window) and node.function == "SESSION" for node in old.plan.walk())
    is_usual = not any(query.is_finite or realtime_millis(query.sink) is not None for query in (old, new))
    return is_usual and not has_sessions and has_order_of_plan(old)


def _added(before: Groups, after: Groups) -> Iterator[AggregateCall]:
    """Calls of the new groups without a partner in the old ones."""
    return (call for call, held in paired(before, after) if held is None)


def _holds(groups: Aggregate, before: Aggregate) -> bool:
    """Whether the groups without the added results have the state of the old ones."""
    alone = groups.pruned(frozenset(call.name for call in before.calls))
    return replace(alone, held=before.held).state_shape(SCOPE) == before.state_shape(SCOPE)


def _may_violate(root: Sink, groups: Aggregate, added: Sequence[AggregateCall]) -> bool:
    """Whether a column that is declared NOT NULL shows an added result, which may be NULL although that of all rows is
    not."""
    fields = {field.name: field for field in root.input.output}
    pairs = zip(root.relation.columns, root.columns, strict=False)
    names = frozenset(name for column, name in pairs if not column.nullable and fields[name].nullable)
    return not _read_of(root.input, names, groups).isdisjoint(call.name for call in added)


def _read_of(node: Node, names: Names, groups: Aggregate) -> Names:
    """The results of the groups that fields of a step above are computed from."""
    if node is groups:
        return names
    if isinstance(node, Project):
        names = columns_read(named.expression for named in node.columns if named.name in names)
    return frozenset().union(*(_read_of(below, names, groups) for below in node.inputs))


def _named_apart(held: Sequence[AggregateCall], added: Sequence[AggregateCall]) -> Iterator[AggregateCall]:
    names = {call.name for call in held}
    for index, call in enumerate(added, len(held)):
        yield replace(call, name=ADDED.format(index)) if call.name in names else call


def _merged(old: Node, new: Node) -> Node | None:
    """Rows with the columns that either definition reads, in the way of the new one; None if they differ elsewhere."""
    if type(old) is not type(new) or len(old.inputs) != len(new.inputs):
        return None
    if isinstance(old, Scan) and isinstance(new, Scan):
        return _both_columns(old, new)
    below = [_merged(left, right) for left, right in zip(old.inputs, new.inputs, strict=True)]
    wide = [node for node in below if node is not None]
    if len(wide) < len(below):
        return None
    left, right = (_over(node, wide) for node in (old, new))
    if isinstance(left, Project) and isinstance(right, Project):
        columns = _both_named(left.columns, right.columns)
        return None if columns is None else replace(right, columns=columns)
    is_same = left.whole_shape(SCOPE) == right.whole_shape(SCOPE) and left.output == right.output
    return right if is_same else None


def _over(node: Node, wide: Sequence[Node]) -> Node:
    places = {id(below): above for below, above in zip(node.inputs, wide, strict=True)}
    return node.with_inputs(lambda below: places[id(below)])


def _both_columns(old: Scan, new: Scan) -> Scan | None:
    if (old.source_name, old.alias, old.changelog) != (new.source_name, new.alias, new.changelog):
        return None
    names = {column.name for scan in (old, new) for column in scan.read_columns}
    columns = tuple(column.name for column in new.relation.columns if column.name in names)
    if len(columns) < len(names):
        return None
    return replace(
        new,
        columns=None if len(columns) == len(new.relation.columns) else columns,
        rowtime=old.rowtime or new.rowtime,
        record_fields=tuple(dict.fromkeys((*new.record_fields, *old.record_fields))),
    )


def _both_named(old: Sequence[Named], new: Sequence[Named]) -> tuple[Named, ...] | None:
    """The columns of both projections, in the order of the new one; None if a name has two meanings."""
    columns = {named.name: named for named in new}
    for named in old:
        if _text(columns.setdefault(named.name, named)) != _text(named):
            return None
    return tuple(columns.values())


def _text(named: Named) -> tuple[str, str]:
    return identity_text(named.expression.tree), str(named.expression.type)
