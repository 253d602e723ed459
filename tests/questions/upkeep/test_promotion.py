"""Rows of a staged version are compared with those of the one that serves before it takes over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.upkeep.promotion import check_rows, in_order_of_progress
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.status import JobStatus
from ds_dagster.runtime.versioning import Versions
from ds_dagster.settings import Settings
from ds_dagster.stores.sqlite.views import SqliteViews
from tests.runtime.fakes import FakeClock

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092', 'tls.disabled' = TRUE);
CREATE STREAM clicks (url VARCHAR, n BIGINT) WITH ('store' = 'k', 'topic' = 'clicks', 'value.format' = 'json');
CREATE MATERIALIZED VIEW v AS SELECT url, COUNT(*) AS c FROM clicks GROUP BY url;
"""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def with_staged(sql: str, root: Path, clock: FakeClock) -> tuple[LoadedProject, Control]:
    """A query runs, and a changed definition of it is staged."""
    settings = Settings(root=root, sql=root / "sql", state=root / ".ds", store="k")
    first, changed = (
        compile_texts([("a.sql", sql.replace("COUNT(*)", call))], settings) for call in ("COUNT(*)", "SUM(n)")
    )
    control = Control.open(settings, clock=clock, environment={})  # type: ignore[arg-type]
    control.ensure(first, ["v"])
    Versions(control).stage(changed, "v")
    return changed, control


@pytest.fixture
def staged(tmp_path: Path, clock: FakeClock) -> Iterator[tuple[LoadedProject, Control]]:
    changed, control = with_staged(SQL, tmp_path, clock)
    yield changed, control
    control.journal.close()


def reads(control: Control, monkeypatch: pytest.MonkeyPatch, before: int, rows: int, caught_up: float | None) -> None:
    """What the stores count, and when the staged version was at its end."""
    counts = {0: before, 2: rows}
    monkeypatch.setattr(SqliteViews, "count_version", lambda *arguments: counts[arguments[-1]])
    status = replace(control.status("v@2"), state="RUNNING", caught_up=caught_up)
    monkeypatch.setattr(Control, "status", lambda *_: status)


@pytest.mark.parametrize(("before", "rows"), [(100, 110), (100, 90), (0, 5), (100, 100)])
def test_numbers_that_are_near_pass(
    staged: tuple[LoadedProject, Control], clock: FakeClock, monkeypatch: pytest.MonkeyPatch, before: int, rows: int
) -> None:
    reads(staged[1], monkeypatch, before, rows, clock.now())
    check_rows(*staged, "v", 5.0, 10.0)


@pytest.mark.parametrize(("before", "rows"), [(100, 111), (100, 89), (100, 0)])
def test_numbers_that_are_far_apart_ask_first(
    staged: tuple[LoadedProject, Control], clock: FakeClock, monkeypatch: pytest.MonkeyPatch, before: int, rows: int
) -> None:
    reads(staged[1], monkeypatch, before, rows, clock.now())
    with pytest.raises(DsError) as refused:
        check_rows(*staged, "v", 5.0, 10.0)
    assert refused.value.condition == "PROMOTION_CHANGES_ROWS"
    assert f"has {rows} rows, and the one that serves {before}" in refused.value.message
    check_rows(*staged, "v", 5.0, 100.0)


