"""The verdict table: every check over every kind of status."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from ds_dagster.errors import UserError
from ds_dagster.orchestration import DsTranslator
from ds_dagster.orchestration.health.checks import CHECK_FUNCTIONS, Health, Job
from ds_dagster.orchestration.health.cursor import Cursor
from ds_dagster.orchestration.health.report import Reporter
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.runtime.status import Change, JobStatus
from ds_dagster.sql.annotations import Freshness
from tests.orchestration.conftest import Bench

NOW = 10_000.0


def status(**values: Any) -> JobStatus:
    base: dict[str, Any] = {"name": "q", "job_id": "j", "relation": "r", "state": "RUNNING", "desired": "RUNNING"}
    return JobStatus(**{**base, **values})


def change(verdict: Any) -> Change:
    return Change("q", "r", verdict, "the filter changed")


CASES: list[tuple[str, JobStatus, Change | None, bool, str]] = [
    ("running", status(), None, True, "running"),
    ("running", status(state="STARTING", since=NOW - 10), None, False, "starting for 10 s"),
    ("running", status(state="STARTING", since=NOW - 400), None, False, "starting for 400 s"),
    ("running", status(state="FAILED", message="bad key", condition="X"), None, False, "FAILED: bad key"),
    ("running", status(state="BACKING_OFF", message="no answer"), None, False, "BACKING_OFF: no answer"),
    ("running", status(state="UNKNOWN"), None, False, "UNKNOWN"),
    ("running", status(state="ABSENT", message="the engine does not run"), None, False, "ABSENT: the engine"),
    ("running", status(state="ABSENT"), None, False, "ABSENT"),
    ("running", status(state="STOPPED", desired="STOPPED"), None, False, "stopped on request"),
    ("running", status(state="RUNNING", desired="STOPPED"), None, False, "a stop was requested; it is RUNNING"),
    ("running", status(state="STOPPED"), None, False, "STOPPED"),
    ("lag", status(lag_records=0, lag_seconds=900.0), None, True, "nothing waits"),
    ("lag", status(lag_records=5, lag_seconds=10.0), None, True, "5 records, 10 s behind"),
    ("lag", status(lag_records=5, lag_seconds=301.0), None, False, "5 records, 301 s behind"),
    ("lag", status(lag_records=5), None, True, "lag not known yet"),
    ("lag", status(), None, True, "lag not known yet"),
    ("lag", status(lag_seconds=301.0), None, False, "301 s behind"),
    ("lag", status(lag_seconds=0.0), None, True, "0 s behind"),
    ("lag", status(state="FAILED", lag_records=5, lag_seconds=1e6), None, False, "not known: the query is FAILED"),
    ("lag", status(state="STOPPED", desired="STOPPED", lag_records=0), None, False, "not known: the query is STOPPED"),
    ("progress", status(lag_records=5, progressed=NOW - 60), None, True, "60 s ago, 5 records wait"),
    ("progress", status(lag_records=5, progressed=NOW - 121), None, False, "121 s ago"),
    ("progress", status(lag_records=5, progressed=NOW - 999, started=NOW - 3), None, True, "3 s ago"),
    ("progress", status(lag_records=0, progressed=NOW - 999), None, True, "no input waits"),
    ("progress", status(state="FAILED", lag_records=0, progressed=NOW), None, False, "not known: the query is FAILED"),
    ("definition_current", status(), change("unchanged"), True, "current"),
    ("definition_current", status(), change("new"), True, "nothing runs"),
    ("definition_current", status(), change("keeps_checkpoint"), False, "with action restart"),
    ("definition_current", status(), change("needs_new_checkpoint"), False, "with action reset"),
    ("definition_current", status(), change("would_lose_data"), False, "(the filter changed)"),
    ("definition_current", status(desired="STOPPED"), change("keeps_checkpoint"), True, "nothing runs"),
    ("definition_current", status(), None, True, "nothing runs"),
    ("fresh", status(progressed=NOW - 599), None, True, "the last rows came 599 s ago"),
    ("fresh", status(progressed=NOW - 601), None, False, "the last rows came 601 s ago"),
    ("fresh", status(started=NOW - 3), None, True, "no data yet"),
    ("fresh", status(started=NOW - 601), None, False, "no data yet"),
    ("fresh", status(progressed=NOW - 601, started=NOW - 3), None, False, "601 s ago"),
    ("fresh", status(state="STOPPED", desired="STOPPED", progressed=NOW), None, False, "stopped"),
    ("fresh", status(state="RUNNING", desired="STOPPED", progressed=NOW), None, False, "stopped"),
    ("fresh", status(state="FAILED", progressed=NOW), None, False, "not known: the query is FAILED"),
    ("fresh", status(state="UNKNOWN", progressed=NOW), None, False, "not known: the query is UNKNOWN"),
]


@pytest.mark.parametrize(("name", "found", "changed", "passed", "reason"), CASES)
def test_verdicts(name: str, found: JobStatus, changed: Change | None, passed: bool, reason: str) -> None:
    job = Job(found, changed, NOW, freshness=Freshness(600, "rows"), newest=found.progressed)
    verdict = CHECK_FUNCTIONS[name](job)
    assert verdict.passed is passed
    assert reason in verdict.reason
    assert bool(verdict.condition) or passed or name != "running"


@pytest.mark.parametrize(
    ("found", "severity"),
    [
        (status(state="STOPPED", desired="STOPPED"), "WARN"),
        (status(state="STARTING", since=NOW - 10), "WARN"),
        (status(state="STARTING", since=NOW - 400), "ERROR"),
        (status(state="BACKING_OFF", condition="STORE_UNREACHABLE"), "WARN"),
        (status(state="ABSENT"), "WARN"),
        (status(state="ABSENT", condition="ENGINE_NOT_RUNNING"), "ERROR"),
        (status(state="UNKNOWN", condition="ENGINE_NOT_RUNNING"), "ERROR"),
        (status(state="UNKNOWN", condition="ENGINE_SILENT"), "ERROR"),
        (status(state="FAILED", condition="X"), "ERROR"),
    ],
)
def test_what_comes_back_is_a_warning_what_is_dead_an_error(found: JobStatus, severity: str) -> None:
    verdict = CHECK_FUNCTIONS["running"](Job(found, None, NOW))
    assert (verdict.passed, verdict.severity.value) == (False, severity)


def test_every_check_has_both_outcomes() -> None:
    assert {(name, passed) for name, _, _, passed, _ in CASES} == {
        (n, p) for n in CHECK_FUNCTIONS for p in (True, False)
    }


def test_a_relation_that_was_never_started_is_not_running(bench: Bench) -> None:
    props = bench.project.streams[0]
    health = Health({}, {}, NOW)
    assert not health.verdict("running", props).passed
    assert health.verdict("lag", props).passed


def test_the_worst_query_of_a_relation_decides(bench: Bench) -> None:
    props = bench.project.streams[0]
    (query,) = props.queries
    health = Health({query.name: status(name=query.name, state="FAILED")}, {}, NOW)
    assert not health.verdict("running", props).passed
    assert health.of(props)[0].state == "FAILED"


def test_the_comment_sets_the_lag_that_is_borne(bench: Bench) -> None:
    sql = bench.project.root / "sql" / "streams.sql"
    sql.write_text(sql.read_text(encoding="utf-8").replace("-- @freshness 10m", "-- @max_lag 2h"), encoding="utf-8")
    props = next(p for p in bench.project.streams if p.name.name == "desktop")
    slow = {"desktop": status(name="desktop", lag_records=1, lag_seconds=3600.0)}
    assert Health(slow, {}, NOW).verdict("lag", props).passed
    slower = {"desktop": status(name="desktop", lag_records=1, lag_seconds=7201.0)}
    assert not Health(slower, {}, NOW).verdict("lag", props).passed


@pytest.mark.parametrize(
    ("tag", "newest", "passed", "reason"),
    [
        ("10m", 500.0, False, "the last rows came 9500 s ago"),
        ("3h", 500.0, True, "the last rows came 9500 s ago"),
        ("10m of watermark", 9_000.0, False, "event time is 1000 s behind"),
        ("20m of watermark", 9_000.0, True, "event time is 1000 s behind"),
        ("10m of heartbeat", 9_990.0, True, "it was seen to run 10 s ago"),
    ],
)
def test_the_comment_sets_what_is_fresh(bench: Bench, tag: str, newest: float, passed: bool, reason: str) -> None:
    sql = bench.project.root / "sql" / "streams.sql"
    sql.write_text(sql.read_text(encoding="utf-8").replace("@freshness 10m", f"@freshness {tag}"), encoding="utf-8")
    props = next(p for p in bench.project.streams if p.name.name == "desktop")
    figures = {"progressed": 500.0, "watermark": 9_000.0, "beat": 9_990.0}
    assert newest in figures.values()
    verdict = Health({"desktop": status(name="desktop", **figures)}, {}, NOW).verdict("fresh", props)
    assert (verdict.passed, verdict.reason) == (passed, reason)


def test_a_translator_leaves_checks_out_and_names_no_others(bench: Bench, instance: dg.DagsterInstance) -> None:
    class Fewer(DsTranslator):
        def get_check_specs(self, props: RelationProps) -> list[dg.AssetCheckSpec]:
            return [spec for spec in super().get_check_specs(props) if spec.name in ("running", "fresh")]

    class Others(DsTranslator):
        def get_check_specs(self, props: RelationProps) -> list[dg.AssetCheckSpec]:
            return [dg.AssetCheckSpec("row_count", asset=self.get_asset_key(props.name))]

    bench.apply()
    health = Health.read(bench.control, bench.project)
    reporter = Reporter(health, Fewer(), instance, False, bench.clock.monotonic)
    events = reporter.report(bench.project.streams, Cursor()).events
    found = {(e.asset_key.path[-1], e.check_name) for e in events if isinstance(e, dg.AssetCheckEvaluation)}
    assert found == {("desktop", "running"), ("desktop", "fresh"), ("counts", "running"), ("visits", "running")}
    with pytest.raises(UserError, match="row_count") as refused:
        bench.definitions(Others())
    assert refused.value.condition == "CHECK_UNKNOWN"


def test_a_journal_that_cannot_be_read_fails_the_checks_with_its_reason(bench: Bench) -> None:
    bench.apply()
    bench.kill_engine()
    bench.control.places.state.joinpath("journal.db").write_bytes(b"no database")
    look = dg.define_asset_job("look", selection=dg.AssetSelection.all_asset_checks())
    definitions = dg.Definitions.merge(bench.definitions(engine_asset=True), dg.Definitions(jobs=[look]))
    result = definitions.resolve_job_def("look").execute_in_process(raise_on_error=False)
    failures = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert len(failures) == 2, "of the queries, of the engine"
    for failure in failures:
        assert failure.user_failure_data is not None, "a reason, not a traceback"
        assert failure.user_failure_data.metadata["ds_dagster/condition"].value == "JOURNAL_CORRUPT"
