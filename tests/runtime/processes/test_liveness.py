"""Who lives: locks, start times and beats, against zombies, reused pids and clocks that jump."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ds_dagster.clock import SystemClock
from ds_dagster.errors import ExternalError
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import JVM_SECONDS, Engine
from ds_dagster.runtime.host import HostContext
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.launchers.local import LocalLauncher, launch
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.liveness import SILENT_SECONDS
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.processes.process import ProcessId, start_mark
from ds_dagster.runtime.status import EngineStatus
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, FakeHost, engine_says, project, query, until


def test_this_process_lives_and_others_with_its_pid_do_not() -> None:
    me = ProcessId.current()
    assert me.is_alive()
    assert not ProcessId(me.pid, "boot/1").is_alive()
    assert not ProcessId(me.pid, "").is_alive()


def test_a_reused_pid_is_never_signalled() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not ProcessId(child.pid, "another start").signal(signal.SIGKILL)
        assert child.poll() is None
    finally:
        child.communicate(b"\n")


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    identity = ProcessId(child.pid, start_mark(child.pid) or "gone already")
    with until() as tick:
        while identity.is_alive():
            tick()
    os.kill(child.pid, 0)  # the system still knows it
    child.wait()
    assert start_mark(child.pid) is None


def test_start_marks_from_a_table_of_processes(tmp_path: Path) -> None:
    for pid, state in ((1, "S"), (2, "Z")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a ) b) {state} " + " ".join(str(n) for n in range(4, 40)))
    assert start_mark(1, tmp_path) == "boot/22"
    assert start_mark(2, tmp_path) is None
    assert start_mark(3, tmp_path) is None


def test_a_lock_has_one_holder_and_dies_with_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    assert not locks.is_held(path)
    code = (
        "import sys; from pathlib import Path; from ds_dagster.runtime.processes.locks import FileLock;"
        "l = FileLock(Path(sys.argv[1])); print(l.acquire({'pid': 7}), flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "True\n"
    assert locks.is_held(path)
    assert locks.holder(path) == {"pid": 7}
    assert not FileLock(path).acquire({})
    child.kill()
    child.communicate()
    assert not locks.is_held(path)
    mine = FileLock(path)
    assert mine.acquire({"pid": 8})
    assert locks.is_held(path)
    assert mine.is_intact()
    path.unlink()
    assert not mine.is_intact()
    mine.release()


def test_threads_of_one_process_do_not_share_a_lock(tmp_path: Path) -> None:
    """The system would give it to each of them."""
    for attempt in range(50):
        ready = threading.Barrier(8)
        found = [FileLock(tmp_path / str(attempt)) for _ in range(8)]

        def take(lock: FileLock, ready: threading.Barrier = ready) -> bool:
            ready.wait()
            return lock.acquire({"pid": os.getpid()})

        with ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(take, found)) == 1
        for lock in found:
            lock.release()


def test_a_starter_that_was_not_the_first_waits_for_the_other_engine(settings: Settings) -> None:
    states = iter([EngineStatus("default", "GONE")] * 3)
    running = EngineStatus("default", "RUNNING", 7)
    launcher = LocalLauncher(settings, SystemClock(), [sys.executable, "-c", "import sys; sys.exit(1)"])
    started = launch(settings, launcher.command)
    started.wait()
    launcher._child = started
    assert launcher.ensure(lambda: next(states, running), 20) == running


def test_a_holders_text_that_is_half_written_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"pid": 1')
    assert locks.holder(tmp_path / "lock") == {}


def engine_state(control: Control) -> str:
    return control.engines()[0].state


def test_an_engine_that_beats_is_running(control: Control, living_engine: Callable[[], None]) -> None:
    assert engine_state(control) == "RUNNING"


def test_an_engine_whose_lock_is_free_is_gone_whatever_its_row_says(control: Control, clock: FakeClock) -> None:
    control.journal.create()
    Lease.new(clock).take(control.journal)
    assert engine_state(control) == "GONE"


def test_an_engine_that_holds_the_lock_without_the_lease_is_starting(control: Control, clock: FakeClock) -> None:
    control.journal.create()
    Lease.new(clock).take(control.journal)
    lock = FileLock(control.places.python_lock)
    assert lock.acquire({"pid": 1})
    with control.journal.write() as connection:
        connection.exec_driver_sql("DELETE FROM ds_engines")
    assert engine_state(control) == "STARTING"
    lock.release()


def test_silence_is_counted_on_the_readers_clock(
    control: Control, clock: FakeClock, living_engine: Callable[[], None]
) -> None:
    assert engine_state(control) == "RUNNING"
    clock.ticks += SILENT_SECONDS - 1
    assert engine_state(control) == "RUNNING"
    clock.ticks += 2
    assert engine_state(control) == "UNKNOWN"
    living_engine()
    assert engine_state(control) == "RUNNING"


@pytest.mark.parametrize("jump", [-90_000.0, 90_000.0])
def test_a_jump_of_the_wall_clock_is_no_silence(
    control: Control, clock: FakeClock, living_engine: Callable[[], None], jump: float
) -> None:
    clock.wall += jump
    clock.on_sleep = living_engine
    assert engine_state(control) == "RUNNING"


def test_a_first_look_finds_an_engine_that_has_been_silent_for_long(
    control: Control, clock: FakeClock, living_engine: Callable[[], None]
) -> None:
    clock.wall += 3600
    assert engine_state(control) == "UNKNOWN"
    assert engine_state(control) == "UNKNOWN"


def test_a_jvm_that_outlives_its_python_is_not_gone(control: Control, tmp_path: Path) -> None:
    path = control.places.jvm_lock
    lock = FileLock(path)
    assert lock.acquire({})
    assert engine_state(control) == "STOPPING"
    lock.release()
    assert engine_state(control) == "GONE"


def test_what_a_silent_engine_said_of_a_job_is_unknown(
    control: Control, settings: Settings, clock: FakeClock, living_engine: Callable[[], None]
) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    engine_says(control, StatusRow("a", "RUNNING", generation=1, checkpoint_version=1, batch=3))
    assert control.status("a").state == "RUNNING"
    clock.ticks += SILENT_SECONDS + 1
    status = control.status("a")
    assert (status.state, status.condition, status.batch) == ("UNKNOWN", "ENGINE_SILENT", 3)
    assert f"process {os.getpid()}" in status.message
    assert f"for {int(SILENT_SECONDS) + 1} s" in status.message


def test_an_engine_does_not_begin_beside_the_jvm_of_another(
    control: Control, settings: Settings, clock: FakeClock
) -> None:
    hosts: list[HostContext] = []

    def make_host(context: HostContext) -> FakeHost:
        hosts.append(context)
        return FakeHost()

    jvm = FileLock(control.places.jvm_lock)
    assert jvm.acquire({})
    began = clock.monotonic()
    try:
        with pytest.raises(ExternalError, match="ENGINE_JVM_LIVES") as refused:
            Engine(settings, clock, make_host, Redactor()).run()
    finally:
        jvm.release()
    assert JVM_SECONDS <= clock.monotonic() - began < JVM_SECONDS + 1
    assert str(control.places.jvm_lock) in refused.value.message
    assert not hosts, "no Spark is started"
    assert not locks.is_held(control.places.python_lock), "the next one may try"
