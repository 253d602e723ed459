"""A materialization with ``action: new_version``: a changed view takes over while the run waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ds_dagster.figures import Figures
from ds_dagster.runtime.deciding.backoff import Backoff
from ds_dagster.runtime.processes.joblog import JobLog
from ds_dagster.runtime.reconcile import Reconciler
from tests.orchestration.conftest import Bench, checks, failure_text, materialized
from tests.runtime.fakes import FakeHost


class Works(FakeHost):
    """A host whose queries read everything at once, and whose errands end."""

    def observe(self) -> dict[str, object]:  # type: ignore[override]
        for name, job in list(self.seen.items()):
            if job.phase in ("starting", "running"):
                self.says(name, "running", progress=Figures(batch=0, caught_up=self.now()))
        while self.under_way:
            self.does()
        return dict(self.seen)

    def now(self) -> float:
        raise NotImplementedError


@pytest.fixture
def engine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Works]:
    """The workbench's engine reconciles as a real one does, on a host that works."""
    host = Works()
    monkeypatch.setattr(Works, "now", lambda _: bench.clock.now())
    reconcilers: list[Reconciler] = []

    def work() -> None:
        if bench.lease is None:
            return
        if not reconcilers:
            identity = bench.control.journal.identity()
            log = JobLog(bench.control.places, bench.clock)
            arguments = (bench.lease, host, bench.clock, lambda: 0.0, log, Backoff())
            reconcilers.append(Reconciler(bench.control.journal, identity, *arguments))
            reconcilers[0].take_over()
        reconcilers[0].tick()

    monkeypatch.setattr(Bench, "work", lambda _: work())
    bench.clock.on_sleep = work
    yield host


def change(folder: Path, bench: Bench) -> None:
    path = next(path for path in folder.rglob("*.sql") if "VIEW visits" in path.read_text())
    path.write_text(path.read_text().replace("SELECT url, count(*) AS n FROM", "SELECT url, min(url) AS m FROM"))
    bench.forget()


def test_a_changed_view_takes_over(bench: Bench, folder: Path, engine: Works) -> None:
    assert bench.materialize("visits", "desktop").success
    change(folder, bench)
    refused = bench.materialize("visits")
    assert "ds promote visits" in failure_text(refused)
    result = bench.materialize("visits", "desktop", ds_streams={"action": "new_version"})
    assert "visits" in materialized(result) and result.success
    assert checks(result)["visits", "definition_current"]
    roles = {status.name: (status.version, status.role, status.state) for status in bench.control.statuses()}
    assert roles["visits"] == (2, "serving", "RUNNING")
    assert roles["visits@1"] == (1, "kept", "STOPPED")
    assert [order.place for order in engine.orders if order.name == "visits@2"] == [2]


def test_one_that_does_not_catch_up_leaves_the_old_one(
    bench: Bench, folder: Path, engine: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.materialize("visits").success
    change(folder, bench)
    monkeypatch.setattr(engine, "now", lambda: 0.0)
    config = {"action": "new_version", "start_timeout_seconds": 5}
    result = bench.materialize("visits", ds_streams=config)
    assert "PROMOTION_TIMED_OUT" in failure_text(result) and not materialized(result)
    roles = {status.name: (status.role, status.state) for status in bench.control.statuses()}
    assert roles == {"visits": ("serving", "RUNNING"), "visits@2": ("staged", "RUNNING")}
