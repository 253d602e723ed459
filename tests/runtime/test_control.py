"""Requests: what each leads to, what is refused, and that a refusal writes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import update

from ds_dagster.errors import UserError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime import asking
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding import changes
from ds_dagster.runtime.journals import rows, schema
from ds_dagster.runtime.journals.records import JobRow, StatusRow
from ds_dagster.runtime.status import Ensured, JobState
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, engine_says, project, query


def job(control: Control, name: str) -> JobRow:
    with control.journal.read() as connection:
        return rows.jobs(connection)[name]


def running(control: Control, name: str, batch: int | None = 3) -> None:
    row = job(control, name)
    engine_says(
        control,
        StatusRow(name, "RUNNING", generation=row.generation, checkpoint_version=row.checkpoint_version, batch=batch),
    )


def test_reading_an_untouched_project_creates_nothing(control: Control, settings: Settings) -> None:
    assert control.statuses() == ()
    assert control.status("a").state == "ABSENT"
    assert control.engines()[0].state == "GONE"
    assert control.transitions("a") == ()
    assert control.changes(project(settings, query("a", "t")))[0].verdict == "new"
    assert not settings.state.exists()


def test_a_first_request_wants_the_job_with_version_one(control: Control, settings: Settings) -> None:
    done = control.ensure(project(settings, query("a", "t")), ["a"], requested_by="ann")
    assert done == (Ensured("a", "requested", 1),)
    row = job(control, "a")
    assert (row.desired, row.checkpoint_version, row.requested_by) == ("RUNNING", 1, "ann")
    assert control.transitions("a")[0].actor == "ann"


def test_an_unchanged_running_job_is_adopted(control: Control, settings: Settings) -> None:
    loaded = project(settings, query("a", "t"))
    control.ensure(loaded, ["a"])
    running(control, "a")
    assert control.ensure(loaded, ["a"]) == (Ensured("a", "adopted", 1),)
    assert job(control, "a").generation == 1


def test_a_request_the_engine_has_not_seen_yet_is_adopted(control: Control, settings: Settings) -> None:
    loaded = project(settings, query("a", "t"))
    control.ensure(loaded, ["a"])
    assert control.ensure(loaded, ["a"])[0].outcome == "adopted"


@pytest.mark.parametrize("state", ["FAILED", "BACKING_OFF"])
def test_a_job_that_does_not_work_is_started_at_once(control: Control, settings: Settings, state: str) -> None:
    loaded = project(settings, query("a", "t"))
    control.ensure(loaded, ["a"])
    engine_says(control, StatusRow("a", state, generation=1, checkpoint_version=1, batch=2))  # type: ignore[arg-type]
    assert control.ensure(loaded, ["a"]) == (Ensured("a", "requested", 2),)
    assert job(control, "a").checkpoint_version == 1


@pytest.mark.parametrize(
    ("verdict", "word"),
    [("keeps_checkpoint", "restart"), ("needs_new_checkpoint", "reset"), ("would_lose_data", "cannot be read again")],
)
def test_a_changed_definition_of_a_running_job_is_refused(
    control: Control, settings: Settings, verdicts: dict[str, str], verdict: str, word: str
) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    verdicts["a"] = verdict
    before = job(control, "a")
    with pytest.raises(UserError) as raised:
        control.ensure(project(settings, query("a", "t", "2")), ["a"])
    assert raised.value.condition == "DEFINITION_CHANGED"
    assert word in raised.value.hint
    assert job(control, "a") == before


def test_a_refusal_writes_nothing_for_the_others(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    with pytest.raises(UserError):
        control.ensure(project(settings, query("b", "t"), query("a", "b", "2")), ["b", "a"])
    assert control.status("b").job_id == ""


def test_restart_keeps_the_checkpoint_when_the_change_allows(
    control: Control, settings: Settings, verdicts: dict[str, str]
) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    verdicts["a"] = "keeps_checkpoint"
    control.ensure(project(settings, query("a", "t", "2")), ["a"], "restart")
    row = job(control, "a")
    assert (row.generation, row.checkpoint_version, row.fingerprint) == (2, 1, "v1:a:2")


def test_restart_refuses_a_change_that_needs_a_new_checkpoint(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    with pytest.raises(UserError, match="reset"):
        control.ensure(project(settings, query("a", "t", "2")), ["a"], "restart")


def test_reset_takes_the_next_checkpoint_version(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    control.ensure(project(settings, query("a", "t", "2")), ["a"], "reset", allow=["duplicates"])
    assert job(control, "a").checkpoint_version == 2


def test_a_reset_that_doubles_rows_writes_nothing_without_consent(control: Control, settings: Settings) -> None:
    loaded = project(settings, query("a", "t"))
    control.ensure(loaded, ["a"], "reset")
    running(control, "a")
    before = job(control, "a")
    with pytest.raises(UserError) as raised:
        control.ensure(loaded, ["a"], "reset")
    assert raised.value.condition == "RESET_WOULD_DOUBLE"
    assert job(control, "a") == before


def test_a_reset_of_a_load_asks_too_and_a_full_load_never(control: Control, settings: Settings) -> None:
    for refresh, refused in (("incremental", True), ("full", False)):
        loaded = project(settings, query(refresh, "t", refresh=refresh))  # type: ignore[arg-type]
        control.withdraw_run(control.request_run(loaded, refresh))
        if refused:
            with pytest.raises(UserError, match="writes rows again"):
                control.request_run(loaded, refresh, action="reset")
            control.request_run(loaded, refresh, action="reset", allow=["duplicates"])
        else:
            control.request_run(loaded, refresh)
        assert job(control, refresh).checkpoint_version == 2


def test_a_plan_and_a_refusal_say_what_a_reset_would_double(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    changed = project(settings, query("a", "t", "2"), query("b", "a"))
    planned = {change.name: change.doubles for change in control.changes(changed)}
    assert planned == {"a": ("db.public.a",), "b": ()}
    with pytest.raises(UserError) as raised:
        control.ensure(changed, ["a"])
    assert "--allow duplicates" in raised.value.hint


def test_a_failed_job_that_never_finished_a_batch_takes_any_change(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    engine_says(control, StatusRow("a", "FAILED", generation=1, checkpoint_version=1))
    assert control.ensure(project(settings, query("a", "t", "2")), ["a"])[0].outcome == "requested"
    assert job(control, "a").checkpoint_version == 2


def test_a_failed_job_with_batches_takes_no_new_checkpoint_unasked(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    engine_says(control, StatusRow("a", "FAILED", generation=1, checkpoint_version=1, batch=5))
    with pytest.raises(UserError, match="DEFINITION_CHANGED"):
        control.ensure(project(settings, query("a", "t", "2")), ["a"])


@pytest.mark.parametrize("begins", ["from_now", "empty"])
def test_a_change_of_a_job_that_has_read_nothing_yet_begins_as_its_reset_was_told(
    control: Control, settings: Settings, begins: str
) -> None:
    """Else everything that the stream has already is written again."""
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    reset = project(settings, query("a", "t", "2"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "_check_empty", lambda *_: None)  # the stand-in for a project has no stores
        patch.setattr(changes, "_check_from_now", lambda *_: None)
        control.ensure(reset, ["a"], "reset", allow=[begins])  # type: ignore[list-item]
        engine_says(control, StatusRow("a", "STARTING", generation=2, checkpoint_version=2))
        control.ensure(project(settings, query("a", "t", "3")), ["a"], "restart")
    row = job(control, "a")
    assert (row.checkpoint_version, row.fingerprint, row.begins) == (3, "v1:a:3", begins)
    assert row.action == "restart"


def test_a_change_of_a_job_that_has_read_nothing_yet_empties_no_other_topic(
    control: Control, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    monkeypatch.setattr(changes, "_check_empty", lambda *_: None)
    control.ensure(project(settings, query("a", "t", "2")), ["a"], "reset", allow=["empty"])
    engine_says(control, StatusRow("a", "STARTING", generation=2, checkpoint_version=2))

    def refuse(_: object, bound: BoundQuery) -> None:
        raise error("RESET_NOT_EMPTY", name=bound.name, entity="s.other", reason="b writes it too")

    monkeypatch.setattr(changes, "_check_empty", refuse)
    before = job(control, "a")
    with pytest.raises(UserError, match="RESET_NOT_EMPTY"):
        control.ensure(project(settings, query("a", "t", "3")), ["a"], "restart")
    assert job(control, "a") == before


def test_a_job_that_goes_on_from_a_savepoint_has_rows_before_its_first_batch(
    control: Control, settings: Settings
) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    control.ensure(project(settings, query("a", "t")), ["a"], "reset", allow=["restored"])
    engine_says(control, StatusRow("a", "STARTING", generation=2, checkpoint_version=2))
    with pytest.raises(UserError, match="DEFINITION_CHANGED"):
        control.ensure(project(settings, query("a", "t", "2")), ["a"], "restart")
    assert job(control, "a").checkpoint_version == 2


def test_a_verdict_over_a_job_that_was_reset_meanwhile_is_not_applied(
    control: Control, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes at once: what one has compared, the other has changed before it was written."""
    first, second = (project(settings, query("a", "t", meaning)) for meaning in "12")
    control.ensure(first, ["a"])
    running(control, "a")
    compared = asking.changes_of
    resets = iter([lambda: control.ensure(second, ["a"], "reset", allow=["duplicates"])])

    def slow(*arguments: object) -> object:
        made = compared(*arguments)  # type: ignore[arg-type]
        for reset in resets:
            reset()
            running(control, "a")
        return made

    monkeypatch.setattr(asking, "changes_of", slow)
    with pytest.raises(UserError, match="DEFINITION_CHANGED"):
        control.ensure(first, ["a"], "restart")
    row = job(control, "a")
    assert (row.checkpoint_version, row.fingerprint) == (2, "v1:a:2")


