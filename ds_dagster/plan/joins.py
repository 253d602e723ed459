"""Joins: the form follows from the kinds of the sides, ON is one equality of a column on each side."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from ds_dagster.catalog.inference import QueryChoices
from ds_dagster.datatypes import common_type, is_primitive
from ds_dagster.errors import DsError, error
from ds_dagster.plan.check_joins import check_chain, check_weights, check_within, join_form
from ds_dagster.plan.delta_nodes import DeltaJoin, DeltaJoinKind
from ds_dagster.plan.expressions import ExpressionBinder, Typed, widened
from ds_dagster.plan.nodes import (
    DEFAULT_RETENTION_MILLIS,
    BoundExpression,
    Filter,
    IntervalJoin,
    JoinKind,
    Node,
    Scan,
    TemporalJoin,
    Window,
)
from ds_dagster.plan.scope import Scope
from ds_dagster.plan.sources import Planned
from ds_dagster.plan.weights import weighted


class JoinKey(NamedTuple):
    """Both sides of ON, already of one type; ``right_column`` is the name of the right one as seen by the query."""

    left: BoundExpression
    right: BoundExpression
    right_column: str


def bind_join(scope: Scope, left: Node, right: Planned, join: exp.Expression, choices: QueryChoices) -> Node:
    """Join what is bound so far with one more source; adds the source to the scope.

    Raises:
        UserError: INTERVAL_JOIN_WITHOUT_WITHIN, WITHIN_ON_TEMPORAL_JOIN, JOIN_CONDITION, JOIN_KEY_….
        NotYetError: JOIN_FULL_NOT_YET, JOIN_KINDS, JOIN_KEY_COMPOSITE, WINDOW_IN_JOIN, STATEFUL_CHAIN.
    """
    span = scope.place(join)
    names = (scope.sources[-1].shown, right.source.shown)
    if right.window is not None or (left.changelog == "append" and _has_window(left)):
        raise error("WINDOW_IN_JOIN", span=span)
    form = join_form(left, right.node, names, span)
    within = join.args.get("within")
    check_within(form, within, names, span)
    if form == "changelog":
        return _changelog_join(scope, left, right, join)
    kind = _kind(join, names, scope)
    upper = "temporal join" if form == "temporal" else ("LEFT interval join" if kind == "left" else "interval join")
    check_chain(upper, left, span)
    check_chain(upper, right.node, span)
    left_fields = frozenset(field.name for field in left.output)
    scope.add(right.source, join.this)
    condition = _unwrapped(join.args["on"])
    key = _key(scope, join, condition, left_fields, right)
    if kind == "left":
        scope.sources[-1] = right.source.nullable()
    if form == "interval":
        assert isinstance(within, int)
        return IntervalJoin(left, right.node, kind, key.left, key.right, within)
    return _temporal_join(scope, left, right, join, kind, key, choices)


def _has_window(node: Node) -> bool:
    return any(isinstance(below, Window) for below in node.walk())


def _temporal_join(
    scope: Scope, left: Node, right: Planned, join: exp.Expression, kind: JoinKind, key: JoinKey, choices: QueryChoices
) -> TemporalJoin:
    _check_primary_key(scope, join, right, key)
    mode = right.choices.temporal_mode or choices.temporal_mode
    retention = right.choices.temporal_retention_millis
    retention = choices.temporal_retention_millis if retention is None else retention
    return TemporalJoin(
        left,
        right.node,
        kind,
        key.left,
        key.right,
        immediate=mode == "immediate",
        retention_millis=DEFAULT_RETENTION_MILLIS if retention is None else retention,
    )


def _changelog_join(scope: Scope, left: Node, right: Planned, join: exp.Expression) -> Node:
    """Changelog ⋈ changelog: any number of equalities; what else an INNER JOIN asks is a filter above it."""
    span = scope.place(join)
    check_weights(left, span)
    check_weights(right.node, span)
    kind = _changelog_kind(join)
    left_fields = frozenset(field.name for field in left.output)
    scope.add(right.source, join.this)
    keys, others = [], []
    for condition in _conjuncts(join.args["on"]):
        sides = _sides(scope, condition, left_fields)
        if sides is None:
            others.append(condition)
        else:
            keys.append(_key(scope, join, condition, left_fields, right))
    if not keys or (others and kind != "inner"):
        raise _refused(scope, join, right)
    left_keys, right_keys = tuple(key.left for key in keys), tuple(key.right for key in keys)
    node: Node = DeltaJoin(weighted(left), weighted(right.node), kind, left_keys, right_keys)
    for condition in others:
        node = Filter(node, ExpressionBinder(scope, "ON").condition(condition))
    if kind != "inner":
        scope.sources[-1] = right.source.nullable()
    if kind == "full":
        scope.sources[:-1] = [source.nullable() for source in scope.sources[:-1]]
    return node


def _changelog_kind(join: exp.Expression) -> DeltaJoinKind:
    kinds: dict[str, DeltaJoinKind] = {"FULL": "full", "LEFT": "left"}
    return kinds.get(str(join.args.get("side") or "").upper(), "inner")


def _kind(join: exp.Expression, names: tuple[str, str], scope: Scope) -> JoinKind:
    side = str(join.args.get("side") or "").upper()
    if side == "FULL":
        raise error("JOIN_FULL_NOT_YET", span=scope.place(join), left=names[0], right=names[1])
    return "left" if side == "LEFT" else "inner"


def _unwrapped(condition: exp.Expression) -> exp.Expression:
    while isinstance(condition, exp.Paren):
        condition = condition.this
    return condition


def _conjuncts(condition: exp.Expression) -> list[exp.Expression]:
    """The parts of an AND, left to right."""
    inner = _unwrapped(condition)
    if isinstance(inner, exp.And):
        return [*_conjuncts(inner.this), *_conjuncts(inner.expression)]
    return [inner]


def _sides(
    scope: Scope, condition: exp.Expression, left_fields: frozenset[str]
) -> tuple[exp.Expression, exp.Expression] | None:
    """The columns of an equality, that of the left first; None for any other condition."""
    sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else ()
    if len(sides) != 2 or not all(isinstance(side, exp.Column) for side in sides):
        return None
    binder = ExpressionBinder(scope, "ON")
    on_left = [next(iter(binder.expression(side).columns())) in left_fields for side in sides]
    if on_left[0] == on_left[1]:
        return None
    return (sides[0], sides[1]) if on_left[0] else (sides[1], sides[0])


def _key(
    scope: Scope, join: exp.Expression, condition: exp.Expression, left_fields: frozenset[str], right: Planned
) -> JoinKey:
    sides = _sides(scope, condition, left_fields)
    if sides is None:
        raise _refused(scope, join, right)
    binder = ExpressionBinder(scope, "ON")
    left, right_ = binder.expression(sides[0]), binder.expression(sides[1])
    common = common_type(left.type, right_.type)
    if common is None:
        shown = [binder.shown(side) for side in sides]
        raise binder.refuse(
            "JOIN_KEY_TYPES", condition, left=shown[0], left_type=left.type, right=shown[1], right_type=right_.type
        )
    if not is_primitive(common):
        raise binder.refuse("JOIN_KEY_NESTED", condition, type=common)
    made = [
        BoundExpression(widened(Typed(side.tree, side.type, side.nullable), common), common, side.nullable)
        for side in (left, right_)
    ]
    return JoinKey(made[0], made[1], sides[1].name)


def _refused(scope: Scope, join: exp.Expression, right: Planned) -> DsError:
    left = scope.sources[0]
    common = [name for name in left.columns if name in right.source.columns]
    keys = right.relation.primary_key if isinstance(right.node, Scan) else ()
    name = next((key for key in (*keys, *common)), "column")
    example = f"{left.alias}.{name} = {right.source.alias}.{name}"
    return error("JOIN_CONDITION", span=scope.place(join.args["on"]), right=right.source.shown, example=example)


def _check_primary_key(scope: Scope, join: exp.Expression, right: Planned, key: JoinKey) -> None:
    primary = right.relation.primary_key
    span = scope.place(join.args["on"])
    if len(primary) > 1:
        raise error("JOIN_KEY_COMPOSITE", span=span, right=right.source.shown, key=primary)
    if primary != (key.right_column,):
        raise error("JOIN_KEY_NOT_PRIMARY", span=span, column=key.right_column, right=right.source.shown, key=primary)
