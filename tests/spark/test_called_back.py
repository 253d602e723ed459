"""Functions that the JVM calls for each batch: what Spark is told when they fail, and when their query is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ds_dagster.envelope import from_wire
from ds_dagster.errors import error
from ds_dagster.spark.crossing import called_back
from ds_dagster.spark.faults import BriefError, classify

MANY_SECONDS = 60


def started(spark: SparkSession, folder: Path, write: Callable[[DataFrame, int], None]) -> Any:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "10").name("numbers").load()
    return rows.writeStream.foreachBatch(called_back(write)).option("checkpointLocation", str(folder / "at")).start()


def test_a_query_that_is_stopped_within_a_batch_ends_as_stopped(
    spark: SparkSession, tmp_path: Path, eventually: Any
) -> None:
    """Spark looks for the cancelled job in the text of the failure."""
    begun = tmp_path / "begun"

    def slow(parts: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        begun.touch()
        for part in parts:
            threading.Event().wait(MANY_SECONDS)  # until its task is cancelled
            yield part

    query = started(spark, tmp_path, lambda batch, _: batch.mapInArrow(slow, batch.schema).toArrow())
    eventually(begun.exists)
    query.stop()
    assert query.exception() is None
    assert query.status["message"] == "Stopped"


def test_a_query_that_is_stopped_while_its_thread_waits_in_java_ends_as_stopped(
    spark: SparkSession, tmp_path: Path, eventually: Any
) -> None:
    """Spark looks for the interruption of its thread in the text of the failure."""
    begun, jvm = tmp_path / "begun", cast(Any, spark._jvm)

    def wait(_batch: DataFrame, _epoch: int) -> None:
        begun.touch()
        jvm.java.lang.Thread.sleep(MANY_SECONDS * 1000)

    query = started(spark, tmp_path, wait)
    eventually(begun.exists)
    query.stop()
    assert query.exception() is None
    assert query.status["message"] == "Stopped"


def test_a_failure_of_spark_is_brief_and_keeps_its_condition(spark: SparkSession, tmp_path: Path) -> None:
    told: list[Exception] = []

    def fails(batch: DataFrame, _: int) -> None:
        try:
            batch.selectExpr("value / 0").toArrow()
        except PySparkException as failure:
            told.append(failure)
            raise

    query = started(spark, tmp_path, fails)
    with pytest.raises(PySparkException) as raised:
        query.awaitTermination(MANY_SECONDS)
    expected = classify(told[0])
    assert expected.condition != "SPARK_FAILED"
    assert classify(raised.value).condition == expected.condition
    with pytest.raises(BriefError) as brief:
        called_back(lambda: fails(spark.range(3).withColumnRenamed("id", "value"), 0))()
    assert len(str(brief.value)) < 3_000
    found = from_wire(str(brief.value))
    assert found is not None
    assert found.condition == expected.condition
    assert brief.value.__suppress_context__


def test_our_own_failures_keep_their_envelope() -> None:
    def refuse() -> None:
        raise error("DISK_FULL", what="the table t")

    with pytest.raises(Exception, match="the table t") as raised:
        called_back(refuse)()
    assert str(raised.value).startswith("[ds:DISK_FULL]")
