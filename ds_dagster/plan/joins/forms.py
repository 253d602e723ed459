"""The form of a join depends on the kinds of its sides and on ON: equalities between the sides, and other conditions.
The other conditions become a filter above an INNER JOIN, or a part of an outer join (``residual``)."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from ds_dagster.catalog.declaring.inference import QueryChoices
from ds_dagster.errors import error
from ds_dagster.plan.binding.scope import Scope
from ds_dagster.plan.binding.sources import Planned
from ds_dagster.plan.checks.joins import check_within, join_form
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.field_names import column_of
from ds_dagster.plan.joins.conditions import JoinKey, On, bind_on, condition_of
from ds_dagster.plan.nodes.delta import DeltaJoin
from ds_dagster.plan.nodes.join import DEFAULT_RETENTION_MILLIS, IntervalJoin, JoinKind, TemporalJoin
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.nodes.rows import Filter
from ds_dagster.plan.nodes.weights import weighted
from ds_dagster.plan.nodes.window_join import WindowJoin


def bind_join(scope: Scope, left: Node, right: Planned, join: exp.Expression, choices: QueryChoices) -> Node:
    """Join ``left``, the sources bound so far, with one more source; adds the source to the scope.

    Raises:
        UserError: INTERVAL_JOIN_WITHOUT_WITHIN, WITHIN_ON_TEMPORAL_JOIN, JOIN_CONDITION, JOIN_KEY_….
        NotYetError: JOIN_FULL_NOT_YET, JOIN_KINDS, JOIN_RESIDUAL, STATEFUL_CHAIN.
    """
    builder = _Join(scope, left, right, join)
    ends = builder.ends()
    if ends is not None:
        return builder.window(*ends)
    names = (scope.sources[-1].shown, right.source.shown)
    form = join_form(left, right.node, names, builder.span)
    check_within(form, builder.within, names, builder.span)
    if form == "changelog":
        return builder.changelog()
    for side in (left, right.node):
        check_over("a join of streams" if form == "interval" else "a temporal join", side, builder.span)
    return builder.interval() if form == "interval" else builder.temporal(choices)


class _Join:
    """Builds the node of one JOIN."""

    def __init__(self, scope: Scope, left: Node, right: Planned, join: exp.Expression) -> None:
        self.scope = scope
        self.left = left
        self.right = right
        self.join = join
        self.span = scope.place(join)
        self.within: int | None = join.args.get("within")
        self.kind: JoinKind = _KINDS.get(str(join.args.get("side") or "").upper(), "inner")
        self.names = (scope.sources[-1].shown, right.source.shown)
        self._on: On | None = None

    @property
    def on(self) -> On:
        """ON, bound once; adds the right source to the scope."""
        if self._on is None:
            left_fields = frozenset(field.name for field in self.left.output)
            self.scope.add(self.right.source, self.join.this)
            self._on = bind_on(self.scope, self.join, left_fields, self.right)
        return self._on

    # forms

    def ends(self) -> tuple[str, str] | None:
        """The ends of windows that ON sets equal; None without such an equality, with WITHIN, or if a side has no
        windows."""
        if self.within is not None:
            return None
        ends = [frozenset(b.end for b in side.windows) for side in (self.left, self.right.node)]
        if not all(ends):
            return None
        pairs = ((key.left_field, key.right_field) for key in self.on.keys)
        return next(((left, right) for left, right in pairs if left in ends[0] and right in ends[1]), None)

    def window(self, left_end: str, right_end: str) -> Node:
        """Rows in the same window."""
        on = self.on
        rest = [key for key in on.keys if (key.left_field, key.right_field) != (left_end, right_end)]
        if on.others and self.kind != "inner":
            raise error("JOIN_RESIDUAL", span=self.span, kind=self.kind.upper(), what="rows of a window")
        node = WindowJoin(self.left, self.right.node, self.kind, _lefts(rest), _rights(rest), left_end, right_end)
        return self._done(node, on.others)

    def interval(self) -> Node:
        """Stream ⋈ stream."""
        assert self.within is not None
        on = self.on
        residual = None if self.kind == "inner" else condition_of(self.scope, on.others)
        node = IntervalJoin(
            self.left, self.right.node, self.kind, _lefts(on.keys), _rights(on.keys), self.within, residual
        )
        return self._done(node, on.others)

    def temporal(self, choices: QueryChoices) -> Node:
        """Stream ⋈ changelog by its primary key; other equalities are conditions on the version."""
        if self.kind == "full":
            raise error("JOIN_FULL_NOT_YET", span=self.span, left=self.names[0], right=self.names[1])
        on = self.on
        keys = self._primary(on.keys)
        others = (*(key.written for key in on.keys if key not in keys), *on.others)
        mode = self.right.choices.temporal_mode or choices.temporal_mode
        retention = self.right.choices.temporal_retention_millis
        retention = choices.temporal_retention_millis if retention is None else retention
        node = TemporalJoin(
            self.left,
            self.right.node,
            self.kind,
            _lefts(keys),
            _rights(keys),
            immediate=mode == "immediate",
            retention_millis=DEFAULT_RETENTION_MILLIS if retention is None else retention,
            residual=None if self.kind == "inner" else condition_of(self.scope, others),
        )
        return self._done(node, others)

    def changelog(self) -> Node:
        """Changelog ⋈ changelog."""
        check_over("a step", self.left, self.span)
        check_over("a step", self.right.node, self.span)
        on = self.on
        residual = None if self.kind == "inner" else condition_of(self.scope, on.others)
        left, right = weighted(self.left), weighted(self.right.node)
        node = DeltaJoin(left, right, self.kind, _lefts(on.keys), _rights(on.keys), residual)
        return self._done(node, on.others)

    # parts

    def _primary(self, keys: tuple[JoinKey, ...]) -> tuple[JoinKey, ...]:
        """The equalities with the primary key of the changelog, in its order."""
        primary = self.right.relation.primary_key
        span = self.scope.place(self.join.args["on"])
        fields = {self.right.source.columns[name].field: name for name in primary}
        by_name = {fields[key.right_field]: key for key in reversed(keys) if key.right_field in fields}
        shown = self.right.source.shown
        missing = [name for name in primary if name not in by_name]
        if missing and by_name:
            alias = self.right.source.alias
            raise error("JOIN_KEY_COMPOSITE", span=span, right=shown, missing=missing, example=f"{alias}.{missing[0]}")
        if missing:
            joined_column = column_of(keys[0].right_field) or "an expression"
            raise error("JOIN_KEY_NOT_PRIMARY", span=span, column=joined_column, right=shown, key=primary)
        return tuple(by_name[name] for name in primary)

    def _done(self, node: Node, others: tuple[exp.Expression, ...]) -> Node:
        """The node with the filter of an INNER JOIN; marks sources in the scope whose columns may be NULL."""
        if self.kind == "inner":
            condition = condition_of(self.scope, others)
            return node if condition is None else Filter(node, condition)
        self.scope.sources[-1] = self.right.source.nullable()
        if self.kind == "full":
            self.scope.sources[:-1] = [source.nullable() for source in self.scope.sources[:-1]]
        return node


_KINDS: dict[str, JoinKind] = {"LEFT": "left", "FULL": "full"}


def _lefts(keys: Iterable[JoinKey]) -> tuple[BoundExpression, ...]:
    return tuple(key.left for key in keys)


def _rights(keys: Iterable[JoinKey]) -> tuple[BoundExpression, ...]:
    return tuple(key.right for key in keys)
