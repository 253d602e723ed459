"""Sub-selects as values: ``v > (SELECT MAX(v) FROM s)``, in WHERE, HAVING and the SELECT list.

Such a sub-select is a total: it has one row, or none before the first record (its value is NULL then). It becomes a
join of every row with this row. When the value changes, all rows are compared again, so rows are added and retracted
by weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from ds_dagster.datatypes import BOOLEAN
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.binding.scope import Scope
from ds_dagster.plan.binding.selected import Selected
from ds_dagster.plan.binding.sources import Naming
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.binder import Typed, column
from ds_dagster.plan.expressions.calls import aggregate_name
from ds_dagster.plan.expressions.field_names import own_field, total_key
from ds_dagster.plan.nodes.delta import DeltaJoin
from ds_dagster.plan.nodes.node import BoundExpression, Named, Node
from ds_dagster.plan.nodes.rows import Project
from ds_dagster.plan.nodes.weights import weighted
from ds_dagster.sql.expressions import MatchRef, QueryTree, UnnestRef, WindowRef
from ds_dagster.sql.lowering import is_simple


def scalar_queries(trees: Iterable[exp.Expression]) -> Iterator[exp.Subquery]:
    """Sub-selects that are values in expressions; the sub-selects of IN and EXISTS are not."""
    for tree in trees:
        if is_simple(tree):
            continue
        for node in tree.walk(prune=lambda node: isinstance(node, exp.Query)):
            if isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.In | exp.Exists):
                yield node


def in_aggregate(query: exp.Subquery) -> bool:
    """Whether a sub-select is in the argument of an aggregate, so that its value is needed below the groups."""
    above = query.parent
    while isinstance(above, exp.Expression) and not isinstance(above, exp.Query):
        if aggregate_name(above) is not None:
            return True
        above = above.parent
    return False


@dataclass(frozen=True, slots=True)
class ScalarValue:
    """A bound sub-select: a node of its row, with the fields ``name`` (the value) and ``key`` (a constant)."""

    row: Node
    name: str
    key: str
    span: Span


def bind_scalars(
    queries: Iterable[exp.Subquery], scope: Scope, bind: Callable[[QueryTree], Selected], naming: Naming
) -> list[ScalarValue]:
    """Bind sub-selects; puts their values into the scope. :func:`joined` adds them to the rows.

    Args:
        queries: from :func:`scalar_queries`.
        scope: of the rows that are compared.
        bind: binds a sub-select.
        naming: internal names of the query.

    Raises:
        UserError: SCALAR_COLUMNS, SCALAR_ROWS. UnsupportedError: SCALAR_CORRELATED. And those of sub-selects.
    """
    rows = []
    for query in queries:
        _check_alone(query, scope)
        span, selected = scope.place(query), bind(_with_name(query.this))
        if len(selected.items) != 1:
            raise error("SCALAR_COLUMNS", span=span, count=len(selected.items))
        if not selected.total:
            raise error("SCALAR_ROWS", span=span)
        check_over("a step", selected.node, span)
        item, alias = selected.items[0].expression, naming.alias("value")
        value = Named(own_field(alias, "value"), item)
        key = Named(total_key(alias), BoundExpression(column(selected.total), BOOLEAN, nullable=False))
        row = weighted(Project(selected.node, (value, key), (key.name,)))
        scope.values[id(query)] = Typed(column(value.name), item.type, nullable=True)
        rows.append(ScalarValue(row, value.name, key.name, span))
    return rows


def _check_alone(query: exp.Subquery, scope: Scope) -> None:
    """Raises: UnsupportedError SCALAR_CORRELATED for a column of a source around the sub-select."""
    sources = (exp.Table, exp.Subquery, WindowRef, MatchRef, UnnestRef)
    own = {node.alias for node in query.this.find_all(*sources)}
    outer = {source.alias for source in scope.sources} - own
    column = next((node for node in query.this.find_all(exp.Column) if node.table in outer), None)
    if column is not None:
        raise error("SCALAR_CORRELATED", span=scope.place(column), name=f"{column.table}.{column.name}")


def _with_name(tree: QueryTree) -> QueryTree:
    """The sub-select with a name for its only item, since a value needs none."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return tree
    query = tree.copy()
    (item,) = query.expressions
    if not isinstance(item, exp.Alias | exp.Column | exp.Star):
        query.set("expressions", [exp.Alias(this=item, alias=exp.to_identifier("value"))])
    return query


def joined(node: Node, values: Iterable[ScalarValue]) -> Node:
    """Rows with the values of sub-selects.

    Raises:
        NotYetError: STATEFUL_CHAIN.
    """
    for value in values:
        check_over("a sub-select as a value", node, value.span)
        check_over("a step", node, value.span)
        everything = BoundExpression(exp.Boolean(this=True), BOOLEAN, nullable=False)
        same = BoundExpression(column(value.key), BOOLEAN, nullable=False)
        node = DeltaJoin(weighted(node), value.row, "left", (everything,), (same,))
    return node
