"""A materialization with ``action: new_version``: a changed view takes over while the run waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.versions import KeepsVersions
from ds_dagster.figures import Figures
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import kind_of_store
from ds_dagster.runtime.deciding.backoff import Backoff
from ds_dagster.runtime.processes.joblog import JobLog
from ds_dagster.runtime.reconcile import Reconciler
from ds_dagster.stores.sqlite.loader import open_loader
from ds_dagster.stores.table_sink import DELETED
from tests.driven import Driven
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


def change(folder: Path, bench: Bench, select: str = "SELECT url, min(url) AS m FROM") -> None:
    path = next(path for path in folder.rglob("*.sql") if "VIEW visits" in path.read_text())
    path.write_text(path.read_text().replace("SELECT url, count(*) AS n FROM", select))
    bench.forget()


def test_a_changed_view_takes_over(bench: Bench, folder: Path, engine: Works) -> None:
    assert bench.materialize("visits", "desktop").success
    change(folder, bench)
    refused = bench.materialize("visits")
    assert "ds promote visits" in failure_text(refused)
    result = bench.materialize("visits", "desktop", ds_streams={"action": "new_version", "allow_differences": True})
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


def write_version(bench: Bench, version: int, urls: str) -> None:
    """Rows of a version of the view: how often each letter is in a text."""
    project = bench.project.project
    relation = project.catalog.relation(QualifiedName("shop", "public", "visits"))
    kind = kind_of_store(project, relation)
    assert isinstance(kind, KeepsVersions)
    spec = kind.write_spec(project.catalog.store(relation.store), relation, "continuous")
    assert spec.table is not None
    path = kind.version_path(spec.table.path, version) if version > 1 else spec.table.path
    spec = replace(spec, table=replace(spec.table, path=path))
    loader = Driven(open_loader(spec, SinkIdentity(f"dev.visits@{version}", 1), lambda value: str(value.value)))
    loader.prepare()
    counts = Counter(urls)
    rows = pa.table({"url": list(counts), "n": list(counts.values()), DELETED: [False] * len(counts)})
    loader.load(rows, 0)
    loader.close()


def differences(result: dg.ExecuteInProcessResult) -> list[dict[str, Any]]:
    """Metadata of the observations of a run that have a difference of rows."""
    events = [e.asset_observation_data.asset_observation for e in result.all_events if e.is_asset_observation]
    values = [{name: value.value for name, value in event.metadata.items()} for event in events]
    return [value for value in values if "ds_dagster/difference" in value]


def test_the_run_shows_the_difference_and_a_large_one_needs_consent(bench: Bench, folder: Path, engine: Works) -> None:
    assert bench.materialize("visits").success
    write_version(bench, 1, "aabbbc")
    change(folder, bench, "SELECT url, count(url) AS n FROM")
    write_version(bench, 2, "aabbcccd")
    result = bench.materialize("visits", ds_streams={"action": "new_version"})
    refusal = failure_text(result)
    assert "version 2 of visits has 4 rows, and the one that serves 3" in refusal and not materialized(result)
    assert "`allow_differences: true` in the config of a run" in refusal
    assert {status.name: status.role for status in bench.control.statuses()} == {
        "visits": "serving",
        "visits@2": "staged",
    }
    (shown,) = differences(result)
    figures = {name: shown[f"ds_dagster/{name}"] for name in ("rows_before", "rows", "rows_added", "rows_removed")}
    assert figures == {"rows_before": 3, "rows": 4, "rows_added": 1, "rows_removed": 0}
    assert shown["ds_dagster/rows_changed"] == 2 and shown["ds_dagster/columns_changed"] == {"n": 2}
    rows = {record.data["key"]: record.data for record in shown["ds_dagster/difference"].records}
    assert rows['{"url": "d"}']["row"] == "added" and rows['{"url": "b"}'] == {
        "row": "changed",
        "key": '{"url": "b"}',
        "before": '{"n": "3"}',
        "after": '{"n": "2"}',
    }

    allowed = bench.materialize("visits", ds_streams={"action": "new_version", "allow_differences": True})
    assert allowed.success and len(differences(allowed)) == 1
    (event,) = allowed.get_asset_materialization_events()
    assert event.materialization.metadata["ds_dagster/rows_added"].value == 1
    assert bench.control.status("visits").version == 2


def test_a_small_difference_needs_no_consent(bench: Bench, folder: Path, engine: Works) -> None:
    assert bench.materialize("visits").success
    write_version(bench, 1, "aabbbc")
    change(folder, bench, "SELECT url, count(url) AS n FROM")
    write_version(bench, 2, "aabbcc")
    result = bench.materialize("visits", ds_streams={"action": "new_version"})
    assert result.success and bench.control.status("visits").version == 2
    (shown,) = differences(result)
    assert shown["ds_dagster/rows_changed"] == 2 and shown["ds_dagster/rows_added"] == 0


def test_other_columns_need_consent(bench: Bench, folder: Path, engine: Works) -> None:
    assert bench.materialize("visits").success
    change(folder, bench)
    result = bench.materialize("visits", ds_streams={"action": "new_version"})
    assert "PROMOTION_CHANGES_COLUMNS" in failure_text(result) and not materialized(result)
    (shown,) = differences(result)
    assert shown["ds_dagster/difference"].startswith("not compared: ")
