"""LISTAGG, FIRST_VALUE, LAST_VALUE and APPROX_COUNT_DISTINCT over random histories, against a plain model of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.testing.seeds import BETWEEN, THIRDS, seed

pytestmark = pytest.mark.cases

SEED = seed(20261122)
ROWS = "id INTEGER, grp VARCHAR, word VARCHAR, amount INTEGER, at BIGINT"
CALLS = """grp, LISTAGG(word) AS words, LISTAGG(DISTINCT word, '|') AS kinds, FIRST_VALUE(word) AS first_,
  LAST_VALUE(amount) AS last_, FIRST_VALUE(amount) FILTER (WHERE amount > 3) AS big,
  APPROX_COUNT_DISTINCT(amount) AS n"""
SQL = f"""
  CREATE CHANGELOG items ({ROWS}, PRIMARY KEY(id)) WITH ('topic' = 'items', 'value.format' = 'json',
    'key.format' = 'json', 'key.type' = 'STRUCT<id INTEGER>', 'timestamp' = 'at');
  CREATE STREAM events ({ROWS}) WITH ('topic' = 'events', 'value.format' = 'json', 'timestamp' = 'at');
  CREATE CHANGELOG of_items AS SELECT {CALLS} FROM items GROUP BY grp;
  CREATE CHANGELOG of_events AS SELECT {CALLS} FROM events GROUP BY grp;
  CREATE CHANGELOG of_events_kept AS SELECT {CALLS} FROM events GROUP BY grp QUERY WITH ('state.ttl.millis' = 86400000);
"""


def row(dice: random.Random, key: int) -> dict[str, Any]:
    """Times are out of order and often equal."""
    return {
        "id": key,
        "grp": dice.choice("xyz"),
        "word": dice.choice([None, "a", "B", "ä", "\U0001f600", "aa"]),
        "amount": dice.choice([None, *range(6)]),
        "at": 1000 * dice.randrange(8),
    }


def histories(dice: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """120 changes of 15 keys, and 120 events."""
    changes = []
    for _ in range(120):
        key = dice.randrange(15)
        changes.append({"key": {"id": key}, "value": None if dice.random() < 0.3 else row(dice, key)})
    return changes, [row(dice, key) for key in range(120)]


def folded(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for position, change in enumerate(changes):
        found.pop(change["key"]["id"], None)
        if change["value"] is not None:
            found[change["key"]["id"]] = change["value"] | {"position": position}
    return list(found.values())


def model(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answers = []
    for group in sorted({row["grp"] for row in rows}):
        inside = sorted((r for r in rows if r["grp"] == group), key=lambda r: (r["at"], r["position"]))
        words = [r["word"] for r in inside if r["word"] is not None]
        amounts = [r["amount"] for r in inside if r["amount"] is not None]
        answers.append(
            {
                "grp": group,
                "words": ",".join(sorted(words)) if words else None,
                "kinds": "|".join(sorted(set(words))) if words else None,
                "first_": next(iter(words), None),
                "last_": next(reversed(amounts), None),
                "big": next((amount for amount in amounts if amount > 3), None),
                "n": len(set(amounts)),
            }
        )
    return answers


def test_they_are_what_a_model_says_over_restarts_and_crashes(tmp_path: Path) -> None:
    changes, events = histories(random.Random(SEED))
    steps: list[dict[str, Any]] = []
    size = 120 // THIRDS
    for part in range(THIRDS):
        changed, sent = (rows[part * size : (part + 1) * size] for rows in (changes, events))
        steps.append({"send": {"topic": "items", "rows": changed}})
        steps.append({"send": {"topic": "events", "rows": [{"value": event} for event in sent]}})
        steps += BETWEEN[part : part + 1]
    of_events = model([event | {"position": position} for position, event in enumerate(events)])
    expected = {"of_items": model(folded(changes)), "of_events": of_events, "of_events_kept": of_events}
    case = {
        "title": "random histories",
        "sql": SQL,
        "stores": {"s": "memory"},
        "steps": steps,
        "expect": [{"relation": name, "rows": rows} for name, rows in expected.items()],
    }
    path = tmp_path / "generated.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(json.dumps(case, ensure_ascii=False), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
