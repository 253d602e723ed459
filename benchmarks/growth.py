"""How cost grows: rows a second by columns, rows of a batch, keys, kept state and jobs, next to hand-written PySpark;
a sum with its state on the heap, next to RocksDB.

    python -m benchmarks.growth [--only columns,state] [--quick] [--out benchmarks/out/growth.json]

Prints a table for each curve and writes ``[{"curve", "x", "ours", "peer", "unit"}]``. Spark makes the rows (records of
JSON in memory for ``columns``), results are thrown away: no broker. Two cores, two partitions, 2 GB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

from benchmarks import peers
from benchmarks.batches import Amount, Bench, compiled, made_rows, open_bench, plan_mode, planned, run, timed
from benchmarks.json_rows import in_memory, seconds
from benchmarks.measure import Size, say
from benchmarks.operator_works import DECLARED
from ds_dagster.spark.cluster import close_ended_stores
from ds_dagster.spark.functions.java_values import json_columns

OUT = Path(__file__).parent / "out" / "growth.json"
FILTER = "CREATE STREAM q AS SELECT id, grp, amount FROM events WHERE amount > 100;"
SUM = "CREATE CHANGELOG q AS SELECT grp, COUNT(*) AS n, SUM(amount) AS total FROM events GROUP BY grp;"
STEP_MILLIS = 10_000
MADE = {"startTimestamp": 1_700_000_000_000, "advanceMillisPerBatch": STEP_MILLIS}
PARTITIONS = 2
KEPT_BATCH = 20_000
"""Rows of a batch of ``state``, each of a group of its own."""
JOB_BATCH = 10_000
RECORDS = 20_000
TEXT, COUNT = ("text", StringType(), "VARCHAR"), ("count", LongType(), "BIGINT")


@dataclass(frozen=True, slots=True)
class Point:
    """Rows a second of both sides at one place of a curve. ``sides``: what the two sides are."""

    curve: str
    x: int
    ours: float
    peer: float
    unit: str = "rows/s"
    sides: tuple[str, str] = ("ours", "PySpark")


Groups = Callable[[DataFrame], DataFrame]
"""Adds ``grp`` to rows with ``value``."""


def main() -> int:
    """Measure the curves that were asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(CURVES), help="curves, with commas")
    parser.add_argument("--quick", action="store_true", help="see that it works; the figures mean nothing")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    unknown = [name for name in asked.only.split(",") if name not in CURVES]
    if unknown:
        parser.error(f"no curve {', '.join(unknown)}; known: {', '.join(CURVES)}")
    points: list[Point] = []
    for name in asked.only.split(","):
        with open_bench() as bench:
            for point in CURVES[name](bench, Size(asked.quick, 1)):
                ours, peer = point.sides
                say(f"{point.curve} {point.x:,}: {ours} {point.ours:,.0f}, {peer} {point.peer:,.0f} {point.unit}")
                points.append(point)
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps([asdict(point) for point in points], indent=1) + "\n", encoding="utf-8")
    names = dict.fromkeys(point.curve for point in points)
    print("\n\n".join(table([point for point in points if point.curve == name]) for name in names))
    return 0


def table(points: Sequence[Point]) -> str:
    """A curve as a table of Markdown; in bold the places where ours has less than half of its best. 0 is a JVM that has
    ended."""
    ours, peer = points[0].sides
    best = max(point.ours for point in points)
    marks = [f"**{p.ours:,.0f}**" if p.ours < best / 2 else f"{p.ours:,.0f}" for p in points]
    rows = [
        [points[0].curve, *[f"{point.x:,}" for point in points]],
        [f"{ours}, {points[0].unit}", *marks],
        [f"{peer}, {points[0].unit}", *[f"{point.peer:,.0f}" for point in points]],
        ["ratio", *[f"{point.ours / point.peer:.2f}" for point in points]],
    ]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "| --- " * len(rows[0]) + "|", *lines[1:]])


def _places(size: Size, *places: int) -> Sequence[int]:
    """All of them; the first two if it need only work."""
    return places[: size.of(len(places), 2)]


# curves of batches


def by_batch(bench: Bench, size: Size) -> Iterator[Point]:
    """A filter, and a sum of 1,000 groups, in batches of different sizes."""
    for rows in _places(size, 100, 1_000, 10_000, 100_000, 1_000_000):
        amount = Amount(size.of(15, 2), size.of(12, 3), rows, PARTITIONS)
        for name, sql in (("batch, filter", FILTER), ("batch, sum", SUM)):
            yield _pair(bench, name, rows, sql, partial(_grouped, 1_000), [amount])


