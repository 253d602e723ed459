"""Changes of tables through real Spark: snapshot, stream, restarts, what tables and servers can do to them."""

from __future__ import annotations

import datetime
import decimal
import math

import pytest

from ds_dagster.spark.queries.sources import SHARED_SESSIONS, WAITING, row_options, waiting_source

pytestmark = [pytest.mark.servers, pytest.mark.spark]

ENVELOPE = """
CREATE STREAM t_cdc (op VARCHAR, ts_ms BIGINT, "before" STRUCT<id BIGINT, v VARCHAR>,
  "after" STRUCT<id BIGINT, v VARCHAR>, "source" STRUCT<db VARCHAR, "schema" VARCHAR, "table" VARCHAR, lsn BIGINT>)
  WITH ('store' = 'pg', 'value.format' = 'json', 'postgresql.schema.name' = 's', 'postgresql.table.name' = 't');
CREATE TABLE history WITH ('store' = 'm') AS SELECT op, "before"->id AS was, "after"->id AS id, "after"->v AS v,
  "source"->"table" AS origin, rowkey() AS k FROM t_cdc;
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
    assert {(row["origin"], row["k"]) for row in bench.kept.all} == {("t", None)}, "a change has no key beside its row"


def test_a_changelog_holds_the_tables_rows(bench, database):
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    database.sql("INSERT INTO s.t SELECT g, 'v' || g FROM generate_series(1, 100) g")
    bench.compile(KEYED)
    query = bench.start("copy")
    bench.until_rows(query, 100)
    database.sql("DELETE FROM s.t WHERE id <= 10; UPDATE s.t SET id = id + 1000 WHERE id > 90; UPDATE s.t SET v = 'x'")
    bench.until_equal(query, "s.t")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_on_either_side_of_the_load(bench, database, when):
    """In the snapshot's batch and in a later one; the query starts from its checkpoint each time."""
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    database.sql("INSERT INTO s.t SELECT g, 'v' || g FROM generate_series(1, 50) g")
    bench.compile(KEYED)
    bench.kept.crash = when
    assert bench.fault(bench.start("copy")) is not None
    bench.stop()
    query = bench.start("copy")
    bench.until_equal(query, "s.t")
    bench.kept.crash = when
    database.sql("DELETE FROM s.t WHERE id < 20; UPDATE s.t SET v = 'x' WHERE id < 30")
    assert bench.fault(query) is not None
    bench.stop()
    database.sql("INSERT INTO s.t VALUES (1, 'again')")
    bench.until_equal(bench.start("copy"), "s.t")
    deletes = [row["id"] for row in bench.kept.all if row["__deleted"] and row["id"] != 1]
    assert sorted(deletes) == list(range(2, 20)), "each change once"


@pytest.mark.slow
def test_a_new_checkpoint_begins_with_what_the_table_holds(bench, database):
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    bench.compile(KEYED)
    query = bench.start("copy")
    bench.until_equal(query, "s.t")
    slots = bench.slots()
    assert len(slots) == 1 and slots[0].startswith("ds_")
    bench.stop()
    database.sql("TRUNCATE s.t; INSERT INTO s.t VALUES (2, 'b')")
    assert bench.fault(bench.start("copy")).condition == "CDC_TRUNCATED"
    bench.stop()
    bench.kept.loaded.clear()
    bench.until_equal(bench.start("copy", version=2), "s.t")
    assert bench.slots() == slots, "the slot is taken over"


