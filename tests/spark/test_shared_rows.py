"""One read of a shared source: what an application reads is counted, whatever its queries are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ds_dagster.spark.query import explain
from ds_dagster.testing.compiling import compile_case
from ds_dagster.testing.format import load_case
from ds_dagster.testing.golden import Golden
from ds_dagster.testing.runner import CaseRun
from ds_dagster.testing.session import shared_session

pytestmark = [pytest.mark.spark, pytest.mark.cases]
ROWS = 6
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


@pytest.fixture
def spark() -> SparkSession:
    return shared_session()


def test_a_record_is_read_once_for_all_sinks(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "ds.toml").touch()
    path = tmp_path / "a.case.yaml"
    rows = ", ".join(f"{{value: {{n: {n}, k: a}}}}" for n in range(ROWS))
    path.write_text(TEXT.format(queries=" ".join(QUERIES.split()), rows=rows), encoding="utf-8")
    case = load_case(path, tmp_path)
    run = CaseRun(spark, case, compile_case(case, tmp_path).project, tmp_path, Golden(False))
    (running,) = run.queries
    running.start()
    try:
        run.step_send(case.steps[0])
        assert running.failure is None
        assert running.streaming is not None and running.prepared is not None
        read = [progress.numInputRows for progress in running.streaming.recentProgress]
        sources = {len(progress.sources) for progress in running.streaming.recentProgress}
        assert (sum(read), sources) == (ROWS, {1})
        assert explain(running.prepared).count("Generate inline") == 4, "each reader takes the rows from the exchange"
        assert [len(topic.records) for topic in running.topics.values()] == [ROWS, ROWS - 2, 1]
    finally:
        running.stop()
