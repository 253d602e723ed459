"""Abandoned replication slots. A server keeps its log for such a slot until its disk is full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.reading.slots import Slot, default_slot, slot_prefix
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.cli.output import note
from ds_dagster.errors import DsError
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.changes import definition_of
from ds_dagster.runtime.deciding.identity import Identity
from ds_dagster.runtime.deciding.renaming import former_names
from ds_dagster.stores.registry import KINDS


def left_over(project: LoadedProject, control: Control) -> list[Slot]:
    """Slots of this project's journal that no query of the project and no running job needs; a store that does not
    answer is reported and left out."""
    if not control.journal.exists():
        return []
    identity = control.journal.identity()
    needed = _kept(project, control, identity)
    return [slot for slot in _found(project, slot_prefix(identity.job_id(""))) if slot.name not in needed]


def drop(project: LoadedProject, slot: Slot) -> None:
    """Drop a slot for good."""
    store = project.catalog.store(slot.store)
    KINDS[store.kind].drop_slot(store, _resolver(project, store), slot)  # type: ignore[attr-defined]


def _kept(project: LoadedProject, control: Control, identity: Identity) -> frozenset[str]:
    """Names of the slots that are needed: of queries that were never started, and of the definitions of jobs. After a
    renaming, slots keep the former names of the job and of its sources."""
    jobs = control.running().jobs
    never_started = [query for name, query in project.queries.items() if name not in jobs]
    names = {name for query in never_started for name in _slots(query, identity.job_id(query.name))}
    renamed, beginnings = former_names(project, jobs), set[str]()
    for row in jobs.values():
        if row.desired != "RUNNING" and not row.becomes and row.of not in {*project.queries, *renamed}:
            continue
        job, stored = identity.job_id(row.writes_as), definition_of(row, project.settings)
        if stored is None:  # only the first part of the slots' names is known
            beginnings.add(_beginning(default_slot(job, "")))
        else:
            names |= _slots(stored, job)
    slots = _found(project, slot_prefix(identity.job_id(""))) if beginnings else ()
    return frozenset(names | {slot.name for slot in slots if _beginning(slot.name) in beginnings})


def _slots(query: BoundQuery, job: str) -> set[str]:
    return {default_slot(job, scan.source_name) for scan in query.scans}


def _beginning(slot: str) -> str:
    return slot.rpartition("_")[0]


def _found(project: LoadedProject, prefix: str) -> Iterable[Slot]:
    """Each slot once, however many stores are on its server."""
    return {(slot.server, slot.name): slot for slot in _of_stores(project, prefix)}.values()


def _of_stores(project: LoadedProject, prefix: str) -> Iterator[Slot]:
    for store in project.catalog.stores.values():
        find = getattr(KINDS[store.kind], "find_slots", None)
        if find is None:
            continue
        try:
            yield from find(store, _resolver(project, store), prefix)
        except DsError as problem:
            note(f"{store.name}: its replication slots were not checked: {problem.message}")


def _resolver(project: LoadedProject, store: StoreDefinition) -> Resolver:
    return resolver(project.settings, store.name)