def test_a_job_that_goes_while_it_is_stopped_is_unknown(
    control: Control, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    known = control._jobs()
    monkeypatch.setattr(Control, "_jobs", lambda _: known)
    with control.journal.write() as connection:
        rows.delete_job(connection, "a")
    with pytest.raises(UserError, match="JOB_UNKNOWN"):
        control.stop(["a"])


def test_stop_is_remembered_and_ensure_wants_it_again(control: Control, settings: Settings) -> None:
    loaded = project(settings, query("a", "t"))
    control.ensure(loaded, ["a"])
    assert control.stop(["a"]) == (Ensured("a", "stopped", 2),)
    assert control.stop(["a"]) == (Ensured("a", "nothing", 2),)
    assert control.ensure(loaded, ["a"]) == (Ensured("a", "requested", 3),)


def test_unknown_names_are_refused_with_the_nearest(control: Control, settings: Settings) -> None:
    loaded = project(settings, query("clicks", "t"))
    with pytest.raises(UserError, match="clicks") as raised:
        control.ensure(loaded, ["click"])
    assert raised.value.condition == "JOB_UNKNOWN"
    with pytest.raises(UserError, match="JOB_UNKNOWN"):
        control.stop(["click"])


def test_withdraw_takes_back_what_is_not_running_yet(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    assert control.withdraw(["a"], {"a": 1}) == (Ensured("a", "stopped", 2),)
    assert job(control, "a").desired == "STOPPED"


def test_withdraw_leaves_running_jobs_and_other_peoples_requests(control: Control, settings: Settings) -> None:
    loaded = project(settings, query("a", "t"))
    control.ensure(loaded, ["a"])
    running(control, "a")
    assert control.withdraw(["a"], {"a": 1})[0].outcome == "nothing"
    control.ensure(loaded, ["a"], "restart")
    assert control.withdraw(["a"], {"a": 1})[0].outcome == "nothing"
    assert control.withdraw(["a"], {"a": 2})[0].outcome == "stopped"


def test_orphans_are_jobs_no_statement_makes(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t"), query("b", "t")), ["a", "b"])
    left = project(settings, query("a", "t"))
    assert [o.name for o in control.orphans(left)] == ["b"]
    assert [(c.name, c.verdict) for c in control.changes(left)] == [("a", "unchanged"), ("b", "orphan")]
    control.stop(["b"])
    assert control.orphans(left) == ()


def test_wait_ends_on_proof_for_the_asked_generation(
    control: Control, settings: Settings, clock: FakeClock, living_engine: Callable[[], None]
) -> None:
    loaded = project(settings, query("a", "t"))
    control.ensure(loaded, ["a"])
    running(control, "a")
    control.ensure(loaded, ["a"], "restart")
    heard: list[str] = []
    clock.on_sleep = lambda: running(control, "a") if clock.monotonic() > 101 else None
    (status,) = control.wait(["a"], {"a": 2}, 10, on_change=lambda s: heard.append(s.state))
    assert status.reported_generation == 2
    assert clock.monotonic() < 103
    assert heard, "changes are told"


def test_wait_gives_up_after_its_time(control: Control, settings: Settings, clock: FakeClock) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    (status,) = control.wait(["a"], {"a": 1}, 5)
    assert status.state == "ABSENT"
    assert status.condition == "ENGINE_NOT_RUNNING"
    assert 105 <= clock.monotonic() < 106


@pytest.mark.parametrize("state", ["", "RUNNING", "BACKING_OFF", "FAILED"])
def test_a_stop_is_answered_at_once_where_no_engine_lives(
    control: Control, settings: Settings, clock: FakeClock, state: JobState
) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    if state:
        engine_says(control, StatusRow("a", state, generation=1, incarnation="i"))
    (ensured,) = control.stop(["a"])
    began = clock.monotonic()
    (status,) = control.wait(["a"], {"a": ensured.generation}, 180)
    assert (status.state, status.desired, clock.monotonic() - began) == ("STOPPED", "STOPPED", 0)


def test_a_stop_waits_for_an_engine_that_lives(
    control: Control, settings: Settings, clock: FakeClock, living_engine: Callable[[], None]
) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    (ensured,) = control.stop(["a"])
    clock.on_sleep = living_engine
    (status,) = control.wait(["a"], {"a": ensured.generation}, 5)
    assert status.reported_generation == 1


def test_what_a_gone_engine_said_is_unknown(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    running(control, "a")
    status = control.status("a")
    assert (status.state, status.condition, status.batch) == ("UNKNOWN", "ENGINE_NOT_RUNNING", 3)


def test_a_second_run_request_adopts_the_first(control: Control, settings: Settings) -> None:
    loaded = project(settings, query("load", "t", refresh="incremental"))
    first = control.request_run(loaded, "load", "ann")
    assert control.request_run(loaded, "load", "bob") == first
    assert control.withdraw_run(first)
    assert control.wait_run(first).state == "STOPPED"
    assert control.request_run(loaded, "load") != first


def test_a_reset_does_not_adopt_a_load_that_is_none(control: Control, settings: Settings) -> None:
    """It would end as if it had been reset."""
    loaded = project(settings, query("load", "t", refresh="incremental"), query("whole", "t", refresh="full"))
    first, whole = control.request_run(loaded, "load"), control.request_run(loaded, "whole")
    with pytest.raises(UserError, match="RESET_WHILE_LOADING") as refused:
        control.request_run(loaded, "load", action="reset", allow=["duplicates"])
    assert f"request {first}" in refused.value.message
    assert job(control, "load").checkpoint_version == 1
    assert control.request_run(loaded, "whole", action="reset") == whole, "each full load starts over"
    control.withdraw_run(first)
    reset = control.request_run(loaded, "load", action="reset", allow=["duplicates"])
    assert control.request_run(loaded, "load", action="reset", allow=["duplicates"]) == reset
    assert job(control, "load").checkpoint_version == 2


def test_finite_and_endless_queries_are_not_mixed_up(control: Control, settings: Settings) -> None:
    loaded = project(settings, query("load", "t", refresh="full"), query("a", "t"))
    with pytest.raises(UserError, match="JOB_IS_FINITE"):
        control.ensure(loaded, ["load"])
    with pytest.raises(UserError, match="JOB_NOT_FINITE"):
        control.request_run(loaded, "a")
    with pytest.raises(UserError, match="REQUEST_UNKNOWN"):
        control.journal.create()
        control.wait_run(77)


def test_full_loads_begin_with_a_new_checkpoint_each(control: Control, settings: Settings) -> None:
    loaded = project(settings, query("load", "t", refresh="full"))
    first = control.request_run(loaded, "load")
    assert job(control, "load").checkpoint_version == 1
    control.withdraw_run(first)
    control.request_run(loaded, "load")
    assert job(control, "load").checkpoint_version == 2


def test_a_run_waits_for_the_jobs_it_reads_from_sources_first(control: Control, settings: Settings) -> None:
    loaded = project(
        settings, query("a", "t"), query("b", "a"), query("other", "t"), query("load", "b", refresh="incremental")
    )
    request = control.request_run(loaded, "load")
    with control.journal.read() as connection:
        row = rows.request(connection, request)
    assert row is not None
    assert row.upstream == '["a", "b"]'


@pytest.mark.sweep
def test_wait_run_says_when_no_engine_runs(control: Control, settings: Settings, clock: FakeClock) -> None:
    clock.on_sleep = lambda: clock.advance(2)
    request = control.request_run(project(settings, query("load", "t", refresh="full")), "load")
    with pytest.raises(Exception, match="ENGINE_NOT_RUNNING"):
        control.wait_run(request)


def test_stopping_a_finite_job_ends_its_open_run(control: Control, settings: Settings) -> None:
    request = control.request_run(project(settings, query("load", "t", refresh="full")), "load")
    control.stop(["load"])
    assert control.wait_run(request).state == "STOPPED"


def test_compare_and_set_refuses_a_generation_that_moved(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    row = job(control, "a")
    with control.journal.write() as connection:
        connection.execute(update(schema.JOBS).values(generation=9))
    with pytest.raises(Exception, match="INTERNAL"), control.journal.write() as connection:
        rows.save_job(connection, row)


def test_a_job_that_does_not_run_says_whether_it_will() -> None:
    from ds_dagster.runtime.status import outlook

    assert outlook("BACKING_OFF", 112.4, 100.0) == "next try in 12 s"
    assert outlook("BACKING_OFF", 90.0, 100.0) == "next try in 0 s"
    assert outlook("FAILED", None, 100.0) == "not retried"
    assert outlook("RUNNING", None, 100.0) == ""
