"""Changes of tables through real Spark: snapshot, stream, restarts, what tables and servers can do to them."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.servers, pytest.mark.spark]

ENVELOPE = """
CREATE STREAM t_cdc (op VARCHAR, ts_ms BIGINT, "before" STRUCT<id BIGINT, v VARCHAR>,
  "after" STRUCT<id BIGINT, v VARCHAR>, "source" STRUCT<db VARCHAR, "schema" VARCHAR, "table" VARCHAR, lsn BIGINT>)
  WITH ('store' = 'pg', 'value.format' = 'json', 'postgresql.schema.name' = 's', 'postgresql.table.name' = 't');
CREATE TABLE history WITH ('store' = 'm') AS SELECT op, "before"->id AS was, "after"->id AS id, "after"->v AS v,
  "source"->"table" AS origin FROM t_cdc;
"""
KEYED = """
CREATE CHANGELOG t_rows (id BIGINT, v VARCHAR, PRIMARY KEY(id))
  WITH ('store' = 'pg', 'postgresql.schema.name' = 's', 'postgresql.table.name' = 't');
CREATE TABLE copy WITH ('store' = 'm') AS SELECT id, v FROM t_rows;
"""


def ops(bench):
    return [(row["op"], row["was"], row["id"], row["v"]) for row in bench.kept.all]


def test_what_the_table_holds_then_its_changes(bench, database):
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    database.sql("INSERT INTO s.t VALUES (1, 'a'), (2, 'b')")
    bench.compile(ENVELOPE)
    query = bench.start("history")
    bench.until_rows(query, 2)
    assert sorted(ops(bench)) == [("r", None, 1, "a"), ("r", None, 2, "b")]
    database.sql("INSERT INTO s.t VALUES (3, 'c'); UPDATE s.t SET v = 'B' WHERE id = 2; DELETE FROM s.t WHERE id = 1")
    database.sql("UPDATE s.t SET id = 4 WHERE id = 3")
    bench.until_rows(query, 6)
    expected = [("c", None, 3, "c"), ("u", None, 2, "B"), ("d", 1, None, None), ("u", 3, 4, "c")]
    assert ops(bench)[2:] == expected
    assert {row["origin"] for row in bench.kept.all} == {"t"}


def test_a_changelog_holds_the_tables_rows(bench, database):
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    database.sql("INSERT INTO s.t SELECT g, 'v' || g FROM generate_series(1, 100) g")
    bench.compile(KEYED)
    query = bench.start("copy")
    bench.until_rows(query, 100)
    database.sql("DELETE FROM s.t WHERE id <= 10; UPDATE s.t SET id = id + 1000 WHERE id > 90; UPDATE s.t SET v = 'x'")
    wanted = database.rows("s.t")
    bench_until(bench, query, wanted)


def bench_until(bench, query, wanted):
    import time

    end = time.monotonic() + 60
    while bench.kept.folded("id") != wanted:
        assert query.exception() is None, query.exception()
        assert time.monotonic() < end, "the copy is another"
        time.sleep(0.05)
