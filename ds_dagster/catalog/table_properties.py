"""Properties that only tables have: how one is loaded, and where a load runs."""

from __future__ import annotations

from ds_dagster.catalog.records import Draft, Findings
from ds_dagster.errors import error

TABLE_PROPERTIES = ("refresh.mode", "execution")


def check_table_properties(draft: Draft, word: str, findings: Findings) -> None:
    """``refresh.mode`` and ``execution`` are for tables; a load that never ends has no step to end with, and queries
    that share a table cannot replace it (PROPERTY_OF_OTHER_KIND, REFRESH_CONTRADICTS).

    Args:
        draft: the relation.
        word: what statements call its kind.
        findings: collects what is wrong.
    """
    refresh = draft.text("refresh.mode")
    reason = ""
    if refresh == "continuous" and draft.text("execution") == "step":
        reason = "a query that never ends cannot run in a Dagster step"
    elif refresh == "full" and not draft.written:
        reason = "it is filled by INSERT INTO, and one query would replace what the others loaded"
    if reason:
        span = draft.span_of("refresh.mode")
        findings.add(error("REFRESH_CONTRADICTS", span=span, relation=draft.name, mode=refresh, reason=reason))
    for name in TABLE_PROPERTIES:
        if name in draft.values and draft.kind != "table":
            span = draft.span_of(name)
            findings.add(error("PROPERTY_OF_OTHER_KIND", span=span, name=name, kind=word, kinds="TABLE"))
