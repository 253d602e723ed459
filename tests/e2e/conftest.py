"""What the end-to-end tests share: one project on real servers with one engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # for the helpers in tests.e2e, however pytest was started

from tests.e2e.feeding import House

MADE: list[House] = []
"""The one of this process, once a test has asked for it."""


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The example project and the proofs' own statements, servers up, fed and read by tests of pipelines."""
    proofs = {path.name: path.read_text() for path in (Path(__file__).parent / "sql").glob("*.sql")}
    kept = os.environ.get("DS_TEST_HOUSE")
    """A folder that outlives the run, servers and engine with it: for work on these tests."""
    root = Path(kept) if kept else tmp_path_factory.mktemp("house")
    made = House(root, proofs)
    MADE.append(made)
    yield made
    if not kept:
        made.close()


@pytest.fixture(scope="module", autouse=True)
def quiet_afterwards() -> Iterator[None]:
    """Jobs of a file stop behind it: each that waits for records takes one and a half percent of a processor."""
    yield
    for house in MADE:
        house.control.stop([status.name for status in house.control.statuses() if status.desired == "RUNNING"], "tests")
