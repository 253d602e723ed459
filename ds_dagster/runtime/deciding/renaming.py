"""Decides whether a renamed query can continue the job of its former name. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.versions import RenamesTables
from ds_dagster.plan.identity.compatibility import why_not_renamed
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, kind_of_store
from ds_dagster.project.renames import former_name
from ds_dagster.runtime.journals.records import JobRow


@dataclass(frozen=True, slots=True)
class Renaming:
    """A change of name that a project requests with ``@renamed_from``.

    Attributes:
        query: the query, with its new name.
        job: the job, with the former name.
    """

    query: BoundQuery
    job: JobRow


def renaming_of(project: LoadedProject, query: BoundQuery, jobs: Mapping[str, JobRow]) -> Renaming | None:
    """The renaming of a query. None if ``@renamed_from`` is missing or has no effect: the query is finite or has a job
    of its own, no job has the former name (any more), or a statement still makes the former query."""
    former = former_name(query, project.settings)
    if not former or query.is_finite or query.name in jobs or former in project.queries or former not in jobs:
        return None
    return Renaming(query, jobs[former])


def is_stopped(project: LoadedProject, query: BoundQuery, jobs: Mapping[str, JobRow]) -> bool:
    """Whether a query was stopped on request, under its name or under the one whose job it would go on with. A query
    that was never started was not."""
    renaming = renaming_of(project, query, jobs)
    if renaming is None:
        return query.name in jobs and jobs[query.name].desired == "STOPPED"
    is_underway = renaming.job.becomes != "" and renaming.job.action != "stop"
    return renaming.job.desired == "STOPPED" and not is_underway


def former_names(project: LoadedProject, jobs: Mapping[str, JobRow]) -> Collection[str]:
    """Former names of the jobs that renamed queries of a project continue."""
    renamings = (renaming_of(project, query, jobs) for query in project.queries.values())
    return frozenset(renaming.job.name for renaming in renamings if renaming is not None)


def why_not(project: LoadedProject, renaming: Renaming, old: BoundQuery | None, names: Iterable[str]) -> str:
    """Why a query cannot continue the job of its former name; empty if it can.

    Args:
        project: with the new definition.
        renaming: its query is bound over the checkpoint (its sources have the names in the checkpoint).
        old: the running definition; None if it no longer compiles.
        names: jobs of the versions of the former query.
    """
    return next(_reasons(project, renaming, old, names), "")


def _reasons(project: LoadedProject, renaming: Renaming, old: BoundQuery | None, names: Iterable[str]) -> Iterator[str]:
    query, former = renaming.query, renaming.job.name
    others = [name for name in names if name != former]
    if others:
        yield f"it has other versions ({', '.join(others)}): promote or abandon them, and drop kept ones with `ds gc`"
    if old is None:
        yield "the stored definition does not compile any more"
        return
    rule = why_not_renamed(old, query)
    if rule:
        yield f"{rule}, and its checkpoint does not allow that"
    for before, after in zip(old.sinks, query.sinks, strict=True):
        yield from _moved(project, before, after, query)
    places, logs = ([(log.store, log.entity) for log in bound.logs] for bound in (old, query))
    if places != logs:
        yield f"its row log would change: name {', '.join(entity for _, entity in places)} in its properties"


def _moved(project: LoadedProject, old: Relation, new: Relation, query: BoundQuery) -> Iterator[str]:
    if old.kind != new.kind or old.declared != new.declared:
        yield f"{old.name.name} is a {old.kind}, and {new.name.name} a {new.kind}"
    elif (old.store, old.entity) == (new.store, new.entity):
        return
    elif old.kind in ("stream", "changelog"):
        yield f"it would write {new.store}.{new.entity}, not {old.entity}: write 'topic' = '{old.entity}'"
    else:
        kind = kind_of_store(project, new)
        if old.store != new.store or new.declared or not isinstance(kind, RenamesTables):
            places = f"{old.store}.{old.entity} cannot become {new.store}.{new.entity}"
            yield f"the table {places}: name {old.entity} in WITH"
            return
        store = project.catalog.store(new.store)
        writes = (kind.write_spec(store, relation, query.refresh) for relation in (old, new))
        yield from filter(None, [kind.why_not_renamed(*writes)])
