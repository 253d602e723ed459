"""The same journal on a real Postgres server, where engine and readers may be on different machines."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.errors import UserError
from ds_dagster.figures import Figures
from ds_dagster.local.servers import down, up
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.launchers.external import ExternalLauncher
from ds_dagster.runtime.processes.joblog import JobLog
from ds_dagster.runtime.processes.liveness import SILENT_SECONDS, EngineWatch, Heard
from ds_dagster.runtime.processes.process import start_mark
from ds_dagster.runtime.reconcile import BEAT_SECONDS, Reconciler
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, FakeHost, project, query, settings_in

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state = tmp_path_factory.mktemp("postgres")
    found = up(state, only=["postgres"])
    password = (state / "secrets" / "postgres").read_text().strip()
    address = found.json()["postgres"]["url"].split("@")[-1].removeprefix("postgresql://")
    yield f"postgresql://postgres:{password}@{address}"
    down(state)


@pytest.fixture
def settings(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Settings]:
    """A schema of its own for every test."""
    import psycopg2

    name = f"t{abs(hash(request.node.name))}"
    connection = psycopg2.connect(server)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {name}")
    connection.close()
    yield replace(settings_in(tmp_path), journal="${JOURNAL}")


@pytest.fixture
def control(
    settings: Settings, server: str, clock: FakeClock, verdicts: dict[str, str], request: pytest.FixtureRequest
) -> Iterator[Control]:
    name = f"t{abs(hash(request.node.name))}"
    url = f"{server}?options=-csearch_path%3D{name}"
    opened = Control.open(settings, clock=clock, environment={"JOURNAL": url}, launcher=ExternalLauncher(clock))
    yield opened
    opened.journal.close()


def engine(control: Control, clock: FakeClock) -> tuple[Reconciler, FakeHost, Lease]:
    control.journal.create()
    lease, host = Lease.new(clock), FakeHost()
    lease.take(control.journal)
    lease.tell("RUNNING")
    log = JobLog(control.places, clock)
    reconciler = Reconciler(control.journal, control.journal.identity(), lease, host, clock, lambda: 0.0, log)
    reconciler.take_over()
    return reconciler, host, lease


def test_a_job_from_request_to_figures(control: Control, settings: Settings, clock: FakeClock) -> None:
    assert control.statuses() == ()
    reconciler, host, _ = engine(control, clock)
    control.ensure(project(settings, query("a", "t")), ["a"], requested_by="ann")
    reconciler.tick()
    host.works("a", rows=2**40, watermark=12.5)
    clock.advance(1.0)
    reconciler.tick()
    status = control.wait(["a"], {"a": 1}, 5)[0]
    assert (status.state, status.rows, status.watermark) == ("RUNNING", 2**40, 12.5)
    assert [t.target for t in control.transitions("a")] == ["RUNNING", "STARTING", "RUNNING"]
    request = control.request_run(project(settings, query("load", "t", refresh="full")), "load")
    clock.advance(1.0)
    reconciler.tick()
    host.says("load", "finished", loaded=5, progress=Figures(batches=1))
    reconciler.tick()
    assert control.wait_run(request).rows == 5


def test_beats_are_judged_by_the_servers_clock(control: Control, settings: Settings, clock: FakeClock) -> None:
    engine(control, clock)
    clock.wall -= 500_000_000.0
    assert control.engines()[0].state == "RUNNING"
    with control.journal.write() as connection:
        connection.exec_driver_sql("UPDATE ds_engines SET beat = beat - %s", (SILENT_SECONDS + 1,))
    assert control.engines()[0].state == "UNKNOWN"


def test_an_engine_on_another_host_keeps_the_lease_until_it_is_silent(control: Control, clock: FakeClock) -> None:
    _, _, lease = engine(control, clock)
    with control.journal.write() as connection:
        connection.exec_driver_sql("UPDATE ds_engines SET host = 'elsewhere'")
    with pytest.raises(UserError, match="ENGINE_LEASE_HELD") as raised:
        Lease.new(clock).take(control.journal)
    assert "elsewhere" in str(raised.value)
    with control.journal.write() as connection:
        connection.exec_driver_sql("UPDATE ds_engines SET beat = beat - %s", (SILENT_SECONDS + 1,))
    Lease.new(clock).take(control.journal)
    with pytest.raises(Exception, match="ENGINE_LEASE_LOST"), control.journal.write() as connection:
        lease.renew(connection)


def test_an_engine_of_another_state_folder_keeps_the_lease_while_its_process_lives(
    control: Control, clock: FakeClock
) -> None:
    _, _, lease = engine(control, clock)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        with control.journal.write() as connection:
            statement = "UPDATE ds_engines SET pid = %s, process_started = %s"
            connection.exec_driver_sql(statement, (other.pid, start_mark(other.pid)))
        with pytest.raises(UserError, match="ENGINE_LEASE_HELD") as raised:
            Lease.new(clock).take(control.journal)
        assert f"process {other.pid}" in str(raised.value)
        watch = EngineWatch(control.places, clock, True, lambda: heard(control, clock))
        assert (watch.status().state, watch.status().pid) == ("RUNNING", other.pid)
        assert not Lease.new(clock, "heavy").is_over(heard(control, clock), control.places)
    assert watch.status().state == "GONE"
    assert Lease.new(clock, "heavy").is_over(heard(control, clock), control.places)
    Lease.new(clock).take(control.journal)
    with pytest.raises(Exception, match="ENGINE_LEASE_LOST"), control.journal.write() as connection:
        lease.renew(connection)


def heard(control: Control, clock: FakeClock) -> Heard:
    with control.journal.read() as connection:
        return rows.heard(connection, "default", clock.now())


def test_a_silent_network_ends_a_call_before_the_lease_ends(control: Control) -> None:
    control.journal.create()
    with control.journal.read() as connection:
        parameters = connection.connection.driver_connection.get_dsn_parameters()
    idle, interval, count = (int(parameters[f"keepalives_{name}"]) for name in ("idle", "interval", "count"))
    lost = max(int(parameters["tcp_user_timeout"]) / 1000, idle + interval * count)
    assert lost + int(parameters["connect_timeout"]) + BEAT_SECONDS < SILENT_SECONDS


def test_many_create_it_at_once_and_agree(control: Control, settings: Settings) -> None:
    def create(_: int) -> str:
        journal = Journal.open(settings, {"JOURNAL": control.journal._engine.url.render_as_string(False)})
        try:
            return journal.create().journal
        finally:
            journal.close()

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(create, range(6)))) == 1


def test_many_writers_lose_nothing(control: Control, settings: Settings) -> None:
    control.journal.create()
    names = [f"q{number}" for number in range(12)]
    loaded = project(settings, *(query(name, "t") for name in names))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: control.ensure(loaded, [name]), names))
    with control.journal.read() as connection:
        assert sorted(rows.jobs(connection)) == sorted(names)
