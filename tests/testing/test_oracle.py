"""Cases over generated data; what has to come out is computed by DuckDB from the same data, in one batch."""

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

pytestmark = pytest.mark.cases

SEED = seed(20240229)
CLICKS = """
  CREATE STREAM clicks (id INTEGER, t BIGINT, url VARCHAR, userid VARCHAR, amount INTEGER)
    WITH ('topic' = 'clicks', 'value.format' = 'json', 'timestamp' = 't');"""
USERS = """
  CREATE CHANGELOG users (userid VARCHAR, region VARCHAR, since BIGINT, PRIMARY KEY(userid))
    WITH ('topic' = 'users', 'value.format' = 'json', 'timestamp' = 'since');"""
VIEWS = """
  CREATE STREAM views (id INTEGER, t BIGINT, userid VARCHAR)
    WITH ('topic' = 'views', 'value.format' = 'json', 'timestamp' = 't');"""

# name → (declarations, relation, statement, DuckDB's answer)
QUESTIONS: dict[str, tuple[str, str, str, str]] = {
    "aggregate": (
        CLICKS,
        "r",
        """CREATE CHANGELOG r AS SELECT url, COUNT(*) AS n, COUNT(amount) AS a, SUM(amount) AS s, AVG(amount) AS m,
           MIN(amount) AS lo, MAX(userid) AS hi FROM clicks WHERE url <> '/d' GROUP BY url;""",
        """SELECT url, COUNT(*) AS n, COUNT(amount) AS a, SUM(amount)::BIGINT AS s, AVG(amount) AS m, MIN(amount) AS lo,
           MAX(userid) AS hi FROM clicks WHERE url <> '/d' GROUP BY url""",
    ),
    "tumble": (
        CLICKS,
        "r",
        """CREATE CHANGELOG r AS SELECT window_start, window_end, url, COUNT(*) AS n, SUM(amount) AS s
           FROM TUMBLE(clicks, SIZE 7 SECONDS) GROUP BY window_start, window_end, url;""",
        """SELECT strftime(make_timestamp(t // 7000 * 7000000), '%Y-%m-%d %H:%M:%S.%gZ') AS window_start,
           strftime(make_timestamp((t // 7000 + 1) * 7000000), '%Y-%m-%d %H:%M:%S.%gZ') AS window_end,
           url, COUNT(*) AS n, SUM(amount)::BIGINT AS s FROM clicks GROUP BY t // 7000, url""",
    ),
    "temporal_left": (
        CLICKS + USERS,
        "r",
        "CREATE STREAM r AS SELECT c.id, u.region FROM clicks c LEFT JOIN users u ON c.userid = u.userid;",
        """SELECT c.id, u.region FROM clicks c ASOF LEFT JOIN users u ON c.userid = u.userid AND c.t >= u.since""",
    ),
    "temporal_inner": (
        CLICKS + USERS,
        "r",
        "CREATE STREAM r AS SELECT c.id, u.region FROM clicks c JOIN users u ON c.userid = u.userid;",
        """SELECT c.id, u.region FROM clicks c ASOF JOIN users u ON c.userid = u.userid AND c.t >= u.since
           WHERE NOT u.deleted""",
    ),
    "interval_inner": (
        CLICKS + VIEWS,
        "r",
        """CREATE STREAM r AS SELECT c.id AS c, v.id AS v
           FROM clicks c JOIN views v WITHIN 2 SECONDS ON c.userid = v.userid;""",
        """SELECT c.id AS c, v.id AS v
           FROM clicks c JOIN views v ON c.userid = v.userid AND abs(c.t - v.t) <= 2000""",
    ),
    "interval_left": (
        CLICKS + VIEWS,
        "r",
        """CREATE STREAM r AS SELECT c.id AS c, v.id AS v
           FROM clicks c LEFT JOIN views v WITHIN 500 MILLISECONDS ON c.userid = v.userid;""",
        """SELECT c.id AS c, v.id AS v
           FROM clicks c LEFT JOIN views v ON c.userid = v.userid AND abs(c.t - v.t) <= 500""",
    ),
}


