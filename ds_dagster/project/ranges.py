"""Tables whose rows of a time range can be computed again (backfill): one rule for ``ds backfill`` and
``@partitions``."""

from __future__ import annotations

from collections.abc import Collection

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.plan.checks.recomputable import why_not_recomputed
from ds_dagster.plan.query import BoundQuery
from ds_dagster.stores.registry import KINDS


def why_not_filled_by_one(queries: Collection[BoundQuery]) -> str:
    """Why no range of a table that these queries fill can be computed again; empty for one query. With several, the
    rows of one would replace those of all."""
    if len(queries) == 1:
        return ""
    return "several queries fill it" if queries else "no query of the project fills it"


def why_no_ranges(catalog: Catalog, query: BoundQuery) -> str:
    """Why no time range of a query's table can be computed again; empty if it can."""
    return why_not_recomputed(query) or _why_not_stored(catalog, query)


def _why_not_stored(catalog: Catalog, query: BoundQuery) -> str:
    source, target = query.scans[0].relation.store, query.sink.store
    if not KINDS[catalog.store(target).kind].capabilities.replaces_ranges:
        return f"store {target} does not replace ranges of rows in one transaction"
    why = KINDS[catalog.store(source).kind].capabilities.no_past
    return f"records of store {source} cannot be read again: {why}" if why else ""
