"""The Spark side of the source: offsets, partitions and reading."""
# ruff: noqa: N802, ARG002 -- names and arguments of these methods are Spark's

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ds_dagster.clock import Clock, SystemClock
from ds_dagster.spark.crossing import crosses
from ds_dagster.spark.kinesis.buffer import NO_LOOK
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.decode import RECORD_DDL
from ds_dagster.spark.kinesis.losses import Losses
from ds_dagster.spark.kinesis.offsets import (
    JsonOffset,
    ShardPosition,
    offset_json,
    parse_offset,
)
from ds_dagster.spark.kinesis.options import KinesisOptions
from ds_dagster.spark.kinesis.prefetch import Freeze, Prefetcher
from ds_dagster.spark.kinesis.ranges import ShardRange, read_range
from ds_dagster.spark.kinesis.shards import first_positions, forgotten, list_shards, shard_start, startable
from ds_dagster.spark.kinesis.sink import KinesisBatchWriter, KinesisStreamWriter
from ds_dagster.spark.kinesis.spool import Spool, read_shipped, read_spooled, shipped
from ds_dagster.spark.kinesis.timing import RetryPolicy

ROWS_PER_TASK = 20_000
"""Rows after which a task is full: a task takes tens of milliseconds before its first row, so small ranges of many
shards share one."""
SHIP_BYTES = 4 * 1024 * 1024
"""Most bytes of records sent with a task; Spark allows 128 MiB and warns long before."""
NOTE_SECONDS = 30.0
"""Pause between notes on disk of how far shards were read to their end."""


