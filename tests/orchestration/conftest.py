"""Shared by the tests of the Dagster surface: small projects, and a workbench with the real journal, a clock moved by
hand and an engine that does what a test says."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
import pytest

sys.path.append(str(Path(__file__).parents[2]))  # for the helpers in tests.runtime.fakes, however pytest was started

from ds_dagster.orchestration import DsControlResource, DsProject, DsTranslator, build_ds_definitions
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.lease import Lease
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.status import EngineStatus
from tests.runtime.fakes import FakeClock

STORES = """
CREATE STORE prod_kafka WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STORE warehouse WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/w',
  'postgres.username' = 'someone', 'postgres.password' = '${WAREHOUSE_PASSWORD}');
"""
STREAMS = """
-- One record per click.
-- @owner team:web
-- @group web/raw
CREATE STREAM clicks (url VARCHAR, device VARCHAR, at_ms BIGINT)
  WITH ('topic'='clicks', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1);

-- Clicks from desktop computers.
-- @owner team:web, someone@example.com
-- @freshness 10m
CREATE STREAM desktop AS SELECT url, UPPER(device) AS kind FROM clicks WHERE device = 'desktop';

-- How often each page was opened.
CREATE CHANGELOG counts AS SELECT url, count(*) AS n FROM clicks GROUP BY url;

CREATE MATERIALIZED VIEW visits AS SELECT url, count(*) AS n FROM clicks GROUP BY url;
"""
TABLES = """
CREATE TABLE loaded WITH ('store'='warehouse', 'refresh.mode'='incremental') AS SELECT url, n FROM counts;
"""


def write_project(folder: Path, **files: str) -> Path:
    """A project folder: one file of SQL per argument."""
    (folder / "sql").mkdir(parents=True, exist_ok=True)
    (folder / "ds.toml").write_text('store = "prod_kafka"\ndatabase = "shop"\n', encoding="utf-8")
    for name, text in files.items():
        (folder / "sql" / f"{name}.sql").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", stores=STORES, streams=STREAMS, tables=TABLES)


@pytest.fixture
def project(folder: Path) -> DsProject:
    return DsProject(folder)


def key(name: str) -> dg.AssetKey:
    return dg.AssetKey(["shop", "public", name])


@dataclass
class FakeLauncher:
    """Starts the workbench's engine."""

    start: Callable[[], None]
    name: str = "local"
    shares_host: bool = True
    starts: int = 0

    def ensure(self, watch: Callable[[], EngineStatus], seconds: float) -> EngineStatus:
        if watch().state == "GONE":
            self.starts += 1
            self.start()
        return watch()


