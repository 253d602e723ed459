"""Commands about jobs: ps, logs, stop, restart, reset, gc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ds_dagster.cli.converging import (
    HALTED,
    REQUESTED_BY,
    WAIT_SECONDS,
    Wish,
    chosen_queries,
    converge,
    no_job,
    opened,
)
from ds_dagster.cli.output import (
    LAYOUT,
    clock,
    emit_json,
    json_option,
    note,
    pool_option,
    project_option,
    settings_of,
    table,
    visible,
)
from ds_dagster.cli.slots import drop, left_over
from ds_dagster.errors import DsError
from ds_dagster.figures import FIGURES, rounded
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.pools import pool_settings
from ds_dagster.runtime.processes.liveness import engine_name
from ds_dagster.runtime.processes.tail import tail_lines
from ds_dagster.runtime.status import Action, Consent, JobStatus, consents, ended_with_engine, outlook
from ds_dagster.runtime.versioning import Versions
from ds_dagster.runtime.views import progress_of, unknown_columns_of
from ds_dagster.settings import Settings

ORPHAN = "orphan, no statement of the project makes it"
COLUMNS = {name: figure for name, figure in FIGURES.items() if figure.heading}


@click.command("ps")
@click.option("--exit-code", is_flag=True, help="Exit 1 when a job that should run does not.")
@project_option
@json_option
def ps_command(exit_code: bool, project: Path | None, as_json: bool) -> int:
    """Engines and jobs."""
    settings = settings_of(project, quiet=as_json)
    control = Control.open(settings)
    engines, statuses = control.engines(), control.statuses()
    orphans = _orphans(settings, control) if statuses else frozenset()
    code = 1 if exit_code and any(status.is_down for status in statuses) else 0
    if as_json:
        jobs = [{**_job_json(s), "orphan": s.name in orphans} for s in statuses]
        logs = {engine.name: control.log_place(engine=engine.name) for engine in engines}
        emit_json({"engines": [_engine_json(e) | {"log": logs[e.name]} for e in engines], "jobs": jobs})
        return code
    for engine in engines:
        log = control.log_place(engine=engine.name)
        note(
            f"engine {engine.name}: {'not running' if engine.state == 'GONE' else engine.state.lower()}"
            + (f", pid {engine.pid} on {engine.host}, log {log}" if engine.pid else "")
        )
    now = control.clock.now()
    has_pools = any(status.pool for status in statuses)
    names = ["query", "pool", "state"] if has_pools else ["query", "state"]
    headers = [*names, *(figure.heading for figure in COLUMNS.values()), "ckpt", "reason"]
    numbers = tuple(place for place, figure in enumerate(COLUMNS.values(), len(names)) if figure.unit != "moment")
    rows = [_row(status, now, ORPHAN if status.name in orphans else "", has_pools) for status in statuses]
    table(headers, rows, right=(*numbers, len(COLUMNS) + len(names)))
    return code


def _orphans(settings: Settings, control: Control) -> frozenset[str]:
    """Names of jobs without a statement; empty if the project has errors, since orphans are unknown then."""
    try:
        loaded = load_project(settings.root, settings=settings)
    except DsError:
        return frozenset()
    return frozenset() if loaded.errors else frozenset(status.name for status in control.orphans(loaded))


def _row(status: JobStatus, now: float, remark: str = "", has_pools: bool = False) -> Sequence[object]:
    again = outlook(status.state, status.next_retry, now)
    mode = str(status.details.get("mode", "")) if status.state == "RUNNING" else ""
    crowding = str(status.details.get("state", "")) if status.state == "RUNNING" else ""
    parts = (remark, mode, crowding, progress_of(status), again, status.message, unknown_columns_of(status))
    reason = ": ".join(part for part in parts if part)
    state = status.state if status.desired != "STOPPED" or status.state == "STOPPED" else f"{status.state} (to stop)"
    state = "STOPPED (engine)" if ended_with_engine(status) else state
    values = ((figure, getattr(status, name)) for name, figure in COLUMNS.items())
    figures = (clock(value) if figure.unit == "moment" else rounded(figure, value) for figure, value in values)
    pool = (status.pool or None,) if has_pools else ()
    return (status.name, *pool, state, *figures, f"v{status.checkpoint_version}", reason or None)


def _engine_json(engine: object) -> dict[str, object]:
    values = asdict(engine)  # type: ignore[call-overload]
    return {key: values[key] for key in ("name", "pid", "host", "state", "version")}


def _job_json(status: JobStatus) -> dict[str, object]:
    reason = f"{status.condition}: {status.message}" if status.condition else ""
    return {
        "name": status.name,
        "relations": status.relation.split(", "),
        "state": status.state,
        "desired": status.desired,
        "reason": reason,
        **{figure.json: getattr(status, name) for name, figure in FIGURES.items()},
        "details": dict(status.details),
        "checkpoint": status.checkpoint_version,
        "query": status.of,
        "version": status.version,
        "role": status.role,
        "pool": status.pool,
        "fingerprint": status.fingerprint,
        "next_retry": status.next_retry,
        "log": status.log,
    }


@click.command("logs")
@click.argument("query", required=False)
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they arrive, until Ctrl-C.")
@click.option("-n", "--lines", default=50, show_default=True, help="Lines from the end.")
@pool_option("Compute pool whose engine's log is shown, without QUERY.")
@project_option
def logs_command(query: str | None, follow: bool, lines: int, pool: str, project: Path | None) -> int:
    """Show the log of QUERY, or of the engine."""
    from ds_dagster.cli.follow import follow_file

    if query is not None and pool:
        raise click.UsageError("a query's log has no pool: leave QUERY or --pool out")
    settings = settings_of(project)
    control = Control.open(settings)
    if query is not None and query not in (names := [status.name for status in control.statuses()]):
        raise no_job(settings, query, names)
    engine = control.fleet.places_of(engine_name(pool))
    path = control.log_path(query) if query is not None else engine.engine_log
    if not path.exists():
        pool_settings(settings, pool)  # the log of a pool that was removed may still be there
        note(f"there is no log yet: {path}")
    for line in tail_lines(path, lines):
        _show_line(line)
    if follow:
        follow_file(path, _show_line)
    return 0


def _show_line(line: str) -> None:
    click.echo(visible(line, keep=LAYOUT))


@click.command("stop")
@click.argument("queries", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All queries, orphans included.")
@project_option
@json_option
def stop_command(queries: tuple[str, ...], everything: bool, project: Path | None, as_json: bool) -> int:
    """Stop queries after their batch; they stay stopped until `ds apply` or Dagster starts them.

    Waits until they have stopped, three minutes at most; exits 1 if one has not. Without an engine there is nothing to
    wait for.
    """
    settings = settings_of(project, quiet=as_json)
    control = Control.open(settings)
    names_there = [status.name for status in control.statuses()]
    names = names_there if everything else list(queries)
    if not names and not everything:
        raise click.UsageError("stop needs query names, or --all")
    for name in names:
        if name not in names_there:
            raise no_job(settings, name, names_there)
    is_running = any(engine.state != "GONE" for engine in control.engines())
    if not as_json:
        how = "each ends its batch first" if is_running else "no engine runs, so none of them does"
        note(f"stopping {', '.join(names)}; {how}" if names else "there are no queries to stop")
    ensured = control.stop(names, requested_by=REQUESTED_BY)
    on_change = None if as_json else lambda s: note(f"{s.name}: {s.state.lower()}")
    statuses = control.wait(names, {e.name: e.generation for e in ensured}, WAIT_SECONDS, on_change)
    late = [status for status in statuses if status.state not in HALTED]
    if as_json:
        states = {status.name: status.state for status in statuses}
        emit_json([{**asdict(e), "state": states[e.name]} for e in ensured])
    else:
        for status in late:
            note(f"{status.name} is still {status.state}: {status.message or 'its batch has not ended'}")
    return 1 if late else 0


def _act(
    action: Action,
    queries: tuple[str, ...],
    wait: bool,
    project: Path | None,
    as_json: bool,
    allow: Sequence[Consent] = (),
) -> int:
    loaded, control = opened(project, as_json)
    if not queries:
        raise click.UsageError(f"{action} needs query names")
    wishes = [Wish(name, action, tuple(allow)) for name in chosen_queries(loaded, queries)]
    return converge(loaded, control, wishes, wait, WAIT_SECONDS, as_json)


@click.command("restart")
@click.argument("queries", nargs=-1)
@click.option(
    "--allow",
    type=click.Choice(["partial"]),
    help="partial: keep the state although results are added; in groups that exist they count only rows from now on.",
)
@click.option("--wait/--no-wait", default=True, show_default=True)
@project_option
@json_option
def restart_command(
    queries: tuple[str, ...], allow: str | None, wait: bool, project: Path | None, as_json: bool
) -> int:
    """Stop and start QUERIES with today's definition; the checkpoint is kept, or the change is refused."""
    return _act("restart", queries, wait, project, as_json, consents(partial=allow is not None))


