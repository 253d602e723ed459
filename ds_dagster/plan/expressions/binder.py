"""Expressions: names resolved, types checked, implicit conversions made explicit; the nodes of the result are in
``plan/expressions/bound_trees.py``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    MAX_DECIMAL_PRECISION,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructType,
    common_type,
    decimal,
    is_comparable,
    is_integer,
    is_numeric,
    is_orderable,
    is_temporal,
    is_text,
)
from ds_dagster.errors import DsError, error
from ds_dagster.functions.operators import TEXTS
from ds_dagster.names import did_you_mean
from ds_dagster.plan.binding.scope import Scope
from ds_dagster.plan.expressions.arithmetic import can_cast
from ds_dagster.plan.expressions.bound_trees import (
    BOUND_NODES,
    Typed,
    cast_type,
    column,
    conjunction,
    conjuncts,
    converted,
    lowered,
    widened,
)
from ds_dagster.plan.expressions.constants import TIMES, check_cast, check_escape, check_index, check_null, check_time
from ds_dagster.plan.expressions.operators import bind_arithmetic, bind_struct, check_computed_once, shown_type
from ds_dagster.plan.nodes.node import BoundExpression
from ds_dagster.sql.expressions import WRITTEN, FieldAccess, written_as

if TYPE_CHECKING:
    from ds_dagster.plan.expressions.calls import Aggregates

__all__ = [
    "BOUND_NODES",
    "ExpressionBinder",
    "Typed",
    "cast_type",
    "column",
    "conjunction",
    "conjuncts",
    "widened",
]


class ExpressionBinder:
    """Binds expressions of one clause.

    Args:
        scope: what is visible.
        clause: name of the place in messages (``WHERE``).
        aggregates: collects aggregate calls where they are allowed.
    """

    def __init__(self, scope: Scope, clause: str, aggregates: Aggregates | None = None) -> None:
        self.scope = scope
        self.clause = clause
        self.aggregates = aggregates
        self.windows: Mapping[int, Typed] = MappingProxyType({})

    def bind(self, node: exp.Expression) -> Typed:
        """Bind a tree; the type of a bare NULL stays open."""
        visit = VISITORS.get(type(node))
        if visit is None:
            raise self.refuse("EXPRESSION_NOT_YET", node, what=type(node).__name__.upper())
        return visit(self, node)

    def completed(self, bound: Typed) -> Typed:
        """Hook for subclasses: called with each bound part of a chain of operators."""
        return bound

    def expression(self, node: exp.Expression) -> BoundExpression:
        """Bind a tree whose type must be known. Raises: UserError NULL_WITHOUT_TYPE, all others of this module."""
        bound = self.bind(node)
        if bound.type is None:
            raise self.refuse("NULL_WITHOUT_TYPE", node)
        return BoundExpression(bound.tree, bound.type, bound.nullable)

    def condition(self, node: exp.Expression) -> BoundExpression:
        """Bind a tree that must be BOOLEAN.

        Raises:
            UserError: CONDITION_NOT_BOOLEAN.
        """
        bound = self._boolean(node, self.clause)
        return BoundExpression(bound.tree, BOOLEAN, bound.nullable)

    def refuse(self, condition: str, node: exp.Expression, **params: Any) -> DsError:
        """The error of a condition at a node."""
        return error(condition, span=self.scope.place(node), **params)

    def shown(self, node: exp.Expression) -> str:
        """A short text of a source tree for messages."""
        from ds_dagster.plan.expressions.printing import expression_text

        return expression_text(node, lambda name: name)

    # leaves

    def visit_column(self, node: exp.Column) -> Typed:
        """A column, by its internal name, with its position in the statement."""
        visible_column = self.scope.resolve(node)
        tree = column(visible_column.field)
        position = node.this.meta
        if position:
            tree.this.meta.update(position)
        return Typed(tree, visible_column.type, visible_column.nullable)

    def visit_literal(self, node: exp.Expression) -> Typed:
        """A text or a number."""
        text = str(node.this)
        if node.args.get("is_string"):
            return Typed(exp.Literal(this=text, is_string=True), VARCHAR, False)
        return Typed(exp.Literal(this=text, is_string=False), self._number_type(node, text), False)

    def _number_type(self, node: exp.Expression, text: str) -> DataType:
        if "e" in text.lower():
            if math.isinf(float(text)):
                raise self.refuse("LITERAL_OUT_OF_RANGE", node, value=text)
            return DOUBLE
        whole, _, fraction = text.partition(".")
        if not fraction and "." not in text:
            value = int(whole)
            if value < 2**31:
                return INTEGER
            if value < 2**63:
                return BIGINT
        digits = max(len(whole.lstrip("0")) + len(fraction), 1)
        if digits > MAX_DECIMAL_PRECISION:
            raise self.refuse("LITERAL_OUT_OF_RANGE", node, value=text)
        return decimal(max(digits, len(fraction) or 1), len(fraction))

    def visit_boolean(self, node: exp.Expression) -> Typed:
        """TRUE or FALSE."""
        return Typed(exp.Boolean(this=bool(node.this)), BOOLEAN, False)

    def visit_null(self, _node: exp.Expression) -> Typed:
        """NULL."""
        return Typed(exp.Null(), None, True)

    def visit_paren(self, node: exp.Expression) -> Typed:
        """Parentheses, which stay in the tree; around a column they mean nothing."""
        inner = self.bind(node.this)
        return inner if isinstance(inner.tree, exp.Column) else inner._replace(tree=exp.Paren(this=inner.tree))

    # arithmetic

    def visit_negation(self, node: exp.Expression) -> Typed:
        """``-x``."""
        inner = self.bind(node.this)
        if inner.type is None or not is_numeric(inner.type):
            raise self.refuse("FORM_ARGUMENT_TYPE", node, form="-", types=[shown_type(inner)], expected="-number")
        return Typed(exp.Neg(this=inner.tree), inner.type, inner.nullable)

    def visit_concat(self, node: exp.Expression) -> Typed:
        """``||``, flattened."""
        parts = []
        pending: list[exp.Expression] = [node]
        while pending:
            part = pending.pop()
            if isinstance(part, exp.DPipe):
                pending += [part.expression, part.this]
                continue
            bound = self.bind(part)
            if bound.type is not None and not is_text(bound.type):
                raise self.refuse("OPERATOR_TYPES", part, operator="||", left=shown_type(bound), right="a text")
            parts.append(bound)
        trees = [widened(part, VARCHAR) for part in parts]
        return Typed(exp.Anonymous(this="CONCAT", expressions=trees), VARCHAR, any(part.nullable for part in parts))

    # conditions

    def visit_comparison(self, node: exp.Expression) -> Typed:
        """``= <> < <= > >=`` and IS [NOT] DISTINCT FROM."""
        left, right = self.bind(node.this), self.bind(node.expression)
        operator = str(node.meta.get(WRITTEN) or TEXTS[type(node)])
        check_null(self, node, left, right)
        left, right, type_ = self._comparable(node, left, right, operator)
        if not is_orderable(type_) and isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE):
            raise self.refuse("OPERATOR_TYPES", node, operator=operator, left=type_, right=type_)
        nullable = not isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ) and (left.nullable or right.nullable)
        return Typed(type(node)(this=left.tree, expression=right.tree), BOOLEAN, nullable)

    def _comparable(
        self, node: exp.Expression, left: Typed, right: Typed, operator: str
    ) -> tuple[Typed, Typed, DataType]:
        """Both sides as one type; a text literal compared with a time becomes a time."""
        left, right = self._literal_as(left, right.type, node.this), self._literal_as(right, left.type, node.expression)
        type_ = self._unified([left, right])
        if type_ is None or not is_comparable(type_):
            raise self.refuse("OPERATOR_TYPES", node, operator=operator, left=shown_type(left), right=shown_type(right))
        if left.type is not None and right.type is not None and is_integer(left.type) and is_integer(right.type):
            return left, right, type_
        return (
            Typed(widened(left, type_), type_, left.nullable),
            Typed(widened(right, type_), type_, right.nullable),
            type_,
        )

    def _literal_as(self, value: Typed, wanted: DataType | None, node: exp.Expression) -> Typed:
        is_literal = isinstance(value.tree, exp.Literal) and bool(value.tree.args.get("is_string"))
        if not is_literal or not isinstance(wanted, Scalar) or wanted.name not in TIMES:
            return value
        check_time(self, node, str(value.tree.this), wanted)
        return Typed(converted(value, wanted), wanted, False)

    def _unified(self, values: Sequence[Typed]) -> DataType | None:
        """The type all values widen to; a bare NULL fits every type; None if there is no such type."""
        type_: DataType | None = None
        for value in values:
            if value.type is None:
                continue
            type_ = value.type if type_ is None else common_type(type_, value.type)
            if type_ is None:
                return None
        return type_

    def unify(
        self, node: exp.Expression, values: Sequence[Typed], what: str
    ) -> tuple[list[exp.Expression], DataType | None]:
        """Trees of values as their common type (None: all are NULL).

        Raises:
            UserError: BRANCH_TYPES_DIFFER.
        """
        type_ = self._unified(values)
        if type_ is None:
            types = list(dict.fromkeys(str(value.type) for value in values if value.type is not None))
            if types:
                raise self.refuse("BRANCH_TYPES_DIFFER", node, what=what, types=types)
            return [value.tree for value in values], None
        return [widened(value, type_) for value in values], type_

    def _boolean(self, node: exp.Expression, clause: str) -> Typed:
        bound = self.bind(node)
        if bound.type is None:
            return Typed(widened(bound, BOOLEAN), BOOLEAN, True)
        if bound.type != BOOLEAN:
            raise self.refuse("CONDITION_NOT_BOOLEAN", node, clause=clause, type=bound.type)
        return bound

    def visit_connector(self, node: exp.Expression) -> Typed:
        """AND, OR."""
        name = "AND" if isinstance(node, exp.And) else "OR"
        left, right = self._boolean(node.this, name), self._boolean(node.expression, name)
        return Typed(type(node)(this=left.tree, expression=right.tree), BOOLEAN, left.nullable or right.nullable)

    def visit_not(self, node: exp.Expression) -> Typed:
        """NOT."""
        inner = self._boolean(node.this, "NOT")
        return Typed(exp.Not(this=inner.tree), BOOLEAN, inner.nullable)

    def visit_is(self, node: exp.Expression) -> Typed:
        """IS NULL, IS TRUE, IS FALSE."""
        value = self.bind(node.this)
        if isinstance(node.expression, exp.Boolean) and value.type not in (BOOLEAN, None):
            raise self.refuse("CONDITION_NOT_BOOLEAN", node, clause="IS TRUE / IS FALSE", type=value.type)
        return Typed(exp.Is(this=value.tree, expression=node.expression.copy()), BOOLEAN, False)

    def visit_in(self, node: exp.Expression) -> Typed:
        """``IN (…)``."""
        if node.args.get("query"):
            raise self.refuse("SUBQUERY_MISPLACED", node, clause=self.clause)
        first = self.bind(node.this)
        values = [first, *(self._literal_as(self.bind(item), first.type, item) for item in node.expressions)]
        trees, type_ = self.unify(node, values, "the values of IN")
        if type_ is not None and not is_comparable(type_):
            raise self.refuse("OPERATOR_TYPES", node, operator="IN", left=type_, right=type_)
        return Typed(exp.In(this=trees[0], expressions=trees[1:]), BOOLEAN, any(value.nullable for value in values))

    def visit_between(self, node: exp.Expression) -> Typed:
        """BETWEEN."""
        value = self.bind(node.this)
        bounds = [self._literal_as(self.bind(node.args[part]), value.type, node.args[part]) for part in ("low", "high")]
        trees, type_ = self.unify(node, [value, *bounds], "the sides of BETWEEN")
        if type_ is not None and not is_orderable(type_):
            raise self.refuse("OPERATOR_TYPES", node, operator="BETWEEN", left=type_, right=type_)
        nullable = any(part.nullable for part in (value, *bounds))
        return Typed(exp.Between(this=trees[0], low=trees[1], high=trees[2]), BOOLEAN, nullable)

    def visit_like(self, node: exp.Expression) -> Typed:
        """LIKE; ILIKE is LIKE of both sides in lower case."""
        value, pattern = self.bind(node.this), self.bind(node.expression)
        for side in (value, pattern):
            if side.type is not None and not is_text(side.type):
                left, right = shown_type(value), shown_type(pattern)
                raise self.refuse("OPERATOR_TYPES", node, operator=TEXTS[type(node)], left=left, right=right)
        text, like = widened(value, VARCHAR), widened(pattern, VARCHAR)
        if isinstance(node, exp.ILike):
            text, like = lowered(text), lowered(like)
        return Typed(exp.Like(this=text, expression=like), BOOLEAN, value.nullable or pattern.nullable)

    def visit_escape(self, node: exp.Expression) -> Typed:
        """LIKE … ESCAPE."""
        inner = self.bind(node.this)
        escape = lowered(node.expression) if isinstance(node.this, exp.ILike) else node.expression.copy()
        check_escape(self, node, inner.tree.expression, str(escape.this))
        return Typed(exp.Escape(this=inner.tree, expression=escape), BOOLEAN, inner.nullable)

    def visit_case(self, node: exp.Expression) -> Typed:
        """Both forms of CASE."""
        conditions = [self._case_condition(node, branch) for branch in node.args["ifs"]]
        values = [self.bind(branch.args["true"]) for branch in node.args["ifs"]]
        values.append(self.bind(node.args.get("default") or exp.Null()))
        trees, type_ = self.unify(node, values, "the branches of CASE")
        ifs = [exp.If(this=condition, true=tree) for condition, tree in zip(conditions, trees, strict=False)]
        return Typed(exp.Case(ifs=ifs, default=trees[-1]), type_, any(value.nullable for value in values))

    def _case_condition(self, case: exp.Expression, branch: exp.Expression) -> exp.Expression:
        subject = case.this
        if subject is None:
            return self._boolean(branch.this, "WHEN").tree
        check_computed_once(self, subject)
        equality = exp.EQ(this=subject.copy(), expression=branch.this.copy())
        return self.visit_comparison(written_as("CASE … WHEN", equality)).tree

    # conversions and parts

    def visit_cast(self, node: exp.Expression) -> Typed:
        """CAST and TRY_CAST."""
        value, target = self.bind(node.this), cast_type(node)
        if value.type is not None and not can_cast(value.type, target):
            numeric_time = is_numeric(value.type) and is_temporal(target)
            fix = (
                "write TO_TIMESTAMP_LTZ(value, 3) for epoch milliseconds"
                if numeric_time
                else "convert it in two steps or select its parts"
            )
            raise self.refuse("CAST_IMPOSSIBLE", node, source=value.type, target=target, fix=fix)
        literal = isinstance(value.tree, exp.Literal) and bool(value.tree.args.get("is_string"))
        safe = isinstance(node, exp.TryCast)
        if literal and not safe and isinstance(target, Scalar):
            check_cast(self, node, str(value.tree.this), target)
        return Typed(converted(value, target, safe=safe), target, safe or value.nullable)

    def visit_field(self, node: exp.Expression) -> Typed:
        """``struct->field``."""
        return self._field(node, self.bind(node.this), node.expression.name, "->")

    def _field(self, node: exp.Expression, value: Typed, name: str, operation: str) -> Typed:
        if not isinstance(value.type, StructType):
            raise self.refuse("NOT_A_STRUCT", node, type=shown_type(value), operation=operation, name=name)
        field = value.type.field(name)
        if field is None:
            nearest = did_you_mean(name, [part.name for part in value.type.fields])
            raise self.refuse(
                "UNKNOWN_FIELD",
                node.expression if operation == "->" else node,
                name=name,
                type=value.type,
                nearest=nearest,
            )
        tree = FieldAccess(this=value.tree, expression=exp.Identifier(this=field.name, quoted=True))
        return Typed(tree, field.type, True)

    def visit_bracket(self, node: exp.Expression) -> Typed:
        """``array[n]``, ``map[key]``, ``struct['field']``."""
        value = self.bind(node.this)
        key = node.expressions[0]
        if isinstance(value.type, StructType) and isinstance(key, exp.Literal) and key.args.get("is_string"):
            return self._field(node, value, str(key.this), "[ ]")
        index = self.bind(key)
        check_index(self, key, value.type, index.tree)
        if isinstance(value.type, ArrayType) and index.type is not None and is_integer(index.type):
            element: DataType = value.type.element
        elif (
            isinstance(value.type, MapType)
            and index.type is not None
            and common_type(index.type, value.type.key) == value.type.key
        ):
            element, index = value.type.value, Typed(widened(index, value.type.key), value.type.key, index.nullable)
        elif isinstance(value.type, ArrayType | MapType):
            expected = value.type.key if isinstance(value.type, MapType) else "a key"
            raise self.refuse("INDEX_TYPE", key, type=value.type, index=shown_type(index), expected=expected)
        else:
            raise self.refuse("NOT_INDEXABLE", node, type=shown_type(value))
        return Typed(exp.Bracket(this=value.tree, expressions=[index.tree]), element, True)

    def visit_array(self, node: exp.Expression) -> Typed:
        """``ARRAY[…]``."""
        trees, type_ = self.unify(node, [self.bind(item) for item in node.expressions], "the elements of ARRAY")
        if type_ is None:
            raise self.refuse("NULL_WITHOUT_TYPE", node)
        return Typed(exp.Array(expressions=trees), ArrayType(type_), False)

    def visit_window(self, node: exp.Expression) -> Typed:
        """``f() OVER (…)``, bound by plan/binding/over.py before; refused in other clauses."""
        bound = self.windows.get(id(node))
        if bound is None:
            raise self.refuse("OVER_MISPLACED", node, clause=self.clause)
        return bound

    def visit_query(self, node: exp.Expression) -> Typed:
        """The value of a sub-select that is joined already; refused elsewhere."""
        value = self.scope.values.get(id(node))
        if value is not None:
            return value
        raise self.refuse("SUBQUERY_MISPLACED", node, clause=self.clause)

    # calls: see plan/expressions/calls.py

    def visit_call(self, node: exp.Expression) -> Typed:
        """A function."""
        from ds_dagster.plan.expressions.calls import bind_call

        return bind_call(self, node)

    def visit_aggregate(self, node: exp.Expression) -> Typed:
        """An aggregate."""
        from ds_dagster.plan.expressions.calls import bind_aggregate

        return bind_aggregate(self, node)


Visitor = Callable[[ExpressionBinder, Any], Typed]
VISITORS: dict[type[exp.Expression], Visitor] = {
    exp.Column: ExpressionBinder.visit_column,
    exp.Literal: ExpressionBinder.visit_literal,
    exp.Boolean: ExpressionBinder.visit_boolean,
    exp.Null: ExpressionBinder.visit_null,
    exp.Paren: ExpressionBinder.visit_paren,
    exp.Neg: ExpressionBinder.visit_negation,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), bind_arithmetic),
    exp.DPipe: ExpressionBinder.visit_concat,
    **dict.fromkeys(
        (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
        ExpressionBinder.visit_comparison,
    ),
    exp.And: ExpressionBinder.visit_connector,
    exp.Or: ExpressionBinder.visit_connector,
    exp.Not: ExpressionBinder.visit_not,
    exp.Is: ExpressionBinder.visit_is,
    exp.In: ExpressionBinder.visit_in,
    exp.Between: ExpressionBinder.visit_between,
    **dict.fromkeys((exp.Like, exp.ILike), ExpressionBinder.visit_like),
    exp.Escape: ExpressionBinder.visit_escape,
    exp.Case: ExpressionBinder.visit_case,
    exp.Cast: ExpressionBinder.visit_cast,
    exp.TryCast: ExpressionBinder.visit_cast,
    FieldAccess: ExpressionBinder.visit_field,
    exp.Bracket: ExpressionBinder.visit_bracket,
    exp.Array: ExpressionBinder.visit_array,
    exp.Struct: bind_struct,
    **dict.fromkeys((exp.Anonymous, exp.Coalesce, exp.Trim, exp.Extract), ExpressionBinder.visit_call),
    **dict.fromkeys((exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Filter), ExpressionBinder.visit_aggregate),
    **dict.fromkeys((exp.VariancePop, exp.Variance, exp.StddevPop, exp.StddevSamp), ExpressionBinder.visit_aggregate),
    exp.ArrayAgg: ExpressionBinder.visit_aggregate,
    exp.Window: ExpressionBinder.visit_window,
    **dict.fromkeys((exp.Subquery, exp.Exists), ExpressionBinder.visit_query),
}
"""Source node → method that binds it; other nodes are refused (EXPRESSION_NOT_YET)."""
