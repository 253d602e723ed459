"""How fast sums over changelogs are, and sums that forget: compiled plans over rows that Spark makes, in batches of
100,000, against Spark's own sum.

Rows come with their columns, nothing is decoded and nothing written, so that the operators are what is measured. State
is kept as the engine keeps it. Beside the speed: bytes of state per key that is kept.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks import peers
from benchmarks.measure import Pairs, Result, Size, results, say
from ds_dagster.catalog.io_spec import Envelope, RowSource
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

ROWS = 100_000
KEYS = 10_000
WARM = 3
START_MILLIS = 1_700_000_000_000
STEP_MILLIS = 10_000
"""Event time of one batch."""
DEADLINE = 150.0
ENVELOPE = Envelope("CAST(NULL AS BINARY)", "CAST(NULL AS BINARY)", "timestamp", "'0'", "lpad(seq, 19, '0')")
TYPED = RowSource("row", "false", "CAST(NULL AS STRING)", "", "", "")
DECLARED = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE CHANGELOG rows_ (id BIGINT, grp BIGINT, amount BIGINT, PRIMARY KEY(id))
  WITH ('topic' = 'rows', 'value.format' = 'json');
CREATE STREAM events (id BIGINT, grp BIGINT, amount BIGINT) WITH ('topic' = 'events', 'value.format' = 'json');
"""


@dataclass(frozen=True, slots=True)
class Work:
    """One plan.

    Attributes:
        sql: of the query ``q``.
        peer: the nearest plan of Spark's own over a frame of rows.
    """

    sql: str
    peer: Callable[[Callable[[str], DataFrame]], DataFrame]


def _sum_peer(rows: Callable[[str], DataFrame]) -> DataFrame:
    """Appended rows: the same sums without taking anything back."""
    return rows("rows").groupBy("grp").agg(sf.count("*"), sf.sum("amount"))


