"""A status is a fact only while the one who wrote it lives: two engines, and what readers believe in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.errors import UserError
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import Engine
from ds_dagster.runtime.host import Host, HostContext
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.journals.schema import STEP
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.liveness import SILENT_SECONDS
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.status import ended_with_engine
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, as_schema_4, engine_says, project, query


def _no_host(_: HostContext) -> Host:
    raise AssertionError("nothing is hosted here")


RUNS = StatusRow("a", "RUNNING", generation=1, checkpoint_version=1, batch=3)


class Engines:
    """Engines of one project, one after the other; none of them says goodbye."""

    def __init__(self, control: Control, clock: FakeClock) -> None:
        self.control, self.clock = control, clock
        self.lock = FileLock(control.places.python_lock)

    def hold_lock(self) -> Lease:
        """A new process holds the lock of a killed one."""
        self.lock.release()
        lease = Lease.new(self.clock)
        assert self.lock.acquire({"pid": 1, "token": lease.row.token})
        return lease

    def begin(self) -> Lease:
        """It has the lease too, and beats."""
        lease = self.hold_lock()
        lease.take(self.control.journal)
        lease.tell("RUNNING")
        with self.control.journal.write() as connection:
            lease.renew(connection)
        return lease


@pytest.fixture
def engines(control: Control, clock: FakeClock, settings: Settings) -> Iterator[Engines]:
    control.ensure(project(settings, query("a", "t")), ["a"])
    made = Engines(control, clock)
    yield made
    made.lock.release()


def believed(control: Control) -> tuple[str, str]:
    status = control.status("a")
    return status.state, status.condition


@pytest.mark.parametrize("state", ["STARTING", "RUNNING", "STOPPING", "BACKING_OFF"])
def test_another_engines_word_about_a_query_is_unknown(control: Control, engines: Engines, state: str) -> None:
    engines.begin()
    engine_says(control, StatusRow("a", state, generation=1))  # type: ignore[arg-type]
    assert believed(control) == (state, "")
    engines.begin()
    assert believed(control) == ("UNKNOWN", "ENGINE_TAKES_OVER")


@pytest.mark.parametrize("state", ["FAILED", "STOPPED", "FINISHED"])
def test_what_has_ended_stays_true(control: Control, engines: Engines, state: str) -> None:
    engines.begin()
    engine_says(control, StatusRow("a", state, generation=1))  # type: ignore[arg-type]
    engines.begin()
    assert believed(control) == (state, "")


def test_a_new_process_with_the_lock_and_no_lease_yet_confirms_nothing(control: Control, engines: Engines) -> None:
    engines.begin()
    engine_says(control, RUNS)
    engines.hold_lock()
    with control.journal.write() as connection:
        connection.exec_driver_sql("DELETE FROM ds_engines")
    assert believed(control) == ("UNKNOWN", "ENGINE_TAKES_OVER")


def test_a_jvm_that_outlives_its_python_confirms_nothing(control: Control, engines: Engines) -> None:
    engines.begin()
    engine_says(control, RUNS)
    jvm = FileLock(control.places.jvm_lock)
    assert jvm.acquire({})
    engines.lock.release()
    assert believed(control) == ("UNKNOWN", "ENGINE_NOT_RUNNING")
    jvm.release()


def test_nobody_is_answered_by_the_word_of_a_dead_engine(
    control: Control, engines: Engines, clock: FakeClock, settings: Settings
) -> None:
    engines.begin()
    engine_says(control, RUNS)
    engines.begin()
    (ensured,) = control.ensure(project(settings, query("a", "t")), ["a"])
    assert ensured.outcome == "adopted"
    began = clock.monotonic()
    (status,) = control.wait(["a"], {"a": ensured.generation}, 5.0)
    assert (status.state, clock.monotonic() - began >= 5.0) == ("UNKNOWN", True)
    engine_says(control, RUNS)
    (status,) = control.wait(["a"], {"a": ensured.generation}, 5.0)
    assert status.state == "RUNNING"


def test_a_step_is_believed_while_it_holds_its_run(control: Control, clock: FakeClock, settings: Settings) -> None:
    loaded = project(settings, query("load", "t", refresh="incremental"))
    request = control.request_run(loaded, "load")
    with control.journal.write() as connection:
        row = rows.request(connection, request)
        assert row is not None
        held = {"state": "STEP", "waiting_since": clock.now() + 60.0}
        rows.save_requests(connection, [replace(row, **held)])  # type: ignore[arg-type]
        rows.save_statuses(connection, [StatusRow("load", "RUNNING", generation=1)], writer=STEP)
    assert control.status("load").state == "RUNNING"
    clock.advance(61.0)
    assert control.status("load").state == "UNKNOWN"


def test_readers_do_not_take_each_other_for_a_holder(tmp_path: Path) -> None:
    """Each looks by taking the lock for a moment. The system tells processes apart, not threads."""
    path = tmp_path / "lock"
    path.touch()
    code = (
        "import sys; from pathlib import Path; from ds_dagster.runtime.processes.locks import is_held;"
        "print(sum(is_held(Path(sys.argv[1])) for _ in range(20_000)))"
    )
    readers = [subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) for _ in range(2)]
    assert [int(reader.communicate()[0]) for reader in readers] == [0, 0]


def test_the_text_of_a_held_lock_is_never_that_of_a_dead_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever a reader can find the lock held, the text is the new holder's already."""
    path = tmp_path / "lock"
    path.write_text('{"token": "dead"}')
    seen: list[object] = []
    taken = locks._try

    def look_first(descriptor: int, kind: int, part: tuple[int, int]) -> bool:
        if part == locks._LOOKED_AT and kind == locks.fcntl.LOCK_EX:
            seen.append(locks.holder(path))
        return taken(descriptor, kind, part)

    monkeypatch.setattr(locks, "_try", look_first)
    lock = FileLock(path)
    assert lock.acquire({"token": "new"})
    assert seen == [{"token": "new"}]
    lock.release()


