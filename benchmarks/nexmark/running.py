"""Runs a query over a dataset: step by step with a restart, to compare; or as fast as it goes, to measure.

Records come from Parquet files that hold them as a topic would hand them over, keys and values as bytes, so decoding
JSON, the plan and encoding of the result are part of it, a broker is not. Results are kept in memory to be compared,
and thrown away behind the encoding to be measured.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.nexmark.dataset import PARTITIONS, RECORDS, Dataset
from benchmarks.nexmark.generator import AUCTIONS, PERSONS, ROUND
from benchmarks.nexmark.halves import Mark
from benchmarks.nexmark.queries import Compiled, batch_answer
from ds_dagster.catalog.io_spec import ReadSpec, SinkIdentity, WriteSpec
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import kind_of_store
from ds_dagster.spark.jvm import TICK_SOURCE
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import prepare
from ds_dagster.spark.queries.sources import STREAM_BATCH_ROWS
from ds_dagster.testing.contents import changes_of, folded
from ds_dagster.testing.running import RunningQuery, plain, unbounded
from ds_dagster.testing.topics import Topic
from ds_dagster.testing.values import normal

Row = Mapping[str, Any]
EVENTS = {"person": PERSONS, "auction": AUCTIONS, "bid": ROUND - PERSONS - AUCTIONS}
"""How many of a round of events go to each topic."""
FIRST_TOPICS = ("side_input",)
"""Topics that are full before a query starts."""


class FileSource:
    """One scan's view of a topic in files; handed over part by part. Outlives restarts of its query.

    Args:
        spark: shared session.
        name: of the source.
        files: of the topic by part, in order.
        folder: empty; what was handed over stands in it.
        parts: most parts of a batch.
    """

    def __init__(
        self, spark: SparkSession, name: str, files: Iterable[Sequence[Path]], folder: Path, parts: int = 1
    ) -> None:
        self.spark = spark
        self.name = name
        self.files = list(files)
        self.folder = folder
        self.most = parts * PARTITIONS
        folder.mkdir(parents=True)

    def feed(self) -> bool:
        """Hand over the next part, all of its files at once; whether there was one."""
        if not self.files:
            return False
        part = self.files.pop(0)
        name = part[0].parent.name
        beside = self.folder.with_name(f"{self.folder.name}-{name}")
        beside.mkdir()
        for path in part:
            os.link(path, beside / path.name)
        beside.rename(self.folder / name)
        return True

    def frame(self) -> DataFrame:
        """In the shape of :data:`ds_dagster.spark.queries.sources.SourceProvider`."""
        reader = self.spark.readStream.format("parquet").name(self.name).schema(from_arrow_schema(RECORDS))
        return reader.option("maxFilesPerTrigger", str(self.most)).load(str(self.folder / "*"))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A result beside the batch answer.

    Attributes:
        rows: of the result, folded by key.
        missing, extra: rows that only the batch answer, only the result has, as JSON.
    """

    rows: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        return not self.missing and not self.extra

    def text(self) -> str:
        """A few of the rows that differ."""
        shown = [*("- " + row for row in self.missing[:5]), *("+ " + row for row in self.extra[:5])]
        return f"{len(self.missing)} rows missing, {len(self.extra)} too many\n" + "\n".join(shown)


@dataclass(frozen=True, slots=True)
class Speed:
    """What one run over everything took. ``seconds`` of wall time, input ``rows``, a mark at the end of each batch."""

    rows: int
    seconds: float
    marks: Sequence[Mark]


def compare(query: Compiled, dataset: Dataset, spark: SparkSession, folder: Path, *, restart: bool) -> Comparison:
    """Run a query over all parts and compare what it holds then with the batch answer.

    Args:
        query: not refused.
        dataset: written.
        spark: shared session.
        folder: for checkpoints and handed-over files.
        restart: stop it in the middle and go on from the checkpoint.

    Raises:
        DsError: the query failed.
    """
    found = _contents(query, dataset, spark, folder / uuid.uuid4().hex, restart)
    given = Counter(map(_shown, found))
    wanted = Counter(map(_shown, batch_answer(query.name, dataset)))
    missing, extra = (tuple(sorted(side.elements())) for side in (wanted - given, given - wanted))
    return Comparison(len(found), missing, extra)


def _shown(row: Row) -> str:
    """Times without zone: the batch side has none."""
    values = {name: normal(value) for name, value in row.items()}
    return json.dumps({n: v.removesuffix("Z") if isinstance(v, str) else v for n, v in values.items()}, sort_keys=True)


