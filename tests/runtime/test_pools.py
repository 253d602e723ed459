"""Compute pools: engines of one project beside each other. Each acts on its own jobs alone, and a job that moves is
never in two of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest

from ds_dagster.cli.commands import engine as engines
from ds_dagster.cli.main import run
from ds_dagster.cli.metrics import Look, exposition
from ds_dagster.errors import DsError, error
from ds_dagster.orchestration.health.cursor import Cursor
from ds_dagster.orchestration.health.engine import EngineHealth
from ds_dagster.orchestration.health.sensors import heal
from ds_dagster.plan.query import POOL, BoundQuery
from ds_dagster.runtime import versioning
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.backoff import Backoff
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.engine import IDLE_SECONDS, Engine
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.launchers.external import ExternalLauncher
from ds_dagster.runtime.pools import pool_settings
from ds_dagster.runtime.processes.joblog import JobLog
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.reconcile import Reconciler
from ds_dagster.runtime.status import version_name
from ds_dagster.runtime.versioning import Versions
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, FakeHost, project, query

BACKOFF = Backoff(base=1.0, factor=2.0, limit=60.0, jitter=0.0, healthy=120.0)


def placed(name: str, pool: str, source: str = "t", **more: str) -> BoundQuery:
    """A query in a pool."""
    bound = query(name, source, **more)  # type: ignore[arg-type]
    settings = MappingProxyType({POOL: pool} if pool else {})
    return replace(bound, parts=tuple(replace(part, settings=settings) for part in bound.parts))


class House:
    """One engine in this process, without loop: a test ticks it."""

    def __init__(self, control: Control, clock: FakeClock, pool: str = "") -> None:
        self.control, self.clock, self.pool = control, clock, pool
        self.places = Places(control.places.state, pool)
        self.lock = FileLock(self.places.python_lock)
        control.journal.create()
        self.begin()

    def begin(self) -> None:
        self.lock.release()
        self.lease, self.host = Lease.new(self.clock, self.pool), FakeHost()
        assert self.lock.acquire({"pid": 1, "token": self.lease.row.token})
        self.lease.take(self.control.journal)
        self.lease.tell("RUNNING")
        log, identity = JobLog(self.control.places, self.clock), self.control.journal.identity()
        self.reconciler = Reconciler(
            self.control.journal, identity, self.lease, self.host, self.clock, lambda: 0.0, log, BACKOFF,
            places=self.places,
        )  # fmt: skip
        self.reconciler.take_over()

    def kill(self) -> None:
        self.lock.release()

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.reconciler.tick()

    def runs(self, name: str) -> bool:
        """Makes a query that it has work."""
        if name in self.host.seen:
            self.host.works(name)
            self.tick()
        return name in self.host.seen


@pytest.fixture
def own(control: Control, clock: FakeClock) -> Iterator[House]:
    made = House(control, clock)
    yield made
    made.kill()


@pytest.fixture
def heavy(control: Control, clock: FakeClock) -> Iterator[House]:
    made = House(control, clock, "heavy")
    yield made
    made.kill()


def want(control: Control, *queries: BoundQuery, action: str = "ensure") -> None:
    control.ensure(project(control.settings, *queries), [q.name for q in queries], action, "ann")  # type: ignore[arg-type]


def turn(clock: FakeClock, *houses: House, seconds: float = 0.25) -> None:
    clock.advance(seconds)
    for house in houses:
        house.tick()


def test_each_engine_has_the_jobs_of_its_pool_alone(
    control: Control, clock: FakeClock, own: House, heavy: House
) -> None:
    want(control, placed("a", ""), placed("b", "heavy"))
    for _ in range(5):
        turn(clock, own, heavy, seconds=1.0)
    assert (own.runs("a"), own.runs("b"), heavy.runs("a"), heavy.runs("b")) == (True, False, False, True)
    assert [(s.name, s.state, s.pool) for s in control.statuses()] == [("a", "RUNNING", ""), ("b", "RUNNING", "heavy")]
    assert [(engine.name, engine.state) for engine in control.engines()] == [
        ("default", "RUNNING"),
        ("heavy", "RUNNING"),
    ]
    assert control.fleet.needed() == {"", "heavy"}


def test_the_loss_of_one_engine_touches_no_other_and_its_successor_adopts_its_own_alone(
    control: Control, clock: FakeClock, own: House, heavy: House
) -> None:
    want(control, placed("a", ""), placed("b", "heavy"))
    turn(clock, own, heavy)
    assert own.runs("a")
    assert heavy.runs("b")
    incarnation = control.status("a").incarnation
    heavy.kill()
    turn(clock, own, seconds=5.0)
    states = {status.name: (status.state, status.condition) for status in control.statuses()}
    assert states == {"a": ("RUNNING", ""), "b": ("UNKNOWN", "POOL_ENGINE_NOT_RUNNING")}
    assert "b" not in own.host.seen
    heavy.begin()
    turn(clock, own, heavy)
    assert heavy.runs("b")
    assert [order.name for order in heavy.host.orders] == ["b"]
    assert control.status("a").incarnation == incarnation
    assert own.host.stops == []


def test_jobs_of_every_engine_end_with_it_in_the_same_words(
    control: Control, clock: FakeClock, own: House, heavy: House
) -> None:
    want(control, placed("a", ""), placed("b", "heavy"))
    turn(clock, own, heavy)
    assert own.runs("a") and heavy.runs("b")
    for house in (own, heavy):
        house.reconciler.draining = True
        house.tick(times=2)
        house.kill()
    ended = control.statuses()
    assert {status.message for status in ended} == {"the job ended with the engine, after its batch"}
    assert [status.hint for status in ended] == [
        "`ds engine start` resumes from its checkpoint",
        "`ds engine start --pool heavy` resumes from its checkpoint",
    ]
    want(control, placed("a", "heavy"), placed("b", "heavy"), action="restart")
    assert control.status("a").condition == "POOL_ENGINE_NOT_RUNNING", "it ended with the other engine"


def test_a_version_that_goes_while_its_query_moves_goes_once_or_twice_and_nothing_fails(
    control: Control, clock: FakeClock, own: House, heavy: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old engine has begun to drop it. The new one does not wait for that, since the old one may be gone."""
    monkeypatch.setattr(versioning, "why_not_beside", lambda *_: "")
    monkeypatch.setattr(versioning, "definition_of", lambda *_: None)
    monkeypatch.setattr(versioning, "breaking_changes", lambda *_: ())
    want(control, placed("a", ""))
    turn(clock, own, heavy)
    assert own.runs("a")
    versions = Versions(control, "ann")
    versions.stage(project(control.settings, placed("a", "", meaning="2")), "a")
    for _ in range(3):
        turn(clock, own, heavy)
    versions.abandon("a")
    for _ in range(3):
        turn(clock, own, heavy)
    assert [errand.kind for errand in own.host.under_way] == ["drop"]
    want(control, placed("a", "heavy"), action="restart")
    for _ in range(6):
        turn(clock, own, heavy, seconds=1.0)
    assert [errand.kind for errand in heavy.host.under_way] == ["drop"]
    own.host.does(error("STORE_CALL_FAILED", store="k", action="drop what the other one drops"))
    for _ in range(3):
        turn(clock, own, heavy, seconds=1.0)
    heavy.host.does()
    for _ in range(3):
        turn(clock, own, heavy, seconds=1.0)
    assert [status.name for status in control.statuses()] == ["a"]
    assert not [moved for moved in control.transitions("a@2", 50) if moved.condition]
    assert heavy.host.under_way == [] and own.host.under_way == []


