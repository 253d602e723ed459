"""What a batch costs when one key has few rows and when it has a million: the same batches of 100 and of 5,000 rows at
the begin (the peer) and at the end. A ratio of 1.0 is flat; below 0.8 a batch costs what is kept.

All rows have one key and stay kept: sources allow an hour of lateness, frames reach an hour back. In between the state
is filled in batches of 50,000.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.measure import Pairs, Result, Size, results, say
from benchmarks.operator_speed import ENVELOPE, TYPED, cpu_by_stage
from ds_dagster.jars import driver_jars
from ds_dagster.plan.nodes import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project import compile_texts
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.clock import batch_settings, clock_config
from ds_dagster.spark.compiler import PlanCompiler, output_mode, state_store
from ds_dagster.spark.formats import SourceFrame
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.session import build_session, job_session

KEPT = 1_000_000
BATCHES = (100, 5_000)
FILLING = 50_000
WARM, COUNTED = 10, 20
RETAINED = MappingProxyType({"spark.ui.retainedStages": "100000", "spark.ui.retainedTasks": "1000000"})
"""All stages of a phase are counted, of its empty batches too."""
DEADLINE = 900.0
DECLARED = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM events (at BIGINT, id BIGINT, seq BIGINT, amount BIGINT)
  WITH ('topic' = 'events', 'value.format' = 'json', 'timestamp' = 'at');
CREATE STREAM others (at BIGINT, id BIGINT, seq BIGINT, amount BIGINT)
  WITH ('topic' = 'others', 'value.format' = 'json', 'timestamp' = 'at');
CREATE CHANGELOG versions (id BIGINT, at BIGINT, seq BIGINT, amount BIGINT, PRIMARY KEY(id))
  WITH ('topic' = 'versions', 'value.format' = 'json', 'timestamp' = 'at');
CREATE CHANGELOG facts (seq BIGINT, id BIGINT, amount BIGINT, PRIMARY KEY(seq))
  WITH ('topic' = 'events', 'value.format' = 'json');
CREATE CHANGELOG groups_ (id BIGINT, amount BIGINT, PRIMARY KEY(id))
  WITH ('topic' = 'groups', 'value.format' = 'json');
"""
LATE = "WITH ('source.allow.latency.millis' = 3600000)"
HOUR = "OVER (PARTITION BY id ORDER BY at RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)"
WORKS: Mapping[str, str] = MappingProxyType(
    {
        "interval join": f"""CREATE STREAM q AS SELECT e.seq, o.seq AS other
            FROM events e {LATE} LEFT JOIN others o {LATE} WITHIN 5 MILLISECONDS ON e.id = o.id;""",
        "OVER an hour": f"""CREATE STREAM q AS SELECT id, SUM(amount) {HOUR} AS s, MAX(amount) {HOUR} AS hi
            FROM events;""",
        "OVER rows that wait": f"""CREATE STREAM q AS SELECT id, SUM(amount) OVER (PARTITION BY id ORDER BY at) AS s
            FROM events {LATE};""",
        "temporal join": f"""CREATE STREAM q AS SELECT e.seq, v.amount
            FROM events e {LATE} JOIN versions v {LATE} ON e.id = v.id;""",
        "temporal join at once": """CREATE STREAM q AS SELECT e.seq, v.amount
            FROM events e JOIN versions v ON e.id = v.id QUERY WITH ('temporal.join.mode' = 'immediate');""",
        "changelog ⋈ changelog": """CREATE CHANGELOG q AS SELECT f.seq, g.amount
            FROM facts f LEFT JOIN groups_ g ON f.id = g.id;""",
    }
)
"""Name → what is run."""
FEW: Mapping[str, str] = MappingProxyType(
    {"others": "value % 20 = 0", "versions": "value % 20 = 0", "groups": "value = 0"}
)
"""Topic → which rows are in it; the others have all."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A session and where checkpoints are."""

    spark: SparkSession
    settings: Settings


