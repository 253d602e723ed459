"""Properties that only tables have (how one is loaded, and where a load runs), or only views (how long rows stay)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ds_dagster.catalog.records import Draft, Findings
from ds_dagster.errors import error
from ds_dagster.sql.statements import RelationKind

RETENTION = "retention.millis"
CHANGED_AT = "__changed_at"
"""Hidden column of a view with a retention: when the row was written last."""
OWNERS: Mapping[str, tuple[RelationKind, str]] = MappingProxyType(
    {
        "refresh.mode": ("table", "TABLE"),
        "execution": ("table", "TABLE"),
        RETENTION: ("materialized_view", "MATERIALIZED VIEW"),
    }
)
"""Property → (the one kind of relation that has it, the kind's SQL keyword)."""


def check_table_properties(draft: Draft, word: str, findings: Findings) -> None:
    """Refuse properties of tables or views that the relation cannot have: ``refresh.mode`` and ``execution`` are for
    tables, ``retention.millis`` for views (adds a hidden column); a load that never ends cannot run in a Dagster step,
    and queries that share a table cannot replace it (PROPERTY_OF_OTHER_KIND, RETENTION_COLUMN, REFRESH_CONTRADICTS).

    Args:
        draft: the relation.
        word: SQL keyword of its kind.
        findings: collects the errors.
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
    for name, (kind, owner) in OWNERS.items():
        if name in draft.values and draft.kind != kind:
            span = draft.span_of(name)
            findings.add(error("PROPERTY_OF_OTHER_KIND", span=span, name=name, kind=word, kinds=owner))
    if RETENTION in draft.values and any(column.name == CHANGED_AT for column in draft.columns):
        span = draft.span_of(RETENTION)
        findings.add(error("RETENTION_COLUMN", span=span, relation=draft.name, column=CHANGED_AT))
