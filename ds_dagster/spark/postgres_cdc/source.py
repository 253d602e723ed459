"""The Spark side: offsets, partitions and reading."""
# ruff: noqa: N802, ARG002 -- names and arguments of these methods are Spark's

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from ds_dagster.errors import DsError
from ds_dagster.spark.crossing import crosses
from ds_dagster.spark.postgres_cdc.live.following import Following
from ds_dagster.spark.postgres_cdc.live.wire import Fetch, Standing, fetch
from ds_dagster.spark.postgres_cdc.options import WAL_BYTES_OF_A_RECORD, CdcOptions
from ds_dagster.spark.postgres_cdc.pgoutput import ChangeReader
from ds_dagster.spark.postgres_cdc.position import PARTITION, JsonOffset, LogPosition, has_reached
from ds_dagster.spark.postgres_cdc.rows import has_lists, record_batches
from ds_dagster.spark.postgres_cdc.server import Server, ServerState
from ds_dagster.spark.postgres_cdc.snapshot import Parts, copy_tables

FORMAT = "ds_postgres_cdc"
HEARTBEAT_SECONDS = 60.0
HEARTBEAT_BYTES = 64 * 1024 * 1024
"""While our tables do not change, other tables may: after so many seconds, or so much log, an empty batch moves the
offset and the slot, so that the server can remove that log."""
LOOK_SHARE, LONGEST_PAUSE = 4, 1.0
"""After a look without changes: the pause as a multiple of the look's duration, and its limit in seconds."""
WAIT_SECONDS = 0.3
"""How long a query without another source waits for a change, each time it is asked for the next offset."""
INLINE_BYTES = 1024 * 1024
"""Most bytes of log of a batch whose rows are sent with its plan."""
MARK_BYTES = 16 * 1024 * 1024
"""Bytes of log between two marks from which decoding can begin, see :meth:`Server.mark_log`."""
FRESH_SECONDS, CONFIRM_SECONDS = 0.3, 0.25
"""How old the newest report of a shared session may be, and how long a query waits for it to send all there is in the
log. Otherwise the query looks into its own slot."""
CHECK_SECONDS = 1.0
"""While a query follows a shared session: pause between looks at its own slot and publication."""
ADVANCE_SECONDS, ADVANCE_BYTES = 30.0, 64 * 1024 * 1024
"""And how far its own slot falls behind its checkpoint. The server reads the log once more to advance a slot."""


