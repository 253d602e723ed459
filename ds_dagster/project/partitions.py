"""Refuses ``@partitions`` above tables whose time ranges cannot be computed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName
from ds_dagster.plan.checks.recomputable import why_not_by
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.ranges import why_no_ranges, why_not_filled_by_one
from ds_dagster.sql.partitions import Partitions, partitions_in


def partition_warnings(catalog: Catalog, queries: Mapping[str, BoundQuery]) -> Iterator[Diagnostic]:
    """A BACKFILL_REFUSED warning for each relation of a project whose ``@partitions`` are refused."""
    filling: dict[QualifiedName, list[BoundQuery]] = {}
    for query in queries.values():
        for sink in query.sinks:
            filling.setdefault(sink.name, []).append(query)
    for relation in catalog.relations.values():
        problem = partitions_refused(catalog, relation, filling.get(relation.name, ()))
        if problem is not None:
            yield replace(problem, severity="warning")


def partitions_refused(catalog: Catalog, relation: Relation, queries: Sequence[BoundQuery]) -> Diagnostic | None:
    """BACKFILL_REFUSED if ``@partitions`` of a relation are refused, by the rules of ``ds backfill``; else None.

    Args:
        catalog: with the stores.
        relation: with its comment.
        queries: that fill it.
    """
    rule = partitions_in(relation.comment)
    reason = "" if rule is None else _reason(catalog, rule, queries)
    if not reason:
        return None
    return error("BACKFILL_REFUSED", span=relation.span, name=relation.name.name, reason=reason).diagnostic()


def _reason(catalog: Catalog, rule: Partitions, queries: Sequence[BoundQuery]) -> str:
    reason = why_not_filled_by_one(queries)
    if reason:
        return reason
    (query,) = queries
    endless = "" if query.is_finite else "its query never ends: write 'refresh.mode' = 'incremental'"
    return why_no_ranges(catalog, query) or why_not_by(query, rule.column) or endless
