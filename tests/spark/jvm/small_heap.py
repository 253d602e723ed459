"""One row meets half a million of its key in a JVM of 512 MB, where the rows alone have 500 MB: run as
``python -m tests.spark.jvm.small_heap KIND FOLDER``; prints how many pairs leave."""

from __future__ import annotations

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


def delta(jar: Operators, rows: DataFrame) -> DataFrame:
    """A row of a changelog that appears beside many."""
    return jar.delta_join(rows.select("k", "side", "l", "r", sf.lit(1).cast("bigint").alias("w")), 1, "INNER")


def interval(jar: Operators, rows: DataFrame) -> DataFrame:
    """A row of a stream with many of the other stream within an hour."""
    timed = rows.withWatermark("timestamp", "1 hour")
    return jar.interval_join(timed.select("k", "side", "l", "r", sf.col("timestamp").alias("et")), 1, "inner", HOUR_MICROS)


KINDS = {"delta": delta, "interval": interval}


def pairs(kind: str, folder: Path) -> int:
    """How many pairs the one row has.

    Raises:
        StreamingQueryException: the query failed.
    """
    settings = Settings(root=folder, sql=folder, state=folder, engine=EngineSettings(cores=2, memory="512m"))
    spark = build_session(settings, jars=[operator_jar()], app_name="small heap")
    spark.sparkContext.setLogLevel("FATAL")
    session = job_session(spark, {"spark.sql.shuffle.partitions": "1"}, "rocksdb")
    reader = session.readStream.format("rate-micro-batch").name("rows").option("rowsPerBatch", A_BATCH).option("startTimestamp", 1_000)
    values = reader.option("advanceMillisPerBatch", 1).option("numPartitions", 2).load().where(f"value <= {MANY}")
    is_one = f"value = {MANY}"
    rows = values.select(
        "timestamp",
        sf.lit(1).alias("k"),
        sf.expr(f"IF({is_one}, 1, 0)").alias("side"),
        sf.expr(f"IF({is_one}, NULL, named_struct('id', value, 'pad', repeat('x', {BYTES})))").alias("l"),
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
