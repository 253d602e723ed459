"""Which tables have rows that can be computed again by a range of time, and which records are read for it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.extent import Extent
from ds_dagster.errors import DsError
from ds_dagster.plan.checks.recomputable import closed_windows, reach_millis, why_not_recomputed
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import compile_texts
from ds_dagster.runtime.deciding.backfilling import (
    Loaded,
    Slice,
    check_topic,
    offsets_to_read,
    range_column,
    slices,
)
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


WHOLE = {"0": Extent(0, 10, 90, 1000), "1": Extent(0, 0, 0)}
CUT = {"0": Extent(5, 10, 90, 1000), "1": Extent(0, 0, 50, 10)}


def test_all_records_are_read_where_nothing_is_known_of_their_times(queries: dict[str, BoundQuery]) -> None:
    read = offsets_to_read(queries["plain"], WHOLE, {"0": 80, "1": 0}, 2000, None, is_stamped=False)
    assert read == Slice({"0": (0, 80)}) and read.records == 80
    late = offsets_to_read(queries["plain"], WHOLE, {"0": 80}, 2000, 100, is_stamped=False)
    assert late == Slice({"0": (10, 80)})


@pytest.mark.parametrize(
    ("begin", "lateness", "is_stamped", "is_exact"),
    [(2000, None, True, False), (1500, 500, True, False), (1501, 500, True, True), (9000, 500, False, False)],
)
def test_records_that_are_gone_are_older_than_the_range(
    queries: dict[str, BoundQuery], begin: int, lateness: int | None, is_stamped: bool, is_exact: bool
) -> None:
    def read() -> Slice:
        return offsets_to_read(queries["plain"], CUT, {"0": 80, "1": 50}, begin, lateness, is_stamped=is_stamped)

    if is_exact:
        assert read() == Slice({"0": (10, 80), "1": (0, 50)})
        return
    problem = refusal(read)
    assert problem.condition == "BACKFILL_RECORDS_GONE" and "1970-01-01T00:00:01+00:00" in problem.message


def test_a_partition_whose_records_are_all_gone_may_have_lost_any(queries: dict[str, BoundQuery]) -> None:
    empty = {**CUT, "1": Extent(50, 50, 50)}
    for extents in (empty, {"0": CUT["0"]}, {**CUT, "1": Extent(0, 0, 49, 10)}):
        problem = refusal(
            lambda extents=extents: offsets_to_read(
                queries["plain"], extents, {"0": 80, "1": 50}, 9000, 500, is_stamped=True
            )
        )
        assert problem.condition == "BACKFILL_RECORDS_GONE"


def test_records_from_before_the_query_began_are_left_out_on_request(queries: dict[str, BoundQuery]) -> None:
    """Then it does not matter that they are gone. A partition that the topic got later is read from its beginning."""

    def read(begun: dict[str, int]) -> Slice:
        ends = {"0": 80, "1": 50}
        return offsets_to_read(queries["plain"], CUT, ends, 0, None, is_stamped=False, begun=begun)

    assert read({"0": 5}) == Slice({"0": (5, 80), "1": (0, 50)})
    assert read({"0": 70, "1": 60}) == Slice({"0": (70, 80)})
    assert refusal(lambda: read({"0": 4})).condition == "BACKFILL_RECORDS_GONE"


def test_it_is_known_how_many_records_the_query_has_not_read() -> None:
    whole = Slice({"0": (10, 80), "1": (0, 50), "2": (0, 7)})
    assert whole.before({"0": 30, "1": 90}) == 20 + 50
    assert whole.before({"0": 5}) == 0


def test_a_ledger_says_where_the_table_ends(queries: dict[str, BoundQuery]) -> None:
    query = queries["plain"]
    (scan,) = query.scans

    def loaded(offsets: object, unknown: str = "") -> Loaded:
        ends = json.dumps({"offsets": offsets, "sources": {scan.source_name: "id"}})
        return Loaded.of(query, scan, Tip(3, "d", ends), unknown)

    for offsets in ({scan.source_name: {"events": {"0": 7}}}, [{"events": {"0": 7}}]):
        assert loaded(offsets) == Loaded(Tip(3, "d"), {"0": 7}, "id")
    for offsets in ({scan.source_name: None}, {}, [None], [{"other": {"0": 7}}]):
        assert "no records of events" in refusal(lambda offsets=offsets: loaded(offsets)).message
    for tip, unknown in ((None, "no answer"), (Tip(3), "")):
        message = refusal(lambda tip=tip, unknown=unknown: Loaded.of(query, scan, tip, unknown)).message
        assert (unknown or "does not say") in message


def test_a_topic_has_all_records(queries: dict[str, BoundQuery]) -> None:
    check_topic(queries["plain"], EntityFacts("events", identity="a"), "a")
    check_topic(queries["plain"], EntityFacts("events", identity="a"), "")
    compacted = EntityFacts("events", settings={"cleanup.policy": "compact,delete"})
    for facts, reason in (
        (None, "deleted"),
        (EntityFacts("events", identity="b"), "deleted"),
        (compacted, "compacted"),
    ):
        assert reason in refusal(lambda facts=facts: check_topic(queries["plain"], facts, "a")).message


def test_a_partition_the_table_has_nothing_of_may_have_lost_records(queries: dict[str, BoundQuery]) -> None:
    assert offsets_to_read(queries["plain"], CUT, {"1": 50}, 0, None, is_stamped=False) == Slice({"1": (0, 50)})


def test_slices_are_every_record_once() -> None:
    chance = random.Random(7)
    for _ in range(200):
        begins = [chance.randrange(50) for _ in range(3)]
        whole = Slice({str(n): (first, first + chance.randrange(1, 60)) for n, first in enumerate(begins)})
        pieces = slices(whole, limit := chance.randrange(1, 30))
        read = [(part, at) for piece in pieces for part, ends in piece.offsets.items() for at in range(*ends)]
        assert sorted(read) == sorted((p, at) for p, ends in whole.offsets.items() for at in range(*ends))
        assert all(0 < piece.records <= limit for piece in pieces)
