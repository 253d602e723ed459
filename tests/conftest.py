"""What every test gets: a mark that says what it costs, from its folder where it names none itself."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from ds_dagster.testing.short_lived import JAVA_OPTIONS
from tests import driven

os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
"""Of the drivers that tests and their child processes start; detached engines have it from ``tests.engines``."""
os.environ.setdefault("DS_KAFKA_OPTIONS", "-XX:TieredStopAtLevel=1")
"""Of the brokers: they start in half of the processor time."""

COSTS = ("spark", "servers", "cases", "conformance", "e2e", "browser", "slow")
FOLDERS = {"spark": "spark", "conformance": "conformance", "e2e": "e2e", "browser": "browser"}
"""Folder below tests/ → mark of every test in it."""
ONE_FOLDER = ("conformance", "e2e", "browser")
"""Marks whose tier looks for tests in the folder of that name alone (scripts/tiers.py)."""


def pytest_configure(config: pytest.Config) -> None:
    """Thousands of tests and syntax trees stay: with Python's own thresholds the cycle collector takes a tenth of the
    unit tier's time to look at them. Where Spark runs, Java's memory waits for what is collected here."""
    if config.getoption("markexpr") == "unit":
        gc.set_threshold(100_000, 50, 100)


@pytest.fixture(autouse=True)
def _no_checkpoints() -> None:
    driven.forget()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        below = item.path.relative_to(root).parts if item.path.is_relative_to(root) else ()
        if item.path.name.endswith(".case.yaml"):
            item.add_marker("cases")
        elif below and below[0] in FOLDERS:
            item.add_marker(FOLDERS[below[0]])
        strays = [mark for mark in ONE_FOLDER if item.get_closest_marker(mark) and mark not in below]
        if strays and not item.get_closest_marker("slow"):
            raise pytest.UsageError(f"{item.nodeid} is marked {strays[0]} and is not below tests/{strays[0]}")
        if not any(item.get_closest_marker(cost) for cost in COSTS):
            item.add_marker("unit")
