"""Engines as real processes: two at once, killed ones, ones whose state folder is taken away."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from ds_dagster.clock import SystemClock
from ds_dagster.errors import ExternalError, UserError
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import EXIT_RESTART, stop_engine
from ds_dagster.runtime.journals import schema
from ds_dagster.runtime.launchers.external import ExternalLauncher
from ds_dagster.runtime.launchers.local import LocalLauncher
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.status import EngineState, EngineStatus
from ds_dagster.settings import Settings
from tests.runtime.fakes import as_schema_4, project, query, until
from tests.runtime.nursery import Child, Nursery

pytestmark = pytest.mark.servers  # engines are processes: seconds each, not for the fast tier
PROGRAM = Path(__file__).with_name("engine_process.py")
Start = Callable[..., Child]


@pytest.fixture
def control(settings: Settings, verdicts: dict[str, str]) -> Iterator[Control]:
    launcher = LocalLauncher(settings, SystemClock(), [sys.executable, str(PROGRAM), str(settings.root)])
    opened = Control.open(settings, environment={}, launcher=launcher)
    yield opened
    stop_engine(settings, 20, kill=True)
    opened.journal.close()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def start(settings: Settings, nursery: Nursery) -> Iterator[Start]:
    """Start an engine that is not detached; all are killed at the end."""
    children: list[Child] = []

    def run(*arguments: str) -> Child:
        printed = settings.root / f"engine-{len(children)}.txt"
        children.append(nursery.start([str(settings.root), *arguments], printed))
        return children[-1]

    yield run
    for child in children:
        child.kill()
        child.wait()


def wait_for(control: Control, state: str) -> None:
    with until() as tick:
        while control.engines()[0].state != state:
            tick()


def want(control: Control, settings: Settings, name: str = "a") -> dict[str, int]:
    ensured = control.ensure(project(settings, query(name, "t")), [name])
    return {one.name: one.generation for one in ensured}


def test_it_runs_what_is_wanted_and_ends_on_sigterm(control: Control, settings: Settings, start: Start) -> None:
    child = start()
    generations = want(control, settings)
    assert control.wait(["a"], generations, 20)[0].state == "RUNNING"
    child.send_signal(signal.SIGTERM)
    assert child.wait(20) == 0
    assert control.engines()[0].state == "GONE"
    assert control.status("a").desired == "RUNNING"
    assert control.transitions("a")[0].target == "ABSENT"


def test_an_engine_starts_on_a_journal_of_an_older_version(control: Control, settings: Settings, start: Start) -> None:
    """Nobody but an engine migrates, so the starter may not refuse; everybody else says what to type."""
    generations = want(control, settings)
    as_schema_4(control.journal)
    later = Control.open(settings, environment={}, launcher=control.launcher)
    assert later.engines()[0].state == "GONE"
    with pytest.raises(UserError, match="ds engine start") as refused:
        later.statuses()
    assert refused.value.condition == "JOURNAL_OLDER"
    assert later.ensure_engine(20).state == "RUNNING"
    assert later.wait(["a"], generations, 20)[0].state == "RUNNING"


def test_an_engine_of_an_older_version_is_seen_and_has_to_be_stopped(
    control: Control, settings: Settings, start: Start
) -> None:
    want(control, settings)
    start()
    wait_for(control, "RUNNING")
    with control.journal.write() as connection:
        connection.execute(update(schema.META).where(schema.META.c.name == "schema").values(value="4"))
    later = Control.open(settings, environment={}, launcher=control.launcher)
    assert later.engines()[0].state == "RUNNING"
    with pytest.raises(UserError, match="ds engine stop") as refused:
        later.ensure_engine(20)
    assert refused.value.condition == "JOURNAL_OLDER"
    assert stop_engine(settings, 20)
    assert later.engines()[0].state == "GONE"


def test_a_second_engine_ends_with_a_clear_condition_and_harms_nothing(
    control: Control, settings: Settings, start: Start
) -> None:
    first = start()
    assert control.wait(["a"], want(control, settings), 20)[0].state == "RUNNING"
    second = start()
    said = second.output(timeout=20)
    assert second.returncode == 1
    assert "ENGINE_ALREADY_RUNNING" in said
    assert f"process {first.pid}" in said
    assert control.engines()[0].pid == first.pid
    assert control.status("a").state == "RUNNING"


def test_two_engines_started_at_once_leave_one(control: Control, start: Start) -> None:
    children = [start(), start(), start()]
    wait_for(control, "RUNNING")
    with until() as tick:
        while sum(child.poll() is None for child in children) > 1:
            tick()
    assert control.engines()[0].pid in [child.pid for child in children if child.poll() is None]


def test_a_killed_engine_is_seen_at_once_and_the_next_one_goes_on(
    control: Control, settings: Settings, start: Start
) -> None:
    first = start()
    assert control.wait(["a"], want(control, settings), 20)[0].state == "RUNNING"
    before = control.status("a").incarnation
    first.kill()
    first.wait()
    status = control.status("a")
    assert (status.state, status.condition) == ("UNKNOWN", "ENGINE_NOT_RUNNING")
    start()
    with until() as tick:
        while (status := control.status("a")).state != "RUNNING" or status.incarnation == before:
            tick()


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_no_answer_is_ever_the_word_of_a_killed_engine(
    control: Control, settings: Settings, start: Start, rounds: int
) -> None:
    """Killed in a loop, with a JVM that outlives it: whoever waits is answered by an incarnation of the new engine."""
    engine = start("0.3")
    assert control.wait(["a"], want(control, settings), 20)[0].state == "RUNNING"
    for _ in range(rounds):
        dead = control.status("a").incarnation
        engine.kill()
        engine.wait()
        engine = start("0.3")
        reader = Control.open(settings, environment={}, launcher=control.launcher)
        (status,) = reader.wait(["a"], want(control, settings), 20)
        assert (status.state, status.incarnation != dead) == ("RUNNING", True)
        assert reader.engines()[0].pid == engine.pid
        reader.journal.close()


def test_an_engine_waits_for_the_jvm_of_a_killed_one(control: Control, settings: Settings, start: Start) -> None:
    first = start("1.5")
    assert control.wait(["a"], want(control, settings), 20)[0].state == "RUNNING"
    first.kill()
    first.wait()
    assert control.engines()[0].state == "STOPPING"
    second = start()
    with until() as tick:
        while locks.is_held(control.places.jvm_lock):
            assert control.status("a").incarnation
            assert len([t for t in control.transitions("a") if t.target == "STARTING"]) == 1
            tick()
    wait_for(control, "RUNNING")
    assert second.poll() is None


def test_a_stopped_process_is_silent_not_gone_and_never_doubled(
    control: Control, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start()
    wait_for(control, "RUNNING")
    monkeypatch.setattr("ds_dagster.runtime.processes.liveness.SILENT_SECONDS", 1.0)
    child.send_signal(signal.SIGSTOP)
    wait_for(control, "UNKNOWN")
    assert control.ensure_engine(1.0).state == "UNKNOWN"
    assert control.engines()[0].pid == child.pid
    child.send_signal(signal.SIGCONT)
    wait_for(control, "RUNNING")


def test_an_engine_whose_state_folder_is_taken_away_ends(control: Control, settings: Settings, start: Start) -> None:
    child = start()
    wait_for(control, "RUNNING")
    shutil.rmtree(settings.state)
    said = child.output(timeout=20)
    assert child.returncode == EXIT_RESTART
    assert "ENGINE_STATE_GONE" in said


def test_an_unusable_journal_keeps_an_engine_from_beginning(settings: Settings, start: Start) -> None:
    settings.state.mkdir()
    (settings.state / "journal.db").write_bytes(os.urandom(4096))
    child = start()
    said = child.output(timeout=20)
    assert child.returncode == 1
    assert "JOURNAL_CORRUPT" in said


def test_a_journal_that_is_locked_for_a_while_is_borne(control: Control, settings: Settings, start: Start) -> None:
    import sqlite3

    child = start()
    assert control.wait(["a"], want(control, settings), 20)[0].state == "RUNNING"
    other = sqlite3.connect(str(control.journal.local), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with until(30) as tick:
        while "JOURNAL_LOCKED" not in control.places.engine_log.read_text():
            tick()
    other.execute("COMMIT")
    other.close()
    with until() as tick:
        while "works again" not in control.places.engine_log.read_text():
            tick()
    assert child.poll() is None
    assert control.status("a").state == "RUNNING"


# -- launchers -------------------------------------------------------------------------------------------------------


def test_the_local_launcher_starts_one_detached_engine(control: Control, settings: Settings) -> None:
    status = control.ensure_engine(20)
    assert status.state == "RUNNING"
    assert status.pid is not None
    assert os.getsid(status.pid) == status.pid, "a session of its own"
    assert control.ensure_engine(20).pid == status.pid
    environment = Path(f"/proc/{status.pid}/environ")
    if environment.exists():
        names = {entry.split(b"=")[0] for entry in environment.read_bytes().split(b"\0") if entry}
        assert b"PATH" in names
        assert not {name for name in names if name.startswith(b"PYTEST")}
    assert stop_engine(settings, 20)
    assert control.engines()[0].state == "GONE"
    assert not stop_engine(settings, 20)


def test_an_engine_that_dies_while_starting_is_reported_with_its_words(settings: Settings) -> None:
    command = [sys.executable, "-c", "import sys; print('no Java here'); sys.exit(3)"]
    control = Control.open(settings, environment={}, launcher=LocalLauncher(settings, SystemClock(), command))
    with pytest.raises(ExternalError, match="no Java here") as raised:
        control.ensure_engine(20)
    assert raised.value.condition == "ENGINE_START_FAILED"
    assert raised.value.params["code"] == 3


def test_the_end_of_an_earlier_engine_is_not_that_of_a_start_by_another_process(settings: Settings) -> None:
    launcher = LocalLauncher(settings, SystemClock(), [sys.executable, "-c", "import time; time.sleep(600)"])
    seen: list[EngineState] = ["GONE", "GONE", "RUNNING"]
    status = launcher.ensure(lambda: EngineStatus("", seen.pop(0)), 20)
    assert status.state == "RUNNING" and launcher._child is not None
    launcher._child.kill()
    launcher._child.wait(20)
    other = FileLock(Places.of(settings).start_lock)
    assert other.acquire({"pid": 1})
    try:
        seen += ["GONE", "GONE", "STARTING", "RUNNING"]
        status = launcher.ensure(lambda: EngineStatus("", seen.pop(0)), 20)
    finally:
        other.release()
    assert status.state == "RUNNING"


def test_the_external_launcher_says_that_nobody_answers(settings: Settings, start: Start) -> None:
    control = Control.open(settings, environment={}, launcher=ExternalLauncher(SystemClock()))
    with pytest.raises(ExternalError, match="ENGINE_NOT_ANSWERING"):
        control.ensure_engine(0.3)
    start()
    assert control.ensure_engine(20).state in ("RUNNING", "STARTING")
