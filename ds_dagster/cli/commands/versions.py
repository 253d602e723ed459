"""Commands about versions of a query: stage, promote, rollback, abandon."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ds_dagster.cli.converging import REQUESTED_BY, WAIT_SECONDS, chosen_queries, is_settled, opened
from ds_dagster.cli.output import emit_json, json_option, note, project_option, show_diagnostics
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.project.load import LoadedProject
from ds_dagster.questions.upkeep.promotion import ROW_PERCENT, check_promotion
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.status import JobStatus, version_number
from ds_dagster.runtime.versioning import Versions
from ds_dagster.runtime.views import progress_of

TAKE_OVER_SECONDS = 600.0
timeout_option = click.option(
    "--timeout", default=TAKE_OVER_SECONDS, show_default=True, help="Seconds until a version must have caught up."
)


@dataclass(frozen=True, slots=True)
class VersionOutcome:
    """Outcome for one query: its version and the state of that version, as ``--json`` prints it. ``is_up``: whether the
    version runs as requested; if not, the command fails. ``hint``: what to do then."""

    name: str
    version: int
    state: str
    is_up: bool = True
    hint: str = ""

    @property
    def document(self) -> Mapping[str, object]:
        """The JSON of the outcome."""
        return {"name": self.name, "version": self.version, "state": self.state, "hint": self.hint}


Step = Callable[[], VersionOutcome]
"""The part of a command that needs the engine."""


@click.command("stage")
@click.argument("queries", nargs=-1)
@project_option
@json_option
def stage_command(queries: tuple[str, ...], project: Path | None, as_json: bool) -> int:
    """Build changed QUERIES next to the running ones, which continue; without names all changed queries.

    A staged version reads its sources from their starting position. `ds promote` lets it take over.
    """
    loaded, control = opened(project, as_json)
    names = chosen_queries(loaded, queries) if queries else _changed(loaded, control)
    return each(names, control, as_json, lambda name: stage_one(loaded, control, name, as_json))


@click.command("promote")
@click.argument("queries", nargs=-1)
@click.option("--yes", is_flag=True, help="Even if columns, types, the key or the number of rows differ.")
@click.option(
    "--row-percent",
    default=ROW_PERCENT,
    show_default=True,
    help="Allowed difference between the numbers of rows, in %.",
)
@timeout_option
@project_option
@json_option
def promote_command(
    queries: tuple[str, ...], yes: bool, row_percent: float, timeout: float, project: Path | None, as_json: bool
) -> int:
    """Let staged versions of QUERIES take over as soon as they have caught up; without names all staged versions.

    Readers see the former version until the public name changes, in one step. The former version is stopped and kept
    for `ds rollback`.
    """
    loaded, control = opened(project, as_json)
    names = chosen_queries(loaded, queries) if queries else _staged(loaded, control)

    def requested(name: str) -> Step:
        if not _has_staged(control, name):
            raise error("NOTHING_STAGED", name=name)

        def promoted() -> VersionOutcome:
            if not yes:
                check_promotion(loaded, control, name, timeout, row_percent)
            job = Versions(control, REQUESTED_BY).promote(name, may_break=yes)
            return _taken_over(control, name, job, timeout, as_json)

        return promoted

    return each(names, control, as_json, requested)


@click.command("rollback")
@click.argument("query")
@click.option("--to", type=int, help="Number of a kept version (default: the last one that served).")
@timeout_option
@project_option
@json_option
def rollback_command(query: str, to: int | None, timeout: float, project: Path | None, as_json: bool) -> int:
    """Let a kept version of QUERY take over again: it continues from its checkpoint, and catches up first.

    With `--to` the command may be repeated: nothing happens if that version serves.
    """
    loaded, control = opened(project, as_json)
    _check_known([query], loaded, control)

    def requested(name: str) -> Step:
        versions = Versions(control, REQUESTED_BY)
        versions.check_rollback(name, to)
        return lambda: _taken_over(control, name, versions.rollback(name, to), timeout, as_json)

    return each([query], control, as_json, requested)


@click.command("abandon")
@click.argument("queries", nargs=-1, required=True)
@project_option
@json_option
def abandon_command(queries: tuple[str, ...], project: Path | None, as_json: bool) -> int:
    """Drop the staged versions of QUERIES with their rows and their checkpoints."""
    loaded, control = opened(project, as_json)
    _check_known(queries, loaded, control)

    def requested(name: str) -> Step:
        job = Versions(control, REQUESTED_BY).abandon(name)
        return lambda: VersionOutcome(name, version_number(job), "abandoned")

    return each(queries, control, as_json, requested)


def each(names: Sequence[str], control: Control, as_json: bool, request: Callable[[str], Step]) -> int:
    """Check the request for each query, start its engine and run its step, in order; a refusal does not stop the
    others, and starts no engine. Prints the outcomes, returns the exit code: 1 after a refusal, and if a version does
    not run."""
    outcomes: list[VersionOutcome] = []
    problems: list[DsError] = []
    if not names and not as_json:
        note("nothing to do")
    for name in names:
        try:
            step = request(name)
        except DsError as problem:
            problems.append(problem)
            continue
        control.ensure_engines([name], WAIT_SECONDS)
        try:
            outcomes.append(step())
        except DsError as problem:
            problems.append(problem)
    code = 1 if problems or not all(item.is_up for item in outcomes) else 0
    if as_json:
        diagnostics = [problem.diagnostic().json() for problem in problems]
        emit_json({"ok": not code, "versions": [item.document for item in outcomes], "diagnostics": diagnostics})
        return code
    for item in outcomes:
        click.echo(f"{item.name}: version {item.version} {item.state}")
        if item.hint:
            note(f"  hint: {item.hint}")
    show_diagnostics([problem.diagnostic() for problem in problems])
    return code


def stage_one(project: LoadedProject, control: Control, name: str, as_json: bool) -> Step:
    """Stage one query; the step waits until its version runs.

    Raises:
        UserError: as :meth:`Versions.stage`.
    """
    versions = Versions(control, REQUESTED_BY)
    job = versions.stage(project, name)

    def staged() -> VersionOutcome:
        row = versions.jobs(name)[job]
        on_change = None if as_json else _said
        (status,) = control.wait([row.name], {row.name: row.generation}, WAIT_SECONDS, on_change)
        is_up, now = is_settled(status), versions.jobs(name).get(job)
        if now is None or now.role == "dropping":
            return VersionOutcome(name, row.version, "was abandoned meanwhile", is_up=False)
        state = row.role if is_up else f"is {_reason(status)}"
        return VersionOutcome(name, row.version, state, is_up, "" if is_up else status.hint)

    return staged


def _has_staged(control: Control, name: str) -> bool:
    return any(row.role in ("staged", "promoting") for row in Versions(control).jobs(name).values())


def _check_known(names: Sequence[str], project: LoadedProject, control: Control) -> None:
    """Raises: UserError JOB_UNKNOWN for a name that is neither a query of the project nor a job."""
    jobs = {*project.queries, *(status.of for status in control.statuses())}
    for name in names:
        if name not in jobs:
            raise error("JOB_UNKNOWN", name=name, nearest=did_you_mean(name, jobs))


def _taken_over(control: Control, name: str, job: str, timeout: float, as_json: bool) -> VersionOutcome:
    texts: list[str] = []

    def tell(status: JobStatus) -> None:
        text = ": ".join(filter(None, (status.name, progress_of(status), status.message)))
        if text not in texts[-1:]:
            note(text)
            texts.append(text)

    version = Versions(control, REQUESTED_BY).wait_served(name, job, timeout, None if as_json else tell)
    generation = control.status(name).generation
    (status,) = control.wait([name], {name: generation}, WAIT_SECONDS)
    is_up = is_settled(status)
    reason = "" if is_up else f", and is {_reason(status)}"
    return VersionOutcome(name, version, f"serves{reason}", is_up, "" if is_up else status.hint)


def _reason(status: JobStatus) -> str:
    return f"{status.state}: {status.message or 'not up in time'}"


def _said(status: JobStatus) -> None:
    note(f"{status.name}: {status.state.lower()}")


def _changed(project: LoadedProject, control: Control) -> list[str]:
    return [change.name for change in control.changes(project, list(project.queries)) if change.beside]


def _staged(project: LoadedProject, control: Control) -> list[str]:
    waiting = {status.of for status in control.statuses() if status.role in ("staged", "promoting")}
    return [name for name in project.queries if name in waiting]
