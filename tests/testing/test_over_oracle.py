"""Running aggregates over random streams, out of order and in pieces: each row has what DuckDB gives it at the end."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.testing.seeds import BETWEEN, THIRDS, seed

pytestmark = [pytest.mark.cases, pytest.mark.usefixtures("buckets")]

SEED = seed(20261123)
PARTS, STEP, REACH = THIRDS, 4000, 8000
DECLARED = """CREATE STREAM sales (t BIGINT, k VARCHAR, x INTEGER, y DOUBLE)
  WITH ('topic' = 'sales', 'value.format' = 'json', 'timestamp' = 't');
"""
BY_TIME = "OVER (PARTITION BY k ORDER BY t RANGE BETWEEN {reach} PRECEDING AND CURRENT ROW)"
BY_ROWS = "OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
ALL = "OVER (PARTITION BY k ORDER BY t)"
CALLS = "SUM(x) {w} AS s, COUNT(*) {w} AS n, COUNT(y) {w} AS c, AVG(y) {w} AS m, MIN(x) {w} AS lo, MAX(y) {w} AS hi"
QUESTIONS = {
    "all_before": f"SELECT t, k, x, y, {CALLS.replace('{w}', ALL)} FROM sales",
    "two_seconds": f"SELECT t, k, x, y, {CALLS.replace('{w}', BY_TIME)} FROM sales",
    "three_rows": f"SELECT t, k, x, y, {CALLS.replace('{w}', BY_ROWS)}, FIRST_VALUE(x) {BY_ROWS} AS f, "
    f"LAST_VALUE(x) {BY_ROWS} AS l FROM sales WHERE k IS DISTINCT FROM 'ties'",
    "the_row_before": f"SELECT t, k, x, LAG(x) {ALL} AS b FROM sales WHERE k IS DISTINCT FROM 'ties'",
}

TUMBLED = "window_start, window_end"
WINDOWED = {
    "new_values": (
        f"SELECT {TUMBLED}, COUNT(*) AS n FROM TUMBLE((SELECT DISTINCT k, x FROM sales) d, SIZE 3 SECONDS) "
        f"GROUP BY {TUMBLED}",
        "SELECT 3000 * (t // 3000) AS w, COUNT(*) AS n FROM (SELECT MIN(t) AS t FROM sales GROUP BY k, x) q GROUP BY w",
    ),
    "first_ones": (
        f"SELECT {TUMBLED}, COUNT(*) AS n, MAX(y) AS hi, MIN(k) AS k FROM TUMBLE((SELECT k, y FROM (SELECT k, x, y, "
        "ROW_NUMBER() OVER (PARTITION BY k, x ORDER BY t) AS place FROM sales WHERE k IS DISTINCT FROM 'ties') r "
        f"WHERE place = 1) f, SIZE 3 SECONDS) GROUP BY {TUMBLED}",
        "SELECT 3000 * (t // 3000) AS w, COUNT(*) AS n, MAX(y) AS hi, MIN(k) AS k FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY k, x ORDER BY t) AS place FROM sales WHERE k IS DISTINCT FROM 'ties') r WHERE place = 1 "
        "GROUP BY w",
    ),
    "highest_so_far": (
        f"SELECT {TUMBLED}, k, MAX(s) AS s, COUNT(*) AS n FROM TUMBLE((SELECT k, SUM(x) {ALL} AS s FROM sales) r, "
        f"SIZE 3 SECONDS) GROUP BY {TUMBLED}, k",
        f"SELECT 3000 * (t // 3000) AS w, k, MAX(s) AS s, COUNT(*) AS n FROM (SELECT t, k, SUM(x) {ALL} AS s FROM "
        "sales) r GROUP BY w, k",
    ),
}
"""Windows over such rows → the same in one batch; ``w``: their start."""

RESTED = (
    "SELECT *, SUM(rested) OVER (PARTITION BY k ORDER BY t) AS life FROM (SELECT *, "
    "CASE WHEN t - LAG(t) OVER (PARTITION BY k ORDER BY t) > 400 THEN 1 ELSE 0 END AS rested FROM sales) r"
)
"""Which rows of a partition know of one another when 400 ms without a row end its life."""
LIVES = {
    "since_a_rest": (ALL, ALL.replace("BY k", "BY k, life")),
    "frames_since_a_rest": (BY_TIME, BY_TIME.replace("BY k", "BY k, life")),
}

ALWAYS = ("two_seconds", "three_rows")
"""What runs with every build: a frame of time and one of rows; the others run with the long tests."""
FRAMES = [
    pytest.param(ALWAYS, id="time_and_rows"),
    pytest.param(tuple(name for name in QUESTIONS if name not in ALWAYS), id="the_others", marks=pytest.mark.slow),
]


def history(dice: random.Random) -> list[list[dict[str, Any]]]:
    """Rows by part: in any order within a part, later than what the parts before them have let pass; in the partition
    ``ties`` several have one time."""
    taken: set[tuple[str | None, int]] = set()
    parts: list[list[dict[str, Any]]] = []
    for number in range(PARTS):
        begin, part = number * STEP, list[dict[str, Any]]()
        parts.append(part)
        while len(part) < 40:
            k = dice.choice(["a", "b", None, "ties"])
            t = begin + 1 + (dice.randrange(8) * 1000 if k == "ties" else dice.randrange(REACH - 1))
            if k == "ties" or (k, t) not in taken:
                taken.add((k, t))
                x, y = dice.choice([None, *range(9)]), dice.choice([None, 0.5, 1e9, -2.25])
                part.append({"t": t, "k": k, "x": x, "y": y})
    return parts


def answers(rows: list[dict[str, Any]], questions: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE sales (t BIGINT, k VARCHAR, x INTEGER, y DOUBLE)")
        for row in rows:
            database.execute("INSERT INTO sales VALUES (?, ?, ?, ?)", list(row.values()))
        found = {}
        for name, select in questions.items():
            result = database.execute(select.replace("{reach}", "2000"))
            columns = [column[0] for column in result.description or ()]
            found[name] = [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
        return json.loads(json.dumps(found, default=float))


def steps_of(parts: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Each part in two pieces, then time goes on; what comes behind it is late. Both kinds of crash in between."""
    late = {"value": {"t": 1, "k": "a", "x": 1000, "y": 1000.0}}
    steps: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        rows = [{"value": row} for row in part]
        steps.append({"send": {"topic": "sales", "rows": rows[:20]}})
        steps += BETWEEN[number : number + 1]
        steps.append({"send": {"topic": "sales", "rows": rows[20:]}})
        steps.append({"advance": {"to": (number + 1) * STEP}})
        steps.append({"send": {"topic": "sales", "rows": [late]}})
    return [*steps, {"advance": {"to": 60_000}}]


