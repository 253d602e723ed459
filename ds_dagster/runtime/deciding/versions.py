"""Versions of a query: the answer to a request about them, and the next step of a hand-over. Pure.

One version serves: its rows have the public name. Another version is staged: it reads the sources from their starting
position into its own tables. In a hand-over, the serving version stops after its batch, the staged version reads the
records that existed then and stops too, the stores exchange the public names, and the two jobs exchange names in one
transaction of the journal. Every step follows from rows of the journal alone, so any engine can continue; a repeated
step changes nothing. A rollback is a hand-over to a kept version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ds_dagster.errors import error
from ds_dagster.runtime.deciding.desired import underway
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals.records import JobRow, StatusRow
from ds_dagster.runtime.status import JobStatus, Role, version_name

NEAR_SECONDS = 10.0
"""A version that had read everything at most this long ago may take over: the serving version is stopped now."""

WATERMARK_SECONDS = 15.0
"""How long the new version's watermark may stay below the old one's after everything is read; then it takes over
anyway. Longer than an idle timeout. With smaller windows the watermark never gets there, since it advances only while a
result waits for it."""

LONGEST_SECONDS = 120.0
"""How long the serving version may be stopped before the new one has caught up; then it runs again."""

Step = Literal["wait", "halt", "settle", "serve", "give_up", "resume", "drop", "rename"]
"""``halt``: stop the serving version; ``settle``: stop the new version; ``serve``: exchange the public names;
``give_up``: the new version goes back to ``staged`` (or ``kept``); ``resume``: a version that was stopped for a
hand-over runs again; ``drop``: remove the rows and the checkpoint of a version; ``rename``: give a stopped job its new
name."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The next step for a query.

    Attributes:
        step: the step.
        job, status: of the serving version; for ``rename``: of the job.
        other, other_status: of the version that takes over or is dropped; for ``resume`` and ``rename`` the same as
            ``job`` and ``status``.
        in_turn: see ``JobSpec.in_turn``.
    """

    step: Step
    job: JobRow
    status: StatusRow
    other: JobRow
    other_status: StatusRow
    in_turn: bool = False


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """Requester, time (epoch seconds), and for ``stage`` the definition and the names of jobs that have failed."""

    by: str
    at: float
    spec: JobSpec | None = None
    failed: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Staged:
    """Answer to a request. ``name``: job of the version; ``rows``: to write. A raised generation lets the engine
    act."""

    name: str
    rows: tuple[JobRow, ...] = ()


# -- requests --------------------------------------------------------------------------------------------------------


def stage(query: str, jobs: Mapping[str, JobRow], request: VersionRequest) -> Staged:
    """Build a definition next to the serving version. A staged or kept version with this definition is used again, and
    is started again if it has failed.

    Args:
        query: name of the query.
        jobs: its versions.
        request: with the definition.

    Raises:
        UserError: STAGE_NOTHING_SERVES, STAGE_NOT_NEEDED, STAGED_OTHERWISE, RENAME_UNDERWAY.
    """
    spec, serving = request.spec, jobs.get(query)
    assert spec is not None
    if serving is None:
        raise error("STAGE_NOTHING_SERVES", name=query)
    if serving.becomes:
        raise underway(serving)
    if serving.fingerprint == spec.fingerprint:
        raise error("STAGE_NOT_NEEDED", name=query)
    equal = [row for row in _others(jobs, "staged", "promoting", "kept") if row.fingerprint == spec.fingerprint]
    other = next((row for row in _others(jobs, "staged", "promoting") if row not in equal), None)
    if other is not None:
        raise error("STAGED_OTHERWISE", name=query, version=other.version)
    if equal:
        return Staged(equal[-1].name, _again(equal[-1], request))
    number = serving.latest + 1
    row = JobRow(
        name=version_name(query, number),
        relation=spec.relation,
        desired="RUNNING",
        generation=1,
        action="stage",
        requested_by=request.by,
        requested_at=request.at,
        spec=spec.to_json(),
        fingerprint=spec.fingerprint,
        checkpoint_version=1,
        query=query,
        version=number,
        role="staged",
        pool=spec.pool,
    )
    return Staged(row.name, (row, replace(serving, latest=number)))


def promote(query: str, jobs: Mapping[str, JobRow], request: VersionRequest) -> Staged:
    """Let the staged version take over as soon as it has caught up.

    Raises:
        UserError: NOTHING_STAGED.
    """
    row = next(iter(_others(jobs, "promoting", "staged")), None)
    if row is None:
        raise error("NOTHING_STAGED", name=query)
    return Staged(row.name, _taking_over(row, "promote", request))


def rollback(query: str, jobs: Mapping[str, JobRow], request: VersionRequest, to: int | None = None) -> Staged:
    """Let a kept version take over again: number ``to``, which may serve already; None: the one that served last.

    Raises:
        UserError: NOTHING_KEPT, PROMOTION_UNDERWAY.
    """
    underway = next(iter(_others(jobs, "promoting")), None)
    if underway is not None and underway.version != to:
        raise error("PROMOTION_UNDERWAY", name=query, version=underway.version)
    candidates = [row for row in _others(jobs, "kept", "promoting") if to in (None, row.version)]
    if not candidates and to is not None and query in jobs and jobs[query].version == to:
        return Staged(version_name(query, to))
    if not candidates:
        versions = [row.version for row in _others(jobs, "kept")]
        raise error("NOTHING_KEPT", name=query, version=to or "before", kept=versions or "none")
    row = max(candidates, key=lambda row: row.requested_at)
    return Staged(row.name, _taking_over(row, "rollback", request))


def abandon(query: str, jobs: Mapping[str, JobRow], request: VersionRequest) -> Staged:
    """Drop the staged version with its rows and its checkpoint; a version that a rollback took up is kept again.

    Raises:
        UserError: NOTHING_STAGED; PROMOTION_UNDERWAY: it is taking over at this moment.
    """
    row = next(iter(_others(jobs, "promoting", "staged")), None)
    if row is None:
        raise error("NOTHING_STAGED", name=query)
    if not _is_revocable(row):
        raise error("PROMOTION_UNDERWAY", name=query, version=row.version)
    return Staged(row.name, (_put_back(row) if row.action == "rollback" else _dropped(row, request),))


def withdraw(query: str, jobs: Mapping[str, JobRow]) -> tuple[JobRow, ...]:
    """Rows to write to give up a hand-over; none if it is over, or cannot be stopped any more."""
    rows = (row for row in _others(jobs, "promoting") if row.of == query and _is_revocable(row))
    return tuple(_put_back(row) for row in rows)


def dropped_versions(jobs: Mapping[str, JobRow], request: VersionRequest) -> tuple[JobRow, ...]:
    """Rows to write to drop all kept versions."""
    return tuple(_dropped(row, request) for row in _others(jobs, "kept"))


def check_not_underway(query: str, jobs: Mapping[str, JobRow]) -> None:
    """Refuse to start or change the serving version while another version takes over.

    Raises:
        UserError: PROMOTION_UNDERWAY.
    """
    row = next(iter(_others(jobs, "promoting")), None)
    if row is not None:
        raise error("PROMOTION_UNDERWAY", name=query, version=row.version)


def is_settled(row: JobRow) -> bool:
    """Whether a version has read everything and was stopped to get the public name, which it may already have."""
    return row.role == "promoting" and row.desired == "STOPPED" and row.action in ("promote", "rollback")


def is_halted(row: JobRow) -> bool:
    """Whether a hand-over, not a person, stopped the serving version."""
    return row.role == "serving" and row.desired == "STOPPED" and row.action == "promote"


def is_near(status: StatusRow | JobStatus, now: float) -> bool:
    """Whether a version runs and was at the end of its sources at most :data:`NEAR_SECONDS` ago."""
    return status.state == "RUNNING" and status.caught_up is not None and now - status.caught_up <= NEAR_SECONDS


# -- the engine's steps ----------------------------------------------------------------------------------------------


def turns(
    jobs: Mapping[str, JobRow],
    statuses: Mapping[str, StatusRow],
    now: float,
    in_turn: Collection[str] = (),
) -> Iterator[Turn]:
    """The next step of each hand-over, dropped version and renaming, and of queries that a hand-over left stopped.

    Args:
        jobs, statuses: of the journal.
        now: epoch seconds.
        in_turn: names of jobs with ``JobSpec.in_turn``.
    """
    underway = {row.of for row in jobs.values() if row.role == "promoting"}
    for name, row in jobs.items():
        status = statuses.get(name, StatusRow(name))
        if row.becomes:
            yield Turn("rename" if _is_at_rest(row, status) else "wait", row, status, row, status)
        if row.role == "serving" and is_halted(row) and name not in underway:
            yield Turn("resume", row, status, row, status)
        serving = jobs.get(row.of)
        if row.role not in ("promoting", "dropping") or serving is None:
            continue
        turn = Turn("wait", serving, statuses.get(row.of, StatusRow(row.of)), row, status, name in in_turn)
        if row.role == "dropping":
            yield replace(turn, step="drop" if _is_at_rest(row, status) else "wait")
        else:
            yield replace(turn, step=_next_step(turn, now))


def _next_step(turn: Turn, now: float) -> Step:
    row, status = turn.other, turn.other_status
    if _has_failed(row, status) or (row.desired == "STOPPED" and not is_settled(row)):
        return "give_up"
    if _is_stopped_since(turn) and _is_revocable(row):
        return "give_up"
    if turn.in_turn:
        return _next_step_in_turn(turn, now)
    if turn.job.desired != "STOPPED":
        return "halt" if is_near(status, now) else "wait"
    if not _is_at_rest(turn.job, turn.status):
        return "wait"
    if is_settled(row):
        return "serve" if _is_at_rest(row, status) else "wait"
    if _has_caught_up(turn, now):
        return "settle"
    is_too_long = is_halted(turn.job) and now - turn.status.since > LONGEST_SECONDS
    return "give_up" if is_too_long else "wait"


def _next_step_in_turn(turn: Turn, now: float) -> Step:
    """The new version stops first, so that the serving version, which still runs, ends after it."""
    if not is_settled(turn.other):
        return "settle" if is_near(turn.other_status, now) else "wait"
    if not _is_at_rest(turn.other, turn.other_status):
        return "wait"
    if turn.job.desired != "STOPPED":
        return "wait" if _would_end_first(turn, now) else "halt"
    return "serve" if _is_at_rest(turn.job, turn.status) else "wait"


def after(turn: Turn, now: float) -> tuple[JobRow, ...]:
    """Rows to write for a step that only changes rows; none for steps that need an errand."""
    job, other = turn.job, turn.other
    if turn.step == "halt":
        row = replace(job, desired="STOPPED", generation=job.generation + 1, action="promote", requested_at=now)
        return (replace(row, requested_by=other.requested_by),)
    if turn.step == "settle":
        return (replace(other, desired="STOPPED", generation=other.generation + 1),)
    if turn.step == "resume":
        return (_resumed(job, now),)
    if turn.step == "give_up":
        return (_put_back(other), _resumed(job, now)) if is_halted(job) else (_put_back(other),)
    return ()


def exchanged(turn: Turn, now: float) -> tuple[tuple[JobRow, JobRow], tuple[StatusRow, StatusRow]]:
    """Rows after the stores have exchanged the public names: row and status of the new version under the query's name,
    and of the old version under its version's name. The new version starts again, unless the query was stopped
    meanwhile."""
    job, other = turn.job, turn.other
    is_stopped = _is_stopped_since(turn)
    serving = replace(
        other,
        name=job.name,
        role="serving",
        desired="STOPPED" if is_stopped else "RUNNING",
        action="stop" if is_stopped else other.action,
        generation=job.generation + 1,
        requested_at=now,
        latest=job.latest,
    )
    name = version_name(job.of, job.version)
    kept_row = replace(job, name=name, query=job.of, role="kept", requested_at=now)
    new = replace(turn.other_status, name=job.name, generation=job.generation)
    return (serving, kept_row), (new, replace(turn.status, name=name, generation=kept_row.generation))


# -- inside ----------------------------------------------------------------------------------------------------------


def _is_stopped_since(turn: Turn) -> bool:
    """Whether the query was stopped after the hand-over was requested."""
    return turn.job.action == "stop" and turn.job.requested_at > turn.other.requested_at


def _is_revocable(row: JobRow) -> bool:
    """Whether the hand-over to a version can still be given up. Once the version is settled, a public name may have
    changed; of versions in turn, only the settled version has changed until then."""
    return not is_settled(row) or JobSpec.from_json(row.spec).in_turn


def _others(jobs: Mapping[str, JobRow], *roles: Role) -> Sequence[JobRow]:
    """Versions with these roles, by number."""
    return sorted((row for row in jobs.values() if row.role in roles), key=lambda row: row.version)


def _again(row: JobRow, request: VersionRequest) -> tuple[JobRow, ...]:
    """Rows to stage an existing version again; none if it already runs, or takes over: a settled version may already
    have the public name, so it must not start again before the hand-over has ended."""
    runs = row.role == "staged" and row.desired == "RUNNING" and row.name not in request.failed
    if row.role == "promoting" or runs:
        return ()
    return (_asked_to_run(replace(row, role="staged", action="stage"), request),)


def _taking_over(row: JobRow, action: Literal["promote", "rollback"], request: VersionRequest) -> tuple[JobRow, ...]:
    if row.role == "promoting":
        return ()
    taking = replace(row, role="promoting", action=action, requested_by=request.by, requested_at=request.at)
    return (taking,) if row.desired == "RUNNING" else (_asked_to_run(taking, request),)


def _put_back(row: JobRow) -> JobRow:
    """The row of a version that does not take over: its former role."""
    if row.action == "rollback":
        return replace(row, role="kept", desired="STOPPED", generation=row.generation + 1)
    staged = replace(row, role="staged")
    return replace(staged, desired="RUNNING", generation=row.generation + 1) if is_settled(row) else staged


def _asked_to_run(row: JobRow, request: VersionRequest) -> JobRow:
    return replace(
        row, desired="RUNNING", generation=row.generation + 1, requested_by=request.by, requested_at=request.at
    )


def _dropped(row: JobRow, request: VersionRequest) -> JobRow:
    return replace(
        row,
        role="dropping",
        desired="STOPPED",
        generation=row.generation + 1,
        action="abandon",
        requested_by=request.by,
        requested_at=request.at,
    )


def _resumed(job: JobRow, now: float) -> JobRow:
    return replace(job, desired="RUNNING", generation=job.generation + 1, action="ensure", requested_at=now)


def _is_at_rest(job: JobRow, status: StatusRow) -> bool:
    return status.state == "STOPPED" and status.generation >= job.generation


def _has_failed(job: JobRow, status: StatusRow) -> bool:
    return status.state == "FAILED" and status.generation >= job.generation and not is_settled(job)


def _would_end_first(turn: Turn, now: float) -> bool:
    """Whether the serving version has not yet read what the new version, which rests, may have read: it starts again
    after the end of its engine. It is waited for at most :data:`LONGEST_SECONDS`, and only while it may still run."""
    status, rests_since = turn.status, turn.other_status.since
    if status.state in ("STOPPED", "FAILED") or now - rests_since > LONGEST_SECONDS:
        return False
    return status.caught_up is None or status.caught_up < rests_since


def _has_caught_up(turn: Turn, now: float) -> bool:
    """Whether the new version has read all records that existed when the serving version ended, and its watermark has
    reached the serving version's, or :data:`WATERMARK_SECONDS` are over."""
    status, rests_since = turn.other_status, turn.status.since
    if status.state != "RUNNING" or status.caught_up is None or status.caught_up < rests_since:
        return False
    is_behind = turn.status.watermark is not None and (status.watermark or 0.0) < turn.status.watermark
    return not is_behind or now - max(rests_since, turn.other.requested_at) > WATERMARK_SECONDS
