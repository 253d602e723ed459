"""Checkpoints that keep each of their overlapping windows, as versions of this package before panes wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from ds_dagster.spark.queries.checkpoint_tip import keeps_each_window

CLICKS = """CREATE STREAM clicks (t BIGINT, url VARCHAR, n INTEGER)
  WITH ('topic' = 'clicks', 'value.format' = 'json', 'timestamp' = 't');"""
HOPS = """CREATE CHANGELOG hops AS SELECT window_start, window_end, url, COUNT(*) AS rows{}
  FROM HOP(clicks, SIZE 10 SECONDS, ADVANCE BY 2 SECONDS) GROUP BY window_start, window_end, url;"""
TUMBLES = """CREATE CHANGELOG hops AS SELECT window_start, window_end, url, COUNT(*) AS rows
  FROM TUMBLE(clicks, SIZE 10 SECONDS) GROUP BY window_start, window_end, url;"""
FIRST = [(1_000, "a", 1), (5_000, "a", 2), (5_000, "b", 3), (9_999, "a", 4)]
SECOND = [(6_000, "b", 5), (11_000, "a", 6), (17_000, "c", 7)]


def expected() -> dict[tuple[int, str], int]:
    """Rows of each window, by the second it starts at, and url."""
    counts: dict[tuple[int, str], int] = {}
    for at, url, _ in (*FIRST, *SECOND):
        for start in range(at // 2_000 * 2 - 8, at // 2_000 * 2 + 1, 2):
            counts[start, url] = counts.get((start, url), 0) + 1
    return counts


def send(bench: Any, rows: list[tuple[int, str, int]]) -> None:
    bench.send("clicks", *({"t": at, "url": url, "n": n} for at, url, n in rows))


def seconds(moment: str) -> int:
    """Since 1970."""
    return round(datetime.fromisoformat(moment.replace("Z", "+00:00")).astimezone(timezone.utc).timestamp())


def closed(bench: Any) -> Iterator[tuple[tuple[int, str], int]]:
    for record in bench.records:
        key = record["key"] | (record["value"] or {})
        yield (seconds(key["window_start"]), key["url"]), record["value"]["rows"]


def go_on(bench: Any, name: str, panes: bool) -> None:
    """All rows, over a restart between the rows of a window, behind which the checkpoint says its form."""
    checkpoint = f"{bench.folder}/checkpoints/{name}"
    query = bench.start(name, panes=panes)
    send(bench, FIRST)
    bench.settle(query)
    bench.advance(query, 3_000)
    bench.stop()
    assert keeps_each_window(bench.spark, checkpoint) is not panes
    query = bench.start(name, panes=not keeps_each_window(bench.spark, checkpoint))
    send(bench, SECOND)
    bench.settle(query)
    bench.advance(query, 60_000)


@pytest.mark.parametrize("panes", [True, False], ids=["by_pane", "by_window"])
def test_a_checkpoint_goes_on_in_its_form(bench: Any, panes: bool) -> None:
    """The same rows of windows, whatever keeps them."""
    bench.compile(CLICKS + HOPS.format(""))
    go_on(bench, "hops", panes)
    assert sorted(closed(bench)) == sorted(expected().items())


def test_the_other_form_is_refused(bench: Any) -> None:
    """Spark compares the columns of the state, so no row is read as another one."""
    bench.compile(CLICKS + HOPS.format(""))
    query = bench.start("hops", panes=False)
    send(bench, FIRST)
    bench.settle(query)
    bench.stop()
    query = bench.start("hops", panes=True)
    send(bench, SECOND)
    assert bench.fault(query).condition == "CHECKPOINT_INCOMPATIBLE"


def test_without_overlapping_windows_there_is_one_form(bench: Any) -> None:
    bench.compile(CLICKS + TUMBLES)
    checkpoint = f"{bench.folder}/checkpoints/hops"
    assert not keeps_each_window(bench.spark, checkpoint)
    query = bench.start("hops")
    send(bench, FIRST)
    bench.settle(query)
    bench.stop()
    assert keeps_each_window(bench.spark, checkpoint)
    query = bench.start("hops")
    bench.advance(query, 60_000)
    assert [rows for _, rows in sorted(closed(bench))] == [3, 1]


@pytest.mark.parametrize("panes", [True, False], ids=["by_pane", "by_window"])
def test_added_results_begin_with_the_change(bench: Any, panes: bool) -> None:
    """A group has an added result for the rows since the change, in both forms."""
    bench.compile(CLICKS + HOPS.format(""))
    query = bench.start("hops", panes=panes)
    send(bench, FIRST)
    bench.settle(query)
    bench.stop()
    bench.compile(CLICKS + HOPS.format(", MAX(n) AS most"))
    query = bench.start("hops", panes=panes, grows=True)
    send(bench, [(5_000, "a", 1)])
    bench.settle(query)
    bench.advance(query, 60_000)
    of_a = {key[0]: rows for key, rows in closed(bench) if key[1] == "a"}
    assert of_a[0] == 4
    values = [record["value"] | record["key"] for record in bench.records]
    most = {seconds(row["window_start"]): row["most"] for row in values if row["url"] == "a"}
    assert (most[0], most[6]) == (1, None)


HOT = """CREATE STREAM hot AS SELECT b.window_start, b.url, b.rows FROM
  (SELECT window_start, window_end, url, COUNT(*) AS rows FROM HOP(clicks, SIZE 10 SECONDS, ADVANCE BY 2 SECONDS)
   GROUP BY window_start, window_end, url) b JOIN
  (SELECT window_start, window_end, MAX(rows) AS rows FROM
    (SELECT window_start, window_end, url, COUNT(*) AS rows FROM HOP(clicks, SIZE 10 SECONDS, ADVANCE BY 2 SECONDS)
     GROUP BY window_start, window_end, url) c GROUP BY window_start, window_end) m
  ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.rows = m.rows;"""


@pytest.mark.parametrize("panes", [True, False], ids=["by_pane", "by_window"])
def test_a_checkpoint_with_steps_of_ours_goes_on_in_its_form(bench: Any, panes: bool) -> None:
    """Their state has no file with a schema like that of Spark's groups."""
    bench.compile(CLICKS + HOT)
    go_on(bench, "hot", panes)
    counts = expected()
    most = {start: max(rows for (other, _), rows in counts.items() if other == start) for start, _ in counts}
    found = sorted((seconds(row["window_start"]), row["url"], row["rows"]) for row in bench.values)
    assert found == sorted((*key, rows) for key, rows in counts.items() if rows == most[key[0]])
