"""Situations an engine meets, on a host and a clock that do as they are told: what is recorded, and what is done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ds_dagster.errors import DsError, ExternalError, error
from ds_dagster.figures import Figures
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding import round as rounds
from ds_dagster.runtime.deciding.backoff import Backoff
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import bump_revision
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.journals.schema import STEP
from ds_dagster.runtime.journals.states import LEGAL, check_transition
from ds_dagster.runtime.processes.joblog import JobLog
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.reconcile import Reconciler, sources_first
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, FakeHost, project, query

BACKOFF = Backoff(base=1.0, factor=2.0, limit=60.0, jitter=0.0, healthy=120.0)


class House:
    """One engine in this process, without loop: a test ticks it."""

    def __init__(self, control: Control, clock: FakeClock, settings: Settings) -> None:
        self.control, self.clock, self.settings = control, clock, settings
        self.lock = FileLock(control.places.python_lock)
        control.journal.create()
        self.begin()

    def begin(self) -> None:
        """A new engine takes over (the former one was killed: nothing was said)."""
        self.lock.release()
        self.lease, self.host = Lease.new(self.clock), FakeHost()
        self.lock.acquire({"pid": 1, "token": self.lease.row.token})
        self.lease.take(self.control.journal)
        self.lease.tell("RUNNING")
        log = JobLog(self.control.places, self.clock)
        identity = self.control.journal.identity()
        self.reconciler = Reconciler(
            self.control.journal, identity, self.lease, self.host, self.clock, lambda: 0.0, log, BACKOFF
        )
        self.reconciler.take_over()

    def want(self, name: str = "a", action: str = "ensure", meaning: str = "1") -> int:
        loaded = project(self.settings, query(name, "t", meaning))
        return self.control.ensure(loaded, [name], action, "ann", allow=["duplicates"])[0].generation  # type: ignore[arg-type]

    def tick(self, seconds: float = 0.25, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(seconds)
            self.reconciler.tick()

    def run(self, name: str = "a") -> None:
        """Wanted, started and working."""
        self.want(name)
        self.tick()
        self.host.works(name)
        self.tick()

    def state(self, name: str = "a") -> str:
        return self.control.status(name).state

    def history(self, name: str = "a") -> list[str]:
        return [t.target for t in reversed(self.control.transitions(name)) if t.kind == "state"]


@pytest.fixture
def house(control: Control, clock: FakeClock, settings: Settings) -> Iterator[House]:
    made = House(control, clock, settings)
    yield made
    made.lock.release()


def refused() -> ExternalError:
    made = error("JOURNAL_UNREACHABLE", journal="any external fault")
    assert isinstance(made, ExternalError)
    return made


def test_a_wanted_job_is_started_once_and_runs_on_proof(house: House) -> None:
    generation = house.want()
    house.tick(times=3)
    assert len(house.host.orders) == 1
    assert house.state() == "STARTING"
    house.host.works("a", rows=7, watermark=5.0)
    house.tick()
    status = house.control.status("a")
    assert (status.state, status.batch, status.rows, status.reported_generation) == ("RUNNING", 0, 7, generation)
    house.tick(times=20)
    assert len(house.host.orders) == 1
    assert house.history() == ["STARTING", "RUNNING"]


def test_the_engine_hurries_while_a_job_is_on_its_way(house: House) -> None:
    assert not house.reconciler.is_moving()
    house.want()
    house.tick()
    assert house.reconciler.is_moving()
    house.host.works("a")
    house.tick()
    assert not house.reconciler.is_moving()
    house.control.stop(["a"], "ann")
    house.tick()
    assert house.reconciler.is_moving()


def test_each_transition_is_written_before_its_effect(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(house.host, "start", lambda order: seen.append(house.state()))
    house.want()
    house.tick()
    assert seen == ["STARTING"]


def test_asking_twice_starts_one(house: House) -> None:
    house.want()
    house.want()
    house.tick(times=2)
    assert len(house.host.orders) == 1


def test_stop_ends_after_the_batch_and_is_answered_when_it_has_ended(house: House) -> None:
    house.run()
    house.host.stops_at_once = False
    generation = house.control.stop(["a"])[0].generation
    house.tick()
    assert house.state() == "STOPPING"
    assert house.control.status("a").reported_generation < generation
    house.host.says("a", "stopped")
    house.tick()
    assert house.control.wait(["a"], {"a": generation}, 1)[0].state == "STOPPED"
    house.tick(times=5)
    assert len(house.host.orders) == 1


def test_stop_while_starting(house: House) -> None:
    house.want()
    house.tick()
    house.control.stop(["a"])
    house.tick(times=2)
    assert house.history() == ["STARTING", "STOPPING", "STOPPED"]


def test_restart_stops_first_and_keeps_the_checkpoint(house: House) -> None:
    house.run()
    generation = house.want(action="restart")
    house.tick()
    assert house.control.status("a").reported_generation < generation, "not answered by the old incarnation"
    house.tick(times=2)
    first, second = house.host.orders
    assert first.incarnation != second.incarnation
    assert (second.checkpoint_version, second.started, second.progressed) == (1, True, True)
    assert house.history()[2:] == ["STOPPING", "STOPPED", "STARTING"]


def test_reset_starts_with_a_new_version_that_knows_nothing(house: House) -> None:
    house.run()
    house.want(action="reset", meaning="2")
    house.tick(times=3)
    order = house.host.orders[-1]
    assert (order.checkpoint_version, order.started, order.progressed) == (2, False, False)
    assert order.identity.version == 2
    assert order.spec.fingerprint == "v1:a:2"
    assert house.control.status("a").batch is None


def test_external_failures_back_off_longer_and_longer_for_ever(house: House) -> None:
    house.want()
    delays = []
    for _ in range(9):
        house.tick()
        house.host.says("a", "failed", failure=refused())
        house.tick()
        status = house.control.status("a")
        assert status.state == "BACKING_OFF"
        assert status.next_retry is not None
        delays.append(round(status.next_retry - house.clock.now()))
        started = len(house.host.orders)
        house.clock.advance(delays[-1] - 0.5)
        house.tick(0.1)
        assert len(house.host.orders) == started, "not before its time"
        house.clock.advance(0.5)
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_count_begins_anew_after_a_healthy_period(house: House) -> None:
    house.want()
    house.tick()
    house.host.says("a", "failed", failure=refused())
    house.tick()
    house.tick(2.0)
    house.host.works("a")
    house.tick()
    assert house.control.status("a").attempts == 1
    house.tick(1.0, times=121)
    assert house.control.status("a").attempts == 0


def test_a_users_mistake_is_not_retried_until_asked(house: House) -> None:
    house.want()
    house.tick()
    failure = error("ENVIRONMENT_REFERENCE_MISSING", name="KAFKA_PASSWORD", used_by="store s")
    house.host.says("a", "failed", failure=failure)
    house.tick(times=100)
    status = house.control.status("a")
    assert (status.state, status.condition) == ("FAILED", "ENVIRONMENT_REFERENCE_MISSING")
    assert "KAFKA_PASSWORD" in status.message
    assert "KAFKA_PASSWORD" in status.hint
    assert len(house.host.orders) == 1
    house.want()
    house.tick()
    assert len(house.host.orders) == 2


def test_our_own_bug_is_tried_five_times(house: House) -> None:
    house.want()
    for _ in range(5):
        house.tick(60.0)
        house.host.says("a", "failed", failure=error("INTERNAL", where="a test"))
        house.tick()
    assert house.state() == "FAILED"
    assert len(house.host.orders) == 5


def test_a_failing_job_leaves_the_others_alone(house: House) -> None:
    house.run("b")
    house.want("a")
    for _ in range(4):
        house.tick(60.0)
        if "a" in house.host.seen:
            house.host.says("a", "failed", failure=error("INTERNAL", where="a test"))
    assert house.state("b") == "RUNNING"
    assert house.history("b") == ["STARTING", "RUNNING"]


def test_asking_for_a_job_that_backs_off_starts_it_at_once(house: House) -> None:
    house.want()
    for _ in range(5):
        house.tick(60.0)
        house.host.says("a", "failed", failure=refused())
        house.tick()
    house.want()
    house.tick()
    assert house.state() == "STARTING"
    assert house.control.status("a").attempts == 0


def test_a_query_that_ends_by_itself_is_a_failure(house: House) -> None:
    house.run()
    house.host.says("a", "stopped")
    house.tick()
    status = house.control.status("a")
    assert (status.state, status.condition) == ("BACKING_OFF", "JOB_ENDED_BY_ITSELF")


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_wall_clock_that_jumps_changes_no_delay(house: House, jump: float) -> None:
    house.want()
    house.tick()
    house.host.says("a", "failed", failure=refused())
    house.tick()
    house.clock.wall += jump
    house.tick(0.5)
    assert house.history()[-1] == "BACKING_OFF"
    house.tick(0.6)
    assert house.history()[-1] == "STARTING"


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_wall_clock_that_jumped_between_two_engines_delays_no_longer_than_the_limit(
    house: House, jump: float
) -> None:
    house.want()
    house.tick()
    house.host.says("a", "failed", failure=refused())
    house.tick()
    house.clock.wall += jump
    house.begin()
    house.tick(BACKOFF.limit + 1)
    assert house.state() == "STARTING"


def test_a_new_engine_starts_what_ran_and_counts_what_was_starting(house: House) -> None:
    house.run("b")
    house.want("a")
    house.tick()
    house.begin()
    assert house.history("b")[-1] == "ABSENT"
    assert house.history("a")[-2:] == ["ABSENT", "BACKING_OFF"]
    house.tick(0.1)
    assert [order.name for order in house.host.orders] == ["b"]
    assert house.host.orders[0].progressed
    house.tick(1.5)
    assert [order.name for order in house.host.orders] == ["b", "a"]


def test_a_crash_between_record_and_effect_leads_to_one_start(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(order: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(house.host, "start", die)
    house.want()
    with pytest.raises(KeyboardInterrupt):
        house.tick()
    house.begin()
    house.tick(2.0)
    house.tick(2.0)
    assert len(house.host.orders) == 1
    assert house.host.orders[0].started


def test_a_tick_that_cannot_be_written_does_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.want()
    with monkeypatch.context() as broken:
        broken.setattr(rows, "add_transitions", lambda *_: (_ for _ in ()).throw(error("JOURNAL_DISK_FULL")))
        with pytest.raises(ExternalError):
            house.tick()
    assert house.host.orders == []
    assert house.state() == "ABSENT"
    house.tick()
    assert len(house.host.orders) == 1


def test_a_second_holder_of_the_lease_ends_the_first(house: House) -> None:
    house.run()
    other = Lease.new(house.clock)
    other.take(house.control.journal)
    with pytest.raises(ExternalError, match="ENGINE_LEASE_LOST"):
        house.tick(2.0)
    assert house.history() == ["STARTING", "RUNNING"]


def test_draining_ends_queries_without_changing_what_is_wanted(house: House) -> None:
    house.run("a")
    house.want("b")
    house.reconciler.draining = True
    house.tick(times=3)
    assert house.reconciler.is_idle()
    assert house.history("a")[-2:] == ["STOPPING", "ABSENT"]
    assert house.host.orders[-1].name == "a", "nothing is started any more"
    house.begin()
    house.tick()
    assert {order.name for order in house.host.orders} == {"a", "b"}


def test_stopping_a_dead_job_fences_what_it_left_open(house: House) -> None:
    house.run()
    house.begin()
    house.control.stop(["a"])
    house.tick()
    assert house.host.fenced == ["a"]
    assert house.state() == "STOPPED"


def test_a_job_that_was_never_started_has_nothing_to_fence(house: House) -> None:
    house.want()
    house.control.stop(["a"])
    house.tick()
    assert house.host.fenced == []
    assert house.history() == ["STOPPED"]


def test_a_host_that_dies_ends_the_engine(house: House) -> None:
    house.host.problem = error("ENGINE_JVM_DIED")
    with pytest.raises(ExternalError, match="ENGINE_JVM_DIED"):
        house.tick()


def test_an_unknown_checkpoint_folder_is_never_taken_for_ours_later(house: House) -> None:
    house.want()
    house.tick()
    house.host.says("a", "failed", failure=error("CHECKPOINT_UNKNOWN", name="a", path="/x"))
    house.tick()
    house.want()
    house.tick()
    assert [order.started for order in house.host.orders] == [False, False]


def test_figures_reach_the_status_once_a_second(house: House) -> None:
    house.run()
    house.host.works("a", batch=9, rows=90, lag_records=4, state_rows=2, late_rows=1)
    house.tick(0.3)
    house.tick(1.0)
    status = house.control.status("a")
    assert (status.batch, status.rows, status.lag_records, status.state_rows, status.late_rows) == (9, 90, 4, 2, 1)
    assert status.beat is not None


def test_the_jobs_log_tells_the_story_without_secrets(house: House) -> None:
    house.want()
    house.tick()
    house.host.says("a", "failed", failure=error("JOURNAL_UNREACHABLE", journal="x", detail="password=hunter2 refused"))
    house.tick()
    text = house.control.log_path("a").read_text()
    assert "STARTING" in text
    assert "JOURNAL_UNREACHABLE" in text
    assert "hunter2" not in text


# -- finite runs -----------------------------------------------------------------------------------------------------


def load(house: House, **values: object) -> int:
    loaded = project(house.settings, query("a", "t"), query("load", "a", refresh="incremental"))
    return house.control.request_run(loaded, "load", "ann", **values)  # type: ignore[arg-type]


def test_a_run_waits_for_its_sources_then_reports_what_it_loaded(house: House) -> None:
    house.run("a")
    request = load(house)
    house.tick(times=3)
    assert [order.name for order in house.host.orders] == ["a"]
    house.host.works("a", caught_up=house.clock.now() + 10)
    house.tick(1.0)
    house.tick(1.0)
    assert house.host.orders[-1].name == "load"
    assert house.host.orders[-1].finite
    house.host.says("load", "finished", progress=Figures(batch=1, batches=2), loaded=500)
    house.tick()
    result = house.control.wait_run(request)
    assert (result.state, result.rows, result.batches) == ("FINISHED", 500, 2)
    house.tick(times=10)
    assert [order.name for order in house.host.orders].count("load") == 1


def test_waiting_for_sources_is_time_boxed(house: House) -> None:
    house.run("a")
    load(house, catch_up=5)
    house.tick(1.0, times=4)
    assert "load" not in house.host.seen
    house.tick(1.0, times=2)
    assert "load" in house.host.seen


def test_sources_that_are_not_wanted_are_not_waited_for(house: House) -> None:
    load(house)
    house.tick()
    assert "load" in house.host.seen


def test_the_next_run_of_an_incremental_load_keeps_its_checkpoint(house: House) -> None:
    for _ in range(2):
        load(house)
        house.tick()
        house.host.says("load", "finished", progress=Figures(batch=0, batches=1))
        house.tick()
    first, second = (order for order in house.host.orders if order.name == "load")
    assert (first.checkpoint_version, second.checkpoint_version) == (1, 1)
    assert second.progressed


def test_a_run_goes_on_where_a_step_ended(house: House) -> None:
    """Runs in Dagster steps write the status themselves."""
    house.control.withdraw_run(load(house))
    house.tick()
    with house.control.journal.write() as connection:
        done = StatusRow("load", "FINISHED", generation=1, checkpoint_version=1, batch=4)
        rows.save_statuses(connection, [done], writer=STEP)
    load(house)
    house.tick()
    assert (house.host.orders[-1].started, house.host.orders[-1].progressed) == (True, True)


@pytest.mark.parametrize("state", ["STARTING", "RUNNING"])
def test_a_new_engine_leaves_the_run_of_a_step_that_lives_alone(house: House, state: str) -> None:
    """It would write that the job is gone, and fence what the step has open in its sink."""
    request = load(house)
    with house.control.journal.write() as connection:
        row = rows.request(connection, request)
        assert row is not None
        rows.save_requests(connection, [replace(row, state="STEP", waiting_since=house.clock.now() + 60.0)])
        run = StatusRow("load", state, generation=1, checkpoint_version=1, incarnation="i")  # type: ignore[arg-type]
        rows.save_statuses(connection, [run], writer=STEP)
    house.begin()
    house.tick(2.0, times=3)
    assert (house.state("load"), house.host.fenced, house.history("load")) == (state, [], [])
    house.clock.advance(61.0)
    house.begin()
    house.tick(2.0)
    assert house.history("load")[0] == "ABSENT", "nobody holds it any more"


@pytest.mark.parametrize(("state", "batch"), [("STARTING", None), ("RUNNING", None), ("RUNNING", 4)])
def test_a_run_goes_on_where_a_step_was_killed(house: House, state: str, batch: int | None) -> None:
    """The engine lives all the time. What the step began is known, so that its checkpoint is no stranger's."""
    request = load(house)
    with house.control.journal.write() as connection:
        row = rows.request(connection, request)
        assert row is not None
        rows.save_requests(connection, [replace(row, state="STEP", waiting_since=house.clock.now() + 60.0)])
        run = StatusRow("load", state, generation=1, checkpoint_version=1, incarnation="i", batch=batch)  # type: ignore[arg-type]
        rows.save_statuses(connection, [run], writer=STEP)
        bump_revision(connection)
    house.tick(2.0, times=3)
    assert (house.state("load"), house.host.orders, house.host.fenced) == (state, [], []), "the step may live"
    house.clock.advance(61.0)
    load(house)
    house.tick(times=2)
    (order,) = house.host.orders
    assert (order.checkpoint_version, order.started, order.progressed) == (1, True, batch is not None)
    house.host.says("load", "finished", progress=Figures(batch=5, batches=1))
    house.tick()
    assert house.history("load") == ["ABSENT", "STARTING", "FINISHED"]