TYPES = """
CREATE CHANGELOG t_rows (id BIGINT, b BOOLEAN, s SMALLINT, i INTEGER, f FLOAT, d DOUBLE, n DECIMAL(12, 3), t VARCHAR,
  c VARCHAR, u VARCHAR, j VARCHAR, dt DATE, ti TIME, ts TIMESTAMP, tz TIMESTAMP_LTZ, raw VARBINARY, xs ARRAY<INTEGER>,
  ys ARRAY<VARCHAR>, e VARCHAR, PRIMARY KEY(id))
  WITH ('store' = 'pg', 'postgresql.schema.name' = 's', 'postgresql.table.name' = 't');
CREATE TABLE copy WITH ('store' = 'm') AS
  SELECT id, b, s, i, f, d, n, t, c, u, j, dt, ts, tz, raw, xs, ys, e FROM t_rows;
"""
ARRAYS = """, xs ARRAY<INTEGER>,
  ys ARRAY<VARCHAR>"""
VALUES = """
  (%s, true, -7, 70000, 1.5, 'NaN', 123456789.125, %s, 'ab', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"k": [1, null]}',
   '2024-02-29', '12:34:56.789', '2024-02-29 12:00:00.000007', '2024-02-29 12:00:00.5+02', '\\x00ff', '{1,NULL,3}',
   '{"a,b",NULL,"q\\"x"}', 'high')
"""


@pytest.mark.slow
@pytest.mark.parametrize("arrays", [False, True])
def test_every_type_is_the_same_from_snapshot_slot_and_session(bench, database, until, arrays):
    """Rows without arrays come with the plan of a batch, rows with arrays from a task."""
    database.sql("CREATE TYPE s.level AS ENUM ('low', 'high')")
    database.sql(
        "CREATE TABLE s.t (id bigint PRIMARY KEY, b bool, s smallint, i int, f real, d float8, n numeric, t text,"
        " c char(4), u uuid, j jsonb, dt date, ti time, ts timestamp, tz timestamptz, raw bytea, xs int[], ys text[],"
        " e s.level)"
    )
    text = "Ümlaut \n 'quoted' \\"
    database.sql(f"INSERT INTO s.t VALUES {VALUES}", 1, text)
    database.sql("INSERT INTO s.t (id) VALUES (3)")
    bench.compile(TYPES if arrays else TYPES.replace(ARRAYS, "").replace(" xs, ys,", ""))
    query = bench.start("copy")
    bench.until_rows(query, 2)
    database.sql(f"INSERT INTO s.t VALUES {VALUES}", 2, text)
    database.sql("INSERT INTO s.t (id) VALUES (4)")
    bench.until_rows(query, 4)
    until(lambda: database.sql("SELECT 1 FROM pg_replication_slots WHERE temporary AND active"), "the session")
    for number in (5, 7, 9):  # the first brings the query behind the session's begin; the last come with the plan
        database.sql(f"INSERT INTO s.t VALUES {VALUES}", number, text)
        database.sql("INSERT INTO s.t (id) VALUES (%s)", number + 1)
        bench.until_rows(query, number + 1)
    rows = [{k: repr(v) for k, v in row.items() if k != "id"} for row in bench.kept.folded("id")]
    assert rows == [rows[0], rows[0], rows[2], rows[2], *rows[4:6] * 3] and rows[4:6] == [rows[0], rows[2]]
    (row,) = [row for row in bench.kept.folded("id") if row["id"] == 1]
    utc = datetime.timezone.utc
    assert math.isnan(row.pop("d"))
    lists = {"xs": [1, None, 3], "ys": ["a,b", None, 'q"x']} if arrays else {}
    assert row == lists | {
        "id": 1, "b": True, "s": -7, "i": 70000, "f": 1.5, "n": decimal.Decimal("123456789.125"), "t": text, "c": "ab",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "j": '{"k": [1, null]}', "dt": datetime.date(2024, 2, 29),
        "ts": datetime.datetime(2024, 2, 29, 12, 0, 0, 7, tzinfo=utc).replace(tzinfo=None), "e": "high",
        "tz": datetime.datetime(2024, 2, 29, 10, 0, 0, 500000, tzinfo=utc), "raw": b"\x00\xff",
    }  # fmt: skip


