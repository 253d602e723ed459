"""Materializing streams: ensure-running, partial success, run config, cancelling while launching."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError

from ds_dagster.orchestration.assets import DsRunConfig
from ds_dagster.orchestration.control_job import DsControlConfig
from ds_dagster.orchestration.loads import DsLoadConfig
from tests.orchestration.conftest import Bench, checks, failure_text, key, materialized, write_project


def test_materializing_asks_waits_and_returns(bench: Bench) -> None:
    result = bench.materialize("desktop", "counts")
    assert result.success
    assert sorted(materialized(result)) == ["counts", "desktop"]
    assert {s.name: s.state for s in bench.control.statuses()} == {"desktop": "RUNNING", "counts": "RUNNING"}
    event = next(e for e in result.get_asset_materialization_events() if e.asset_key == key("desktop"))
    metadata = event.step_materialization_data.materialization.metadata
    assert metadata["ds_dagster/outcome"].value == "started"
    assert metadata["ds_dagster/checkpoint"].value == 1
    history = bench.control.transitions("desktop")
    assert f"dagster run {result.run_id}" in {moved.actor for moved in history}


def test_materializing_again_adopts(bench: Bench) -> None:
    bench.materialize("desktop")
    generation = bench.control.status("desktop").generation
    result = bench.materialize("desktop")
    event = result.get_asset_materialization_events()[0]
    assert event.step_materialization_data.materialization.metadata["ds_dagster/outcome"].value == "adopted"
    assert bench.control.status("desktop").generation == generation
    assert bench.launcher.starts == 1


def test_checks_run_with_the_launch(bench: Bench) -> None:
    verdicts = checks(bench.materialize("desktop"))
    assert verdicts == {
        ("desktop", "running"): True,
        ("desktop", "lag"): True,
        ("desktop", "progress"): True,
        ("desktop", "definition_current"): True,
        ("desktop", "fresh"): True,
    }


def test_partial_success_keeps_the_good_ones(bench: Bench) -> None:
    bench.answers["counts"] = {
        "state": "FAILED",
        "condition": "STORE_LOGIN_REFUSED",
        "message": "the store refused",
        "hint": "correct the password",
    }
    bench.control.places.job_log("counts").parent.mkdir(parents=True)
    bench.control.places.job_log("counts").write_text("first\nlast line of the log\n", encoding="utf-8")
    result = bench.materialize("desktop", "counts")
    assert not result.success
    assert materialized(result) == ["desktop"]
    text = failure_text(result)
    assert "counts: the store refused [STORE_LOGIN_REFUSED]" in text
    assert "hint: correct the password" in text
    data = next(event.step_failure_data for event in result.all_events if event.is_step_failure)
    assert data.user_failure_data is not None
    assert "last line of the log" in str(data.user_failure_data.metadata["ds_dagster/log/counts"].value)


def test_a_retry_from_asset_failure_requests_what_failed_alone(bench: Bench, instance: dg.DagsterInstance) -> None:
    """Dagster's own choice of what to run again: of one step that started four relations, the one that failed."""
    bench.answers["visits"] = {"state": "FAILED", "condition": "STORE_LOGIN_REFUSED", "message": "the store refused"}
    first = bench.materialize("visits", "desktop", "counts", instance=instance)
    assert materialized(first) == ["desktop", "counts"]
    run = instance.get_run_by_id(first.run_id)
    assert run is not None and run.execution_plan_snapshot_id is not None
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    assets, checks = instance.run_domain.get_keys_to_reexecute(run.run_id, plan)
    assert assets == {key("visits")}
    before = {status.name: status.generation for status in bench.control.statuses()}
    del bench.answers["visits"]
    job = bench.definitions().resolve_implicit_global_asset_job_def()
    second = job.get_subset(asset_selection=assets, asset_check_selection=checks).execute_in_process(instance=instance)
    assert materialized(second) == ["visits"]
    after = {status.name: status.generation for status in bench.control.statuses()}
    assert {name for name in after if after[name] != before[name]} == {"visits"}


def test_a_query_that_does_not_come_up_in_time_is_named(bench: Bench) -> None:
    bench.answers["visits"] = {"state": "STARTING"}
    result = bench.materialize("visits", "desktop", ds_streams={"start_timeout_seconds": 5})
    assert materialized(result) == ["desktop"]
    assert "RELATION_NOT_STARTED" in failure_text(result)
    assert "visits" in failure_text(result)


