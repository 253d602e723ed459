# ruff: noqa: E501 - statements stay on one line
"""One group of a changelog that loses its extremes and its first rows again and again, so that they are looked up in the
order that is kept of large groups: DuckDB says of what is left what has to come out."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.testing import test_delta_oracle as delta
from tests.testing.seeds import BETWEEN, THIRDS, seed

pytestmark = [pytest.mark.cases, pytest.mark.usefixtures("buckets")]

SEED = seed(20261125)
COLUMNS = """id INTEGER, g VARCHAR, whole BIGINT, small INTEGER, price DOUBLE, paid DECIMAL(38, 10), name VARCHAR,
  moment TIMESTAMP(6), day DATE"""
DECLARED = f"""CREATE CHANGELOG items ({COLUMNS}, PRIMARY KEY(id))
  WITH ('topic' = 'items', 'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<id INTEGER>');"""
VALUED = ("whole", "small", "price", "paid", "name", "moment", "day")
EXTREMES = ", ".join(f"MIN({name}) AS {name}_lo, MAX({name}) AS {name}_hi" for name in VALUED)
NULLABLE = "WITH ('primary.key.nullable' = TRUE)"
FIRST = "SELECT id, rn FROM (SELECT id, {} OVER (PARTITION BY g ORDER BY {}) AS rn FROM items) q WHERE rn <= 2"
QUESTIONS = {
    "extremes": (NULLABLE, f"SELECT g, {EXTREMES} FROM items GROUP BY g"),
    "some": (
        NULLABLE,
        "SELECT g, MIN(price) FILTER (WHERE small > 0) AS lo, MAX(DISTINCT name) AS hi, COUNT(DISTINCT name) AS n FROM items GROUP BY g",
    ),
    "latest": (
        NULLABLE,
        "SELECT g, MAX_BY(name, id) AS newest, MIN_BY(whole, id) AS oldest, MAX_BY(id, price) AS dearest FROM items WHERE name <> 'x' AND whole <> 1 AND price <> 1 GROUP BY g",
    ),
    "newest": ("", FIRST.format("ROW_NUMBER()", "moment DESC NULLS LAST, id")),
    "smallest": ("", FIRST.format("ROW_NUMBER()", "small NULLS FIRST, price DESC NULLS LAST, id")),
    "texts": ("", FIRST.format("ROW_NUMBER()", "name DESC NULLS LAST, id")),
    "paid": ("", FIRST.format("RANK()", "paid NULLS LAST")),
}
ALWAYS = ("extremes", "latest", "newest", "paid")
"""What runs with every build, over a history in three parts; with the long tests everything does, over one in nine."""
LONG = "the same beginning of more than thirty-two bytes of text "


def item(dice: random.Random, key: int) -> dict[str, Any]:
    return {
        "id": key,
        "g": dice.choice(["hot", "hot", "hot", None]),
        "whole": dice.choice([None, -(2**63), 2**63 - 1, *(dice.randrange(-(2**40), 2**40) for _ in range(9))]),
        "small": dice.choice([None, *range(-20, 20)]),
        "price": dice.choice([None, -1e300, 1e-9, dice.uniform(-9, 9), dice.uniform(-1e9, 1e9)]),
        "paid": dice.choice([None, dice.randrange(-(10**6), 10**6) / 4, -0.0009765625]),
        "name": dice.choice([None, "", "a", "ab", "é", "\U0001f600", "\uffee", LONG, LONG + "a", LONG + str(dice.randrange(99))]),
        "moment": f"20{dice.randrange(10, 30)}-0{dice.randrange(1, 9)}-11 01:02:03.{dice.randrange(10**6):06}",
        "day": f"{dice.randrange(1900, 2100)}-11-{dice.randrange(10, 30)}",
    }  # fmt: skip


def is_extreme(rows: list[dict[str, Any]], key: int) -> bool:
    row = next(row for row in rows if row["id"] == key)
    return any(row[name] is not None and row[name] in _ends(rows, name) for name in VALUED)


def _ends(rows: list[dict[str, Any]], name: str) -> tuple[Any, Any]:
    values = [row[name] for row in rows if row[name] is not None]
    return min(values), max(values)


def history(dice: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """160 rows, then 400 changes: of two that go one is an extreme, as long as there is one."""
    live: dict[int, dict[str, Any]] = {}
    found: list[tuple[str, dict[str, Any]]] = []
    for change in range(560):
        key, value = change, item(dice, change)
        if change >= 160 and live and dice.random() < 0.6:
            rows = list(live.values())
            worth = [key for key in live if is_extreme(rows, key)] if dice.random() < 0.5 else []
            key = dice.choice(worth or list(live))
            value = None if dice.random() < 0.6 else item(dice, key)
        live = {other: row for other, row in live.items() if other != key} | ({} if value is None else {key: value})
        found.append(("orders", {"key": {"id": key}, "value": value}))
    return found


@pytest.mark.parametrize(
    ("names", "parts"),
    [(ALWAYS, THIRDS), pytest.param(tuple(QUESTIONS), 9, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_a_large_group_has_the_extremes_of_what_is_left(
    names: tuple[str, ...], parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(delta.TYPES, "items", COLUMNS)
    records = history(random.Random(SEED))
    rows = delta.folded(records)["orders"]
    expected = delta.answers({"items": rows}, {name: QUESTIONS[name] for name in names})
    steps: list[dict[str, Any]] = []
    size = -(-len(records) // parts)
    for part in range(parts):
        sent = [record for _, record in records[part * size : (part + 1) * size]]
        between = BETWEEN[part % THIRDS : part % THIRDS + 1]
        steps += [{"send": {"topic": "items", "rows": sent}}, *between]
    case = {
        "title": "one group",
        "sql": DECLARED + "".join("CREATE CHANGELOG {} {} AS {};\n".format(name, *QUESTIONS[name]) for name in names),
        "stores": {"s": "memory"},
        "steps": steps,
        "expect": [{"relation": name, "rows": json.loads(json.dumps(expected[name], default=str))} for name in names],
    }  # fmt: skip
    path = tmp_path / "generated.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(json.dumps(case, ensure_ascii=False), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
