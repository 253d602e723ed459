"""Running aggregates over random streams, out of order and in pieces: each row has what DuckDB gives it at the end."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.testing.seeds import seed

pytestmark = pytest.mark.cases

SEED = seed(20261123)
PARTS, STEP, REACH = 4, 4000, 8000
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


def answers(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE sales (t BIGINT, k VARCHAR, x INTEGER, y DOUBLE)")
        for row in rows:
            database.execute("INSERT INTO sales VALUES (?, ?, ?, ?)", list(row.values()))
        found = {}
        for name, select in QUESTIONS.items():
            result = database.execute(select.replace("{reach}", "2000"))
            columns = [column[0] for column in result.description or ()]
            found[name] = [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
        return json.loads(json.dumps(found, default=float))


def steps_of(parts: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Each part in two pieces, then time goes on; what comes behind it is late. Restarts and crashes in between."""
    between: list[dict[str, Any]] = [
        {"restart": {}},
        {"crash": {"at": "before_commit"}},
        {"crash": {"at": "after_commit"}},
    ]
    late = {"value": {"t": 1, "k": "a", "x": 1000, "y": 1000.0}}
    steps: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        rows = [{"value": row} for row in part]
        steps.append({"send": {"topic": "sales", "rows": rows[:20]}})
        steps += between[number : number + 1]
        steps.append({"send": {"topic": "sales", "rows": rows[20:]}})
        steps.append({"advance": {"to": (number + 1) * STEP}})
        steps.append({"send": {"topic": "sales", "rows": [late]}})
    return [*steps, {"advance": {"to": 60_000}}]


@pytest.mark.parametrize("names", FRAMES)
def test_each_row_has_what_one_batch_gives(names: tuple[str, ...], tmp_path: Path) -> None:
    parts = history(random.Random(SEED))
    expected = answers([row for part in parts for row in part])
    interval = "INTERVAL '2' SECOND"
    selects = {name: select.replace("{reach}", interval) for name, select in QUESTIONS.items() if name in names}
    statements = [f"CREATE STREAM {name} AS {select};" for name, select in selects.items()]
    case = {
        "title": "random streams",
        "sql": DECLARED + "\n".join(statements),
        "stores": {"s": "memory"},
        "steps": steps_of(parts),
        "expect": [{"relation": name, "rows": expected[name]} for name in names],
    }
    path = tmp_path / "generated.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
