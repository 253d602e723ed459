"""Commands that compare the project with its running queries: plan, apply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ds_dagster.cli.converging import REQUESTED_BY, WAIT_SECONDS, NewVersions, Wish, chosen_queries, converge, opened
from ds_dagster.cli.output import emit_json, json_option, note, project_option, show_diagnostics
from ds_dagster.cli.plan_online import OnlinePlan
from ds_dagster.cli.plan_report import plan_json, plan_markdown, print_plan
from ds_dagster.errors import DsError
from ds_dagster.runtime.deciding.permissions import PERMISSIONS, Permission, action_for
from ds_dagster.runtime.planning.planned import PlannedChange, planned_changes, unknown_changes
from ds_dagster.runtime.planning.running import Running


@click.command("plan")
@click.argument("select", nargs=-1)
@click.option(
    "--exit-code", is_flag=True, help="Exit 2 if a long-lived query or an orphan needs an action, 1 after mistakes."
)
@click.option(
    "--against",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Compare with a state file instead of the journal.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the running definitions into a state file for --against.",
)
@click.option("--online", is_flag=True, help="Look into the stores: records that are read again, changes by others.")
@click.option("--markdown", is_flag=True, help="Print Markdown, for a comment on a pull request.")
@project_option
@json_option
def plan_command(
    select: tuple[str, ...],
    exit_code: bool,
    against: Path | None,
    save: Path | None,
    online: bool,
    markdown: bool,
    project: Path | None,
    as_json: bool,
) -> int:
    """Show what `apply` would do to each query, with the rule that decides.

    SELECT: query names or patterns. If the journal does not answer, the verdict of each query is `unknown`, and the
    exit code is 1.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json are two formats: choose one")
    loaded, control = opened(project, as_json)
    is_whole = not select and not loaded.errors  # only a whole project tells which jobs are orphans
    names = None if is_whole else chosen_queries(loaded, select)
    try:
        running = control.running() if against is None else Running.from_file(against)
    except DsError as problem:
        if save is not None or online or not problem.condition.startswith("JOURNAL_"):
            raise
        show_diagnostics([problem.diagnostic()])
        note("this plan is not compared with running queries; use `--against FILE` with a file of `ds plan --save`")
        _show(unknown_changes(loaded, names), as_json, markdown)
        return 1
    lines = planned_changes(loaded, running, names)
    if online:
        lines = OnlinePlan(loaded, control, running).examined(lines)
    if save is not None:
        save.write_text(running.to_json(), encoding="utf-8")
    _show(lines, as_json, markdown)
    code = 1 if loaded.errors else 2 if any(line.waits for line in lines) else 0
    return code if exit_code else 0


def _show(lines: Sequence[PlannedChange], as_json: bool, markdown: bool) -> None:
    if as_json:
        emit_json(plan_json(lines))
    elif markdown:
        click.echo(plan_markdown(lines), nl=False)
    else:
        print_plan(lines)


class Permissions(click.ParamType[frozenset[Permission]]):
    """Names of permissions, separated by commas."""

    name = "permissions"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[Permission]:
        """The permissions; an unknown name is refused."""
        if isinstance(value, frozenset):
            return value
        names = {part.strip() for part in str(value).split(",")}
        for name in sorted(names - set(PERMISSIONS)):
            self.fail(f"{name!r} is not a valid permission: choose from {', '.join(PERMISSIONS)}", param, ctx)
        return frozenset(name for name in PERMISSIONS if name in names)


@click.command("apply")
@click.argument("select", nargs=-1)
@click.option("--wait/--no-wait", default=True, help="Wait until every query runs.", show_default=True)
@click.option(
    "--timeout", default=WAIT_SECONDS, show_default=True, help="Seconds to wait, the engine's start included."
)
@click.option("--prune", is_flag=True, help="Stop jobs whose statement is no longer in the project.")
@click.option(
    "--allow",
    type=Permissions(),
    default=frozenset(),
    metavar="LIST",
    help="Permitted changes of running queries, separated by commas: restart (continue with the new definition), "
    "new-version (build it next to the running query, then let it take over), differences (it takes over even if its "
    "columns, types, key or number of rows differ as in `ds promote --yes`), partial (with restart: keep the state "
    "although results of an aggregate are added; in groups that exist they count only rows since the change), reset "
    "(start over), duplicates and loss "
    "(of a reset; loss also of a new version), prune.",
)
@project_option
@json_option
def apply_command(
    select: tuple[str, ...],
    wait: bool,
    timeout: float,
    prune: bool,
    allow: frozenset[Permission],
    project: Path | None,
    as_json: bool,
) -> int:
    """Make sure the project's long-lived queries run, without Dagster. Finite loads are left to a scheduler.

    A query that runs with another definition is left alone, unless `--allow` names the permissions that its change
    needs (`ds plan` shows them). A new version that `ds promote` would refuse without `--yes` stays staged.
    """
    prune = prune or "prune" in allow
    if prune and select:
        raise click.UsageError("--prune and --allow prune apply to the whole project: leave the names out")
    loaded, control = opened(project, as_json, is_strict=True)
    orphans = [] if select else [status.name for status in control.orphans(loaded)]
    if prune:
        if orphans and not as_json:
            note(f"stopping jobs that no statement of the project makes: {', '.join(orphans)}")
        control.stop(orphans, requested_by=REQUESTED_BY)
    elif orphans and not as_json:
        note(f"no statement of the project makes {', '.join(orphans)}: `ds apply --prune` stops such jobs")
    names = [name for name in chosen_queries(loaded, select) if not loaded.queries[name].is_finite]
    ways = {change.name: action_for(change, allow) for change in control.changes(loaded, names)}
    wishes = [Wish(name, way, allow_) for name, (way, allow_) in ways.items() if way != "new-version"]
    beside = [name for name, (way, _) in ways.items() if way == "new-version"]
    new = NewVersions(beside, may_differ="differences" in allow)
    return converge(loaded, control, wishes, wait, timeout, as_json, orphans=orphans, new=new)
