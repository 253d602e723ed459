"""Decides whether rows of a time range can be computed again from the records that still exist. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.extent import Extent
from ds_dagster.errors import error
from ds_dagster.plan.checks.recomputable import range_columns, why_not_by
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets to read at once: partition → (first, after the last)."""

    offsets: Mapping[str, tuple[int, int]]

    def before(self, begun: Mapping[str, int]) -> int:
        """Number of offsets before those at which a query began, by partition."""
        parts = ((begun.get(part, 0), *ends) for part, ends in self.offsets.items())
        return sum(max(0, min(begin, last) - first) for begin, first, last in parts)

    @property
    def records(self) -> int:
        """Number of offsets, including markers of transactions."""
        return sum(last - first for first, last in self.offsets.values())


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where a table ends.

    Attributes:
        tip: the newest batch in its ledger.
        ends: partition of its topic → offset of the next record.
        identity: distinguishes the topic from a later topic of the same name; empty if unknown.
    """

    tip: Tip
    ends: Mapping[str, int]
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
        by_topic: Any = (offsets.get(scan.source_name) if isinstance(offsets, dict) else offsets[0]) or {}
        if scan.relation.entity not in by_topic:
            raise _refused(query, f"it has no records of {scan.relation.entity} yet")
        own = {part: int(offset) for part, offset in by_topic[scan.relation.entity].items()}
        return cls(tip, own, str(ends["sources"].get(scan.source_name, "")))


def check_topic(query: BoundQuery, facts: EntityFacts | None, identity: str) -> None:
    """Refuse a topic that was deleted since the table was loaded, or that is compacted: records are gone.

    Args:
        query: of the table.
        facts: of the topic.
        identity: of the topic that the table was filled from; empty if unknown.

    Raises:
        UserError: BACKFILL_REFUSED.
    """
    if facts is None or (identity and facts.identity and identity != facts.identity):
        raise _refused(query, "its topic was deleted since it was loaded")
    if "compact" in facts.settings.get("cleanup.policy", ""):
        raise _refused(query, "its topic is compacted: records that had rows may be gone")


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


def offsets_to_read(
    query: BoundQuery,
    extents: Mapping[str, Extent],
    ends: Mapping[str, int],
    begin: int,
    lateness: int | None,
    *,
    is_stamped: bool,
    begun: Mapping[str, int] = MappingProxyType({}),
) -> Slice:
    """The records that may produce rows of a range, up to the end of the table.

    Args:
        query: of the table.
        extents: of its topic, from ``begin`` minus the lateness on; from the first record on if that is unknown.
        ends: partition → offset after the last record that the table has.
        begin: of the range, epoch milliseconds.
        lateness: greatest difference between a record's time and the time of its rows, milliseconds; None if unknown.
        is_stamped: the broker sets the time of records, so records that are gone are older than the others.
        begun: partition → offset of the first record to read; older ones do not count, also if they are gone.

    Raises:
        UserError: BACKFILL_RECORDS_GONE.
    """
    lost = {part: e for part, e in extents.items() if e.first > begun.get(part, 0) and ends.get(part, 0) > 0}
    firsts = [extent.first_time for extent in lost.values()]
    times = [first for first in firsts if first is not None]
    is_short = any(partition not in extents or extents[partition].end < end for partition, end in ends.items())
    is_bounded = lateness is not None and is_stamped and len(times) == len(firsts)
    if is_short or (firsts and not (is_bounded and begin - (lateness or 0) > max(times))):
        raise error("BACKFILL_RECORDS_GONE", name=query.name, first=_time(max(times, default=None)))
    begins = {
        part: max(e.first if lateness is None else max(e.begin, e.first), begun.get(part, 0))
        for part, e in extents.items()
    }
    read = {part: (begins[part], ends.get(part, 0)) for part, e in extents.items()}
    return Slice({part: (first, last) for part, (first, last) in read.items() if last > first})


def slices(whole: Slice, records: int) -> tuple[Slice, ...]:
    """Split a slice into slices of at most ``records`` records of one partition, partition by partition."""
    pieces = []
    for part, (first, last) in whole.offsets.items():
        pieces += [Slice({part: (at, min(at + records, last))}) for at in range(first, last, records)]
    return tuple(pieces)


def _refused(query: BoundQuery, reason: str) -> Exception:
    return error("BACKFILL_REFUSED", span=query.sink.span, name=query.name, reason=reason)


def _time(millis: int | None) -> str:
    from datetime import datetime, timezone

    return "an unknown time" if millis is None else datetime.fromtimestamp(millis / 1000, timezone.utc).isoformat()
