"""Which tables have rows that can be computed again by a range of time, and from which times their records are."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.ranges import NO_END, TimeRange
from ds_dagster.errors import DsError
from ds_dagster.plan.checks.recomputable import closed_windows, reach_millis, why_not_recomputed
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import compile_texts
from ds_dagster.runtime.deciding.backfilling import Loaded, range_column, wanted_times
from ds_dagster.settings import Settings

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u',
  'postgres.password' = '${PASSWORD:-none}');
CREATE STREAM events (at TIMESTAMP(3), id BIGINT) WITH ('store' = 'k', 'value.format' = 'json', 'topic.partitions' = 2,
  'topic.replicas' = 1);
CREATE CHANGELOG names (id BIGINT, name VARCHAR, at TIMESTAMP(3), PRIMARY KEY (id)) WITH ('store' = 'k',
  'value.format' = 'json', 'topic.partitions' = 2, 'topic.replicas' = 1);
CREATE TABLE plain WITH ('store' = 'pg') AS SELECT at, id FROM events WHERE id > 1;
CREATE TABLE twice WITH ('store' = 'pg') AS SELECT at, at AS again FROM events;
CREATE TABLE timeless WITH ('store' = 'pg') AS SELECT id FROM events;
CREATE TABLE replaced WITH ('store' = 'pg', 'refresh.mode' = 'full') AS SELECT at, id FROM events;
CREATE TABLE chance WITH ('store' = 'pg') AS SELECT at, id, RAND() AS r FROM events;
CREATE TABLE counted WITH ('store' = 'pg') AS SELECT id, COUNT(*) AS n, MAX(at) AS at FROM events GROUP BY id;
CREATE TABLE both_read WITH ('store' = 'pg') AS SELECT at, id FROM events UNION ALL SELECT at, id FROM more;
CREATE STREAM more (at TIMESTAMP(3), id BIGINT) WITH ('store' = 'k', 'value.format' = 'json', 'topic.partitions' = 2,
  'topic.replicas' = 1);
CREATE STREAM copied AS SELECT at, id FROM events;
CREATE MATERIALIZED VIEW seen AS SELECT at, id FROM events;
CREATE TABLE changes WITH ('store' = 'pg') AS SELECT id, name, at FROM names;
CREATE TABLE logged WITH ('store' = 'pg') AS SELECT at, id FROM events
  WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG', 'source.deserialization.error.log.topic' = 'bad');
CREATE TABLE windows WITH ('store' = 'pg') AS SELECT window_start AS begun, window_end AS ended, id, COUNT(*) AS n,
  MAX(at) AS newest FROM TUMBLE(events, SIZE 1 MINUTE) GROUP BY window_start, window_end, id HAVING COUNT(*) > 1;
CREATE TABLE sessions WITH ('store' = 'pg') AS SELECT window_start, window_end, id, COUNT(*) AS n
  FROM SESSION(events, GAP 1 MINUTE) GROUP BY window_start, window_end, id;
CREATE TABLE first_of_windows WITH ('store' = 'pg') AS SELECT window_start, window_end, FIRST_VALUE(id) AS id
  FROM TUMBLE(events, SIZE 1 MINUTE) GROUP BY window_start, window_end;
CREATE TABLE growing WITH ('store' = 'pg') AS SELECT window_start, window_end, COUNT(*) AS n
  FROM TUMBLE(events, SIZE 1 MINUTE) GROUP BY window_start, window_end QUERY WITH ('emit.mode' = 'updates');
CREATE TABLE windows_of_windows WITH ('store' = 'pg') AS SELECT window_start, window_end, SUM(n) AS n FROM
  (SELECT window_start, window_end, id, COUNT(*) AS n FROM TUMBLE(events, SIZE 1 MINUTE)
   GROUP BY window_start, window_end, id) w GROUP BY window_start, window_end;
"""
REFUSED = {
    "first_of_windows": "updated by key",
    "growing": "updated by key",
    "windows_of_windows": "updated by key",
    "replaced": "every load replaces all of it",
    "chance": "another value each time",
    "counted": "updated by key",
    "both_read": "more than one source",
    "copied": "it is a stream",
    "seen": "it is a materialized view",
    "changes": "updated by key",
    "logged": "row log",
}


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BoundQuery]:
    folder = tmp_path_factory.mktemp("backfilling")
    settings = Settings(root=folder, sql=folder, state=Path(folder), store="k")
    project = compile_texts([("a.sql", SQL)], settings)
    assert not project.errors, [problem.text() for problem in project.errors]
    return dict(project.queries)


