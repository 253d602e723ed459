"""Reading ahead: one thread per shard fills a bounded buffer, another thread watches the list of shards.

The reader's thread takes buffered records and does not wait for the network. All shared state is under one lock.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ds_dagster.errors import error
from ds_dagster.spark.kinesis.buffer import ShardBuffer, ShardLook, Taken
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.cursor import Page, ShardCursor, retention_hours
from ds_dagster.spark.kinesis.decode import RawRecord, arrival_millis, decode_records
from ds_dagster.spark.kinesis.losses import Losses
from ds_dagster.spark.kinesis.offsets import ShardPosition
from ds_dagster.spark.kinesis.options import KinesisOptions
from ds_dagster.spark.kinesis.pace import Pace
from ds_dagster.spark.kinesis.shards import Shard, list_shards
from ds_dagster.spark.kinesis.spool import Sighting

MOST_THREADS = 4096
"""Most threads; each shard gets one when it is read. A stream with more shards needs several readers."""
TRIM_MARGIN_MILLIS = 60_000
"""A record this close to the end of its retention counts as trimmed."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """The end of a finite run's input: by our clock (epoch seconds), and in arrival times of records (epoch ms)."""

    local: float
    millis: int


class Prefetcher:
    """Reads the shards of one stream ahead of the batches.

    Args:
        client: shared by all threads; its ``stopped`` event ends them.
        options: options of the source.
        sightings: :class:`Sighting` by shard, from an earlier process.
        losses: counts skipped records.
        freeze: where a finite run ends; None for a continuous run.
    """

    def __init__(
        self,
        client: KinesisClient,
        options: KinesisOptions,
        sightings: Mapping[str, Sighting],
        losses: Losses,
        freeze: Freeze | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._freeze = freeze
        self._losses = losses
        self._changed = threading.Condition()
        self._states: dict[str, ShardBuffer] = {}
        self._sightings = dict(sightings)
        self._size = 0
        self._futures: list[Future[None]] = []
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="ds-kinesis")
        self._shards: Mapping[str, Shard] = list_shards(client, options.stream).shards
        self._submit(self._threads.submit(self._watch))

    # -- called by the reader -------------------------------------------------------------------------------------

    @property
    def shards(self) -> Mapping[str, Shard]:
        """The list of shards, as last requested."""
        return self._shards

    def sightings(self) -> dict[str, Sighting]:
        """For each shard, when it was last read to its end."""
        with self._changed:
            return dict(self._sightings)

    def follow(self, positions: Mapping[str, ShardPosition]) -> None:
        """Read from these positions; shards that are already read from there continue undisturbed.

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
        """Take up to ``most`` buffered records over all shards, shared fairly; None: all. Raises the failure of a
        thread."""
        with self._changed:
            self._raise_failure()
            waiting = sorted((s.rows, name) for name, s in self._states.items() if s.rows)
            left, result = most, {}
            for index, (rows, name) in enumerate(waiting):
                share = rows if left is None else min(rows, -(-left // (len(waiting) - index)))
                if share:
                    result[name], freed = self._states[name].cut(share)
                    self._size -= freed
                left = None if left is None else left - share
            self._changed.notify_all()
            return result

    def drained(self) -> list[str]:
        """Shards that are closed and read to their end; each is returned once, and its buffer is dropped."""
        with self._changed:
            ended = [name for name, state in self._states.items() if state.drained]
            for name in ended:
                del self._states[name]
            return ended

    def wait_for_news(self) -> bool:
        """For finite runs: wait until records can be taken or a shard has ended; False if the frozen end is reached."""
        with self._changed:
            self._changed.wait_for(self._has_news)
            self._raise_failure()
            return any(s.rows or s.drained for s in self._states.values())

    def looks(self) -> dict[str, ShardLook]:
        """For each shard that is being read, how far it is read."""
        wall, monotonic = self._client.clock.now(), self._client.clock.monotonic()
        with self._changed:
            return {name: state.look(wall, monotonic) for name, state in sorted(self._states.items())}

    def stop(self) -> None:
        """End all threads. Returns at once; a running request ends within its own time limit."""
        self._client.stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait until every thread has ended; call it after :meth:`stop`."""
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

    # -- threads --------------------------------------------------------------------------------------------------

    def _submit(self, future: Future[None]) -> None:
        self._futures = [f for f in self._futures if not f.done() or f.exception()] + [future]
        future.add_done_callback(self._wake)

    def _wake(self, _: Future[None]) -> None:
        with self._changed:
            self._changed.notify_all()

    def _start(self, shard: str, position: ShardPosition) -> None:
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
        state = ShardBuffer(cursor, position, position)
        with self._changed:
            self._states[shard] = state
        self._submit(self._threads.submit(self._pump, shard, state))

    def _abandon(self, state: ShardBuffer) -> None:
        with self._changed:
            state.abandoned = True
            self._size -= state.size
            self._changed.notify_all()

    def _pump(self, shard: str, state: ShardBuffer) -> None:
        pace = Pace(self._options.poll_seconds, self._client.policy.jitter)
        while self._await_room(state):
            page = state.cursor.next_page()
            if self._accept(shard, state, page):
                return
            pause = pace.after(throttled=page.throttled, at_end=page.at_end)
            if pause:
                self._client.clock.wait(self._client.stopped, pause)

    def _await_room(self, state: ShardBuffer) -> bool:
        """Wait while the buffer is full; a shard may always buffer one page. False if the thread has to end."""
        stopped = self._client.stopped
        with self._changed:
            self._changed.wait_for(
                lambda: stopped.is_set() or state.abandoned or not state.rows or self._size < self._options.buffer_bytes
            )
            return not (stopped.is_set() or state.abandoned)

    def _accept(self, shard: str, state: ShardBuffer, page: Page) -> bool:
        """Buffer a page; True if no more pages of the shard are needed."""
        records, reached = self._before_freeze(page)
        batch = decode_records(records, shard) if records else None
        until = int(page.exchange.earliest * 1000) if page.at_end and not reached else None
        with self._changed:
            if state.abandoned:
                return True
            if batch is not None:
                state.add(batch)
                self._size += batch.nbytes
                state.fetched = state.fetched.advanced(records[-1]["SequenceNumber"], len(records))
            state.millis_behind, state.looked_at = page.millis_behind, self._client.clock.monotonic()
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

    def _survives_trim(self, shard: str, position: ShardPosition) -> bool:
        """Whether to continue although the record of the position no longer exists; counts a loss if records are
        skipped."""
        if self._was_last(shard, position):
            return True
        if self._options.on_trimmed == "skip":
            self._losses.gap(shard, position.after)
            return True
        return False

    def _was_last(self, shard: str, position: ShardPosition) -> bool:
        """Whether the record of the position was the shard's newest one recently enough, so that nothing is lost."""
        with self._changed:
            sighting = self._sightings.get(shard)
        if sighting is None or sighting.after != position.after or position.sub >= 0 or position.kind == "at":
            return False
        retention_millis = retention_hours(self._client, self._options.stream) * 3_600_000
        return sighting.until > self._client.clock.now() * 1000 - retention_millis + TRIM_MARGIN_MILLIS

    def _watch(self) -> None:
        """Request the list of shards at intervals (``discovery_seconds``), and at once when a shard has ended."""
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

    def _unreleased(self) -> list[ShardBuffer]:
        return [state for state in self._states.values() if state.finished and not state.released]
