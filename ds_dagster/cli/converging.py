"""From query names to running jobs: the steps that `apply`, `restart` and `reset` share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.cli.output import emit_json, note, settings_of, show_diagnostics
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.questions.upkeep.promotion import check_promotion, in_order_of_progress
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.status import Action, Consent, JobStatus
from ds_dagster.runtime.versioning import Versions
from ds_dagster.settings import Settings

REQUESTED_BY = "ds"
WAIT_SECONDS = 180.0
SETTLED = ("RUNNING", "FINISHED", "STOPPED")
"""States that answer a request to run; see :func:`is_settled`."""
HALTED = ("STOPPED", "FINISHED", "ABSENT")
"""States that answer a stop."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The request for one query, and the permissions for its effects."""

    name: str
    action: Action
    allow: tuple[Consent, ...] = ()


@dataclass(frozen=True, slots=True)
class NewVersions:
    """Queries whose changed definition is built next to the running one, and then takes over. ``may_differ``: even
    where :func:`ds_dagster.questions.upkeep.promotion.check_promotion` refuses it."""

    queries: Sequence[str] = ()
    may_differ: bool = False


NO_VERSIONS = NewVersions()


def is_settled(status: JobStatus) -> bool:
    """Whether a job does what is wanted of it: it runs, or it ended or stopped as requested."""
    return status.state in SETTLED and not (status.state == "STOPPED" and status.desired == "RUNNING")


def opened(project: Path | None, as_json: bool, *, is_strict: bool = False) -> tuple[LoadedProject, Control]:
    """The chosen project and its control; mistakes in its SQL are shown, not raised.

    Args:
        project, as_json: of the command.
        is_strict: raise mistakes, all at once.

    Raises:
        ProjectError: if ``is_strict``.
    """
    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings, strict=is_strict)
    if not as_json:
        show_diagnostics(loaded.errors)
    return loaded, Control.open(settings)


def chosen_queries(project: LoadedProject, select: Sequence[str]) -> list[str]:
    """Names of the queries that the patterns match; without patterns all queries. A pattern matches exactly, else in
    lower case with ``*`` and ``?``. Raises: UserError JOB_UNKNOWN."""
    from fnmatch import fnmatchcase

    if not select:
        return list(project.queries)
    chosen: list[str] = []
    for pattern in select:
        exact = [pattern] if pattern in project.queries else []
        matching = exact or [name for name in project.queries if fnmatchcase(name, pattern.lower())]
        if not matching:
            raise error("JOB_UNKNOWN", name=pattern, nearest=did_you_mean(pattern, project.queries))
        chosen += [name for name in matching if name not in chosen]
    return chosen


def no_job(settings: Settings, name: str, jobs: Collection[str]) -> DsError:
    """Why a name has no job: JOB_NOT_STARTED for a query of the project, else JOB_UNKNOWN.

    Args:
        settings: of the project.
        name: not in ``jobs``.
        jobs: names of all jobs.
    """
    queries = load_project(settings.root, settings=settings).queries
    if name in queries:
        return error("JOB_NOT_STARTED", name=name)
    return error("JOB_UNKNOWN", name=name, nearest=did_you_mean(name, {*jobs, *queries}))


