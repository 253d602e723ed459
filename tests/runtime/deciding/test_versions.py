"""Versions of a query beside each other: every request in every state, and the next step of a hand-over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ds_dagster.errors import DsError
from ds_dagster.runtime.deciding import versions
from ds_dagster.runtime.deciding.permissions import action_for, needed
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.deciding.versions import LONGEST_SECONDS, WATERMARK_SECONDS, VersionRequest
from ds_dagster.runtime.journals.records import JobRow, StatusRow
from ds_dagster.runtime.status import Change

NOW = 1000.0
SPEC = JobSpec("v", "d.p.v", (), "v1:old", "s1:x", "0.1").to_json()
SERVING = JobRow("v", "d.p.v", "RUNNING", 3, "ensure", "ann", 1.0, SPEC, "v1:old", 1, latest=4)
STAGED = replace(SERVING, name="v@4", query="v", version=4, role="staged", generation=1, fingerprint="v1:new", latest=1)
PROMOTING = replace(STAGED, role="promoting", action="promote", requested_at=990.0)
SETTLED = replace(PROMOTING, desired="STOPPED", generation=2)
BACK = replace(PROMOTING, name="v@2", version=2, action="rollback", generation=5)
KEPT = replace(SERVING, name="v@2", query="v", version=2, role="kept", desired="STOPPED", requested_at=500.0)
OLDER = replace(KEPT, name="v@1", version=1, requested_at=400.0)
HALTED = replace(SERVING, desired="STOPPED", action="promote", generation=4)
STOPPED = replace(SERVING, desired="STOPPED", action="stop", generation=4)


def spec(fingerprint: str) -> JobSpec:
    return JobSpec("v", "d.p.v", (), fingerprint, "s1:x", "0.1")


def request(fingerprint: str = "v1:new") -> VersionRequest:
    return VersionRequest("bob", NOW, spec(fingerprint))


def rows_of(*rows: JobRow) -> dict[str, JobRow]:
    return {row.name: row for row in rows}


def shown(row: JobRow) -> tuple[str, str, str, int]:
    return row.name, row.role, row.desired, row.generation


STAGES: dict[str, tuple[tuple[JobRow, ...], str, Any]] = {
    "nothing runs": ((), "v1:new", "STAGE_NOTHING_SERVES"),
    "the same runs": ((SERVING,), "v1:old", "STAGE_NOT_NEEDED"),
    "a first one": ((SERVING,), "v1:new", [("v@5", "staged", "RUNNING", 1), ("v", "serving", "RUNNING", 3)]),
    "the same is staged": ((SERVING, STAGED), "v1:new", []),
    "the same takes over": ((SERVING, PROMOTING), "v1:new", []),
    "the same may have the public name": ((HALTED, SETTLED), "v1:new", []),
    "the same was staged and stopped": (
        (SERVING, replace(STAGED, desired="STOPPED")),
        "v1:new",
        [("v@4", "staged", "RUNNING", 2)],
    ),
    "another is staged": ((SERVING, STAGED), "v1:third", "STAGED_OTHERWISE"),
    "another takes over": ((SERVING, PROMOTING), "v1:third", "STAGED_OTHERWISE"),
    "the same is kept": ((replace(SERVING, fingerprint="v1:new"), KEPT), "v1:old", [("v@2", "staged", "RUNNING", 4)]),
    "another is kept": (
        (SERVING, KEPT),
        "v1:new",
        [("v@5", "staged", "RUNNING", 1), ("v", "serving", "RUNNING", 3)],
    ),
    "the same is kept and another staged": (
        (replace(SERVING, fingerprint="v1:x"), KEPT, STAGED),
        "v1:old",
        "STAGED_OTHERWISE",
    ),
}
OTHERS: dict[str, tuple[str, tuple[JobRow, ...], Any]] = {
    "promote nothing": ("promote", (SERVING, KEPT), "NOTHING_STAGED"),
    "promote": ("promote", (SERVING, STAGED), [("v@4", "promoting", "RUNNING", 1)]),
    "promote twice": ("promote", (SERVING, PROMOTING), []),
    "promote a stopped one": (
        "promote",
        (SERVING, replace(STAGED, desired="STOPPED")),
        [("v@4", "promoting", "RUNNING", 2)],
    ),
    "roll back to nothing": ("rollback", (SERVING, STAGED), "NOTHING_KEPT"),
    "roll back to the last": ("rollback", (SERVING, OLDER, KEPT), [("v@2", "promoting", "RUNNING", 4)]),
    "roll back to an older one": ("rollback 1", (SERVING, OLDER, KEPT), [("v@1", "promoting", "RUNNING", 4)]),
    "roll back to the one that serves": ("rollback 3", (replace(SERVING, version=3), KEPT), []),
    "roll back to an unknown one": ("rollback 7", (SERVING, OLDER, KEPT), "NOTHING_KEPT"),
    "roll back while another takes over": ("rollback", (SERVING, KEPT, PROMOTING), "PROMOTION_UNDERWAY"),
    "roll back twice": ("rollback 2", (SERVING, BACK), []),
    "roll back beside a staged one": ("rollback", (SERVING, KEPT, STAGED), [("v@2", "promoting", "RUNNING", 4)]),
    "abandon nothing": ("abandon", (SERVING, KEPT), "NOTHING_STAGED"),
    "abandon": ("abandon", (SERVING, STAGED), [("v@4", "dropping", "STOPPED", 2)]),
    "abandon one that takes over": ("abandon", (SERVING, PROMOTING), [("v@4", "dropping", "STOPPED", 2)]),
    "abandon one that has taken over": ("abandon", (HALTED, SETTLED), "PROMOTION_UNDERWAY"),
    "abandon going back": ("abandon", (SERVING, BACK), [("v@2", "kept", "STOPPED", 6)]),
}


@pytest.mark.parametrize("name", STAGES)
def test_staging(name: str) -> None:
    jobs, fingerprint, wanted = STAGES[name]
    if isinstance(wanted, str):
        with pytest.raises(DsError) as refused:
            versions.stage("v", rows_of(*jobs), request(fingerprint))
        assert refused.value.condition == wanted and refused.value.hint
        return
    staged = versions.stage("v", rows_of(*jobs), request(fingerprint))
    assert [shown(row) for row in staged.rows] == wanted
    assert all(row.fingerprint == fingerprint for row in staged.rows if row.role == "staged")


def test_a_number_is_never_used_twice() -> None:
    row, serving = versions.stage("v", rows_of(SERVING), request()).rows
    assert (row.version, row.writes_as, row.checkpoint_version, serving.latest) == (5, "v@5", 1, 5)
    again, _ = versions.stage("v", rows_of(serving), request("v1:third")).rows
    assert again.version == 6


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_requests(name: str) -> None:
    text, jobs, wanted = OTHERS[name]
    action, _, number = text.partition(" ")
    arguments = [int(number)] if number else []
    decide = getattr(versions, action)
    if isinstance(wanted, str):
        with pytest.raises(DsError) as refused:
            decide("v", rows_of(*jobs), request(), *arguments)
        assert refused.value.condition == wanted and refused.value.hint
        return
    assert [shown(row) for row in decide("v", rows_of(*jobs), request(), *arguments).rows] == wanted


def test_a_hand_over_is_taken_back_until_the_new_version_has_stopped() -> None:
    assert [shown(row) for row in versions.withdraw("v", rows_of(SERVING, PROMOTING))] == [
        ("v@4", "staged", "RUNNING", 1)
    ]
    assert [shown(row) for row in versions.withdraw("v", rows_of(SERVING, BACK))] == [("v@2", "kept", "STOPPED", 6)]
    assert not versions.withdraw("v", rows_of(HALTED, SETTLED))
    settled = replace(SETTLED, spec=replace(spec("v1:new"), in_turn=True).to_json())
    assert [shown(row) for row in versions.withdraw("v", rows_of(HALTED, settled))] == [("v@4", "staged", "RUNNING", 3)]
    assert [shown(row) for row in versions.abandon("v", rows_of(HALTED, settled), request()).rows] == [
        ("v@4", "dropping", "STOPPED", 3)
    ]


def test_nothing_starts_the_serving_version_while_another_takes_over() -> None:
    versions.check_not_underway("v", rows_of(SERVING, STAGED, KEPT))
    with pytest.raises(DsError) as refused:
        versions.check_not_underway("v", rows_of(HALTED, PROMOTING))
    assert refused.value.condition == "PROMOTION_UNDERWAY"


def status(row: JobRow, state: str = "RUNNING", **values: Any) -> StatusRow:
    return StatusRow(row.name, state=state, generation=row.generation, **values)  # type: ignore[arg-type]


RAN = status(SERVING, watermark=700.0, caught_up=NOW, since=1.0)
RESTS = status(HALTED, "STOPPED", since=900.0, watermark=700.0)
READ = {"caught_up": 950.0, "watermark": 700.0}
STEPS: dict[str, tuple[JobRow, StatusRow, JobRow, StatusRow, str]] = {
    "staged only": (SERVING, RAN, STAGED, status(STAGED, **READ), ""),
    "starts": (SERVING, RAN, PROMOTING, status(PROMOTING, "STARTING"), "wait"),
    "reads": (SERVING, RAN, PROMOTING, status(PROMOTING), "wait"),
    "was at the end long ago": (SERVING, RAN, PROMOTING, status(PROMOTING, caught_up=NOW - 60), "wait"),
    "backs off": (SERVING, RAN, PROMOTING, status(PROMOTING, "BACKING_OFF", caught_up=NOW), "wait"),
    "is near": (SERVING, RAN, PROMOTING, status(PROMOTING, caught_up=NOW - 1), "halt"),
    "failed": (SERVING, RAN, PROMOTING, status(PROMOTING, "FAILED"), "give_up"),
    "was stopped by hand": (SERVING, RAN, replace(PROMOTING, desired="STOPPED", action="stop"), RAN, "give_up"),
    "the old one ends its batch": (HALTED, status(SERVING, "STOPPING"), PROMOTING, status(PROMOTING, **READ), "wait"),
    "the old one's engine was killed": (
        HALTED,
        status(SERVING, "ABSENT"),
        PROMOTING,
        status(PROMOTING, **READ),
        "wait",
    ),
    "read before the old one ended": (HALTED, RESTS, PROMOTING, status(PROMOTING, caught_up=899.0), "wait"),
    "read, and time is as far": (HALTED, RESTS, PROMOTING, status(PROMOTING, **READ), "settle"),
    "read, restarting": (HALTED, RESTS, PROMOTING, status(PROMOTING, "STARTING", **READ), "wait"),
    "read, time comes later": (
        HALTED,
        replace(RESTS, since=995.0),
        PROMOTING,
        status(PROMOTING, caught_up=996.0, watermark=699.0),
        "wait",
    ),
    "read, time does not come": (
        HALTED,
        replace(RESTS, since=NOW - WATERMARK_SECONDS - 1),
        replace(PROMOTING, requested_at=1.0),
        status(PROMOTING, caught_up=999.0, watermark=699.0),
        "settle",
    ),
    "read without event time": (
        HALTED,
        replace(RESTS, watermark=None),
        PROMOTING,
        status(PROMOTING, caught_up=950.0),
        "settle",
    ),
    "does not catch up": (
        HALTED,
        replace(RESTS, since=NOW - LONGEST_SECONDS - 1),
        PROMOTING,
        status(PROMOTING),
        "give_up",
    ),
    "fails at the end": (HALTED, RESTS, PROMOTING, status(PROMOTING, "FAILED"), "give_up"),
    "settles": (HALTED, RESTS, SETTLED, status(PROMOTING, "STOPPING", **READ), "wait"),
    "failed while it settled": (HALTED, RESTS, SETTLED, status(PROMOTING, "FAILED"), "wait"),
    "both rest": (HALTED, RESTS, SETTLED, status(SETTLED, "STOPPED"), "serve"),
    "the old one was stopped by hand, long ago": (
        STOPPED,
        status(STOPPED, "STOPPED", since=1.0),
        PROMOTING,
        status(PROMOTING, caught_up=999.0),
        "settle",
    ),
    "the old one was stopped by hand, reads": (
        STOPPED,
        status(STOPPED, "STOPPED", since=1.0),
        PROMOTING,
        status(PROMOTING),
        "wait",
    ),
    "the old one was stopped by hand since": (
        replace(STOPPED, requested_at=995.0),
        RESTS,
        PROMOTING,
        status(PROMOTING, **READ),
        "give_up",
    ),
    "goes": (SERVING, RAN, replace(STAGED, role="dropping", desired="STOPPED"), status(STAGED, "STOPPING"), "wait"),
    "is gone": (SERVING, RAN, replace(STAGED, role="dropping", desired="STOPPED"), status(STAGED, "STOPPED"), "drop"),
    "halted for one that was abandoned": (HALTED, RESTS, STAGED, status(STAGED), "resume"),
    "stopped by hand": (STOPPED, RESTS, STAGED, status(STAGED), ""),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_next_step(name: str) -> None:
    job, job_status, other, other_status, wanted = STEPS[name]
    steps = [
        turn.step for turn in versions.turns(rows_of(job, other), {job.name: job_status, other.name: other_status}, NOW)
    ]
    assert steps == [wanted] * bool(wanted)


IN_TURN: dict[str, tuple[JobRow, StatusRow, JobRow, StatusRow, str]] = {
    "reads still": (SERVING, status(SERVING), PROMOTING, status(PROMOTING, caught_up=None), "wait"),
    "has read nearly all": (SERVING, status(SERVING), PROMOTING, status(PROMOTING, caught_up=NOW - 1), "settle"),
    "stops": (SERVING, status(SERVING), SETTLED, status(SETTLED, "STOPPING"), "wait"),
    "rests": (SERVING, status(SERVING), SETTLED, status(SETTLED, "STOPPED"), "halt"),
    "the old one stops": (HALTED, status(HALTED, "STOPPING"), SETTLED, status(SETTLED, "STOPPED"), "wait"),
    "both rest": (HALTED, RESTS, SETTLED, status(SETTLED, "STOPPED"), "serve"),
    "is stopped by hand": (
        replace(STOPPED, requested_at=995.0),
        RESTS,
        PROMOTING,
        status(PROMOTING, caught_up=NOW - 1),
        "give_up",
    ),
    "has failed": (SERVING, status(SERVING), PROMOTING, status(PROMOTING, "FAILED"), "give_up"),
}


@pytest.mark.parametrize("name", IN_TURN)
def test_the_next_step_of_versions_that_write_one_place(name: str) -> None:
    job, job_status, other, other_status, wanted = IN_TURN[name]
    statuses = {job.name: job_status, other.name: other_status}
    assert [turn.step for turn in versions.turns(rows_of(job, other), statuses, NOW, {"v@4"})] == [wanted]


def turn(step: str, job: JobRow, other: JobRow) -> versions.Turn:
    return versions.Turn(step, job, status(job), other, status(other, "STOPPED", batch=9))  # type: ignore[arg-type]


def test_the_rows_after_each_step() -> None:
    def after(step: str, job: JobRow, other: JobRow) -> list[tuple[str, str, str, int]]:
        return [shown(row) for row in versions.after(turn(step, job, other), NOW)]

    assert after("halt", SERVING, PROMOTING) == [("v", "serving", "STOPPED", 4)]
    assert after("settle", HALTED, PROMOTING) == [("v@4", "promoting", "STOPPED", 2)]
    assert after("resume", HALTED, HALTED) == [("v", "serving", "RUNNING", 5)]
    assert after("give_up", SERVING, PROMOTING) == [("v@4", "staged", "RUNNING", 1)]
    assert after("give_up", STOPPED, PROMOTING) == [("v@4", "staged", "RUNNING", 1)]
    assert after("give_up", HALTED, SETTLED) == [("v@4", "staged", "RUNNING", 3), ("v", "serving", "RUNNING", 5)]
    assert after("give_up", HALTED, BACK) == [("v@2", "kept", "STOPPED", 6), ("v", "serving", "RUNNING", 5)]


def test_the_jobs_change_names_and_keep_what_they_write_as() -> None:
    (serving, kept_row), (new, old) = versions.exchanged(turn("serve", HALTED, SETTLED), NOW)
    assert shown(serving) == ("v", "serving", "RUNNING", 5)
    assert (serving.writes_as, serving.fingerprint, serving.latest) == ("v@4", "v1:new", 4)
    assert (new.name, new.batch, new.state) == ("v", 9, "STOPPED") and new.generation < serving.generation
    assert shown(kept_row) == ("v@1", "kept", "STOPPED", 4)
    assert (kept_row.writes_as, kept_row.of, kept_row.fingerprint) == ("v", "v", "v1:old")
    assert (old.name, old.generation) == ("v@1", 4)


def test_permissions_of_a_change_that_has_a_version() -> None:
    change = Change("v", "d.p.v", "needs_new_checkpoint", "the rule", beside=True)
    assert needed(change) == ("new-version",)
    assert action_for(change, ["new-version", "reset"]) == ("new-version", ())
    assert action_for(change, ["reset"]) == ("reset", ())
    assert action_for(change, ["restart"]) == ("ensure", ())
    losing = replace(change, verdict="would_lose_data")
    assert needed(losing) == ("new-version", "loss")
    assert action_for(losing, ["new-version"]) == ("ensure", ())
    assert action_for(losing, ["new-version", "loss"]) == ("new-version", ())
    assert needed(replace(change, beside=False)) == ("reset",)
