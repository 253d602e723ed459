"""``ds skip``: skip the one record that a job fails at."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from pathlib import Path

import click

from ds_dagster.cli.converging import SETTLED, WAIT_SECONDS, no_job
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.skipping import skip


@click.command("skip")
@click.argument("job")
@click.option("--partition", "--shard", required=True, help="Partition of the topic, or shard of the stream.")
@click.option("--offset", "--sequence-number", "position", required=True, help="Its place: offset or sequence number.")
@click.option("--reason", default="", help="For the history and the row log.")
@click.option("--wait/--no-wait", default=True, show_default=True)
@project_option
@json_option
def skip_command(
    job: str, partition: str, position: str, reason: str, wait: bool, project: Path | None, as_json: bool
) -> int:
    """Let JOB continue after the record at which it fails. Its checkpoint and all other rows are kept.

    Only the record that the job's failure names is skipped; `ds ps` shows it. `ds reset` reads it again.
    """
    settings = settings_of(project, quiet=as_json)
    control = Control.open(settings)
    if job not in (jobs := [status.name for status in control.statuses()]):
        raise no_job(settings, job, jobs)
    by = f"ds ({getpass.getuser()})"
    ensured = skip(control, job, partition, position, requested_by=by, reason=reason)
    status = control.status(job)
    if ensured.outcome == "requested" and status.desired == "RUNNING":
        control.ensure_engines([job], WAIT_SECONDS if wait else 0.0)
        if wait:
            on_change = None if as_json else lambda s: note(f"{s.name}: {s.state.lower()}")
            (status,) = control.wait([job], {job: ensured.generation}, WAIT_SECONDS, on_change)
    if as_json:
        emit_json({**asdict(ensured), "state": status.state, "condition": status.condition})
    elif ensured.outcome == "nothing":
        note(f"{job} already skips record {position} of partition {partition}")
    elif status.message:
        note(f"{job} is {status.state}: {status.message}" + (f" (hint: {status.hint})" if status.hint else ""))
    return 0 if not wait or ensured.outcome == "nothing" or status.state in (*SETTLED, "ABSENT") else 1