def _contents(query: Compiled, dataset: Dataset, spark: SparkSession, folder: Path, restart: bool) -> list[Row]:
    (bound,) = query.project.queries.values()
    topic = Topic(bound.sink.entity)
    running = RunningQuery(
        spark=spark,
        query=bound,
        job=f"{query.name}_{uuid.uuid4().hex[:8]}",
        reads=_reads(query, bound),
        writes={bound.name: _write(query, bound)},
        sources={scan.source_name: _source(spark, dataset, scan, folder) for scan in bound.scans},  # type: ignore[misc]
        checkpoint=folder / "checkpoint",
        topics={bound.name: topic},
        now=lambda: 0,
    )
    _fill_first(running, bound)
    try:
        running.start()
        running.settle()
        for part in range(dataset.parts):
            running.catch_up()
            if restart and part == (dataset.parts - 1) // 2:
                running.restart()
        running.catch_up(dataset.end_millis)
        if running.failure is not None:
            raise running.failure
    finally:
        running.stop()
    changes = list(changes_of(bound.sink, topic))
    return folded(changes, bound.sink.primary_key) if bound.sink.is_changelog else list(changes)


def _source(spark: SparkSession, dataset: Dataset, scan: Scan, folder: Path) -> FileSource:
    return FileSource(spark, scan.source_name, dataset.files(scan.relation.entity), folder / scan.source_name)


def _fill_first(running: RunningQuery, bound: BoundQuery) -> None:
    for scan in bound.scans:
        if scan.relation.entity in FIRST_TOPICS:
            running.sources[scan.source_name].feed()


def _reads(query: Compiled, bound: BoundQuery) -> dict[str, ReadSpec]:
    return {scan.source_name: _read(query, scan) for scan in bound.scans}


def _read(query: Compiled, scan: Scan) -> ReadSpec:
    store = query.project.catalog.store(scan.relation.store)
    return kind_of_store(query.project, scan.relation).read_spec(store, scan.relation, scan.reading, None)


def _write(query: Compiled, bound: BoundQuery) -> WriteSpec:
    store = query.project.catalog.store(bound.sink.store)
    return unbounded(kind_of_store(query.project, bound.sink).write_spec(store, bound.sink, bound.refresh))


# speed


def _parts_of_batch(dataset: Dataset, topic: str) -> int:
    """How many parts of a topic a batch of a backlog has: as many records as the engine reads of it at once."""
    records = dataset.events * EVENTS.get(topic, ROUND) // ROUND
    return max(1, STREAM_BATCH_ROWS * dataset.parts // max(1, records))


def measure(query: Compiled, dataset: Dataset, spark: SparkSession, folder: Path) -> Speed:
    """Run a query over everything there is, part by part, and throw its records away.

    Args:
        query: not refused.
        dataset: written.
        spark: the session of this process.
        folder: for the checkpoint.

    Raises:
        DsError: the query failed.
    """
    (bound,) = query.project.queries.values()
    job = f"{query.name}_{uuid.uuid4().hex[:8]}"

    def provide(scan: Scan, _spec: ReadSpec | None) -> DataFrame:
        place = folder / job / scan.source_name
        topic = scan.relation.entity
        source = FileSource(spark, scan.source_name, dataset.files(topic), place, _parts_of_batch(dataset, topic))
        while source.feed():
            pass
        return source.frame()

    prepared = prepare(
        spark,
        bound,
        reads=_reads(query, bound),
        writes={bound.name: _write(query, bound)},
        identity=SinkIdentity(job, 1),
        resolve=plain,
        job_name=job,
        provider=provide,
        captures={bound.name: lambda batch, _epoch: batch.write.format("noop").mode("overwrite").save()},
    )
    try:
        begun, clock = time.perf_counter(), time.time()
        running = face.start(prepared, str(folder / job / "checkpoint"), "available_now")
        running.awaitTermination()
        seconds = time.perf_counter() - begun
        problem = face.failure(prepared, running)
        if problem is not None:
            raise problem
        marks = _marks(running, clock)
    finally:
        face.close(prepared)
    return Speed(marks[-1][1] if marks else 0, seconds, marks)


def _marks(query: StreamingQuery, begun: float) -> Sequence[Mark]:
    marks, rows = [], 0
    for batch in query.recentProgress:
        rows += sum(s["numInputRows"] for s in batch["sources"] if s["description"] != TICK_SOURCE)
        at = datetime.fromisoformat(batch["timestamp"]).timestamp() + batch["durationMs"]["triggerExecution"] / 1000
        marks.append((at - begun, rows))
    return marks