@click.command("reset")
@click.argument("queries", nargs=-1)
@click.option(
    "--allow",
    type=click.Choice(["duplicates"]),
    help="duplicates: write rows again that a stream or another sink of appended rows already has.",
)
@click.option("--from", "begin", type=click.Choice(["now"]), help="now: read only records that arrive from now on.")
@click.option("--empty", is_flag=True, help="First delete the rows of topics that only this query writes.")
@click.option("--wait/--no-wait", default=True, show_default=True)
@project_option
@json_option
def reset_command(
    queries: tuple[str, ...],
    allow: str | None,
    begin: str | None,
    empty: bool,
    wait: bool,
    project: Path | None,
    as_json: bool,
) -> int:
    """Start QUERIES over from a new checkpoint; the old one is kept until `ds gc`.

    Refused if rows would be written twice, unless `--allow duplicates` permits that or another option avoids it:
    `--from now` reads only records that arrive after the start, so earlier records are in no state and no result;
    `--empty` first deletes the rows of topics that no other query writes or has read.
    """
    if begin and not as_json:
        note("from now: state is empty, records already in the sources are not read, views and tables lose their rows")
    chosen = consents(duplicates=allow is not None, from_now=begin is not None, empty=empty)
    return _act("reset", queries, wait, project, as_json, chosen)