@crosses
class KinesisDataSource(DataSource):
    """``ds_kinesis``: reads and writes one Kinesis stream. Options: ``OPTIONS`` of the module ``options``."""

    @classmethod
    def name(cls) -> str:
        """Name for ``spark.readStream.format``."""
        return "ds_kinesis"

    def schema(self) -> str:
        """Columns of the source."""
        return RECORD_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The streaming source; raises KINESIS_OPTION_INVALID."""
        return KinesisStreamReader(KinesisOptions.parse(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The sink for one batch."""
        return KinesisBatchWriter(KinesisOptions.parse(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The streaming sink (at least once); raises KINESIS_OPTION_INVALID."""
        return KinesisStreamWriter(KinesisOptions.parse(self.options))


@crosses
class KinesisStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader of one stream.

    Spark creates one in the process that plans batches, where it gets threads and a spool on first use, and sends
    copies to tasks, which only call ``read``.
    """

    def __init__(self, options: KinesisOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock: Clock = clock or SystemClock()
        self._client: KinesisClient | None = None
        self._prefetcher: Prefetcher | None = None
        self._spool: Spool | None = None
        self._freeze: Freeze | None = None
        self._given: Mapping[str, ShardPosition] | None = None
        self._losses = Losses(options.stream)
        self._noted_at = 0.0

    def __reduce__(self) -> tuple[object, ...]:
        return (KinesisStreamReader, (self._options,))

    # -- planning -------------------------------------------------------------------------------------------------

    def initialOffset(self) -> JsonOffset:
        """Position at which a query without a checkpoint begins. Raises KINESIS_STREAM_NOT_FOUND."""
        listing = list_shards(self._connect(), self._options.stream)
        now = int(listing.exchange.latest * 1000)
        options = self._options
        positions = first_positions(
            listing.shards, options.starting_position, now, options.starting_timestamp, options.starting_offsets
        )
        return offset_json(self._options.stream, positions)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Option ``max.records.per.batch``."""
        return ReadMaxRows(self._options.max_records)

    def prepareForTriggerAvailableNow(self) -> None:
        """A finite run reads only records that have arrived by now."""
        exchange = list_shards(self._connect(), self._options.stream).exchange
        self._freeze = Freeze(exchange.asked_at, int(exchange.latest * 1000))

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> JsonOffset:
        """End of the next batch: the buffered records, at most ``limit``; equal to ``start`` if there are none.

        A finite run waits for the network here, since a batch without records would end it.
        """
        before = positions = parse_offset(self._options.stream, start)
        pinned = _pinned(positions)
        if pinned != positions:
            # an empty first batch records the time of `latest` in the checkpoint
            return self._give(pinned)
        prefetcher, positions = self._read_ahead(positions)
        if self._clock.monotonic() - self._noted_at >= NOTE_SECONDS:
            self._note()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        while True:
            end = self._advance(prefetcher, positions, most)
            if end != before or self._freeze is None or not prefetcher.wait_for_news():
                return self._give(end)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        """``{shard: {"complete_until": epoch ms, "millis_behind": ms, "finished": true}}``; None before the first look.

        It has every shard of the last offset. ``complete_until`` is the last time at which the shard was read to its
        end and the buffer was empty: every record that arrived before is part of the returned offsets. It is absent
        before that happens. ``millis_behind`` is the age of the oldest record that is not part of them, -1 if unknown.
        ``finished`` replaces both: the shard is closed and read to its end. The first shard also has ``lost_records``,
        for the whole stream, if there are any.
        """
        if self._given is None:
            return None
        looks = self._prefetcher.looks() if self._prefetcher else {}
        report: dict[str, dict[str, int]] = {}
        for shard, position in sorted(self._given.items()):
            look = looks.get(shard, NO_LOOK)
            until = {} if look.complete_until is None else {"complete_until": look.complete_until}
            report[shard] = {"finished": True} if position.closed else {**until, "millis_behind": look.millis_behind}
        lost = self._losses.records
        if lost and report:
            report[min(report)]["lost_records"] = lost
        return report

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Ranges with records, grouped into tasks of about :data:`ROWS_PER_TASK` rows."""
        stream = self._options.stream
        before, after = parse_offset(stream, start), parse_offset(stream, end)
        ranges = []
        for shard, position in after.items():
            first = before.get(shard) or self._shard_start(shard)
            if position.count > first.count:
                path = self._spool.find(shard, first.count, position.count) if self._spool else ""
                ranges.append(self._shipped(self._kept(ShardRange(shard, first, position, path))))
        return [InputPartition(group) for group in _grouped(ranges)]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Remove spool files up to this offset: their batches are finished."""
        if self._spool is None:
            return
        for shard, position in parse_offset(self._options.stream, end).items():
            self._spool.forget(shard, position.count)

    def stop(self) -> None:
        """End threads and remove spool files. Usually Spark kills the process instead; then the next start does it."""
        if self._prefetcher is not None:
            self._prefetcher.stop()
            self._note()
            self._prefetcher = None
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        if self._client is not None:
            self._client.close()
            self._client = None

    # -- in a task ------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one partition: shipped with the task, from the spool, or read from the stream again (after a
        restart, or a large range on another machine).

        Raises:
            UserError: KINESIS_RANGE_TRIMMED.
        """
        wanted: ShardRange
        for wanted in partition.value:
            spooled = read_shipped(wanted.payload) if wanted.payload else _spooled(wanted.path)
            if spooled is not None:
                yield from spooled
            else:
                uncounted = _nothing if self._options.on_trimmed == "skip" else None
                yield from read_range(self._connect(), self._options.stream, wanted, uncounted)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _shard_start(self, shard: str) -> ShardPosition:
        options = self._options
        return shard_start(shard, options.starting_position, options.starting_timestamp, options.starting_offsets)

    def _connect(self) -> KinesisClient:
        if self._client is None:
            policy = RetryPolicy(budget=self._options.retry_seconds)
            self._client = KinesisClient(self._options.connection, policy, self._clock, threading.Event())
        return self._client

    def _read_ahead(self, positions: dict[str, ShardPosition]) -> tuple[Prefetcher, dict[str, ShardPosition]]:
        """The running prefetcher, and the positions; if losses may be skipped, missing shards are closed in them."""
        if self._prefetcher is None:
            sightings = self._files().seen()
            self._prefetcher = Prefetcher(self._connect(), self._options, sightings, self._losses, self._freeze)
        if self._options.on_trimmed == "skip":
            positions = self._without_gone(positions, self._prefetcher)
        self._prefetcher.follow(positions)
        return self._prefetcher, positions

    def _without_gone(self, positions: Mapping[str, ShardPosition], prefetcher: Prefetcher) -> dict[str, ShardPosition]:
        listed = {*prefetcher.shards, *prefetcher.looks()}
        gone = {shard: p for shard, p in positions.items() if not p.closed and shard not in listed}
        for shard, position in gone.items():
            self._losses.gap(shard, position.after)
        return {**positions, **{shard: position.ended() for shard, position in gone.items()}}

    def _kept(self, wanted: ShardRange) -> ShardRange:
        """The range, unchanged unless its batch is repeated and losses may be skipped. Then it is fetched into the
        spool here, since only the process that plans batches can count missing records."""
        if wanted.path or self._options.on_trimmed != "skip":
            return wanted
        missing = partial(self._losses.missing, wanted.shard)
        batches = [*read_range(self._connect(), self._options.stream, wanted, missing)]
        path = self._files().write(wanted.shard, wanted.start.count, wanted.end.count, batches)
        return replace(wanted, path=path)

    def _shipped(self, wanted: ShardRange) -> ShardRange:
        """The range, with its records if ``ship_records`` is set and they are small enough."""
        if not self._options.ship_records:
            return wanted
        return replace(wanted, payload=shipped(wanted.path, SHIP_BYTES))

    def _files(self) -> Spool:
        if self._spool is None:
            self._spool = Spool(self._options.spool, self._options.stream)
        return self._spool

    def _advance(
        self, prefetcher: Prefetcher, positions: Mapping[str, ShardPosition], most: int | None
    ) -> dict[str, ShardPosition]:
        """The positions after taking buffered records, closing ended shards and starting new ones; unchanged if nothing
        happened."""
        end = dict(positions)
        for shard, taken in prefetcher.take(most).items():
            self._files().write(shard, taken.start.count, taken.end.count, taken.batches)
            end[shard] = taken.end
        for shard in prefetcher.drained():
            end[shard] = end[shard].ended()
        children = {shard: self._shard_start(shard) for shard in startable(prefetcher.shards, end)}
        prefetcher.follow(children)
        end.update(children)
        if end == positions:
            return end
        gone = set(forgotten(prefetcher.shards, end))
        return {shard: position for shard, position in end.items() if shard not in gone}

    def _give(self, positions: Mapping[str, ShardPosition]) -> JsonOffset:
        self._given = positions
        return offset_json(self._options.stream, positions)

    def _note(self) -> None:
        if self._spool is not None and self._prefetcher is not None:
            self._spool.note_seen(self._prefetcher.sightings())
            self._noted_at = self._clock.monotonic()


def _nothing(_missing: int) -> None:
    """Does nothing: losses are counted by the process that plans batches, not by tasks."""


def _pinned(positions: Mapping[str, ShardPosition]) -> dict[str, ShardPosition]:
    return {
        shard: ShardPosition("time", time=position.time) if position.kind == "latest" else position
        for shard, position in positions.items()
    }


def _grouped(ranges: Sequence[ShardRange]) -> list[tuple[ShardRange, ...]]:
    """Fill tasks in order until each has about :data:`ROWS_PER_TASK` rows, or :data:`SHIP_BYTES` of records."""
    groups: list[tuple[ShardRange, ...]] = []
    current: tuple[ShardRange, ...] = ()
    for wanted in ranges:
        filled = (*current, wanted)
        is_over = sum(r.rows for r in filled) > ROWS_PER_TASK or sum(len(r.payload) for r in filled) > SHIP_BYTES
        if current and is_over:
            groups.append(current)
            filled = (wanted,)
        current = filled
    return [*groups, current] if current else groups


def _spooled(path: str) -> Iterator[pa.RecordBatch] | None:
    """The spool file's batches, or None if the file is not here (removed, or on another machine)."""
    if not path:
        return None
    batches = read_spooled(path)
    try:
        first = next(batches, None)
    except OSError:
        return None
    return iter(()) if first is None else chain((first,), batches)
