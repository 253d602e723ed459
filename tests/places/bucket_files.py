"""Program: writers in one JVM that race for new files of a checkpoint in a bucket, and a query that uses one.

Usage: python bucket_files.py ENDPOINT FOLDER; prints a JSON object.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ds_dagster.jars import driver_jars
from ds_dagster.places.bucket import BucketAddress
from ds_dagster.settings import load_settings
from ds_dagster.spark.session import build_session
from ds_dagster.testing.short_lived import session_engine

FILES, WRITERS = 12, 3
SPARK = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "OFF",
}


def races(spark: SparkSession, place: str) -> list[int]:
    """For each of several new files, how many of its writers have written it."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path
    files = jvm.dsdagster.fs.BucketCheckpointFiles(path(place), spark._jsparkSession.sessionState().newHadoopConf())

    def wins(streams: list[Any]) -> int:
        def closes(stream: Any) -> bool:
            try:
                stream.close()
            except Py4JJavaError as refused:
                assert "FileAlreadyExistsException" in str(refused), refused
                return False
            return True

        with ThreadPoolExecutor(WRITERS) as pool:
            return sum(pool.map(closes, streams))

    won = []
    for number in range(FILES):
        streams = [files.createAtomic(path(f"{place}/{number}"), False) for _ in range(WRITERS)]
        for writer, stream in enumerate(streams):
            stream.write(f"writer {writer}".encode())
        won.append(wins(streams))
    return won


def counts(spark: SparkSession, place: str, folder: Path) -> list[int]:
    """Rows of each of two runs of a counting query over files of 10 rows each."""
    totals: list[int] = []

    def note(rows: Any, _: int) -> None:
        totals.extend(row.n for row in rows.collect())

    for run in range(2):
        (folder / f"{run}.txt").write_text("row\n" * 10)
        rows = spark.readStream.schema("value STRING").text(str(folder)).groupBy("value").agg(sf.count("*").alias("n"))
        writer = rows.writeStream.outputMode("update").foreachBatch(note).option("checkpointLocation", place)
        writer.trigger(availableNow=True).start().awaitTermination()
    return totals


def main(endpoint: str, folder: Path) -> None:
    settings = replace(load_settings(folder), engine=session_engine(), spark=MappingProxyType(SPARK))
    bucket = BucketAddress("checkpoints", "", endpoint, "a", "b")
    spark = build_session(settings, jars=driver_jars(in_bucket=True), app_name="bucket", bucket=bucket)
    (folder / "rows").mkdir()
    won = races(spark, "s3a://checkpoints/races")
    totals = counts(spark, "s3a://checkpoints/query", folder / "rows")
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path
    files = path("s3a://checkpoints/races").getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    renamed = files.rename(path("s3a://checkpoints/races/0"), path("s3a://checkpoints/races/renamed"))
    print(json.dumps({"won": won, "totals": totals, "renamed": renamed}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
