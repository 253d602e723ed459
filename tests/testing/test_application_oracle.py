"""Applications over random histories: every sink folded is what DuckDB says, over restarts and crashes of all sinks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.testing.seeds import is_usual, seed
from tests.testing.test_delta_oracle import DECLARED, NULLABLE, QUESTIONS, answers, folded, history, steps_of

pytestmark = [pytest.mark.cases, pytest.mark.slow]
ASKED = ("totals", "twice", "pairs", "with_or_without", "per_city")
VIRTUAL = """
  CREATE VIRTUAL CHANGELOG all_orders AS SELECT * FROM orders;
  CREATE VIRTUAL CHANGELOG all_customers AS SELECT * FROM customers;
"""
STATEFUL = {
    "sold": "SELECT o.id AS id, o.amount AS amount, c.city AS city, c.age AS age FROM orders o "
    "LEFT JOIN customers c ON o.customer = c.name",
    "cities": "SELECT city, COUNT(*) AS n, SUM(amount) AS s FROM sold GROUP BY city",
}
"""Virtual changelogs that keep state, the second over the first; all are read more than once."""
SHARED = {
    "sold_copy": ("", "SELECT id, amount, city FROM sold"),
    "sold_large": ("", "SELECT id, city FROM sold WHERE amount > 9"),
    "per_age": (NULLABLE, "SELECT age, COUNT(*) AS n, SUM(amount) AS s FROM sold GROUP BY age"),
    "cities_copy": (NULLABLE, "SELECT city, n, s FROM cities"),
    "by_count": ("", "SELECT n, COUNT(*) AS cities, MAX(s) AS most FROM cities GROUP BY n"),
}


def test_every_sink_is_what_one_batch_gives(tmp_path: Path) -> None:
    records = history(random.Random(seed(20261121)))
    expected = {name: rows for name, rows in answers(folded(records)).items() if name in ASKED}
    assert not is_usual() or all(expected.values()), "every question has an answer"
    statements = []
    for name in ASKED:
        with_, select = QUESTIONS[name]
        inside = select.replace("FROM orders", "FROM all_orders").replace("JOIN customers", "JOIN all_customers")
        statements.append(f"CREATE CHANGELOG {name} {with_} AS {inside};")
    run([VIRTUAL, *statements], records, expected, tmp_path)


def test_state_that_sinks_share_is_what_one_batch_gives(tmp_path: Path) -> None:
    records = history(random.Random(seed(20261122)))
    expected = answers(folded(records), SHARED, STATEFUL)
    assert not is_usual() or all(expected.values()), "every question has an answer"
    statements = [f"CREATE VIRTUAL CHANGELOG {name} AS {select};" for name, select in STATEFUL.items()]
    statements += [f"CREATE CHANGELOG {name} {with_} AS {select};" for name, (with_, select) in SHARED.items()]
    run(statements, records, expected, tmp_path)


def run(
    statements: list[str],
    records: list[tuple[str, dict[str, Any]]],
    expected: dict[str, list[dict[str, Any]]],
    folder: Path,
) -> None:
    """An application of these statements gives what is expected."""
    case = {
        "title": "an application over random histories",
        "sql": f"{DECLARED} BEGIN APPLICATION everything {' '.join(statements)} END APPLICATION;",
        "stores": {"s": "memory"},
        "steps": steps_of(records),
        "expect": [{"relation": name, "rows": rows} for name, rows in expected.items()],
    }
    path = folder / "generated.case.yaml"
    (folder / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=folder)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
