"""Half a million rows of a key, 500 MB, leave at once in a JVM of 512 MB: run as ``python -m tests.spark.jvm.small_heap
KIND FOLDER``; prints how many leave."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ds_dagster.jars import operator_jar
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.jvm import Operators, operators
from ds_dagster.spark.session import build_session, job_session

MANY = 500_000
A_BATCH = 50_000
BYTES = 1_000
HOUR_MICROS = 3_600_000_000
DEADLINE = 500.0


PASSED = "timestamp_millis(1100)"
"""Behind all rows of the key; later rows, of another key, bring time there."""


def delta(jar: Operators, rows: DataFrame) -> DataFrame:
    """A row of a changelog that appears beside many."""
    few = rows.where(f"value <= {MANY}")
    return jar.delta_join(few.select("k", "side", "l", "r", sf.lit(1).cast("bigint").alias("w")), 1, "INNER")


def interval(jar: Operators, rows: DataFrame) -> DataFrame:
    """A row of a stream with many of the other stream within an hour."""
    timed = rows.where(f"value <= {MANY}").withWatermark("timestamp", "1 hour")
    return jar.interval_join(
        timed.select("k", "side", "l", "r", sf.col("timestamp").alias("et")), 1, "inner", HOUR_MICROS
    )


def window(jar: Operators, rows: DataFrame) -> DataFrame:
    """A row of a stream with many of the other stream in its window."""
    end = sf.expr(f"IF(k = 1, {PASSED}, timestamp_seconds(9000000000))").alias("end")
    timed = rows.withWatermark("timestamp", "0 seconds")
    return jar.window_join(timed.select(end, "k", "side", "l", "r", sf.col("timestamp").alias("et")), 2, "inner")


def match(jar: Operators, rows: DataFrame) -> DataFrame:
    """Each row is a match, all of them when time passes the moment they share."""
    ts = sf.expr(f"unix_micros(IF(k = 1, {PASSED}, timestamp_seconds(9000000000)))").alias("ts")
    timed = rows.where(f"value <> {MANY}").withWatermark("timestamp", "0 seconds")
    value = {"function": "LAST", "variable": 0, "field": 1, "offset": 0, "type": "string", "tested": False}
    pattern = {
        "steps": [[0, 1], [-1, 0]],
        "tests": [{"field": -1, "condition": -1, "needs": []}],
        "values": [value],
        "order": [],
        "skip": "PAST_LAST",
        "skip_variable": 0,
        "within_micros": -1,
        "ttl_micros": -1,
    }
    place = sf.col("value").cast("string").alias("ord")
    taken = timed.select("k", ts, place, sf.col("l").alias("row"), sf.col("timestamp").alias("et"))
    return jar.match_recognize(taken, 1, None, json.dumps(pattern))


KINDS = {"delta": delta, "interval": interval, "window": window, "match": match}


def pairs(kind: str, folder: Path) -> int:
    """How many rows leave.

    Raises:
        StreamingQueryException: the query failed.
    """
    settings = Settings(root=folder, sql=folder, state=folder, engine=EngineSettings(cores=2, memory="512m"))
    spark = build_session(settings, jars=[operator_jar()], app_name="small heap")
    spark.sparkContext.setLogLevel("FATAL")
    session = job_session(spark, {"spark.sql.shuffle.partitions": "1"}, "rocksdb")
    reader = (
        session.readStream.format("rate-micro-batch")
        .name("rows")
        .option("rowsPerBatch", A_BATCH)
        .option("startTimestamp", 1_000)
    )
    values = reader.option("advanceMillisPerBatch", 1).option("numPartitions", 2).load()
    is_one = f"value = {MANY}"
    rows = values.select(
        "value",
        "timestamp",
        sf.expr(f"IF(value <= {MANY}, 1, 2)").alias("k"),
        sf.expr(f"IF({is_one}, 1, 0)").alias("side"),
        sf.expr(
            f"IF({is_one}, NULL, named_struct('id', value, 'pad', repeat('x', IF(value < {MANY}, {BYTES}, 1))))"
        ).alias("l"),
        sf.expr(f"IF({is_one}, named_struct('name', value), NULL)").alias("r"),
    )
    counts: list[int] = []
    frame = KINDS[kind](operators(session), rows)
    writer = frame.writeStream.foreachBatch(lambda batch, number: counts.append(batch.count()))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    end = time.monotonic() + DEADLINE
    while sum(counts) == 0 and time.monotonic() < end and not query.awaitTermination(1):
        pass
    query.stop()
    spark.stop()
    return sum(counts)


if __name__ == "__main__":
    print(pairs(sys.argv[1], Path(sys.argv[2])))
