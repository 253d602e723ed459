"""One query of a case on Spark: fed by memory sources, crashed and restarted on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.catalog.io_spec import BatchLoader, LoadResult, ReadSpec, SinkIdentity, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.errors import DsError, error
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.spark.clocks.clock import lateness_edge_millis
from ds_dagster.spark.faults import SPARK_ERRORS
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import PreparedQuery, prepare
from ds_dagster.stores.memory.loader import open_loader
from ds_dagster.testing.case import CrashPoint
from ds_dagster.testing.lookups import LookedUp
from ds_dagster.testing.topics import MemorySource, Topic

if TYPE_CHECKING:
    import pyarrow


LOG = WriteSpec("stream", "", "exactly_once")
"""Write spec of a row log whose records the case captures."""


def plain(value: PropertyValue) -> str:
    """Resolver for memory stores: their options are literals."""
    return str(value.value)


@dataclass(slots=True)
class Crashes:
    """Decides which batches of a step die, each once. A batch of several sinks dies after one of them, in turn: a
    middle one, so that those before it refuse the batch they have and the others catch up, the last and the first one.

    Attributes:
        point: where batches die, None for nowhere.
        sinks: writers after which batches die, in turn; empty for the only one.
        fired: a batch has died, and the query was not restarted yet.
    """

    point: CrashPoint | None = None
    sinks: Sequence[str] = ()
    fired: bool = False
    _first: int | None = None
    _dead: set[int] = field(default_factory=set)

    def arm(self, point: CrashPoint | None) -> None:
        """Set the point for the batches from now on; None disarms."""
        self.point = point
        self._first = None

    def before_write(self, epoch: int) -> None:
        """Called before a batch is written, when the batch before it is committed."""
        self._first = epoch if self._first is None else self._first
        if self.point == "after_commit" and epoch > self._first:
            self._die(epoch)

    def after_write(self, epoch: int, sink: str = "") -> None:
        """Called when a sink has written a batch, before Spark commits it."""
        is_its_turn = not self.sinks or sink == self.sinks[len(self._dead) % len(self.sinks)]
        if self.point == "before_commit" and is_its_turn:
            self._die(epoch)

    def _die(self, epoch: int) -> None:
        if epoch not in self._dead:
            self._dead.add(epoch)
            self.fired = True
            raise error("INJECTED_CRASH")


@dataclass(slots=True)
class TopicSink:
    """Writes a query's records into a topic."""

    topic: Topic
    writer: str
    write: WriteSpec
    now: Callable[[], int]
    crashes: Crashes

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Write one batch."""
        self.crashes.before_write(epoch)
        key, value = (self._column(part) for part in ("key", "value"))
        parts = operators(batch.sparkSession).batch_parts(batch, key, value)
        self.topic.write(self.writer, epoch, parts, self.now())
        self.crashes.after_write(epoch, self.writer)

    def _column(self, part: str) -> str:
        return next((name for name, written in self.write.record if written.startswith(part)), "")


class CrashingLoader:
    """A table's loader that dies where the case wants a crash."""

    def __init__(self, loader: BatchLoader, crashes: Crashes, writer: str) -> None:
        self.loader = loader
        self.crashes = crashes
        self.writer = writer

    def prepare(self, tip: CheckpointTip) -> None:
        """See ``BatchLoader``."""
        self.loader.prepare(tip)

    def load(self, rows: pyarrow.Table, batch: Tip) -> LoadResult:
        """See ``BatchLoader``."""
        self.crashes.before_write(batch.batch)
        result = self.loader.load(rows, batch)
        self.crashes.after_write(batch.batch, self.writer)
        return result

    def finish(self) -> int:
        """See ``BatchLoader``."""
        return self.loader.finish()

    def close(self) -> None:
        """See ``BatchLoader``."""
        self.loader.close()