@pytest.mark.parametrize(
    ("action", "state", "version"), [("restart", "RUNNING", 1), ("reset", "RUNNING", 2), ("stop", "STOPPED", 1)]
)
def test_run_config_actions(bench: Bench, action: str, state: str, version: int) -> None:
    bench.apply()
    before = bench.control.status("desktop").generation
    result = bench.materialize("desktop", ds_streams={"action": action, "allow_duplicates": True})
    assert result.success
    assert materialized(result) == ([] if action == "stop" else ["desktop"]), "a stopped query made nothing"
    bench.work()
    status = bench.control.status("desktop")
    assert (status.state, status.checkpoint_version) == (state, version)
    assert status.generation == before + 1
    assert bench.control.status("counts").generation == 1, "only what was selected"


def test_partial_results_have_a_switch_where_a_query_can_be_restarted() -> None:
    for config in (DsRunConfig(allow_partial=True, empty=True), DsControlConfig(action="restart", allow_partial=True)):
        assert config.consents()[-1:] == ("partial",)
    assert DsRunConfig(empty=True).consents() == ("empty",)
    assert "allow_partial" not in DsLoadConfig.model_fields


def test_a_reset_that_doubles_rows_needs_its_consent_in_the_config(bench: Bench) -> None:
    bench.apply()
    result = bench.materialize("desktop", "visits", ds_streams={"action": "reset"})
    text = failure_text(result)
    assert "RESET_WOULD_DOUBLE" in text
    assert "in Dagster `from_now`, `empty`, `allow_duplicates`" in text
    bench.work()
    assert bench.control.status("desktop").checkpoint_version == 1
    assert bench.control.status("visits").checkpoint_version == 2, "a view is built again"


def test_a_stop_that_takes_too_long_is_named(bench: Bench) -> None:
    bench.apply()
    bench.answers["desktop"] = {"state": "STOPPING"}
    result = bench.materialize("desktop", ds_streams={"action": "stop", "start_timeout_seconds": 5})
    assert "RELATION_NOT_STOPPED" in failure_text(result)
    assert bench.control.status("desktop").desired == "STOPPED", "the request holds"


def test_stopping_what_was_never_started_fails_nothing(bench: Bench) -> None:
    result = bench.materialize("desktop", ds_streams={"action": "stop"})
    assert result.success
    assert materialized(result) == []
    assert bench.control.status("desktop").state == "ABSENT"


def test_a_changed_definition_is_refused_with_what_to_do(bench: Bench) -> None:
    bench.apply()
    bench.says("desktop", batch=3)
    changed = (bench.project.root / "sql" / "streams.sql").read_text(encoding="utf-8").replace("UPPER", "LOWER")
    write_project(bench.project.root, streams=changed)
    bench.forget()
    result = bench.materialize("desktop")
    assert not result.success
    assert "DEFINITION_CHANGED" in failure_text(result)
    assert "restart" in failure_text(result) or "reset" in failure_text(result)
    assert bench.control.status("desktop").state == "RUNNING", "the old one goes on"


def test_an_engine_that_cannot_start_is_the_failure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from ds_dagster.errors import error

    def fails(self: object, watch: object, seconds: float) -> None:
        raise error("ENGINE_START_FAILED", code=1, reason="no java", log="engine.out")

    monkeypatch.setattr(type(bench.launcher), "ensure", fails)
    result = bench.materialize("desktop")
    assert "ENGINE_START_FAILED" in failure_text(result)


@pytest.mark.parametrize(
    ("choice", "starting", "running"),
    [(None, "STOPPED", "RUNNING"), (True, "STOPPED", "STOPPED"), (False, "RUNNING", "RUNNING")],
)
def test_what_a_terminated_run_takes_back(bench: Bench, choice: bool | None, starting: str, running: str) -> None:
    """``counts`` comes up before the run ends, ``desktop`` does not, ``visits`` ran before."""
    bench.apply("visits")
    bench.answers["desktop"] = {"state": "STARTING"}
    slept = 0

    def terminate() -> None:
        nonlocal slept
        slept += 1
        bench.work()
        if slept > 3:
            raise DagsterExecutionInterruptedError

    bench.clock.on_sleep = terminate
    assert not bench.materialize("desktop", "counts", "visits", ds_streams={"cancel_on_termination": choice}).success
    wanted = {status.name: status.desired for status in bench.control.statuses()}
    assert wanted == {"desktop": starting, "counts": running, "visits": "RUNNING"}


