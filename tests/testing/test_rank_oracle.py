"""Ranks, DISTINCT and set operations over random histories: folded, the result is what DuckDB says at the end."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.testing.test_delta_oracle import DECLARED, NULLABLE, TYPES, customer, folded, order, steps_of

pytestmark = pytest.mark.cases

SEED = 20261122
# name → (properties, the same SELECT for both)
QUESTIONS: dict[str, tuple[str, str]] = {
    "ranked": (
        NULLABLE,
        """SELECT customer, id, amount, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer
           ORDER BY amount DESC NULLS LAST, id) AS rn FROM orders) q WHERE rn <= 2""",
    ),
    "unranked": (
        "",
        """SELECT id, amount FROM (SELECT id, amount, ROW_NUMBER() OVER (ORDER BY amount NULLS FIRST, id DESC) AS rn
           FROM orders) q WHERE rn < 4""",
    ),
    "latest": (
        NULLABLE,
        """SELECT customer, id FROM (SELECT id, customer, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id DESC)
           AS rn
           FROM orders WHERE amount > 3) q WHERE rn = 1""",
    ),
    "tied": (
        "",
        """SELECT id, r FROM (SELECT id, RANK() OVER (PARTITION BY customer ORDER BY price DESC NULLS LAST) AS r
           FROM orders) q WHERE r <= 2""",
    ),
    "dense": (
        "",
        """SELECT id, r FROM (SELECT id, DENSE_RANK() OVER (ORDER BY paid NULLS FIRST) AS r FROM orders) q
           WHERE r BETWEEN 2 AND 3""",
    ),
    "of_groups": (
        NULLABLE,
        """SELECT customer, n FROM (SELECT customer, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC,
           customer NULLS FIRST) AS rn FROM orders GROUP BY customer) q WHERE rn <= 2""",
    ),
    "summed": (
        NULLABLE,
        """SELECT customer, SUM(amount) AS s FROM (SELECT customer, amount, ROW_NUMBER() OVER (PARTITION BY customer
           ORDER BY amount DESC NULLS LAST, id) AS rn FROM orders) q WHERE rn <= 3 GROUP BY customer""",
    ),
    "values": (NULLABLE, "SELECT DISTINCT customer, paid FROM orders"),
    "sizes": (NULLABLE, "SELECT DISTINCT n FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) q"),
    "names": (NULLABLE, "SELECT customer FROM orders UNION SELECT name FROM customers"),
    "both": (NULLABLE, "SELECT customer FROM orders INTERSECT SELECT name FROM customers"),
    "alone": (NULLABLE, "SELECT customer FROM orders EXCEPT SELECT name FROM customers"),
    "copies": (
        NULLABLE,
        """SELECT who, COUNT(*) AS n FROM (SELECT customer AS who FROM orders UNION ALL SELECT name FROM customers
           UNION ALL SELECT customer FROM orders WHERE amount > 9) q GROUP BY who""",
    ),
    "parts": ("", "SELECT 'o' AS part, id FROM orders UNION ALL SELECT 'b' AS part, id FROM orders WHERE amount > 9"),
}


def history(dice: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """420 changes of 90 orders and 5 customers; first all orders come, so that ranks overflow and are filled again."""
    found: list[tuple[str, dict[str, Any]]] = []
    for number in range(420):
        if dice.random() < 0.85:
            key = dice.randrange(90)
            gone = dice.random() < (0.1 if number < 200 else 0.6)
            found.append(("orders", {"key": {"id": key}, "value": None if gone else order(dice, key)}))
        else:
            name = dice.choice("abcde")
            value = None if dice.random() < 0.4 else customer(dice, name)
            found.append(("customers", {"key": {"name": name}, "value": value}))
    return found


def answers(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect() as database:
        for name, rows in tables.items():
            database.execute(f"CREATE TABLE {name} ({TYPES[name]})")
            for row in rows:
                database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row.values()))
        found = {}
        for name, (_, select) in QUESTIONS.items():
            result = database.execute(select)
            columns = [column[0] for column in result.description or ()]
            found[name] = [
                json.loads(json.dumps(dict(zip(columns, row, strict=True)), default=float)) for row in result.fetchall()
            ]
        return found


def test_folded_results_are_what_one_batch_gives(tmp_path: Path) -> None:
    records = history(random.Random(SEED))
    expected = answers(folded(records))
    assert all(expected.values()), "every question has an answer"
    statements = [f"CREATE CHANGELOG {name} {with_} AS {select};" for name, (with_, select) in QUESTIONS.items()]
    case = {
        "title": "random histories",
        "sql": DECLARED + "\n".join(statements),
        "stores": {"s": "memory"},
        "steps": steps_of(records),
        "expect": [{"relation": name, "rows": rows} for name, rows in expected.items()],
    }
    path = tmp_path / "generated.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
