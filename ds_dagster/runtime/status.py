"""Records about jobs and engines, for sensors, checks, the command line and Dagster steps."""

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
"""Role of a version of a query. ``serving``: its rows have the public name; ``staged``: it is built next to the serving
version; ``promoting``: it takes over as soon as it has caught up; ``kept``: it served before, and is stopped;
``dropping``: its rows and its checkpoint are being removed."""

UP: tuple[JobState, ...] = ("RUNNING", "STARTING")
"""States of a job that runs, or is being started."""

Action = Literal["ensure", "restart", "stop", "reset"]
Consent = Literal["duplicates", "from_now", "empty", "restored", "partial"]
"""Effects that need a permission. Of a restart: ``partial``: results that the definition adds count only the rows since
the change, in groups that exist. Of a reset: ``duplicates``: rows are written that a sink already has; ``from_now``:
sources are read from their end at the start of the job, so earlier records are in no result; ``empty``: the records of
the job's own topics are deleted first; ``restored``: the new checkpoint was made from a savepoint."""
RESTORED: Consent = "restored"


def consents(
    *, duplicates: bool = False, from_now: bool = False, empty: bool = False, partial: bool = False
) -> tuple[Consent, ...]:
    """The consents whose flags are set."""
    flags: dict[Consent, bool] = {
        "duplicates": duplicates,
        "from_now": from_now,
        "empty": empty,
        "partial": partial,
    }
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
"""Result of comparing a query with its job. ``renamed``: it goes on with the job of its former name
(``@renamed_from``); ``unknown``: in a plan that could not read the journal."""


def outlook(state: JobState, next_retry: float | None, now: float) -> str:
    """Whether the engine will retry a job that does not run, for people; empty for other states.

    Args:
        state: of the job.
        next_retry: time of the next start, epoch seconds; None if there will be none.
        now: epoch seconds.
    """
    if state == "BACKING_OFF" and next_retry is not None:
        return f"next try in {max(0.0, next_retry - now):.0f} s"
    return "not retried" if state == "FAILED" else ""


def version_name(query: str, version: int) -> str:
    """Name of the job of a version that does not serve. Names of queries have no ``@``."""
    return f"{query}@{version}"


def version_number(name: str) -> int:
    """The number in a name that :func:`version_name` made."""
    return int(name.rpartition("@")[2])


@dataclass(frozen=True, slots=True)
class JobStatus(Figures):
    """One job as last reported, with its figures. Times are epoch seconds; None = unknown.

    Attributes:
        name, job_id, relation: query name, identity, qualified name of the relation it fills.
        state, desired: observed and desired state.
        condition, message, hint: why it failed or backs off (empty when healthy).
        incarnation: changes with every start of its Spark query.
        generation: of the desired state (compare-and-set counter).
        checkpoint_version: ``checkpoint`` of ``ds ps``.
        fingerprint: of the definition that runs; ``wanted_fingerprint`` of the requested definition.
        beat: when the engine last reported it; next_retry: when it is started again; attempts: failed starts since it
            was healthy.
        started: start of the incarnation.
        detail: error text of the outside system that failed.
        reported_generation: of the desired state that the engine last acted on; if smaller than ``generation``, the
            engine has not acted yet.
        since: when it entered ``state``.
        parameters: of the condition, as JSON.
        query, version, role: which version of which query it is; see ``JobRow``.
        identity: see ``JobRow``.
        log: path of its log on the engine's machine, or an address.
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
        """Whether it is wanted, but neither runs nor is being started; for a finite query: whether it failed."""
        return (
            self.state == "FAILED" if self.desired == "FINISHED" else self.desired == "RUNNING" and self.state not in UP
        )

    @property
    def writes_as(self) -> str:
        """See ``JobRow.writes_as``."""
        return self.identity or (version_name(self.of, self.version) if self.version > 1 else self.of)


def ended_with_engine(status: JobStatus) -> bool:
    """Whether a job is wanted but its query ended together with its engine; the next engine starts it again."""
    return status.state == "ABSENT" and status.desired == "RUNNING" and bool(status.incarnation)


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """One engine: which process holds its lease, and whether it lives.

    ``token``: of its lease; empty while the process that holds the lock has no lease. The status of a running job
        counts
    only if its writer has the same token.
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
    """What ``ensure`` would do with one query, and the rule behind the verdict.

    Attributes:
        doubles: if the verdict needs a reset: relations that would get their rows twice.
        readers: names of the queries downstream of ``doubles``.
        beside: if the verdict needs a new checkpoint: whether a version can be built next to the serving one.
        way: with ``beside``: the commands that build the version, or let the staged one take over, for people.
        partial: if the verdict needs a new checkpoint only because of added results: these results, as they are
            written. A restart with the consent ``partial`` keeps the checkpoint.
        renamed_from: if the verdict is about a change of name: the former name.
        written_by: another job that makes the relation of the query; while that job runs, the query is not started.
    """

    name: str
    relation: str
    verdict: Verdict
    rule: str
    hint: str = ""
    doubles: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    beside: bool = False
    way: str = ""
    partial: tuple[str, ...] = ()
    renamed_from: str = ""
    written_by: str = ""


@dataclass(frozen=True, slots=True)
class Ensured:
    """What a request did: ``adopted`` an unchanged running job, ``requested`` a start, ``stopped`` a job, or
    ``nothing``. ``generation`` identifies the request, to wait for it or to withdraw it."""

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
