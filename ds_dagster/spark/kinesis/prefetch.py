"""Reading ahead: one thread per shard fills a bounded buffer, one more watches the list of shards.

The reader's thread takes what is buffered and never waits for the network. All shared state stands under one lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from ds_dagster.errors import error
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.cursor import Page, ShardCursor, retention_hours
from ds_dagster.spark.kinesis.decode import RawRecord, arrival_millis, decode_records
from ds_dagster.spark.kinesis.offsets import Position
from ds_dagster.spark.kinesis.options import KinesisOptions
from ds_dagster.spark.kinesis.shards import Shard, list_shards
from ds_dagster.spark.kinesis.spool import Sighting

MOST_THREADS = 4096
"""Threads are made when a shard needs one; a stream of more shards than this needs a cluster of readers."""
TRIM_MARGIN_MILLIS = 60_000
"""A record this close to the end of its retention counts as trimmed."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Buffered records of one shard that now belong to a batch. ``end``: position behind them."""

    start: Position
    end: Position
    batches: tuple[pa.RecordBatch, ...]


@dataclass(frozen=True, slots=True)
class Freeze:
    """The moment at which a finite run's input ends: by our clock (seconds) and as the servers stamp records (ms)."""

    local: float
    millis: int


@dataclass(frozen=True, slots=True)
class ShardLook:
    """How far a shard is read: ``complete_until`` epoch ms or None, ``millis_behind`` of the newest record or None."""

    complete_until: int | None
    millis_behind: int | None


NO_LOOK = ShardLook(None, None)


@dataclass(slots=True)
class _State:
    """One shard's buffer. ``taken`` and ``fetched`` are the positions before and behind it."""

    cursor: ShardCursor
    taken: Position
    fetched: Position
    batches: deque[pa.RecordBatch] = field(default_factory=deque)
    rows: int = 0
    size: int = 0
    finished: bool = False
    released: bool = False
    reached: bool = False
    abandoned: bool = False
    complete_until: int | None = None
    seen_end: int | None = None
    millis_behind: int | None = None

    @property
    def drained(self) -> bool:
        """Closed, everything taken, and its children are in the list of shards."""
        return self.finished and self.released and not self.rows

    @property
    def settled(self) -> bool:
        """Nothing more will come in this run."""
        return self.reached and not self.rows


