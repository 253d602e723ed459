"""One SELECT → plan: sources and joins, WHERE, GROUP BY, HAVING, the SELECT list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from ds_dagster.catalog.inference import QueryChoices
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.plan.check_joins import check_weights
from ds_dagster.plan.delta_nodes import DeltaAggregate
from ds_dagster.plan.expressions import ExpressionBinder, column
from ds_dagster.plan.grouping import Grouping, is_grouped, key_names, window_of
from ds_dagster.plan.joins import bind_join
from ds_dagster.plan.nodes import Aggregate, BoundExpression, Filter, Named, Node, Project
from ds_dagster.plan.scope import Scope, Visible
from ds_dagster.plan.sources import Naming, Planned, SourceBinder, World
from ds_dagster.plan.static_joins import bind_joined, bind_static_join
from ds_dagster.plan.static_nodes import StaticScan
from ds_dagster.plan.weights import weighted
from ds_dagster.sql.expressions import FieldAccess
from ds_dagster.sql.statements import Context


class RefusedSelectError(Exception):
    """The findings say why; never leaves this package."""


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One output column: visible name, expression over the source's plan, place."""

    name: str
    expression: BoundExpression
    span: Span


@dataclass(frozen=True, slots=True)
class Selected:
    """A bound SELECT before its projection. ``relation``: the left-most one."""

    node: Node
    items: tuple[SelectItem, ...]
    relation: Relation
    key: tuple[str, ...]


