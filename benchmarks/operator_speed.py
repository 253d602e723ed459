"""How fast the operators of the jar are: compiled plans over rows that Spark makes, in batches of 100,000, against the
nearest plan of Spark's own (:mod:`benchmarks.operator_works`).

Rows come with their columns, nothing is decoded and nothing written, so that the operators are what is measured. State
is kept as the engine keeps it. Beside the speed by the clock: rows by the second of processor time that Spark's tasks
take, which says more on a busy machine, and bytes of state per row of it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import peers
from benchmarks.measure import Pairs, Result, Size, results, say
from benchmarks.operator_works import DECLARED, FLOOR, WORKS, Work
from ds_dagster.catalog.io_spec import Envelope, RowSource
from ds_dagster.jars import driver_jars
from ds_dagster.plan.nodes import Scan
from ds_dagster.project import compile_texts
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.clock import batch_settings, clock_config
from ds_dagster.spark.compiler import PlanCompiler, output_mode, state_store
from ds_dagster.spark.formats import SourceFrame
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.session import build_session, job_session

ROWS = 100_000
KEYS = 10_000
GROUPS = 1_000
WARM = 12
"""Batches that do not count: a job runs for months, and in the first ones Java compiles more than it computes."""
START_MILLIS = 1_700_000_000_000
STEP_MILLIS = 10_000
"""Event time of one batch."""
DEADLINE = 120.0
ENVELOPE = Envelope("CAST(NULL AS BINARY)", "CAST(NULL AS BINARY)", "timestamp", "'0'", "lpad(seq, 19, '0')")
TYPED = RowSource("row", "false", "CAST(NULL AS STRING)", "", "", "")


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows per second at the median batch, rows per CPU second of tasks, bytes per row of state (0: not known)."""

    speed: float
    cpu: float
    bytes_kept: float