def test_a_job_that_ended_with_its_engine_was_not_never_started(control: Control, engines: Engines) -> None:
    engines.begin()
    engine_says(control, StatusRow("a", "ABSENT", generation=1, incarnation="i", batch=3))
    engines.lock.release()
    status = control.status("a")
    assert (status.condition, ended_with_engine(status)) == ("ENGINE_STOPPED", True)
    engine_says(control, StatusRow("a", "ABSENT"))
    status = control.status("a")
    assert (status.condition, ended_with_engine(status)) == ("ENGINE_NOT_RUNNING", False)


@pytest.mark.parametrize(
    ("records", "seconds", "shown"), [(4, 10.0, (4, 10.0)), (0, 0.0, (None, None)), (None, None, (None, None))]
)
def test_lag_of_a_job_that_does_not_run_grows_and_is_never_nothing(
    control: Control,
    engines: Engines,
    clock: FakeClock,
    records: int | None,
    seconds: float | None,
    shown: tuple[int | None, float | None],
) -> None:
    engines.begin()
    failed = clock.now()
    row = StatusRow("a", "FAILED", generation=1, beat=failed, lag_records=records, lag_seconds=seconds)
    engine_says(control, row)
    clock.advance(30.0)
    status = control.status("a")
    older = clock.now() - failed
    assert older >= 30.0
    assert (status.lag_records, status.lag_seconds and round(status.lag_seconds - older, 6)) == shown


def test_no_journal_is_migrated_under_an_engine_on_another_machine(
    control: Control, engines: Engines, clock: FakeClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its locks are not here to be seen, its beats are."""
    engines.begin()
    as_schema_4(control.journal)
    monkeypatch.setattr(rows, "is_on_server", lambda _: True)
    journal, engine = Journal.open(settings, {}), Engine(settings, clock, _no_host, Redactor())
    with pytest.raises(UserError, match="ENGINE_LEASE_HELD"):
        engine._migrate(journal, Lease.new(clock))
    with pytest.raises(UserError, match="JOURNAL_OLDER"):
        journal.identity()
    clock.advance(SILENT_SECONDS + 1.0)
    engine._migrate(journal, Lease.new(clock))
    assert journal.identity() == control.journal.identity()
    journal.close()
