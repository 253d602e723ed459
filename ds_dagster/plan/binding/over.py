"""``f(…) OVER (PARTITION BY … ORDER BY …)`` in a SELECT list: its binding, and the plan node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, BOOLEAN, DataType, is_hashable, is_orderable
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.plan.binding.running import RunningCalls, is_running
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed, column
from ds_dagster.plan.expressions.field_names import alias_of
from ds_dagster.plan.expressions.printing import identity_text
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.nodes.rank import OrderTerm, RankFunction, TopN
from ds_dagster.plan.nodes.rows import Filter
from ds_dagster.plan.nodes.weights import weighted
from ds_dagster.sql.expressions import without_parentheses
from ds_dagster.sql.lowering import is_first_rows, is_simple, own_span

RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
Over = Callable[[BoundExpression, Span], BoundExpression]
"""(expression over rows, its position) → the expression over the groups of these rows."""


def windows_of(tree: exp.Select) -> Iterator[exp.Window]:
    """OVER clauses of a SELECT list, not those of sub-selects."""
    for item in tree.expressions:
        if is_simple(item):
            continue
        for node in item.walk(prune=lambda node: isinstance(node, exp.Query)):
            if isinstance(node, exp.Window):
                yield node


def first_rows(tree: exp.Select) -> exp.Window | None:
    """ORDER BY … LIMIT of a SELECT as ROW_NUMBER() OVER (ORDER BY …), None without LIMIT. An alias, or a number of
    ORDER BY, means the item of the SELECT list."""
    if not is_first_rows(tree):
        return None
    aliases = {item.alias: item.this for item in tree.expressions if isinstance(item, exp.Alias)}
    order = tree.args["order"].copy()
    for term in order.expressions:
        term.set("this", _meant(term.this, aliases, tree.expressions))
    return exp.Window(this=exp.Anonymous(this="ROW_NUMBER", expressions=[]), order=order, over="OVER")


def _meant(
    term: exp.Expression, aliases: Mapping[str, exp.Expression], items: Sequence[exp.Expression]
) -> exp.Expression:
    if isinstance(term, exp.Column) and not term.table and term.name in aliases:
        return aliases[term.name].copy()
    is_place = isinstance(term, exp.Literal) and not term.is_string and str(term.this).isdecimal()
    if is_place and 1 <= int(str(term.this)) <= len(items):
        item = items[int(str(term.this)) - 1]
        return (item.this if isinstance(item, exp.Alias) else item).copy()
    return term


def _places(tree: exp.Select) -> tuple[int, int]:
    offset = tree.args.get("offset")
    skipped = int(str(offset.expression.this)) if offset is not None else 0
    return skipped, skipped + int(str(tree.args["limit"].expression.this))


@dataclass(frozen=True, slots=True)
class Ordered:
    """The window of OVER clauses and its position; ``function``: the rank, None for running aggregates."""

    function: RankFunction | None
    partition: tuple[BoundExpression, ...]
    order: tuple[OrderTerm, ...]
    span: Span


class OverClauses:
    """The OVER clauses of one SELECT.

    Args:
        binder: of the SELECT list; has the results after :meth:`bind`.
        over: see :data:`Over`.
        name: internal name of the result.
        span: where the query begins.
    """

    def __init__(self, binder: ExpressionBinder, over: Over, name: str, span: Span) -> None:
        self.binder = binder
        self.over = over
        self.name = name
        self.span = span
        self.window: Ordered | None = None
        self.running: RunningCalls | None = None
        self.rows: tuple[int, int] | None = None
        self.results: dict[int, Typed] = {}

    def bind(self, tree: exp.Select) -> None:
        """Bind all OVER clauses, so that the binder of the SELECT list has their results.

        Raises:
            UserError: OVER_WITHOUT_ORDER, OVER_NESTED, OVER_FRAME, FUNCTION_ARGUMENT_….
            UnsupportedError: OVER_SEVERAL. NotYetError: OVER_FUNCTION.
        """
        first = first_rows(tree)
        # ORDER BY … LIMIT: ranks above OFFSET, up to OFFSET plus LIMIT
        self.rows = None if first is None else _places(tree)
        for node in (*windows_of(tree), *(() if first is None else (first,))):
            span = own_span(node, self.span)
            window = self._ordered(node, span)
            if self.window is not None and _meaning(self.window) != _meaning(window):
                raise error("OVER_SEVERAL", span=span)
            self.window = self.window or window
            self.results[id(node)] = self._result(node, span)
        self.binder.windows = MappingProxyType(self.results)

    def _result(self, node: exp.Window, span: Span) -> Typed:
        if not is_running(node):
            return Typed(column(self.name), BIGINT, nullable=False)
        self.running = self.running or RunningCalls(self.binder, alias_of(self.name))
        return self.running.add(node, span)

    def apply(self, node: Node) -> Node:
        """The step over the rows of a SELECT.

        Raises:
            UnsupportedError: OVER_CHANGELOG, OVER_TIME. NotYetError: STATEFUL_CHAIN.
        """
        window = self.window
        assert window is not None
        if self.running is not None:
            term = window.order[0]
            if len(window.order) > 1 or term.descending:
                raise error("OVER_TIME", span=window.span, names=["the event time alone, ascending"])
            return self.running.apply(node, window.partition, term.expression, window.span)
        assert window.function is not None
        check_over("a step", node, window.span)
        ranked = TopN(weighted(node), window.function, window.partition, window.order, self.name)
        if self.rows is None:
            return ranked
        skipped, last = self.rows
        bounded = replace(ranked, limit=last)
        if not skipped:
            return bounded
        tree = exp.GT(this=column(self.name), expression=exp.Literal.number(skipped))
        return Filter(bounded, BoundExpression(tree, BOOLEAN, nullable=False))

    def _ordered(self, node: exp.Window, span: Span) -> Ordered:
        call = node.this.this if isinstance(node.this, exp.Filter) else node.this
        name = str(call.this).upper() if isinstance(call, exp.Anonymous) else type(call).__name__.upper()
        if name not in RANKS and not is_running(node):
            raise error("OVER_FUNCTION", span=span, function=name)
        if name in RANKS:
            self._check_rank(node, name, span)
        if not node.args.get("order"):
            raise error("OVER_WITHOUT_ORDER", span=span, function=name)
        partition = tuple(self._part(part, is_hashable) for part in node.args.get("partition_by") or ())
        order = tuple(
            OrderTerm(
                self._part(term.this, is_orderable), bool(term.args.get("desc")), bool(term.args.get("nulls_first"))
            )
            for term in node.args["order"].expressions
        )
        return Ordered(cast("RankFunction", name) if name in RANKS else None, partition, order, span)

    def _check_rank(self, node: exp.Window, name: str, span: Span) -> None:
        count = len(node.this.expressions)
        if count:
            raise error("FUNCTION_ARGUMENT_COUNT", span=span, function=name, count=count, expected="()")
        if node.args.get("spec") is not None:
            raise error("OVER_FRAME", span=span, reason=f"{name} has no frame")

    def _part(self, node: exp.Expression, fits: Callable[[DataType], bool]) -> BoundExpression:
        place = self.binder.scope.place(node)
        bound = self.over(self.binder.expression(without_parentheses(node)), place)
        if not fits(bound.type):
            raise error("OVER_NESTED", span=place, type=bound.type)
        return bound


def _meaning(window: Ordered) -> tuple[object, ...]:
    def text(expression: BoundExpression) -> str:
        return identity_text(expression.tree)

    order = [(text(term.expression), term.descending, term.nulls_first) for term in window.order]
    return window.function, [text(part) for part in window.partition], order


def unbounded(node: Node, places: Mapping[str, Span], otherwise: Span) -> Iterator[DsError]:
    """RANK_WITHOUT_FILTER for each rank that no filter bounds. ``places``: rank → position of its OVER."""
    for below in node.walk():
        if isinstance(below, TopN) and not below.limit:
            yield error("RANK_WITHOUT_FILTER", span=places.get(below.rank, otherwise), function=below.function)
