"""Stream ⋈ table of an SQL store, or ⋈ view: checks of the table, and the join."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ds_dagster.catalog.declaring.declared import KIND_WORDS
from ds_dagster.catalog.properties.spec import property_index
from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import is_primitive
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.binding.scope import Scope, Source, visible
from ds_dagster.plan.binding.sources import Planned, SourceBinder
from ds_dagster.plan.joins.conditions import bind_on, condition_of
from ds_dagster.plan.nodes.join import JoinKind
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rows import Filter
from ds_dagster.plan.nodes.static import StaticJoin, StaticScan
from ds_dagster.sql.expressions import RelationRef
from ds_dagster.sql.lowering import span_of
from ds_dagster.sql.statements import Property

CACHE = "lookup.cache.millis"


def bind_joined(sources: SourceBinder, node: exp.Expression) -> Planned:
    """A source of JOIN: a table or view is looked up, everything else is read.

    Raises:
        UserError: LOOKUP_PROPERTY, and those of other sources. NotYetError: LOOKUP_NESTED, LOOKUP_NOT_YET.
    """
    if isinstance(node, RelationRef) and sources.virtual(node) is None:
        relation = sources.relation(node)
        if relation.kind in ("table", "materialized_view"):
            return _table(sources, node, relation)
    return sources.bind(node)


def _table(sources: SourceBinder, node: RelationRef, relation: Relation) -> Planned:
    span = span_of(node, sources.span)
    _check_table(sources, relation, span)
    cache = _cache_millis(sources, node.args.get("properties") or (), relation)
    internal = sources.naming.alias(node.alias)
    scan = StaticScan(relation, internal, sources.naming.source_name(relation.name), cache)
    columns = visible((c.name, f) for c, f in zip(relation.columns, scan.output, strict=True))
    return Planned(scan, Source(node.alias, relation.name.name, columns), relation)


def _check_table(sources: SourceBinder, relation: Relation, span: Span) -> None:
    kind = sources.world.kinds[sources.world.catalog.store(relation.store).kind]
    if not kind.capabilities.table_reader:
        raise error("LOOKUP_NOT_YET", span=span, relation=relation.name.name, type=kind.name)
    nested = next((c for c in relation.columns if not is_primitive(c.type)), None)
    if nested is not None:
        raise error("LOOKUP_NESTED", span=span, relation=relation.name.name, column=nested.name, type=nested.type)


def _cache_millis(sources: SourceBinder, properties: Sequence[Property], relation: Relation) -> int:
    for item in properties:
        if item.name != CACHE:
            raise error("LOOKUP_PROPERTY", span=item.span, name=item.name, relation=relation.name.name)
    pulled = property_index(sources.world.kinds).pull(properties, "source")
    sources.findings.extend(pulled.diagnostics)
    setting = pulled.values.get(CACHE)
    kind = sources.world.kinds[sources.world.catalog.store(relation.store).kind]
    return int(setting.value) if setting is not None else kind.capabilities.lookup_millis


def bind_static_join(scope: Scope, left: Node, right: Planned, scan: StaticScan, join: exp.Expression) -> Node:
    """Join ``left``, the sources bound so far, with a table; adds the table to the scope. ON has at least one equality;
    other conditions of an INNER JOIN become a filter above it. ``scan``: the rows of ``right``.

    Raises:
        UserError: LOOKUP_JOIN, JOIN_CONDITION, JOIN_KEY_…. NotYetError: JOIN_KINDS, LOOKUP_RESIDUAL.
    """
    kind = _kind(scope, left, right, join)
    left_fields = frozenset(field.name for field in left.output)
    scope.add(right.source, join.this)
    on = bind_on(scope, join, left_fields, right)
    if on.others and kind == "left":
        raise error("LOOKUP_RESIDUAL", span=scope.place(on.others[0]), right=right.source.shown)
    node: Node = StaticJoin(left, scan, kind, tuple(k.left for k in on.keys), tuple(k.right for k in on.keys))
    condition = condition_of(scope, on.others)
    node = node if condition is None else Filter(node, condition)
    if kind == "left":
        scope.sources[-1] = right.source.nullable()
    return node


def _kind(scope: Scope, left: Node, right: Planned, join: exp.Expression) -> JoinKind:
    span, names = scope.place(join), (scope.sources[-1].shown, right.source.shown)
    if left.changelog != "append":
        instead = f"join {names[1]} to the stream that {names[0]} is made of; a changelog joins changelogs only"
        table = KIND_WORDS[right.relation.kind]
        raise error(
            "JOIN_KINDS",
            span=span,
            left_kind="changelog",
            left=names[0],
            right_kind=table,
            right=names[1],
            instead=instead,
        )
    side = str(join.args.get("side") or "").upper()
    for what, is_there in (("WITHIN", join.args.get("within") is not None), (f"{side} JOIN", side not in ("", "LEFT"))):
        if is_there:
            raise error("LOOKUP_JOIN", span=span, what=what, left=names[0], right=names[1])
    return "left" if side == "LEFT" else "inner"
