"""A SELECT that is asked once → names resolved, types known, in one neutral tree that ``pull_dialects.py`` prints.

Tables of the tree carry the qualified name of their relation as one quoted identifier; columns are ``alias.column``,
both quoted. So nothing a person typed reaches a store as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import BIGINT, DataType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, ProjectError, error
from ds_dagster.names import QualifiedName, did_you_mean
from ds_dagster.plan.expressions import ExpressionBinder, Typed
from ds_dagster.plan.function import FAMILIES
from ds_dagster.plan.functions import FUNCTIONS
from ds_dagster.plan.nodes import Field
from ds_dagster.plan.scope import Scope, Source, Visible, visible
from ds_dagster.project import Project
from ds_dagster.sql.expressions import FieldAccess, MatchRef, RelationRef, WindowRef
from ds_dagster.sql.lowering import own_span
from ds_dagster.sql.statements import SelectBody

AGGREGATES: Mapping[type[exp.Expression], str] = MappingProxyType(
    {exp.Count: "COUNT", exp.Sum: "SUM", exp.Avg: "AVG", exp.Min: "MIN", exp.Max: "MAX"}
)
NOT_ASKED: Mapping[type[exp.Expression], str] = MappingProxyType(
    {exp.Window: "OVER", exp.Subquery: "a sub-select as a value", exp.Exists: "EXISTS"}
)
"""What a query that never ends has, and a question has not."""
ROWTIME = "__rowtime"
"""Column of a record's own timestamp in questions over streams."""
TYPE, SOURCE = "ds_type", "ds_source"
"""Notes on bound nodes: the type they have, the type a cast starts from."""


@dataclass(frozen=True, slots=True)
class Question:
    """A bound SELECT.

    Attributes:
        tree: neutral tree; its tables are named by :func:`table_name`.
        columns: result columns in order, names made unique.
        relations: relations it reads, in the order of FROM.
    """

    tree: exp.Select
    columns: tuple[tuple[str, DataType], ...]
    relations: tuple[Relation, ...]

    def limited(self, limit: int | None) -> Question:
        """The same with at most that many rows."""
        written = limit_of(self.tree)
        if limit is None or (written is not None and written <= limit):
            return self
        tree = self.tree.copy()
        tree.set("limit", exp.Limit(expression=exp.Literal.number(limit)))
        return replace(self, tree=tree)


def limit_of(tree: exp.Expression) -> int | None:
    """The number behind LIMIT, None without."""
    found = tree.args.get("limit")
    return None if found is None else int(str(found.expression.this))


def table_name(relation: Relation) -> str:
    """How the neutral tree calls a relation."""
    return str(relation.name)


def bind_question(project: Project, body: SelectBody) -> Question:
    """Resolve and check a SELECT against the catalog.

    Raises:
        UserError: UNKNOWN_RELATION, UNKNOWN_COLUMN with nearest names and place, and all others of expressions.
        ProjectError: a relation it reads has mistakes.
    """
    if body.partition_by:
        raise error("QUESTION_CLAUSE", span=body.partition_by[0].span, clause="PARTITION BY")
    if body.query_properties:
        raise error("QUESTION_CLAUSE", span=body.query_properties[0].span, clause="QUERY WITH")
    relations: dict[QualifiedName, Relation] = {}
    tree, columns = _Select(project, body.span, relations).bind(body.tree, top=True)
    return Question(tree, columns, tuple(relations.values()))


def resolve_relation(project: Project, written: str, span: Span | None = None) -> Relation:
    """A relation by its full name, or by its last part where that is unique.

    Raises:
        UserError: UNKNOWN_RELATION. ProjectError: its statement has mistakes.
    """
    name = QualifiedName.parse(written, project.settings.database, project.settings.schema)
    known = {*project.catalog.relations, *(broken.name for broken in project.broken)}
    if name not in known:
        short = [other for other in known if other.name == written]
        if len(short) != 1:
            nearest = did_you_mean(name.name, [other.name for other in known])
            raise error("UNKNOWN_RELATION", span=span, name=written, nearest=nearest)
        name = short[0]
    broken = next((b for b in project.broken if b.name == name), None)
    relation = project.catalog.relations.get(name)
    if relation is None or not relation.columns:
        raise ProjectError(broken.diagnostics if broken else project.errors)
    return relation


