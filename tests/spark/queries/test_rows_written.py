"""Rows out of sinks that get their batches by ``foreachBatch``, of which Spark counts none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.catalog.io_spec import SinkIdentity, WriteSpec
from ds_dagster.spark.queries.application import ApplicationWriter, combined
from ds_dagster.spark.queries.batch_writers import CaptureWriter, SinkPlan, StreamWriter
from ds_dagster.spark.queries.prepared import EVOLUTION
from ds_dagster.spark.queries.progress import counted, read_progress

pytestmark = pytest.mark.spark


def stream_writer(delivery: Any) -> StreamWriter:
    write = WriteSpec("stream", "k.t", delivery, format="noop")
    return StreamWriter(write, SinkIdentity("j", 1), {}, "k.t")


def numbers(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of two files, a batch each: 100 numbers."""
    session = spark.newSession()
    session.conf.set(EVOLUTION, "false")  # its source has no name
    spark.range(0, 60).coalesce(1).write.mode("append").json(str(folder))
    spark.range(60, 100).coalesce(1).write.mode("append").json(str(folder))
    return session.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).json(str(folder))


def written(frame: DataFrame, batches: Any, folder: Path, mode: str = "append") -> list[int | None]:
    """Rows out of every batch with rows."""
    writer = frame.writeStream.foreachBatch(batches).outputMode(mode).option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    found = [read_progress(one.json) for one in query.recentProgress]
    return [batch.rows_written for batch in found if batch.rows]


def test_rows_of_all_streams_of_an_application(spark: SparkSession, tmp_path: Path) -> None:
    stream, got = numbers(spark, tmp_path / "in"), []
    into: Any = stream_writer("exactly_once")
    frames = {"all": stream, "some": stream.where("id % 4 = 0"), "none": stream.where("id < 0")}
    plans: list[Any] = [
        SinkPlan(SimpleNamespace(name=name), into.write, None, into, frame)  # type: ignore[arg-type]
        for name, frame in frames.items()
    ]
    taken = CaptureWriter(lambda batch, _epoch: got.append(batch.count()))
    plans.append(SinkPlan(SimpleNamespace(name="view"), into.write, None, taken, stream))  # type: ignore[arg-type]
    found = written(combined(plans), ApplicationWriter(plans), tmp_path / "checkpoint")
    assert sum(count or 0 for count in found) == 125, "100 and 25; what is no stream counts by itself"
    assert sum(got) == 100


def test_rows_of_groups_that_are_refined(spark: SparkSession, tmp_path: Path) -> None:
    """What a sink is given by each batch: 7 groups, and those of them that changed."""
    groups = numbers(spark, tmp_path / "in").groupBy((sf.col("id") % 7).alias("k")).count()
    batches = stream_writer("at_least_once")
    assert written(counted(groups, "q"), batches, tmp_path / "checkpoint", "update") == [7, 7]


def test_nothing_is_said_where_nothing_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    stream = numbers(spark, tmp_path / "in")
    assert set(written(stream, lambda batch, _epoch: batch.count(), tmp_path / "checkpoint")) == {None}