def test_rows_are_counted_when_everything_is_read(
    staged: tuple[LoadedProject, Control], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads(staged[1], monkeypatch, 100, 100, None)
    with pytest.raises(DsError) as refused:
        check_rows(*staged, "v", 5.0, 10.0)
    assert refused.value.condition == "PROMOTION_TIMED_OUT"
    assert clock.ticks > 105.0


def test_rows_are_counted_where_the_version_writes_and_not_where_the_files_write_by_now(
    staged: tuple[LoadedProject, Control], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db',"
    other += " 'postgres.username' = 'u', 'postgres.password' = 'p');"
    moved = SQL.replace("VIEW v AS", "VIEW v WITH ('store' = 'pg') AS") + other
    project = compile_texts([("a.sql", moved)], staged[0].settings)
    assert "v" in project.queries
    reads(staged[1], monkeypatch, 100, 50, clock.now())
    with pytest.raises(DsError, match="has 50 rows, and the one that serves 100"):
        check_rows(project, staged[1], "v", 5.0, 10.0)


def test_a_version_that_has_failed_is_not_waited_for(
    staged: tuple[LoadedProject, Control], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = replace(staged[1].status("v@2"), state="FAILED", message="it is broken", hint="", reported_generation=1)
    monkeypatch.setattr(Control, "status", lambda *_: status)
    began = clock.ticks
    with pytest.raises(DsError) as refused:
        check_rows(*staged, "v", 600.0, 10.0)
    assert refused.value.condition == "PROMOTION_GIVEN_UP" and "it is broken" in refused.value.message
    assert refused.value.hint == "`ds abandon v` drops the version"
    assert clock.ticks == began


def test_no_version_waits_for_a_slower_one(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("slow", "v", "failed", "late")
    views = "".join(SQL.splitlines(keepends=True)[-1].replace("VIEW v", f"VIEW {name}") for name in names)
    first, changed = (SQL.rpartition("CREATE")[0] + views.replace("COUNT(*)", call) for call in ("COUNT(*)", "SUM(n)"))
    settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", store="k")
    control = Control.open(settings, clock=clock, environment={})  # type: ignore[arg-type]
    control.ensure(compile_texts([("a.sql", first)], settings), names)
    for name in names:
        Versions(control).stage(compile_texts([("a.sql", changed)], settings), name)
    status, began = control.status, clock.ticks

    def seen(_: Control, job: str) -> JobStatus:
        since = {"v@2": began, "late@2": began + 3.0}.get(job)
        if job == "failed@2":
            return replace(status(job), state="FAILED", reported_generation=1)
        is_near = since is not None and clock.ticks >= since
        return replace(status(job), state="RUNNING", caught_up=clock.now() if is_near else None)

    monkeypatch.setattr(Control, "status", seen)
    order = [(name, round(clock.ticks - began)) for name in in_order_of_progress(control, names, 8.0)]
    assert order == [("v", 0), ("failed", 0), ("late", 3), ("slow", 8)]
    control.journal.close()


def test_a_query_without_a_staged_version_is_passed(staged: tuple[LoadedProject, Control]) -> None:
    Versions(staged[1]).abandon("v")
    check_rows(*staged, "v", 5.0, 10.0)


CHANGELOG = SQL.replace("MATERIALIZED VIEW v AS", "CHANGELOG v WITH ('store' = 'k') AS")


@pytest.mark.parametrize(("before", "rows", "is_refused"), [(100, 111, True), (100, 89, True), (100, 110, False)])
def test_rows_of_a_changelog_are_those_of_its_topics(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, before: int, rows: int, is_refused: bool
) -> None:
    changed, control = with_staged(CHANGELOG, tmp_path, clock)
    topics = {"v": before, "v-ds-v2": rows}
    monkeypatch.setattr("ds_dagster.questions.upkeep.folding.count_rows", lambda *arguments: topics[arguments[-1]])
    status = replace(control.status("v@2"), state="RUNNING", caught_up=clock.now())
    monkeypatch.setattr(Control, "status", lambda *_: status)
    if not is_refused:
        check_rows(changed, control, "v", 5.0, 10.0)
        return
    with pytest.raises(DsError) as refused:
        check_rows(changed, control, "v", 5.0, 10.0)
    assert refused.value.condition == "PROMOTION_CHANGES_ROWS"
    assert f"has {rows} rows, and the one that serves {before}" in refused.value.message
    check_rows(changed, control, "v", 5.0, 100.0)
    control.journal.close()
