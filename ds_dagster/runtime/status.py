"""What is known of jobs and engines: the records that sensors, checks, CLI and Dagster steps read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ds_dagster.figures import Figures

JobState = Literal[
    "ABSENT", "STARTING", "RUNNING", "WAITING", "BACKING_OFF", "FAILED", "STOPPING", "STOPPED", "FINISHED", "UNKNOWN"
]  # fmt: skip
DesiredState = Literal["RUNNING", "STOPPED", "FINISHED"]
EngineState = Literal["STARTING", "RUNNING", "STOPPING", "GONE", "UNKNOWN"]
Role = Literal["serving", "staged", "promoting", "kept", "dropping"]
"""What a version of a query is for: ``serving``: its rows have the public name; ``staged``: it is built beside that;
``promoting``: it takes over as soon as it has caught up; ``kept``: it served before, and is stopped; ``dropping``: it
goes with its rows and its checkpoint."""

UP: tuple[JobState, ...] = ("RUNNING", "STARTING")
"""States of a job that runs, or is being started."""

Action = Literal["ensure", "restart", "stop", "reset"]
Consent = Literal["duplicates", "from_now", "empty", "restored"]
"""What a reset does only when it is asked for: ``duplicates``: rows are written that a sink already has; ``from_now``:
sources are read from the end they have when the job starts, so what was there before is in no result; ``empty``: the
records of the job's own topics are deleted first; ``restored``: the new checkpoint was made from a savepoint."""
RESTORED: Consent = "restored"


def consents(*, duplicates: bool = False, from_now: bool = False, empty: bool = False) -> tuple[Consent, ...]:
    """Those that are given."""
    flags: dict[Consent, bool] = {"duplicates": duplicates, "from_now": from_now, "empty": empty}
    return tuple(name for name, is_given in flags.items() if is_given)


Verdict = Literal[
    "new",
    "unchanged",
    "keeps_checkpoint",
    "needs_new_checkpoint",
    "would_lose_data",
    "renamed",
    "rename_refused",
    "orphan",
    "unknown",
]
"""``renamed``: it goes on with the job of the name it had before (``@renamed_from``); ``unknown``: in a plan that could
not read what runs."""


def outlook(state: JobState, next_retry: float | None, now: float) -> str:
    """Whether a job that does not run is started again by itself; empty for one that runs.

    Args:
        state: of the job.
        next_retry: time of the next start, epoch seconds; None if there will be none.
        now: epoch seconds.
    """
    if state == "BACKING_OFF" and next_retry is not None:
        return f"next try in {max(0.0, next_retry - now):.0f} s"
    return "not retried" if state == "FAILED" else ""


def version_name(query: str, version: int) -> str:
    """Name of a version of a query that does not serve; no query has an ``@`` in its name."""
    return f"{query}@{version}"


def version_number(name: str) -> int:
    """The number in a name that :func:`version_name` made."""
    return int(name.rpartition("@")[2])


@dataclass(frozen=True, slots=True)
class JobStatus(Figures):
    """One job as last reported, its figures among it. Times are seconds since the epoch (UTC); None = not known.

    Attributes:
        name, job_id, relation: query name, identity, qualified name of the relation it fills.
        state, desired: observed and wanted.
        condition, message, hint: why it failed or backs off (empty when healthy).
        incarnation: changes with every start of its Spark query.
        generation: of the desired state (compare-and-set counter).
        checkpoint_version: ``checkpoint`` of ``ds ps``.
        fingerprint: of the definition that runs; ``wanted_fingerprint`` of the one asked for.
        beat: when the engine last reported it; next_retry: when it is started again; attempts: starts since it was
            healthy.
        started: start of the incarnation.
        detail: text of the outside system that failed.
        reported_generation: of the desired state the engine has acted on; smaller than ``generation``: it has not yet.
        since: when it entered ``state``.
        parameters: of the condition, as JSON.
        query, version, role: which version of which query it is; see ``JobRow``.
        identity: see ``JobRow``.
        log: where its log is read: a path on the engine's machine, or an address.
        pool: compute pool whose engine it belongs to now; empty: the project's own engine.
    """

    name: str
    job_id: str
    relation: str
    state: JobState
    desired: DesiredState
    condition: str = ""
    message: str = ""
    hint: str = ""
    incarnation: str = ""
    generation: int = 0
    checkpoint_version: int = 0
    fingerprint: str = ""
    wanted_fingerprint: str = ""
    beat: float | None = None
    next_retry: float | None = None
    attempts: int = 0
    started: float | None = None
    detail: str = ""
    reported_generation: int = 0
    since: float | None = None
    parameters: str = ""
    query: str = ""
    version: int = 1
    role: Role = "serving"
    identity: str = ""
    log: str = ""
    pool: str = ""

    @property
    def of(self) -> str:
        """Name of its query."""
        return self.query or self.name

    @property
    def is_down(self) -> bool:
        """Whether it is wanted and neither runs nor is being started; of a finite one: whether it failed."""
        return (
            self.state == "FAILED" if self.desired == "FINISHED" else self.desired == "RUNNING" and self.state not in UP
        )

    @property
    def writes_as(self) -> str:
        """See ``JobRow.writes_as``."""
        return self.identity or (version_name(self.of, self.version) if self.version > 1 else self.of)


def ended_with_engine(status: JobStatus) -> bool:
    """Whether it has run, is wanted, and has no query since its engine was told to end: the next engine goes on."""
    return status.state == "ABSENT" and status.desired == "RUNNING" and bool(status.incarnation)


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """One engine: who holds the lease, whether it lives.

    ``token`` is that of its lease, empty while a process that holds the lock has none: what another engine wrote of a
    job that runs is not this one's word.
    """

    name: str
    state: EngineState
    pid: int | None = None
    host: str = ""
    version: str = ""
    beat: float | None = None
    started: float | None = None
    condition: str = ""
    message: str = ""
    token: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Change:
    """What ``ensure`` would do with one query, and the rule that says so.

    Attributes:
        doubles: relations that would have their rows twice, where the verdict asks for a reset.
        readers: names of the queries downstream of them.
        beside: the new definition can be built beside the one that serves, where the verdict asks for a new checkpoint.
        renamed_from: name of the job it goes on with, or would, where the verdict is about a change of name.
    """

    name: str
    relation: str
    verdict: Verdict
    rule: str
    hint: str = ""
    doubles: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    beside: bool = False
    renamed_from: str = ""


@dataclass(frozen=True, slots=True)
class Ensured:
    """What a request did: ``adopted`` an unchanged running job, ``requested`` a start, ``stopped``, …; ``generation``
    names the request so that it can be waited for or withdrawn."""

    name: str
    outcome: Literal["adopted", "requested", "stopped", "nothing"]
    generation: int


@dataclass(frozen=True, slots=True)
class FiniteResult:
    """Outcome of one finite run (CTAS incremental or full)."""

    name: str
    request: int
    state: Literal["FINISHED", "FAILED", "STOPPED"]
    rows: int
    batches: int
    seconds: float
    condition: str = ""
    message: str = ""
    hint: str = ""
