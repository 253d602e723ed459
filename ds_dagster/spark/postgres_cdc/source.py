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

from ds_dagster.spark.crossing import crosses
from ds_dagster.spark.postgres_cdc.options import WAL_BYTES_OF_A_RECORD, CdcOptions
from ds_dagster.spark.postgres_cdc.pgoutput import ChangeReader
from ds_dagster.spark.postgres_cdc.position import PARTITION, JsonOffset, LogPosition
from ds_dagster.spark.postgres_cdc.rows import make_rows
from ds_dagster.spark.postgres_cdc.server import Server, ServerState
from ds_dagster.spark.postgres_cdc.snapshot import READ_ROWS, Parts, copy_tables

FORMAT = "ds_postgres_cdc"
HEARTBEAT_SECONDS = 60.0
HEARTBEAT_BYTES = 64 * 1024 * 1024
"""While our tables do not change, other tables may: after so many seconds, or so much log, an empty batch moves the
offset and the slot, so that the server can remove that log."""
LOOK_SHARE, LONGEST_PAUSE = 4, 1.0
"""After a look without changes: the pause as a multiple of the look's duration, and its limit in seconds."""
MARK_BYTES = 16 * 1024 * 1024
"""Bytes of log between two marks from which decoding can begin, see :meth:`Server.mark_log`."""


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
    start: int
    end: int


@crosses
class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader of one slot.

    Spark creates one in the process that plans batches, and sends copies to tasks, which only call ``read``. A batch is
    one partition: a slot has one user at a time, and changes have one order.

    Spark requests the next offset only after the batch up to ``start`` is in its commit log. Then the slot is advanced
    to ``start``, so it is never ahead of the checkpoint.
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
        return self._json(self._next(at, most))

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
            return [InputPartition(_Range(before.lsn, after.lsn))]
        return []

    def commit(self, end: Mapping[str, Any]) -> None:
        """Delete the snapshot when its last part is read and that batch is finished."""
        at = LogPosition.parse(end)
        if at.of and not at.in_snapshot:
            Parts.of(self._options).clear()

    def stop(self) -> None:
        """Close connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

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
        server = Server(self._options)
        try:
            look = server.look_from(wanted.start)
            shape = replace(self._options.shape, database=look.database)
            changes = ChangeReader(wanted.start, wanted.end)
            for chunk in server.peek(wanted.end):
                rows = make_rows(changes.read(chunk), shape)
                if rows is not None:
                    yield from (rows.slice(at, READ_ROWS) for at in range(0, rows.num_rows, READ_ROWS))
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

    def _next(self, at: LogPosition, most: int) -> LogPosition:
        assert at.lsn is not None
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
        took = time.monotonic() - begun
        if end is None:
            self._end = at.lsn
            self._next_look = time.monotonic() + max(self._options.poll_seconds, min(LONGEST_PAUSE, LOOK_SHARE * took))
            return at
        self._end, self._moved = end, time.monotonic()
        return LogPosition(end)

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
