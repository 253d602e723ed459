"""``ds engine run | start | stop | status``: the process that hosts the jobs."""

from __future__ import annotations

from pathlib import Path

import click

from ds_dagster.cli.output import clock, emit_json, json_option, note, project_option, settings_of, table
from ds_dagster.runtime.control import Control


@click.group("engine")
def engine_command() -> None:
    """The process that hosts the jobs."""


@engine_command.command("run")
@project_option
def run(project: Path | None) -> int:
    """Host the jobs in the foreground, until SIGTERM or Ctrl-C; jobs stop after their batch."""
    from ds_dagster.runtime.engine import run_engine

    return run_engine(settings_of(project))


@engine_command.command("start")
@project_option
@json_option
def start(project: Path | None, as_json: bool) -> int:
    """Host the jobs in a detached process; does nothing when one runs."""
    engine = Control.open(settings_of(project, quiet=as_json)).ensure_engine()
    if as_json:
        emit_json({"name": engine.name, "pid": engine.pid, "state": engine.state})
    else:
        note(f"engine {engine.name}: {engine.state.lower()}, pid {engine.pid}")
    return 0


@engine_command.command("stop")
@click.option("--kill", is_flag=True, help="End at once; the batches under way are repeated at the next start.")
@project_option
@json_option
def stop(kill: bool, project: Path | None, as_json: bool) -> int:
    """End the engine; jobs stop after their batch and go on when an engine starts again."""
    from ds_dagster.runtime.engine import stop_engine

    settings = settings_of(project, quiet=as_json)
    engine = Control.open(settings).engines()[0]
    if not as_json and engine.state != "GONE":
        how = "at once" if kill else "jobs end their batch first"
        note(f"engine {engine.name}: stopping{f', pid {engine.pid}' if engine.pid else ''}; {how}")
    stopped = stop_engine(settings, kill=kill)
    if as_json:
        emit_json({"stopped": stopped})
    else:
        note(f"engine {engine.name}: stopped" if stopped else "no engine runs here")
    return 0


@engine_command.command("status")
@project_option
@json_option
def status(project: Path | None, as_json: bool) -> int:
    """Show whether an engine runs, since when, and its version."""
    engines = Control.open(settings_of(project, quiet=as_json)).engines()
    rows = [
        {
            "name": e.name,
            "state": e.state,
            "pid": e.pid if as_json or e.pid is None else str(e.pid),
            "host": e.host,
            "version": e.version,
            "started": clock(e.started),
        }
        for e in engines
    ]
    if as_json:
        emit_json(rows)
    elif rows:
        table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        note("no engine has run here")
    return 0 if any(e.state == "RUNNING" for e in engines) else 1