def test_a_job_that_moves_is_let_go_before_it_is_taken(
    control: Control, clock: FakeClock, own: House, heavy: House
) -> None:
    want(control, placed("a", ""))
    turn(clock, own, heavy)
    assert own.runs("a")
    own.host.stops_at_once = False
    loaded = project(control.settings, placed("a", "heavy"))
    (change,) = control.changes(loaded, ["a"])
    assert (change.verdict, change.rule) == (
        "keeps_checkpoint", "it moves from the project's own engine to compute pool heavy",
    )  # fmt: skip
    with pytest.raises(DsError, match="DEFINITION_CHANGED"):
        control.ensure(loaded, ["a"])
    control.ensure(loaded, ["a"], "restart")
    for _ in range(5):
        turn(clock, heavy, own, seconds=1.0)
    assert (own.host.stops, heavy.host.orders) == (["a"], [])
    assert (control.status("a").state, control.status("a").pool) == ("STOPPING", "")
    own.host.says("a", "stopped")
    turn(clock, own)
    assert own.host.seen == {}
    turn(clock, heavy, own)
    assert heavy.runs("a")
    status = control.status("a")
    assert (status.state, status.pool, status.checkpoint_version) == ("RUNNING", "heavy", 1)
    assert len(own.host.orders) == 1
    assert heavy.host.orders[0].started


