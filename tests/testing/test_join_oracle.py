# ruff: noqa: E501 - statements stay on one line
"""Joins and windows that stand over one another, over random rows out of order: DuckDB says of all rows in one batch
what has to come out. Times are coarse, so that many are equal; keys are NULL now and then; rows behind time come as well."""

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

SEED = seed(20261121)
WIDE = "WITH ('source.allow.latency.millis' = 3600000)"
"""Rows never move time in these cases, only ``advance`` does: so it is known which rows are late."""
DECLARED = """
  CREATE STREAM l (id INTEGER, k VARCHAR, g INTEGER, t BIGINT) WITH ('topic' = 'l', 'value.format' = 'json', 'timestamp' = 't');
  CREATE STREAM r (id INTEGER, k VARCHAR, g INTEGER, t BIGINT) WITH ('topic' = 'r', 'value.format' = 'json', 'timestamp' = 't');
  CREATE CHANGELOG u (k VARCHAR, name VARCHAR, t BIGINT, PRIMARY KEY(k))
    WITH ('topic' = 'u', 'value.format' = 'json', 'timestamp' = 't', 'key.format' = 'json', 'key.type' = 'STRUCT<k VARCHAR>');
  CREATE CHANGELOG v (k VARCHAR, g INTEGER, name VARCHAR, t BIGINT, PRIMARY KEY(k, g))
    WITH ('topic' = 'v', 'value.format' = 'json', 'timestamp' = 't', 'key.format' = 'json', 'key.type' = 'STRUCT<k VARCHAR, g INTEGER>');
"""
COUNTS = "SELECT window_start, window_end, k, COUNT(*) AS n FROM TUMBLE({0} WIDE, SIZE 5 SECONDS) GROUP BY window_start, window_end, k"
COUNTED = "SELECT t // 5000 AS w, k, COUNT(*) AS n FROM {0} GROUP BY t // 5000, k"
NEAR = "l.k = r.k AND abs(l.t - r.t) <= 2000"
# name → (the statement, DuckDB's answer over rows in time, or over all where ``late`` is read)
QUESTIONS: dict[str, tuple[str, str]] = {
    "interval_full": (
        """CREATE STREAM interval_full AS SELECT l.id AS a, r.id AS b
           FROM l WIDE FULL JOIN r WIDE WITHIN 2 SECONDS ON l.k = r.k AND l.g = r.g AND l.id + 990 < r.id;""",
        f"SELECT l.id AS a, r.id AS b FROM l FULL JOIN r ON {NEAR} AND l.g = r.g AND l.id + 990 < r.id",
    ),
    "interval_left": (
        """CREATE STREAM interval_left AS SELECT l.id AS a, r.id AS b
           FROM l WIDE LEFT JOIN r WIDE WITHIN 2 SECONDS ON CONCAT(l.k, 'x') = r.k || 'x' AND l.g < r.g;""",
        f"SELECT l.id AS a, r.id AS b FROM l LEFT JOIN r ON {NEAR} AND l.g < r.g",
    ),
    "near": (
        """CREATE STREAM near AS SELECT l.id AS a, r.id AS b
           FROM l WIDE JOIN r WIDE WITHIN 2 SECONDS ON l.k = r.k AND l.g < r.g;""",
        f"SELECT l.id AS a, r.id AS b FROM l JOIN r ON {NEAR} AND l.g < r.g",
    ),
    "near_left": (
        """CREATE STREAM near_left AS SELECT l.id AS a, r.id AS b
           FROM l WIDE LEFT JOIN r WIDE WITHIN 2 SECONDS ON l.k = r.k AND l.g = r.g;""",
        f"SELECT l.id AS a, r.id AS b FROM l LEFT JOIN r ON {NEAR} AND l.g = r.g",
    ),
    "near_full": (
        """CREATE STREAM near_full AS SELECT l.id AS a, r.id AS b
           FROM l WIDE FULL JOIN r WIDE WITHIN 2 SECONDS ON l.k = r.k AND l.g = r.g;""",
        f"SELECT l.id AS a, r.id AS b FROM l FULL JOIN r ON {NEAR} AND l.g = r.g",
    ),
    "versions": (
        """CREATE STREAM versions AS SELECT l.id AS a, u.name AS b, v.name AS c
           FROM l WIDE LEFT JOIN u WIDE ON l.k = u.k LEFT JOIN v WIDE ON v.g = l.g AND v.k = l.k AND v.name <> u.name;""",
        """SELECT x.id AS a, x.b, CASE WHEN v.name <> x.b THEN v.name END AS c
           FROM (SELECT al.id, al.k, al.g, al.t, u.name AS b FROM al ASOF LEFT JOIN u ON al.k = u.k AND al.t >= u.t) x
           ASOF LEFT JOIN v ON v.k = x.k AND v.g = x.g AND x.t >= v.t""",
    ),
    "interval_of_versions": (
        """CREATE STREAM interval_of_versions AS SELECT l.id AS a, u.name AS b, r.id AS c
           FROM l WIDE JOIN u WIDE ON l.k = u.k LEFT JOIN r WIDE WITHIN 2 SECONDS ON l.k = r.k;""",
        f"""SELECT x.id AS a, x.b, r.id AS c
            FROM (SELECT l.id, l.k, l.t, u.name AS b FROM l ASOF JOIN u ON l.k = u.k AND l.t >= u.t WHERE NOT u.deleted) x
            LEFT JOIN r ON {NEAR.replace("l.", "x.")}""",
    ),
    "versions_of_interval": (
        """CREATE STREAM versions_of_interval AS SELECT l.id AS a, r.id AS b, u.name AS c
           FROM l WIDE LEFT JOIN r WIDE WITHIN 2 SECONDS ON l.k = r.k JOIN u WIDE ON l.k = u.k;""",
        f"""SELECT l.id AS a, r.id AS b, u.name AS c FROM l LEFT JOIN r ON {NEAR}
            ASOF JOIN u ON l.k = u.k AND l.t >= u.t WHERE NOT u.deleted""",
    ),
    "window_of_versions": (
        """CREATE CHANGELOG window_of_versions AS SELECT window_start, window_end, name, COUNT(*) AS n, SUM(id) AS s
           FROM TUMBLE((SELECT l.id, u.name FROM l WIDE JOIN u WIDE ON l.k = u.k) x, SIZE 5 SECONDS)
           GROUP BY window_start, window_end, name;""",
        """SELECT u.name, COUNT(*) AS n, SUM(l.id)::BIGINT AS s
           FROM l ASOF JOIN u ON l.k = u.k AND l.t >= u.t WHERE NOT u.deleted GROUP BY l.t // 5000, u.name""",
    ),
    "window_of_interval": (
        """CREATE CHANGELOG window_of_interval AS SELECT window_start, window_end, COUNT(*) AS n, COUNT(b) AS pairs
           FROM HOP((SELECT l.id AS a, r.id AS b FROM l WIDE LEFT JOIN r WIDE WITHIN 2 SECONDS ON l.k = r.k) x,
             SIZE 6 SECONDS, ADVANCE BY 3 SECONDS) GROUP BY window_start, window_end;""",
        f"""SELECT COUNT(*) AS n, COUNT(b) AS pairs
            FROM (SELECT l.t, r.id AS b, unnest([l.t // 3000, l.t // 3000 - 1]) AS w FROM l LEFT JOIN r ON {NEAR}) GROUP BY w""",
    ),
    "hottest": (
        f"""CREATE STREAM hottest AS SELECT c.k, c.n FROM ({COUNTS.format("l")}) c
            JOIN (SELECT window_start, window_end, MAX(n) AS most FROM ({COUNTS.format("l")}) d GROUP BY window_start, window_end) m
            ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.n = m.most;""",
        f"""WITH c AS ({COUNTED.format("l")}), m AS (SELECT w, MAX(n) AS most FROM c GROUP BY w)
            SELECT c.k, c.n FROM c JOIN m ON c.w = m.w AND c.n = m.most""",
    ),
    "side_by_side": (
        f"""CREATE STREAM side_by_side AS SELECT c.k AS a, c.n, d.k AS b, d.n AS m FROM ({COUNTS.format("l")}) c
            FULL JOIN ({COUNTS.format("r")}) d ON c.window_end = d.window_end AND c.k = d.k;""",
        f"""SELECT c.k AS a, c.n, d.k AS b, d.n AS m FROM ({COUNTED.format("l")}) c
            FULL JOIN ({COUNTED.format("r")}) d ON c.w = d.w AND c.k = d.k""",
    ),
    "largest": (
        """CREATE STREAM largest AS SELECT x.id AS a FROM TUMBLE(l WIDE, SIZE 5 SECONDS) x
           LEFT JOIN (SELECT window_start, window_end, MAX(id) AS id FROM TUMBLE(l WIDE, SIZE 5 SECONDS) GROUP BY window_start, window_end) m
           ON x.window_end = m.window_end AND x.id = m.id WHERE m.id IS NULL;""",
        "SELECT id AS a FROM l WHERE id <> (SELECT MAX(id) FROM l o WHERE o.t // 5000 = l.t // 5000)",
    ),
}
TYPES = {
    "l": "id INTEGER, k VARCHAR, g INTEGER, t BIGINT",
    "al": "id INTEGER, k VARCHAR, g INTEGER, t BIGINT",
    "r": "id INTEGER, k VARCHAR, g INTEGER, t BIGINT",
    "u": "k VARCHAR, name VARCHAR, t BIGINT, deleted BOOLEAN",
    "v": "k VARCHAR, g INTEGER, name VARCHAR, t BIGINT, deleted BOOLEAN",
}
ALWAYS = ("near_full", "window_of_interval", "hottest")
"""What runs with every build; the others run with the long tests."""
PARTS = THIRDS
BEGIN = 60_000
LENGTH = 12_000
"""Milliseconds of event time: where the first part begins, and of one part; time is advanced to each part's begin."""
Rows = list[dict[str, Any]]


