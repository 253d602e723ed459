"""``ds repair``: what can be done for a job that its sink or checkpoint stops, and doing it where that is exact."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from ds_dagster.cli.job_commands import SETTLED, WAIT_SECONDS
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of, table
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.project import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.repair import RESET, Way, ways
from ds_dagster.runtime.status import JobStatus


@click.command("repair")
@click.argument("job")
@click.option("--reset", "does_reset", is_flag=True, help="Reset the job, where its rows are exact afterwards.")
@project_option
@json_option
def repair_command(job: str, does_reset: bool, project: Path | None, as_json: bool) -> int:
    """What can be done for JOB when its checkpoint and its sink disagree, or one of them is gone."""
    settings = settings_of(project, quiet=as_json)
    loaded, control = load_project(settings.root, settings=settings), Control.open(settings)
    if job not in loaded.queries:
        raise error("JOB_UNKNOWN", name=job, nearest=did_you_mean(job, list(loaded.queries)))
    status = control.status(job)
    found = ways(status, loaded.queries[job])
    after = None
    if does_reset:
        if not any(way.name == RESET and way.exact for way in found):
            raise error("REPAIR_NOT_EXACT", name=job, state=status.state.lower(), reason=_reason(status, found))
        (ensured,) = control.ensure(loaded, [job], action="reset", requested_by=f"ds repair ({status.condition})")
        control.ensure_engine()
        (after,) = control.wait([job], {job: ensured.generation}, WAIT_SECONDS)
    _show(status, found, after, as_json)
    return 0 if after is None or after.state in SETTLED else 1


def _show(status: JobStatus, found: tuple[Way, ...], after: JobStatus | None, as_json: bool) -> None:
    if as_json:
        shown = {name: getattr(status, name) for name in ("name", "state", "condition", "message")}
        emit_json({**shown, "ways": [asdict(way) for way in found], "after": after.state if after else None})
        return
    if after is not None:
        note(f"{after.name}: {after.state.lower()}")
    elif not found:
        note(f"{status.name} is {status.state.lower()}: nothing to repair between its checkpoint and its sink")
    else:
        note(f"{status.name} is {status.state.lower()}: {status.message} [{status.condition}]")
        rows = [(way.name, "yes" if way.exact else "no", way.does, way.command) for way in found]
        table(["way", "exact", "does", "then"], rows)


def _reason(status: JobStatus, found: tuple[Way, ...]) -> str:
    return next((way.does for way in found if way.name == RESET), status.message or "its sink and checkpoint agree")
