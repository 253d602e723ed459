"""``ds diff``: compares the rows of a staged version with the serving version."""

from __future__ import annotations

from pathlib import Path

import click

from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of, visible
from ds_dagster.project.load import load_project

DIFFERS = 2


@click.command("diff")
@click.argument("relation")
@click.option("--version", type=int, help="Number of a version (default: the staged version).")
@click.option("--exit-code", is_flag=True, help="Exit 2 if rows differ.")
@project_option
@json_option
def diff_command(relation: str, version: int | None, exit_code: bool, project: Path | None, as_json: bool) -> int:
    """Compare the staged version of RELATION with the serving version, row by row by key, before `ds promote`.

    Keys are counted: added, removed, changed, and changed by column. Up to 20 of them are shown.
    """
    from ds_dagster.questions.relations import resolve_typed
    from ds_dagster.questions.upkeep.difference import difference, document, sample_text

    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings)
    result = difference(loaded, resolve_typed(loaded, relation), version)
    if as_json:
        emit_json(document(result))
    else:
        for sample in result.samples:
            click.echo(visible(sample_text(sample)))
        for name, count in result.columns.items():
            note(f"column {name} differs in {count} rows")
        for label, names in (("only in the new version", result.new_columns), ("no longer", result.lost_columns)):
            if names:
                note(f"columns {label}: {', '.join(names)}")
        versions = f"version {result.before} has {result.rows_before} rows, version {result.after} {result.rows_after}"
        note(f"{versions}: {result.added} added, {result.removed} removed, {result.changed} changed")
    return DIFFERS if exit_code and not result.is_equal else 0
