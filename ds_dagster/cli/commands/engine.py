"""``ds engine run | start | stop | status``: the process that hosts the jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from ds_dagster.cli.output import clock, emit_json, json_option, note, pool_option, project_option, settings_of, table
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.pools import pool_settings
from ds_dagster.runtime.processes.liveness import engine_name, pool_name
from ds_dagster.runtime.status import EngineStatus
from ds_dagster.settings import Settings


@click.group("engine")
def engine_command() -> None:
    """The process that hosts the jobs."""


of_pool = pool_option("Compute pool; without it the project's own engine.")


@engine_command.command("run")
@of_pool
@project_option
def run(pool: str, project: Path | None) -> int:
    """Host the jobs in the foreground, until SIGTERM or Ctrl-C; jobs stop after their batch."""
    from ds_dagster.runtime.engine import run_engine

    return run_engine(pool_settings(settings_of(project), pool))


@engine_command.command("start")
@of_pool
@project_option
@json_option
def start(pool: str, project: Path | None, as_json: bool) -> int:
    """Host the jobs in a detached process; does nothing if the engine already runs."""
    settings = settings_of(project, quiet=as_json)
    pool_settings(settings, pool)
    engine = Control.open(settings).ensure_engine(pool=pool)
    if as_json:
        emit_json({"name": engine.name, "pid": engine.pid, "state": engine.state})
    else:
        note(f"engine {engine.name}: {engine.state.lower()}, pid {engine.pid}")
    return 0


@engine_command.command("stop")
@click.option("--kill", is_flag=True, help="End at once; the batches under way are repeated at the next start.")
@of_pool
@click.option("--all", "everything", is_flag=True, help="Also the engines of all compute pools.")
@project_option
@json_option
def stop(kill: bool, pool: str, everything: bool, project: Path | None, as_json: bool) -> int:
    """End the engine; jobs stop after their batch and continue when an engine starts again."""
    if pool and everything:
        raise click.UsageError("either --pool or --all")
    settings = settings_of(project, quiet=as_json)
    control = Control.open(settings)
    engines = [engine for engine in control.engines() if everything or engine.name == engine_name(pool)]
    if not engines:
        pool_settings(settings, pool)
    stopped = [_stop(settings, engine, kill, as_json) for engine in engines]
    if as_json:
        emit_json({"stopped": any(stopped)})
    elif not any(stopped):
        note("no engine runs here")
    return 0


def _stop(settings: Settings, engine: EngineStatus, kill: bool, as_json: bool) -> bool:
    from ds_dagster.runtime.engine import stop_engine

    if not as_json and engine.state != "GONE":
        how = "at once" if kill else "jobs end their batch first"
        note(f"engine {engine.name}: stopping{f', pid {engine.pid}' if engine.pid else ''}; {how}")
    stopped = stop_engine(replace(settings, pool=pool_name(engine.name)), kill=kill)
    if stopped and not as_json:
        note(f"engine {engine.name}: stopped")
    return stopped


@engine_command.command("status")
@of_pool
@project_option
@json_option
def status(pool: str, project: Path | None, as_json: bool) -> int:
    """Show which engines run, since when, and their versions; with --pool only that pool's engine."""
    settings = settings_of(project, quiet=as_json)
    engines = Control.open(settings).engines()
    if pool:
        engines = [engine for engine in engines if engine.name == engine_name(pool)]
        pool_settings(settings, "" if engines else pool)
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