def clicks(dice: random.Random) -> list[dict[str, Any]]:
    """Three seconds out of order at most; some without user or amount."""
    return [
        {
            "id": number,
            "t": 60_000 + number * 200 + dice.randrange(-3000, 3000),
            "url": dice.choice(["/a", "/b", "/c", "/d"]),
            "userid": dice.choice(["u1", "u2", "u3", "u4", None]),
            "amount": dice.choice([None, *range(-5, 50)]),
        }
        for number in range(240)
    ]


def users(dice: random.Random) -> list[dict[str, Any]]:
    """Versions at moments of their own; every fourth is a delete. Nobody is called u4."""
    moments = dice.sample(range(60_000, 108_000), 60)
    return [
        {
            "userid": f"u{1 + number % 3}",
            "region": None if number % 4 == 3 else f"R{number}",
            "since": at,
            "deleted": number % 4 == 3,
        }
        for number, at in enumerate(sorted(moments))
    ]


def views(dice: random.Random) -> list[dict[str, Any]]:
    return [
        {"id": n, "t": 60_000 + n * 400 + dice.randrange(-3000, 3000), "userid": dice.choice(["u1", "u2", None])}
        for n in range(120)
    ]


def answer(sql: str, **tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What DuckDB says of the tables, as rows."""
    with duckdb.connect() as database:
        for name, rows in tables.items():
            database.execute(
                "CREATE TABLE tmp AS SELECT unnest(from_json(?, ?), recursive := true)",
                [json.dumps(rows), SHAPES[name]],
            )
            database.execute(f"ALTER TABLE tmp RENAME TO {name}")
        found = database.execute(sql)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


SHAPES = {
    "clicks": '[{"id":"INTEGER","t":"BIGINT","url":"VARCHAR","userid":"VARCHAR","amount":"INTEGER"}]',
    "users": '[{"userid":"VARCHAR","region":"VARCHAR","since":"BIGINT","deleted":"BOOLEAN"}]',
    "views": '[{"id":"INTEGER","t":"BIGINT","userid":"VARCHAR"}]',
}


def user_record(row: dict[str, Any]) -> dict[str, Any]:
    """A delete has no value: its moment is the record's own timestamp."""
    value = None if row["deleted"] else {name: row[name] for name in ("userid", "region", "since")}
    return {"key": {"userid": row["userid"]}, "value": value, "at": row["since"]}


def case_text(question: str, steps: list[dict[str, Any]], expected: list[dict[str, Any]]) -> str:
    """JSON is YAML."""
    declarations, relation, statement, _ = QUESTIONS[question]
    case = {
        "title": question,
        "sql": declarations + "\n" + statement,
        "stores": {"s": "memory"},
        "steps": steps,
        "expect": [{"relation": relation, "rows": expected}],
    }
    return json.dumps(case)


RARELY = ("temporal_inner", "interval_inner")
"""Run with the long tests: the same operators as LEFT, with less to do."""
MARKED = [pytest.param(name, marks=pytest.mark.slow) if name in RARELY else name for name in QUESTIONS]


@pytest.mark.parametrize("question", MARKED)
def test_streaming_gives_what_one_batch_gives(question: str, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    tables = {"clicks": clicks(dice), "users": users(dice), "views": views(dice)}
    declarations, _, _, sql = QUESTIONS[question]
    records = {
        "clicks": [{"value": row} for row in tables["clicks"]],
        "users": [user_record(row) for row in tables["users"]],
        "views": [{"value": row} for row in tables["views"]],
    }
    topics = [topic for topic in records if f" {topic} (" in declarations]
    steps: list[dict[str, Any]] = []
    for third in range(THIRDS):
        for topic in topics:
            size = len(records[topic]) // THIRDS
            steps.append(
                {"send": {"topic": topic, "rows": records[topic][third * size : (third + 1) * size], "batches": 2}}
            )
        steps += BETWEEN[third : third + 1]
    steps.append({"advance": {"to": 10_000_000}})
    path = tmp_path / "generated.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(case_text(question, steps, answer(sql, **tables)), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
