"""Commands that run a query on recent records, without a job: ``ds preview`` shows the rows, ``ds record`` writes a
test case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of
from ds_dagster.cli.row_output import rows_document, show_rows
from ds_dagster.cli.times import Duration
from ds_dagster.errors import error
from ds_dagster.project.load import load_project

if TYPE_CHECKING:
    from ds_dagster.plan.query import BoundQuery
    from ds_dagster.project.load import LoadedProject
    from ds_dagster.testing.preview import Preview, Sampled

SHOWN_ROWS = 20


def _sample_options(function: Any) -> Any:
    rows = click.option(
        "--rows", type=click.IntRange(min=1), default=1000, show_default=True, help="Newest records of each input."
    )
    back = click.option("--since", type=Duration(), default="1h", show_default=True, help="How far back to read.")
    return rows(back(function))


@click.command("preview")
@click.argument("what", metavar='RELATION|"SELECT …"|FILE')
@_sample_options
@click.option("--limit", type=click.IntRange(min=1), default=SHOWN_ROWS, show_default=True, help="Rows to show.")
@click.option("--changes", is_flag=True, help="Show every change of a changelog or view, not only its rows at the end.")
@project_option
@json_option
def preview_command(
    what: str, rows: int, since: int, limit: int, changes: bool, project: Path | None, as_json: bool
) -> int:
    """Show a query's rows for the newest records of its inputs.

    It runs as in production, in its own Spark session; no topic, table or view is written, and no job is started. Time
    ends at the newest record: windows that are still open then are not shown.
    """
    from ds_dagster.cli.sampling import SELECT_NAME

    whole, query, samples = _sampled(what, rows, since, project, as_json)
    previews = _previewed(whole, query, samples, history=changes)
    failure = next((preview.failure for preview in previews if preview.failure), "")
    if as_json:
        read = {f"{s.relation.store}.{s.relation.entity}": len(s.records) for s in samples}
        shown = [{"relation": str(p.relation.name), **rows_document([*p.types.items()], p.rows)} for p in previews]
        emit_json({"ok": not failure, "failure": failure or None, "read": read, "relations": shown})
        return 1 if failure else 0
    for preview in previews:
        columns = [(name, type_) for name, type_ in preview.types.items()]
        show_rows(columns, [{**dict.fromkeys(preview.types), **row} for row in preview.rows[:limit]])
        name = "" if preview.relation.name.name == SELECT_NAME else f"{preview.relation.name}: "
        count = len(preview.rows)
        limited = f", {limit} shown" if count > limit else ""
        note(f"{name}{count:,} row{'' if count == 1 else 's'}{limited}")
    if failure:
        note(f"{query.name} ended: {failure}")
    return 1 if failure else 0


@click.command("record")
@click.argument("relation")
@_sample_options
@click.option("--mask", default="", metavar="COLUMNS", help="Columns to replace by pseudonyms, separated by commas.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of the case (default: standard output).",
)
@project_option
def record_command(relation: str, rows: int, since: int, mask: str, output: Path | None, project: Path | None) -> int:
    """Save the newest inputs of RELATION and its rows for them as a test case.

    Check the rows before you trust them: the case expects the rows that the query gives today.
    """
    from ds_dagster.testing.recorded import Mask, case_text, masked

    if output is not None and output.exists():
        raise error("FOLDER_NOT_EMPTY", file=str(output))
    whole, query, samples = _sampled(relation, rows, since, project, quiet=False)
    columns = frozenset(name.strip() for name in mask.split(",") if name.strip())
    samples = masked(samples, Mask(columns))
    text = case_text(whole, query, samples, _previewed(whole, query, samples))
    if output is None:
        click.echo(text, nl=False)
        return 0
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, encoding="utf-8")
    note(f"wrote {output}: `ds test {output}` runs it")
    return 0


def _sampled(
    what: str, rows: int, since: int, project: Path | None, quiet: bool
) -> tuple[LoadedProject, BoundQuery, Sequence[Sampled]]:
    from ds_dagster.cli.sampling import query_to_try, sampled, tell_samples
    from ds_dagster.testing.preview import check_previewable

    settings = settings_of(project, quiet=quiet)
    whole, query = query_to_try(load_project(settings.root, settings=settings), what)
    check_previewable(query)
    samples = sampled(whole, query, rows, since)
    if not quiet:
        tell_samples(samples)
        note("starting Spark")
    return whole, query, samples


def _previewed(
    project: LoadedProject, query: BoundQuery, samples: Sequence[Sampled], *, history: bool = False
) -> Sequence[Preview]:
    from ds_dagster.testing.preview import preview
    from ds_dagster.testing.session import end_session, shared_session

    try:
        return preview(shared_session(), project, query, samples, history=history)
    finally:
        end_session()