class PullBinder(ExpressionBinder):
    """Expressions of a question: aggregates may stand anywhere ``allows_aggregates`` says, DISTINCT in them too."""

    def __init__(self, scope: Scope, clause: str, *, allows_aggregates: bool = False) -> None:
        super().__init__(scope, clause)
        self.allows_aggregates = allows_aggregates

    def bind(self, node: exp.Expression) -> Typed:
        """Bind a tree and note what printing for a store needs to know."""
        refused = NOT_ASKED.get(type(node)) or ("IN (SELECT …)" if node.args.get("query") else "")
        if refused:
            raise self.refuse("QUESTION_CLAUSE", node, clause=refused)
        call = node.this if isinstance(node, exp.Filter) else node
        if self.allows_aggregates and type(call) in AGGREGATES:
            return self._aggregate(node, call)
        bound = super().bind(node)
        if bound.type is not None:
            bound.tree.meta[TYPE] = bound.type
        if isinstance(node, exp.Cast) and (source := bound.tree.this.meta.get(TYPE)) is not None:
            bound.tree.meta[SOURCE] = source
        return bound

    def _aggregate(self, node: exp.Expression, call: exp.Expression) -> Typed:
        name = AGGREGATES[type(call)]
        inner = PullBinder(self.scope, f"an aggregate ({name})")
        arguments, distinct = [call.this], isinstance(call.this, exp.Distinct)
        if distinct:
            arguments = list(call.this.expressions)
        if len(arguments) != 1:
            shown = f"(DISTINCT {FUNCTIONS[name].signatures[0]})"
            count = len(arguments)
            raise self.refuse("FUNCTION_ARGUMENT_COUNT", node, function=name, count=count, expected=shown)
        made, type_ = self._called(node, call, arguments[0], inner, distinct)
        made.meta[TYPE] = type_
        if isinstance(node, exp.Filter):
            condition = inner.condition(node.expression.this)
            made = exp.Filter(this=made, expression=exp.Where(this=condition.tree))
        return Typed(made, type_, name != "COUNT")

    def _called(
        self, node: exp.Expression, call: exp.Expression, argument: exp.Expression, inner: PullBinder, distinct: bool
    ) -> tuple[exp.Expression, DataType]:
        name = AGGREGATES[type(call)]
        if isinstance(argument, exp.Star):
            if name != "COUNT" or distinct:
                signature = FUNCTIONS[name].signatures[0]
                params = {"function": name, "types": ["*"], "expected": str(signature)}
                raise self.refuse("FUNCTION_ARGUMENT_TYPE", node, **params)
            return exp.Count(this=exp.Star()), BIGINT
        bound, signature = inner.expression(argument), FUNCTIONS[name].signatures[0]
        if not FAMILIES[signature.word(0)](bound.type):
            params = {"function": name, "types": [str(bound.type)], "expected": str(signature)}
            raise self.refuse("FUNCTION_ARGUMENT_TYPE", node, **params)
        bound.tree.meta[TYPE] = bound.type
        inside = exp.Distinct(expressions=[bound.tree]) if distinct else bound.tree
        made = type(call)(this=inside)
        made.meta[SOURCE] = bound.type
        return made, signature.type_of([bound.type])


@dataclass(frozen=True, slots=True)
class _Item:
    """One output column."""

    name: str
    tree: exp.Expression
    type: DataType
    nullable: bool
    node: exp.Expression


