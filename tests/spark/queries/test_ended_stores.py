"""State of a run that has ended: nothing writes into its checkpoint any more, which may be taken back by then."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.state_stores import open_stores

pytestmark = pytest.mark.spark
SQL = """
CREATE CHANGELOG items (id BIGINT, url VARCHAR, PRIMARY KEY (id)) WITH ('topic' = 'in', 'value.format' = 'json',
  'key.format' = 'json', 'key.type' = 'STRUCT<id BIGINT>');
CREATE STREAM clicks (id BIGINT, url VARCHAR) WITH ('topic' = 'in', 'value.format' = 'json');
CREATE TABLE ours AS SELECT url, COUNT(*) AS visits FROM items GROUP BY url;
CREATE TABLE native AS SELECT url, COUNT(*) AS visits FROM clicks GROUP BY url;
"""


@pytest.mark.parametrize("name", ["ours", "native"])
def test_stores_of_an_ended_run_are_closed(bench: Any, spark: SparkSession, name: str) -> None:
    bench.compile(SQL)
    query = bench.start(name)
    bench.topic("in").send_all([({"id": 1}, {"id": 1, "url": "a"}, 0, "0")])
    query.processAllAvailable()
    run = str(query.runId)
    assert run in open_stores(spark)
    bench.stop()
    assert run not in open_stores(spark)