def operators_(size: Size, only: str = "") -> list[Result]:
    """Each work whose name holds ``only``, its sides in turns.

    Raises:
        SystemExit: no work has such a name, or a query failed.
    """
    works = {name: work for name, work in WORKS.items() if only in name}
    if not works:
        raise SystemExit(f"no operator is called {only}; known: {', '.join(WORKS)}")
    with tempfile.TemporaryDirectory(prefix="ds-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        engine = EngineSettings(cores=2, memory="2g")
        settings = Settings(root=folder, sql=folder, state=folder, store="m", engine=engine)
        spark = build_session(settings, jars=driver_jars(), app_name="benchmarks")
        spark.sparkContext.setLogLevel("FATAL")
        try:
            return [line for name, work in works.items() for line in _measured(spark, settings, name, work, size)]
        finally:
            spark.stop()


def _measured(spark: SparkSession, settings: Settings, name: str, work: Work, size: Size) -> list[Result]:
    like = "; peer: a sum by the key" if work.like == FLOOR else ""
    speed = Pairs(f"{name}: throughput{like}", "rows/s", True)
    cpu = Pairs(f"{name}: CPU{like}", "rows per CPU second", True)
    kept = Pairs(f"{name}: state{like}", "bytes per row kept", False)
    sides = {"ours": _ours, "peer": _peer}
    for run in range(size.runs):
        order = list(sides)[:: 1 if run % 2 == 0 else -1]
        found = {side: sides[side](spark, settings, work, size) for side in order}
        ours, peer = found["ours"], found["peer"]
        say(f"{name}, run {run}: " + ", ".join(f"{side} {f.speed:,.0f} rows/s, {f.cpu:,.0f} per CPU second, "
                                               f"{f.bytes_kept:,.0f} bytes" for side, f in found.items()))  # fmt: skip
        speed.add(ours.speed, peer.speed)
        cpu.add(ours.cpu, peer.cpu)
        if ours.bytes_kept and peer.bytes_kept:
            kept.add(ours.bytes_kept, peer.bytes_kept)
    if work.target:
        say(f"{name}: target {work.target:,} rows/s on two idle cores")
    return results((speed, cpu, kept))


def rows(session: SparkSession, parts: Mapping[str, float], topic: str) -> DataFrame:
    """Rows of one topic, its share of :data:`ROWS` a batch, spread over the batch's time."""
    seed = sum(topic.encode())
    count = int(ROWS * parts[topic])
    reader = session.readStream.format("rate-micro-batch").name(topic).option("rowsPerBatch", count)
    reader = reader.option("numPartitions", 2).option("startTimestamp", START_MILLIS)
    made = reader.option("advanceMillisPerBatch", STEP_MILLIS).load()
    at = sf.expr(f"unix_millis(timestamp) + value * {ROWS // count} % {STEP_MILLIS}")
    return made.select(
        sf.timestamp_millis(at).alias("timestamp"),
        sf.col("value").cast("string").alias("seq"),
        at.alias("at"),
        sf.expr(f"pmod(hash(value, {seed}), {KEYS})").cast("bigint").alias("id"),
        sf.expr(f"pmod(hash(value, {seed} + 1), {GROUPS})").cast("bigint").alias("grp"),
        sf.expr("value % 1000").alias("amount"),
    )


def _ours(spark: SparkSession, settings: Settings, work: Work, size: Size) -> Figures:
    project = compile_texts([("bench.sql", DECLARED + work.sql)], settings)
    if project.errors:
        raise SystemExit("\n".join(problem.text() for problem in project.errors))
    root = project.queries["q"].root
    session = job_session(spark, batch_settings(root), state_store(root))
    job = f"bench{time.time_ns()}"
    config = clock_config(root, {}, looks=False)
    if config is not None:
        operators(session).register_clock(job, config)
    try:
        frame = PlanCompiler(session, job, partial(_source, session, work.parts)).compile(root)
        return _ran(session, settings, frame, output_mode(root), size)
    finally:
        operators(session).remove_clock(job)


def _source(session: SparkSession, parts: Mapping[str, float], scan: Scan) -> SourceFrame:
    made = rows(session, parts, scan.relation.entity)
    row = sf.struct(*[made[column.name] for column in scan.relation.columns]).alias("row")
    return SourceFrame(made.select("timestamp", "seq", row), ENVELOPE, scan.relation.entity, rows=TYPED)


def _peer(spark: SparkSession, settings: Settings, work: Work, size: Size) -> Figures:
    session = peers.session(spark, rocksdb=work.peer_store)
    parts = dict.fromkeys(work.parts, 1.0) if len(work.parts) == 1 or work.like == FLOOR else work.parts
    frame = work.peer(partial(rows, session, parts))
    return _ran(session, settings, frame, work.peer_mode, size)


def _ran(session: SparkSession, settings: Settings, frame: DataFrame, mode: str, size: Size) -> Figures:
    """Run some batches; those behind the warm ones count."""
    session.conf.set(peers.PARTITIONS, 2)
    warm = size.of(WARM, 2)
    writer = frame.writeStream.format("noop").outputMode(mode)
    query = writer.option("checkpointLocation", str(settings.root / f"checkpoint{time.time_ns()}")).start()
    try:
        reports, used = _watched(session, query, warm, size.of(12, 3))
    finally:
        query.stop()
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    counted = reports[warm:]
    if not counted:
        raise SystemExit("no batch in time")
    millis = statistics.median(report["durationMs"]["triggerExecution"] for report in counted)
    states = counted[-1]["stateOperators"]
    kept = sum(state["numRowsTotal"] for state in states)
    size_ = sum(state["customMetrics"].get("rocksdbSstFileSize", 0) for state in states)
    return Figures(ROWS * 1000 / millis, ROWS * len(counted) / max(used, 0.01), size_ / max(kept, 1))


def _watched(
    session: SparkSession, query: StreamingQuery, unmeasured: int, counted: int
) -> tuple[list[dict[str, Any]], float]:
    """Reports of full batches, oldest first, and the CPU seconds of the tasks of those behind the warm ones."""
    begun, reports = time.monotonic(), dict[int, dict[str, Any]]()
    warm = frozenset(cpu_by_stage(session))
    while len(reports) < unmeasured + counted and query.isActive and time.monotonic() - begun < DEADLINE:
        known = len(reports)
        for report in query.recentProgress:
            if report["numInputRows"] >= ROWS // 2:
                reports.setdefault(report["batchId"], report)
        if known < len(reports) <= unmeasured:
            warm = frozenset(cpu_by_stage(session))
        time.sleep(0.05)
    stages = cpu_by_stage(session)
    return [reports[batch] for batch in sorted(reports)], sum(stages[stage] for stage in stages.keys() - warm)


def cpu_by_stage(session: SparkSession) -> dict[int, float]:
    """CPU seconds of the tasks of each stage; what compilers and collectors take beside them is not in it."""
    context = cast(Any, session.sparkContext)
    quantiles, states = context._gateway.new_array(context._jvm.double, 0), context._jvm.java.util.ArrayList()
    found = context._jsc.sc().statusStore().stageList(None, False, False, quantiles, states)
    stages = [found.apply(index) for index in range(found.size())]
    return {int(stage.stageId()): stage.executorCpuTime() / 1e9 for stage in stages}
