"""Decides whether rows of a time range can be computed again from the records that still exist. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.ranges import NO_END, TimeRange
from ds_dagster.errors import error
from ds_dagster.plan.checks.recomputable import range_columns, reach_after_millis, reach_millis, why_not_by
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where a table ends.

    Attributes:
        tip: the newest batch in its ledger.
        end: offset of its source, as in Spark's log.
        identity: distinguishes the entity of the source from a later one of the same name; empty if unknown.
    """

    tip: Tip
    end: Mapping[str, Any]
    identity: str

    @classmethod
    def of(cls, query: BoundQuery, scan: Scan, tip: Tip | None, unknown: str) -> Loaded:
        """Read the end of a table from the newest batch in its ledger.

        Args:
            query: of the table.
            scan: its source.
            tip: the newest batch, with its end offsets; None if unknown.
            unknown: why ``tip`` is unknown.

        Raises:
            UserError: BACKFILL_REFUSED.
        """
        if tip is None or not tip.ends:
            raise _refused(query, unknown or "its ledger does not say which records it has")
        ends: Any = json.loads(tip.ends)
        offsets = ends["offsets"]  # by source, or in their order where they have no names
        end = offsets.get(scan.source_name) if isinstance(offsets, dict) else offsets[0]
        if not end:
            raise _refused(query, f"it has no records of {scan.relation.entity} yet")
        return cls(tip, end, str(ends["sources"].get(scan.source_name, "")))


def range_column(query: BoundQuery, column: str) -> str:
    """The column that a time range is about.

    Args:
        query: that fills the table.
        column: name of the column; empty: the only column of a TIMESTAMP type, or the start of its windows.

    Raises:
        UserError: BACKFILL_REFUSED.
    """
    reason = why_not_by(query, column)
    if reason:
        raise _refused(query, reason)
    return column or range_columns(query)[0]


def wanted_times(query: BoundQuery, span: TimeRange, lateness: int | None) -> tuple[int | None, int | None]:
    """Bounds of the times of records that may produce rows of a range, epoch milliseconds: at or after the first,
    before the second. None: no bound.

    Args:
        query: of the table.
        span: the range.
        lateness: greatest difference between the time of a record and the time of its rows, seconds; None if unknown.

    Raises:
        UserError: BACKFILL_REFUSED.
    """
    if lateness is None:
        return None, None
    before, after = reach_millis(query, span.column), reach_after_millis(query, span.column)
    if before is None:
        raise _refused(query, "a session may have begun at any time before its end: leave --lateness out")
    since = max(0, (span.begin - EPOCH) // MILLISECOND - before - lateness * 1000)
    if span.end == NO_END or after is None:
        return since, None
    return since, -((EPOCH - span.end) // MILLISECOND) + after + lateness * 1000


def _refused(query: BoundQuery, reason: str) -> Exception:
    return error("BACKFILL_REFUSED", span=query.sink.span, name=query.name, reason=reason)
