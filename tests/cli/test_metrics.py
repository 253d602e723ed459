"""Engines and jobs in Prometheus' words, read back by Prometheus' own parser, and whether all is well over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ds_dagster.cli.metrics import Look, application, exposition
from ds_dagster.errors import error
from ds_dagster.figures import FIGURES
from ds_dagster.runtime.status import EngineStatus, JobStatus

ROOT = Path(__file__).parents[2]
ENGINES = (EngineStatus("default", "RUNNING"), EngineStatus("pool", "GONE"))
CLICKS = JobStatus(
    "clicks", "j1", "db.public.clicks", "RUNNING", "RUNNING",
    batch=7, rows=400, rows_written=390, lag_seconds=1.5, watermark=1_700_000_000.25,
    violations={"positive": {"rows": 3, "where": "0:17"}}, unknown_columns=2,
)  # fmt: skip
STAGED = JobStatus("clicks@2", "j2", "db.public.clicks", "BACKING_OFF", "RUNNING", query="clicks", version=2)


def samples(look: Look) -> dict[tuple[str, ...], float]:
    """(Name, values of its labels by their names) → number."""
    families = text_string_to_metric_families(exposition(look).decode())
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def answered(look: Callable[[], Look], path: str) -> tuple[str, str]:
    """Status and body of one request."""
    heads: list[tuple[Any, ...]] = []
    answer: Any = application(look)
    body = b"".join(answer({"PATH_INFO": path}, lambda *head: heads.append(head)))
    return heads[0][0][:3], body.decode()


def test_every_figure_has_a_metric() -> None:
    families = {f.name: f for f in text_string_to_metric_families(exposition(Look(ENGINES, (CLICKS,))).decode())}
    for figure in FIGURES.values():
        name = f"ds_query_{figure.name}"
        family = families.get(name) or families[f"{name}_timestamp_seconds"]
        assert family.documentation == figure.meaning
        assert family.type == ("counter" if figure.over_batches == "sum" else "gauge")


def test_numbers_carry_query_and_version() -> None:
    numbers = samples(Look(ENGINES, (CLICKS, STAGED)))
    assert (numbers["ds_engine_up", "default"], numbers["ds_engine_up", "pool"]) == (1, 0)
    assert numbers["ds_query_rows_total", "clicks", "1"] == 400
    assert numbers["ds_query_lag_seconds", "clicks", "1"] == 1.5
    assert numbers["ds_query_watermark_timestamp_seconds", "clicks", "1"] == 1_700_000_000.25
    assert numbers["ds_query_violations_total", "positive", "clicks", "1"] == 3
    assert numbers["ds_query_state", "clicks", "BACKING_OFF", "2"] == 1
    assert (numbers["ds_query_down", "clicks", "1"], numbers["ds_query_down", "clicks", "2"]) == (0, 1)
    assert ("ds_query_lag_seconds", "clicks", "2") not in numbers, "a figure that is not known has no number"


def test_health_is_that_of_the_queries_that_should_run() -> None:
    assert answered(lambda: Look(ENGINES, (CLICKS,)), "/health") == ("200", "ok\n")
    assert answered(lambda: Look(ENGINES, (CLICKS, STAGED)), "/health") == ("503", "down: clicks@2\n")
    assert answered(lambda: Look(ENGINES, (CLICKS,)), "/metrics")[0] == "200"
    assert answered(lambda: Look(ENGINES, (CLICKS,)), "/")[0] == "404"


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_a_journal_that_cannot_be_read_is_not_healthy(path: str) -> None:
    def look() -> Look:
        raise error("JOURNAL_LOCKED", journal="journal.db", seconds=30)

    status, body = answered(look, path)
    assert status == "503"
    assert "journal.db" in body


def test_the_alert_rules_of_the_page_name_metrics() -> None:
    rules = (ROOT / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8").split("```yaml")[1].split("```")[0]
    expressions = " ".join(str(rule["expr"]) for rule in yaml.safe_load(rules)["groups"][0]["rules"])
    names = set(re.findall(r"\bds_\w+", expressions))
    text = exposition(Look(ENGINES, (CLICKS,))).decode()
    assert names
    assert all(f"\n{name}{{" in text for name in names), names
