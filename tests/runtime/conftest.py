"""Shared by the runtime's tests: a project folder, and slices that need no SQL front end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # for the helpers in tests.runtime.fakes, however pytest was started

from ds_dagster.project.load import SliceStatement
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding import changes, spec
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.status import Change
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, settings_in


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Query name → verdict on a changed definition; the front end and the classifier are not under test here."""
    said: dict[str, str] = {}

    def compare(job: object, query: object, settings: object) -> Change:
        name, relation = query.name, str(query.sink.name)  # type: ignore[attr-defined]
        if job is None:
            return Change(name, relation, "new", "it was never started")
        if job.fingerprint == query.fingerprint:  # type: ignore[attr-defined]
            return Change(name, relation, "unchanged", "the definitions are equal")
        return Change(name, relation, said.get(name, "needs_new_checkpoint"), "the rule")  # type: ignore[arg-type]

    monkeypatch.setattr(changes, "compare", compare)
    monkeypatch.setattr(spec, "slice_of", lambda project, query: (SliceStatement(query.name, "f.sql", 1, 1),))
    return said


@pytest.fixture
def control(settings: Settings, clock: FakeClock, verdicts: dict[str, str]) -> Iterator[Control]:
    opened = Control.open(settings, clock=clock, environment={})
    yield opened
    opened.journal.close()


@pytest.fixture
def living_engine(control: Control, clock: FakeClock) -> Iterator[Callable[[], None]]:
    """An engine that holds its lock and lease and says RUNNING; call it for a beat."""
    control.journal.create()
    lease = Lease.new(clock)
    lock = FileLock(control.places.python_lock)
    assert lock.acquire({"pid": lease.row.pid, "token": lease.row.token})
    lease.take(control.journal)
    lease.tell("RUNNING")

    def beat() -> None:
        with control.journal.write() as connection:
            lease.renew(connection)

    beat()
    yield beat
    lock.release()
