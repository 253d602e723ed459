"""Changelogs that retract, over random histories: what comes out, folded by key, is what DuckDB says at the end."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.buckets import buckets_of
from tests.testing.seeds import BETWEEN, THIRDS, is_usual, seed

pytestmark = pytest.mark.cases

SEED = seed(20261121)
DECLARED = """
  CREATE CHANGELOG orders (id INTEGER, customer VARCHAR, amount INTEGER, price DOUBLE, paid DECIMAL(10, 2),
    PRIMARY KEY(id))
    WITH ('topic' = 'orders', 'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<id INTEGER>');
  CREATE CHANGELOG customers (name VARCHAR, city VARCHAR, age INTEGER, PRIMARY KEY(name))
    WITH ('topic' = 'customers', 'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<name VARCHAR>');
"""
NULLABLE = "WITH ('primary.key.nullable' = TRUE)"
ALL = """COUNT(*) AS n, COUNT(amount) AS c, SUM(amount) AS s, AVG(amount) AS m, MIN(amount) AS lo, MAX(price) AS hi,
  SUM(paid) AS p, COUNT(DISTINCT amount) AS d, SUM(DISTINCT amount) AS sd,
  COUNT(*) FILTER (WHERE amount > 10) AS f"""
# name → (properties, the same SELECT for both)
QUESTIONS: dict[str, tuple[str, str]] = {
    "totals": (NULLABLE, f"SELECT customer, {ALL} FROM orders GROUP BY customer"),
    "spread": (
        NULLABLE,
        """SELECT customer, VAR_POP(price) AS vp, VAR_SAMP(price) AS vs, STDDEV_POP(price) AS sp,
           STDDEV_SAMP(price) AS ss FROM orders GROUP BY customer""",
    ),
    "filtered": (NULLABLE, "SELECT customer, MIN(price) AS lo FROM orders WHERE amount > 5 GROUP BY customer"),
    "large_groups": (NULLABLE, "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer HAVING COUNT(*) > 2"),
    "twice": (
        "",
        """SELECT n, COUNT(*) AS customers, MAX(s) AS most
           FROM (SELECT customer, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY customer) q GROUP BY n""",
    ),
    "pairs": ("", "SELECT o.id, o.amount, c.city FROM orders o JOIN customers c ON o.customer = c.name"),
    "with_or_without": ("", "SELECT o.id, c.city, c.age FROM orders o LEFT JOIN customers c ON o.customer = c.name"),
    "everything": (NULLABLE, "SELECT o.id, c.name, c.age FROM orders o FULL JOIN customers c ON o.customer = c.name"),
    "residual": (
        "",
        "SELECT o.id, c.age FROM orders o JOIN customers c ON o.customer = c.name AND o.amount > c.age",
    ),
    "residual_left": (
        "",
        """SELECT o.id, c.age FROM orders o
           LEFT JOIN customers c ON o.customer = c.name AND o.amount > c.age AND c.city = 'x'""",
    ),
    "residual_full": (
        NULLABLE,
        "SELECT o.id, c.name, c.age FROM orders o FULL JOIN customers c ON o.customer = c.name AND o.amount > c.age",
    ),
    "one_side": (
        "",
        """SELECT o.id, c.age FROM orders o LEFT JOIN customers c ON o.customer = c.name
           WHERE o.amount > 3 AND (o.price > 0 OR c.age > 2)""",
    ),
    "neighbours": (
        NULLABLE,
        "SELECT l.id AS l, r.id AS r FROM orders l JOIN orders r ON l.customer = r.customer WHERE l.id < r.id",
    ),
    "total": ("", f"SELECT 'all' AS scope, {ALL} FROM orders"),
    "over_the_mean": ("", "SELECT id, amount FROM orders WHERE amount > (SELECT AVG(age) FROM customers)"),
    "total_of_groups": (
        "",
        """SELECT 'all' AS scope, COUNT(*) AS n, MAX(s) AS most
           FROM (SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer) q""",
    ),
    "per_city": (
        NULLABLE,
        """SELECT city, COUNT(*) AS n, SUM(amount) AS s
           FROM (SELECT c.city, o.amount FROM orders o JOIN customers c ON o.customer = c.name) q GROUP BY city""",
    ),
}
ALWAYS = ("totals", "twice", "everything", "per_city")
"""What runs with every build: each operator once; the others run with the long tests. Totals without a key and joins
with further conditions have cases of their own."""
PARTS = [
    pytest.param(ALWAYS, id="each_operator"),
    pytest.param(tuple(name for name in QUESTIONS if name not in ALWAYS), id="the_others", marks=pytest.mark.slow),
]
CROWDED = 1600
"""Bytes of a bucket, so that a key's own value has two or three rows, or about six values; what is more than that is a
value of its own for each row, or each value of a group."""
SIZES = [pytest.param(CROWDED, id="crowded"), pytest.param(0, id="usual", marks=pytest.mark.slow)]
"""With the long tests also as they usually are, which the cases of such changelogs have."""
TYPES = {
    "orders": "id INTEGER, customer VARCHAR, amount INTEGER, price DOUBLE, paid DECIMAL(10, 2)",
    "customers": "name VARCHAR, city VARCHAR, age INTEGER",
}


def order(dice: random.Random, key: int) -> dict[str, Any]:
    return {
        "id": key,
        "customer": dice.choice(["a", "b", "c", "d", None]),
        "amount": dice.choice([None, *range(20)]),
        "price": dice.choice([None, 0.1, 0.2, 0.3, 1e15, -1e-3, 7.5]),
        "paid": dice.choice([None, 1.25, 99.99, -3.5]),
    }


def customer(dice: random.Random, key: str) -> dict[str, Any]:
    return {"name": key, "city": dice.choice(["x", "y", None]), "age": dice.randrange(12)}


def history(dice: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """240 changes: inserts, updates, updates that change nothing, deletes of what is there and of what is not."""
    found: list[tuple[str, dict[str, Any]]] = []
    for _ in range(240):
        if dice.random() < 0.75:
            key = dice.randrange(25)
            value = None if dice.random() < 0.3 else order(dice, key)
            found.append(("orders", {"key": {"id": key}, "value": value}))
        else:
            name = dice.choice("abcde")
            value = None if dice.random() < 0.3 else customer(dice, name)
            found.append(("customers", {"key": {"name": name}, "value": value}))
    return found


def folded(records: list[tuple[str, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, dict[str, dict[str, Any]]] = {"orders": {}, "customers": {}}
    for topic, record in records:
        key = json.dumps(record["key"])
        if record["value"] is None:
            tables[topic].pop(key, None)
        else:
            tables[topic][key] = record["value"]
    return {name: list(rows.values()) for name, rows in tables.items()}


def answers(
    tables: dict[str, list[dict[str, Any]]],
    questions: Mapping[str, tuple[str, str]] = QUESTIONS,
    views: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect() as database:
        for name, rows in tables.items():
            database.execute(f"CREATE TABLE {name} ({TYPES[name]})")
            for row in rows:
                database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row.values()))
        for name, select in views.items():
            database.execute(f"CREATE VIEW {name} AS {select}")
        found = {}
        for name, (_, select) in questions.items():
            result = database.execute(select)
            columns = [column[0] for column in result.description or ()]
            found[name] = [dict(zip(columns, map(plain, row), strict=True)) for row in result.fetchall()]
        return found


def plain(value: Any) -> Any:
    """As JSON has it: a decimal is a number."""
    return float(value) if isinstance(value, Decimal) else value


def steps_of(records: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Three parts; both kinds of crash between them."""
    steps: list[dict[str, Any]] = []
    third = -(-len(records) // THIRDS)
    for part in range(THIRDS):
        for topic in ("orders", "customers"):
            rows = [record for name, record in records[part * third : (part + 1) * third] if name == topic]
            steps.append({"send": {"topic": topic, "rows": rows}})
        steps += BETWEEN[part : part + 1]
    return steps


def check(names: tuple[str, ...], folder: Path) -> None:
    """Run a random history through some questions and compare what comes out with the answers of one batch."""
    dice = random.Random(SEED)
    records = history(dice)
    expected = answers(folded(records))
    assert not is_usual() or all(expected.values()), "every question has an answer"
    statements = ["CREATE CHANGELOG {} {} AS {};".format(name, *QUESTIONS[name]) for name in names]
    case = {
        "title": "random histories",
        "sql": DECLARED + "\n".join(statements),
        "stores": {"s": "memory"},
        "steps": steps_of(records),
        "expect": [{"relation": name, "rows": expected[name]} for name in names],
    }
    path = folder / "generated.case.yaml"
    (folder / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=folder)
    assert result.ok, "\n".join(failure.text for failure in result.failures)


@pytest.mark.parametrize("names", PARTS)
@pytest.mark.parametrize("size", SIZES)
def test_folded_changelogs_are_what_one_batch_gives(size: int, names: tuple[str, ...], tmp_path: Path) -> None:
    with buckets_of(shared_session(), size):
        check(names, tmp_path)
