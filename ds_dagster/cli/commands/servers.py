"""``ds up``, ``ds down``: real local servers. ``ds doctor``: checks the requirements of this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ds_dagster.cli.output import Seconds, emit_json, json_option, note, project_option, settings_of, table
from ds_dagster.errors import DsError
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.places import Places

if TYPE_CHECKING:
    from ds_dagster.local.doctor import Fact


def _names(_context: click.Context, _option: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    """``--only kafka,postgres`` and ``--only kafka --only postgres`` are the same."""
    return tuple(name.strip().lower() for text in value for name in text.split(",") if name.strip()) or None


only_option = click.option(
    "--only",
    multiple=True,
    callback=_names,
    metavar="NAME[,NAME]",
    help="kafka, kinesis, postgres (default: these three), snowflake.",
)


@click.command("up")
@only_option
@project_option
@json_option
def up_command(only: tuple[str, ...] | None, project: Path | None, as_json: bool) -> int:
    """Start the local servers (running ones stay) and let the project's stores point to them."""
    from ds_dagster import local

    settings = settings_of(project, quiet=True)
    addresses = local.up(settings.state, only=only, progress=note)
    if as_json:
        emit_json(addresses.json())
        return 0
    rows = [(name, "  ".join(f"{k}={v}" for k, v in values.items())) for name, values in addresses.json().items()]
    table(["server", "address"], rows)
    overlay = settings.state / "local.toml"
    shown = overlay.relative_to(settings.root) if overlay.is_relative_to(settings.root) else overlay
    note(f"stores of the project point here now ({shown}); `ds down` stops the servers and keeps their data")
    return 0


@click.command("down")
@only_option
@project_option
@json_option
def down_command(only: tuple[str, ...] | None, project: Path | None, as_json: bool) -> int:
    """Stop the local servers; their data, ports and addresses stay. The engine is stopped by `ds engine stop`."""
    from ds_dagster import local

    settings = settings_of(project, quiet=True)
    stopped = local.down(settings.state, only=only)
    if as_json:
        emit_json({"stopped": list(stopped)})
    else:
        note(f"stopped {', '.join(stopped)}" if stopped else "no local server ran")
        if locks.is_held(Places.of(settings).python_lock):
            note("the engine still runs: `ds engine stop` ends it")
        if any(map(locks.is_held, Places.of(settings).pool_locks())):
            note("engines of compute pools still run: `ds engine stop --all` ends them")
    return 0


@click.command("doctor")
@click.option(
    "--prepare",
    is_flag=True,
    help="First fetch and build everything that a first start needs: jars, Java operators, the archive of classes.",
)
@click.option("--online", is_flag=True, help="Also connect to every store, schema registry and secret of the project.")
@click.option(
    "--timeout",
    type=Seconds(min=0.1),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds that each connection may take with --online.",
)
@project_option
@json_option
def doctor_command(prepare: bool, online: bool, timeout: float, project: Path | None, as_json: bool) -> int:
    """Check this machine's requirements: Java, jars, node, Postgres, local servers, clock, disk, memory, cores and heap
    of each engine; with --online, whether the project's outside systems answer and accept the login. Changes nothing
    without --prepare."""
    if prepare:
        from ds_dagster.local import preparation

        preparation.prepare(note, servers=False)
    from ds_dagster.local.doctor import examine

    try:
        state = settings_of(project, quiet=as_json or not online).state
    except DsError as problem:
        if problem.condition != "PROJECT_NOT_FOUND" or online:
            raise
        state = (project or Path.cwd()).resolve() / ".ds"
    facts = (*examine(state), *_engine_facts(project), *_job_facts(state, project))
    if online:
        facts = (*facts, *_online_facts(project, timeout))
    ok = all(fact.ok for fact in facts)
    if as_json:
        emit_json({"ok": ok, "facts": [asdict(fact) for fact in facts]})
        return 0 if ok else 1
    table(["", "what", "found"], [("ok" if fact.ok else "!!", fact.name, fact.found) for fact in facts])
    for fact in facts:
        if not fact.ok:
            note(f"{fact.name}: {fact.fix}")
    return 0 if ok else 1


def _engine_facts(project: Path | None) -> tuple[Fact, ...]:
    """The engines of the project, where there is one."""
    from ds_dagster.cli.results.engine_facts import Machine, engine_facts
    from ds_dagster.project.load import load_project

    try:
        settings = settings_of(project, quiet=True)
        return engine_facts(load_project(settings.root, settings=settings), Machine.this())
    except DsError:
        return ()  # reported by whoever needs the project


def _job_facts(state: Path, project: Path | None) -> tuple[Fact, ...]:
    """Facts about jobs that should run but do not; none without a journal on this machine."""
    from ds_dagster.local.doctor import Fact
    from ds_dagster.runtime.control import Control

    if not (state / "journal.db").is_file():
        return ()
    try:
        statuses = Control.open(settings_of(project, quiet=True)).statuses()
    except DsError as problem:
        return (Fact("jobs", False, problem.message, problem.hint),)
    down = [status for status in statuses if status.is_down]
    if not down:
        return (Fact("jobs", True, f"{sum(status.state == 'RUNNING' for status in statuses)} run"),)
    return tuple(
        Fact(f"job {status.name}", False, f"{status.state} {status.message}".strip(), status.hint or "see `ds ps`")
        for status in down
    )


def _online_facts(project: Path | None, seconds: float) -> tuple[Fact, ...]:
    from ds_dagster.cli.online import examine_online
    from ds_dagster.project.load import load_project

    settings = settings_of(project, quiet=True)
    return examine_online(load_project(settings.root, settings=settings), seconds)
