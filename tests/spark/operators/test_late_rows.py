"""Late rows against a plain model: what is kept and what is counted are all rows, and each is in one of both."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from ds_dagster.spark.queries import query as face

pytestmark = [pytest.mark.spark]
SQL = """
CREATE STREAM clicks (t BIGINT, id INTEGER) WITH ('topic' = 'clicks', 'value.format' = 'json', 'timestamp' = 't');
CREATE STREAM late (id INTEGER, window_start TIMESTAMP_LTZ(3)) WITH ('topic' = 'late', 'value.format' = 'json');
CREATE CHANGELOG ids AS SELECT window_start, window_end, ARRAY_AGG(id) AS ids
  FROM HOP(clicks, SIZE 4 SECONDS, ADVANCE BY 2 SECONDS) GROUP BY window_start, window_end
  QUERY WITH ('late.rows.relation' = 'late');
"""


@pytest.mark.parametrize("seed", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_every_row_is_in_a_window_or_among_the_late_ones(bench: Any, seed: int) -> None:
    """Out of order far beyond the bound, over a restart; windows that stay open hold nothing in the end."""
    bench.compile(SQL)
    chance = random.Random(seed)
    expected: Counter[tuple[int, int]] = Counter()
    dropped, number, time = 0, 0, 20_000
    for last in (False, True):
        query = bench.start("ids")
        for _ in range(4):
            rows = [(number + i, time - chance.randrange(0, 9_000)) for i in range(20)]
            number += len(rows)
            bench.send("clicks", *[{"t": t, "id": id_} for id_, t in rows])
            expected.update((id_, t // 2000 - back) for id_, t in rows for back in (0, 1))
            query.processAllAvailable()
            time += chance.randrange(1_000, 5_000)
            bench.advance(query, time - 3_000)
        if last:
            bench.advance(query, 10**6)
        dropped += sum(face.read_progress(progress.json).late_rows for progress in query.recentProgress)
        bench.stop()
    found: Counter[tuple[int, int]] = Counter()
    for value in bench.values:
        found.update((id_, _seconds(value["window_start"]) // 2) for id_ in value["ids"])
    late = Counter((row["id"], _seconds(row["window_start"]) // 2) for rows in bench.logged.values() for row in rows)
    assert dropped > 0
    assert late
    assert found + late == expected


def _seconds(text: str) -> int:
    """Seconds since 1970 of a time of its first hour."""
    hours, minutes, seconds = text.split(" ")[1].removesuffix("Z").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + int(float(seconds))
