"""Queries over Python sources with Spark: who plans for them, and what of their failures arrives."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.cloudpickle
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from ds_dagster.spark.planner.hand_over import RUNNER
from ds_dagster.spark.planner.shared import PLANNER, PROPERTY, SERVER, can_share, share_planner

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="the planner needs Linux"),
]
cloudpickle: Any = pyspark.cloudpickle  # without types
SECONDS = 180.0


class Reader(DataSourceStreamReader):
    """Counts to ``last``, and fails there if it should."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._last, self._fails = int(options["last"]), options.get("fails") == "true"

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        if self._fails:
            raise ValueError("the source has had enough")
        return {"at": self._last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Any:
        yield pa.RecordBatch.from_pydict({"n": list(range(*partition.value))})

    def commit(self, end: dict[str, int]) -> None:
        pass


class Numbers(DataSource):
    @classmethod
    def name(cls) -> str:
        return "planner_numbers"

    def schema(self) -> str:
        return "n BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return Reader(self.options)


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> Any:
    """Starts a query over the source in a session of its own."""
    before = spark.sparkContext.pythonExec
    running: list[StreamingQuery] = []
    if PLANNER.process is not None:
        until(lambda: not forks(), "the end of forks of earlier queries, and of a session that they shared")

    def start(**options: str) -> StreamingQuery:
        session = spark.newSession()
        session.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false")
        share_planner(session, "ds_dagster.spark.files.source")
        # sent by value: its module is a test's
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        session.dataSource.register(Numbers)
        name = f"numbers_{len(running)}"
        frame = session.readStream.format("planner_numbers").options(**options).load()
        writer = frame.writeStream.format("memory").queryName(name)
        running.append(writer.option("checkpointLocation", str(tmp_path / name)).start())
        return running[-1]

    yield start
    for query in running:
        query.stop()
    spark.sparkContext.pythonExec = before


def until(done: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def parents() -> Mapping[int, tuple[int, str]]:
    """Process → its parent and its arguments; without daemons of Spark's workers, which lead groups of their own."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                arguments = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if fields[0] != "Z" and (SERVER not in arguments or int(fields[2]) != int(folder.name)):
                found[int(folder.name)] = (int(fields[1]), arguments)
    return found


def forks() -> list[int]:
    assert PLANNER.process is not None
    return [pid for pid, (parent, _) in parents().items() if parent == PLANNER.process.pid]


def own_planners(spark: SparkSession) -> list[int]:
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    return [pid for pid, (parent, arguments) in parents().items() if parent == jvm and RUNNER in arguments]


def counted(query: StreamingQuery, rows: int) -> None:
    def done() -> bool:
        assert query.exception() is None, query.exception()
        return sum(int(progress["numInputRows"]) for progress in query.recentProgress) == rows

    until(done, f"{rows} rows")


def test_queries_are_planned_by_forks_which_end_with_them(spark: SparkSession, numbers: Any) -> None:
    one, other = numbers(last="7"), numbers(last="11")
    counted(one, 7)
    counted(other, 11)
    assert len(forks()) == 2
    assert not own_planners(spark)
    one.stop()
    until(lambda: len(forks()) == 1, "the fork ends")
    other.stop()
    until(lambda: not forks(), "the other fork ends")


def test_a_failure_of_the_source_is_the_querys(numbers: Any) -> None:
    query = numbers(last="7", fails="true")
    until(lambda: query.exception(), "a failure")
    assert "the source has had enough" in str(query.exception())
    until(lambda: not forks(), "its fork ends")


def test_a_query_fails_alone_when_its_fork_dies(numbers: Any) -> None:
    import os
    import signal

    one = numbers(last="3")
    counted(one, 3)
    (fork,) = forks()
    other = numbers(last="5")
    counted(other, 5)
    os.kill(fork, signal.SIGKILL)
    until(lambda: one.exception(), "a failure")
    assert other.isActive and other.exception() is None
    again = numbers(last="4")
    counted(again, 4)


@pytest.mark.parametrize(
    ("master", "wanted", "is_shared"),
    [
        ("", "true", True),
        ("local[2]", "true", True),
        ("local[2]", "False", False),
        ("local-cluster[2,1,1024]", "true", False),
        ("spark://h:7077", "true", False),
    ],
)
def test_sources_share_a_planner_in_local_engines(master: str, wanted: str, is_shared: bool) -> None:
    assert can_share(master, wanted) == is_shared


def test_spark_starts_its_own_processes_if_that_is_wanted(spark: SparkSession) -> None:
    session, before = spark.newSession(), spark.sparkContext.pythonExec
    session.conf.set(PROPERTY, "false")
    share_planner(session, "ds_dagster.spark.files.source")
    assert spark.sparkContext.pythonExec == before