class SelectBinder:
    """Binds one query with all its sub-selects.

    Args:
        world: catalog, settings, store kinds.
        context: what USE had set.
        span: where the query begins.
        choices: QUERY WITH.
        findings: collects mistakes; one per part of the SELECT, so that several are reported at once.
    """

    def __init__(self, world: World, context: Context, span: Span, choices: QueryChoices, findings: Findings) -> None:
        self.world = world
        self.context = context
        self.span = span
        self.choices = choices
        self.findings = findings
        self.naming = Naming()

    def bind(self, tree: exp.Select, *, inner: bool = False) -> Selected:
        """Bind a SELECT. ``inner``: in FROM, where it needs no key: rows without one come and go by weights.

        Raises:
            RefusedSelectError: mistakes are in the findings.
        """
        scope = Scope(self.span)
        first, node = self._from(tree, scope)
        node = self._where(tree, scope, node)
        if is_grouped(tree):
            return self._grouped(tree, scope, first, node, inner)
        if first.window is not None and first.window.function == "SESSION":
            self.findings.add(error("SESSION_BOUNDS", span=scope.place(tree), where="without GROUP BY"))
            raise RefusedSelectError
        binder = ExpressionBinder(scope, "the SELECT list")
        items = tuple(self._items(tree, scope, binder, None))
        self._done()
        return self._selected(node, items, first, inner)

    def _selected(self, node: Node, items: tuple[SelectItem, ...], first: Planned, inner: bool) -> Selected:
        found, lost = key_names(node, [Named(item.name, item.expression) for item in items])
        if lost and inner:
            span = self.span
            self.findings.collect(lambda: check_weights(node, span))
            self._done()
            return Selected(weighted(node), items, first.relation, ())
        for field in lost:
            self.findings.add(self._lost(field, node, first))
        if not inner and node.changelog == "weighted" and not node.key:
            self.findings.add(error("RESULT_WITHOUT_KEY", span=self.span))
        self._done()
        return Selected(node, items, first.relation, tuple(found[field] for field in node.key))

    def _done(self) -> None:
        if self.findings.failed:
            raise RefusedSelectError

    def _from(self, tree: exp.Select, scope: Scope) -> tuple[Planned, Node]:
        sources = SourceBinder(self.world, self.context, self.span, self.naming, self.findings, self.sub_select)
        try:
            first = sources.bind(tree.args["from_"].this)
            scope.add(first.source, tree.args["from_"].this)
            node = first.node
            for join in tree.args.get("joins") or ():
                joined = bind_joined(sources, join.this)
                is_table = isinstance(joined.node, StaticScan)
                node = (
                    bind_static_join(scope, node, joined, join)
                    if is_table
                    else bind_join(scope, node, joined, join, self.choices)
                )
        except DsError as problem:
            self.findings.add(problem)
            raise RefusedSelectError from problem
        return first, node

    def sub_select(self, tree: exp.Select, alias: str) -> tuple[Project, Relation]:
        """A SELECT in FROM: its projection makes fields ``alias$column``."""
        selected = self.bind(tree, inner=True)
        seen: set[str] = set()
        for item in selected.items:
            if item.name in seen:
                raise error("DUPLICATE_COLUMN", span=item.span, name=item.name, relation=f"the sub-select {alias}")
            seen.add(item.name)
        return project(selected, prefix=f"{alias}$"), selected.relation

    def _where(self, tree: exp.Select, scope: Scope, node: Node) -> Node:
        where = tree.args.get("where")
        if where is None:
            return node
        condition = self.findings.collect(lambda: ExpressionBinder(scope, "WHERE").condition(where.this))
        return node if condition is None else Filter(node, condition)

    def _grouped(self, tree: exp.Select, scope: Scope, first: Planned, node: Node, inner: bool) -> Selected:
        grouping = Grouping(scope, tree, first, node)
        try:
            grouping.bind()
        except DsError as problem:
            self.findings.add(problem)
            raise RefusedSelectError from problem
        binder = ExpressionBinder(scope, "the SELECT list", grouping.aggregates)
        items = tuple(self._items(tree, scope, binder, grouping))
        having = tree.args.get("having")
        condition = None
        if having is not None:
            span = scope.place(having.this)
            in_having = ExpressionBinder(scope, "HAVING", grouping.aggregates)
            condition = self.findings.collect(lambda: grouping.over(in_having.condition(having.this), span))
        self.findings.collect(lambda: grouping.check_session(self.choices.updates))
        self._done()
        made: Node = grouping.node(updates=self.choices.updates)
        if condition is not None:
            made = Filter(made, condition)
        return self._selected(made, items, first, inner)

    # the SELECT list

    def _items(
        self, tree: exp.Select, scope: Scope, binder: ExpressionBinder, grouping: Grouping | None
    ) -> Iterator[SelectItem]:
        for item in tree.expressions:
            star = self._star(item)
            if star is not None:
                made = self.findings.collect(lambda star=star: list(self._expanded(star, scope, grouping)))  # type: ignore[misc]
                yield from made or ()
                continue
            single = self.findings.collect(lambda item=item: self._item(item, scope, binder, grouping))  # type: ignore[misc]
            if single is not None:
                yield single

    def _star(self, item: exp.Expression) -> exp.Expression | None:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            return item
        return None

    def _expanded(self, star: exp.Expression, scope: Scope, grouping: Grouping | None) -> Iterator[SelectItem]:
        place = scope.place(star)
        if grouping is not None:
            raise error("STAR_WITH_GROUP", span=place)
        columns: Iterator[Visible] = scope.all_columns()
        if isinstance(star, exp.Column):
            columns = iter(scope.source(star.table, star).columns.values())
        for found in columns:
            yield SelectItem(found.name, BoundExpression(column(found.field), found.type, found.nullable), place)

    def _item(
        self, item: exp.Expression, scope: Scope, binder: ExpressionBinder, grouping: Grouping | None
    ) -> SelectItem:
        inner = item.this if isinstance(item, exp.Alias) else item
        bound = binder.expression(inner)
        if grouping is not None:
            bound = grouping.over(bound, scope.place(item))
        named = (
            item.args["alias"] if isinstance(item, exp.Alias) else item.this if isinstance(item, exp.Column) else item
        )
        return SelectItem(self._name(item, binder), bound, scope.place(named))

    def _name(self, item: exp.Expression, binder: ExpressionBinder) -> str:
        """The alias, else the name of the column or field."""
        if isinstance(item, exp.Alias):
            return str(item.alias)
        if isinstance(item, exp.Column):
            return str(item.name)
        if isinstance(item, FieldAccess):
            return str(item.expression.name)
        if (
            isinstance(item, exp.Bracket)
            and isinstance(item.expressions[0], exp.Literal)
            and item.expressions[0].is_string
        ):
            return str(item.expressions[0].this)
        raise binder.refuse("COLUMN_NEEDS_NAME", item, expression=binder.shown(item))

    def _lost(self, field: str, node: Node, first: Planned) -> DsError:
        shown = field.partition("$")[2] or field
        if any(isinstance(n, Aggregate | DeltaAggregate) for n in node.walk()):
            window = window_of(node)
            bounds = {window.start: "window_start", window.end: "window_end"} if window else {}
            return error("GROUP_KEY_NOT_SELECTED", span=self.span, name=bounds.get(field, shown))
        return error("CHANGELOG_KEY_LOST", span=self.span, name=shown, relation=first.relation.name.name)


def project(selected: Selected, prefix: str = "") -> Project:
    """The projection of a bound SELECT; ``prefix`` before every name."""
    columns = tuple(Named(prefix + item.name, item.expression) for item in selected.items)
    return Project(selected.node, columns, tuple(prefix + name for name in selected.key))
