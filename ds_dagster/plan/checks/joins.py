"""Which joins exist, and what may stand over what: tables with a reason for each refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.delta import Distinct, Unweigh
from ds_dagster.plan.nodes.join import IntervalJoin
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.window import Window
from ds_dagster.plan.nodes.window_join import WindowJoin

JoinForm = Literal["interval", "temporal", "changelog"]

JOIN_FORMS: Mapping[tuple[str, str], tuple[JoinForm | None, str]] = MappingProxyType(
    {
        ("stream", "stream"): ("interval", ""),
        ("stream", "changelog"): ("temporal", ""),
        ("changelog", "stream"): (None, "put the stream first: FROM {right} JOIN {left} ON …"),
        ("changelog", "changelog"): ("changelog", ""),
        ("stream", "sub-select over a changelog"): (None, "join with the changelog itself and filter in WHERE"),
        ("changelog", "sub-select over a changelog"): ("changelog", ""),
    }
)
"""(left, right) → form of the join, or None and what to write instead."""

_OWN_CHANGELOG = (
    "write the lower one as a CHANGELOG of its own; reading all its changes needs its topic re-declared as a STREAM"
)
_OWN_STREAM = "write the lower one as a STREAM of its own and read that"
_NO_UPDATES = "leave out 'emit.mode': the window answers once, when it has closed"


def check_weights(below: Node, span: Span) -> None:
    """A stateful step may stand over everything but windows that are refined: what they said before is not known.

    Raises:
        NotYetError: STATEFUL_CHAIN.
    """
    if any(isinstance(node, Aggregate) and node.window and node.updates for node in below.walk()):
        lower = "a windowed aggregate that is refined"
        raise error("STATEFUL_CHAIN", span=span, upper="a step", lower=lower, instead=_OWN_CHANGELOG)


def check_updates(below: Node, span: Span) -> None:
    """A window that is refined stands over steps whose rows come at once: Spark has no mode that refines one step and
    waits in another.

    Raises:
        NotYetError: STATEFUL_CHAIN.
    """
    for node in below.walk():
        lower = _WAITING.get(type(node), "")
        if lower and not (isinstance(node, IntervalJoin) and node.kind == "inner"):
            upper = "a windowed aggregate that is refined"
            raise error("STATEFUL_CHAIN", span=span, upper=upper, lower=lower, instead=_NO_UPDATES)


_WAITING: Mapping[type[Node], str] = MappingProxyType(
    {
        Aggregate: "an aggregate",
        WindowJoin: "a join of windows",
        IntervalJoin: "an outer interval join",
        Over: "an OVER aggregate",
    }
)


def check_time(upper: str, below: Node, span: Span) -> None:
    """A step that waits for event time stands over steps that pass it on.

    Raises:
        NotYetError: STATEFUL_CHAIN.
    """
    lower = without_time(below)
    if lower:
        raise error("STATEFUL_CHAIN", span=span, upper=upper, lower=lower, instead=_OWN_STREAM)


def without_time(below: Node) -> str:
    """The step that does not pass event time on, empty where all do."""
    for node in below.walk():
        if isinstance(node, Union) and any(inner.is_stateful for inner in node.walk()):
            return "a UNION over joins or aggregates"
        if type(node) in _TIMELESS:
            return _TIMELESS[type(node)]
    return ""


_TIMELESS: Mapping[type[Node], str] = MappingProxyType(
    {
        Match: "a pattern match",
        Distinct: "SELECT DISTINCT",
        TopN: "a ranking",
        Unweigh: "a condition with a sub-select",
    }
)
"""Steps whose rows come without an event time: a match is older than its last row, a value may come again."""


def check_rows(upper: str, below: Node, span: Span) -> None:
    """Refuse a step that needs source order above a stateful step.

    Raises:
        NotYetError: STATEFUL_CHAIN.
    """
    if any(node.is_stateful for node in below.walk()):
        lower = "a join, an aggregate or another stateful step"
        raise error("STATEFUL_CHAIN", span=span, upper=upper, lower=lower, instead=_OWN_STREAM)


def check_session_bounds(left: Node, right: Node, span: Span) -> None:
    """Rows of a session do not know its bounds before it has ended, so only its aggregate may be joined.

    Raises:
        NotYetError: WINDOW_IN_JOIN.
    """
    if any(window.function == "SESSION" for side in (left, right) for window in _open_windows(side)):
        raise error("WINDOW_IN_JOIN", span=span)


def in_open_window(node: Node) -> bool:
    """Whether a node's rows are in windows that no aggregate below has closed."""
    return any(True for _ in _open_windows(node))


def _open_windows(node: Node) -> Iterator[Window]:
    if isinstance(node, Window):
        yield node
    if not isinstance(node, Aggregate):
        for child in node.inputs:
            yield from _open_windows(child)


def side_kind(node: Node) -> str:
    """What :data:`JOIN_FORMS` calls a side."""
    if node.changelog == "append":
        return "stream"
    return "changelog" if isinstance(node, Scan) else "sub-select over a changelog"


def join_form(left: Node, right: Node, names: tuple[str, str], span: Span) -> JoinForm:
    """The form of a join by the kinds of its sides.

    Raises:
        NotYetError: JOIN_KINDS.
    """
    left_kind, right_kind = side_kind(left), side_kind(right)
    left_kind = "changelog" if left_kind.startswith("sub-select") else left_kind
    form, instead = JOIN_FORMS[left_kind, right_kind]
    if form is None:
        shown = instead.format(left=names[0], right=names[1])
        raise error(
            "JOIN_KINDS",
            span=span,
            left_kind=left_kind,
            left=names[0],
            right_kind=right_kind,
            right=names[1],
            instead=shown,
        )
    return form


def check_within(form: JoinForm, within: int | None, names: tuple[str, str], span: Span) -> None:
    """WITHIN belongs to interval joins, and only to them.

    Raises:
        UserError: INTERVAL_JOIN_WITHOUT_WITHIN, WITHIN_ON_TEMPORAL_JOIN.
    """
    if form == "interval" and within is None:
        raise error("INTERVAL_JOIN_WITHOUT_WITHIN", span=span, left=names[0], right=names[1])
    if form != "interval" and within is not None:
        raise error("WITHIN_ON_TEMPORAL_JOIN", span=span, left=names[0], right=names[1])