def by_keys(bench: Bench, size: Size) -> Iterator[Point]:
    """A sum of so many groups drawn at random, 100,000 rows a batch."""
    for keys in _places(size, 10, 1_000, 10_000, 100_000, 1_000_000):
        amount = Amount(size.of(20, 2), size.of(8, 3), size.of(100_000, 1_000), PARTITIONS)
        yield _pair(bench, "keys", keys, SUM, partial(_grouped, keys), [amount])


def by_state(bench: Bench, size: Size) -> Iterator[Point]:
    """A sum that keeps so many groups, of which a batch changes 20,000. Two million do not fit into the heap."""
    for kept in _places(size, 20_000, 200_000, 500_000, 1_000_000):
        filling = Amount(0, 1, kept, PARTITIONS)
        amount = Amount(size.of(12, 2), size.of(8, 3), KEPT_BATCH, PARTITIONS)
        yield _pair(bench, "state", kept, SUM, partial(_each_once, kept), [filling, amount])


def by_store(bench: Bench, size: Size) -> Iterator[Point]:
    """The same, with the state in each of the two stores: rows a second, CPU of the tasks of a batch, which does not
    depend on what else the machine does, and memory of a group. The heap comes last, since it may end the JVM."""
    sides = ("heap", "RocksDB")
    for kept in _places(size, 10_000, 100_000, 1_000_000, 2_000_000):
        filling = Amount(0, 1, kept, PARTITIONS)
        amount = Amount(size.of(8, 2), size.of(8, 3), KEPT_BATCH, PARTITIONS)
        disk = _kept(bench, "rocksdb", kept, [filling, amount])
        try:
            heap = _kept(bench, "heap", kept, [filling, amount])
        except (SystemExit, Exception) as problem:  # noqa: BLE001, the JVM is over: this is the last figure
            say(f"heap, {kept:,} groups: {str(problem)[:200]}")
            heap = (0.0, 0.0, 0.0)
        for place, (name, unit) in enumerate((("", "rows/s"), (", CPU", "ms/batch"), (", memory", "bytes/group"))):
            yield Point(f"stores{name}", kept, heap[place], disk[place], unit, sides)
        if not heap[0]:
            return


def _kept(bench: Bench, store: str, kept: int, amounts: Sequence[Amount]) -> tuple[float, float, float]:
    """Rows a second, CPU milliseconds of the tasks of a batch, and bytes of memory for each group as Spark reports it,
    of the last amount."""
    text = SUM.replace(";", f" QUERY WITH ('state.store' = '{store}');")
    query, checkpoint = compiled(bench, DECLARED + text), bench.checkpoint()
    speed = cpu = memory = 0.0
    for amount in amounts:
        with planned(bench, query, partial(_rows, amount.rows, partial(_each_once, kept))) as (session, frame):
            counted = run(session, frame, plan_mode(query), checkpoint, amount)
        close_ended_stores(session)  # else its groups stay in memory up to a minute
        speed = amount.rows * 1000 / statistics.median(counted.millis)
        cpu = counted.cpu * 1000 / len(counted.reports)
        memory = max(report["stateOperators"][0]["memoryUsedBytes"] for report in counted.reports)
    return speed, cpu, memory / kept


def _pair(bench: Bench, curve: str, x: int, sql: str, groups: Groups, amounts: Sequence[Amount]) -> Point:
    """One query of ours and its peer, each over a checkpoint of its own; the last amount counts."""
    ours = _ours(bench, sql, groups, amounts)
    peer = _peer(bench, sql, groups, amounts)
    return Point(curve, x, ours, peer)


def _ours(bench: Bench, sql: str, groups: Groups, amounts: Sequence[Amount]) -> float:
    query, checkpoint, speed = compiled(bench, DECLARED + sql), bench.checkpoint(), 0.0
    for amount in amounts:
        with planned(bench, query, partial(_rows, amount.rows, groups)) as (session, frame):
            speed = _speed(session, frame, plan_mode(query), checkpoint, amount)
    return speed


def _peer(bench: Bench, sql: str, groups: Groups, amounts: Sequence[Amount]) -> float:
    checkpoint, speed = bench.checkpoint(), 0.0
    for amount in amounts:
        session = peers.session(bench.spark)
        rows = _rows(amount.rows, groups, session, "events")
        speed = _speed(session, *_by_hand(sql, rows), checkpoint, amount)
    return speed


def _by_hand(sql: str, rows: DataFrame) -> tuple[DataFrame, str]:
    """The same query in PySpark, and its output mode."""
    if sql == FILTER:
        return rows.select("id", "grp", "amount").where("amount > 100"), "append"
    return rows.groupBy("grp").agg(sf.count("*").alias("n"), sf.sum("amount").alias("total")), "update"


