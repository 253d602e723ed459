"""``@partitions``: the values that are valid, the windows they become, what is refused, and the range that a run
computes again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from pathlib import Path

import dagster as dg
import pytest

from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.ranges import Replaced, TimeRange
from ds_dagster.orchestration import DsProject, DsTranslator, build_ds_definitions
from ds_dagster.orchestration.partitions import time_windows
from ds_dagster.runtime.backfill import Backfill, PlannedRange
from ds_dagster.sql.partitions import Partitions, partitions_of
from ds_dagster.stores.kafka.past import TopicPast
from tests.orchestration.conftest import STORES, Bench, failure_text, key, write_project

SOURCE = """
CREATE STREAM clicks (at TIMESTAMP_LTZ(3), url VARCHAR)
  WITH ('topic'='clicks', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1);
"""
TABLE = """
-- Each click.
-- @partitions daily from 2026-05-01 lateness 1h
CREATE TABLE loaded WITH ('store'='warehouse', 'refresh.mode'='incremental') AS SELECT at, url FROM clicks;
"""


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("daily from 2026-05-01", Partitions("daily", date(2026, 5, 1))),
        ("HOURLY FROM 2026-05-01 BY at", Partitions("hourly", date(2026, 5, 1), "at")),
        ("weekly from 2026-05-06 lateness 2d", Partitions("weekly", date(2026, 5, 6), "", 172_800)),
        ("monthly from 2026-05-01 by at lateness 90 m", Partitions("monthly", date(2026, 5, 1), "at", 5400)),
        ("monthly from 2026-05-02", None),
        ("daily from 2026-02-30", None),
        ("daily from 2026-5-1", None),
        ("daily", None),
        ("yearly from 2026-01-01", None),
        ("daily from 2026-05-01 lateness soon", None),
        ("daily from 2026-05-01 lateness 1h by at", None),
        ("", None),
    ],
)
def test_values_of_the_tag(text: str, rule: Partitions | None) -> None:
    assert partitions_of(text) == rule


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("hourly from 2026-05-01", "2026-05-01-00:00", "2026-05-13-11:00"),
        ("daily from 2026-05-01", "2026-05-01", "2026-05-12"),
        ("weekly from 2026-05-06", "2026-05-06", "2026-05-06"),
        ("monthly from 2026-03-01", "2026-03-01", "2026-04-01"),
    ],
)
def test_windows_are_those_that_have_ended(text: str, first: str, last: str) -> None:
    rule = partitions_of(text)
    assert rule is not None
    windows = time_windows(rule)
    keys = windows.get_partition_keys(datetime(2026, 5, 13, 12, 30, tzinfo=timezone.utc))
    assert (keys[0], keys[-1]) == (first, last)
    begin = windows.time_window_for_partition_key(first).start
    assert begin == datetime(rule.begin.year, rule.begin.month, rule.begin.day, tzinfo=timezone.utc)


@pytest.fixture
def partitioned(folder: Path, bench: Bench) -> Bench:
    """The workbench with a partitioned table alone."""
    write_project(folder, stores=STORES, streams=SOURCE, tables=TABLE)
    bench.forget()
    return bench


def test_the_asset_has_the_windows_and_one_run_for_a_range(partitioned: Bench) -> None:
    definitions = partitioned.definitions()
    assert partitioned.project.project.diagnostics == ()
    node = definitions.resolve_asset_graph().get(key("loaded"))
    assert isinstance(node.partitions_def, dg.TimeWindowPartitionsDefinition)
    assert node.partitions_def.get_first_partition_key() == "2026-05-01"
    assert node.backfill_policy == dg.BackfillPolicy.single_run()
    assert definitions.resolve_asset_graph().get(key("clicks")).partitions_def is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda sql: sql.replace("2026-05-01", "2026-05-01 by url"), "url is not one of its columns of a TIMESTAMP"),
        (lambda sql: sql.replace("AS SELECT at", "AS SELECT at, at AS again"), "2 columns of a TIMESTAMP type"),
        (lambda sql: sql.replace("incremental", "full"), "every load replaces all of it"),
        (lambda sql: sql.replace("incremental", "continuous"), "its query never ends"),
        (lambda sql: sql.replace("at, url", "max(at) AS at, url").replace("clicks;", "clicks GROUP BY url;"), "by key"),
        (lambda sql: sql.replace("CREATE TABLE loaded WITH ('store'='warehouse', 'refresh.mode'='incremental')",
                                 "CREATE STREAM loaded"), "it is a stream"),
    ],
)  # fmt: skip
def test_what_ds_backfill_refuses_is_refused_when_it_loads(
    partitioned: Bench, change: Callable[[str], str], reason: str
) -> None:
    """A warning of ``ds check``; in Dagster an asset without partitions, whose check ``compiles`` says why."""
    write_project(partitioned.project.root, tables=change(TABLE))
    partitioned.forget()
    warning = next(d for d in partitioned.project.project.diagnostics if d.condition == "BACKFILL_REFUSED")
    assert warning.severity == "warning" and reason in warning.message, warning.message
    assert warning.span is not None and warning.span.file == "sql/tables.sql"
    graph = partitioned.definitions().resolve_asset_graph()
    assert graph.get(key("loaded")).partitions_def is None
    assert dg.AssetCheckKey(key("loaded"), "compiles") in graph.asset_check_keys
    (props,) = [props for props in partitioned.project.props if props.name.name == "loaded"]
    assert [mistake.condition for mistake in props.mistakes] == ["BACKFILL_REFUSED"] and props.is_executable


def test_a_store_that_cannot_exchange_ranges_is_refused(partitioned: Bench) -> None:
    stores = STORES + (
        "\nCREATE STORE lake WITH ('type' = DATABRICKS, 'uris' = 'https://dbc-1.cloud.databricks.com', "
        "'databricks.warehouse_id' = 'abc', 'databricks.app_token' = '${TOKEN:-none}', "
        "'databricks.cloud.s3.bucket' = 'shop');"
    )
    table = TABLE.replace("'store'='warehouse'", "'store'='lake'")
    write_project(partitioned.project.root, stores=stores, tables=table)
    partitioned.forget()
    messages = [diagnostic.message for diagnostic in partitioned.project.project.diagnostics]
    reason = "store lake does not replace ranges of rows in one transaction"
    assert messages == [f"rows of loaded cannot be replaced by a range of time: {reason}"]


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TimeRange, int | None, int | None, bool]]:
    """The ranges that are computed again; nothing is."""
    spans: list[tuple[TimeRange, int | None, int | None, bool]] = []

    def carried_out(backfill: Backfill, planned: PlannedRange) -> Replaced:
        assert planned.past.amount.records == 30
        spans.append((backfill.span, backfill.lateness, backfill.rate, backfill.has_late))
        return Replaced(4, 5)

    monkeypatch.setattr(Backfill, "planned", lambda _: PlannedRange(TopicPast("t", {"0": (10, 40)}), Tip(3, "d")))
    monkeypatch.setattr(Backfill, "carried_out", carried_out)
    return spans


def day(number: int) -> datetime:
    return datetime(2026, 5, number, tzinfo=timezone.utc)


Ranges = list[tuple[TimeRange, int | None, int | None, bool]]


def test_a_run_of_a_partition_loads_and_computes_its_range_again(partitioned: Bench, ranges: Ranges) -> None:
    job = partitioned.definitions().resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        asset_selection=[key("loaded")],
        partition_key="2026-05-03",
        run_config={"ops": {"load_shop_public_loaded": {"config": {"rate": 50, "with_late_rows": True}}}},
    )
    assert ranges == [(TimeRange("at", day(3), day(4)), 3600, 50, True)]
    (event,) = result.get_asset_materialization_events()
    materialization = event.step_materialization_data.materialization
    assert materialization.partition == "2026-05-03"
    figures = {name: value.value for name, value in materialization.metadata.items()}
    assert figures["dagster/partition_row_count"] == 5 and figures["ds_dagster/rows_deleted"] == 4
    assert figures["ds_dagster/rows_loaded"] == 7 and figures["ds_dagster/records_read"] == 30


def test_a_backfill_of_several_partitions_is_one_range(partitioned: Bench, ranges: Ranges) -> None:
    job = partitioned.definitions().resolve_implicit_global_asset_job_def()
    tags = {"dagster/asset_partition_range_start": "2026-05-03", "dagster/asset_partition_range_end": "2026-05-09"}
    result = job.execute_in_process(asset_selection=[key("loaded")], tags=tags)
    assert ranges == [(TimeRange("at", day(3), day(10)), 3600, None, False)]
    events = result.get_asset_materialization_events()
    partitions = [event.step_materialization_data.materialization.partition for event in events]
    assert partitions == [f"2026-05-0{number}" for number in range(3, 10)]
    metadata = events[0].step_materialization_data.materialization.metadata
    assert "dagster/partition_row_count" not in metadata, "it is not known of each"


def test_a_run_without_a_partition_is_a_load(partitioned: Bench, ranges: Ranges) -> None:
    result = partitioned.materialize("loaded")
    assert result.success and ranges == []


def test_a_run_of_a_partition_does_not_reset(partitioned: Bench, ranges: Ranges) -> None:
    job = partitioned.definitions().resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        asset_selection=[key("loaded")],
        partition_key="2026-05-03",
        run_config={"ops": {"load_shop_public_loaded": {"config": {"action": "reset"}}}},
        raise_on_error=False,
    )
    assert "[PARTITIONS_WITH_RESET]" in failure_text(result)
    assert ranges == [] and not partitioned.control.journal.exists()


def test_a_load_that_fails_replaces_nothing(partitioned: Bench, ranges: Ranges) -> None:
    partitioned.answers["loaded"] = {"state": "FAILED", "condition": "TARGET_DIFFERS", "message": "no", "rows": 0}
    job = partitioned.definitions().resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(asset_selection=[key("loaded")], partition_key="2026-05-03", raise_on_error=False)
    assert "[TARGET_DIFFERS]" in failure_text(result) and ranges == []


def test_a_translator_has_windows_of_another_zone(partitioned: Bench, ranges: Ranges) -> None:
    class Mine(DsTranslator):
        def get_partitions_def(self, props: object) -> dg.PartitionsDefinition | None:
            name = getattr(props, "name").name  # noqa: B009
            return dg.DailyPartitionsDefinition("2026-05-01", timezone="Europe/Berlin") if name == "loaded" else None

    job = partitioned.definitions(Mine()).resolve_implicit_global_asset_job_def()
    job.execute_in_process(asset_selection=[key("loaded")], partition_key="2026-05-03")
    ((span, *_),) = ranges
    assert span.begin == datetime(2026, 5, 2, 22, tzinfo=timezone.utc)


def test_an_automation_asks_for_the_newest_window(partitioned: Bench, instance: dg.DagsterInstance) -> None:
    table = TABLE.replace("-- Each click.", "-- @automation on_cron 30 * * * *")
    write_project(partitioned.project.root, tables=table)
    partitioned.forget()

    def asked_for(cursor: object, at: datetime) -> tuple[set[str], object]:
        definitions = partitioned.definitions()
        result = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor, evaluation_time=at)  # type: ignore[arg-type]
        return set(result.get_requested_partitions(key("loaded"))), result.cursor  # type: ignore[arg-type]

    _, cursor = asked_for(None, datetime(2026, 5, 9, 12, tzinfo=timezone.utc))
    names, cursor = asked_for(cursor, datetime(2026, 5, 9, 12, 31, tzinfo=timezone.utc))
    assert names == {"2026-05-08"}
    names, _ = asked_for(cursor, datetime(2026, 5, 9, 12, 32, tzinfo=timezone.utc))
    assert names == set()


def test_definitions_of_partitions_are_valid(partitioned: Bench) -> None:
    dg.Definitions.validate_loadable(build_ds_definitions(DsProject(partitioned.project.root)))
