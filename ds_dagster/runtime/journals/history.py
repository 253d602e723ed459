"""Notes what a command has done in the history of its jobs."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.records import Transition


def note_in_history(control: Control, names: Sequence[str], what: str, by: str, at: float) -> None:
    """Add an entry to the history of each of these jobs; names that are not in the journal are left out.

    Args:
        control: of the project.
        names: of jobs.
        what: text of the entry: what was done.
        by: who did it.
        at: time, epoch seconds.
    """
    control.journal.create()
    with control.journal.write() as connection:
        jobs = rows.jobs(connection)
        lines = [
            Transition(name, at, "desired", jobs[name].desired, jobs[name].desired, what, actor=by)
            for name in names
            if name in jobs
        ]
        rows.add_transitions(connection, lines)