class Prefetcher:
    """Reads the shards of one stream ahead of the batches.

    Args:
        client: shared by all threads; its ``stopped`` event ends them.
        options: of the source.
        sightings: what an earlier process knew (:class:`Sighting` by shard).
        freeze: where a finite run ends; None for a run without end.
    """

    def __init__(
        self,
        client: KinesisClient,
        options: KinesisOptions,
        sightings: Mapping[str, Sighting],
        freeze: Freeze | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._freeze = freeze
        self._changed = threading.Condition()
        self._states: dict[str, _State] = {}
        self._sightings = dict(sightings)
        self._size = 0
        self._futures: list[Future[None]] = []
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="ds-kinesis")
        self._shards: Mapping[str, Shard] = list_shards(client, options.stream).shards
        self._submit(self._threads.submit(self._watch))

    # -- called by the reader -------------------------------------------------------------------------------------

    @property
    def shards(self) -> Mapping[str, Shard]:
        """The last look at the list of shards."""
        return self._shards

    def sightings(self) -> dict[str, Sighting]:
        """When each shard was last seen at its end."""
        with self._changed:
            return dict(self._sightings)

    def follow(self, positions: Mapping[str, Position]) -> None:
        """Read on from these positions; shards that are read from there already go on undisturbed.

        Raises:
            UserError: KINESIS_SHARD_GONE.
        """
        for shard, position in positions.items():
            state = self._states.get(shard)
            if position.closed or (state and state.taken == position):
                continue
            if state:
                self._abandon(state)
            self._start(shard, position)

    def take(self, most: int | None) -> dict[str, Taken]:
        """Up to ``most`` buffered records over all shards, shared fairly; raises what a thread raised."""
        with self._changed:
            self._raise_failure()
            waiting = sorted((s.rows, name) for name, s in self._states.items() if s.rows)
            left, result = most, {}
            for index, (rows, name) in enumerate(waiting):
                share = rows if left is None else min(rows, -(-left // (len(waiting) - index)))
                if share:
                    result[name] = self._cut(self._states[name], share)
                left = None if left is None else left - share
            self._changed.notify_all()
            return result

    def drained(self) -> list[str]:
        """Shards that are closed and read to their end; they are forgotten here."""
        with self._changed:
            ended = [name for name, state in self._states.items() if state.drained]
            for name in ended:
                del self._states[name]
            return ended

    def wait_for_news(self) -> bool:
        """Finite runs: wait until there is something to take or a shard ended; False when the frozen end is reached."""
        with self._changed:
            self._changed.wait_for(self._has_news)
            self._raise_failure()
            return any(s.rows or s.drained for s in self._states.values())

    def looks(self) -> dict[str, ShardLook]:
        """How far every shard that is being read is read."""
        with self._changed:
            return {n: ShardLook(s.complete_until, s.millis_behind) for n, s in sorted(self._states.items())}

    def stop(self) -> None:
        """End all threads; returns at once, a request under way ends with its own time limit."""
        self._client.stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait until every thread has ended; after :meth:`stop`."""
        self._threads.shutdown(wait=True)

    # -- under the lock -------------------------------------------------------------------------------------------

    def _has_news(self) -> bool:
        if self._client.stopped.is_set() or self._failed():
            return True
        states = self._states.values()
        return any(s.rows or s.drained for s in states) or all(s.settled for s in states)

    def _failed(self) -> BaseException | None:
        for future in self._futures:
            if future.done() and not future.cancelled() and future.exception():
                return future.exception()
        return None

    def _raise_failure(self) -> None:
        failure = self._failed()
        if failure:
            raise failure

    def _cut(self, state: _State, rows: int) -> Taken:
        taken: list[pa.RecordBatch] = []
        missing = rows
        while missing:
            batch = state.batches.popleft()
            if batch.num_rows > missing:
                state.batches.appendleft(batch.slice(missing))
                batch = batch.slice(0, missing)
            taken.append(batch)
            missing -= batch.num_rows
        start = state.taken
        state.taken = start.advanced(_number(taken[-1], -1), rows, _open_sub(taken[-1], state.batches))
        state.rows -= rows
        freed = sum(batch.nbytes for batch in taken) if state.rows else state.size
        state.size -= freed
        self._size -= freed
        if not state.rows and state.seen_end is not None:
            state.complete_until = state.seen_end
        return Taken(start, state.taken, tuple(taken))

    # -- threads --------------------------------------------------------------------------------------------------

    def _submit(self, future: Future[None]) -> None:
        self._futures = [f for f in self._futures if not f.done() or f.exception()] + [future]
        future.add_done_callback(self._wake)

    def _wake(self, _: Future[None]) -> None:
        with self._changed:
            self._changed.notify_all()

    def _start(self, shard: str, position: Position) -> None:
        listed = self._shards.get(shard)
        if listed is None:
            after = position.after or "its beginning"
            raise error("KINESIS_SHARD_GONE", stream=self._options.stream, shard=shard, after=after)
        cursor = ShardCursor(
            self._client,
            self._options.stream,
            shard,
            position,
            ending=listed.ending,
            survives_trim=self._survives_trim,
            hashes=listed.hashes,
        )
        state = _State(cursor, position, position)
        with self._changed:
            self._states[shard] = state
        self._submit(self._threads.submit(self._pump, shard, state))

    def _abandon(self, state: _State) -> None:
        with self._changed:
            state.abandoned = True
            self._size -= state.size
            self._changed.notify_all()

    def _pump(self, shard: str, state: _State) -> None:
        stopped = self._client.stopped
        while self._await_room(state):
            page = state.cursor.next_page()
            if self._accept(shard, state, page):
                return
            if page.at_end:
                self._client.clock.wait(stopped, self._options.poll_seconds)

    def _await_room(self, state: _State) -> bool:
        """Wait while the buffer is full; a shard may always hold one page. False when the thread has to end."""
        stopped = self._client.stopped
        with self._changed:
            self._changed.wait_for(
                lambda: stopped.is_set() or state.abandoned or not state.rows or self._size < self._options.buffer_bytes
            )
            return not (stopped.is_set() or state.abandoned)

    def _accept(self, shard: str, state: _State, page: Page) -> bool:
        """Buffer a page; True when the shard needs no further one."""
        records, reached = self._before_freeze(page)
        batch = decode_records(records, shard) if records else None
        until = int(page.exchange.earliest * 1000) if page.at_end and not reached else None
        with self._changed:
            if state.abandoned:
                return True
            if batch is not None:
                state.batches.append(batch)
                state.rows += batch.num_rows
                state.size += batch.nbytes
                self._size += batch.nbytes
                state.fetched = state.fetched.advanced(records[-1]["SequenceNumber"], len(records))
            state.millis_behind = page.millis_behind
            state.seen_end = until
            if until is not None:
                self._sightings[shard] = Sighting(state.fetched.after, until)
                state.complete_until = state.complete_until if state.rows else until
            state.finished = page.finished and len(records) == len(page.records)
            state.reached = reached
            self._changed.notify_all()
            return state.finished or state.reached

    def _before_freeze(self, page: Page) -> tuple[list[RawRecord], bool]:
        """The page's records up to the frozen end, and whether that end is reached."""
        freeze = self._freeze
        if freeze is None:
            return page.records, False
        for index, record in enumerate(page.records):
            if arrival_millis(record) > freeze.millis:
                return page.records[:index], True
        return page.records, page.at_end and not page.finished and page.exchange.asked_at >= freeze.local

    def _survives_trim(self, shard: str, position: Position) -> bool:
        """The record we are behind is gone; nothing is lost if it was still the last one recently enough."""
        if self._options.on_trimmed == "skip":
            return True
        with self._changed:
            sighting = self._sightings.get(shard)
        if sighting is None or sighting.after != position.after or position.sub >= 0:
            return False
        kept = retention_hours(self._client, self._options.stream) * 3_600_000
        return sighting.until > self._client.clock.wall() * 1000 - kept + TRIM_MARGIN_MILLIS

    def _watch(self) -> None:
        """Look at the list of shards now and then, and at once when a shard ended."""
        stopped = self._client.stopped
        while not stopped.is_set():
            with self._changed:
                self._changed.wait_for(
                    lambda: stopped.is_set() or bool(self._unreleased()), self._options.discovery_seconds
                )
                ended = self._unreleased()
            if stopped.is_set():
                return
            shards = list_shards(self._client, self._options.stream).shards
            with self._changed:
                self._shards = shards
                for name, state in self._states.items():
                    state.cursor.ending = shards[name].ending if name in shards else state.cursor.ending
                for state in ended:
                    state.released = True
                self._changed.notify_all()

    def _unreleased(self) -> list[_State]:
        return [state for state in self._states.values() if state.finished and not state.released]


def _number(batch: pa.RecordBatch, row: int) -> str:
    return str(batch.column("sequence_number")[row].as_py())


def _open_sub(last: pa.RecordBatch, waiting: deque[pa.RecordBatch]) -> int:
    """Number of the last row inside its aggregate if the next row belongs to the same one, else -1."""
    if not waiting or _number(waiting[0], 0) != _number(last, -1):
        return -1
    return int(last.column("sub_sequence_number")[-1].as_py())
