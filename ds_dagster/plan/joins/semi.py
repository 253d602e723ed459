"""``[NOT] IN (SELECT …)`` and ``[NOT] EXISTS (SELECT …)`` in WHERE: joins that keep or drop rows of the outer query.

A sub-select is a table of keys: its column for IN, and the inner side of each equality with a column of the outer
query. NOT IN is accepted only if the sub-select cannot give NULL, since one NULL would drop all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from sqlglot import exp

from ds_dagster.datatypes import common_type, is_hashable
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError
from ds_dagster.plan.binding.grouping import is_grouped
from ds_dagster.plan.binding.over import windows_of
from ds_dagster.plan.binding.scope import Scope
from ds_dagster.plan.binding.selected import Selected
from ds_dagster.plan.binding.sources import Naming
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed, column, widened
from ds_dagster.plan.expressions.field_names import field_name
from ds_dagster.plan.expressions.printing import identity_text
from ds_dagster.plan.nodes.delta import DeltaJoin, DeltaJoinKind, Unweigh
from ds_dagster.plan.nodes.node import BoundExpression, Named, Node
from ds_dagster.plan.nodes.rows import Project
from ds_dagster.plan.nodes.weights import weighted
from ds_dagster.sql.expressions import QueryTree, without_parentheses

_PLAIN = ("distinct", "limit", "offset")


@dataclass(frozen=True, slots=True)
class InnerQueries:
    """Functions that bind the sub-selects of a condition.

    Attributes:
        bind: binds a whole query.
        sources: binds FROM and JOIN of a SELECT; adds its sources to the scope.
        where: binds conditions over a node.
        naming: internal names of the query.
    """

    bind: Callable[[QueryTree], Selected]
    sources: Callable[[exp.Select, Scope], Node]
    where: Callable[[list[exp.Expression], Scope, Node], Node]
    naming: Naming


@dataclass(frozen=True, slots=True)
class Keys:
    """Rows of a sub-select and the pairs (outer, inner) that must be equal; ``value``: the inner expression of IN."""

    node: Node
    pairs: tuple[tuple[BoundExpression, BoundExpression], ...]
    value: BoundExpression | None = None


def conditions(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The parts of an AND, left to right, without parentheses."""
    tree = without_parentheses(tree)
    if isinstance(tree, exp.And):
        yield from conditions(tree.this)
        yield from conditions(tree.expression)
    else:
        yield tree


