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
from tests.testing.seeds import BETWEEN, THIRDS, is_usual, seed
from tests.testing.test_delta_oracle import DECLARED, NULLABLE, TYPES, customer, folded, order

pytestmark = pytest.mark.cases

SEED = seed(20261122)
LOG = """CREATE STREAM log (nr INTEGER, id INTEGER, customer VARCHAR, amount INTEGER)
  WITH ('topic' = 'log', 'value.format' = 'json');
"""
LOGGED = {"log": "nr INTEGER, id INTEGER, customer VARCHAR, amount INTEGER"}
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
    "seen": (NULLABLE, "SELECT DISTINCT customer, paid FROM orders"),
    "sizes": (NULLABLE, "SELECT DISTINCT n FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) q"),
    "names": (NULLABLE, "SELECT customer FROM orders UNION SELECT name FROM customers"),
    "both": (NULLABLE, "SELECT customer FROM orders INTERSECT SELECT name FROM customers"),
    "alone": (NULLABLE, "SELECT customer FROM orders EXCEPT SELECT name FROM customers"),
    "copies": (
        NULLABLE,
        """SELECT who, COUNT(*) AS n FROM (SELECT customer AS who FROM orders UNION ALL SELECT name FROM customers
           UNION ALL SELECT customer FROM orders WHERE amount > 9) q GROUP BY who""",
    ),
    "in_": ("", "SELECT id FROM orders WHERE customer IN (SELECT name FROM customers WHERE age > 3)"),
    "exists_": (
        "",
        """SELECT o.id FROM orders o
           WHERE EXISTS (SELECT 1 AS one FROM customers c WHERE c.name = o.customer AND c.age = o.amount)""",
    ),
    "not_exists": (
        "",
        "SELECT id FROM orders o WHERE NOT EXISTS (SELECT * FROM customers c WHERE o.customer = c.name AND age > 3)",
    ),
    "not_in": (
        "",
        """SELECT id FROM orders WHERE amount IS NOT NULL
           AND amount NOT IN (SELECT age FROM customers WHERE age IS NOT NULL)""",
    ),
    "log_ranked": (
        NULLABLE,
        """SELECT customer, id, amount, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer
           ORDER BY amount DESC NULLS LAST, id, nr) AS rn FROM log) q WHERE rn <= 3""",
    ),
    "log_latest": (
        "",
        """SELECT id, customer, nr FROM (SELECT id, customer, nr, ROW_NUMBER() OVER (PARTITION BY id ORDER BY nr DESC)
           AS rn FROM log) q WHERE rn = 1""",
    ),
    "log_tied": (
        NULLABLE,
        """SELECT customer, r, COUNT(*) AS n FROM (SELECT customer, RANK() OVER (PARTITION BY customer
           ORDER BY amount DESC NULLS LAST) AS r FROM log) q WHERE r <= 2 GROUP BY customer, r""",
    ),
    "log_seen": (
        NULLABLE,
        "SELECT amount, COUNT(*) AS n FROM (SELECT DISTINCT customer, amount FROM log) q GROUP BY amount",
    ),
    "log_in": ("", "SELECT id, COUNT(*) AS n FROM log WHERE customer IN (SELECT name FROM customers) GROUP BY id"),
    "parts": ("", "SELECT 'o' AS part, id FROM orders UNION ALL SELECT 'b' AS part, id FROM orders WHERE amount > 9"),
}

ALWAYS = ("tied", "dense", "of_groups", "seen", "names", "both", "not_in", "log_ranked", "log_seen")
"""What runs with every build: each operator once; the others run with the long tests."""
PARTS = [
    pytest.param(ALWAYS, id="each_operator"),
    pytest.param(tuple(name for name in QUESTIONS if name not in ALWAYS), id="the_others", marks=pytest.mark.slow),
]


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


def logged(records: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Every order that came also as a row of a stream."""
    found: list[tuple[str, dict[str, Any]]] = []
    for number, (topic, record) in enumerate(records):
        found.append((topic, record))
        if topic == "orders" and record["value"] is not None:
            value = record["value"]
            row = {"nr": number, "id": value["id"], "customer": value["customer"], "amount": value["amount"]}
            found.append(("log", {"value": row}))
    return found


def steps_of(records: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Three parts; both kinds of crash between them."""
    steps: list[dict[str, Any]] = []
    third = -(-len(records) // THIRDS)
    for part in range(THIRDS):
        for topic in ("orders", "customers", "log"):
            rows = [record for name, record in records[part * third : (part + 1) * third] if name == topic]
            steps.append({"send": {"topic": topic, "rows": rows}})
        steps += BETWEEN[part : part + 1]
    return steps


def answers(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect() as database:
        for name, rows in tables.items():
            database.execute(f"CREATE TABLE {name} ({(TYPES | LOGGED)[name]})")
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


@pytest.mark.parametrize("names", PARTS)
def test_folded_results_are_what_one_batch_gives(names: tuple[str, ...], tmp_path: Path) -> None:
    records = history(random.Random(SEED))
    rows = [record["value"] for topic, record in logged(records) if topic == "log"]
    expected = answers(folded(records) | {"log": rows})
    assert not is_usual() or all(expected.values()), "every question has an answer"
    statements = ["CREATE CHANGELOG {} {} AS {};".format(name, *QUESTIONS[name]) for name in names]
    case = {
        "title": "random histories",
        "sql": DECLARED + LOG + "\n".join(statements),
        "stores": {"s": "memory"},
        "steps": steps_of(logged(records)),
        "expect": [{"relation": name, "rows": expected[name]} for name in names],
    }
    path = tmp_path / "generated.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