@pytest.mark.slow
def test_rows_that_do_not_fit_end_the_query_or_are_left_out(bench, database):
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    database.sql("INSERT INTO s.t VALUES (1, '7'), (2, 'seven')")
    typed = KEYED.replace("v VARCHAR", "v INTEGER")
    bench.compile(typed)
    problem = bench.fault(bench.start("copy"))
    assert problem.condition == "BAD_RECORD" and "column v: a value that is not a valid INTEGER" in str(problem)
    assert "seven" not in str(problem), "no value is told"
    bench.stop()
    ignoring = "FROM t_rows WITH ('source.deserialization.error.handling' = IGNORE);"
    bench.compile(typed.replace("FROM t_rows;", ignoring))
    query = bench.start("copy", version=2)
    bench.until_rows(query, 1)
    assert [row["id"] for row in bench.kept.all] == [1]


WINDOWS = """
CREATE STREAM t_cdc (op VARCHAR, "after" STRUCT<id BIGINT>)
  WITH ('store' = 'pg', 'postgresql.schema.name' = 's', 'postgresql.table.name' = 't', 'starting.position' = latest);
CREATE TABLE counts WITH ('store' = 'm') AS
  SELECT window_start, window_end, count(*) AS n FROM TUMBLE(t_cdc, SIZE 1 SECONDS) GROUP BY window_start, window_end;
"""


def test_windows_close_by_the_servers_clock(bench, database, until):
    """A silent table closes its windows too: the server says until when everything was seen."""
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    bench.compile(WINDOWS)
    query = bench.start("counts")
    until(bench.slots, "the slot")
    until(lambda: query.exception() or query.lastProgress or query.status["message"].startswith("Waiting"), "a look")
    database.sql("INSERT INTO s.t SELECT g FROM generate_series(1, 30) g")
    until(lambda: query.exception() or sum(row["n"] for row in bench.kept.all) == 30, "the closed window")
    assert query.exception() is None


def test_a_query_follows_a_shared_session_unless_that_is_switched_off(bench, database, until):
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    bench.compile(KEYED)
    query = bench.start("copy")
    until(lambda: database.sql("SELECT 1 FROM pg_replication_slots WHERE temporary AND active"), "the session")
    database.sql("INSERT INTO s.t SELECT g, 'v' FROM generate_series(1, 10) g")
    bench.until_equal(query, "s.t")
    (scan,) = bench.project.queries["copy"].scans
    spec, session = bench.read_spec("copy", scan), bench.spark.newSession()
    assert row_options(session, scan, spec.rows, waits=False)["live"] == "true"
    session.conf.set(SHARED_SESSIONS, "false")
    assert row_options(session, scan, spec.rows, waits=False)["live"] == "false"


WAITING_OR_NOT = (
    ("CREATE MATERIALIZED VIEW v AS SELECT id, v FROM t_rows;", True),
    ("CREATE MATERIALIZED VIEW v AS SELECT a.id AS id, b.v AS v FROM t_rows a JOIN t_rows b ON a.id = b.id;", False),
    ("""CREATE CHANGELOG v AS SELECT window_start, window_end, op, count(*) AS n
        FROM TUMBLE(t_cdc, SIZE 1 MINUTES) GROUP BY window_start, window_end, op;""", False),
)  # fmt: skip


@pytest.mark.parametrize(("text", "waits"), WAITING_OR_NOT)
def test_which_queries_wait_in_their_source(bench, text, waits):
    """A source would hold up the others of its query, and the ticks of event time."""
    bench.compile(ENVELOPE + KEYED + text)
    query = bench.project.queries["v"]
    assert waiting_source(query, {scan.source_name: bench.read_spec("v", scan) for scan in query.scans}) is waits


def test_the_session_of_a_query_that_waits(bench, database):
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    bench.compile(KEYED)
    query = bench.start("copy")
    ((prepared, _),) = bench.running
    assert {name: prepared.session.conf.get(name) for name in WAITING} == WAITING
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    bench.until_equal(query, "s.t")
