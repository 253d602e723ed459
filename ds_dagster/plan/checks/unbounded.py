"""State that grows without bound: the steps that keep more with every record, for a warning once per query.

The rule: a step is named if it keeps something of every *appended* row for ever. So it does not name the groups of a
plain GROUP BY (one per key, as the user wants), the last row of each key of a changelog, and steps over changelogs
only: replaced and deleted rows leave their state, which is as large as the relations. It names groups by a point in
time (every record may start one), values that are kept one by one of appended rows (DISTINCT, ARRAY_AGG, LISTAGG), a
join with a side that only grows, and OVER from the beginning with a partition per different row.
"""

from __future__ import annotations

from ds_dagster.catalog.records import Findings
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.scan import Scan


def warn_unbounded(root: Sink, findings: Findings, span: Span) -> None:
    """Warn of the steps of a plan that keep something of every appended row for ever: UNBOUNDED_STATE, once for all;
    and of patterns that may do so: PATTERN_STATE."""
    states = [text for node in root.walk() for text in node.growth()]
    if states:
        findings.warn(error("UNBOUNDED_STATE", span=span, states="; ".join(dict.fromkeys(states))))
    for node in (node for node in root.walk() if isinstance(node, Match)):
        if node.may_wait_for_ever:
            first = next(below for below in node.walk() if isinstance(below, Scan))
            findings.warn(error("PATTERN_STATE", span=span, relation=first.relation.name.name))
