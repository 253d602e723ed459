"""Abandoned replication slots: a server keeps its log for them until its disk is full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.reading.slots import Slot, default_slot, slot_prefix
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.cli.output import note
from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.identity import Identity
from ds_dagster.stores.registry import KINDS


def left_over(project: LoadedProject, control: Control) -> list[Slot]:
    """Slots of this project's journal that no query of the project and no running job has; a store that does not
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
    running = {status.name for status in control.statuses() if status.desired == "RUNNING"}
    names = {
        default_slot(identity.job_id(name), scan.source_name)
        for name, query in project.queries.items()
        for scan in query.scans
    }
    # of a job whose query left the project only the beginning of the name is known
    gone = [default_slot(identity.job_id(name), "").rpartition("_")[0] for name in running - project.queries.keys()]
    slots = _found(project, slot_prefix(identity.job_id(""))) if gone else ()
    return frozenset(names | {slot.name for slot in slots if slot.name.rpartition("_")[0] in gone})


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
            note(f"{store.name}: its replication slots were not looked at: {problem.message}")


def _resolver(project: LoadedProject, store: StoreDefinition) -> Resolver:
    return resolver(project.settings, store.name)
