"""Small batches are interpreted and run in one task, others are compiled; read off the plans that Spark has run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.spark.faults import SPARK_ERRORS
from tests.spark.jvm.planning.conftest import RECORDS, plan_of

pytestmark = pytest.mark.spark

WHOLE_STAGE = "spark.sql.codegen.wholeStage"
FACTORY_MODE = "spark.sql.codegen.factoryMode"
COMPILED = "*("
"""Mark of compiled steps in Spark's text of a plan."""


def counts(first: Any, second: Any) -> Any:
    """How often each text came from one of two sources: two partitions are read, and one keeps the groups."""
    return first.frame().union(second.frame()).groupBy("value").count()


def exchanges(query: StreamingQuery) -> int:
    """Exchanges in the plan of the last batch."""
    return plan_of(query).count("Exchange ")


def is_compiled(query: StreamingQuery) -> bool:
    """Whether the plan of the last batch was compiled, and so what its sink ran."""
    execution = query._jsq.streamingQuery().lastExecution()  # type: ignore[attr-defined]
    settings = execution.sparkSession().conf()
    has_stages = COMPILED in plan_of(query)
    assert has_stages is (settings.get(WHOLE_STAGE) == "true") is (settings.get(FACTORY_MODE) == "FALLBACK")
    return has_stages


def modes(lab: Any, source: Any, numbers: Sequence[int]) -> list[bool]:
    """Whether each batch was compiled. A batch has one record, of which a number of rows is made; all are right."""
    query = lab.start(source.frame().selectExpr("explode(sequence(1, int(value))) AS n").selectExpr("n + 1 AS n"))
    compiled = []
    for number in numbers:
        source.add(str(number))
        rows = lab.step(query)
        assert sorted(rows) == [(n + 2,) for n in range(number)]
        compiled.append(is_compiled(query))
    return compiled


def test_a_small_batch_is_interpreted(ruled: Any, memory: Callable[[], Any]) -> None:
    assert modes(ruled, memory(), [1, 5]) == [False, False]


def test_batches_after_one_that_fanned_out_are_compiled(ruled: Any, memory: Callable[[], Any]) -> None:
    assert modes(ruled, memory(), [5, 1_200, 5, 5, 5]) == [False, False, True, True, False]


def test_a_batch_after_a_large_one_is_compiled(ruled: Any, memory: Callable[[], Any]) -> None:
    """The third one is large, and was not taken for small. The next may be a tick that its rows have waited for."""
    assert modes(ruled, memory(), [1_200, 5, 5_000, 5, 5]) == [False, True, True, True, False]


def test_nothing_is_interpreted_where_the_setting_is_0(ruled: Any, memory: Callable[[], Any]) -> None:
    ruled.spark.conf.set(RECORDS, "0")
    assert modes(ruled, memory(), [1, 5]) == [True, True]


def test_settings_of_the_project_hold_for_batches_that_are_not_small(ruled: Any, memory: Callable[[], Any]) -> None:
    ruled.spark.conf.set(WHOLE_STAGE, "false")
    source = memory()
    query = ruled.start(source.frame().selectExpr("explode(sequence(1, int(value))) AS n"))
    for number in (5_000, 5):
        source.add(str(number))
        ruled.step(query)
    execution = query._jsq.streamingQuery().lastExecution()
    assert COMPILED not in execution.executedPlan().toString()
    assert execution.sparkSession().conf().get(FACTORY_MODE) == "FALLBACK"


@pytest.mark.parametrize(("rows", "compiles"), [(10, False), (2_000, True)])
def test_a_source_that_does_not_count_is_as_large_as_its_last_batch(
    ruled: Any, eventually: Callable[..., None], rows: int, compiles: bool
) -> None:
    """The first batch of a query is compiled, the first one after a restart is not."""
    compiled: dict[int, bool] = {}

    def noted(batch: Any, number: int) -> None:
        compiled[number] = batch.sparkSession.conf.get(WHOLE_STAGE) == "true"
        batch.count()

    made = ruled.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    writer = made.writeStream.foreachBatch(noted).option("checkpointLocation", str(ruled.root / "rate"))
    for expected in ([True, compiles], [False, compiles]):
        compiled.clear()
        query = writer.start()
        ruled.queries.append(query)
        eventually(lambda: len(compiled) >= 2)
        query.stop()
        first = min(compiled)
        assert [compiled[first], compiled[first + 1]] == expected


def test_files_do_not_count_and_their_batches_are_as_large_as_the_last_one(ruled: Any) -> None:
    """Spark's own file source: the plan of a batch has a scan of files in place of the stream."""
    folder = str(ruled.root / "files")
    query = None
    for rows, compiles in ((2_000, True), (3, True), (3, False)):
        ruled.spark.range(rows).coalesce(1).write.mode("append").parquet(folder)
        query = query or ruled.start(ruled.spark.readStream.schema("id BIGINT").parquet(folder).selectExpr("id + 1"))
        assert len(ruled.step(query)) == rows
        assert is_compiled(query) is compiles


def test_a_small_batch_has_no_exchange_and_the_state_of_the_large_ones(ruled: Any, memory: Callable[[], Any]) -> None:
    """Each batch fails once after it was computed."""
    first, second = memory(), memory()
    for total, limit in enumerate(["500", "0", "500"], 1):
        ruled.spark.conf.set(RECORDS, limit)
        first.add("a")
        second.add("a", "b")
        query = ruled.start(counts(first, second), mode="update", fail=lambda rows: bool(rows))
        with pytest.raises(SPARK_ERRORS):
            ruled.step(query)
        query.stop()
        query = ruled.start(counts(first, second), mode="update")
        assert ruled.step(query) == [("a", 2 * total), ("b", total)]
        assert exchanges(query) == (limit == "0")
        query.stop()


def test_a_limit_does_not_read_on_after_its_last_row(ruled: Any, memory: Callable[[], Any]) -> None:
    """A step with state below it would not commit, if it was not read to its end."""
    source = memory()
    counted = source.frame().groupBy("value").count()
    kept: list[int] = []
    writer = counted.writeStream.outputMode("update").foreachBatch(lambda batch, _: kept.append(batch.limit(1).count()))
    query = writer.option("checkpointLocation", str(ruled.root / "limited")).start()
    ruled.queries.append(query)
    for rows in (["a", "b"], ["b", "c"]):
        source.add(*rows)
        query.processAllAvailable()
    assert kept == [1, 1]
