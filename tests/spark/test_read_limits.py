"""How much a batch and a task read: by what the query does with its rows, and who keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from ds_dagster.spark.queries.inputs import read_limits
from ds_dagster.spark.queries.sources import STREAM_BATCH_ROWS, TABLE_BATCH_ROWS, TASK_ROWS, ReadLimits
from ds_dagster.stores.registry import KINDS

PROJECT = """
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:5432/db', 'postgres.username' = 'u',
  'postgres.password' = '${PG_PASSWORD}');
CREATE STREAM events (k VARCHAR, n BIGINT) WITH ('topic' = 'events', 'value.format' = 'json');
CREATE CHANGELOG users (k VARCHAR, n BIGINT, PRIMARY KEY (k)) WITH ('topic' = 'users', 'value.format' = 'json');
CREATE TABLE copied WITH ('store' = 'pg') AS SELECT k, n FROM events WHERE n > 1;
CREATE TABLE joined WITH ('store' = 'pg') AS SELECT e.k, u.n FROM events e JOIN users u ON e.k = u.k;
CREATE TABLE windows WITH ('store' = 'pg') AS SELECT k, window_start, window_end, COUNT(*) AS n
  FROM TUMBLE(events, SIZE 1 MINUTE) GROUP BY k, window_start, window_end;
CREATE TABLE latest WITH ('store' = 'pg') AS SELECT k, n FROM users;
CREATE MATERIALIZED VIEW shown AS SELECT k, n FROM events;
CREATE STREAM passed AS SELECT k, n FROM events;
"""


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("copied", ReadLimits(STREAM_BATCH_ROWS, TASK_ROWS)),
        ("joined", ReadLimits(STREAM_BATCH_ROWS)),
        ("windows", ReadLimits(TABLE_BATCH_ROWS)),
        ("latest", ReadLimits(TABLE_BATCH_ROWS)),
        ("shown", ReadLimits(TABLE_BATCH_ROWS)),
        ("passed", ReadLimits(STREAM_BATCH_ROWS)),
    ],
)
def test_limits(bench: Any, name: str, limits: ReadLimits) -> None:
    bench.compile(PROJECT)
    query, catalog = bench.project.queries[name], bench.project.catalog
    if query.sink.store == "pg":
        write = KINDS["POSTGRESQL"].write_spec(catalog.store("pg"), query.sink, query.refresh)
    else:
        write = bench.write(query.sink, query.refresh)
    assert read_limits(bench.spark, query, [write]) == limits
