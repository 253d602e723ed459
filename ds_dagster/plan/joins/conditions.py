"""ON of a join: the equalities that make its key, and the other conditions."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from ds_dagster.datatypes import common_type, is_hashable
from ds_dagster.errors import DsError, error
from ds_dagster.plan.binding.scope import Scope
from ds_dagster.plan.binding.sources import Planned
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed, conjunction, widened
from ds_dagster.plan.nodes.node import BoundExpression
from ds_dagster.plan.nodes.reading import plain_name
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.sql.expressions import without_parentheses


class JoinKey(NamedTuple):
    """Both sides of an equality, cast to one type. ``left_field``, ``right_field``: internal name of a side that is a
    plain column, else empty. ``written``: the condition."""

    left: BoundExpression
    right: BoundExpression
    left_field: str
    right_field: str
    written: exp.Expression


class On(NamedTuple):
    """ON, taken apart: at least one equality of an expression over each side, and all other conditions."""

    keys: tuple[JoinKey, ...]
    others: tuple[exp.Expression, ...]


def bind_on(scope: Scope, join: exp.Expression, left_fields: frozenset[str], right: Planned) -> On:
    """Take ON apart; both sides are in the scope already.

    Raises:
        UserError: JOIN_CONDITION, JOIN_KEY_TYPES, JOIN_KEY_NESTED, and those of expressions.
    """
    keys, others = [], []
    for condition in _conjuncts(join.args["on"]):
        sides = _sides(scope, condition, left_fields)
        if sides is None:
            others.append(condition)
        else:
            keys.append(_key(scope, condition, sides))
    if not keys:
        raise _refused(scope, join, right)
    return On(tuple(keys), tuple(others))


def condition_of(scope: Scope, conditions: tuple[exp.Expression, ...]) -> BoundExpression | None:
    """All conditions as one; None without any."""
    bound = [ExpressionBinder(scope, "ON").condition(condition) for condition in conditions]
    return conjunction(bound) if bound else None


def _refused(scope: Scope, join: exp.Expression, right: Planned) -> DsError:
    """JOIN_CONDITION with an example of the sides' columns."""
    left = scope.sources[0]
    common = [name for name in left.columns if name in right.source.columns]
    keys = right.relation.primary_key if isinstance(right.node, Scan) else ()
    name = next((key for key in (*keys, *common)), "column")
    example = f"{left.alias}.{name} = {right.source.alias}.{name}"
    return error("JOIN_CONDITION", span=scope.place(join.args["on"]), right=right.source.shown, example=example)


def _conjuncts(condition: exp.Expression) -> list[exp.Expression]:
    """The parts of an AND, left to right."""
    condition = without_parentheses(condition)
    if isinstance(condition, exp.And):
        return [*_conjuncts(condition.this), *_conjuncts(condition.expression)]
    return [condition]


def _sides(
    scope: Scope, condition: exp.Expression, left_fields: frozenset[str]
) -> tuple[exp.Expression, exp.Expression] | None:
    """The sides of an equality, the left input's first; None for any other condition."""
    if not isinstance(condition, exp.EQ):
        return None
    sides = (condition.this, condition.expression)
    binder = ExpressionBinder(scope, "ON")
    read = [binder.expression(side).columns() for side in sides]
    if not all(read):
        return None
    on_left = [columns <= left_fields for columns in read]
    on_right = [not columns & left_fields for columns in read]
    if on_left[0] and on_right[1]:
        return sides
    return (sides[1], sides[0]) if on_left[1] and on_right[0] else None


def _key(scope: Scope, condition: exp.Expression, sides: tuple[exp.Expression, exp.Expression]) -> JoinKey:
    binder = ExpressionBinder(scope, "ON")
    left, right = (binder.expression(side) for side in sides)
    common = common_type(left.type, right.type)
    if common is None:
        shown = [binder.shown(side) for side in sides]
        raise binder.refuse(
            "JOIN_KEY_TYPES", condition, left=shown[0], left_type=left.type, right=shown[1], right_type=right.type
        )
    if not is_hashable(common):
        raise binder.refuse("JOIN_KEY_NESTED", condition, type=common)
    operands = [
        BoundExpression(widened(Typed(side.tree, side.type, side.nullable), common), common, side.nullable)
        for side in (left, right)
    ]
    return JoinKey(operands[0], operands[1], plain_name(left), plain_name(right), condition)