class _Select:
    """Binds one SELECT; sub-selects make their own."""

    def __init__(self, project: Project, span: Span, relations: dict[QualifiedName, Relation]) -> None:
        self.project = project
        self.span = span
        self.relations = relations
        self.scope = Scope(span)
        self.fields: dict[str, tuple[str, str]] = {}

    def bind(self, tree: exp.Expression, *, top: bool = False) -> tuple[exp.Select, tuple[tuple[str, DataType], ...]]:
        """The neutral tree and its columns."""
        if not isinstance(tree, exp.Select):
            word = "a SELECT in parentheses" if isinstance(tree, exp.Subquery) else type(tree).__name__.upper()
            raise error("QUESTION_CLAUSE", span=own_span(tree, self.span), clause=word)
        made = exp.Select()
        made.set("from_", exp.From(this=self._source(tree.args["from_"].this)))
        made.set("joins", [self._join(join) for join in tree.args.get("joins") or ()])
        if tree.args.get("where"):
            made.set("where", exp.Where(this=self._condition(tree.args["where"].this, "WHERE")))
        written = tree.args["group"].expressions if tree.args.get("group") else []
        group = [self._expression(node, "GROUP BY") for node in written]
        items = list(self._items(tree))
        having = tree.args.get("having")
        conditions = [(having.this, self._condition(having.this, "HAVING", aggregates=True))] if having else []
        order = self._order(tree, items)
        self._check_grouped(group, [*((i.node, i.tree) for i in items), *conditions, *order.values()])
        names = _unique(items) if top else self._each_once(items)
        aliased = zip(items, names, strict=True)
        made.set("expressions", [exp.alias_(item.tree, name, quoted=True) for item, name in aliased])
        self._set_clauses(made, tree, group, conditions, order)
        return made, tuple((name, item.type) for item, name in zip(items, names, strict=True))

    def _set_clauses(
        self,
        made: exp.Select,
        tree: exp.Select,
        group: Sequence[exp.Expression],
        conditions: Sequence[tuple[exp.Expression, exp.Expression]],
        order: Mapping[exp.Expression, tuple[exp.Expression, exp.Expression]],
    ) -> None:
        if group:
            made.set("group", exp.Group(expressions=list(group)))
        for _, condition in conditions:
            made.set("having", exp.Having(this=condition))
        if order:
            made.set("order", exp.Order(expressions=[_ordered(node, key) for node, (_, key) in order.items()]))
        if tree.args.get("distinct"):
            made.set("distinct", exp.Distinct())
        for clause in ("limit", "offset"):
            if tree.args.get(clause):
                made.set(clause, tree.args[clause].copy())

    # sources

    def _source(self, node: exp.Expression) -> exp.Expression:
        alias = str(node.alias)
        if isinstance(node, WindowRef):
            raise error("QUESTION_CLAUSE", span=self.scope.place(node), clause=str(node.args["function"]))
        if isinstance(node, MatchRef):
            raise error("QUESTION_CLAUSE", span=self.scope.place(node), clause="MATCH_RECOGNIZE")
        if node.args.get("properties"):
            raise error("QUESTION_CLAUSE", span=node.args["properties"][0].span, clause="WITH behind a source")
        if isinstance(node, RelationRef):
            relation = self._relation(node)
            shown = alias if alias == relation.name.name else f"{relation.name.name} ({alias})"
            rowtime = f"{alias}${ROWTIME}" if relation.kind in ("stream", "changelog") else ""
            columns = [(c.name, Field(f"{alias}${c.name}", c.type, c.nullable)) for c in relation.columns]
            self._add(node, Source(alias, shown, visible(columns), rowtime), [c.name for c in relation.columns])
            table = exp.to_identifier(table_name(relation), quoted=True)
            return exp.Table(this=table, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        inner, made = _Select(self.project, self.span, self.relations).bind(node.this)
        columns = [(name, Field(f"{alias}${name}", type_)) for name, type_ in made]
        self._add(node, Source(alias, alias, visible(columns)), [name for name, _ in made])
        return exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))

    def _relation(self, node: RelationRef) -> Relation:
        parts = [part.name for part in (node.args.get("catalog"), node.args.get("db"), node.this) if part is not None]
        relation = resolve_relation(self.project, ".".join(parts), self.scope.place(node))
        self.relations.setdefault(relation.name, relation)
        return relation

    def _add(self, node: exp.Expression, source: Source, columns: Sequence[str]) -> None:
        self.scope.add(source, node)
        for name in columns:
            self.fields[f"{source.alias}${name}"] = (source.alias, name)
        if source.rowtime:
            self.fields[source.rowtime] = (source.alias, ROWTIME)

    def _join(self, join: exp.Expression) -> exp.Expression:
        if join.args.get("within") is not None:
            raise error("QUESTION_CLAUSE", span=self.scope.place(join), clause="WITHIN")
        source = self._source(join.this)
        condition = self._condition(join.args["on"], "ON")
        side = str(join.args.get("side") or "")
        return exp.Join(this=source, on=condition, **({"side": side} if side else {}))

    # expressions

    def _expression(self, node: exp.Expression, clause: str) -> exp.Expression:
        bound = PullBinder(self.scope, clause).expression(node)
        return self._placed(bound.tree)

    def _condition(self, node: exp.Expression, clause: str, *, aggregates: bool = False) -> exp.Expression:
        bound = PullBinder(self.scope, clause, allows_aggregates=aggregates).condition(node)
        return self._placed(bound.tree)

    def _placed(self, tree: exp.Expression) -> exp.Expression:
        """Internal field names → ``alias.column``; notes on the nodes stay."""

        def place(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.Column) or node.args.get("table"):
                return node
            alias, name = self.fields[node.name]
            made = exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))
            made.meta.update(node.meta)
            return made

        placed = tree.transform(place)
        assert isinstance(placed, exp.Expression)
        return placed

    def _items(self, tree: exp.Select) -> Iterator[_Item]:
        binder = PullBinder(self.scope, "the SELECT list", allows_aggregates=True)
        for position, node in enumerate(tree.expressions, start=1):
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                yield from (self._plain(found, node) for found in self._starred(node))
                continue
            inner = node.this if isinstance(node, exp.Alias) else node
            bound = binder.bind(inner)
            if bound.type is None:
                raise binder.refuse("NULL_WITHOUT_TYPE", inner)
            yield _Item(_name(node, position), self._placed(bound.tree), bound.type, bound.nullable, inner)

    def _starred(self, node: exp.Expression) -> Iterator[Visible]:
        if isinstance(node, exp.Column):
            return iter(self.scope.source(node.table, node).columns.values())
        return self.scope.all_columns()

    def _plain(self, found: Visible, node: exp.Expression) -> _Item:
        tree = exp.Column(this=exp.to_identifier(found.field, quoted=True))
        tree.meta[TYPE] = found.type
        return _Item(found.name, self._placed(tree), found.type, found.nullable, node)

    def _order(
        self, tree: exp.Select, items: Sequence[_Item]
    ) -> dict[exp.Expression, tuple[exp.Expression, exp.Expression]]:
        """ORDER BY term → (what was written, what is sorted by): an output column by name or position, or any
        expression."""
        found: dict[exp.Expression, tuple[exp.Expression, exp.Expression]] = {}
        for term in tree.args["order"].expressions if tree.args.get("order") else ():
            written = term.this
            if isinstance(written, exp.Literal) and not written.is_string:
                key = self._at_position(written, items)
            elif (named := _output_named(written, items)) is not None:
                key = named.tree.copy()
            else:
                bound = PullBinder(self.scope, "ORDER BY", allows_aggregates=True).expression(written)
                key = self._placed(bound.tree)
            found[term] = (written, key)
        return found

    def _at_position(self, written: exp.Literal, items: Sequence[_Item]) -> exp.Expression:
        text = str(written.this)
        if not text.isdecimal() or not 1 <= int(text) <= len(items):
            span = self.scope.place(written)
            raise error("QUESTION_ORDER_POSITION", span=span, position=text, count=len(items))
        return items[int(text) - 1].tree.copy()

    # checks

    def _check_grouped(
        self, group: Sequence[exp.Expression], outputs: Sequence[tuple[exp.Expression, exp.Expression]]
    ) -> None:
        """Where rows are grouped, every column is grouped by or inside an aggregate."""
        if not group and not any(tree.find(*AGGREGATES) for _, tree in outputs):
            return
        grouped = {_text(tree) for tree in group}
        for node, tree in outputs:
            lost = next(_ungrouped(tree, grouped), None)
            if lost is not None:
                if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
                    raise error("STAR_WITH_GROUP", span=self.scope.place(node))
                raise error("COLUMN_NOT_GROUPED", span=self.scope.place(node), name=lost.name)

    def _each_once(self, items: Sequence[_Item]) -> list[str]:
        seen: set[str] = set()
        for item in items:
            if item.name in seen:
                place = self.scope.place(item.node)
                raise error("DUPLICATE_COLUMN", span=place, name=item.name, relation="the sub-select")
            seen.add(item.name)
        return [item.name for item in items]


