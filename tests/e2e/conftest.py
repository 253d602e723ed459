"""What the end-to-end tests share: one project on real servers with one engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # for the helpers in tests.e2e, however pytest was started

from ds_dagster.errors import DsError
from tests.e2e.feeding import SETTINGS, WITHOUT_CODE, House

MADE: list[House] = []
"""The one of this process, once a test has asked for it."""


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The example project and the proofs' own statements, servers up, fed and read by tests of pipelines."""
    proofs = {path.name: path.read_text() for path in (Path(__file__).parent / "sql").glob("*.sql")}
    kept = os.environ.get("DS_TEST_HOUSE")
    """A folder that outlives the run, servers and engine with it: for work on these tests."""
    root = Path(kept) if kept else tmp_path_factory.mktemp("house")
    made = House(root, proofs, settings=SETTINGS + WITHOUT_CODE)
    MADE.append(made)
    yield made
    if not kept:
        made.close()


LINES = 60
"""Of the engine's log, with a test that failed."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """What the jobs and the engine had to say when a test failed: nothing else is left of them."""
    report = yield
    for house in MADE if report.failed else ():
        about = (("Jobs", jobs_of), ("Their history", history_of), ("The end of engine.log", log_of))
        report.sections += [(title, text(house)) for title, text in about]
    return report


def jobs_of(house: House) -> str:
    try:
        rows = [
            f"{s.name} v{s.version} {s.role} {s.desired} {s.state} {s.condition} {s.message} {s.detail[-500:]}"
            for s in house.control.statuses()
        ]
    except DsError as problem:
        return f"the journal does not answer: {problem}"
    return "\n".join(rows)


def history_of(house: House) -> str:
    """The newest entries of each job that is not at rest."""
    try:
        entries = [
            f"{entry.name} {entry.at:.1f} {entry.kind} {entry.source} → {entry.target} {entry.reason} {entry.message}"
            for status in house.control.statuses()
            if status.desired == "RUNNING"
            for entry in house.control.transitions(status.name, 20)
        ]
    except DsError as problem:
        return f"the journal does not answer: {problem}"
    return "\n".join(entries)


def log_of(house: House) -> str:
    log = house.state / "logs" / "engine.log"
    return "\n".join(log.read_text(errors="replace").splitlines()[-LINES:]) if log.is_file() else "there is no log"


@pytest.fixture(scope="module", autouse=True)
def quiet_afterwards() -> Iterator[None]:
    """Jobs of a file stop behind it: each that waits for records takes one and a half percent of a processor."""
    yield
    for house in MADE:
        house.control.stop([status.name for status in house.control.statuses() if status.desired == "RUNNING"], "tests")