def test_a_job_moves_away_from_an_engine_that_is_gone(
    control: Control, clock: FakeClock, own: House, heavy: House
) -> None:
    want(control, placed("b", "heavy"))
    turn(clock, own, heavy)
    assert heavy.runs("b")
    jvm = FileLock(heavy.places.jvm_lock)
    assert jvm.acquire({})
    heavy.kill()
    want(control, placed("b", ""), action="restart")
    for _ in range(3):
        turn(clock, own, seconds=2.0)
    assert "b" not in own.host.seen, "its JVM may still be writing a batch"
    jvm.release()
    turn(clock, own, seconds=2.0)
    assert own.runs("b")
    with pytest.raises(DsError, match="ENGINE_LEASE_LOST"):
        heavy.tick()  # it was only asleep: it cannot write any more, and ends


def test_what_is_decided_from_rows_of_before_a_move_is_not_written(
    control: Control, clock: FakeClock, own: House, heavy: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    want(control, placed("a", ""))
    observe = own.host.observe

    def moved_meanwhile() -> object:
        monkeypatch.setattr(own.host, "observe", observe)
        want(control, placed("a", "heavy"), action="restart")
        heavy.tick()
        return observe()

    monkeypatch.setattr(own.host, "observe", moved_meanwhile)
    turn(clock, own, heavy)
    turn(clock, own, heavy)
    assert (own.host.orders, [order.name for order in heavy.host.orders]) == ([], ["a"])


def test_versions_go_where_the_serving_one_is(control: Control, clock: FakeClock, own: House, heavy: House) -> None:
    want(control, placed("a", ""))
    turn(clock, own, heavy)
    assert own.runs("a")
    with control.journal.write() as connection:
        job = rows.jobs(connection, ["a"])["a"]
        rows.insert_jobs(connection, [replace(job, name="a@2", query="a", version=2, role="staged", pool="heavy")])
    want(control, placed("a", ""), action="restart")
    for _ in range(4):
        turn(clock, own, heavy)
    assert sorted(own.host.seen) == ["a", "a@2"]
    assert heavy.host.orders == []
    want(control, placed("a", "heavy"), action="restart")
    for _ in range(4):
        turn(clock, own, heavy)
    assert (sorted(own.host.seen), sorted(heavy.host.seen)) == ([], ["a", "a@2"])


def test_a_run_waits_for_jobs_of_other_engines(control: Control, clock: FakeClock, own: House, heavy: House) -> None:
    stream, load = placed("s", ""), placed("load", "heavy", "s", refresh="incremental")
    loaded = project(control.settings, stream, load)
    control.ensure(loaded, ["s"])
    turn(clock, own, heavy)
    control.request_run(loaded, "load")
    for _ in range(3):
        turn(clock, own, heavy, seconds=1.0)
    assert heavy.host.orders == [], "the stream has not started yet"
    own.host.works("s", caught_up=clock.now() + 5.0)
    for _ in range(3):
        turn(clock, own, heavy, seconds=2.0)
    assert [order.name for order in heavy.host.orders] == ["load"]


def test_commands_and_dagster_name_each_engine(control: Control, clock: FakeClock, own: House, heavy: House) -> None:
    want(control, placed("a", ""), placed("b", "heavy"))
    turn(clock, own, heavy)
    assert own.runs("a")
    assert heavy.runs("b")
    assert EngineHealth.read(control, ()).verdict("up").passed
    heavy.kill()
    health = EngineHealth.read(control, ())
    verdict = health.verdict("up")
    assert (verdict.passed, verdict.severity.value) == (False, "ERROR")
    assert verdict.reason.startswith("default: running: pid ")
    assert verdict.reason.endswith("heavy: it is gone")
    assert health.metadata()["ds_dagster/engine/heavy"] == "it is gone"
    metrics = exposition(Look(control.engines(), control.statuses())).decode()
    assert 'ds_engine_up{engine="default"} 1.0' in metrics
    assert 'ds_engine_up{engine="heavy"} 0.0' in metrics
    assert control.log_place(engine="heavy").endswith("/logs/engine-heavy.log")
    control.stop(["b"])
    assert [engine.name for engine in control.engines()] == ["default"], "nothing is left in it"


def test_a_probe_asks_one_engine_by_its_name(
    control: Control, clock: FakeClock, own: House, heavy: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name as in a probe on Kubernetes; without one, any engine will do."""
    want(control, placed("a", ""), placed("b", "heavy"))
    turn(clock, own, heavy)
    monkeypatch.setattr(engines, "settings_of", lambda *_, **__: control.settings)
    monkeypatch.setattr(engines, "Control", SimpleNamespace(open=lambda _: control))
    status = lambda *words: run(["engine", "status", "--json", *words])  # noqa: E731
    assert [status("--pool", "default"), status("--pool", "heavy"), status()] == [0, 0, 0]
    own.kill()
    assert [status("--pool", "default"), status("--pool", "heavy"), status()] == [1, 0, 0]


def test_the_sensor_starts_each_dead_engine_at_its_own_pace(control: Control, clock: FakeClock, own: House) -> None:
    started: list[tuple[str, float]] = []

    class Broken(ExternalLauncher):
        def ensure(self, watch: object, seconds: float) -> object:  # type: ignore[override]
            started.append((self.name, clock.now()))
            raise DsError("ENGINE_START_FAILED", {"code": 1, "reason": "none", "log": "x"})

        def for_pool(self, pool: str) -> Broken:
            return Broken(clock, name=pool)

    control = Control.open(control.settings, clock=clock, environment={}, launcher=Broken(clock, shares_host=True))
    want(control, placed("a", ""), placed("b", "heavy"))
    turn(clock, own)
    cursor, sentence = heal(control, Cursor())
    assert sentence.startswith("engine running (pid ")
    assert "engine of compute pool heavy is gone and could not be started" in sentence
    assert (cursor.starts, cursor.pools["heavy"][0]) == (0, 1)
    assert Cursor.load(cursor.dump()) == cursor
    cursor, sentence = heal(control, cursor)
    assert "engine of compute pool heavy is gone, 1 starts failed, next one in 15 s" in sentence
    own.kill()
    cursor, sentence = heal(control, cursor)
    assert (cursor.starts, [name for name, _ in started]) == (1, ["heavy", "external"])


def test_specs_of_projects_without_pools_are_as_before(control: Control) -> None:
    want(control, placed("a", ""), placed("b", "heavy"))
    jobs = control.journal.read()
    with jobs as connection:
        stored = rows.jobs(connection)
    assert '"pool"' not in stored["a"].spec
    assert JobSpec.from_json(stored["b"].spec).pool == "heavy"


def test_the_engine_of_a_pool_ends_when_nothing_is_left_in_it(
    control: Control, clock: FakeClock, settings: Settings, heavy: House
) -> None:
    want(control, placed("b", "heavy"))
    engine = Engine(replace(settings, pool="heavy"), clock, lambda _: heavy.host, redactor=None)  # type: ignore[arg-type]
    own = Engine(settings, clock, lambda _: heavy.host, redactor=None)  # type: ignore[arg-type]

    def is_left() -> bool:
        heavy.tick()
        return engine._is_left(heavy.reconciler)

    clock.advance(1.0)
    assert not is_left()
    assert heavy.runs("b")
    want(control, placed("b", ""), action="restart")
    assert not is_left()
    turn(clock, heavy)
    clock.advance(IDLE_SECONDS - 1.0)
    assert not is_left()
    clock.advance(2.0)
    assert not own._is_left(heavy.reconciler), "the project's own engine stays"
    want(control, placed("c", "heavy"))
    assert not engine._is_left(heavy.reconciler), "a job came at the last moment, and was not read yet"
    control.stop(["c"])
    assert not is_left()
    clock.advance(IDLE_SECONDS + 1.0)
    assert is_left()
    with control.journal.read() as connection:
        row = rows.engine(connection, "heavy")
    assert row is not None
    assert row.state == "STOPPING"


def test_an_engine_elsewhere_is_never_left(settings: Settings, clock: FakeClock, heavy: House) -> None:
    elsewhere = replace(settings, pool="heavy", engine=replace(settings.engine, launcher="external"))
    engine = Engine(elsewhere, clock, lambda _: heavy.host, redactor=None)  # type: ignore[arg-type]
    clock.advance(IDLE_SECONDS * 2)
    heavy.tick()
    assert not engine._is_left(heavy.reconciler)


def test_an_older_journal_is_migrated_only_by_an_engine_that_is_alone(
    control: Control, clock: FakeClock, settings: Settings, own: House
) -> None:
    with control.journal.write() as connection:
        connection.exec_driver_sql("UPDATE ds_meta SET value = '8' WHERE name = 'schema'")
    control.journal._identity = None
    engine = Engine(replace(settings, pool="heavy"), clock, lambda _: own.host, redactor=None)  # type: ignore[arg-type]
    with pytest.raises(DsError, match="JOURNAL_OLDER"):
        engine.run()


def test_a_missing_engine_of_one_pool_keeps_no_other_from_starting(control: Control, clock: FakeClock) -> None:
    started: list[str] = []

    class Launcher(ExternalLauncher):
        def __init__(self, pool: str = "") -> None:
            super().__init__(clock, name="local")
            object.__setattr__(self, "pool", pool)

        def for_pool(self, pool: str) -> Launcher:
            return Launcher(pool)

        def ensure(self, watch: object, seconds: float) -> object:  # type: ignore[override]
            started.append(self.pool)  # type: ignore[attr-defined]
            if self.pool == "broken":  # type: ignore[attr-defined]
                raise DsError("ENGINE_START_FAILED", {"code": 1, "reason": "none", "log": "x"})
            return watch()  # type: ignore[operator]

    control = Control.open(control.settings, clock=clock, environment={}, launcher=Launcher())  # type: ignore[arg-type]
    want(control, placed("a", "broken"), placed("b", "heavy"))
    control.ensure_engines(["b"], 0.0)
    assert started[:2] == ["broken", "heavy"]
    started.clear()
    with pytest.raises(DsError, match="ENGINE_START_FAILED"):
        control.ensure_engines(["a"], 0.0)
    assert started == ["heavy", "broken"]


def test_the_engine_of_a_pool_starts_when_a_new_version_serves_in_it(control: Control, clock: FakeClock) -> None:
    started: list[str] = []

    class Launcher(ExternalLauncher):
        def __init__(self, pool: str = "") -> None:
            super().__init__(clock, name="local")
            object.__setattr__(self, "pool", pool)

        def for_pool(self, pool: str) -> Launcher:
            return Launcher(pool)

        def ensure(self, watch: object, seconds: float) -> object:  # type: ignore[override]
            started.append(self.pool)  # type: ignore[attr-defined]
            return watch()  # type: ignore[operator]

    control = Control.open(control.settings, clock=clock, environment={}, launcher=Launcher())  # type: ignore[arg-type]
    want(control, placed("a", "heavy"), placed("b", ""))
    with control.journal.write() as connection:
        rows.mark_job(connection, replace(rows.jobs(connection, ["a"])["a"], version=2))
    assert Versions(control).wait_served("a", "a@2", 1.0) == 2
    assert "heavy" in started


def test_each_pool_has_locks_logs_and_sizes_of_its_own(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "a.sql").write_text("CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 3);", encoding="utf-8")
    chosen = pool_settings(settings, "heavy")
    assert (chosen.pool, chosen.engine.cores, chosen.engine.memory) == ("heavy", 3, "1g")
    own, pool = Places.of(settings), Places.of(chosen)
    for name in ("python_lock", "jvm_lock", "start_lock", "engine_log", "engine_output"):
        assert getattr(own, name) != getattr(pool, name)
    assert own.job_log("a") == pool.job_log("a")
    with pytest.raises(DsError, match="COMPUTE_POOL_UNKNOWN") as refused:
        pool_settings(settings, "heavvy")
    assert "did you mean heavy" in refused.value.hint
    refused_too = "CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 0);"
    (folder / "a.sql").write_text(refused_too, encoding="utf-8")
    with pytest.raises(DsError, match="COMPUTE_POOL_REFUSED"):
        pool_settings(settings, "heavy")


@pytest.mark.parametrize("names", [("eu-west", "eu_west"), ("größe", "grüße"), ("订单", "用户")])
def test_pools_whose_names_differ_have_locks_and_logs_that_differ(tmp_path: Path, names: tuple[str, str]) -> None:
    one, two = (Places(tmp_path, name) for name in names)
    lock, other = FileLock(one.python_lock), FileLock(two.python_lock)
    assert lock.acquire({}) and other.acquire({})
    assert list(one.pool_locks()) == sorted([one.python_lock, two.python_lock])
    lock.release()
    other.release()
    assert (one.jvm_lock, one.engine_log, one.job_log(names[0])) != (
        two.jvm_lock,
        two.engine_log,
        one.job_log(names[1]),
    )
    assert one.engine_log != two.engine_log and one.job_log(names[0]) != one.job_log(names[1])


def test_a_version_of_a_query_does_not_write_into_the_log_of_another_query(tmp_path: Path) -> None:
    places = Places(tmp_path)
    assert places.job_log(version_name("orders", 2)) != places.job_log("orders_2")
