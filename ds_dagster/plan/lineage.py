"""Column lineage: which source columns a sink column is computed from. Filters and join keys are not in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.delta import DeltaAggregate
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.rows import Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.static import StaticJoin
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.window import Window
from ds_dagster.plan.query import ColumnSource

Sources = Mapping[str, tuple[ColumnSource, ...]]


def column_lineage(root: Sink) -> Sources:
    """Sink column → (relation, column) pairs, in reading order, each once."""
    fields = _lineage(root.input)
    pairs = zip(root.relation.columns, root.columns, strict=True)
    return MappingProxyType({column.name: fields[name] for column, name in pairs})


def _lineage(node: Node) -> Sources:
    if isinstance(node, Scan):
        name = node.relation.name
        found: dict[str, tuple[ColumnSource, ...]] = {
            node.field_name(c.name): ((name, c.name),) for c in node.read_columns
        }
        return {**found, node.rowtime_field: (), **{field.name: () for field in node.record_fields}}
    if isinstance(node, Union):
        branches = [_lineage(branch) for branch in node.branches]
        return {
            f.name: tuple(dict.fromkeys(source for branch in branches for source in branch[f.name]))
            for f in node.output
        }
    below: dict[str, tuple[ColumnSource, ...]] = {}
    for child in node.inputs:
        below |= _lineage(child)
    if isinstance(node, StaticJoin):
        name, scan = node.right.relation.name, node.right
        below |= {scan.field_name(c.name): ((name, c.name),) for c in scan.read_columns}
    if isinstance(node, Project):
        return {named.name: _merged(below, [named.expression]) for named in node.columns}
    if isinstance(node, Aggregate | DeltaAggregate):
        groups = {named.name: _merged(below, [named.expression]) for named in node.group}
        return groups | {
            c.name: _merged(below, [e for e in (c.argument, c.filter) if e is not None]) for c in node.calls
        }
    if isinstance(node, Match):
        found = below | {v.name: _merged(below, [v.argument] if v.argument is not None else []) for v in node.values}
        return {named.name: _merged(found, [named.expression]) for named in (*node.partition, *node.measures)}
    if isinstance(node, Over):
        return below | {
            c.name: _merged(below, [e for e in (c.argument, c.filter) if e is not None]) for c in node.calls
        }
    if isinstance(node, Unnest):
        return below | dict.fromkeys((field.name for field in node.own), _merged(below, [node.value]))
    if isinstance(node, TopN):
        return {**below, node.rank: _merged(below, [*node.partition, *(term.expression for term in node.order)])}
    if isinstance(node, Window):
        return {**below, node.start: (), node.end: ()}
    return below


def _merged(below: Sources, expressions: Iterable[BoundExpression]) -> tuple[ColumnSource, ...]:
    found: dict[ColumnSource, None] = {}
    for expression in expressions:
        for name in sorted(expression.columns()):
            found.update(dict.fromkeys(below[name]))
    return tuple(found)
