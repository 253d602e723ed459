"""Compute a time range of a table again from the records of its topic, and replace it in one transaction. Used by
``ds backfill`` and by runs of partitions in Dagster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.io_spec import SinkIdentity, open_loader
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.ranges import Replaced, ReplacesRanges, TimeRange
from ds_dagster.catalog.reading.extent import TellsExtents
from ds_dagster.catalog.reading.skip import skips_of
from ds_dagster.errors import error
from ds_dagster.plan.checks.recomputable import closed_windows, reach_millis
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, kind_of_store, store_admin
from ds_dagster.project.ranges import why_no_ranges
from ds_dagster.runtime.checkpoint_log import first_offsets, kept_batches
from ds_dagster.runtime.checkpoint_switch import BatchEnd
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.backfilling import Loaded, Slice, check_topic, offsets_to_read, slices
from ds_dagster.runtime.journals.history import note_in_history
from ds_dagster.runtime.sink_ends import sink_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 200_000
"""Most records in one slice."""
PACE_SECONDS = 5.0
"""With a rate, a slice has at most the records of this many seconds."""


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """The records that a backfill reads again.

    Attributes:
        whole, tip: the records, and the newest batch of the table when it was planned.
        before: number of those records that are from before the query began, which it has never read; None if unknown.
        closed: watermark of that batch, epoch milliseconds: windows that end later are not in the table yet; None for
            rows that are not aggregates of windows.
    """

    whole: Slice
    tip: Tip
    before: int | None = None
    closed: int | None = None

    def __str__(self) -> str:
        text = f"{self.whole.records:,} records of {len(self.whole.offsets)} partitions are read again"
        return f"{text}, {self.before:,} of them from before the query began" if self.before else text


@dataclass(frozen=True, slots=True)
class Backfill:
    """One range of one table.

    Attributes:
        requested_by: actor in the history of the query.
        lateness: seconds, see ``offsets_to_read``; None if unknown.
        rate: records per second; None: as fast as possible.
        has_history: also records from before the query began are read.
        has_late: windows count records that came after they closed, which the query has left out.
        session: the caller's Spark session; None: a new one.
    """

    project: LoadedProject
    control: Control
    query: BoundQuery
    span: TimeRange
    requested_by: str
    lateness: int | None = None
    rate: int | None = None
    has_history: bool = True
    has_late: bool = False
    session: SparkSession | None = None

    def planned(self) -> PlannedRange:
        """The records to read again; reads the ledger and the topic's offsets, writes nothing.

        Raises:
            UserError: BACKFILL_REFUSED, BACKFILL_RECORDS_GONE. DsError: of the stores.
        """
        reason = why_no_ranges(self.project.catalog, self.query)
        if reason:
            raise self._refused(reason)
        (scan,) = self.query.scans
        loaded = self._loaded(scan)
        begin = round(self.span.begin.timestamp() * 1000)
        late = self._late()
        since = None if late is None else max(0, begin - late)
        with closing(store_admin(self.project, scan.relation.store, self._resolve(scan.relation.store))) as admin:
            facts, operations = admin.describe(scan.relation.entity), admin.operations()
            check_topic(self.query, facts, loaded.identity)
            assert isinstance(operations, TellsExtents)
            extents = operations.extents(scan.relation.entity, since)
        is_stamped = facts is not None and facts.record_time == "broker"
        began = self._began(scan)
        if began is None and not self.has_history:
            raise self._refused("its checkpoint, which says where it began, is not on this machine")
        begun = {} if self.has_history or began is None else began
        closed = self._closed(scan, loaded.tip, is_stamped=is_stamped) if closed_windows(self.query) else None
        whole = offsets_to_read(self.query, extents, loaded.ends, begin, late, is_stamped=is_stamped, begun=begun)
        return PlannedRange(whole, loaded.tip, None if began is None else whole.before(began), closed)

    def carried_out(self, planned: PlannedRange) -> Replaced:
        """Replace the rows.

        Raises:
            UserError: BACKFILL_OVERTAKEN. DsError: of the stores, of Spark.
        """
        loader = self._loader()
        assert isinstance(loader, ReplacesRanges)
        replaced = loader.replace_range(self.span, self._rows(planned), planned.tip)
        what = f"backfill of {self.span}" + ("" if self.has_history else ", with records that it has read")
        what += f": {replaced.inserted} rows instead of {replaced.deleted}"
        note_in_history(self.control, [self.query.name], what, self.requested_by, self.control.clock.now())
        return replaced

    def _rows(self, planned: PlannedRange) -> Iterator[Any]:
        """Slice by slice, no faster than the rate; windows need all records at once."""
        from ds_dagster.engine.bounded import rows_of_slices

        skips = skips_of(self.control.running().jobs[self.query.name].skips)
        resolve = self._resolve(self.query.scans[0].relation.store)
        whole, closed = planned.whole, planned.closed
        pieces = self._paced(whole) if closed is None else iter((whole,) if whole.records else ())
        yield from rows_of_slices(
            self.project, self.query, pieces, self.span, resolve, skips, self.session, closed=closed
        )

    def _paced(self, whole: Slice) -> Iterator[Slice]:
        began, records = self.control.clock.monotonic(), 0
        for piece in slices(whole, self._at_once):
            self._wait(began, records)
            yield piece
            records += piece.records

    @property
    def _at_once(self) -> int:
        return AT_ONCE if self.rate is None else max(1, min(AT_ONCE, round(self.rate * PACE_SECONDS)))

    def _wait(self, began: float, records: int) -> None:
        if self.rate is not None:
            left = began + records / self.rate - self.control.clock.monotonic()
            self.control.clock.sleep(max(0.0, left))

    def _late(self) -> int | None:
        """Milliseconds between a record's time and the range that it may be a part of; None if unknown."""
        if self.has_late and closed_windows(self.query) is None:
            raise self._refused("it has no windows that leave out late records")
        reach = reach_millis(self.query, self.span.column)
        if self.lateness is None:
            return None
        if reach is None:
            raise self._refused("a session may have begun at any time before its end: leave --lateness out")
        return self.lateness * 1000 + reach

    def _closed(self, scan: Scan, tip: Tip, *, is_stamped: bool) -> int:
        """Watermark of a batch of the query, epoch milliseconds.

        Raises:
            UserError: BACKFILL_REFUSED: unknown, or windows may lack records that came late.
        """
        if not self.has_late and not (is_stamped and scan.time.column is None):
            raise self._refused(
                "its windows lack records that came late, and only times that the broker sets are in order; "
                "--with-late-rows (with_late_rows in Dagster) counts these records, too"
            )
        if self.rate is not None:
            raise self._refused("its windows are computed from all records at once, so --rate has no effect")
        place = self._place
        batch = None if place is None else kept_batches(place).batches.get(tip.batch)
        if place is None or batch is None or not batch.is_same(tip):
            raise self._refused("the checkpoint that says which windows are closed is not on this machine")
        return BatchEnd.of(place, tip.batch).watermark

    @property
    def _place(self) -> Path | None:
        """Checkpoint of the query; None if it is on another machine."""
        if not self.control.fleet.shares_host():
            return None
        status = self.control.status(self.query.name)
        return self.control.checkpoints().path(status.writes_as, status.checkpoint_version)

    def _began(self, scan: Scan) -> Mapping[str, int] | None:
        """Partition → offset at which the query began to read; None if unknown."""
        place = self._place
        return None if place is None else first_offsets(place, scan.source_name, scan.relation.entity)

    def _loaded(self, scan: Scan) -> Loaded:
        if not self.control.journal.exists():
            raise self._refused("nothing was loaded yet")
        (end,) = sink_ends(self.project, self.query, self._identity)
        return Loaded.of(self.query, scan, end.tip, end.unknown)

    def _loader(self) -> Any:
        sink = self.query.sink
        write = kind_of_store(self.project, sink).write_spec(
            self.project.catalog.store(sink.store), sink, self.query.refresh
        )
        return open_loader(write, self._identity, self._resolve(sink.store))

    @property
    def _identity(self) -> SinkIdentity:
        status = self.control.status(self.query.name)
        return self.control.journal.identity().sink(status.writes_as, status.checkpoint_version)

    def _resolve(self, store: str) -> Any:
        return resolver(self.project.settings, store)

    def _refused(self, reason: str) -> Exception:
        return error("BACKFILL_REFUSED", span=self.query.sink.span, name=self.query.name, reason=reason)