@crosses
class PostgresCdcSource(DataSource):
    """``ds_postgres_cdc``: changes of tables. Options: ``CdcOptions``."""

    @classmethod
    def name(cls) -> str:
        """Name for ``spark.readStream.format``."""
        return FORMAT

    def schema(self) -> StructType:
        """Columns of the source; ``row`` contains the relation's columns."""
        row = StructType.fromJson(json.loads(self.options["columns"]))
        facts = {"deleted": BooleanType(), "bad": StringType(), "commit_lsn": LongType(), "sequence": LongType()}
        row_type = StructType([StructField("row", row), *(StructField(name, type_) for name, type_ in facts.items())])
        return row_type.add("at", TimestampType())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The streaming source; raises CDC_OPTION_INVALID, CDC_SLOT_NAME_INVALID."""
        return ChangesReader(CdcOptions.parse(self.options))


@dataclass(frozen=True, slots=True)
class _Part:
    lsn: int
    part: int


@dataclass(frozen=True, slots=True)
class _Range:
    """Part of the log; ``live``: address of a hub that has it, and the request; ``database``: name, if ``live``."""

    start: int
    end: int
    live: tuple[str, Fetch] | None = None
    database: str = ""


@crosses
class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader of one slot.

    Spark creates one in the process that plans batches, and sends copies to tasks, which only call ``read``. A batch is
    one partition: a slot has one user at a time, and changes have one order.

    Spark requests the next offset only after the batch up to ``start`` is in its commit log. Then the slot is advanced
    to ``start``, so it is never ahead of the checkpoint.

    A reader that has read its slot to the end follows a shared session (see :mod:`live`): it plans what the session
    reports, and tasks fetch it from there. ``_clear`` is the position up to which our tables have not changed since the
    offset; ``_quiet`` is that position as far as the publication is known to be unchanged.
    """

    def __init__(self, options: CdcOptions) -> None:
        self._options = options
        self._server: Server | None = None
        self._freeze: int | None = None
        self._quiet = 0
        self._next_look = 0.0
        self._moved = time.monotonic()
        self._marked = 0
        self._look: ServerState | None = None
        self._complete_until: int | None = None
        self._end: int = 0
        self._live = Following(options)
        self._clear = 0
        self._check_at = 0.0
        self._advanced = time.monotonic()
        self._fetch: tuple[str, Fetch] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (ChangesReader, (self._options,))

    # -- planning -----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> JsonOffset:
        """Position at which a query without a checkpoint begins; needs no request to the server."""
        return self._json(LogPosition(begin=self._options.starting_position))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Option ``max.records.per.batch``."""
        return ReadMaxRows(self._options.max_records)

    def prepareForTriggerAvailableNow(self) -> None:
        """A finite run reads only transactions that are committed by now."""
        self._freeze = self._connect().look().flushed

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> JsonOffset:
        """End of the next batch; equal to ``start`` if there is nothing to read."""
        at = LogPosition.parse(start)
        if at.lsn is None:
            return self._json(self._begin(at))
        if at.in_snapshot:
            self._reports_from(self._look or self._connect().look(), at.lsn)
            return self._json(replace(at, part=at.part + 1))
        most = limit.max_rows * WAL_BYTES_OF_A_RECORD if isinstance(limit, ReadMaxRows) else self._options.max_bytes
        return self._json(self._awaited(at, most))

    def reportLatestOffset(self) -> dict[str, dict[str, int | str]] | None:
        """Figures of the source; None before the first offset.

        ``complete_until``: everything committed before this time (epoch ms) is part of the returned offsets; missing
        while the tables' copy is read;
        ``millis_behind``: age of that time, 0 if nothing waits; ``lag_bytes``: bytes of log not examined yet;
        ``retained_bytes``: bytes of log that the slot keeps on the server; ``wal_status``: status of that log;
        ``wal_keep``: its limit, or ``unlimited``: then a slot that does not advance fills the server's disk.
        """
        look = self._look
        if look is None:
            return None
        until = {} if self._complete_until is None else {"complete_until": self._complete_until}
        behind = 0 if self._complete_until == look.millis else look.millis - (self._complete_until or look.millis - 1)
        lag = max(0, look.flushed - max(self._end, self._quiet))
        figures = {"millis_behind": behind, "lag_bytes": lag, "retained_bytes": look.retained}
        keep = "unlimited" if look.keep == "-1" else look.keep
        return {PARTITION: {**until, **figures, "wal_status": look.status, "wal_keep": keep}}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Parts of the snapshot, or one range of the log."""
        before, after = LogPosition.parse(start), LogPosition.parse(end)
        if after.lsn is None:
            return []
        if after.part > before.part:
            return [InputPartition(_Part(after.lsn, part)) for part in range(before.part, after.part)]
        if before.lsn is not None and after.lsn > before.lsn:
            return [InputPartition(self._range(before.lsn, after.lsn))]
        return []

    def commit(self, end: Mapping[str, Any]) -> None:
        """Delete the snapshot when its last part is read and that batch is finished."""
        at = LogPosition.parse(end)
        if at.of and not at.in_snapshot:
            Parts.of(self._options).clear()

    def stop(self) -> None:
        """Close connections."""
        self._live.leave()
        if self._server is not None:
            self._server.close()
            self._server = None

    def rows_of(self, partitions: Sequence[InputPartition]) -> Iterator[pa.RecordBatch] | None:
        """The rows of a small batch that the shared session has; None: a task reads them. Spark gets them with the
        plan, so that the batch needs no Python worker."""
        wanted = partitions[0].value if len(partitions) == 1 else None
        if not isinstance(wanted, _Range) or wanted.live is None or wanted.end - wanted.start > INLINE_BYTES:
            return None
        if any(has_lists(field.type) for field in self._options.shape.schema):
            return None
        chunks = fetch(*wanted.live)
        if chunks is None:
            return None
        try:
            return iter(list(record_batches(chunks, replace(self._options.shape, database=wanted.database))))
        except DsError:  # the task raises it
            return None

    # -- in a task ----------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition.

        Raises:
            UserError: CDC_SLOT_AHEAD, CDC_SLOT_MISSING, CDC_SLOT_LOST, CDC_SNAPSHOT_LOST, CDC_COLUMN_GONE,
                CDC_TRUNCATED.
            ExternalError: CDC_SLOT_ACTIVE, STORE_UNREACHABLE.
        """
        wanted: _Part | _Range = partition.value
        if isinstance(wanted, _Part):
            yield from Parts.of(self._options).read(wanted.lsn, wanted.part)
            return
        chunks = None if wanted.live is None else fetch(*wanted.live)
        if chunks is not None and wanted.live is not None:
            yield from record_batches(chunks, replace(self._options.shape, database=wanted.database))
            return
        server = Server(self._options)
        try:
            look = server.look_from(wanted.start)
            changes = ChangeReader(wanted.start, wanted.end)
            chunks_of_slot = (changes.read(chunk) for chunk in server.peek(wanted.end))
            yield from record_batches(chunks_of_slot, replace(self._options.shape, database=look.database))
        finally:
            server.close()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _json(self, at: LogPosition) -> JsonOffset:
        return at.json(self._options.entity)

    def _connect(self) -> Server:
        if self._server is None:
            self._server = Server(self._options)
        return self._server

    def _begin(self, at: LogPosition) -> LogPosition:
        """Create publication and slot, and copy the tables for ``earliest``. An existing slot is used."""
        server = self._connect()
        tables = server.check()
        server.ensure_publication()
        look = server.ensure_slot()
        if at.begin == "latest":
            lsn = look.confirmed or look.flushed
            self._reports_from(look, lsn)
            return LogPosition(lsn)
        exported = server.export()
        try:
            shape = replace(self._options.shape, database=look.database)
            parts = copy_tables(server, tables, exported, shape, look.millis)
        finally:
            with suppress(Exception):
                exported.session.close()
        # earlier changes are in the copy; no offset is stored yet, so the slot cannot get ahead of one
        server.advance(exported.lsn)
        self._reports_from(look, exported.lsn)
        return LogPosition(exported.lsn, min(1, parts), parts)

    def _reports_from(self, look: ServerState, lsn: int) -> None:
        """Report from the first offset on, without a claim of completeness: without a report the job's clock goes by
        this machine's, which has passed the commits that were made while the tables were copied."""
        self._look, self._end = look, lsn

    def _awaited(self, at: LogPosition, most: int) -> LogPosition:
        """The next offset; waits for one for a moment if the query has nothing else to read."""
        end = time.monotonic() + (WAIT_SECONDS if self._options.waits and self._freeze is None else 0.0)
        while (after := self._next(at, most)) == at and (left := end - time.monotonic()) > 0:
            self._live.wait(left, self._next_look - time.monotonic())
        return after

    def _next(self, at: LogPosition, most: int) -> LogPosition:
        assert at.lsn is not None
        self._clear = max(self._clear, self._quiet, at.lsn)
        standing = None if self._freeze is not None else self._live.standing(at.lsn, self._clear)
        if standing is not None and standing.last - self._clear <= most:
            followed = self._followed(at, at.lsn, standing, most)
            if followed is not None:
                return followed
        self._clear = max(self._quiet, at.lsn)
        if time.monotonic() < self._next_look and self._freeze is None:
            return at
        server, begun = self._connect(), time.monotonic()
        look = self._look = server.look_from(at.lsn)
        if look.confirmed is not None and look.confirmed < at.lsn:
            self._advance(server, at.lsn)
        bound = look.flushed if self._freeze is None else self._freeze
        end = self._first_change(server, at.lsn, bound, most)
        if end is None:
            self._complete_until = look.millis
            end = self._heartbeat(at.lsn)
        elif end >= bound:
            self._complete_until = look.millis
        if self._freeze is None and (end is None or end >= bound):
            self._live.join(server)
        took = time.monotonic() - begun
        if end is None:
            self._end = at.lsn
            self._next_look = time.monotonic() + max(self._options.poll_seconds, min(LONGEST_PAUSE, LOOK_SHARE * took))
            return at
        self._end, self._moved = end, time.monotonic()
        return LogPosition(end)

    def _range(self, start: int, end: int) -> _Range:
        """Part of the log, from the shared session if it was planned by it in this process."""
        if self._fetch is None or self._look is None:
            return _Range(start, end)
        address, request = self._fetch
        is_planned = request.end == end and request.start >= start
        return _Range(start, end, (address, request), self._look.database) if is_planned else _Range(start, end)

    def _followed(self, at: LogPosition, lsn: int, standing: Standing, most: int) -> LogPosition | None:
        """The next offset from what the shared session has; None if that is not certain. Equal to ``at`` only if there
        was nothing else a moment ago: an engine concludes from it that the query has caught up."""
        if time.monotonic() >= self._check_at and not self._checked(lsn, standing):
            return None
        if standing.last <= self._clear and time.monotonic() - standing.as_of > FRESH_SECONDS:
            newer = self._live.reached(self._connect().look_from(lsn).flushed, CONFIRM_SECONDS)
            if newer is None or newer.since > self._clear or newer.last - self._clear > most:
                return None
            standing = newer
        self._is_complete_until(standing.complete_until)
        if standing.last <= self._clear:
            self._clear = max(self._clear, standing.head)
            end = self._heartbeat(lsn)
            if end is None:
                self._end = lsn
                return at
        else:
            end = standing.last
            self._fetch = (self._live.address, Fetch(self._live.member, self._clear, end))
        self._end, self._moved = end, time.monotonic()
        return LogPosition(end)

    def _is_complete_until(self, millis: int) -> None:
        """The returned offset includes everything committed before a time (epoch ms; 0: unknown); nothing waits."""
        if millis and self._look is not None:
            self._complete_until = max(millis, self._complete_until or 0)
            self._look = replace(self._look, millis=self._complete_until)

    def _checked(self, lsn: int, standing: Standing) -> bool:
        """Look at slot and publication, and advance the slot from time to time. False if the query left the session.

        Raises:
            UserError: as :meth:`Server.look_from`.
        """
        self._check_at = time.monotonic() + CHECK_SECONDS
        server = self._connect()
        look = self._look = server.look_from(lsn)
        if not (self._live.keeps_up(standing.head, look.flushed) and self._live.is_unchanged(server)):
            self._live.leave()
            return False
        if has_reached(standing.head, look.flushed):
            self._is_complete_until(look.millis)
        if standing.last <= self._clear:
            self._quiet = max(self._quiet, min(self._clear, standing.head))
        confirmed = look.confirmed or 0
        is_due = time.monotonic() - self._advanced >= ADVANCE_SECONDS or lsn - confirmed >= ADVANCE_BYTES
        if confirmed < lsn and is_due:
            self._advanced = time.monotonic()
            self._advance(server, lsn)
        return True

    def _first_change(self, server: Server, start: int, bound: int, most: int) -> int | None:
        """End (LSN) of the next range of the log with changes of our tables; None if there are none. The range is as
        long as a batch may be, or longer if its first transaction is."""
        self._quiet = max(self._quiet, start)
        if self._quiet >= bound:
            return None
        first = server.first_commit(bound)
        if first is None:
            self._quiet = bound
            return None
        return max(first, min(bound, self._quiet + most))

    def _heartbeat(self, start: int) -> int | None:
        """Position to which the offset moves although nothing changed; None if it is too early for that."""
        silent = self._quiet - start
        due = silent >= HEARTBEAT_BYTES or time.monotonic() - self._moved >= HEARTBEAT_SECONDS
        return self._quiet if silent > 0 and due and self._freeze is None else None

    def _advance(self, server: Server, lsn: int) -> None:
        if lsn - self._marked >= MARK_BYTES:
            server.mark_log()
            self._marked = lsn
        server.advance(lsn)