def _speed(session: SparkSession, frame: DataFrame, mode: str, checkpoint: Path, amount: Amount) -> float:
    counted = run(session, frame, mode, checkpoint, amount)
    return amount.rows * 1000 / statistics.median(counted.millis)


def _rows(count: int, groups: Groups, session: SparkSession, topic: str) -> DataFrame:
    made = groups(made_rows(session, topic, count, numPartitions=PARTITIONS, **MADE))
    at = sf.expr(f"unix_millis(timestamp) + value % {STEP_MILLIS}")
    return timed(made, at, sf.col("value").alias("id"), sf.col("grp"), sf.expr("value % 1000").alias("amount"))


def _grouped(keys: int, rows: DataFrame) -> DataFrame:
    return rows.withColumn("grp", sf.expr(f"pmod(hash(value), {keys})").cast("bigint"))


def _each_once(keys: int, rows: DataFrame) -> DataFrame:
    """Every group once before one comes again, in no order of the keys."""
    return rows.withColumn("grp", sf.expr(f"xxhash64(value % {keys})"))


# jobs


def by_jobs(bench: Bench, size: Size) -> Iterator[Point]:
    """So many filters at once, each as fast as it goes in batches of 10,000 rows; the rows of all together."""
    rows = partial(_rows, JOB_BATCH, partial(_grouped, 1_000))
    for jobs in _places(size, 1, 2, 5, 10, 20, 50):
        with ExitStack() as stack:
            query = compiled(bench, DECLARED + FILTER)
            frames = [stack.enter_context(planned(bench, query, rows))[1] for _ in range(jobs)]
            ours = _together(bench, frames, size)
        by_hand = [_by_hand(FILTER, rows(peers.session(bench.spark), "events"))[0] for _ in range(jobs)]
        yield Point("jobs", jobs, ours, _together(bench, by_hand, size))


def _together(bench: Bench, frames: Sequence[DataFrame], size: Size) -> float:
    """Rows a second of all queries, measured once each has had some batches."""
    queries = []
    try:
        for frame in frames:
            writer = frame.writeStream.format("noop").option("checkpointLocation", str(bench.checkpoint()))
            queries.append(writer.start())
        while any(_batches(query) < size.of(10, 2) for query in queries):
            time.sleep(0.05)
        begun, before = time.monotonic(), sum(map(_batches, queries))
        time.sleep(size.of(15, 1))
        return (sum(map(_batches, queries)) - before) * JOB_BATCH / (time.monotonic() - begun)
    finally:
        for query in queries:
            query.stop()


def _batches(query: object) -> int:
    last = query.lastProgress  # type: ignore[attr-defined]
    return 0 if last is None else int(last["batchId"])


# columns


def by_columns(bench: Bench, size: Size) -> Iterator[Point]:
    """JSON records of so many columns, every other one a text, decoded whole."""
    for width in _places(size, 2, 4, 8, 16, 32, 64):
        kinds = [TEXT if at % 2 else COUNT for at in range(width)]
        schema = StructType([StructField(f"{name}_{at}", kind) for at, (name, kind, _) in enumerate(kinds)])
        texts = [(bytearray(_record(schema, number)),) for number in range(RECORDS)]
        frame = bench.spark.createDataFrame(texts, "value BINARY")
        records = in_memory(bench.spark, frame, size.of(max(2, 160 // width), 1))
        yield Point("columns", width, *_decoded(records, schema, [kind for _, _, kind in kinds], size), "records/s")
        records.unpersist()


def _decoded(records: DataFrame, schema: StructType, types: Sequence[str], size: Size) -> tuple[float, float]:
    """Records a second, ours and ``from_json``, in turns; the first half of the turns is a warm-up."""
    sides = (
        partial(json_columns, sf.col("value"), schema, types, reason="reason", kind="value"),
        partial(sf.from_json, sf.col("value").cast("string"), schema),
    )
    fields = tuple(f"r.{name}" for name in schema.names)
    took = [[seconds(records, side, fields) for side in sides] for _ in range(size.of(6, 2))]
    total = records.count()
    ours, peer = (total / statistics.median(turn[side] for turn in took[len(took) // 2 :]) for side in (0, 1))
    return ours, peer


def _record(schema: StructType, number: int) -> bytes:
    values = {name: f"value {number} of {name}" if name[0] == "t" else number * 7 for name in schema.names}
    return json.dumps(values, separators=(",", ":")).encode()


CURVES: Mapping[str, Callable[[Bench, Size], Iterator[Point]]] = {
    "columns": by_columns,
    "batch": by_batch,
    "keys": by_keys,
    "state": by_state,
    "stores": by_store,
    "jobs": by_jobs,
}

if __name__ == "__main__":
    raise SystemExit(main())