def test_a_broken_insert_keeps_the_relation_from_being_green(bench: Bench) -> None:
    more = """
CREATE STREAM merged (url VARCHAR) WITH ('topic'='merged', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1);
INSERT INTO merged SELECT url FROM clicks QUERY WITH ('query.name'='good');
INSERT INTO merged SELECT nothing FROM clicks QUERY WITH ('query.name'='bad');
"""
    write_project(bench.project.root, more=more)
    result = bench.materialize("merged")
    assert not result.success
    assert materialized(result) == []
    assert "UNKNOWN_COLUMN" in failure_text(result)
    assert bench.control.status("good").state == "RUNNING", "the valid query runs"


def test_control_job_does_nothing_by_default(bench: Bench) -> None:
    bench.apply()
    job = bench.definitions().resolve_job_def("ds_control")
    with pytest.raises(dg.DagsterInvalidConfigError, match="action"):
        job.execute_in_process()
    result = job.execute_in_process(
        run_config={"ops": {"ds_control_op": {"config": {"action": "stop"}}}}, raise_on_error=False
    )
    assert "CONTROL_WITHOUT_QUERIES" in failure_text(result)
    assert {status.desired for status in bench.control.statuses()} == {"RUNNING"}


def test_control_job_stops_orphans_and_restarts_by_name(bench: Bench, instance: dg.DagsterInstance) -> None:
    bench.apply()
    streams = bench.project.root / "sql" / "streams.sql"
    text = streams.read_text(encoding="utf-8")
    streams.write_text(text[: text.index("CREATE MATERIALIZED VIEW")], encoding="utf-8")
    bench.forget()
    assert [orphan.name for orphan in bench.control.orphans(bench.project.project)] == ["visits"]
    job = bench.definitions().resolve_job_def("ds_control")

    def run(**config: Any) -> dg.ExecuteInProcessResult:
        return job.execute_in_process(
            instance=instance, run_config={"ops": {"ds_control_op": {"config": config}}}, raise_on_error=False
        )

    assert run(action="stop", queries=["visits"]).success
    assert bench.control.orphans(bench.project.project) == ()
    generation = bench.control.status("desktop").generation
    assert not run(action="stop").success, "neither names nor all"
    assert not run(action="stop", queries=["desktop"], all=True).success
    assert bench.control.status("desktop").desired == "RUNNING"
    assert run(action="restart", all=True).success
    assert bench.control.status("desktop").generation == generation + 1
    assert not run(action="restart", queries=["nothing"]).success


def control(bench: Bench, **config: Any) -> dg.ExecuteInProcessResult:
    """One run of the control job, which waits for a few rounds of the engine."""
    job = bench.definitions().resolve_job_def("ds_control")
    short = {"ds_control": {"config": {"start_timeout_seconds": 5}}}
    run_config = {"ops": {"ds_control_op": {"config": config}}, "resources": short}
    return job.execute_in_process(run_config=run_config, raise_on_error=False)


def test_control_job_fails_when_a_query_does_not_come_up(bench: Bench) -> None:
    bench.apply()
    bench.answers["desktop"] = {"state": "FAILED", "condition": "STORE_LOGIN_REFUSED", "message": "refused", "hint": ""}
    bench.answers["visits"] = {"state": "STARTING"}
    result = control(bench, action="restart", all=True)
    assert not result.success
    text = failure_text(result)
    assert "desktop: refused [STORE_LOGIN_REFUSED]" in text
    assert "RELATION_NOT_STARTED" in text and "visits" in text
    assert "counts" not in text


def test_control_job_fails_when_a_query_does_not_stop(bench: Bench) -> None:
    bench.apply()
    bench.answers["desktop"] = {"state": "STOPPING"}
    result = control(bench, action="stop", queries=["desktop"])
    assert "RELATION_NOT_STOPPED" in failure_text(result)
    bench.answers.clear()
    bench.work()
    assert control(bench, action="stop", queries=["counts"]).success


def test_control_job_does_not_wait_for_a_load_that_it_resets(bench: Bench) -> None:
    bench.apply()
    bench.materialize("loaded")
    start = bench.clock.monotonic()
    assert control(bench, action="reset", queries=["loaded"], allow_duplicates=True).success
    assert bench.clock.monotonic() - start < 5
