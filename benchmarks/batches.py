"""Batches of one query over rows that Spark makes: nothing is decoded and nothing written, so that operators are what
is measured."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import peers
from ds_dagster.catalog.io_spec import Envelope
from ds_dagster.catalog.reading.row_source import RowSource
from ds_dagster.jars import driver_jars
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.plan.state_store import state_store
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.clocks.clock import clock_config
from ds_dagster.spark.compiler import PlanCompiler
from ds_dagster.spark.flow import output_mode
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.spark.session import build_session, job_session

RETAINED = MappingProxyType({"spark.ui.retainedStages": "100000", "spark.ui.retainedTasks": "1000000"})
"""All stages of a run are counted, of its empty batches too."""
DEADLINE = 900.0
ENVELOPE = Envelope("CAST(NULL AS BINARY)", "CAST(NULL AS BINARY)", "timestamp", "'0'", "lpad(seq, 19, '0')")
TYPED = RowSource("row", "false", "CAST(NULL AS STRING)", "", "", "")


@dataclass(frozen=True, slots=True)
class Bench:
    """A session, and the folder of checkpoints as the root of its settings."""

    spark: SparkSession
    settings: Settings

    def checkpoint(self) -> Path:
        """A new one."""
        return self.settings.root / f"checkpoint{time.time_ns()}"


@dataclass(frozen=True, slots=True)
class Counted:
    """What some batches in a row cost.

    Attributes:
        reports: of each batch with rows, as Spark gives them.
        cpu: seconds of the tasks of all of them.
        busy: seconds that these tasks ran, with what they waited for.
    """

    reports: list[dict[str, Any]]
    cpu: float
    busy: float

    @property
    def millis(self) -> list[float]:
        """Of each batch."""
        return [report["durationMs"]["triggerExecution"] for report in self.reports]


@contextmanager
def open_bench(master: str = "") -> Iterator[Bench]:
    """Two cores, 2 GB, a temporary folder; or another master."""
    with tempfile.TemporaryDirectory(prefix="ds-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        engine = EngineSettings(cores=2, memory="2g", master=master)
        settings = Settings(root=folder, sql=folder, state=folder, store="m", engine=engine, spark=RETAINED)
        spark = build_session(settings, jars=driver_jars(), app_name="benchmarks")
        spark.sparkContext.setLogLevel("FATAL")
        try:
            yield Bench(spark, settings)
        finally:
            spark.stop()


def compiled(bench: Bench, sql: str) -> BoundQuery:
    """The query ``q`` of a text.

    Raises:
        SystemExit: the text is not valid.
    """
    project = compile_texts([("bench.sql", sql)], bench.settings)
    if project.errors:
        raise SystemExit("\n".join(problem.text() for problem in project.errors))
    return project.queries["q"]


Rows = Callable[[SparkSession, str], DataFrame]
"""Session and topic → its rows, see :func:`timed`."""


@contextmanager
def planned(bench: Bench, query: BoundQuery, rows: Rows) -> Iterator[tuple[SparkSession, DataFrame]]:
    """The session of a query and its plan, its clock registered meanwhile."""
    session = job_session(bench.spark, {}, state_store(query) or "heap")
    job = f"bench{time.time_ns()}"
    config = clock_config(query.root, {}, looks=False)
    if config is not None:
        operators(session).register_clock(job, config)

    def source(scan: Scan) -> SourceFrame:
        made = rows(session, scan.relation.entity)
        row = sf.struct(*[made[column.name] for column in scan.relation.columns]).alias("row")
        framed = made.select("timestamp", sf.col("place").alias("seq"), row)
        return SourceFrame(framed, ENVELOPE, scan.relation.entity, rows=TYPED)

    try:
        yield session, PlanCompiler(session, job, source).compile(query.root)
    finally:
        operators(session).remove_clock(job)


def made_rows(session: SparkSession, topic: str, count: int, **options: int) -> DataFrame:
    """So many rows a batch with ``value``, from 0 on, and ``timestamp``."""
    reader = session.readStream.format("rate-micro-batch").name(topic).option("rowsPerBatch", count)
    return reader.options(**options).load()


def timed(rows: DataFrame, at: Column, *columns: Column) -> DataFrame:
    """Rows with a millisecond ``at``, the same as ``timestamp``, and their ``place`` in the topic."""
    place = sf.col("value").cast("string").alias("place")
    return rows.select(sf.timestamp_millis(at).alias("timestamp"), place, at.alias("at"), *columns)


@dataclass(frozen=True, slots=True)
class Amount:
    """How many batches: those in front that do not count, those that do, rows of each, partitions of state."""

    warm: int
    counted: int
    rows: int
    partitions: int


def run(session: SparkSession, frame: DataFrame, mode: str, checkpoint: Path, amount: Amount) -> Counted:
    """Start a query, or go on with it; what its batches behind the warm ones cost.

    Raises:
        SystemExit: the query failed, or too few batches came in time.
    """
    session.conf.set(peers.PARTITIONS, amount.partitions)
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(4 * (amount.warm + amount.counted)))
    writer = frame.writeStream.format("noop").outputMode(mode)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        _full(query, amount.rows, amount.warm)
        before = frozenset(tasks_by_stage(session))
        unmeasured = len(_full(query, amount.rows, amount.warm))
        reports = _full(query, amount.rows, unmeasured + amount.counted)
        seconds = [both for stage, both in tasks_by_stage(session).items() if stage not in before]
    finally:
        query.stop()
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    return Counted(reports[unmeasured:], sum(cpu for cpu, _ in seconds), sum(busy for _, busy in seconds))


def _full(query: StreamingQuery, rows: int, count: int) -> list[dict[str, Any]]:
    """Reports of the batches with rows until now, at least so many."""
    end = time.monotonic() + DEADLINE
    while query.isActive and time.monotonic() < end:
        found = [cast(dict[str, Any], report) for report in query.recentProgress if report["numInputRows"] >= rows // 2]
        if len(found) >= count:
            return found
        time.sleep(0.02)
    raise SystemExit(f"no batch in time: {query.exception()}")


def plan_mode(query: BoundQuery) -> str:
    """The output mode of a query."""
    return output_mode(query.root)


def tasks_by_stage(session: SparkSession) -> dict[int, tuple[float, float]]:
    """CPU seconds of the tasks of each stage, and seconds they ran. What compilers and collectors take is not in the
    first."""
    context = cast(Any, session.sparkContext)
    quantiles, states = context._gateway.new_array(context._jvm.double, 0), context._jvm.java.util.ArrayList()
    found = context._jsc.sc().statusStore().stageList(None, False, False, quantiles, states)
    stages = [found.apply(index) for index in range(found.size())]
    return {int(s.stageId()): (s.executorCpuTime() / 1e9, s.executorRunTime() / 1e3) for s in stages}
