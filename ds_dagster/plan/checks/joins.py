"""The joins that exist, by the kinds of their sides: a table with a hint for each refusal."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.scan import Scan

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
"""Kinds of (left, right) → form of the join, or None and what to write instead."""


def side_kind(node: Node) -> str:
    """The kind of a side in :data:`JOIN_FORMS`."""
    if node.changelog == "append":
        return "stream"
    return "changelog" if isinstance(node, Scan) else "sub-select over a changelog"


def join_form(left: Node, right: Node, names: tuple[str, str], span: Span) -> JoinForm:
    """The form of a join by the kinds of its sides. ``names``: of both sides, for messages.

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
    """Refuse an interval join without WITHIN, and other joins with it.

    Raises:
        UserError: INTERVAL_JOIN_WITHOUT_WITHIN, WITHIN_ON_TEMPORAL_JOIN.
    """
    if form == "interval" and within is None:
        raise error("INTERVAL_JOIN_WITHOUT_WITHIN", span=span, left=names[0], right=names[1])
    if form != "interval" and within is not None:
        raise error("WITHIN_ON_TEMPORAL_JOIN", span=span, left=names[0], right=names[1])
