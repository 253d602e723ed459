"""``ds backfill``: compute the rows of a time range again, and replace the table's rows of that range."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from ds_dagster.catalog.reading.ranges import NO_END, TimeRange
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of
from ds_dagster.cli.times import Duration, Moment
from ds_dagster.errors import error
from ds_dagster.project.load import load_project
from ds_dagster.project.ranges import why_not_filled_by_one
from ds_dagster.questions.relations import resolve_typed
from ds_dagster.runtime.backfill import Backfill
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.backfilling import range_column


@click.command("backfill")
@click.argument("relation")
@click.option("--from", "begin", type=Moment(), required=True, help="First moment of the range, in UTC.")
@click.option("--to", "end", type=Moment(), help="End of the range, exclusive (default: all later rows).")
@click.option("--by", "column", default="", help="Column of the table (default: the only one of a TIMESTAMP type).")
@click.option("--lateness", type=Duration(), help="Greatest difference between a record's time and the column's: 1h.")
@click.option("--rate", type=click.IntRange(min=1), help="Most records per second.")
@click.option("--own-records", is_flag=True, help="Leave out records from before the query began.")
@click.option("--with-late-rows", is_flag=True, help="Count records that came after their window closed.")
@click.option("--dry-run", is_flag=True, help="Show what would be read.")
@project_option
@json_option
def backfill_command(
    relation: str,
    begin: datetime,
    end: datetime | None,
    column: str,
    lateness: int | None,
    rate: int | None,
    own_records: bool,
    with_late_rows: bool,
    dry_run: bool,
    project: Path | None,
    as_json: bool,
) -> int:
    """Compute the rows of table RELATION for a time range again, with today's statement.

    All records of its source (a topic, or files) are read again, up to the last record that the table has; rows whose
    --by column is in the range are deleted and the new rows inserted in one transaction. A run that is killed changes
    nothing; run it again.

    Records from before the query began ('starting.position') are read too, which adds history: leave --to out, then no
    row of them is missing where the query began. With --own-records only records that the query itself has read
    count, which repairs its rows.

    Windows over times that the broker does not set lack the records that came after they closed. With
    --with-late-rows the new rows count these records, too.
    """
    settings = settings_of(project, quiet=as_json)
    loaded, control = load_project(settings.root, settings=settings), Control.open(settings)
    target = resolve_typed(loaded, relation)
    queries = [query for query in loaded.queries.values() if target.name in {sink.name for sink in query.sinks}]
    reason = why_not_filled_by_one(queries)
    if reason:
        raise error("BACKFILL_REFUSED", name=relation, reason=reason)
    (query,) = queries
    until = end or NO_END
    if begin >= until:
        raise click.UsageError("--from is not before --to")
    span, by = TimeRange(range_column(query, column), begin, until), f"ds ({getpass.getuser()})"
    backfill = Backfill(loaded, control, query, span, by, lateness, rate, not own_records, with_late_rows)
    planned = backfill.planned()
    if not as_json:
        note(str(planned))
        if planned.past.before and until != NO_END:
            note("rows of these records at or after --to are not added: leave --to out to add them")
    replaced = None if dry_run else backfill.carried_out(planned)
    if as_json:
        outcome = None if replaced is None else {"deleted": replaced.deleted, "inserted": replaced.inserted}
        emit_json(
            {
                "relation": str(target.name),
                "column": backfill.span.column,
                **asdict(planned.past.amount),
                "before_start": planned.past.before,
                "rows": outcome,
            }
        )
    elif replaced is not None:
        note(f"{replaced.deleted:,} rows of {query.name} are replaced by {replaced.inserted:,}")
    return 0
