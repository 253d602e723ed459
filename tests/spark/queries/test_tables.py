"""Table and view sinks: what a loader gets, replays, crashes on either side of the load."""

from __future__ import annotations

import datetime

import pytest

UTC = datetime.timezone.utc
USERS = """
CREATE CHANGELOG users (userid VARCHAR, name VARCHAR, tags ARRAY<VARCHAR>, at TIMESTAMP_LTZ(3), PRIMARY KEY(userid))
  WITH ('topic' = 'users', 'value.format' = 'json');
"""
EVENTS = "CREATE STREAM events (k VARCHAR, n BIGINT) WITH ('topic' = 'events', 'value.format' = 'json');"
COUNTS = EVENTS + "CREATE MATERIALIZED VIEW counts AS SELECT k, COUNT(*) AS n FROM events GROUP BY k;"


def test_upsert_gives_at_most_one_row_of_a_key_a_batch(bench):
    bench.compile(USERS + "CREATE MATERIALIZED VIEW v AS SELECT userid, name, at FROM users;")
    query = bench.start("v")
    bench.topic("users").send_all(
        [
            ({"userid": "a"}, {"userid": "a", "name": "1"}, 0, "0"),
            ({"userid": "b"}, {"userid": "b", "name": "1"}, 0, "1"),
            ({"userid": "a"}, {"userid": "a", "name": "2", "at": "2024-01-31 10:11:12.5Z"}, 0, "0"),
            ({"userid": "b"}, None, 0, "1"),
            ({"userid": "b"}, {"userid": "b", "name": "3"}, 0, "1"),
            ({"userid": "c"}, {"userid": "c", "name": "1"}, 0, "0"),
            ({"userid": "c"}, None, 0, "0"),
        ]
    )
    bench.settle(query)
    rows = {row["userid"]: row for row in bench.rows.all}
    assert len(bench.rows.all) == 3
    at = datetime.datetime(2024, 1, 31, 10, 11, 12, 500000, tzinfo=UTC)
    assert rows["a"] == {"userid": "a", "name": "2", "at": at, "__deleted": False}
    assert rows["b"]["name"] == "3"
    assert rows["c"]["__deleted"] is True


def test_aggregate_into_a_view(bench):
    bench.compile(COUNTS)
    query = bench.start("counts")
    bench.send("events", {"k": "a"}, {"k": "b"}, {"k": "a"})
    bench.settle(query)
    bench.send("events", {"k": "a"})
    bench.settle(query)
    assert {key: row["n"] for key, row in bench.rows.folded("k").items()} == {("a",): 3, ("b",): 1}
    assert bench.rows.schema is not None
    assert bench.rows.schema.names == ["k", "n", "__deleted"]


def test_stream_into_a_view_appends(bench):
    bench.compile(EVENTS + "CREATE MATERIALIZED VIEW v AS SELECT k, n FROM events;")
    query = bench.start("v")
    bench.send("events", {"k": "a", "n": 1}, {"k": "a", "n": 1})
    bench.settle(query)
    assert bench.rows.all == [{"k": "a", "n": 1}, {"k": "a", "n": 1}]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_on_either_side_of_the_load_loses_and_doubles_nothing(bench, when):
    bench.compile(COUNTS)
    bench.rows.crash, bench.rows.crash_epoch = when, 1
    query = bench.start("counts")
    bench.send("events", {"k": "a"}, {"k": "b"})
    bench.settle(query)
    bench.send("events", {"k": "a"})
    assert bench.fault(query) is not None
    bench.stop()
    bench.send("events", {"k": "b"})
    query = bench.start("counts")
    bench.settle(query)
    assert {key: row["n"] for key, row in bench.rows.folded("k").items()} == {("a",): 2, ("b",): 2}
    appended = [row for row in bench.rows.all if row["k"] == "a"]
    assert [row["n"] for row in appended] == [1, 2]


def test_the_loaders_own_condition_is_the_fault(bench):
    from ds_dagster.errors import error

    bench.compile(COUNTS)

    def refuse(rows, epoch):
        raise error("DISK_FULL")

    bench.rows.load = refuse
    query = bench.start("counts")
    bench.send("events", {"k": "a"})
    assert bench.fault(query).condition == "DISK_FULL"


def test_available_now_ends_and_goes_on_later(bench):
    bench.compile(COUNTS)
    bench.send("events", {"k": "a"}, {"k": "b"})
    query = bench.start("counts", trigger="available_now")
    assert query.awaitTermination(120)
    bench.stop()
    bench.send("events", {"k": "a"})
    query = bench.start("counts", trigger="available_now")
    assert query.awaitTermination(120)
    assert {key: row["n"] for key, row in bench.rows.folded("k").items()} == {("a",): 2, ("b",): 1}
    assert bench.rows.finish() == 3
