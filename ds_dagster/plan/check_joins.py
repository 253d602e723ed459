"""Which joins exist, and what may stand over what: tables with a reason for each refusal."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.delta_nodes import DeltaAggregate, DeltaJoin, Distinct, Weigh
from ds_dagster.plan.nodes import Aggregate, IntervalJoin, Node, Scan
from ds_dagster.plan.over_node import Over
from ds_dagster.plan.rank_nodes import TopN

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

_OWN_STREAM = "write the lower one as a STREAM of its own and read that"
_OWN_CHANGELOG = (
    "write the lower one as a CHANGELOG of its own; reading all its changes needs its topic re-declared as a STREAM"
)
_TIMED = ("interval join", "LEFT interval join", "temporal join", "windowed aggregate", "OVER aggregate")
CHAINS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        **{
            (upper, lower): _OWN_STREAM
            for upper in _TIMED
            for lower in ("interval join", "LEFT interval join", "temporal join", "OVER aggregate")
        },
        **{
            (upper, lower): _OWN_CHANGELOG
            for upper in _TIMED
            for lower in ("aggregate", "windowed aggregate", "step over a changelog")
        },
    }
)
"""(upper, lower) stateful step in one query → empty when allowed, else what to write instead. Joins and windows need
the event time of their rows, which no stateful step below passes on. Aggregates without a window and joins of
changelogs need none, see :func:`check_weights`."""


def step_name(node: Node) -> str:
    """What :data:`CHAINS` calls a stateful node."""
    if isinstance(node, Weigh | DeltaAggregate | DeltaJoin | Distinct | TopN):
        return "step over a changelog"
    if isinstance(node, Over):
        return "OVER aggregate"
    if isinstance(node, Aggregate):
        return "windowed aggregate" if node.window is not None else "aggregate"
    if isinstance(node, IntervalJoin):
        return "LEFT interval join" if node.kind == "left" else "interval join"
    return "temporal join"


def check_chain(upper: str, below: Node, span: Span) -> None:
    """A stateful step may stand over all stateful steps below it.

    Raises:
        NotYetError: STATEFUL_CHAIN.
    """
    for node in below.walk():
        if node.is_stateful:
            lower = step_name(node)
            instead = CHAINS[upper, lower]
            if instead:
                raise error("STATEFUL_CHAIN", span=span, upper=_article(upper), lower=_article(lower), instead=instead)


def check_weights(below: Node, span: Span) -> None:
    """An aggregate, or a join of changelogs, may stand over everything but windows that are refined: what they said
    before is not known.

    Raises:
        NotYetError: STATEFUL_CHAIN.
    """
    if any(isinstance(node, Aggregate) and node.window and node.updates for node in below.walk()):
        lower = "windowed aggregate that is refined"
        raise error("STATEFUL_CHAIN", span=span, upper="a step", lower=_article(lower), instead=_OWN_CHANGELOG)


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


def _article(step: str) -> str:
    return f"an {step}" if step[0].lower() in "aeiou" else f"a {step}"
