"""Computes the next desired state from a request and the job's rows: the pure half of
:mod:`ds_dagster.runtime.control`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime.deciding.permissions import needed, partial_text
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals.records import JobRow, StatusRow, Transition
from ds_dagster.runtime.status import RESTORED, Action, Change, Consent, DesiredState

Outcome = Literal["adopted", "requested", "stopped", "nothing"]
HEALTHY = frozenset({"STARTING", "RUNNING", "ABSENT"})
"""States of a wanted job that an unchanged ``ensure`` adopts; ABSENT: the engine will start it by itself."""

HINTS: dict[str, str] = {
    "restart": "the change keeps the checkpoint: use `restart` (`ds restart {name}`) to run the new definition",
    "reset": "the change needs a new checkpoint: use `reset` (`ds reset {name}`) to read its sources again from the "
    "start",
    "renamed": "it stops under its former name and continues under the new one: use `restart` (`ds restart {name}`)",
    "beside": "the change needs a new checkpoint: {way}; `reset` (`ds reset {name}`) starts over",
    "lost": "the change needs a new checkpoint and its sources cannot be read again from the start: "
    "`reset` (`ds reset {name}`) continues with the records that they still have",
}
CONSENT = "; a reset would write rows of {sinks} twice: add `--from now`, `--empty` or `--allow duplicates`"
_HINT_OF = {
    "keeps_checkpoint": "restart",
    "renamed": "renamed",
    "needs_new_checkpoint": "reset",
    "would_lose_data": "lost",
}


@dataclass(frozen=True, slots=True)
class Request:
    """An action, its requester, and its permitted effects on the results. ``made_by``: definition that made
    the checkpoint with which a reset begins; None: the reset begins without a checkpoint."""

    action: Action
    by: str
    allow: Collection[Consent] = ()
    made_by: JobSpec | None = None

    @property
    def begins(self) -> str:
        """See ``schema.JOBS``."""
        return ",".join(sorted(set(self.allow) - {"duplicates", "partial"})) if self.action == "reset" else ""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request about one query: action, requester, time, definition, and how a reset begins."""

    action: Action
    by: str
    at: float
    spec: JobSpec
    begins: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a request. ``row``: the row to write, None if nothing changes. ``refused``: the reason, empty when
    granted. ``generation``: the generation to wait for; None: the row's."""

    outcome: Outcome
    row: JobRow | None = None
    refused: str = ""
    hint: str = ""
    generation: int | None = None


def answer(request: Asked, change: Change, job: JobRow | None, status: StatusRow) -> Answer:
    """The answer to a request.

    Args:
        request: the request.
        change: verdict of the comparison with the stored definition.
        job: the job's present row, None for a new job.
        status: the job's present status.
    """
    if job is None:
        return Answer("requested", _first(request))
    if request.action == "reset":
        return Answer("requested", _next(request, job, new_version=True))
    if change.verdict == "unchanged":
        if request.action == "ensure" and is_fine(job, status):
            return Answer("adopted")
        return Answer("requested", _next(request, job))
    if request.action == "ensure" and runs(job, status):
        return _refusal(change)
    if change.verdict == "keeps_checkpoint":
        return Answer("requested", _next(request, job))
    if _never_worked(status) and RESTORED not in job.begins:
        return Answer("requested", _next(replace(request, begins=job.begins), job, new_version=True))
    return _refusal(change)


def renamed(request: Asked, change: Change, job: JobRow, status: StatusRow) -> Answer:
    """The answer for a query that continues the job of its former name: the job stops, then the engine renames it.

    Args:
        request: the request; its definition has the new name.
        change: the verdict, ``renamed`` or ``rename_refused``.
        job, status: under the former name.

    Raises:
        UserError: RENAME_REFUSED, RENAME_UNDERWAY.
    """
    if change.verdict == "rename_refused" or request.action == "reset":
        reason = change.rule if change.verdict == "rename_refused" else f"rename it first: `ds restart {change.name}`"
        raise error("RENAME_REFUSED", name=change.name, former=job.name, reason=reason)
    spec = request.spec
    wanted = JobSpec.from_json(job.becomes) if job.becomes else None
    is_wanted = wanted is not None and (wanted.name, wanted.fingerprint) == (spec.name, spec.fingerprint)
    if is_wanted and job.action != "stop":
        return Answer("adopted", generation=job.generation + 1)
    if job.is_renamed and not is_wanted:
        raise underway(job)
    if request.action == "ensure" and runs(job, status):
        return _refusal(change)
    action: Literal["rename", "renaming"] = "renaming" if job.is_renamed else "rename"
    row = replace(stopped(job, request.by, request.at), action=action, becomes=spec.to_json())
    return Answer("requested", row, generation=row.generation + 1)