def rows(dice: random.Random, part: int, first: int, count: int) -> Rows:
    """Of one part: up to two lengths ahead, so parts overlap; none behind the part's begin."""
    begin = BEGIN + part * LENGTH
    return [
        {
            "id": first + number,
            "k": dice.choice(["a", "b", "c", None]),
            "g": dice.choice([1, 2, 2, None]),
            "t": begin + 250 * dice.randrange(2 * LENGTH // 250),
        }
        for number in range(count)
    ]


def late_rows(dice: random.Random, part: int, first: int) -> Rows:
    """So far behind the part's begin that every window and interval they would be in has passed."""
    behind = BEGIN + part * LENGTH - 10_000
    return [{"id": first + n, "k": dice.choice("abc"), "g": 1, "t": behind - dice.randrange(1500)} for n in range(4)]


def versions(dice: random.Random, part: int, taken: set[tuple[Any, ...]], keys: list[dict[str, Any]]) -> Rows:
    """At most one per key and moment; every fourth ends its key."""
    found = []
    for _ in range(14):
        key, moment = dice.choice(keys), BEGIN + part * LENGTH + 250 * dice.randrange(2 * LENGTH // 250)
        if (*key.values(), moment) in taken:
            continue
        taken.add((*key.values(), moment))
        deleted = dice.random() < 0.25
        found.append(
            {**key, "name": None if deleted else dice.choice(["N1", "N2", "N3"]), "t": moment, "deleted": deleted}
        )
    return found


def version_record(row: dict[str, Any]) -> dict[str, Any]:
    key = {name: row[name] for name in ("k", "g") if name in row}
    value = None if row["deleted"] else {name: row[name] for name in row if name != "deleted"}
    return {"key": key, "value": value, "at": row["t"]}


def history(dice: random.Random) -> tuple[list[dict[str, Any]], dict[str, Rows]]:
    """The steps of a case and the tables they make."""
    tables: dict[str, Rows] = {name: [] for name in TYPES}
    taken: tuple[set[tuple[Any, ...]], ...] = (set(), set())
    by_key = [[{"k": k} for k in "abc"], [{"k": k, "g": g} for k in "abc" for g in (1, 2)]]
    steps: list[dict[str, Any]] = []
    for part in range(PARTS):
        for name, taken_, keys in zip(("u", "v"), taken, by_key, strict=True):
            made = versions(dice, part, taken_, keys)
            tables[name] += made
            steps.append({"send": {"topic": name, "rows": [version_record(row) for row in made]}})
        for name, base in (("l", 0), ("r", 1000)):
            made = rows(dice, part, base + 100 * part, 32)
            late = late_rows(dice, part, base + 100 * part + 50) if part else []
            tables[name] += made
            if name == "l":
                tables["al"] += made + late
            mixed = [*made, *late]
            dice.shuffle(mixed)
            steps.append({"send": {"topic": name, "rows": [{"value": row} for row in mixed]}})
        steps += [*BETWEEN[part : part + 1], {"advance": {"to": BEGIN + (part + 1) * LENGTH}}]
    return [*steps, {"crash": {"at": "before_commit"}}, {"advance": {"to": 10_000_000}}], tables


def answers(tables: dict[str, Rows]) -> dict[str, Rows]:
    with duckdb.connect() as database:
        for name, held in tables.items():
            database.execute(f"CREATE TABLE {name} ({TYPES[name]})")
            columns = [part.split()[0] for part in TYPES[name].split(", ")]
            database.executemany(
                f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})",
                [[row[column] for column in columns] for row in held],
            )
        found = {}
        for name, (_, select) in QUESTIONS.items():
            result = database.execute(select)
            columns = [column[0] for column in result.description or ()]
            found[name] = [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
        return found


def reads(statement: str, topic: str) -> bool:
    return f" {topic} WIDE" in statement or f"({topic} WIDE" in statement


MARKED = [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.slow) for name in QUESTIONS]


@pytest.mark.parametrize("question", MARKED)
def test_streaming_gives_what_one_batch_gives(question: str, tmp_path: Path) -> None:
    steps, tables = history(random.Random(SEED))
    expected = answers(tables)[question]
    assert expected
    statement = QUESTIONS[question][0]
    kept = [step for step in steps if "send" not in step or reads(statement, step["send"]["topic"])]
    case = {
        "title": "random rows",
        "sql": DECLARED + statement.replace("WIDE", WIDE),
        "stores": {"s": "memory"},
        "steps": kept,
        "expect": [{"relation": question, "rows": expected, "columns": "subset"}],
    }
    path = tmp_path / "generated.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
