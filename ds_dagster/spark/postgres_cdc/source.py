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
"""While nothing happens to the tables, others may write: after so long, or so much log, an empty batch moves the
offset, and with it the slot, so that the server need not keep that log."""
LOOK_SHARE, LONGEST_PAUSE = 4, 1.0
"""A look that finds nothing is followed by a pause of so many times its own length, up to so many seconds."""
MARK_BYTES = 16 * 1024 * 1024
"""Bytes of log after which a point is recorded from which decoding may begin."""


@crosses
class PostgresCdcSource(DataSource):
    """``ds_postgres_cdc``: changes of tables. Options: ``CdcOptions``."""

    @classmethod
    def name(cls) -> str:
        """Name for ``spark.readStream.format``."""
        return FORMAT

    def schema(self) -> StructType:
        """Columns of the source; ``row`` holds the relation's."""
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

    Spark makes one in the process that plans batches and ships copies to tasks, which only ``read``. A batch is one
    partition: a slot has one user at a time, and changes have one order.

    Spark asks for the next offset only when the batch up to ``start`` is in its commit log; so that is the moment
    when the slot is advanced to ``start``, and it is never ahead of the checkpoint.
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
        """Where a query without a checkpoint begins, without a request to the server."""
        return self._json(LogPosition(begin=self._options.starting_position))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Option ``max.records.per.batch``."""
        return ReadMaxRows(self._options.max_records)

    def prepareForTriggerAvailableNow(self) -> None:
        """A finite run reads what was committed by now."""
        self._freeze = self._connect().look().flushed

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> JsonOffset:
        """End of the next batch; ``start`` itself when there is nothing."""
        at = LogPosition.parse(start)
        if at.lsn is None:
            return self._json(self._begin(at))
        if at.in_snapshot:
            return self._json(replace(at, part=at.part + 1))
        most = limit.max_rows * WAL_BYTES_OF_A_RECORD if isinstance(limit, ReadMaxRows) else self._options.max_bytes
        return self._json(self._next(at, most))

    def reportLatestOffset(self) -> dict[str, dict[str, int | str]] | None:
        """What is known of the source; None before the first look.

        ``complete_until``: everything committed before it (epoch ms) is part of the offsets given out; ``lag_bytes``:
        of log not looked at yet; ``retained_bytes``: of log the slot keeps on the server; ``wal_status``: of that log;
        ``wal_keep``: the most it may keep, ``unlimited`` where a slot that stands still fills the server's disk.
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
        """The batch that ends here is finished: a snapshot that was read is deleted."""
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
                CDC_TRUNCATED. ExternalError: CDC_SLOT_ACTIVE, STORE_UNREACHABLE.
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
        """Publication and slot, and where wanted a copy of the tables. An existing slot is taken over."""
        server = self._connect()
        tables = server.check()
        server.ensure_publication()
        look = server.ensure_slot()
        if at.begin == "latest":
            return LogPosition(look.confirmed or look.flushed)
        exported = server.export()
        try:
            shape = replace(self._options.shape, database=look.database)
            parts = copy_tables(server, tables, exported, shape, look.millis)
        finally:
            with suppress(Exception):
                exported.session.close()
        # what came before stands in the copy: nothing was read yet that the slot could run ahead of
        server.advance(exported.lsn)
        return LogPosition(exported.lsn, min(1, parts), parts)

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
        """The end of a stretch of log with changes of ours; None where there are none. It is as long as a batch may be,
        or as its first transaction is."""
        self._quiet = max(self._quiet, start)
        if self._quiet >= bound:
            return None
        first = server.first_commit(bound)
        if first is None:
            self._quiet = bound
            return None
        return max(first, min(bound, self._quiet + most))

    def _heartbeat(self, start: int) -> int | None:
        """How far the offset moves although nothing happened."""
        silent = self._quiet - start
        due = silent >= HEARTBEAT_BYTES or time.monotonic() - self._moved >= HEARTBEAT_SECONDS
        return self._quiet if silent > 0 and due and self._freeze is None else None

    def _advance(self, server: Server, lsn: int) -> None:
        if lsn - self._marked >= MARK_BYTES:
            server.mark_log()
            self._marked = lsn
        server.advance(lsn)
