"""Applications over random histories: every sink folded is what DuckDB says, over restarts and crashes of all sinks."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.testing.seeds import is_usual, seed
from tests.testing.test_delta_oracle import DECLARED, QUESTIONS, answers, folded, history, steps_of

pytestmark = [pytest.mark.cases, pytest.mark.slow]
ASKED = ("totals", "twice", "pairs", "with_or_without", "per_city")
VIRTUAL = """
  CREATE VIRTUAL CHANGELOG all_orders AS SELECT * FROM orders;
  CREATE VIRTUAL CHANGELOG all_customers AS SELECT * FROM customers;
"""


def test_every_sink_is_what_one_batch_gives(tmp_path: Path) -> None:
    records = history(random.Random(seed(20261121)))
    expected = {name: rows for name, rows in answers(folded(records)).items() if name in ASKED}
    assert not is_usual() or all(expected.values()), "every question has an answer"
    statements = []
    for name in ASKED:
        with_, select = QUESTIONS[name]
        inside = select.replace("FROM orders", "FROM all_orders").replace("JOIN customers", "JOIN all_customers")
        statements.append(f"CREATE CHANGELOG {name} {with_} AS {inside};")
    case = {
        "title": "an application over random histories",
        "sql": f"{DECLARED} BEGIN APPLICATION everything {VIRTUAL} {' '.join(statements)} END APPLICATION;",
        "stores": {"s": "memory"},
        "steps": steps_of(records),
        "expect": [{"relation": name, "rows": rows} for name, rows in expected.items()],
    }
    path = tmp_path / "generated.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
