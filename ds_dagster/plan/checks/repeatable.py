"""Functions that give another value each time, over changelogs.

A retraction must equal the row it retracts. ``CURRENT_TIMESTAMP``, ``RAND`` or ``UUID`` over a row give another value
in the row's retraction, so a step that keeps or filters rows by this value would keep a row for ever, or retract a row
it never had. A value that is only shown in the result may differ: a retraction finds its row by the key.
"""

from __future__ import annotations

from collections.abc import Iterator

from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rows import Sink


def not_repeatable(root: Sink, otherwise: Span) -> Iterator[DsError]:
    """VALUE_NOT_REPEATABLE, once for each such function whose value decides over rows that may be retracted.

    Args:
        root: plan after rewriting: a filter pushed below a buffering step runs once per row.
        otherwise: where the query begins.
    """
    for function in dict.fromkeys(_found(root, shown=True)):
        yield error("VALUE_NOT_REPEATABLE", span=otherwise, function=function)


def _found(node: Node, *, shown: bool) -> Iterator[str]:
    shown = shown and node.only_shows
    if not shown and any(below.changelog == "weighted" and not below.only_grows for below in node.inputs):
        yield from node.unrepeatable
    for below in node.inputs:
        yield from _found(below, shown=shown)
