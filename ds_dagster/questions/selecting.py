"""Binds the SELECTs of a question: sources, columns, grouping, order, set operations and sub-selects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import DataType, common_type
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.names import QualifiedName, did_you_mean
from ds_dagster.plan.binding.scope import Source, Visible, visible
from ds_dagster.plan.expressions.calls import aggregate_name
from ds_dagster.plan.expressions.field_names import field_name, record_field
from ds_dagster.plan.joins.unnesting import element_columns
from ds_dagster.plan.nodes.node import Field
from ds_dagster.project.load import LoadedProject
from ds_dagster.questions.expressions import Columns, InnerScope, QuestionBinder, ordered
from ds_dagster.questions.relations import ROWTIME, resolve_relation, table_name
from ds_dagster.questions.serving import serving_relation
from ds_dagster.questions.trees import (
    Elements,
    FieldPlaces,
    aggregates_in,
    named_item,
    noted,
    ungrouped,
)
from ds_dagster.questions.unions import bound_values, order_position, set_limits, side_of
from ds_dagster.sql.expressions import FieldAccess, MatchRef, RelationRef, UnnestRef, WindowRef, without_parentheses
from ds_dagster.sql.lowering import own_span


@dataclass(frozen=True, slots=True)
class _Item:
    """One output column; ``node``: its unbound tree."""

    name: str
    tree: exp.Expression
    type: DataType
    nullable: bool
    node: exp.Expression


class BoundSelect:
    """Binds one SELECT; each sub-select has its own object.

    Args:
        project: the loaded project.
        span: position of the question.
        relations: relations found so far, in order; the object adds its own.
        around: the SELECT that contains a sub-select, if the sub-select may refer to its rows.
    """

    def __init__(
        self,
        project: LoadedProject,
        span: Span,
        relations: dict[QualifiedName, Relation],
        around: BoundSelect | None = None,
    ) -> None:
        self.project = project
        self.span = span
        self.relations = relations
        self.scope: InnerScope = InnerScope(
            span, around.scope if around is not None else None, project.catalog.functions
        )
        self.places: FieldPlaces = around.places.copy() if around is not None else FieldPlaces()

    def bind(self, tree: exp.Expression, *, top: bool = False) -> tuple[exp.Query, Columns]:
        """The bound tree and its columns."""
        if isinstance(tree, exp.Subquery):
            return self.bind(tree.this, top=top)
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree, top)
        if isinstance(tree, exp.Values):
            return self._ended(tree, *bound_values(tree, self._binder("VALUES"), self._placed), "the columns of VALUES")
        return self._select(tree, top)

    def _set_operation(self, tree: exp.SetOperation, top: bool) -> tuple[exp.Query, Columns]:
        """UNION, EXCEPT, INTERSECT: columns are matched by position; the names are from the first side."""
        sides = [
            BoundSelect(self.project, self.span, self.relations).bind(side, top=top)
            for side in (tree.this, tree.expression)
        ]
        (left, first), (right, second) = sides
        span = own_span(tree, self.span)
        if len(first) != len(second):
            raise error("QUESTION_SIDES", span=span, left=len(first), right=len(second))
        columns = []
        for (name, own), (_, other) in zip(first, second, strict=True):
            type_ = common_type(own, other)
            if type_ is None:
                raise error("BRANCH_TYPES_DIFFER", span=span, what=f"column {name}", types=[str(own), str(other)])
            columns.append((name, type_))
        as_common = tuple(columns)
        query = type(tree)(
            this=side_of(tree, left, first, as_common, is_right=False),
            expression=side_of(tree, right, second, as_common, is_right=True),
            distinct=tree.args.get("distinct"),
        )
        return self._ended(tree, query, as_common, "the columns of the first side")

    def _ended(self, tree: exp.Expression, query: exp.Query, columns: Columns, where: str) -> tuple[exp.Query, Columns]:
        """A query with its ORDER BY (name or position of a column), LIMIT, OFFSET: of VALUES or of a set operation."""
        names = [name for name, _ in columns]
        terms = []
        for term in tree.args["order"].expressions if tree.args.get("order") else ():
            place = self._output_place(without_parentheses(term.this), names, where)
            terms.append(ordered(term, exp.Literal.number(place)))
        if terms:
            query.set("order", exp.Order(expressions=terms))
        set_limits(query, tree)
        return query, columns

    def _output_place(self, written: exp.Expression, names: Sequence[str], where: str) -> int:
        """The place of the column that a term of ORDER BY names, from 1."""
        if isinstance(written, exp.Literal) and not written.is_string:
            return order_position(written, len(names), self.scope.place(written))
        if not isinstance(written, exp.Column) or written.table:
            raise self._not_selected(written, where)
        if written.name not in names:
            nearest = did_you_mean(written.name, names)
            named = {"name": written.name, "where": where, "nearest": nearest}
            raise error("UNKNOWN_COLUMN", span=self.scope.place(written), **named)
        return names.index(written.name) + 1

    def _not_selected(self, written: exp.Expression, where: str) -> DsError:
        shown = self._binder("ORDER BY").shown(written)
        return error("ORDER_BY_NOT_SELECTED", span=self.scope.place(written), expression=shown, where=where)

    def _select(self, tree: exp.Expression, top: bool) -> tuple[exp.Query, Columns]:
        if not isinstance(tree, exp.Select):
            raise error("QUESTION_CLAUSE", span=own_span(tree, self.span), clause=type(tree).__name__.upper())
        query = exp.Select()
        if tree.args.get("from_"):
            query.set("from_", exp.From(this=self._source(tree.args["from_"].this)))
            query.set("joins", [self._join(join) for join in tree.args.get("joins") or ()])
        if tree.args.get("where"):
            query.set("where", exp.Where(this=self._condition(tree.args["where"].this, "WHERE")))
        written = tree.args["group"].expressions if tree.args.get("group") else []
        group = [self._expression(node, "GROUP BY") for node in written]
        items = list(self._items(tree))
        having = tree.args.get("having")
        conditions = [(having.this, self._condition(having.this, "HAVING", aggregates=True))] if having else []
        order = self._order(tree, items)
        if tree.args.get("distinct"):
            self._check_selected(items, order.values())
        self._check_grouped(group, [*((i.node, i.tree) for i in items), *conditions, *order.values()])
        names = _unique(items) if top else self._each_once(items)
        aliased = zip(items, names, strict=True)
        query.set("expressions", [named_item(item.tree, name) for item, name in aliased])
        self._set_clauses(query, tree, group, conditions, order)
        return query, tuple((name, item.type) for item, name in zip(items, names, strict=True))

    def _set_clauses(
        self,
        query: exp.Select,
        tree: exp.Select,
        group: Sequence[exp.Expression],
        conditions: Sequence[tuple[exp.Expression, exp.Expression]],
        order: Mapping[exp.Expression, tuple[exp.Expression, exp.Expression]],
    ) -> None:
        if group:
            query.set("group", _grouped(tree.args["group"], group))
        for _, condition in conditions:
            query.set("having", exp.Having(this=condition))
        if order:
            query.set("order", exp.Order(expressions=[ordered(node, key) for node, (_, key) in order.items()]))
        if tree.args.get("distinct"):
            query.set("distinct", exp.Distinct())
        set_limits(query, tree)

    # sources

    def _source(self, node: exp.Expression) -> exp.Expression:
        alias = str(node.alias)
        if isinstance(node, WindowRef):
            raise error("QUESTION_CLAUSE", span=self.scope.place(node), clause=str(node.args["function"]))
        if isinstance(node, MatchRef):
            raise error("QUESTION_CLAUSE", span=self.scope.place(node), clause="MATCH_RECOGNIZE")
        if node.args.get("properties"):
            raise error("QUESTION_CLAUSE", span=node.args["properties"][0].span, clause="WITH after a source")
        if isinstance(node, RelationRef):
            relation = self._relation(node)
            shown = alias if alias == relation.name.name else f"{relation.name.name} ({alias})"
            prefix = self.places.prefix(alias)
            rowtime = record_field(prefix, ROWTIME) if relation.kind in ("stream", "changelog") else ""
            columns = [(c.name, Field(field_name(prefix, c.name), c.type, c.nullable)) for c in relation.columns]
            self._add(node, Source(alias, shown, visible(columns), rowtime), columns)
            table = exp.to_identifier(table_name(relation), quoted=True)
            return exp.Table(this=table, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        inner, columns_there = BoundSelect(self.project, self.span, self.relations).bind(node.this)
        written = [name.name for name in node.args["alias"].columns]
        columns_there = tuple(zip(written, (t for _, t in columns_there), strict=True)) if written else columns_there
        prefix = self.places.prefix(alias)
        columns = [(name, Field(field_name(prefix, name), type_)) for name, type_ in columns_there]
        self._add(node, Source(alias, alias, visible(columns)), columns)
        quoted = [exp.to_identifier(name, quoted=True) for name in written]
        return exp.Subquery(
            this=inner, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=quoted)
        )

    def _relation(self, node: RelationRef) -> Relation:
        parts = [part.name for part in (node.args.get("catalog"), node.args.get("db"), node.this) if part is not None]
        relation = serving_relation(
            self.project, resolve_relation(self.project, ".".join(parts), self.scope.place(node))
        )
        self.relations.setdefault(relation.name, relation)
        return relation

    def _add(self, node: exp.Expression, source: Source, columns: Sequence[tuple[str, Field]]) -> None:
        self.scope.add(source, node)
        self.places.fields.update({field.name: (source.alias, name) for name, field in columns})
        if source.rowtime:
            self.places.fields[source.rowtime] = (source.alias, ROWTIME)

    def _join(self, join: exp.Expression) -> exp.Expression:
        if isinstance(join.this, UnnestRef):
            return self._unnest(join, join.this)
        if join.args.get("within") is not None:
            raise error("QUESTION_CLAUSE", span=self.scope.place(join), clause="WITHIN")
        source = self._source(join.this)
        condition = self._condition(join.args["on"], "ON")
        side = str(join.args.get("side") or "")
        return exp.Join(this=source, on=condition, **({"side": side} if side else {}))

    def _unnest(self, join: exp.Expression, ref: UnnestRef) -> exp.Expression:
        """UNNEST: the elements of an array or map of the sources to the left."""
        binder, on = self._binder("UNNEST"), join.args.get("on")
        if on is not None and not (isinstance(on, exp.Boolean) and on.this):
            raise binder.refuse("UNNEST_CONDITION", on)
        value, outer = binder.expression(ref.this), join.args.get("side") == "LEFT"
        columns = element_columns(ref, value.type, binder, outer=outer)
        alias, names = str(ref.alias), [name for name, *_ in columns]
        elements = Elements(
            this=noted(self._placed(value.tree), value.type),
            expressions=[exp.to_identifier(name, quoted=True) for name in names],
            ordinality=bool(ref.args.get("ordinality")),
            alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
        )
        prefix = self.places.prefix(alias)
        fields = [(name, Field(field_name(prefix, name), type_, nullable)) for name, type_, nullable in columns]
        self._add(ref, Source(alias, alias, visible(fields), is_part_of_row=True), fields)
        return exp.Join(this=elements, on=exp.Boolean(this=True), side="LEFT" if outer else None)

    # expressions

    def _expression(self, node: exp.Expression, clause: str) -> exp.Expression:
        bound = self._binder(clause).expression(node)
        return self._placed(bound.tree)

    def _binder(self, clause: str, *, aggregates: bool = False) -> QuestionBinder:
        return QuestionBinder(self.scope, clause, self._sub_select, allows_aggregates=aggregates)

    def _sub_select(self, tree: exp.Expression) -> tuple[exp.Query, Columns]:
        return BoundSelect(self.project, self.span, self.relations, self).bind(tree)

    def _condition(self, node: exp.Expression, clause: str, *, aggregates: bool = False) -> exp.Expression:
        bound = self._binder(clause, aggregates=aggregates).condition(node)
        return self._placed(bound.tree)

    def _placed(self, tree: exp.Expression) -> exp.Expression:
        """The tree with ``alias.column`` in place of internal field names; types on the nodes are kept."""
        return self.places.placed(tree)

    def _items(self, tree: exp.Select) -> Iterator[_Item]:
        binder = self._binder("the SELECT list", aggregates=True)
        for position, node in enumerate(tree.expressions, start=1):
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                yield from (self._plain(column, node) for column in self._starred(node))
                continue
            inner = node.this if isinstance(node, exp.Alias) else node
            bound = binder.bind(inner)
            if bound.type is None:
                raise binder.refuse("NULL_WITHOUT_TYPE", inner)
            yield _Item(_name(node, position), self._placed(bound.tree), bound.type, bound.nullable, inner)

    def _starred(self, node: exp.Expression) -> Iterator[Visible]:
        if not self.scope.sources:
            raise error("FROM_MISSING", span=self.scope.place(node))
        if isinstance(node, exp.Column):
            return iter(self.scope.source(node.table, node).columns.values())
        return self.scope.all_columns()

    def _plain(self, column: Visible, node: exp.Expression) -> _Item:
        tree = exp.Column(this=exp.to_identifier(column.field, quoted=True))
        noted(tree, column.type)
        return _Item(column.name, self._placed(tree), column.type, column.nullable, node)

    def _order(
        self, tree: exp.Select, items: Sequence[_Item]
    ) -> dict[exp.Expression, tuple[exp.Expression, exp.Expression]]:
        """ORDER BY term → (unbound tree, bound sort key): an output column by name or position, or any expression."""
        keys: dict[exp.Expression, tuple[exp.Expression, exp.Expression]] = {}
        for term in tree.args["order"].expressions if tree.args.get("order") else ():
            written = without_parentheses(term.this)
            if isinstance(written, exp.Literal) and not written.is_string:
                key = self._at_position(written, items)
            elif (named := _output_named(written, items)) is not None:
                key = named.tree.copy()
            else:
                bound = self._binder("ORDER BY", aggregates=True).expression(written)
                key = self._placed(bound.tree)
            keys[term] = (written, key)
        return keys

    def _at_position(self, written: exp.Literal, items: Sequence[_Item]) -> exp.Expression:
        return items[order_position(written, len(items), self.scope.place(written)) - 1].tree.copy()

    # checks

    def _check_selected(self, items: Sequence[_Item], order: Iterable[tuple[exp.Expression, exp.Expression]]) -> None:
        """DISTINCT joins rows that may differ in all that is not selected, so they have no place in its order."""
        selected = {repr(item.tree) for item in items}
        for written, key in order:
            if repr(key) not in selected:
                raise self._not_selected(written, "the columns of SELECT DISTINCT")

    def _check_grouped(
        self, group: Sequence[exp.Expression], outputs: Sequence[tuple[exp.Expression, exp.Expression]]
    ) -> None:
        """Check that in a grouped SELECT every column is in GROUP BY or inside an aggregate.

        Raises:
            UserError: STAR_WITH_GROUP, COLUMN_NOT_GROUPED.
        """
        if not group and not any(any(aggregates_in(tree)) for _, tree in outputs):
            return
        grouped = {repr(tree) for tree in group}
        for node, tree in outputs:
            lost = next(ungrouped(tree, grouped), None)
            if lost is not None:
                if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
                    raise error("STAR_WITH_GROUP", span=self.scope.place(node))
                raise error("COLUMN_NOT_GROUPED", span=self.scope.place(node), name=lost.name)

    def _each_once(self, items: Sequence[_Item]) -> list[str]:
        names: set[str] = set()
        for item in items:
            if item.name in names:
                place = self.scope.place(item.node)
                raise error("DUPLICATE_COLUMN", span=place, name=item.name, relation="the sub-select")
            names.add(item.name)
        return [item.name for item in items]


def _grouped(written: exp.Group, group: Sequence[exp.Expression]) -> exp.Group:
    """GROUP BY of bound expressions, with the grouping sets of the unbound clause."""
    sets = written.args.get("grouping_sets")
    if not sets:
        return exp.Group(expressions=list(group))
    tuples = [
        exp.Tuple(expressions=[group[written.expressions.index(expression)].copy() for expression in part.expressions])
        for part in sets
    ]
    return exp.Group(grouping_sets=[exp.GroupingSets(expressions=tuples)])


def _output_named(written: exp.Expression, items: Sequence[_Item]) -> _Item | None:
    if not isinstance(written, exp.Column) or written.table:
        return None
    return next((item for item in items if item.name == written.name), None)


def _name(node: exp.Expression, position: int) -> str:
    """The alias, else the name of the column, field or function, else ``column_N``."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, FieldAccess):
        return str(node.expression.name)
    call = node.this if isinstance(node, exp.Filter) else node
    if isinstance(call, exp.Window):
        return _name(call.this, position)
    aggregate = aggregate_name(call)
    if aggregate is not None:
        return aggregate.lower()
    return str(call.this).lower() if isinstance(call, exp.Anonymous) else f"column_{position}"


def _unique(items: Sequence[_Item]) -> list[str]:
    """Names of the result; a repeated name gets a number."""
    names: list[str] = []
    for item in items:
        name, number = item.name, 1
        while name in names:
            number += 1
            name = f"{item.name}_{number}"
        names.append(name)
    return names