@pytest.mark.parametrize("names", FRAMES)
def test_each_row_has_what_one_batch_gives(names: tuple[str, ...], tmp_path: Path) -> None:
    parts = history(random.Random(SEED))
    expected = answers([row for part in parts for row in part], QUESTIONS)
    interval = "INTERVAL '2' SECOND"
    selects = {name: select.replace("{reach}", interval) for name, select in QUESTIONS.items() if name in names}
    statements = [f"CREATE STREAM {name} AS {select};" for name, select in selects.items()]
    run(statements, parts, {name: expected[name] for name in names}, tmp_path)


@pytest.mark.slow
def test_windows_over_such_rows_have_what_one_batch_gives(tmp_path: Path) -> None:
    parts = history(random.Random(SEED))
    batch = {name: select for name, (_, select) in WINDOWED.items()}
    expected = answers([row for part in parts for row in part], batch)
    for row in (row for rows in expected.values() for row in rows):
        row["window_start"] = f"1970-01-01 00:00:{row.pop('w') // 1000:02}.000Z"
    assert all(expected.values())
    statements = [
        f"CREATE CHANGELOG {name} WITH ('primary.key.nullable' = TRUE) AS {select};"
        for name, (select, _) in WINDOWED.items()
    ]
    run(statements, parts, expected, tmp_path, columns="subset")


@pytest.mark.slow
def test_a_partition_that_rests_begins_anew(tmp_path: Path) -> None:
    parts = history(random.Random(SEED))
    selects = {name: CALLS.replace("{w}", of_one) for name, (_, of_one) in LIVES.items()}
    batch = {name: f"SELECT t, k, x, y, {calls} FROM ({RESTED}) l" for name, calls in selects.items()}
    expected = answers([row for part in parts for row in part], batch)
    statements = [
        f"CREATE STREAM {name} AS SELECT t, k, x, y, {CALLS.replace('{w}', frame)} FROM sales "
        "QUERY WITH ('state.ttl.millis' = 400);".replace("{reach}", "INTERVAL '2' SECOND")
        for name, (frame, _) in LIVES.items()
    ]
    run(statements, parts, expected, tmp_path)


def run(
    statements: list[str],
    parts: list[list[dict[str, Any]]],
    expected: Mapping[str, list[dict[str, Any]]],
    folder: Path,
    **how: str,
) -> None:
    """The statements over these rows give what is expected."""
    case = {
        "title": "random streams",
        "sql": DECLARED + "\n".join(statements),
        "stores": {"s": "memory"},
        "steps": steps_of(parts),
        "expect": [{"relation": name, "rows": rows, **how} for name, rows in expected.items()],
    }
    path = folder / "generated.case.yaml"
    (folder / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=folder)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
