"""The rows of a batch while it is computed: the same as Spark's own collection, and never more than the batch gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.errors import DsError
from ds_dagster.spark.faults import classify
from ds_dagster.spark.queries import arrow_rows as module
from ds_dagster.spark.queries.arrow_rows import ArrowRows, Backlog, arrow_rows

NUMBER, TASKS = 10_000, 8
LONG = "x" * 4_000


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch with rows is large."""
    monkeypatch.setattr(module, "FEW_BYTES", 0)


def frame(spark: SparkSession, failing: int = -1) -> DataFrame:
    """Numbers and texts; ``failing``: number that fails its task."""
    value = sf.when(sf.col("id") == failing, sf.raise_error(sf.lit("this task fails"))).otherwise(sf.col("id"))
    rows = spark.range(0, NUMBER, 1, TASKS)
    return rows.select(
        value.cast("bigint").alias("n"),
        sf.when(sf.col("id") % 3 != 0, sf.concat(sf.lit("ä"), sf.col("id"))).alias("text"),
        sf.timestamp_seconds("id").alias("at"),
        (sf.col("id") / 4).cast("decimal(20,3)").alias("price"),
        sf.array(sf.col("id").cast("string")).alias("tags"),
    )


def read(rows: ArrowRows) -> list[dict[str, Any]]:
    return [row for part in rows.parts() for row in part.to_pylist()]


def test_few_rows_are_a_table_in_the_order_of_the_batch(spark: SparkSession) -> None:
    expected = frame(spark).toArrow()
    with arrow_rows(frame(spark)) as rows:
        table = rows.few()
    assert table == expected
    assert table.schema == expected.schema
    with arrow_rows(frame(spark).where("false")) as rows:
        assert rows.few() == expected.slice(0, 0)


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("limit", [0, 50_000, 10**9])
def test_many_rows_come_once_wherever_they_waited(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(module, "BACKLOG_BYTES", limit)
    expected = frame(spark).toArrow()
    with arrow_rows(frame(spark)) as rows:
        assert rows.few() is None
        assert rows.num_rows == 0
        parts = list(rows.parts())
    assert {part.schema for part in parts} == {expected.schema} == {rows.schema}
    assert pyarrow.Table.from_batches(parts).sort_by("n") == expected
    assert rows.num_rows == NUMBER


@pytest.mark.usefixtures("streamed")
def test_the_failure_of_a_batch_is_raised_whatever_a_loader_makes_of_it(spark: SparkSession) -> None:
    def loaded(rows: ArrowRows) -> list[dict[str, Any]]:
        try:
            return read(rows)
        except PySparkException:
            raise RuntimeError("the driver of a store hides it") from None

    with pytest.raises(Exception, match="this task fails") as raised, arrow_rows(frame(spark, NUMBER - 1)) as rows:
        assert rows.few() is None
        loaded(rows)
    assert classify(raised.value).condition != "INTERNAL"


@pytest.mark.parametrize("few", [0, 10**9])
def test_a_batch_that_fails_is_not_complete_even_if_nobody_reads_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(module, "FEW_BYTES", few)
    with pytest.raises(Exception, match="this task fails"), arrow_rows(frame(spark, NUMBER - 1)) as rows:
        rows.few()


@pytest.mark.usefixtures("streamed")
def test_a_loader_that_fails_leaves_a_batch_that_was_computed(spark: SparkSession) -> None:
    counted = spark.sparkContext.accumulator(0)

    def count(parts: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for part in parts:
            counted.add(part.num_rows)
            yield part

    rows_of_all = spark.range(0, NUMBER, 1, TASKS).mapInArrow(count, "id bigint")
    with pytest.raises(RuntimeError, match="of the loader"), arrow_rows(rows_of_all) as rows:
        assert rows.few() is None
        next(rows.parts())
        raise RuntimeError("of the loader")
    assert counted.value == NUMBER


@pytest.mark.usefixtures("streamed")
def test_rows_are_read_once(spark: SparkSession) -> None:
    with arrow_rows(frame(spark)) as rows:
        rows.few()
        assert Counter(row["n"] for row in read(rows)) == Counter(range(NUMBER))
        with pytest.raises(DsError) as raised:
            read(rows)
    assert raised.value.condition == "INTERNAL"


@pytest.mark.usefixtures("streamed")
def test_a_disk_without_space_fails_the_batch(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "BACKLOG_BYTES", 0)
    monkeypatch.setattr(module.tempfile, "TemporaryFile", full)
    with pytest.raises(OSError, match="No space") as raised, arrow_rows(frame(spark)) as rows:
        rows.few()
        read(rows)
    assert classify(raised.value).condition == "ENGINE_DISK_FULL"


@pytest.mark.usefixtures("streamed")
def test_a_part_that_is_missing_is_noticed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark says at the end how many it has sent."""
    keep, dropped = ArrowRows._keep, [True]

    def lossy(rows: ArrowRows, backlog: Backlog, part: pyarrow.RecordBatch) -> None:
        if not (dropped and dropped.pop()):
            keep(rows, backlog, part)

    monkeypatch.setattr(ArrowRows, "_keep", lossy)
    with pytest.raises(DsError) as raised, arrow_rows(frame(spark)) as rows:
        rows.few()
        read(rows)
    assert raised.value.condition == "INTERNAL"


@pytest.mark.usefixtures("streamed")
def test_other_queries_do_not_wait_for_a_slow_table(spark: SparkSession) -> None:
    """Forty megabytes that nobody reads: more than the connection holds."""
    wide = spark.range(0, NUMBER, 1, TASKS).select(sf.concat(sf.lit(LONG), sf.col("id")).alias("text"))
    with arrow_rows(wide) as rows:
        assert rows.few() is None
        assert spark.range(0, 100, 1, TASKS).where("id % 2 = 0").count() == 50
        assert sum(part.num_rows for part in rows.parts()) == NUMBER


@given(parts=st.lists(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=5), max_size=10), data=st.data())
def test_a_backlog_gives_what_it_got_in_that_order(parts: list[list[str | None]], data: st.DataObject) -> None:
    schema = pyarrow.schema([("text", pyarrow.string())])
    batches = [pyarrow.record_batch([pyarrow.array(part, pyarrow.string())], schema) for part in parts]
    limit = data.draw(st.integers(0, sum(batch.nbytes for batch in batches)))
    with closing(Backlog(schema, limit)) as backlog:
        for batch in batches:
            backlog.put(batch)
        backlog.end()
        assert list(backlog.parts()) == batches
