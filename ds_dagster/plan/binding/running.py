"""Running aggregates: ``SUM(x) OVER (PARTITION BY … ORDER BY event time [ROWS|RANGE …])`` over a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.binder import ExpressionBinder, Typed, column
from ds_dagster.plan.expressions.calls import Aggregates
from ds_dagster.plan.expressions.field_names import column_of, record_field
from ds_dagster.plan.expressions.forms import written_name
from ds_dagster.plan.expressions.printing import AGGREGATES
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.nodes.over import Over, OverCall

VALUES = frozenset({"FIRST_VALUE", "LAST_VALUE", "LAG"})
TOTALS = frozenset(("COUNT", "SUM", "AVG", "MIN", "MAX", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"))
"""Aggregates that a running frame supports: a row that leaves the frame can be subtracted, or its rows are read."""
_MICROS: Mapping[str, int] = MappingProxyType(
    {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": 86_400_000_000}
)
MOST_ROWS = 100_000
"""Most rows that a frame may reach back: all of them are kept for each partition."""


@dataclass(frozen=True, slots=True)
class RunningFrame:
    """The frame of results, see :class:`~ds_dagster.plan.nodes.over.Over`."""

    by_time: bool
    before: int


def is_running(node: exp.Window) -> bool:
    """Whether OVER applies to an aggregate or to a function that reads another row (LAG, FIRST_VALUE)."""
    call = node.this.this if isinstance(node.this, exp.Filter) else node.this
    if isinstance(call, exp.Anonymous):
        return str(call.this).upper() in VALUES
    return AGGREGATES.get(type(call), "") in TOTALS


class RunningCalls:
    """The running aggregates of one SELECT: calls with one partition, order and frame.

    Args:
        binder: of the SELECT list.
        alias: first part of the results' names.
    """

    def __init__(self, binder: ExpressionBinder, alias: str) -> None:
        self.binder = binder
        self.alias = alias
        self.calls: list[OverCall] = []
        self.frame = RunningFrame(by_time=True, before=-1)
        self.aggregates = Aggregates()

    def add(self, node: exp.Window, span: Span) -> Typed:
        """A call and its result.

        Raises:
            UserError: FUNCTION_ARGUMENT_…, OVER_FRAME. NotYetError: OVER_FUNCTION. UnsupportedError: OVER_SEVERAL.
        """
        frame = self._frame(node, span)
        if self.calls and frame != self.frame:
            raise error("OVER_SEVERAL", span=span)
        self.frame = frame
        call = (
            self._value(node.this, span) if isinstance(node.this, exp.Anonymous) else self._aggregate(node.this, span)
        )
        self.calls.append(call)
        return Typed(column(call.name), call.type, call.nullable)

    def _name(self, function: str) -> str:
        return record_field(self.alias, f"{function.lower()}{len(self.calls) + 1}")

    def _aggregate(self, node: exp.Expression, span: Span) -> OverCall:
        collected = Aggregates()
        ExpressionBinder(self.binder.scope, "OVER", collected).bind(node)
        call = next(iter(collected.calls.values()))
        if call.distinct:
            raise error("OVER_FUNCTION", span=span, function=f"{written_name(node, call.function)} DISTINCT")
        if call.function in VALUES:  # the row at an end of the frame counts, whatever its value
            raise error("OVER_FUNCTION", span=span, function=f"{call.function} with FILTER")
        name = self._name(call.function)
        return OverCall(name, call.function, call.argument, call.type, call.filter, call.nullable)

    def _value(self, node: exp.Anonymous, span: Span) -> OverCall:
        name = str(node.this).upper()
        most = 2 if name == "LAG" else 1
        if not 1 <= len(node.expressions) <= most:
            expected = "(value[, number])" if name == "LAG" else "(value)"
            count = len(node.expressions)
            raise error("FUNCTION_ARGUMENT_COUNT", span=span, function=name, count=count, expected=expected)
        bound = ExpressionBinder(self.binder.scope, "OVER").expression(node.expressions[0])
        return OverCall(self._name(name), name, bound, bound.type, nullable=bound.nullable or name == "LAG")

    def _frame(self, node: exp.Window, span: Span) -> RunningFrame:
        spec = node.args.get("spec")
        if isinstance(node.this, exp.Anonymous) and str(node.this.this).upper() == "LAG":
            if spec is not None:
                raise error("OVER_FRAME", span=span, reason="LAG has no frame")
            return RunningFrame(by_time=False, before=self._lag(node.this, span))
        if spec is None:
            return RunningFrame(by_time=True, before=-1)
        by_time, start = spec.args["kind"] == "RANGE", spec.args["start"]
        if start == "UNBOUNDED":
            return RunningFrame(by_time, -1)
        if start == "CURRENT ROW":
            return RunningFrame(by_time, 0)
        return RunningFrame(by_time, _micros(start, span) if by_time else _rows(start, span))

    def _lag(self, call: exp.Anonymous, span: Span) -> int:
        return _rows(call.expressions[1], span) if len(call.expressions) > 1 else 1

    def apply(self, node: Node, partition: tuple[BoundExpression, ...], order: BoundExpression, span: Span) -> Node:
        """The step over a stream.

        Raises:
            UnsupportedError: OVER_CHANGELOG, OVER_TIME. NotYetError: STATEFUL_CHAIN.
        """
        check_over("an OVER aggregate", node, span)
        is_time = isinstance(order.tree, exp.Column) and order.tree.name in node.time_fields
        if not is_time or node.open_windows:
            raise _not_time(node, span)
        return Over(node, partition, tuple(self.calls), self.frame.by_time, self.frame.before)


def _not_time(node: Node, span: Span) -> DsError:
    names = sorted(column_of(name) for name in node.time_fields)
    return error("OVER_TIME", span=span, names=names or ["the event time of a stream"])


def _rows(node: exp.Expression, span: Span) -> int:
    is_whole = isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal()
    if not is_whole or int(str(node.this)) > MOST_ROWS:
        raise error("OVER_FRAME", span=span, reason=f"ROWS takes a whole number up to {MOST_ROWS}")
    return int(str(node.this))


def _micros(node: exp.Expression, span: Span) -> int:
    unit = node.args["unit"].name if isinstance(node, exp.Interval) else ""
    amount = str(node.this.this) if isinstance(node, exp.Interval) else ""
    if unit not in _MICROS or not amount.isdecimal():
        raise error("OVER_FRAME", span=span, reason="RANGE takes INTERVAL 'n' SECOND, MINUTE, HOUR or DAY")
    return int(amount) * _MICROS[unit]
