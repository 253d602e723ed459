"""Runs in a Dagster step, as far as no Spark is needed: who ends them, and what becomes of a step that died."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ds_dagster.engine.step import HOLD_SECONDS, RENEW_SECONDS, StepRun
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.records import RequestState, StatusRow
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, engine_says, project, query


class NoSession:
    """A Spark session nobody may touch."""

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"the run asked Spark for {name}")


def test_a_run_that_is_stopped_while_it_waits_ends_before_it_loads(
    control: Control, settings: Settings, clock: FakeClock
) -> None:
    loaded = project(settings, query("a", "t"), query("load", "a", refresh="incremental"))
    control.ensure(loaded, ["a"])
    # it runs and has never caught up: the run waits for it
    engine_says(control, StatusRow("a", "RUNNING", generation=1, checkpoint_version=1, batch=3))
    stops: Iterator[object] = (control.stop(["load"]) for _ in range(1))
    clock.on_sleep = lambda: next(stops, None)
    began = clock.monotonic()
    result = control.run_in_session(loaded, "load", NoSession(), "ann")  # type: ignore[arg-type]
    assert (result.state, result.condition) == ("FAILED", "RUN_CANCELLED")
    assert "load" in result.message
    assert clock.monotonic() - began <= RENEW_SECONDS + 1
    assert control.status("load").desired == "STOPPED"


def test_a_step_that_died_gives_its_run_up_when_its_hold_is_over(
    control: Control, settings: Settings, clock: FakeClock
) -> None:
    loaded = project(settings, query("load", "t", refresh="incremental"))
    dead = control.request_run(loaded, "load", "ann")
    with control.journal.write() as connection:
        row = rows.request(connection, dead)
        assert row is not None
        held = replace(row, state="STEP", started=clock.now(), waiting_since=clock.now() + HOLD_SECONDS)
        rows.save_requests(connection, [held])
    clock.advance(HOLD_SECONDS - 1)
    assert control.request_run(loaded, "load", "bob") == dead, "it may still live"
    clock.advance(2)
    assert control.request_run(loaded, "load", "bob") != dead
    result = control.wait_run(dead)
    assert (result.state, result.condition) == ("FAILED", "RUN_ABANDONED")
    assert f"request {dead}" in result.message


def test_whoever_waits_for_the_run_of_a_step_that_died_is_told_so_when_its_hold_is_over(
    control: Control,
    settings: Settings,
    clock: FakeClock,
    living_engine: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run of a second step, a retry, that found the first one open. An engine lives, and has no part in it."""
    monkeypatch.setattr("ds_dagster.runtime.control.POLL_SECONDS", 1.0)  # else it asks six hundred times
    loaded = project(settings, query("load", "t", refresh="incremental"))
    dead = control.request_run(loaded, "load", "ann")
    with control.journal.write() as connection:
        row = rows.request(connection, dead)
        assert row is not None
        held = replace(row, state="STEP", started=clock.now(), waiting_since=clock.now() + HOLD_SECONDS)
        rows.save_requests(connection, [held])
    clock.on_sleep = living_engine
    began = clock.now()
    result = control.run_in_session(loaded, "load", NoSession(), "bob")  # type: ignore[arg-type]
    assert (result.state, result.condition) == ("FAILED", "RUN_ABANDONED")
    assert clock.now() - began <= HOLD_SECONDS + 1


def test_a_step_has_the_checkpoint_and_the_ledger_of_its_own_job(
    control: Control, settings: Settings, clock: FakeClock
) -> None:
    """A query that was renamed keeps those of the name that this one has."""
    id_ = control.request_run(project(settings, query("load", "t", refresh="incremental")), "load", "ann")
    with control.journal.read() as connection:
        request, job = rows.request(connection, id_), rows.jobs(connection, ["load"])["load"]
    assert request is not None
    taken = replace(job, identity="load~2")
    order = StepRun(settings, control.journal, clock, taken, request, StatusRow("load"))._order()
    assert order.checkpoint_name == "load~2"
    assert order.identity == control.journal.identity().sink("load~2", 1)


def test_whoever_waits_for_the_run_of_a_step_needs_no_engine(
    control: Control, settings: Settings, clock: FakeClock
) -> None:
    id_ = control.request_run(project(settings, query("load", "t", refresh="incremental")), "load", "ann")
    ends = clock.now() + 3 * HOLD_SECONDS

    def renew(state: RequestState) -> None:
        with control.journal.write() as connection:
            row = rows.request(connection, id_)
            assert row is not None
            held = replace(row, state=state, waiting_since=clock.now() + HOLD_SECONDS, rows=5)
            rows.save_requests(connection, [held])

    def later() -> None:
        clock.advance(HOLD_SECONDS / 2)
        renew("FINISHED" if clock.now() > ends else "STEP")

    renew("STEP")
    clock.on_sleep = later
    assert control.wait_run(id_).rows == 5