def test_a_run_survives_its_engine(house: House) -> None:
    request = load(house)
    house.tick()
    house.begin()
    house.tick(2.0)
    house.tick(2.0)
    house.host.says("load", "finished", loaded=3)
    house.tick()
    assert house.control.wait_run(request).rows == 3


def test_a_run_fails_with_its_condition_after_five_attempts(house: House) -> None:
    request = load(house)
    for _ in range(5):
        house.tick(61.0)
        house.host.says("load", "failed", failure=refused())
        house.tick()
    result = house.control.wait_run(request)
    assert (result.state, result.condition) == ("FAILED", "JOURNAL_UNREACHABLE")
    assert result.hint


def test_a_cancelled_run_is_stopped(house: House) -> None:
    request = load(house)
    house.tick()
    assert house.control.withdraw_run(request)
    house.tick(times=2)
    assert house.state("load") == "STOPPED"
    assert house.control.wait_run(request).state == "STOPPED"
    load(house)
    house.tick(times=2)
    assert [order.name for order in house.host.orders].count("load") == 2


# -- tables ----------------------------------------------------------------------------------------------------------


def test_no_transition_outside_the_table_is_recorded() -> None:
    assert all(state in LEGAL for targets in LEGAL.values() for state in targets)
    with pytest.raises(Exception, match="RUNTIME_IMPOSSIBLE_TRANSITION"):
        check_transition("a", "STOPPED", "RUNNING")


