"""How fast the operators of the jar are: compiled plans over rows that Spark makes, in batches of 100,000, against the
nearest plan of Spark's own (:mod:`benchmarks.operator_works`).

Rows come with their columns, nothing is decoded and nothing written, so that the operators are what is measured. State
is kept as the engine keeps it. Beside the speed by the clock: rows by the second of processor time that Spark's tasks
take, which says more on a busy machine, and bytes of state per row of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks import peers
from benchmarks.batches import Amount, Bench, compiled, made_rows, open_bench, plan_mode, planned, run, timed
from benchmarks.measure import Pairs, Result, Size, results, say
from benchmarks.operator_works import DECLARED, FLOOR, WORKS, Work

ROWS = 100_000
KEYS = 10_000
GROUPS = 1_000
WARM, COUNTED = 12, 12
"""Batches that do not count: a job runs for months, and in the first ones Java compiles more than it computes."""
START_MILLIS = 1_700_000_000_000
STEP_MILLIS = 10_000
"""Event time of one batch."""


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
    with open_bench() as bench:
        return [line for name, work in works.items() for line in _measured(bench, name, work, size)]


def _measured(bench: Bench, name: str, work: Work, size: Size) -> list[Result]:
    like = "; peer: a sum by the key" if work.like == FLOOR else ""
    speed = Pairs(f"{name}: throughput{like}", "rows/s", True)
    cpu = Pairs(f"{name}: CPU{like}", "rows per CPU second", True)
    kept = Pairs(f"{name}: state{like}", "bytes per row kept", False)
    sides = {"ours": _ours, "peer": _peer}
    for turn in range(size.runs):
        order = list(sides)[:: 1 if turn % 2 == 0 else -1]
        found = {side: sides[side](bench, work, size) for side in order}
        ours, peer = found["ours"], found["peer"]
        say(f"{name}, run {turn}: " + ", ".join(f"{side} {f.speed:,.0f} rows/s, {f.cpu:,.0f} per CPU second, "
                                               f"{f.bytes_kept:,.0f} bytes" for side, f in found.items()))  # fmt: skip
        speed.add(ours.speed, peer.speed)
        cpu.add(ours.cpu, peer.cpu)
        if ours.bytes_kept and peer.bytes_kept:
            kept.add(ours.bytes_kept, peer.bytes_kept)
    if work.target:
        say(f"{name}: target {work.target:,} rows/s on two idle cores")
    return results((speed, cpu, kept))


def rows(parts: Mapping[str, float], session: SparkSession, topic: str) -> DataFrame:
    """Rows of one topic, its share of :data:`ROWS` a batch, spread over the batch's time."""
    seed = sum(topic.encode())
    count = int(ROWS * parts[topic])
    made = made_rows(
        session, topic, count, numPartitions=2, startTimestamp=START_MILLIS, advanceMillisPerBatch=STEP_MILLIS
    )
    return timed(
        made,
        sf.expr(f"unix_millis(timestamp) + value * {ROWS // count} % {STEP_MILLIS}"),
        sf.expr(f"pmod(hash(value, {seed}), {KEYS})").cast("bigint").alias("id"),
        sf.expr(f"pmod(hash(value, {seed} + 1), {GROUPS})").cast("bigint").alias("grp"),
        sf.expr("value % 1000").alias("amount"),
    )


def _ours(bench: Bench, work: Work, size: Size) -> Figures:
    query = compiled(bench, DECLARED + work.sql)
    with planned(bench, query, partial(rows, work.parts)) as (session, frame):
        return _ran(bench, session, frame, plan_mode(query), size)


def _peer(bench: Bench, work: Work, size: Size) -> Figures:
    session = peers.session(bench.spark, rocksdb=work.peer_store)
    parts = dict.fromkeys(work.parts, 1.0) if len(work.parts) == 1 or work.like == FLOOR else work.parts
    return _ran(bench, session, work.peer(partial(rows, parts, session)), work.peer_mode, size)


def _ran(bench: Bench, session: SparkSession, frame: DataFrame, mode: str, size: Size) -> Figures:
    """Run some batches; those behind the warm ones count."""
    amount = Amount(size.of(WARM, 2), size.of(COUNTED, 3), ROWS, partitions=2)
    counted = run(session, frame, mode, bench.checkpoint(), amount)
    states = counted.reports[-1]["stateOperators"]
    kept = sum(state["numRowsTotal"] for state in states)
    size_ = sum(state["customMetrics"].get("rocksdbSstFileSize", 0) for state in states)
    speed = ROWS * 1000 / statistics.median(counted.millis)
    return Figures(speed, ROWS * len(counted.reports) / max(counted.cpu, 0.01), size_ / max(kept, 1))
