"""``ds redrive``: send records that were left out into their topic again, repaired, each once."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals.history import note_in_history

if TYPE_CHECKING:
    from ds_dagster.questions.upkeep.redriving import Redriven

SHOWN = 20
"""Entries that are listed for people."""


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
@click.option("--dry-run", is_flag=True, help="Show what would be sent.")
@project_option
@json_option
def redrive_command(
    relation: str,
    condition: str,
    export: Path | None,
    repaired: Path | None,
    reason: str,
    dry_run: bool,
    project: Path | None,
    as_json: bool,
) -> int:
    """Send records of RELATION that were quarantined or could not be decoded into its topic again.

    Each record goes back once: the note that it was sent is in the same transaction. Without --from records go back as
    they came, for a declaration that has been corrected. Columns of --where: query, reason, partition, offset,
    record_time, key, value.
    """
    from ds_dagster.questions.relations import resolve_relation
    from ds_dagster.questions.upkeep.redriving import entries, redrive, repairs, to_line, where

    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings)
    target = resolve_relation(loaded, relation.lower())
    selected = where(entries(loaded, target), condition)
    if repaired is not None:
        selected = repairs(repaired, selected, relation)
    if export is not None:
        export.write_text("".join(f"{to_line(entry)}\n" for entry in selected), encoding="utf-8")
        note(f"{len(selected)} entries written to {export}; edit them, then `ds redrive {relation} --from {export}`")
        return 0
    control = Control.open(settings)
    by, at = f"ds ({getpass.getuser()})", control.clock.now()
    outcome = redrive(loaded, target, selected, {"by": by, "at": at, "because": reason}, dry=dry_run)
    if outcome.sent and not dry_run:
        readers = [name for name, query in loaded.queries.items() if target.name in {r.name for r in query.inputs}]
        what = f"redrive of {len(outcome.sent)} records of {target.entity}" + (f": {reason}" if reason else "")
        note_in_history(control, readers, what, by, at)
    _report(target, outcome, dry_run, as_json)
    return 0


def _report(target: Relation, outcome: Redriven, dry_run: bool, as_json: bool) -> None:
    if as_json:
        sent = [{"partition": e.partition, "offset": e.position, "repaired": e.repaired} for e in outcome.sent]
        counts = {"relation": str(target.name), "dry_run": dry_run, "sent": sent, "sent_before": len(outcome.before)}
        emit_json(counts)
        return
    for entry in outcome.sent[:SHOWN]:
        click.echo(f"{entry.partition}/{entry.position}  {entry.query}  {entry.reason}{'  repaired' * entry.repaired}")
    verb = "would be sent" if dry_run else "sent"
    note(f"{len(outcome.sent)} records {verb} into {target.entity}, {len(outcome.before)} had been sent before")