def _ungrouped(tree: exp.Expression, grouped: set[str]) -> Iterator[exp.Column]:
    if _text(tree) in grouped or type(tree) in AGGREGATES or isinstance(tree, exp.Filter):
        return
    if isinstance(tree, exp.Column):
        yield tree
        return
    for child in tree.iter_expressions():
        yield from _ungrouped(child, grouped)


def _text(tree: exp.Expression) -> str:
    return repr(tree)


def _ordered(term: exp.Expression, key: exp.Expression) -> exp.Ordered:
    """NULL is the smallest value unless NULLS FIRST or LAST was written."""
    made: dict[str, Any] = {"this": key, "desc": bool(term.args.get("desc"))}
    made["nulls_first"] = bool(term.args.get("nulls_first"))
    return exp.Ordered(**made)


def _output_named(written: exp.Expression, items: Sequence[_Item]) -> _Item | None:
    if not isinstance(written, exp.Column) or written.table:
        return None
    return next((item for item in items if item.name == written.name), None)


def _name(node: exp.Expression, position: int) -> str:
    """The alias, else the name of the column, field or function."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, FieldAccess):
        return str(node.expression.name)
    call = node.this if isinstance(node, exp.Filter) else node
    if type(call) in AGGREGATES:
        return AGGREGATES[type(call)].lower()
    return str(call.this).lower() if isinstance(call, exp.Anonymous) else f"column_{position}"


def _unique(items: Sequence[_Item]) -> list[str]:
    """Names of the result; a name that is there already gets a number."""
    names: list[str] = []
    for item in items:
        name, number = item.name, 1
        while name in names:
            number += 1
            name = f"{item.name}_{number}"
        names.append(name)
    return names


def with_fragment(problem: DsError, text: str) -> DsError:
    """The same with the line of the question it is about, for the list that is shown."""
    span = problem.span
    lines = text.splitlines()
    if span is None or isinstance(problem, ProjectError) or not 1 <= span.line <= len(lines):
        return problem
    return ProjectError([replace(problem.diagnostic(), fragment=lines[span.line - 1])])
