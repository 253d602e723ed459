"""Notes below an answer about relations whose rows may be out of date."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.output import clock, note
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.status import JobStatus, ended_with_engine


def tell_freshness(project: LoadedProject, relations: Sequence[Relation]) -> None:
    """Note which of these relations are not being updated, and how old their rows are. Call it after the answer was
    printed, since it may take a moment."""
    from ds_dagster.questions.tables import newest_batch
    from ds_dagster.runtime.control import Control

    queries = [(q, r) for r in relations for q in project.queries_of(r.name) if not q.is_finite]
    if not queries:
        return
    control = Control.open(project.settings)
    statuses = {status.name: status for status in control.statuses([q.name for q, _ in queries])}
    for query, relation in queries:
        status = statuses[query.name]
        if status.state == "RUNNING":
            if status.caught_up is None and status.lag_records:
                waiting = f"{status.lag_records:,} records wait"
                note(f"{relation.name.name} is being built, its rows are not complete: {waiting}")
            continue
        written = newest_batch(project, relation) or status.progressed
        age = f"its rows are from {clock(written)} UTC" if written else "it has no rows yet"
        note(f"{relation.name.name} {_halted(status)}: {age}")


def _halted(status: JobStatus) -> str:
    """Why no new rows come, as the end of a sentence about the relation."""
    if ended_with_engine(status):
        return "ended with the engine"
    states = {"FAILED": "has failed", "ABSENT": "is not running"}
    state = states.get(status.state, f"is {status.state.lower().replace('_', ' ')}")
    return f"{state} ({status.message})" if status.message else state