def refusal(call: object) -> DsError:
    with pytest.raises(DsError) as refused:
        call()  # type: ignore[operator]
    return refused.value


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_come_of_more_than_one_record_are_refused(queries: dict[str, BoundQuery], name: str) -> None:
    assert REFUSED[name] in why_not_recomputed(queries[name])


def test_a_range_is_of_one_column(queries: dict[str, BoundQuery]) -> None:
    assert why_not_recomputed(queries["plain"]) == ""
    assert range_column(queries["plain"], "") == "at"
    assert range_column(queries["twice"], "again") == "again"
    for name, column, reason in (("twice", "", "2 columns"), ("timeless", "", "0 columns"), ("plain", "id", "(at)")):
        assert reason in refusal(lambda name=name, column=column: range_column(queries[name], column)).message


def test_the_range_of_windows_is_of_their_bounds(queries: dict[str, BoundQuery]) -> None:
    query = queries["windows"]
    assert why_not_recomputed(query) == "" and closed_windows(query) == ("begun", "ended")
    assert [range_column(query, name) for name in ("", "begun", "ended")] == ["begun", "begun", "ended"]
    assert (
        "newest is not one of the bounds of its windows (begun, ended)"
        in refusal(lambda: range_column(query, "newest")).message
    )


def test_records_of_a_window_may_be_older_than_its_bound(queries: dict[str, BoundQuery]) -> None:
    assert why_not_recomputed(queries["sessions"]) == ""
    reaches = [("plain", "at", 0), ("windows", "begun", 0), ("windows", "ended", 60_000)]
    reaches += [("sessions", "window_start", 60_000), ("sessions", "window_end", None)]
    for name, column, reach in reaches:
        assert reach_millis(queries[name], column) == reach, (name, column)


def test_the_times_of_records_that_may_have_rows_in_a_range(queries: dict[str, BoundQuery]) -> None:
    """By rows, by the start and the end of windows, and by those of sessions: no record of the range is outside."""
    begin, end = datetime(1970, 1, 1, 0, 1, 40, 700, timezone.utc), datetime(1970, 1, 1, 0, 3, 20, 700, timezone.utc)
    bounds = {
        ("plain", "at"): (98_000, 202_001),
        ("windows", "begun"): (98_000, 262_001),
        ("windows", "ended"): (38_000, 202_001),
        ("sessions", "window_start"): (38_000, None),
    }
    for (name, column), wanted in bounds.items():
        assert wanted_times(queries[name], TimeRange(column, begin, end), 2) == wanted, (name, column)
        assert wanted_times(queries[name], TimeRange(column, begin, NO_END), 2) == (wanted[0], None)
        assert wanted_times(queries[name], TimeRange(column, begin, end), None) == (None, None)
        assert wanted_times(queries[name], TimeRange(column, begin, end), 86_400)[0] == 0
    span = TimeRange("window_end", begin, end)
    assert "a session may have begun" in refusal(lambda: wanted_times(queries["sessions"], span, 2)).message


def test_a_ledger_says_where_the_table_ends(queries: dict[str, BoundQuery]) -> None:
    query = queries["plain"]
    (scan,) = query.scans

    def loaded(offsets: object, unknown: str = "") -> Loaded:
        ends = json.dumps({"offsets": offsets, "sources": {scan.source_name: "id"}})
        return Loaded.of(query, scan, Tip(3, "d", ends), unknown)

    for offsets in ({scan.source_name: {"events": {"0": 7}}}, [{"events": {"0": 7}}]):
        assert loaded(offsets) == Loaded(Tip(3, "d"), {"events": {"0": 7}}, "id")
    for offsets in ({scan.source_name: None}, {}, [None]):
        assert "no records of events" in refusal(lambda offsets=offsets: loaded(offsets)).message
    for tip, unknown in ((None, "no answer"), (Tip(3), "")):
        message = refusal(lambda tip=tip, unknown=unknown: Loaded.of(query, scan, tip, unknown)).message
        assert (unknown or "does not say") in message
