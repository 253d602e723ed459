"""``ds skip``: a job skips the one record it fails at. The journal keeps who requested it, when, which record and
why."""

from __future__ import annotations

from dataclasses import replace

from ds_dagster.catalog.reading.skip import SkippedRecord, skips_of, skips_to_json
from ds_dagster.errors import DsError, error, error_of
from ds_dagster.names import did_you_mean
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding import desired
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import bump_revision
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.journals.told import failure_of
from ds_dagster.runtime.status import Ensured

PLACE = ("entity", "partition", "position")
"""Parameters that a failure has if it names its record."""


def skip(
    control: Control, name: str, partition: str, position: str, *, requested_by: str = "", reason: str = ""
) -> Ensured:
    """Let a job continue after a record, with its checkpoint. A record that is already skipped changes nothing (outcome
    ``nothing``).

    Args:
        control: of the project.
        name: of the job.
        partition, position: of the record: partition and offset, or shard and sequence number.
        requested_by, reason: for the history and the row log.

    Raises:
        UserError: JOB_UNKNOWN; SKIP_WITHOUT_RECORD: the job does not fail at a record; SKIP_OTHER_RECORD: it fails at
            another record.
        DsError: JOURNAL_….
    """
    control.journal.create()
    with control.journal.write() as connection:
        jobs = rows.jobs(connection)
        if name not in jobs:
            raise error("JOB_UNKNOWN", name=name, nearest=did_you_mean(name, jobs))
        job, status = jobs[name], rows.statuses(connection, [name]).get(name, StatusRow(name))
        passed = skips_of(job.skips)
        if any((record.partition, record.position) == (partition, position) for record in passed):
            return Ensured(name, "nothing", job.generation)
        entity, *place = _failed_at(name, status)
        if place != [partition, position]:
            params = {"name": name, "entity": entity, "partition": partition, "position": position}
            at = {"failed_partition": place[0], "failed_position": place[1]}
            raise error_of("SKIP_OTHER_RECORD", params | at)
        note = f"passed by {requested_by}" + (f": {reason}" if reason else "")
        skips = skips_to_json((*passed, SkippedRecord(entity, partition, position, note)))
        by = {"requested_by": requested_by, "requested_at": control.clock.now()}
        action = job.action if job.becomes else "skip"
        row = replace(job, action=action, generation=job.generation + 1, skips=skips, **by)  # type: ignore[arg-type]
        rows.save_job(connection, row)
        what = f"skip of record {position} of partition {partition} of {entity}" + (f": {reason}" if reason else "")
        rows.add_transitions(connection, [replace(desired.transition(row, job), reason=what)])
        bump_revision(connection)
        return Ensured(name, "requested", row.generation)


def _failed_at(name: str, status: StatusRow) -> tuple[str, ...]:
    """Entity, partition and position of the record that a job fails at.

    Raises:
        UserError: SKIP_WITHOUT_RECORD.
    """
    failure: DsError | None = failure_of(status.condition, status.parameters)
    if failure is None or not all(param in failure.params for param in PLACE):
        raise error("SKIP_WITHOUT_RECORD", name=name, state=status.state, condition=status.condition or "no condition")
    return tuple(str(failure.params[param]) for param in PLACE)