@dataclass
class Bench:
    """A project's control whose engine is played by the test.

    Attributes:
        answers: query → state it gets when it is asked for (RUNNING by default), and further values of its status.
    """

    project: DsProject
    clock: FakeClock
    control: Control = field(init=False)
    launcher: FakeLauncher = field(init=False)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    lease: Lease | None = None
    lock: FileLock | None = None
    is_engine_broken: bool = False

    def __post_init__(self) -> None:
        self.launcher = FakeLauncher(self.start_engine)
        self.control = Control.open(self.project.settings, clock=self.clock, launcher=self.launcher, environment={})
        self.clock.on_sleep = self.work

    def start_engine(self) -> None:
        if self.is_engine_broken:
            return
        self.control.journal.create()
        self.lease = Lease.new(self.clock)
        self.lock = FileLock(self.control.places.python_lock)
        assert self.lock.acquire({"pid": self.lease.row.pid, "token": self.lease.row.token})
        self.lease.take(self.control.journal)
        self.lease.tell("RUNNING")
        self.work()

    def kill_engine(self) -> None:
        if self.lock is not None:
            self.lock.release()
        self.lock = self.lease = None

    def work(self) -> None:
        """One round of the engine: everything asked for gets its answer."""
        if self.lease is None:
            return
        with self.control.journal.write() as connection:
            self.lease.renew(connection)
            jobs, statuses = rows.jobs(connection), rows.statuses(connection)
            for name, job in jobs.items():
                status = statuses.get(name, StatusRow(name))
                if status.generation < job.generation and job.desired != "FINISHED":
                    state = "STOPPED" if job.desired == "STOPPED" else "RUNNING"
                    answer: dict[str, Any] = {"state": state, **self.answers.get(name, {})}
                    if answer["state"] != "silent":
                        made = replace(
                            status,
                            generation=job.generation,
                            fingerprint=job.fingerprint,
                            checkpoint_version=job.checkpoint_version,
                            incarnation=f"{name}-{job.generation}",
                            since=self.clock.now(),
                            started=self.clock.now(),
                            **answer,
                        )
                        rows.save_statuses(connection, [made], writer=self.lease.row.token)
            for name, request in rows.open_requests(connection).items():
                outcome = self.answers.get(name, {"state": "FINISHED", "rows": 7, "batches": 2})
                ended = replace(request, started=self.clock.now(), finished=self.clock.now() + 1, **outcome)
                rows.save_requests(connection, [ended])

    def says(self, name: str, **values: Any) -> None:
        """The engine reports something of a job."""
        with self.control.journal.write() as connection:
            if self.lease is not None:
                self.lease.renew(connection)
            status = rows.statuses(connection).get(name, StatusRow(name))
            writer = status.writer if self.lease is None else self.lease.row.token
            rows.save_statuses(connection, [replace(status, **values)], writer=writer)

    def apply(self, *names: str) -> None:
        """Everything (or these queries) is asked for and runs."""
        streams = [query.name for props in self.project.streams for query in props.queries]
        self.control.ensure(self.project.project, names or streams)
        if self.lease is None:
            self.start_engine()
        self.work()

    def forget(self) -> None:
        """The project's files have changed: load it anew, as another process would."""
        self.project.surfaces.clear()
        self.project.mappers.clear()
        for name in ("project", "props", "streams", "broken_files"):
            self.project.__dict__.pop(name, None)

    def resource(self) -> DsControlResource:
        """The resource that gives this control."""
        kept = self.control

        class BenchControl(DsControlResource):
            shown: ClassVar[str] = "bench"

            def control(self, project: DsProject) -> Control:
                return kept

        return BenchControl()

    def definitions(self, translator: DsTranslator | None = None, *, engine_asset: bool = False) -> dg.Definitions:
        return build_ds_definitions(
            self.project,
            translator=translator,
            resources={"ds_control": self.resource()},
            observe_sources=False,
            engine_asset=engine_asset,
        )

    def materialize(
        self,
        *names: str,
        instance: dg.DagsterInstance | None = None,
        tags: dict[str, str] | None = None,
        **config: Any,
    ) -> dg.ExecuteInProcessResult:
        """Materialize assets in this process, failures as results."""
        job = self.definitions().resolve_implicit_global_asset_job_def()
        keys = [key(name) for name in names]
        run_config = {"ops": {op: {"config": values} for op, values in config.items()}}
        return job.execute_in_process(
            asset_selection=keys, instance=instance, raise_on_error=False, run_config=run_config, tags=tags
        )


def failure_text(result: dg.ExecuteInProcessResult) -> str:
    """What the failed steps of a run say."""
    texts = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    told = [
        data.user_failure_data.description if data.user_failure_data else data.error_display_string for data in texts
    ]
    return "\n".join(filter(None, told))


def materialized(result: dg.ExecuteInProcessResult) -> list[str]:
    """Names of the relations that a run materialized, in order."""
    return [event.asset_key.path[-1] for event in result.get_asset_materialization_events() if event.asset_key]


def checks(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str], bool]:
    """(relation, check) → passed."""
    found: Sequence[Any] = result.get_asset_check_evaluations()
    return {(evaluation.asset_key.path[-1], evaluation.check_name): evaluation.passed for evaluation in found}


@pytest.fixture(autouse=True)
def _unstamped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody migrates an instance in memory: to note the version of its tables takes as long as to make them."""
    for kind in ("runs", "event_log"):
        monkeypatch.setattr(f"dagster._core.storage.{kind}.in_memory.stamp_alembic_rev", lambda *_: None)


@pytest.fixture
def bench(project: DsProject) -> Iterator[Bench]:
    made = Bench(project, FakeClock(wall=time.time()))
    yield made
    made.kill_engine()
    made.control.journal.close()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """In memory: the databases of an instance in files take a third of a second, and are opened for each event."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made
