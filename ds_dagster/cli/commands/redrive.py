"""``ds redrive``: send dead letters (records that queries left out) into their topic again, repaired, each once."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of, visible
from ds_dagster.cli.results.file import write_result
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals.history import note_in_history

if TYPE_CHECKING:
    from ds_dagster.questions.upkeep.left_out import Entries
    from ds_dagster.questions.upkeep.redriving import Redriven

SHOWN = 20
"""Most entries that are listed for people."""


@click.command("redrive")
@click.argument("relation")
@click.option(
    "--where", "condition", default="", help="Only entries for which this is true: \"reason LIKE '%amount%'\"."
)
@click.option(
    "--export", type=click.Path(dir_okay=False, path_type=Path), help="Write the entries into a file to edit."
)
@click.option(
    "--from", "repaired", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The edited file."
)
@click.option("--reason", default="", help="For the history.")
@click.option(
    "--allow", type=click.Choice(["duplicates"]), help="duplicates: also records that other queries have processed."
)
@click.option("--dry-run", is_flag=True, help="Show what would be sent.")
@project_option
@json_option
def redrive_command(
    relation: str,
    condition: str,
    export: Path | None,
    repaired: Path | None,
    reason: str,
    allow: str | None,
    dry_run: bool,
    project: Path | None,
    as_json: bool,
) -> int:
    """Send records of RELATION that queries left out into its topic again: quarantined records, records that could not
    be decoded, and records whose rows failed or were late.

    Each record is sent once: the note that it was sent is in the same transaction. Without --from, records are sent as
    they were; do that after you have corrected a declaration or a query. Columns of --where: query, reason, partition,
    offset, record_time, key, value.
    """
    from ds_dagster.questions.relations import resolve_typed
    from ds_dagster.questions.upkeep.left_out import entries
    from ds_dagster.questions.upkeep.redriving import redrive, repairs, to_line, where

    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings, strict=True)  # all readers count
    target = resolve_typed(loaded, relation)
    contents = entries(loaded, target)
    selected = where(contents.records, condition)
    if repaired is not None:
        selected = repairs(repaired, selected, relation)
    if export is not None:
        write_result(export, "".join(f"{to_line(entry)}\n" for entry in selected).encode())
        note(f"{len(selected)} entries written to {export}; edit them, then `ds redrive {relation} --from {export}`")
        _note_others(contents)
        return 0
    control = Control.open(settings)
    by, at = f"ds ({getpass.getuser()})", control.clock.now()
    about = {"by": by, "at": at, "because": reason}
    outcome = redrive(loaded, target, selected, about, dry=dry_run, clock=control.clock, may_double=allow is not None)
    if outcome.sent and not dry_run:
        readers = [name for name, query in loaded.queries.items() if target.name in {r.name for r in query.inputs}]
        what = f"redrive of {len(outcome.sent)} records of {target.entity}" + (f": {reason}" if reason else "")
        note_in_history(control, readers, what, by, at)
    _note_others(contents)
    _report(target, outcome, contents, dry_run, as_json)
    return 0


def _note_others(contents: Entries) -> None:
    """Print notes about entries of the logs that cannot be sent again."""
    for query, count in contents.without_record.items():
        note(f"{count} rows that {query} left out do not name their record: they stay in its log")
    for entity, count in contents.elsewhere.items():
        note(f"{count} rows belong to records in {entity}: use `ds redrive` with a relation over it")
    for log in contents.unnamed:
        note(f"{log.relation.name.name} lacks columns that name the records of its rows: they stay there")


def _report(target: Relation, outcome: Redriven, contents: Entries, dry_run: bool, as_json: bool) -> None:
    if as_json:
        sent = [{"partition": e.partition, "offset": e.position, "repaired": e.repaired} for e in outcome.sent]
        counts = {"relation": str(target.name), "dry_run": dry_run, "sent": sent, "sent_before": len(outcome.before)}
        refusals = [{"condition": problem.condition, "message": problem.message} for problem in outcome.hindrances]
        others = {"without_record": dict(contents.without_record), "elsewhere": dict(contents.elsewhere)}
        emit_json({**counts, **others, "hindrances": refusals})
        return
    for entry in outcome.sent[:SHOWN]:
        place = f"{entry.partition}/{entry.position}  {entry.query}"
        click.echo(f"{place}  {visible(entry.reason)}{'  repaired' * entry.repaired}")
    verb = "would be sent" if dry_run else "sent"
    note(f"{len(outcome.sent)} records {verb} into {target.entity}, {len(outcome.before)} had been sent before")
    for problem in outcome.hindrances:
        note(f"not sent as it is: {problem}")