def underway(job: JobRow) -> DsError:
    """The refusal of a request while a job is being renamed."""
    return error("RENAME_UNDERWAY", name=JobSpec.from_json(job.becomes).name, former=job.name)


def check_name_free(name: str, jobs: Mapping[str, JobRow]) -> None:
    """Refuse a new job with a name that another job is about to get.

    Raises:
        UserError: RENAME_UNDERWAY.
    """
    for job in jobs.values():
        if job.becomes and JobSpec.from_json(job.becomes).name == name:
            raise underway(job)


def taken_over(job: JobRow) -> JobRow:
    """A renamed job, under its new name. It keeps its identity in the sinks and runs again, unless it was stopped
    meanwhile."""
    spec = JobSpec.from_json(job.becomes)
    return replace(
        job,
        name=spec.name,
        relation=spec.relation,
        spec=job.becomes,
        fingerprint=spec.fingerprint,
        desired="STOPPED" if job.action == "stop" else _wanted(spec),
        generation=job.generation + 1,
        identity="" if spec.name == job.writes_as else job.writes_as,
        query="",
        becomes="",
        pool=spec.pool,
    )


def stopped(job: JobRow, by: str, at: float) -> JobRow:
    """The job with desired state STOPPED. A renaming that has begun is still finished."""
    return replace(
        job,
        desired="STOPPED",
        generation=job.generation + 1,
        action="stop",
        requested_by=by,
        requested_at=at,
        becomes=job.becomes if job.is_renamed else "",
    )


def definition_changed(names: Sequence[str], query: BoundQuery, refusal: Answer) -> DsError:
    """The error for refused queries, with the rule and the hint of the first one."""
    return error("DEFINITION_CHANGED", span=query.sink.span, name=list(names), rule=refusal.refused, hint=refusal.hint)


def transition(row: JobRow, before: JobRow | None) -> Transition:
    """The entry for a request in a job's history."""
    return Transition(
        name=row.name,
        at=row.requested_at,
        kind="desired",
        source="" if before is None else before.desired,
        target=row.desired,
        reason=row.action,
        generation=row.generation,
        actor=row.requested_by,
    )


def is_fine(job: JobRow, status: StatusRow) -> bool:
    """Whether an unchanged, wanted job needs no request: it runs, or the engine starts it by itself. A request starts a
    job that backs off or failed at once."""
    if job.desired != "RUNNING":
        return False
    return status.generation < job.generation or status.state in HEALTHY


def runs(job: JobRow, status: StatusRow) -> bool:
    """Whether the stored definition is in force: wanted, and not failed for good."""
    return job.desired == "RUNNING" and not (status.state == "FAILED" and status.generation >= job.generation)


def _never_worked(status: StatusRow) -> bool:
    """Whether no batch of the current checkpoint version has finished, so that there is nothing to lose."""
    return status.batch is None


def _refusal(change: Change) -> Answer:
    way = _HINT_OF.get(change.verdict, "reset")
    is_beside = way == "reset" and change.beside
    hint = HINTS["beside" if is_beside else way].format(name=change.name, way=change.way)
    if change.doubles and not is_beside:
        hint += CONSENT.format(sinks=", ".join(change.doubles))
    if change.partial:
        hint += f"; {partial_text(change)}"
    hint += f"; `ds apply --allow {','.join(needed(change))}` applies all such changes"
    return Answer("nothing", refused=change.rule, hint=hint)


def _wanted(spec: JobSpec) -> DesiredState:
    return "FINISHED" if spec.is_finite else "RUNNING"


def _first(request: Asked) -> JobRow:
    spec = request.spec
    return JobRow(
        name=spec.name,
        relation=spec.relation,
        desired=_wanted(spec),
        generation=1,
        action=request.action,
        requested_by=request.by,
        requested_at=request.at,
        spec=spec.to_json(),
        fingerprint=spec.fingerprint,
        checkpoint_version=1,
        begins=request.begins,
        pool=spec.pool,
    )


def _next(request: Asked, job: JobRow, *, new_version: bool = False) -> JobRow:
    """The row of the next generation. A new checkpoint version starts without skipped records: after a reset the query
    may read another topic of the same name."""
    first = replace(
        _first(request),
        generation=job.generation + 1,
        query=job.query,
        version=job.version,
        role=job.role,
        latest=job.latest,
        identity=job.identity,
    )
    if new_version:
        return replace(first, checkpoint_version=job.checkpoint_version + 1)
    return replace(first, checkpoint_version=job.checkpoint_version, skips=job.skips, begins=job.begins)
