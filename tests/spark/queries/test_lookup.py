# ruff: noqa: E501 - statements stay on one line
"""Streams joined to tables of a real Postgres: every type, rows that change while the query runs, a table that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.local.servers import down, up
from ds_dagster.stores.postgres.connection import PostgresAddress

pytestmark = pytest.mark.servers
COLUMNS = """id INTEGER, ok BOOLEAN, small SMALLINT, big BIGINT, d DOUBLE, m DECIMAL(10,2), name VARCHAR, day DATE, at TIMESTAMP(3),
  seen TIMESTAMP_LTZ(3), clock TIME, raw VARBINARY"""
ROW = """INSERT INTO things VALUES (1, true, 2, 3000000000, 0.5, 12.30, 'Zoë', '2024-02-29', '2024-01-02 03:04:05.678',
  '2024-01-02 03:04:05.678+01', '23:59:59', '\\x00ff'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""
MADE = """CREATE TABLE things (id integer, ok boolean, small smallint, big bigint, d double precision, m numeric(10,2),
  name varchar(20), day date, at timestamp, seen timestamptz, clock time, raw bytea, more jsonb)"""


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresAddress]:
    state = tmp_path_factory.mktemp("servers")
    found = up(state, only=["postgres"])
    password = Path(str(found.postgres_password_file)).read_text(encoding="utf-8").strip()
    yield PostgresAddress("pg", str(found.postgres), str(found.postgres_user), password, "disable")
    down(state)


def run(address: PostgresAddress, *statements: str) -> None:
    connection = address.control()
    try:
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    finally:
        connection.close()


def started(bench: Any, address: PostgresAddress, select: str) -> Any:
    bench.compile(
        f"""CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = '{address.url}', 'postgres.username' = '{address.username}',
              'postgres.password' = '{address.password}', 'tls.disabled' = TRUE);
            CREATE TABLE things ({COLUMNS}) WITH ('store' = 'pg');
            CREATE STREAM events (n INTEGER, thing BIGINT) WITH ('topic' = 'events', 'value.format' = 'json');
            CREATE STREAM s AS {select};"""
    )
    return bench.start("s")


def sent(bench: Any, query: Any, *events: tuple[int, int | None]) -> list[dict[str, Any]]:
    bench.records.clear()
    bench.send("events", *({"n": n, "thing": thing} for n, thing in events))
    bench.settle(query)
    return sorted(bench.values, key=lambda row: row["n"])


def test_every_batch_meets_the_rows_of_its_moment(bench, postgres):
    run(postgres, "DROP TABLE IF EXISTS things", MADE, ROW)
    query = started(
        bench,
        postgres,
        """SELECT e.n, t.ok, t.small, t.big, t.d, t.m, t.name, t.day, t.at, t.seen, t.clock, t.raw
           FROM events e LEFT JOIN things t WITH ('lookup.cache.millis' = 0) ON e.thing = t.id""",
    )
    empty = dict.fromkeys(("ok", "small", "big", "d", "m", "name", "day", "at", "seen", "clock", "raw"))
    assert sent(bench, query, (1, 1), (2, 2), (3, 3), (4, None)) == [
        {
            "n": 1, "ok": True, "small": 2, "big": 3_000_000_000, "d": 0.5, "m": 12.3, "name": "Zoë", "day": "2024-02-29",
            "at": "2024-01-02 03:04:05.678", "seen": "2024-01-02 02:04:05.678Z", "clock": "23:59:59", "raw": "AP8=",
        },
        *({"n": n} | empty for n in (2, 3, 4)),
    ]  # fmt: skip
    run(
        postgres,
        "UPDATE things SET name = 'Ann' WHERE id = 1",
        "INSERT INTO things (id, name) VALUES (3, 'new'), (3, 'twin')",
    )
    found = sent(bench, query, (1, 1), (2, 3))
    assert sorted((row["n"], row["name"]) for row in found) == [(1, "Ann"), (2, "new"), (2, "twin")]
    bench.stop()
    run(postgres, "DELETE FROM things WHERE id = 3")
    query = bench.start("s")
    assert [row["name"] for row in sent(bench, query, (1, 3))] == [None]


def test_rows_may_be_as_old_as_the_query_says(bench, postgres):
    run(postgres, "DROP TABLE IF EXISTS things", MADE, ROW)
    select = "SELECT e.n, t.name FROM events e JOIN things t WITH ('lookup.cache.millis' = {}) ON e.thing = t.id"
    query = started(bench, postgres, select.format(3_600_000))
    assert [row["name"] for row in sent(bench, query, (1, 1))] == ["Zoë"]
    run(postgres, "UPDATE things SET name = 'Ann' WHERE id = 1")
    seen = {row["name"] for n in range(3) for row in sent(bench, query, (n, 1))}
    assert "Zoë" in seen, "one of the processes has kept it"


def test_a_table_that_is_gone_is_told_by_name(bench, postgres):
    run(postgres, "DROP TABLE IF EXISTS things")
    query = started(bench, postgres, "SELECT e.n, t.name FROM events e JOIN things t ON e.thing = t.id")
    bench.send("events", {"n": 1, "thing": 1})
    problem = bench.fault(query)
    assert problem.condition == "LOOKUP_TABLE_DIFFERS", problem.detail
    assert postgres.password not in str(problem) + str(problem.detail)