WORKS: Mapping[str, Work] = MappingProxyType(
    {
        "changelog → sum": Work(
            "CREATE CHANGELOG q AS SELECT grp, COUNT(*) AS n, SUM(amount) AS s FROM rows_ GROUP BY grp;",
            _sum_peer,
        ),
        "stream → sum, forgotten after a day": Work(
            """CREATE CHANGELOG q AS SELECT grp, COUNT(*) AS n, SUM(amount) AS s FROM events GROUP BY grp
               QUERY WITH ('state.ttl.millis' = 86400000);""",
            _sum_peer,
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows per second at the median batch, rows per second of CPU, bytes of state per thing kept (0: not known)."""

    speed: float
    cpu: float
    bytes_kept: float


def operators_(size: Size) -> list[Result]:
    """All works, each side in turns."""
    with tempfile.TemporaryDirectory(prefix="ds-bench-") as name:
        folder = Path(name)
        settings = Settings(
            root=folder, sql=folder, state=folder, store="m", engine=EngineSettings(cores=2, memory="2g")
        )
        spark = build_session(settings, jars=driver_jars(), app_name="benchmarks")
        spark.sparkContext.setLogLevel("ERROR")
        try:
            found: list[Result] = []
            for name, work in WORKS.items():
                found += _measured(spark, settings, name, work, size)
            return found
        finally:
            spark.stop()


def _measured(spark: SparkSession, settings: Settings, name: str, work: Work, size: Size) -> list[Result]:
    speed = Pairs(f"{name}: throughput", "rows/s", True)
    kept = Pairs(f"{name}: state", "bytes per key", False)
    for run in range(size.runs):
        sides = {"ours": _ours(spark, settings, work, size)}
        sides["peer"] = _peer(spark, settings, work, size)
        ours, peer = sides["ours"], sides["peer"]
        say(f"{name}, run {run}: " + ", ".join(f"{side} {f.speed:,.0f} rows/s, {f.cpu:,.0f} per CPU second, "
                                               f"{f.bytes_kept:,.0f} bytes" for side, f in sides.items()))  # fmt: skip
        speed.add(ours.speed, peer.speed)
        if peer.bytes_kept:
            kept.add(ours.bytes_kept, peer.bytes_kept)
    return results((speed, kept))


def rows(session: SparkSession, topic: str, sources: int) -> DataFrame:
    """Rows of one of the sources of a plan, of which all together give :data:`ROWS` a batch."""
    seed = sum(topic.encode())
    reader = session.readStream.format("rate-micro-batch").name(topic).option("rowsPerBatch", ROWS // sources)
    reader = reader.option("numPartitions", 2).option("startTimestamp", START_MILLIS)
    made = reader.option("advanceMillisPerBatch", STEP_MILLIS).load()
    return made.select(
        "timestamp",
        sf.col("value").cast("string").alias("seq"),
        sf.expr(f"pmod(hash(value, {seed}), {KEYS})").cast("bigint").alias("id"),
        sf.expr(f"pmod(hash(value, {seed} + 1), 1000)").cast("bigint").alias("grp"),
        sf.expr("value % 1000").alias("amount"),
    )


def _ours(spark: SparkSession, settings: Settings, work: Work, size: Size) -> Figures:
    project = compile_texts([("bench.sql", DECLARED + work.sql)], settings)
    if project.errors:
        raise SystemExit("\n".join(problem.text() for problem in project.errors))
    query = project.queries["q"]
    session = job_session(spark, batch_settings(query.root), state_store(query.root))
    job = f"bench{time.time_ns()}"
    config = clock_config(query.root, {}, looks=False)
    if config is not None:
        operators(session).register_clock(job, config)
    frame = PlanCompiler(session, job, lambda scan: _source(session, query, scan)).compile(query.root)
    return _ran(session, settings, frame, output_mode(query.root), size)


def _source(session: SparkSession, query: BoundQuery, scan: Scan) -> SourceFrame:
    made = rows(session, scan.relation.entity, len(query.scans))
    row = sf.struct(*[made[column.name] for column in scan.relation.columns]).alias("row")
    return SourceFrame(made.select("timestamp", "seq", row), ENVELOPE, scan.relation.entity, rows=TYPED)


def _peer(spark: SparkSession, settings: Settings, work: Work, size: Size) -> Figures:
    session = peers.session(spark, rocksdb=True)
    return _ran(session, settings, work.peer(lambda topic: rows(session, topic, 1)), "update", size)


def _ran(session: SparkSession, settings: Settings, frame: DataFrame, mode: str, size: Size) -> Figures:
    """Run some batches; those behind the warm ones count."""
    session.conf.set(peers.PARTITIONS, 2)
    wanted = WARM + size.of(8, 2)
    pid = int(session._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    writer = frame.writeStream.format("noop").outputMode(mode)
    query = writer.option("checkpointLocation", str(settings.root / f"checkpoint{time.time_ns()}")).start()
    begun, used, reports = time.monotonic(), 0.0, {}
    before = _cpu(pid)
    try:
        while len(reports) < wanted and query.isActive and time.monotonic() - begun < DEADLINE:
            for report in query.recentProgress:
                if report["numInputRows"] >= ROWS // 2:
                    reports.setdefault(report["batchId"], report)
            if len(reports) <= WARM:
                before = _cpu(pid)
            used = _cpu(pid) - before
            time.sleep(0.05)
    finally:
        query.stop()
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    counted = [reports[batch] for batch in sorted(reports)][WARM:]
    if not counted:
        raise SystemExit("no batch in time")
    millis = statistics.median(report["durationMs"]["triggerExecution"] for report in counted)
    states = counted[-1]["stateOperators"]
    kept = sum(state["numRowsTotal"] for state in states)
    size_ = sum(state["customMetrics"].get("rocksdbSstFileSize", 0) for state in states)
    return Figures(ROWS * 1000 / millis, ROWS * len(counted) / max(used, 0.01), size_ / max(kept, 1))


def _cpu(pid: int) -> float:
    from benchmarks.measure import cpu_seconds

    return cpu_seconds([pid])