def test_jobs_are_started_sources_first() -> None:
    def spec(name: str, *upstream: str) -> JobSpec:
        return JobSpec(name, name, (), "f", "s", "0", upstream=upstream)

    given = {"a": spec("a", "c"), "b": spec("b", "a"), "c": spec("c", "gone"), "d": spec("d", "d")}
    assert list(sources_first(given)) == ["c", "a", "b", "d"]


def test_specs_survive_their_text() -> None:
    spec = JobSpec("a", "db.public.a", (), "f", "s", "0.1", "full", ("k",), ("b",))
    assert JobSpec.from_json(spec.to_json()) == spec


def test_a_definition_of_a_later_version_stops_neither_the_engine_nor_other_jobs(house: House) -> None:
    house.run("old")
    with house.control.journal.write() as connection:
        job = rows.jobs(connection)["old"]
        spec = {**json.loads(job.spec), "package_version": "9.1.0", "new_field": [1]}
        rows.save_job(connection, replace(job, name="newer", spec=json.dumps({**spec, "name": "newer"})))
        bump_revision(connection)
    house.run("other")
    assert house.state("other") == house.state("old") == "RUNNING"
    assert [order.spec.unread for order in house.host.orders if order.name == "newer"] == [("new_field",)]
    assert {status.name for status in house.control.statuses()} == {"old", "newer", "other"}
    for action in ("ensure", "restart"):
        with pytest.raises(DsError, match="newer") as refused:
            house.want("newer", action)
        assert (refused.value.condition, refused.value.params["version"]) == ("JOB_SPEC_NEWER", "9.1.0")
    house.want("newer", "reset")
    assert not JobSpec.from_json(house.control.running().jobs["newer"].spec).unread


def test_a_loop_of_transitions_is_our_bug(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds.Round, "_step", lambda self, name: True)
    house.want()
    with pytest.raises(Exception, match="does not come to rest"):
        house.tick()


def test_one_that_backs_off_ends_with_the_engine(house: House) -> None:
    house.run()
    house.host.says("a", "failed", failure=refused())
    house.tick()
    house.reconciler.draining = True
    house.tick()
    assert house.history()[-1] == "ABSENT"