@click.command("gc")
@click.option("--yes", is_flag=True, help="Delete; without it only list.")
@project_option
@json_option
def gc_command(yes: bool, project: Path | None, as_json: bool) -> int:
    """List or delete kept versions of queries with their rows (the running engine drops them), checkpoint
    versions that no job needs, and replication slots (with their publications) of jobs that are gone."""
    settings = settings_of(project, quiet=as_json)
    control, loaded = Control.open(settings), load_project(settings.root, settings=settings)
    checkpoints_left, slots = control.old_checkpoints(), left_over(loaded, control)
    versions = [status for status in control.statuses() if status.role in ("kept", "dropping")]
    if yes:
        Versions(control, REQUESTED_BY).drop_kept()
        for item in checkpoints_left:
            control.delete_checkpoint(item)
        for slot in slots:
            drop(loaded, slot)
    if as_json:
        checkpoints = [{"path": str(item.path), "bytes": item.size, "deleted": yes} for item in checkpoints_left]
        names = [{"version": status.name, "deleted": yes} for status in versions]
        emit_json([*names, *checkpoints, *({**asdict(slot), "deleted": yes} for slot in slots)])
        return 0
    if not (versions or checkpoints_left or slots):
        note("there is nothing to delete")
    word = "deleted" if yes else "would delete"
    for status in versions:
        click.echo(f"{word} version {status.name}")
    for item in checkpoints_left:
        click.echo(f"{word} {item.path} ({item.size / 1e6:.1f} MB)")
    for slot in slots:
        click.echo(f"{word} slot {slot.name} of store {slot.store} (keeps {slot.retained / 1e6:.1f} MB of log)")
    return 0
