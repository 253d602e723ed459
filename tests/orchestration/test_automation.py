"""``@automation``: the values that are valid, when Dagster asks by itself, and what such a run does."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial

import dagster as dg
import pytest
from dagster._core.storage.tags import AUTOMATION_CONDITION_TAG
from dagster._utils.schedules import is_valid_cron_string

from ds_dagster.orchestration.automation import AUTOMATION_NAME
from ds_dagster.runtime.deciding.desired import taken_over
from ds_dagster.runtime.journals import rows
from ds_dagster.sql.annotations import Automation, automation_of
from tests.orchestration.conftest import STREAMS, TABLES, Bench, key, materialized, write_project

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
BY_AUTOMATION = {AUTOMATION_CONDITION_TAG: "true"}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("on_change", Automation()),
        ("ON_CHANGE", Automation()),
        ("on_cron 0 6 * * *", Automation("0 6 * * *")),
        ("on_cron */15 8-18 1,15 * 1-5 Europe/Berlin", Automation("*/15 8-18 1,15 * 1-5", "Europe/Berlin")),
        ("on_change now", None),
        ("on_cron", None),
        ("on_cron 0 6 * *", None),
        ("on_cron 60 6 * * *", None),
        ("on_cron 0 6 0 * *", None),
        ("on_cron 0 18-8 * * *", None),
        ("on_cron */0 6 * * *", None),
        ("on_cron 0 6 * * * Mars/Olympus", None),
        ("on_cron 0 6 * * * UTC extra", None),
        ("eager", None),
        ("", None),
    ],
)
def test_values_of_the_tag(text: str, rule: Automation | None) -> None:
    assert automation_of(text) == rule
    if rule is not None and rule.cron:
        assert is_valid_cron_string(rule.cron)


def automated(bench: Bench, *, table: str = "on_change") -> None:
    """Write the project with @automation above a stream and above the table."""
    streams = STREAMS.replace("-- Clicks from desktop", "-- @automation on_change\n-- Clicks from desktop")
    write_project(bench.project.root, streams=streams, tables=f"-- @automation {table}\n{TABLES.lstrip()}")
    bench.forget()


def requested(bench: Bench, instance: dg.DagsterInstance, cursor: object, at: datetime) -> tuple[set[str], object]:
    """The relations that the conditions ask for at a moment, and the cursor after it."""
    result = dg.evaluate_automation_conditions(bench.definitions(), instance, cursor=cursor, evaluation_time=at)  # type: ignore[arg-type]
    names = ("clicks", "desktop", "counts", "visits", "loaded")
    return {name for name in names if result.get_num_requested(key(name))}, result.cursor


def test_a_changed_definition_is_asked_for_once(bench: Bench, instance: dg.DagsterInstance) -> None:
    automated(bench)
    names, cursor = requested(bench, instance, None, NOON)
    assert names == set(), "nothing has changed since the first look"
    sql = bench.project.root / "sql" / "streams.sql"
    sql.write_text(sql.read_text(encoding="utf-8").replace("UPPER", "LOWER"), encoding="utf-8")
    bench.forget()
    names, cursor = requested(bench, instance, cursor, NOON + timedelta(minutes=1))
    assert names == {"desktop"}, "counts has no @automation"
    names, _ = requested(bench, instance, cursor, NOON + timedelta(minutes=2))
    assert names == set()


def test_a_load_is_asked_for_when_its_input_has_news(bench: Bench, instance: dg.DagsterInstance) -> None:
    automated(bench)
    instance.report_runless_asset_event(dg.AssetMaterialization(key("counts")))
    _, cursor = requested(bench, instance, None, NOON)
    instance.report_runless_asset_event(dg.AssetMaterialization(key("counts")))
    names, _ = requested(bench, instance, cursor, NOON + timedelta(minutes=1))
    assert names == {"loaded"}


def test_a_load_by_schedule(bench: Bench, instance: dg.DagsterInstance) -> None:
    automated(bench, table="on_cron 30 * * * *")
    instance.report_runless_asset_event(dg.AssetMaterialization(key("counts")))
    _, cursor = requested(bench, instance, None, NOON)
    names, cursor = requested(bench, instance, cursor, NOON + timedelta(minutes=29))
    assert names == set()
    names, cursor = requested(bench, instance, cursor, NOON + timedelta(minutes=31))
    assert names == {"loaded"}
    names, _ = requested(bench, instance, cursor, NOON + timedelta(minutes=32))
    assert names == set()


def test_the_sensor_runs_by_default_and_is_there_only_where_it_is_used(bench: Bench) -> None:
    assert AUTOMATION_NAME not in {sensor.name for sensor in bench.definitions().sensors or ()}
    automated(bench)
    sensor = next(s for s in bench.definitions().sensors or () if s.name == AUTOMATION_NAME)
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING  # type: ignore[union-attr]
    defs = bench.definitions()
    selected = sensor.asset_selection.resolve(defs.resolve_asset_graph())  # type: ignore[union-attr]
    assert selected == {key("desktop"), key("loaded")}


def change_the_filter(bench: Bench) -> None:
    """A change that keeps the checkpoint of ``desktop``: it has no state."""
    sql = bench.project.root / "sql" / "streams.sql"
    sql.write_text(sql.read_text(encoding="utf-8").replace("UPPER", "LOWER"), encoding="utf-8")
    bench.forget()


def test_a_materialization_takes_over_a_change_that_keeps_the_checkpoint(bench: Bench) -> None:
    automated(bench)
    bench.apply()
    bench.says("desktop", batch=3)
    change_the_filter(bench)
    result = bench.materialize("desktop")
    assert materialized(result) == ["desktop"]
    status = bench.control.status("desktop")
    assert status.fingerprint == bench.project.project.queries["desktop"].fingerprint
    assert status.checkpoint_version == 1


def test_an_automation_leaves_a_stopped_query_alone(bench: Bench) -> None:
    automated(bench)
    bench.apply()
    bench.control.stop(["desktop"])
    bench.work()
    result = bench.materialize("desktop", tags=BY_AUTOMATION)
    assert result.success
    assert materialized(result) == []
    assert bench.control.status("desktop").state == "STOPPED"
    assert materialized(bench.materialize("desktop")) == ["desktop"], "a person starts it"


def rename_desktop(bench: Bench) -> None:
    """The query ``desktop`` gets another name; it writes the topic that it has."""
    sql = bench.project.root / "sql" / "streams.sql"
    text = sql.read_text(encoding="utf-8")
    text = text.replace("-- @automation", "-- @renamed_from desktop\n-- @automation", 1)
    text = text.replace("CREATE STREAM desktop AS", "CREATE STREAM office WITH ('topic' = 'desktop') AS")
    sql.write_text(text, encoding="utf-8")
    bench.forget()


def work_with_names(bench: Bench) -> None:
    """A round of the engine that gives jobs their new names too."""
    with bench.control.journal.write() as connection:
        for name, job in rows.jobs(connection).items():
            if job.becomes:
                rows.delete_job(connection, name)
                rows.insert_jobs(connection, [taken_over(job)])
    bench.work()


def test_an_automation_leaves_a_query_alone_that_was_stopped_under_its_former_name(bench: Bench) -> None:
    automated(bench)
    bench.apply()
    bench.says("desktop", batch=3)
    bench.control.stop(["desktop"])
    bench.work()
    rename_desktop(bench)
    bench.clock.on_sleep = partial(work_with_names, bench)
    result = bench.materialize("office", tags=BY_AUTOMATION)
    assert result.success
    assert materialized(result) == []
    assert (bench.control.status("desktop").state, bench.control.status("office").state) == ("STOPPED", "ABSENT")
    assert materialized(bench.materialize("office")) == ["office"], "a person starts it"
    assert bench.control.status("office").desired == "RUNNING"


def test_an_automation_renames_a_query_that_runs(bench: Bench) -> None:
    automated(bench)
    bench.apply()
    bench.says("desktop", batch=3)
    rename_desktop(bench)
    bench.clock.on_sleep = partial(work_with_names, bench)
    assert materialized(bench.materialize("office", tags=BY_AUTOMATION)) == ["office"]
    assert bench.control.status("office").desired == "RUNNING"


def test_a_load_from_a_source_that_was_never_observed_is_asked_for(bench: Bench, instance: dg.DagsterInstance) -> None:
    """A source is never materialized: it is not missing."""
    automated(bench)
    tables = TABLES.replace("SELECT url, n FROM counts", "SELECT url, device FROM clicks")
    write_project(bench.project.root, tables=f"-- @automation on_cron 30 * * * *\n{tables.lstrip()}")
    bench.forget()
    _, cursor = requested(bench, instance, None, NOON)
    names, _ = requested(bench, instance, cursor, NOON + timedelta(minutes=31))
    assert names == {"loaded"}


def test_an_automation_starts_a_query_that_is_new(bench: Bench) -> None:
    """What was never started was not stopped either."""
    automated(bench)
    result = bench.materialize("desktop", tags=BY_AUTOMATION)
    assert materialized(result) == ["desktop"]
    assert bench.control.status("desktop").state == "RUNNING"
