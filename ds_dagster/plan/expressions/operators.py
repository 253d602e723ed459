"""``+ - * / %``, also chains of them, and STRUCT(…): their binding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ds_dagster.datatypes import (
    BIGINT,
    INTEGERS,
    Scalar,
    StructField,
    StructType,
    common_type,
    decimal,
    is_temporal,
    is_text,
)
from ds_dagster.functions.operators import TEXTS
from ds_dagster.plan.expressions.arithmetic import arithmetic_type
from ds_dagster.plan.expressions.bound_trees import Typed, changes, widened
from ds_dagster.plan.expressions.constants import check_divisor
from ds_dagster.sql.expressions import ARITHMETIC

if TYPE_CHECKING:
    from ds_dagster.plan.expressions.binder import ExpressionBinder

MOST_PRODUCTS = 200
"""Most operators other than + and - in one chain: Spark walks their tree with recursion."""


def shown_type(value: Typed) -> str:
    """The type of a value for messages; NULL without one."""
    return "NULL" if value.type is None else str(value.type)


def check_computed_once(binder: ExpressionBinder, subject: exp.Expression) -> None:
    """Refuse a subject of CASE that has another value each time it is computed: every branch computes it again."""
    if changes(binder.bind(subject).tree):
        instead = "it in a sub-select: SELECT CASE x WHEN … END FROM (SELECT RAND_INTEGER(3) AS x FROM …)"
        raise binder.refuse("FORM_INSTEAD", subject, written="CASE of a value that changes", instead=instead)


def bind_struct(binder: ExpressionBinder, node: exp.Expression) -> Typed:
    """``STRUCT(value AS name, …)``."""
    names = [str(item.alias) for item in node.expressions]
    values = [binder.expression(item.this) for item in node.expressions]
    fields_of_struct = [
        exp.Alias(this=value.tree, alias=exp.Identifier(this=name, quoted=True))
        for name, value in zip(names, values, strict=True)
    ]
    fields = tuple(StructField(name, value.type) for name, value in zip(names, values, strict=True))
    return Typed(exp.Struct(expressions=fields_of_struct), StructType(fields), False)


def bind_arithmetic(binder: ExpressionBinder, node: exp.Expression) -> Typed:
    """``+ - * / %``; a chain is bound without recursion on the left.

    Raises:
        UserError: OPERATOR_TYPES, DIVISION_BY_ZERO, SYNTAX_TOO_DEEP. UnsupportedError: FORM_INSTEAD.
    """
    chain = [node]
    while isinstance(chain[-1].this, ARITHMETIC):
        chain.append(chain[-1].this)
    if sum(not isinstance(operation, exp.Add | exp.Sub) for operation in chain) > MOST_PRODUCTS:
        raise binder.refuse("SYNTAX_TOO_DEEP", node, limit=MOST_PRODUCTS)
    total = None if isinstance(chain[-1].this, exp.Interval) else binder.bind(chain[-1].this)
    for operation in reversed(chain):
        total = binder.completed(_calculated(binder, operation, total))
    assert total is not None
    return total


def _calculated(binder: ExpressionBinder, node: exp.Expression, first: Typed | None) -> Typed:
    """One operator over its bound left side; ``first`` None: the left side is an INTERVAL."""
    if first is None or isinstance(node.expression, exp.Interval):
        return _moved_in_time(binder, node, first)
    left, right = first, binder.bind(node.expression)
    operator = TEXTS[type(node)]
    type_ = arithmetic_type(operator, left.type, right.type) if left.type and right.type else None
    if operator == "+" and all(side.type is not None and is_text(side.type) for side in (left, right)):
        instead = f"{binder.shown(node.this)} || {binder.shown(node.expression)}"
        raise binder.refuse("FORM_INSTEAD", node, written="+ of texts", instead=instead)
    if operator == "-" and all(side.type is not None and is_temporal(side.type) for side in (left, right)):
        instead = f"TIMESTAMPDIFF(SECOND, {binder.shown(node.expression)}, {binder.shown(node.this)})"
        raise binder.refuse("FORM_INSTEAD", node, written="- of times", instead=instead)
    if type_ is None:
        shown = {"left": shown_type(left), "right": shown_type(right)}
        raise binder.refuse("OPERATOR_TYPES", node, operator=operator, **shown)
    if isinstance(node, exp.Div | exp.Mod):
        check_divisor(binder, node, right.tree, type_)
    nullable = left.nullable or right.nullable
    operand, other = _operands(left, right, type_)
    if isinstance(node, exp.Mod):
        return Typed(exp.Anonymous(this="MOD", expressions=[operand, other]), type_, nullable)
    if isinstance(node, exp.Div) and type_.name in INTEGERS:
        whole = Typed(exp.IntDiv(this=operand, expression=other), BIGINT, nullable)
        return Typed(widened(whole, type_), type_, nullable)
    return Typed(type(node)(this=operand, expression=other), type_, nullable)


def _operands(left: Typed, right: Typed, result: Scalar) -> tuple[exp.Expression, exp.Expression]:
    """Both sides converted for a result: whole numbers become DECIMAL for a DECIMAL, all numbers the float for a
    float."""
    if result.name == "DECIMAL":
        return _as_decimal(left), _as_decimal(right)
    if result.name in INTEGERS:
        return left.tree, right.tree
    return widened(left, result), widened(right, result)


def _as_decimal(value: Typed) -> exp.Expression:
    type_ = value.type
    target = common_type(type_, decimal(1, 0)) if isinstance(type_, Scalar) and type_.name != "DECIMAL" else None
    return value.tree if target is None else widened(value, target)


def _moved_in_time(binder: ExpressionBinder, node: exp.Expression, first: Typed | None) -> Typed:
    amount = node.this if first is None else node.expression
    value = binder.bind(node.expression) if first is None else first
    fits = value.type is not None and (is_temporal(value.type) or value.type == Scalar("DATE"))
    if not fits or not isinstance(node, exp.Add | exp.Sub) or (isinstance(node, exp.Sub) and first is None):
        shown = {"operator": TEXTS[type(node)], "left": shown_type(value), "right": "INTERVAL"}
        raise binder.refuse("OPERATOR_TYPES", node, **shown)
    return Typed(type(node)(this=value.tree, expression=amount.copy()), value.type, value.nullable)
