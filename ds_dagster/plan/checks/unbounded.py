"""State that grows without bound: which steps keep more with every record, for a warning once per query.

The rule: a step is named when it keeps something of every *appended* row for ever. So not named are the groups of a
plain GROUP BY (as many as there are keys, which is what people ask for), the last row of each key of a changelog, and
whatever is made of changelogs only, since rows that are replaced or deleted are given back: their state is as large as
the relations are. Named are groups by a moment in time (every record may begin one), values kept one by one of appended
rows (DISTINCT, ARRAY_AGG, LISTAGG), and a join one of whose sides only ever grows.
"""

from __future__ import annotations

from ds_dagster.catalog.records import Findings
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.scan import Scan


def warn_unbounded(root: Sink, findings: Findings, span: Span) -> None:
    """Warn of the steps of a plan that keep something of every appended row for ever: UNBOUNDED_STATE, once; and of
    patterns that may: PATTERN_STATE."""
    states = [text for node in root.walk() for text in node.growth()]
    if states:
        findings.warn(error("UNBOUNDED_STATE", span=span, states="; ".join(dict.fromkeys(states))))
    for node in (node for node in root.walk() if isinstance(node, Match)):
        if node.may_wait_for_ever:
            first = next(below for below in node.walk() if isinstance(below, Scan))
            findings.warn(error("PATTERN_STATE", span=span, relation=first.relation.name.name))
