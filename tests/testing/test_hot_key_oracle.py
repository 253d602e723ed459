# ruff: noqa: E501 - statements stay on one line
"""One key with many rows, out of order, in so many buckets that not all are in memory: DuckDB says of all rows in one
batch what has to come out."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.testing.seeds import BETWEEN, THIRDS, seed

pytestmark = [pytest.mark.cases, pytest.mark.usefixtures("buckets")]

SEED = seed(20261124)
ROWS, PARTS, LENGTH = 1200, THIRDS, 20_000
"""Rows of each stream, parts they come in, milliseconds of event time of one part."""
VERSIONS = 400
WIDE = "WITH ('source.allow.latency.millis' = 3600000)"
DECLARED = """
  CREATE STREAM l (id INTEGER, k VARCHAR, t BIGINT, x INTEGER, y VARCHAR) WITH ('topic' = 'l', 'value.format' = 'json', 'timestamp' = 't');
  CREATE STREAM r (id INTEGER, k VARCHAR, t BIGINT) WITH ('topic' = 'r', 'value.format' = 'json', 'timestamp' = 't');
  CREATE CHANGELOG u (k VARCHAR, name VARCHAR, t BIGINT, PRIMARY KEY(k))
    WITH ('topic' = 'u', 'value.format' = 'json', 'timestamp' = 't', 'key.format' = 'json', 'key.type' = 'STRUCT<k VARCHAR>');
"""
CALLS = "SUM(x) {w} AS s, COUNT(x) {w} AS n, MIN(x) {w} AS lo, MAX(x) {w} AS hi, MIN(y) {w} AS first_text, MAX(y) {w} AS last_text"
BY_TIME = "OVER (PARTITION BY k ORDER BY t RANGE BETWEEN {reach} PRECEDING AND CURRENT ROW)"
BY_ROWS = "OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 500 PRECEDING AND CURRENT ROW)"
JOIN = "SELECT l.id AS a, r.id AS b FROM l {kind} JOIN r ON l.k = r.k AND abs(l.t - r.t) <= 40"


def over(frame: str) -> tuple[str, str]:
    select = f"SELECT id, {CALLS.replace('{w}', frame)}, FIRST_VALUE(x) {frame} AS f FROM l"
    return f"{select.replace('{reach}', 'INTERVAL 15 SECOND')} WIDE", select.replace("{reach}", "15000")


# name → (what is asked, DuckDB's form of it)
QUESTIONS = {
    "over_time": over(BY_TIME),
    "over_rows": over(BY_ROWS),
    "near_full": (
        "SELECT l.id AS a, r.id AS b FROM l WIDE FULL JOIN r WIDE WITHIN 40 MILLISECONDS ON l.k = r.k",
        JOIN.format(kind="FULL"),
    ),
    "near": (
        "SELECT l.id AS a, r.id AS b FROM l WIDE JOIN r WIDE WITHIN 40 MILLISECONDS ON l.k = r.k",
        JOIN.format(kind="INNER"),
    ),
    "windows_full": (
        """SELECT l.id AS a, r.id AS b FROM TUMBLE( l WIDE, SIZE 40 SECONDS) l FULL JOIN TUMBLE( r WIDE, SIZE 40 SECONDS) r
           ON l.window_end = r.window_end AND l.k = CASE WHEN r.id % 100 = 0 THEN r.k END""",
        """SELECT l.id AS a, r.id AS b FROM l FULL JOIN r
           ON l.t // 40000 = r.t // 40000 AND l.k = CASE WHEN r.id % 100 = 0 THEN r.k END""",
    ),
    "versions": (
        "SELECT l.id AS a, u.name AS b FROM l WIDE LEFT JOIN u WIDE ON l.k = u.k",
        "SELECT l.id AS a, u.name AS b FROM l ASOF LEFT JOIN u ON l.k = u.k AND l.t >= u.t",
    ),
}
ALWAYS = ("over_time", "near_full")
"""What runs with every build; the others run with the long tests."""
Rows = list[dict[str, Any]]


def history(dice: random.Random) -> dict[str, list[Rows]]:
    """The rows of each topic by part: in any order, up to a part ahead, at most one of a topic at a moment."""
    topics: dict[str, list[Rows]] = {}
    for topic, count in (("l", ROWS), ("r", ROWS), ("u", VERSIONS)):
        moments = dice.sample(range(1, PARTS * LENGTH), count)
        made = [{"id": number, "k": "hot", "t": t} for number, t in enumerate(moments)]
        for row in made:
            if topic == "l":
                row |= {
                    "x": dice.choice([None, *range(-50, 50)]),
                    "y": dice.choice([None, "é", f"t{dice.randrange(900)}"]),
                }
            elif topic == "u":
                row["name"] = dice.choice([None, "a", "b"])
        topics[topic] = [[] for _ in range(PARTS)]
        for row in made:
            topics[topic][max(0, row["t"] // LENGTH - dice.randrange(2))].append(row)
    return topics


def record(topic: str, row: dict[str, Any]) -> dict[str, Any]:
    if topic != "u":
        return {"value": row}
    value = None if row["name"] is None else {"k": row["k"], "name": row["name"], "t": row["t"]}
    return {"key": {"k": row["k"]}, "value": value, "at": row["t"]}


def steps_of(topics: dict[str, list[Rows]]) -> list[dict[str, Any]]:
    """Each part in several batches, then time goes on to its end; both kinds of crash in between."""
    steps: list[dict[str, Any]] = []
    for part in range(PARTS):
        for topic, parts in topics.items():
            rows = [record(topic, row) for row in parts[part]]
            steps.append({"send": {"topic": topic, "rows": rows, "batches": 2}})
        steps += [*BETWEEN[part : part + 1], {"advance": {"to": (part + 1) * LENGTH}}]
    return [*steps, {"advance": {"to": 10_000_000}}]


def answer(topics: dict[str, list[Rows]], select: str) -> Rows:
    columns = {
        "l": "id INTEGER, k VARCHAR, t BIGINT, x INTEGER, y VARCHAR",
        "r": "id INTEGER, k VARCHAR, t BIGINT",
        "u": "id INTEGER, k VARCHAR, t BIGINT, name VARCHAR",
    }
    with duckdb.connect() as database:
        for topic, parts in topics.items():
            database.execute(f"CREATE TABLE {topic} ({columns[topic]})")
            values = [list(row.values()) for part in parts for row in part]
            database.executemany(f"INSERT INTO {topic} VALUES ({', '.join('?' * len(values[0]))})", values)
        result = database.execute(select)
        names = [column[0] for column in result.description or ()]
        found = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    return json.loads(json.dumps(found, default=int))


@pytest.mark.parametrize(
    "question", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.slow) for name in QUESTIONS]
)
def test_one_key_has_what_one_batch_gives(question: str, tmp_path: Path) -> None:
    asked, select = QUESTIONS[question]
    topics = {name: parts for name, parts in history(random.Random(SEED)).items() if f" {name} WIDE" in asked}
    expected = answer(topics, select)
    assert expected
    case = {
        "title": "one key",
        "sql": DECLARED + f"CREATE STREAM {question} AS {asked};".replace("WIDE", WIDE),
        "stores": {"s": "memory"},
        "steps": steps_of(topics),
        "expect": [{"relation": question, "rows": expected}],
    }
    path = tmp_path / "generated.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
