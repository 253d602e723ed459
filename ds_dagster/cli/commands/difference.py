"""``ds diff``: compares the rows of a staged version with the serving version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of, visible
from ds_dagster.project.load import load_project

if TYPE_CHECKING:
    from ds_dagster.questions.upkeep.difference import Difference

DIFFERS = 2


@click.command("diff")
@click.argument("relation")
@click.option("--version", type=int, help="Number of a version (default: the staged version).")
@click.option("--exit-code", is_flag=True, help="Exit 2 if rows differ, or columns are lost or have other types.")
@project_option
@json_option
def diff_command(relation: str, version: int | None, exit_code: bool, project: Path | None, as_json: bool) -> int:
    """Compare the staged version of RELATION with the serving version, row by row by key, before `ds promote`.

    Views, and changelogs whose rows replace one another. Keys are counted: added, removed, changed, and changed by
    column. Up to 20 of them are shown. Values of DOUBLE and FLOAT that differ in their last digits are equal.
    """
    from ds_dagster.questions.relations import resolve_typed
    from ds_dagster.questions.upkeep.difference import difference, document

    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings)
    result = difference(loaded, resolve_typed(loaded, relation), version)
    if as_json:
        emit_json(document(result))
    else:
        _print(result)
    return DIFFERS if exit_code and not result.is_equal else 0


def _print(result: Difference) -> None:
    from ds_dagster.questions.upkeep.difference import sample_text

    counts = result.counts
    for sample in counts.samples:
        click.echo(visible(sample_text(sample)))
    for name, (before, after) in result.types.items():
        note(f"column {name} has another type: {before} → {after}")
    for name, count in counts.columns.items():
        note(f"column {name} differs in {count} rows")
    for version, names in ((result.after, result.new_columns), (result.before, result.lost_columns)):
        if names:
            note(f"columns only in version {version}: {', '.join(names)}")
    note(f"version {result.after} is {result.standing}")
    versions = f"version {result.before} has {result.rows_before} rows, version {result.after} {result.rows_after}"
    note(f"{versions}: {counts.added} added, {counts.removed} removed, {counts.changed} changed")
