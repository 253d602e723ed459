"""Fetched records of one shard that no batch has taken yet. Not thread-safe: the prefetcher locks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pyarrow as pa

from ds_dagster.spark.kinesis.cursor import ShardCursor
from ds_dagster.spark.kinesis.decode import arrived_at
from ds_dagster.spark.kinesis.offsets import ShardPosition

STALE_SECONDS = 30.0
"""The result of a look is ignored after this long."""
UNKNOWN = -1
"""``millis_behind`` of a shard without a recent read."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Buffered records of one shard that now belong to a batch; ``start`` and ``end``: positions before and after."""

    start: ShardPosition
    end: ShardPosition
    batches: tuple[pa.RecordBatch, ...]


@dataclass(frozen=True, slots=True)
class ShardLook:
    """How far a shard is read.

    Attributes:
        complete_until: epoch milliseconds; all records that arrived before are in batches. None before the shard was
            read to its end for the first time.
        millis_behind: age in milliseconds of the oldest record that no batch has taken; 0 if there is none;
            :data:`UNKNOWN`. The API reports it for the end of a page; buffered records are older.
    """

    complete_until: int | None = None
    millis_behind: int = UNKNOWN


NO_LOOK = ShardLook()


@dataclass(slots=True)
class ShardBuffer:
    """One shard's buffer.

    Attributes:
        cursor: reads the shard.
        taken, fetched: positions before and after the buffered records.
        rows, size: number and bytes of the buffered records.
        finished: the shard is closed and read to its end.
        released: the shard was finished when the list of shards was read last, so its children are in it.
        reached: the frozen end of a finite run is reached.
        abandoned: the thread of this buffer has to end.
        complete_until, millis_behind: see :class:`ShardLook`.
        seen_end: time of the last page if it was at the shard's end, epoch milliseconds.
        looked_at: time of the last page, monotonic seconds.
    """

    cursor: ShardCursor
    taken: ShardPosition
    fetched: ShardPosition
    batches: deque[pa.RecordBatch] = field(default_factory=deque)
    rows: int = 0
    size: int = 0
    finished: bool = False
    released: bool = False
    reached: bool = False
    abandoned: bool = False
    complete_until: int | None = None
    seen_end: int | None = None
    millis_behind: int = UNKNOWN
    looked_at: float = float("-inf")

    @property
    def drained(self) -> bool:
        """Whether the shard is closed, everything is taken, and its children are in the list of shards."""
        return self.finished and self.released and not self.rows

    @property
    def settled(self) -> bool:
        """Whether no more records follow in this run."""
        return self.reached and not self.rows

    def add(self, batch: pa.RecordBatch) -> None:
        """Append fetched records."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes

    def cut(self, rows: int) -> tuple[Taken, int]:
        """Take the oldest rows. Returns them, and the number of bytes that this frees."""
        taken: list[pa.RecordBatch] = []
        missing = rows
        while missing:
            batch = self.batches.popleft()
            if batch.num_rows > missing:
                self.batches.appendleft(batch.slice(missing))
                batch = batch.slice(0, missing)
            taken.append(batch)
            missing -= batch.num_rows
        start = self.taken
        self.taken = start.advanced(_number(taken[-1], -1), rows, self._open_sub(taken[-1]))
        self.rows -= rows
        freed = sum(batch.nbytes for batch in taken) if self.rows else self.size
        self.size -= freed
        if not self.rows and self.seen_end is not None:
            self.complete_until = self.seen_end
        return Taken(start, self.taken, tuple(taken)), freed

    def look(self, wall: float, monotonic: float) -> ShardLook:
        """How far the shard is read now.

        Args:
            wall: seconds since 1970.
            monotonic: seconds on the clock of ``looked_at``.
        """
        if self.rows:
            waiting = int(wall * 1000) - arrived_at(self.batches[0], 0)
            return ShardLook(self.complete_until, max(1, waiting, self.millis_behind))
        is_current = self.finished or monotonic - self.looked_at <= STALE_SECONDS
        return ShardLook(self.complete_until, self.millis_behind if is_current else UNKNOWN)

    def _open_sub(self, last: pa.RecordBatch) -> int:
        """Number of the last row inside its aggregate if the next row is in the same aggregate, else -1."""
        if not self.batches or _number(self.batches[0], 0) != _number(last, -1):
            return -1
        return int(last.column("sub_sequence_number")[-1].as_py())


def _number(batch: pa.RecordBatch, row: int) -> str:
    return str(batch.column("sequence_number")[row].as_py())
