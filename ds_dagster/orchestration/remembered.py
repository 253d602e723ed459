"""The last valid form of a refused statement: its query still runs, so its asset keeps key, dependencies, kinds and
checks."""

from collections.abc import Mapping
from dataclasses import dataclass

from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import BrokenRelation, LoadedProject
from ds_dagster.runtime.deciding.changes import recompiled, refused_statement
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.journals.records import JobRow


@dataclass(frozen=True, slots=True)
class Remembered:
    """A refused statement, and the query that its job runs, in the project of the job's slice."""

    project: LoadedProject
    query: BoundQuery
    broken: BrokenRelation


def remembered(project: LoadedProject) -> Mapping[QualifiedName, Remembered]:
    """Refused statements whose jobs are not stopped, by relation, from the slices in the journal. Read only if the
    project has mistakes, and only from a journal on this machine, since loading definitions opens no socket."""
    if not project.errors or project.settings.journal != "sqlite":
        return {}
    items: dict[QualifiedName, Remembered] = {}
    for job in _jobs(project):
        broken = refused_statement(project, job) if job.desired != "STOPPED" else None
        if broken is None:
            continue
        try:
            sliced, query = recompiled(JobSpec.from_json(job.spec), project.settings)
        except DsError:  # its store or its source is refused too: there is nothing to show
            continue
        for sink in query.sinks:
            items.setdefault(sink.name, Remembered(sliced, query, broken))
    return items


def _jobs(project: LoadedProject) -> list[JobRow]:
    try:
        journal = Journal.open(project.settings, {})
        if not journal.exists():
            return []
        with journal.read() as connection:
            return list(rows.jobs(connection).values())
    except DsError:  # definitions still load; the sensor reports a journal that cannot be read
        return []
