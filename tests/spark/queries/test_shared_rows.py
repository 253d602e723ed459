"""One read of a shared source: what an application reads is counted, whatever its queries are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.testing.case import Case
from ds_dagster.testing.compiling import compile_case
from ds_dagster.testing.format import load_case
from ds_dagster.testing.golden import Golden
from ds_dagster.testing.runner import CaseRun
from ds_dagster.testing.running import RunningQuery
from ds_dagster.testing.session import shared_session

pytestmark = [pytest.mark.spark, pytest.mark.cases]
ROWS = 6
READ = ROWS
"""Read for every query it would be three times as many."""

QUERIES = """
    CREATE VIRTUAL STREAM valid AS SELECT * FROM origin WHERE n > 1;
    CREATE STREAM one AS SELECT n FROM origin;
    CREATE STREAM two AS SELECT n + 1 AS n FROM valid;
    CREATE CHANGELOG three AS SELECT k, COUNT(*) AS n FROM valid GROUP BY k;
"""
TEXT = """
title: counted
sql: |
  CREATE STREAM origin (n BIGINT, k VARCHAR) WITH ('topic' = 'origin', 'value.format' = 'json');
  BEGIN APPLICATION a {queries} END APPLICATION;
stores: {{s: memory}}
steps:
  - send: {{topic: origin, rows: [{rows}]}}
expect: [{{relation: one, columns: subset, rows: []}}]
"""


STATEFUL = """
    CREATE VIRTUAL CHANGELOG counted AS SELECT k, COUNT(*) AS n FROM origin GROUP BY k;
    CREATE CHANGELOG one AS SELECT k, n FROM counted;
    CREATE CHANGELOG two AS SELECT k, n FROM counted WHERE n > 1;
    CREATE CHANGELOG three AS SELECT n, COUNT(*) AS ks FROM counted GROUP BY n;
"""


@pytest.fixture
def spark() -> SparkSession:
    return shared_session()


def made(spark: SparkSession, folder: Path, queries: str) -> tuple[CaseRun, Case]:
    """A case with these queries, ready to start."""
    (folder / "ds.toml").touch()
    path = folder / "a.case.yaml"
    rows = ", ".join(f"{{value: {{n: {n}, k: a}}}}" for n in range(ROWS))
    path.write_text(TEXT.format(queries=" ".join(queries.split()), rows=rows), encoding="utf-8")
    case = load_case(path, folder)
    return CaseRun(spark, case, compile_case(case, folder).project, folder, Golden(False)), case


@contextmanager
def ran(spark: SparkSession, folder: Path, queries: str) -> Iterator[tuple[RunningQuery, StreamingQuery]]:
    """A case with these queries that has read its records, and Spark's query; stopped behind the block."""
    run, case = made(spark, folder, queries)
    (running,) = run.queries
    running.start()
    try:
        run.step_send(case.steps[0])
        running.catch_up()
        assert running.failure is None
        assert running.streaming is not None
        yield running, running.streaming
    finally:
        running.stop()


def test_a_record_is_read_once_for_all_sinks(spark: SparkSession, tmp_path: Path) -> None:
    with ran(spark, tmp_path, QUERIES) as (running, query):
        read = [progress.numInputRows for progress in query.recentProgress]
        sources = {len(progress.sources) for progress in query.recentProgress}
        assert (sum(read), sources) == (READ, {1})
        plan = query._jsq.explainInternal(False)  # type: ignore[attr-defined]
        assert plan.count("ReusedExchange") == 2, plan
        assert [len(topic.records) for topic in running.topics.values()] == [ROWS, ROWS - 2, 1]


def test_state_is_kept_once_for_all_sinks(spark: SparkSession, tmp_path: Path) -> None:
    with ran(spark, tmp_path, STATEFUL) as (_, query):
        last = next(p for p in reversed(query.recentProgress) if p.numInputRows)
        names = [operator.operatorName for operator in last.stateOperators]
        assert sum(p.numInputRows for p in query.recentProgress) == READ
        assert sorted(operator.numRowsTotal for operator in last.stateOperators) == [1, 1], names
        plan = query._jsq.explainInternal(False)  # type: ignore[attr-defined]
        assert plan.count("ReusedExchange") == 2, plan


def test_tasks_do_not_get_the_plans_below_exchanges(spark: SparkSession, tmp_path: Path) -> None:
    """A step with state sends itself and all steps below it to its tasks; Coalesce is an exchange of a small batch."""
    with ran(spark, tmp_path, STATEFUL) as (_, query):
        steps = list(walk(query._jsq.streamingQuery().lastExecution().executedPlan()))  # type: ignore[attr-defined]
    names = [below.nodeName() for _, below in steps]
    kept = [below.nodeName() for step, below in steps if step.nodeName() == "DriverPlan"]
    assert sorted(kept) == sorted(name for name in names if "Exchange" in name or name == "Coalesce")
    assert len(kept) > 3
    sent = serialized(spark, next(step for step, below in reversed(steps) if below.nodeName() == "DriverPlan"))
    assert b"dsdagster.planning.DriverPlan" in sent
    assert b"ShuffleExchangeExec" not in sent
    assert b"CoalesceExec" not in sent


def walk(step: Any) -> Iterator[tuple[Any, Any]]:
    """Steps of a physical plan with each step below, from the top."""
    below = step.children()
    for i in range(below.size()):
        yield step, below.apply(i)
        yield from walk(below.apply(i))


def serialized(spark: SparkSession, step: Any) -> bytes:
    jvm: Any = spark._jvm
    buffer = jvm.java.io.ByteArrayOutputStream()
    jvm.java.io.ObjectOutputStream(buffer).writeObject(step)
    return bytes(buffer.toByteArray())
