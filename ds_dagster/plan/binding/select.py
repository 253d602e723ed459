"""One SELECT → plan: sources and joins, WHERE, GROUP BY, HAVING, the SELECT list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from sqlglot import exp

from ds_dagster.catalog.declaring.inference import QueryChoices
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.plan.binding.every_mistake import every_mistake, unknown_relations
from ds_dagster.plan.binding.grouping import Grouping, is_grouped, key_names, window_of
from ds_dagster.plan.binding.grouping_sets import written_group
from ds_dagster.plan.binding.over import OverClauses, unbounded, windows_of
from ds_dagster.plan.binding.ranking import filtered, keyed
from ds_dagster.plan.binding.scope import Scope, Visible
from ds_dagster.plan.binding.selected import RefusedSelectError, Selected, SelectItem, project
from ds_dagster.plan.binding.set_operations import SetBinder
from ds_dagster.plan.binding.sources import Naming, Planned, SourceBinder, World
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.checks.temporal import check_temporal_settings, is_temporal
from ds_dagster.plan.expressions.binder import ExpressionBinder, column
from ds_dagster.plan.expressions.field_names import alias_of, column_of, field_name, is_total_key
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.joins.forms import bind_join
from ds_dagster.plan.joins.scalar_queries import ScalarValue, bind_scalars, in_aggregate, joined, scalar_queries
from ds_dagster.plan.joins.semi import InnerQueries, SemiJoinBinder, conditions, has_query, is_test
from ds_dagster.plan.joins.static import bind_joined, bind_static_join
from ds_dagster.plan.joins.unnesting import bind_unnest
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.delta import DeltaAggregate
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import BoundExpression, Named, Node
from ds_dagster.plan.nodes.rows import Filter, Project
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.plan.nodes.weights import weighted
from ds_dagster.sql.expressions import FieldAccess, QueryTree, UnnestRef, without_parentheses
from ds_dagster.sql.lowering import is_first_rows, own_span
from ds_dagster.sql.statements import Context

T = TypeVar("T")


class SelectBinder:
    """Binds one query with all its sub-selects.

    Args:
        world: catalog, settings, store kinds.
        context: database and schema that USE has set.
        span: where the query begins.
        choices: QUERY WITH.
        findings: collects mistakes; one per part of the SELECT, so that several are reported at once.
        application: name of the query's application; empty without one.
    """

    def __init__(
        self,
        world: World,
        context: Context,
        span: Span,
        choices: QueryChoices,
        findings: Findings,
        application: str = "",
    ) -> None:
        self.world = world
        self.context = context
        self.span = span
        self.choices = choices
        self.findings = findings
        self.naming = Naming(application, world.settings.source_names)
        self.places: dict[str, Span] = {}

    def bind(self, tree: QueryTree, *, inner: bool = False) -> Selected:
        """Bind a SELECT or a set operation. ``inner``: it is in FROM and needs no key, since rows without a key are
        retracted by weights.

        Raises:
            RefusedSelectError: mistakes are in the findings.
        """
        selected = self._bound(tree, inner=inner)
        if not inner:
            for problem in unbounded(selected.node, self.places, self.span):
                self.findings.add(problem)
            self._done()
        return selected

    def _bound(self, tree: QueryTree, *, inner: bool) -> Selected:
        if isinstance(tree, exp.Subquery):
            return self._bound(tree.this, inner=inner)
        if isinstance(tree, exp.Select) and not tree.args.get("distinct"):
            return self._select(tree, inner=inner)
        sets = SetBinder(lambda part: self.bind(part, inner=True), self.naming, self.findings, self.span)
        try:
            if isinstance(tree, exp.SetOperation):
                selected = sets.operation(tree)
            else:
                selected = sets.distinct(self._select(tree, inner=True), own_span(tree.args["distinct"], self.span))
        except DsError as problem:
            self.findings.add(problem)
            raise RefusedSelectError from problem
        return self._without_key(selected, inner)

    def _without_key(self, selected: Selected, inner: bool) -> Selected:
        """The selected rows; refuses a changelog whose rows have no key."""
        if not inner and selected.node.changelog == "weighted" and not selected.key:
            self.findings.add(error("RESULT_WITHOUT_KEY", span=self.span))
        self._done()
        return selected

    def _select(self, tree: exp.Select, *, inner: bool) -> Selected:
        outer, self.span = self.span, own_span(tree, self.span)
        scope = Scope(self.span, functions=self.world.catalog.functions)
        try:
            return self._in_scope(tree, scope, inner)
        except RefusedSelectError:
            if len(scope.sources) == 1 + len(tree.args.get("joins") or ()):
                for problem in every_mistake(tree, scope, self.findings.diagnostics):
                    self.findings.add(problem)
            raise
        finally:
            self.span = outer

    def _in_scope(self, tree: exp.Select, scope: Scope, inner: bool) -> Selected:
        first, node = self._from(tree, scope)
        node = self._where(tree, scope, node)
        if is_grouped(tree):
            return self._grouped(tree, scope, first, node, inner)
        if first.window is not None and first.window.function == "SESSION":
            self.findings.add(error("SESSION_BOUNDS", span=scope.place(tree), where="without GROUP BY"))
            raise RefusedSelectError
        self._check_star(tree, scope, first)
        node = self._with_values(node, self._values(scalar_queries(tree.expressions), scope))
        binder = ExpressionBinder(scope, "the SELECT list")
        over = self._over(tree, binder, None)
        items = tuple(self._items(tree, scope, binder, None))
        self._done()
        return self._selected(self._after(over, node), items, first, inner)

    def _selected(self, node: Node, items: tuple[SelectItem, ...], first: Planned, inner: bool) -> Selected:
        columns = [Named(item.name, item.expression) for item in items]
        node = next((other for other in keyed(node) if not key_names(other, columns)[1]), node)
        names, lost = key_names(node, columns)
        constant = [field for field in lost if is_total_key(field)]
        lost = [field for field in lost if field not in constant]
        total = constant[0] if constant and not names and not lost else ""
        if lost and inner and node.is_final:
            self._done()
            return Selected(node, items, first.relation, ())
        if lost and inner:
            span = self.span
            self.findings.collect(lambda: check_over("a step", node, span))
            self._done()
            return Selected(weighted(node), items, first.relation, ())
        for field in lost:
            self.findings.add(self._lost(field, node, first))
        if not inner and node.changelog != "append" and not node.key:
            self.findings.add(error("RESULT_WITHOUT_KEY", span=self.span))
        self._done()
        key = tuple(names[field] for field in node.key if field in names)
        return Selected(node, items, first.relation, key, total)

    def _done(self) -> None:
        if self.findings.failed:
            raise RefusedSelectError

    def _from(self, tree: exp.Select, scope: Scope) -> tuple[Planned, Node]:
        sources = SourceBinder(self.world, self.context, self.span, self.naming, self.findings, self.sub_select)
        try:
            first = sources.bind(tree.args["from_"].this)
            scope.add(first.source, tree.args["from_"].this)
            node = first.node
            check_temporal_settings(tree.args["from_"].this, is_right_side=False)
            for join in tree.args.get("joins") or ():
                if isinstance(join.this, UnnestRef):
                    node = bind_unnest(scope, node, join, self.naming)
                    continue
                joined = bind_joined(sources, join.this)
                if isinstance(joined.node, StaticScan):
                    node = bind_static_join(scope, node, joined, joined.node, join)
                else:
                    node = bind_join(scope, node, joined, join, self.choices)
                check_temporal_settings(join.this, is_right_side=is_temporal(node))
        except DsError as problem:
            self.findings.add(problem)
            for other in unknown_relations(tree, sources, self.findings.diagnostics):
                self.findings.add(other)
            raise RefusedSelectError from problem
        return first, node

    def sub_select(self, tree: QueryTree, alias: str) -> tuple[Project, Relation]:
        """A SELECT in FROM: its projection makes fields ``alias$column``."""
        selected = self.bind(tree, inner=True)
        names: set[str] = set()
        for item in selected.items:
            if item.name in names:
                raise error("DUPLICATE_COLUMN", span=item.span, name=item.name, relation=f"the sub-select {alias}")
            names.add(item.name)
        return project(selected, alias), selected.relation

    def _where(self, tree: exp.Select, scope: Scope, node: Node) -> Node:
        where = tree.args.get("where")
        if where is None:
            return node
        if has_query(where.this):
            return self._conditions(list(conditions(where.this)), scope, node)
        condition = self.findings.collect(lambda: ExpressionBinder(scope, "WHERE").condition(where.this))
        return node if condition is None else filtered(node, condition)

    def _conditions(self, parts: list[exp.Expression], scope: Scope, node: Node) -> Node:
        """The rows for which all conditions hold; conditions with a sub-select are joins above the other conditions."""
        plain = [part for part in parts if not has_query(part)]
        queries = InnerQueries(
            lambda inner: self.bind(inner, inner=True),
            lambda inner, inner_scope: self._from(inner, inner_scope)[1],
            self._conditions,
            self.naming,
        )
        for part in plain:
            condition = self.findings.collect(lambda part=part: ExpressionBinder(scope, "WHERE").condition(part))  # type: ignore[misc]
            node = node if condition is None else filtered(node, condition)
        joins = SemiJoinBinder(scope, queries, plain)
        for part in parts:
            if part not in plain:
                below = node
                join = joins.join if is_test(part) else self._compared(scope)
                with_condition = self.findings.collect(lambda part=part, below=below, join=join: join(part, below))  # type: ignore[misc]
                node = with_condition or node
        return node

    def _compared(self, scope: Scope) -> Callable[[exp.Expression, Node], Node]:
        """Binds a condition that contains values of sub-selects."""

        def compared(part: exp.Expression, node: Node) -> Node:
            rows = self._with_values(node, self._values(scalar_queries([part]), scope))
            return filtered(rows, ExpressionBinder(scope, "WHERE").condition(part))

        return compared

    def _values(self, queries: Iterable[exp.Subquery], scope: Scope) -> list[ScalarValue]:
        return self._made(lambda: bind_scalars(queries, scope, lambda tree: self.bind(tree, inner=True), self.naming))

    def _with_values(self, node: Node, values: list[ScalarValue]) -> Node:
        return self._made(lambda: joined(node, values))

    def _made(self, make: Callable[[], T]) -> T:
        """The result of ``make``; if that fails, the whole SELECT is refused."""
        try:
            return make()
        except DsError as problem:
            self.findings.add(problem)
            raise RefusedSelectError from problem

    def _grouped(self, tree: exp.Select, scope: Scope, first: Planned, node: Node, inner: bool) -> Selected:
        having = tree.args.get("having")
        above = [*tree.expressions, *([having] if having is not None else [])]
        node = self._with_values(node, self._values(filter(in_aggregate, scalar_queries(above)), scope))
        grouping = Grouping(scope, tree, first, node, self.naming, held=self.world.settings.ordered_state)
        self._made(grouping.bind)
        values = self._values((query for query in scalar_queries(above) if not in_aggregate(query)), scope)
        grouping.beside |= {value.name for value in values}
        binder = ExpressionBinder(scope, "the SELECT list", grouping.aggregates)
        over = self._over(tree, binder, grouping)
        items = tuple(self._items(tree, scope, binder, grouping))
        condition = None
        if having is not None:
            span = scope.place(having.this)
            in_having = ExpressionBinder(scope, "HAVING", grouping.aggregates)
            condition = self.findings.collect(lambda: grouping.over(in_having.condition(having.this), span))
        self.findings.collect(lambda: grouping.check_session(self.choices.updates))
        self.findings.collect(lambda: grouping.check_updates(self.choices.updates))
        self.findings.collect(grouping.check_values)
        self.findings.collect(lambda: grouping.check_set(items, inner=inner))
        self._done()
        items = grouping.keyed(items, inner=inner)
        grouped = self._with_values(grouping.node(updates=self.choices.updates), values)
        if condition is not None:
            grouped = Filter(grouped, condition)
        return self._selected(self._after(over, grouped), items, first, inner)

    def _over(self, tree: exp.Select, binder: ExpressionBinder, grouping: Grouping | None) -> OverClauses | None:
        """The OVER clauses of a SELECT list, if any."""
        if next(windows_of(tree), None) is None and not is_first_rows(tree):
            return None
        name = field_name(self.naming.alias("over"), "result")
        if grouping is not None:
            grouping.beside |= {name}
        clauses = OverClauses(binder, (lambda e, _: e) if grouping is None else grouping.over, name, self.span)
        self._made(lambda: clauses.bind(tree))
        if clauses.window is not None:
            self.places[name] = clauses.window.span
        return clauses

    def _after(self, over: OverClauses | None, node: Node) -> Node:
        """The rows of a SELECT with the results of its OVER clauses."""
        numbered = self.findings.collect(lambda: node if over is None else over.apply(node))
        self._done()
        assert numbered is not None
        return numbered

    # the SELECT list

    def _items(
        self, tree: exp.Select, scope: Scope, binder: ExpressionBinder, grouping: Grouping | None
    ) -> Iterator[SelectItem]:
        for item in tree.expressions:
            star = self._star(item)
            if star is not None:
                expanded = self.findings.collect(lambda star=star: list(self._expanded(star, scope, grouping)))  # type: ignore[misc]
                yield from expanded or ()
                continue
            single = self.findings.collect(lambda item=item: self._item(item, scope, binder, grouping))  # type: ignore[misc]
            if single is not None:
                yield single

    def _star(self, item: exp.Expression) -> exp.Expression | None:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            return item
        return None

    def _check_star(self, tree: exp.Select, scope: Scope, first: Planned) -> None:
        """Refuse ``*`` over a match: its columns are listed one by one."""
        star = next((item for item in tree.expressions if self._star(item) is not None), None)
        if star is not None and isinstance(first.node, Match):
            self.findings.add(error("MATCH_STAR", span=scope.place(star), columns=list(first.source.columns)))
            raise RefusedSelectError

    def _expanded(self, star: exp.Expression, scope: Scope, grouping: Grouping | None) -> Iterator[SelectItem]:
        place = scope.place(star)
        if grouping is not None:
            raise error("STAR_WITH_GROUP", span=place)
        columns: Iterator[Visible] = scope.all_columns()
        if isinstance(star, exp.Column):
            columns = iter(scope.source(star.table, star).columns.values())
        for visible in columns:
            yield SelectItem(
                visible.name,
                BoundExpression(column(visible.field), visible.type, visible.nullable),
                place,
            )

    def _item(
        self, item: exp.Expression, scope: Scope, binder: ExpressionBinder, grouping: Grouping | None
    ) -> SelectItem:
        inner = item.this if isinstance(item, exp.Alias) else item
        bound = binder.expression(without_parentheses(inner))  # a key in parentheses is still the key
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
        shown = column_of(field)
        groups = [g for n in node.walk() if isinstance(n, Aggregate | DeltaAggregate) for g in n.group]
        if groups:
            window = window_of(node)
            bounds = {window.start: "window_start", window.end: "window_end"} if window else {}
            written = next((written_group(g.expression.tree) for g in groups if g.name == field), None)
            shown = shown if written is None else expression_text(written, column_of)
            return error("GROUP_KEY_NOT_SELECTED", span=self.span, name=bounds.get(field, shown))
        return error("CHANGELOG_KEY_LOST", span=self.span, name=shown, relation=self._shown(field, first))

    def _shown(self, field: str, first: Planned) -> str:
        """Name of a field's source in messages."""
        return first.relation.name.name if alias_of(field) == first.source.alias else alias_of(field)