def hot_keys(size: Size, only: str = "") -> list[Result]:
    """Each work whose name holds ``only``, with small and with larger batches.

    Raises:
        SystemExit: no work has such a name, or a query failed.
    """
    works = {name: sql for name, sql in WORKS.items() if only in name}
    if not works:
        raise SystemExit(f"no work is called {only}; known: {', '.join(WORKS)}")
    with tempfile.TemporaryDirectory(prefix="ds-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        engine = EngineSettings(cores=2, memory="2g")
        settings = Settings(root=folder, sql=folder, state=folder, store="m", engine=engine, spark=RETAINED)
        spark = build_session(settings, jars=driver_jars(), app_name="benchmarks")
        spark.sparkContext.setLogLevel("FATAL")
        try:
            bench = Bench(spark, settings)
            return [
                line
                for name, sql in works.items()
                for rows in BATCHES
                for line in _measured(bench, name, sql, rows, size)
            ]
        finally:
            spark.stop()


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of the median batch, CPU milliseconds of the tasks of a batch."""

    millis: float
    cpu: float


def _measured(bench: Bench, name: str, sql: str, rows: int, size: Size) -> list[Result]:
    project = compile_texts([("bench.sql", DECLARED + sql)], bench.settings)
    if project.errors:
        raise SystemExit("\n".join(problem.text() for problem in project.errors))
    query = project.queries["q"]
    checkpoint = bench.settings.root / f"checkpoint{time.time_ns()}"
    warm, counted = size.of(WARM, 2), size.of(COUNTED, 3)
    kept = size.rows(KEPT, 20_000)
    _phase(bench, query, checkpoint.with_suffix(".warm"), rows, warm, counted)
    early = _phase(bench, query, checkpoint, rows, warm, counted)
    filling = min(FILLING, kept // 4)
    _phase(bench, query, checkpoint, filling, 1, max(1, (kept - rows * (warm + counted)) // filling))
    late = _phase(bench, query, checkpoint, rows, warm, counted)
    name = f"{name}: one key, batches of {rows:,}"
    say(f"{name}: {early.millis:,.0f} ms ({early.cpu:,.0f} of CPU) with few rows, "
        f"{late.millis:,.0f} ms ({late.cpu:,.0f}) with {kept:,}")  # fmt: skip
    times, cpu = Pairs(name, "ms", False), Pairs(f"{name}: CPU", "ms", False)
    times.add(late.millis, early.millis)
    cpu.add(late.cpu, early.cpu)
    return results((times, cpu))


def _phase(bench: Bench, query: BoundQuery, checkpoint: Path, rows: int, warm: int, counted: int) -> Cost:
    """Goes on with a query in batches of so many rows; what a batch behind the warm ones costs."""
    session = job_session(bench.spark, batch_settings(query.root), state_store(query.root))
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(4 * (warm + counted)))
    job = f"bench{time.time_ns()}"
    config = clock_config(query.root, {}, looks=False)
    if config is not None:
        operators(session).register_clock(job, config)
    try:
        frame = PlanCompiler(session, job, Source(session, rows).frame).compile(query.root)
        writer = frame.writeStream.format("noop").outputMode(output_mode(query.root))
        running = writer.option("checkpointLocation", str(checkpoint)).start()
        _until(running, rows, warm)
        before = cpu_by_stage(session)
        first = _until(running, rows, warm)
        found = _until(running, rows, len(first) + counted)
        cpu = sum(seconds for stage, seconds in cpu_by_stage(session).items() if stage not in before)
        running.stop()
        if running.exception() is not None:
            raise SystemExit(str(running.exception()))
        measured = found[len(first) :]
        return Cost(statistics.median(measured), 1000 * cpu / len(measured))
    finally:
        operators(session).remove_clock(job)


def _until(running: StreamingQuery, rows: int, count: int) -> list[float]:
    """Milliseconds of the full batches until now, at least so many."""
    end = time.monotonic() + DEADLINE
    while running.isActive and time.monotonic() < end:
        found = [report for report in running.recentProgress if report["numInputRows"] >= rows // 2]
        if len(found) >= count:
            return [report["durationMs"]["triggerExecution"] for report in found]
        time.sleep(0.05)
    raise SystemExit(f"no batch in time: {running.exception()}")


@dataclass(frozen=True, slots=True)
class Source:
    """Rows with one key, a millisecond apart."""

    session: SparkSession
    rows: int

    def frame(self, scan: Scan) -> SourceFrame:
        topic = scan.relation.entity
        reader = self.session.readStream.format("rate-micro-batch").name(topic).option("rowsPerBatch", self.rows)
        made = reader.option("numPartitions", 1).option("startTimestamp", 1_700_000_000_000).load()
        made = made.where(FEW.get(topic, "true"))
        at = sf.expr("1700000000000 + value")
        values = made.select(
            sf.timestamp_millis(at).alias("timestamp"),
            sf.lit(1).cast("bigint").alias("id"),
            sf.col("value").alias("seq"),
            at.alias("at"),
            sf.expr("pmod(hash(value), 1000000)").cast("bigint").alias("amount"),
        )
        row = sf.struct(*[values[column.name] for column in scan.relation.columns]).alias("row")
        framed = values.select("timestamp", sf.lpad(sf.col("seq").cast("string"), 19, "0").alias("seq"), row)
        return SourceFrame(framed, ENVELOPE, topic, rows=TYPED)
