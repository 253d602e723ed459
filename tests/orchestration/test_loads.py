"""Finite loads: one request per materialization, rows reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError

from ds_dagster.orchestration import DsProject, OpOptions, build_ds_definitions
from ds_dagster.runtime.control import Control
from tests.orchestration.conftest import Bench, failure_text, key, materialized, write_project

LOAD = "load_shop_public_loaded"


def test_a_load_reports_rows(bench: Bench) -> None:
    bench.apply()
    result = bench.materialize("loaded")
    assert result.success, failure_text(result)
    (event,) = result.get_asset_materialization_events()
    metadata = event.step_materialization_data.materialization.metadata
    assert metadata["ds_dagster/rows_loaded"].value == 7
    assert metadata["ds_dagster/batches"].value == 2
    assert "dagster/row_count" not in metadata, "an incremental load does not know the table's rows"


def test_a_full_load_reports_the_rows_of_the_table(bench: Bench) -> None:
    tables = (bench.project.root / "sql" / "tables.sql").read_text(encoding="utf-8")
    write_project(bench.project.root, tables=tables.replace("incremental", "full"))
    result = bench.materialize("loaded")
    (event,) = result.get_asset_materialization_events()
    assert event.step_materialization_data.materialization.metadata["dagster/row_count"].value == 7


def test_a_failed_load_fails_the_asset_without_retry(bench: Bench) -> None:
    bench.answers["loaded"] = {
        "state": "FAILED",
        "condition": "TARGET_DIFFERS",
        "message": "the table exists with another shape",
        "hint": "drop it",
        "rows": 0,
    }
    result = bench.materialize("loaded")
    assert materialized(result) == []
    assert "[TARGET_DIFFERS]" in failure_text(result)
    assert not any(event.is_step_up_for_retry for event in result.all_events)


def test_in_the_step_it_uses_the_session_of_the_resource(folder: Path, bench: Bench) -> None:
    """The session is handed on as it is; loading with a real one is tested end to end."""
    tables = (folder / "sql" / "tables.sql").read_text(encoding="utf-8")
    write_project(folder, tables=tables.replace("'refresh.mode'", "'execution'='step', 'refresh.mode'"))
    project = DsProject(folder)
    bench.project = project
    (query,) = [query for query in project.project.queries.values() if query.name == "loaded"]
    assert query.execution == "step"
    definitions = bench.definitions()
    assert type(definitions.resources["pyspark"]).__name__ == "ProjectSparkResource"
    asset = next(a for a in definitions.assets or () if isinstance(a, dg.AssetsDefinition) and a.op.name == LOAD)
    assert asset.required_resource_keys >= {"ds_control", "pyspark"}


def test_a_load_that_never_ends_is_an_asset_like_a_stream(folder: Path, bench: Bench) -> None:
    tables = (folder / "sql" / "tables.sql").read_text(encoding="utf-8")
    write_project(folder, tables=tables.replace("incremental", "continuous"))
    bench.project = DsProject(folder)
    definitions = bench.definitions()
    assets = [asset for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition)]
    owners = [a.op.name for a in assets if a.is_executable and dg.AssetKey(["shop", "public", "loaded"]) in a.keys]
    assert owners == ["ds_streams"]
    checked = {spec.name for a in assets for spec in a.check_specs if spec.asset_key.path[-1] == "loaded"}
    checks = {s.name for c in definitions.asset_checks or () for s in c.check_specs if s.asset_key.path[-1] == "loaded"}
    assert {"running", "lag", "progress", "definition_current"} <= checked | checks


def test_an_engine_that_ends_before_it_is_asked_for_the_load_is_started_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine of a pool ends when nothing was left in it for a minute, which may be now."""
    asked = bench.control.request_run

    def late(*arguments: Any, **more: Any) -> int:
        bench.kill_engine()
        return asked(*arguments, **more)

    monkeypatch.setattr(Control, "request_run", lambda _, *arguments, **more: late(*arguments, **more))
    result = bench.materialize("loaded")
    assert result.success, failure_text(result)
    assert bench.launcher.starts == 2


@pytest.mark.parametrize(("choice", "is_open"), [(True, False), (False, True)])
def test_a_terminated_run_ends_its_load_unless_it_may_go_on(
    bench: Bench, instance: dg.DagsterInstance, choice: bool, is_open: bool
) -> None:
    """Once: Dagster retries interrupted steps, which requested the load again."""
    bench.apply()
    slept = 0

    def terminate() -> None:
        nonlocal slept
        slept += 1
        if slept > 2:
            (run,) = instance.get_runs()
            instance.report_run_canceling(run)
            raise DagsterExecutionInterruptedError

    bench.clock.on_sleep = terminate
    result = bench.materialize("loaded", instance=instance, **{LOAD: {"cancel_on_termination": choice}})
    assert [run is None for run in bench.control.requests("loaded")] == [is_open]
    assert not any(event.is_step_up_for_retry for event in result.all_events)
    (run,) = instance.get_runs()
    assert run.status == dg.DagsterRunStatus.CANCELED


def test_a_step_whose_worker_goes_away_is_retried(bench: Bench) -> None:
    """Nobody terminated the run: Dagster's retry policy decides."""
    bench.apply()
    slept = 0

    def interrupt_once() -> None:
        nonlocal slept
        slept += 1
        if slept == 1:
            raise DagsterExecutionInterruptedError
        bench.work()

    bench.clock.on_sleep = interrupt_once
    op = OpOptions(retries=dg.RetryPolicy(max_retries=1))
    definitions = build_ds_definitions(
        bench.project, resources={"ds_control": bench.resource()}, observe_sources=False, op=op
    )
    job = definitions.resolve_implicit_global_asset_job_def()
    assert materialized(job.execute_in_process(asset_selection=[key("loaded")])) == ["loaded"]
    assert len(bench.control.requests("loaded")) == 2
