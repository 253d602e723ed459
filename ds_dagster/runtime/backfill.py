"""Compute a time range of a table again from the records of its source, and replace it in one transaction. Used by
``ds backfill`` and by runs of partitions in Dagster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.io_spec import SinkIdentity, open_loader
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.past import Past, PastRequest, Portion, ReadsPast
from ds_dagster.catalog.reading.ranges import Replaced, ReplacesRanges, TimeRange
from ds_dagster.catalog.reading.skip import skips_of
from ds_dagster.errors import error
from ds_dagster.places.trees import Place
from ds_dagster.plan.checks.recomputable import closed_windows
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, kind_of_store, store_admin
from ds_dagster.project.ranges import why_no_ranges
from ds_dagster.runtime.checkpoint_log import first_offset, kept_batches
from ds_dagster.runtime.checkpoint_switch import BatchEnd, source_ends
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.backfilling import Loaded, wanted_times
from ds_dagster.runtime.journals.history import note_in_history
from ds_dagster.runtime.sink_ends import sink_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """The records that a backfill reads again.

    Attributes:
        past, tip: the records, and the newest batch of the table when it was planned.
        closed: watermark of that batch, epoch milliseconds: windows that end later are not in the table yet; None for
            rows that are not aggregates of windows.
    """

    past: Past
    tip: Tip
    closed: int | None = None

    def __str__(self) -> str:
        return str(self.past)


@dataclass(frozen=True, slots=True)
class Backfill:
    """One range of one table.

    Attributes:
        requested_by: actor in the history of the query.
        lateness: seconds, see ``wanted_times``; None if unknown.
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
        """The records to read again; reads the ledger and looks at the source, writes nothing.

        Raises:
            UserError: BACKFILL_REFUSED, BACKFILL_RECORDS_GONE. DsError: of the stores.
        """
        reason = why_no_ranges(self.project.catalog, self.query)
        if reason:
            raise self._refused(reason)
        if self.has_late and closed_windows(self.query) is None:
            raise self._refused("it has no windows that leave out late records")
        (scan,) = self.query.scans
        loaded = self._loaded(scan)
        request = self._request(scan, loaded)
        with closing(store_admin(self.project, scan.relation.store, self._resolve(scan.relation.store))) as admin:
            operations = admin.operations()
            assert isinstance(operations, ReadsPast)
            past = operations.past(request)
        is_windowed = closed_windows(self.query) is not None
        closed = self._closed(scan, loaded.tip, is_stamped=past.is_stamped) if is_windowed else None
        return PlannedRange(past, loaded.tip, closed)

    def _request(self, scan: Scan, loaded: Loaded) -> PastRequest:
        place, source = self._place, scan.source_name
        since, until = wanted_times(self.query, self.span, self.lateness)
        return PastRequest(
            query=self.query.name,
            span=self.query.sink.span,
            entity=scan.relation.entity,
            end=loaded.end,
            identity=loaded.identity,
            began=None if place is None else first_offset(place, source),
            batches={} if place is None else source_ends(place, source),
            since=since,
            until=until,
            is_own=not self.has_history,
        )

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
        """Portion by portion, no faster than the rate; windows need all records at once."""
        from ds_dagster.engine.bounded import rows_of_portions

        skips = skips_of(self.control.running().jobs[self.query.name].skips)
        resolve = self._resolve(self.query.scans[0].relation.store)
        past, closed = planned.past, planned.closed
        whole = past.whole()
        portions = self._paced(past) if closed is None else iter(() if whole is None else (whole,))
        yield from rows_of_portions(
            self.project, self.query, portions, self.span, resolve, skips, self.session, closed=closed
        )

    def _paced(self, past: Past) -> Iterator[Portion]:
        began, records = self.control.clock.monotonic(), 0
        for portion in past.portions(self.rate):
            self._wait(began, records)
            yield portion
            records += portion.records or 0

    def _wait(self, began: float, records: int) -> None:
        if self.rate is not None:
            left = began + records / self.rate - self.control.clock.monotonic()
            self.control.clock.sleep(max(0.0, left))

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
    def _place(self) -> Place | None:
        """Checkpoint of the query; None if it is on another machine."""
        if not self.control.sees_checkpoints():
            return None
        status = self.control.status(self.query.name)
        return self.control.checkpoints().path(status.writes_as, status.checkpoint_version)

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