@dataclass(slots=True)
class RunningQuery:
    """A query of a case.

    Attributes:
        spark: shared session.
        query: bound.
        job: unique among all runs of this process.
        reads: read specs by source name.
        writes: write specs by part: the query's name, or the name of each query of an application.
        sources: by source name.
        checkpoint: folder.
        topics: topics of stream sinks, by part.
        now: the case's clock, epoch milliseconds.
        logs: topics of its row logs, by name.
        crashes: crashes that the case wants.
        failure: why it failed, None if it did not.
        advanced: event time set by the case, epoch milliseconds.
        prepared, streaming: the plan and Spark's query while it runs.
        tables: tables that it looks up.
    """

    spark: SparkSession
    query: BoundQuery
    job: str
    reads: Mapping[str, ReadSpec]
    writes: Mapping[str, WriteSpec]
    sources: Mapping[str, MemorySource]
    checkpoint: Path
    topics: Mapping[str, Topic]
    now: Callable[[], int]
    logs: Mapping[str, Topic] = field(default_factory=dict)
    crashes: Crashes = field(default_factory=Crashes)
    failure: DsError | None = None
    advanced: int | None = None
    prepared: PreparedQuery | None = None
    streaming: StreamingQuery | None = None
    tables: Sequence[LookedUp] = ()

    def start(self) -> None:
        """Build the plan and run it on its checkpoint; event time that the case has advanced is set again.

        Raises:
            DsError: the plan or the target is refused.
        """
        self.prepared = self._prepared(SinkIdentity(self.job, 1))
        self.streaming = face.start(self.prepared, str(self.checkpoint))
        if self.advanced is not None:
            self._advance(self.advanced)

    def _prepared(self, identity: SinkIdentity) -> PreparedQuery:
        owners = {part.name: self.query.writer_of(part, identity) for part in self.query.parts}
        writers = [owner.job for owner in owners.values()]
        self.crashes.sinks = tuple(dict.fromkeys((writers[(len(writers) - 1) // 2], writers[-1], writers[0])))
        loaders = {name: self._loader(name, owner) for name, owner in owners.items()}
        captures = {name: self._capture(name, owner) for name, owner in owners.items()}
        return prepare(
            self.spark,
            self.query,
            reads=self.reads,
            tables={table.scan.source_name: table.spec for table in self.tables},
            writes=self.writes,
            identity=identity,
            resolve=plain,
            job_name=self.job,
            clock="exact",
            provider=self._provide,
            loaders={name: loader for name, loader in loaders.items() if loader is not None},
            captures={name: capture for name, capture in captures.items() if capture is not None},
            logs=dict.fromkeys(self.logs, LOG),
            log_capture=self._log,
        )

    def _loader(self, name: str, owner: SinkIdentity) -> CrashingLoader | None:
        write = self.writes[name]
        if write.kind != "batch":
            return None
        return CrashingLoader(open_loader(write, owner, plain), self.crashes, owner.job)

    def _capture(self, name: str, owner: SinkIdentity) -> TopicSink | None:
        topic = self.topics.get(name)
        return None if topic is None else TopicSink(topic, owner.job, self.writes[name], self.now, self.crashes)

    def _log(self, name: str, rows: list[bytes], epoch: int) -> None:
        self.logs[name].write(self.job, epoch, [(None, row) for row in rows], self.now())

    def _provide(self, scan: Scan, _spec: ReadSpec | None) -> DataFrame:
        return self.sources[scan.source_name].frame()

    def stop(self) -> None:
        """Stop and release all resources; the checkpoint remains."""
        if self.streaming is not None:
            self.streaming.stop()
        if self.prepared is not None:
            face.close(self.prepared)
        self.streaming = self.prepared = None

    def restart(self) -> None:
        """Stop and start; does nothing if the query has failed or does not run."""
        if self.failure is None and self.streaming is not None:
            self.stop()
            self.start()

    def _advance(self, millis: int) -> None:
        operators(self.spark).advance_clock(self.job, (millis - lateness_edge_millis(self.query.plan)) * 1000)

    def catch_up(self, until: int | None = None) -> None:
        """Process the new records of its topics in one batch, so that batches are always the same. With ``until``,
        event time moves to that time in the same batch, after the rows, if the query has event time."""
        for table in self.tables:
            table.write()
        if self.prepared is None or self.streaming is None or self.failure is not None:
            return
        with between_batches(self.streaming):
            is_new = [source.feed() for source in self.sources.values()]
            if until is not None and self.prepared.clock:
                self.advanced = max(until, self.advanced or until)
                self._advance(self.advanced)
                is_new.append(True)
        if any(is_new):
            self.settle()

    def settle(self) -> None:
        """Process all input; after a crash that the case wants, restart.

        Any other failure ends the query, with the reason in ``failure``.
        """
        while self.streaming is not None and self.prepared is not None:
            try:
                self.streaming.processAllAvailable()
                return
            except SPARK_ERRORS:
                if not self.crashes.fired:
                    self.failure = face.failure(self.prepared, self.streaming) or error("INTERNAL", where=self.job)
                    return
                self.crashes.fired = False
                self.restart()

    def finish(self) -> None:
        """Publish a full refresh."""
        if self.prepared is not None and self.failure is None:
            face.finish(self.prepared)


@contextmanager
def between_batches(query: StreamingQuery) -> Iterator[None]:
    """Run the body while the query plans no batch."""
    lock = cast(Any, query)._jsq.streamingQuery().awaitProgressLock()
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()


def unbounded(spec: WriteSpec) -> WriteSpec:
    """A stream sink without its store's transaction, replaced by the topic's ledger, and without its schema registry:
    rows of a case are JSON."""
    return replace(spec, transactional=False, provider="", format="memory", schemas=None)
