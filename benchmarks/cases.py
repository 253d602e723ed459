"""Test cases in a session that is up: ours is a case as ``ds test`` runs it, the peer a bare query in the same session.

The peer does what nobody can leave out: a query over a memory stream on a checkpoint of its own, one batch of rows,
collected, stopped. It compiles no SQL, checks no records and compares nothing; the stateful one keeps its groups with
Spark's own aggregate.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.measure import Pairs, Result, Size, cpu_seconds, results, say
from ds_dagster.catalog.store import ReadOptions
from ds_dagster.spark.queries.prepared import EVOLUTION
from ds_dagster.spark.session import job_session
from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import end_session, shared_session
from ds_dagster.testing.topics import MemorySource, Topic

CASES = Path(__file__).parent.parent / "tests" / "cases"
ROWS = [(None, b'{"x": 1, "y": "a"}'), (None, b'{"x": 9, "y": "b"}')]


def per_case(size: Size) -> list[Result]:
    """Milliseconds and CPU per case, of the median case of each kind."""
    try:
        spark = shared_session()
        return [result for name in KINDS for result in _kind(spark, size, name)]
    finally:
        end_session()


def _kind(spark: SparkSession, size: Size, name: str) -> list[Result]:
    cases, query = KINDS[name]
    wall = Pairs(f"{name} test case (peer: a bare query): time", "ms", False)
    cpu = Pairs(f"{name} test case (peer: a bare query): CPU", "ms", False)
    pids = [_driver(spark)]
    for run in range(-size.warm_ups, size.runs):
        ours = [_measured(pids, lambda case=case: _run(spark, case)) for case in cases]  # type: ignore[misc]
        peer = [_measured(pids, lambda: _bare(spark, query)) for _ in cases]
        times = [
            (statistics.median(w for w, _ in side), statistics.median(c for _, c in side)) for side in (ours, peer)
        ]
        say(f"cases {name}: {times[0][0]:,.0f} ms, bare query {times[1][0]:,.0f} ms")
        if run >= 0:
            wall.add(times[0][0], times[1][0])
            cpu.add(times[0][1], times[1][1])
    return results((wall, cpu))


def _driver(spark: SparkSession) -> int:
    jvm = spark._jvm
    assert jvm is not None
    return int(str(jvm.java.lang.ProcessHandle.current().pid()))


def _measured(pids: list[int], run: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds by the clock and of CPU, ours and the JVM's."""
    began, used = time.perf_counter(), time.process_time() + cpu_seconds(pids)
    run()
    return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() + cpu_seconds(pids) - used)


def _run(spark: SparkSession, case: str) -> None:
    result = run_case(CASES / f"{case}.case.yaml", lambda: spark)
    if not result.ok:
        raise SystemExit("\n".join(failure.text for failure in result.failures))


def _bare(spark: SparkSession, query: Callable[[DataFrame], DataFrame]) -> None:
    """One batch of two rows from a memory stream."""
    found: list[int] = []
    topic = Topic("bare")
    session = job_session(spark, {EVOLUTION: "false"}, "heap")  # its source has no name
    source = MemorySource(session, topic, ReadOptions())
    frame = source.frame().select(sf.from_json(sf.col("value").cast("string"), "x int, y string").alias("v"))
    folder = tempfile.mkdtemp(prefix="ds-bare-")
    writer = query(frame.select("v.*")).writeStream.outputMode("update").option("checkpointLocation", folder)
    running = writer.foreachBatch(lambda batch, _epoch: found.append(len(batch.collect()))).start()
    try:
        topic.append(ROWS, 0)
        source.feed()
        running.processAllAvailable()
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if sum(found) != len(ROWS):
        raise SystemExit(f"a bare query gave {found}")


def _filtered(rows: DataFrame) -> DataFrame:
    return rows.where(sf.col("x") > 0).select(sf.col("x") + 1, sf.upper("y"))


def _counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("y").agg(sf.count("*"), sf.sum("x"))


KINDS: Mapping[str, tuple[Sequence[str], Callable[[DataFrame], DataFrame]]] = MappingProxyType(
    {
        "stateless": (
            (
                "types/scalars",
                "types/case_and_cast",
                "types/quoted_names",
                "types/text_functions",
                "sinks/tombstone_of_stream",
            ),
            _filtered,
        ),
        "windowed": (
            (
                "windows/tumble/alignment",
                "windows/tumble/having",
                "windows/tumble/source_timestamp",
                "windows/hop/uneven",
                "windows/session/of_all",
            ),
            _counted,
        ),
        "stateless, several queries": (
            ("types/nested", "sets/union_all_of_streams", "sinks/key_exclude"),
            _filtered,
        ),
        "stateful, several batches": (
            (
                "windows/tumble/updates",
                "aggregates/having",
                "deltas/emptied_group",
                "joins/temporal/inner",
                "sets/distinct_of_stream",
            ),
            _counted,
        ),
    }
)
"""Kind of a case → its cases and the bare query beside them. Those of the first two kinds have one query."""