def is_test(tree: exp.Expression) -> bool:
    """Whether a condition has EXISTS or IN with a sub-select at any depth; other sub-selects give a value."""
    nodes = tree.walk(prune=lambda node: isinstance(node, exp.Query))
    return any(isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")) for node in nodes)


def has_query(tree: exp.Expression) -> bool:
    """Whether a condition holds a sub-select."""
    return tree.find(exp.Query) is not None


class SemiJoinBinder:
    """Binds the conditions with sub-selects of one WHERE. ``beside``: its other conditions."""

    def __init__(self, scope: Scope, inner: InnerQueries, beside: list[exp.Expression]) -> None:
        self.scope = scope
        self.inner = inner
        self.binder = ExpressionBinder(scope, "WHERE")
        self.not_null = {identity_text(part) for part in map(_known, beside) if part is not None}

    def join(self, tree: exp.Expression, node: Node) -> Node:
        """The rows of a node for which a condition with a sub-select holds.

        Raises:
            UserError: IN_COLUMN_COUNT, OPERATOR_TYPES. UnsupportedError: SUBQUERY_MISPLACED,
                EXISTS_WITHOUT_EQUALITY, NOT_IN_NULLABLE. NotYetError: STATEFUL_CHAIN.
        """
        test, negated = _test(tree)
        if isinstance(test, exp.In) and test.args.get("query"):
            keys = self._in(test)
            if negated:
                self._check_nulls(test, keys)
        elif isinstance(test, exp.Exists):
            keys = self._keys(test, test.this, None)
        else:
            raise self.binder.refuse("SUBQUERY_MISPLACED", _tested(tree), clause="OR or an expression")
        return self._joined(node, keys, "anti" if negated else "semi", self.scope.place(test))

    def _in(self, test: exp.In) -> Keys:
        value = self.binder.expression(test.this)
        return self._keys(test, test.args["query"].this, value)

    def _keys(self, test: exp.Expression, tree: exp.Expression, value: BoundExpression | None) -> Keys:
        if not _is_simple(tree):
            if value is None:
                raise self.binder.refuse("EXISTS_WITHOUT_EQUALITY", test)
            selected = self.inner.bind(tree)  # type: ignore[arg-type]
            self._check_count(test, len(selected.items))
            inner_item = selected.items[0].expression
            return Keys(selected.node, (self._pair(test, "IN", value, inner_item),), inner_item)
        scope = Scope(self.scope.span, functions=self.scope.functions)
        node = self.inner.sources(tree, scope)
        pairs, rest = self._split(tree, scope)
        node = self.inner.where(rest, scope, node)
        if value is None and not pairs:
            raise self.binder.refuse("EXISTS_WITHOUT_EQUALITY", test)
        key_pairs = [self._pair(test, "=", outer, inner) for outer, inner in pairs]
        if value is None:
            return Keys(node, tuple(key_pairs))
        self._check_count(test, len(tree.expressions))
        inner_item = self._item(tree, scope, rest)
        return Keys(node, (self._pair(test, "IN", value, inner_item), *key_pairs), inner_item)

    def _check_count(self, test: exp.Expression, count: int) -> None:
        if count != 1:
            raise self.binder.refuse("IN_COLUMN_COUNT", test, count=count)

    def _item(self, tree: exp.Select, scope: Scope, rest: list[exp.Expression]) -> BoundExpression:
        """The item of a sub-select; not nullable if its WHERE has ``IS NOT NULL`` for it."""
        item = tree.expressions[0]
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Star):
            columns = list(scope.all_columns())
            self._check_count(inner, len(columns))
            return BoundExpression(column(columns[0].field), columns[0].type, columns[0].nullable)
        bound = ExpressionBinder(scope, "the SELECT list").expression(inner)
        non_null = {identity_text(part) for part in map(_known, rest) if part is not None}
        return BoundExpression(bound.tree, bound.type, bound.nullable and identity_text(inner) not in non_null)

    def _split(
        self, tree: exp.Select, scope: Scope
    ) -> tuple[list[tuple[BoundExpression, BoundExpression]], list[exp.Expression]]:
        """Equalities with the outer query, and the other conditions of a sub-select."""
        pairs: list[tuple[BoundExpression, BoundExpression]] = []
        rest: list[exp.Expression] = []
        where = tree.args.get("where")
        for part in conditions(where.this) if where is not None else ():
            outer = [node for node in _columns(part) if self._is_outer(node, scope)]
            if not outer:
                rest.append(part)
                continue
            sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
            mine = [side for side in sides if all(self._is_outer(node, scope) for node in _columns(side))]
            others = [side for side in sides if not any(self._is_outer(node, scope) for node in _columns(side))]
            if len(mine) != 1 or len(others) != 1:
                raise self.binder.refuse("EXISTS_WITHOUT_EQUALITY", outer[0])
            pairs.append((self.binder.expression(mine[0]), ExpressionBinder(scope, "WHERE").expression(others[0])))
        return pairs, rest

    def _is_outer(self, node: exp.Column, scope: Scope) -> bool:
        """Whether a column belongs to the outer query: the sub-select has no column, or alias, of that name."""
        if node.table:
            own, outer = ({source.alias for source in side.sources} for side in (scope, self.scope))
            return node.table in outer - own
        return not _resolves(node, scope) and _resolves(node, self.scope)

    def _pair(
        self, test: exp.Expression, operator: str, outer: BoundExpression, inner: BoundExpression
    ) -> tuple[BoundExpression, BoundExpression]:
        shared = common_type(outer.type, inner.type)
        if shared is None or not is_hashable(shared):
            raise self.binder.refuse("OPERATOR_TYPES", test, operator=operator, left=outer.type, right=inner.type)
        operands = [
            BoundExpression(widened(Typed(side.tree, side.type, side.nullable), shared), shared, side.nullable)
            for side in (outer, inner)
        ]
        return operands[0], operands[1]

    def _check_nulls(self, test: exp.In, keys: Keys) -> None:
        assert keys.value is not None
        outer = keys.pairs[0][0]
        if (outer.nullable and identity_text(test.this) not in self.not_null) or keys.value.nullable:
            raise self.binder.refuse("NOT_IN_NULLABLE", test)

    def _joined(self, node: Node, keys: Keys, kind: DeltaJoinKind, span: Span) -> Node:
        check_over("a step", node, span)
        check_over("a step", keys.node, span)
        alias = self.inner.naming.alias("in")
        pairs = enumerate(keys.pairs, start=1)
        columns = tuple(Named(field_name(alias, str(number)), inner) for number, (_, inner) in pairs)
        right = Project(weighted(keys.node), columns)
        inner = tuple(BoundExpression(column(c.name), c.expression.type, c.expression.nullable) for c in columns)
        joined = DeltaJoin(weighted(node), right, kind, tuple(outer for outer, _ in keys.pairs), inner)
        return Unweigh(joined) if joined.only_grows else joined


def _test(tree: exp.Expression) -> tuple[exp.Expression, bool]:
    """A condition without its NOTs, and whether they negate it."""
    negated = False
    while isinstance(tree, exp.Paren | exp.Not):
        negated ^= isinstance(tree, exp.Not)
        tree = tree.this
    return tree, negated


def _tested(tree: exp.Expression) -> exp.Expression:
    return next(predicate for predicate in tree.walk() if isinstance(predicate, exp.Exists | exp.In))


def _is_simple(tree: exp.Expression) -> TypeGuard[exp.Select]:
    """Whether a tree is a SELECT that only filters and computes, so that equalities of its WHERE can be join keys."""
    if not isinstance(tree, exp.Select) or any(tree.args.get(clause) for clause in _PLAIN):
        return False
    return not is_grouped(tree) and next(windows_of(tree), None) is None


def _columns(tree: exp.Expression) -> Iterator[exp.Column]:
    """Columns of a condition, without the columns in its sub-selects."""
    for node in tree.walk(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(node, exp.Column):
            yield node


def _resolves(node: exp.Column, scope: Scope) -> bool:
    try:
        scope.resolve(node)
    except DsError as problem:
        return problem.condition == "AMBIGUOUS_COLUMN"
    return True


def _known(tree: exp.Expression) -> exp.Expression | None:
    """``x`` of ``x IS NOT NULL``, None for other conditions."""
    if isinstance(tree, exp.Not) and isinstance(tree.this, exp.Is) and isinstance(tree.this.expression, exp.Null):
        operand = tree.this.this
        return operand if isinstance(operand, exp.Expression) else None
    return None