def converge(
    project: LoadedProject,
    control: Control,
    wishes: Sequence[Wish],
    wait: bool,
    timeout: float,
    as_json: bool,
    *,
    orphans: Sequence[str] = (),
    new: NewVersions = NO_VERSIONS,
) -> int:
    """Request each query, start the engines, wait, and report the outcome. Returns the exit code.

    Args:
        project, control, as_json: of the command.
        wishes: the request for each query.
        wait, timeout: whether to wait until all of them run, and for how many seconds.
        orphans: names for the JSON report.
        new: queries that get a new version.
    """
    generations: dict[str, int] = {}
    outcomes: dict[str, str] = {}
    refused: list[DsError] = []
    for wish in wishes:
        try:
            (ensured,) = control.ensure(project, [wish.name], wish.action, REQUESTED_BY, allow=wish.allow)
        except DsError as problem:
            refused.append(problem)
        else:
            generations[wish.name], outcomes[wish.name] = ensured.generation, ensured.outcome
    staged = _stage(project, control, new.queries, refused)
    began = control.clock.monotonic()
    if generations or staged:
        control.ensure_engines([*generations, *staged.values()], timeout if wait else 0.0)
    statuses = {}
    on_change = None if as_json else lambda s: note(f"{s.name}: {s.state.lower()}")
    if wait and generations:
        left = max(0.0, timeout - (control.clock.monotonic() - began))
        statuses_now = control.wait(list(generations), generations, left, on_change)
        statuses = {status.name: status for status in statuses_now}
    end = began + timeout if wait else None
    outcomes |= _take_over(project, control, staged, new.may_differ, end, refused)
    for name in (name for name in staged if outcomes[name] == "promoted"):
        (statuses[name],) = control.wait([name], {name: control.status(name).generation}, WAIT_SECONDS, on_change)
    bad = [status for status in statuses.values() if not is_settled(status)]
    if not wait and outcomes and not as_json:
        note(f"requested: {', '.join(outcomes)}; `ds ps` shows their states")
        waiting = [name for name, outcome in outcomes.items() if outcome == "staged"]
        if waiting:
            note(f"staged: {', '.join(waiting)}; `ds promote {' '.join(waiting)}` lets them take over")
    if as_json:
        emit_json(
            {
                "ok": not (bad or refused),
                "queries": [{"name": n, "outcome": o, "state": _state(statuses.get(n))} for n, o in outcomes.items()],
                "diagnostics": [problem.diagnostic().json() for problem in refused],
                "orphans": list(orphans),
            }
        )
        return 1 if bad or refused else 0
    show_diagnostics([problem.diagnostic() for problem in refused])
    for status in bad:
        note(
            f"{status.name} is {status.state}: {status.message or 'not up in time'}"
            + (f" (hint: {status.hint})" if status.hint else "")
        )
    return 1 if bad or refused else 0


def _stage(project: LoadedProject, control: Control, names: Sequence[str], refused: list[DsError]) -> Mapping[str, str]:
    """Stage these queries; returns name → job of the new version. Refusals go to ``refused``."""
    versions, jobs = Versions(control, REQUESTED_BY), {}
    for name in names:
        try:
            jobs[name] = versions.stage(project, name)
        except DsError as problem:
            refused.append(problem)
    return jobs


def _take_over(
    project: LoadedProject,
    control: Control,
    staged: Mapping[str, str],
    may_differ: bool,
    end: float | None,
    refused: list[DsError],
) -> Mapping[str, str]:
    """Let staged versions take over, and wait until they serve. A version that is refused stays staged.

    Args:
        project, control: of the command.
        staged: query → job of its version.
        may_differ: do not compare the versions.
        end: monotonic seconds of the control's clock; None: do not wait, a version that has not caught up stays staged.
        refused: gets the refusals.

    Returns:
        Query → outcome: ``promoted``, ``staged``, or ``requested`` if a version takes over without being waited for.
    """
    outcomes, versions = dict.fromkeys(staged, "staged"), Versions(control, REQUESTED_BY)

    def left() -> float:
        return 0.0 if end is None else max(0.0, end - control.clock.monotonic())

    def attempt(step: Callable[[str, str], object], names: Iterable[str]) -> None:
        for name in names:
            try:
                step(name, staged[name])
            except DsError as problem:
                outcomes[name] = "staged"
                if end is not None or problem.condition != "PROMOTION_TIMED_OUT":
                    refused.append(problem)

    def promote(name: str, job: str) -> None:
        row = versions.jobs(name).get(job)
        if row is not None and row.role == "staged":  # another command may have promoted it already
            if not may_differ:
                check_promotion(project, control, name, left())
            versions.promote(name, may_break=True)
        outcomes[name] = "requested"

    def wait(name: str, job: str) -> None:
        if outcomes[name] == "requested":
            versions.wait_served(name, job, left())
            outcomes[name] = "promoted"

    at_once = [name for name in staged if may_differ or versions.breaking_changes(name)]
    later = [name for name in staged if name not in at_once]
    attempt(promote, at_once)
    attempt(promote, in_order_of_progress(control, later, left()))
    if end is not None:
        attempt(wait, staged)
    return outcomes


def _state(status: JobStatus | None) -> str | None:
    return status.state if status else None
