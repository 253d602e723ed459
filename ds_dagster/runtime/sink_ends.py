"""Reads where a job's sinks end, from their ledgers; and tells whether its sources can repeat their records."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing

from ds_dagster.catalog.io_spec import BatchLoader, LedgerReader, Resolver, SinkIdentity, WriteSpec, open_loader
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.store import MarkerReader
from ds_dagster.errors import DsError
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.project.load import LoadedProject, kind_of_store, store_admin
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.deciding.from_sink import SinkEnd


def sink_ends(project: LoadedProject, query: BoundQuery, identity: SinkIdentity) -> tuple[SinkEnd, ...]:
    """The newest batch in every sink.

    Args:
        project: with the stores.
        query: a query, or an application.
        identity: of the job and its checkpoint version.

    Returns:
        An end per part of the query; a ledger that cannot be read gives an end with the reason in ``unknown``.
    """
    return tuple(_end(project, part, query.writer_of(part, identity)) for part in query.parts)


def renumber(
    project: LoadedProject, query: BoundQuery, identity: SinkIdentity, parts: Collection[str], tip: Tip
) -> None:
    """Give the newest batch of some sinks a later number.

    Args:
        project, query, identity: as above.
        parts: names of the parts of the query that fill these sinks; their loaders must read ledgers.
        tip: the newest batch of these sinks, with the new number.

    Raises:
        DsError: a ledger cannot be written.
    """
    for part in query.parts:
        if part.name in parts:
            with closing(_loader(project, part, query.writer_of(part, identity))) as loader:
                assert isinstance(loader, LedgerReader)
                loader.renumber(tip)


def adopt(project: LoadedProject, query: BoundQuery, identity: SinkIdentity, tip: Tip) -> None:
    """Record a batch as the newest of a checkpoint version in the ledgers of all sinks; every sink must have a ledger.
    Idempotent.

    Args:
        project, query: as above.
        identity: of the job and a checkpoint version that has written nothing.
        tip: the batch, with its offsets.

    Raises:
        DsError: a ledger cannot be written.
    """
    for part in query.parts:
        own = query.writer_of(part, identity)
        if _write(project, part).kind == "batch":
            with closing(_loader(project, part, own)) as loader:
                assert isinstance(loader, LedgerReader)
                loader.adopt(tip)
        else:
            with closing(store_admin(project, part.sink.store, _resolver(project, part))) as admin:
                assert isinstance(admin, MarkerReader)
                admin.note_marker(own.ledger, part.sink.entity, tip)


def forgotten(project: LoadedProject, query: BoundQuery) -> str:
    """Why a query's records may not be readable again; empty if they are, or if a start fails when some are gone."""
    for scan in query.scans:
        why = kind_of_store(project, scan.relation).capabilities.forgets
        why = why or ("it skips records that are gone" if scan.data_loss == "skip" else "")
        if why:
            return f"{scan.relation.store}.{scan.relation.entity} may not have everything any more: {why}"
    return ""


def _entity(part: Part) -> str:
    return f"{part.sink.store}.{part.sink.entity}"


def _end(project: LoadedProject, part: Part, identity: SinkIdentity) -> SinkEnd:
    try:
        return _newest(project, part, identity)
    except DsError as problem:
        return SinkEnd(_entity(part), unknown=f"the ledger of {_entity(part)} cannot be read: {problem.message}")


def _newest(project: LoadedProject, part: Part, identity: SinkIdentity) -> SinkEnd:
    entity, write = _entity(part), _write(project, part)
    if write.kind == "batch":
        with closing(_loader(project, part, identity)) as loader:
            if isinstance(loader, LedgerReader):
                return SinkEnd(entity, loader.tip(), "", loader.is_restorable, part.name)
    if write.transactional:
        with closing(store_admin(project, part.sink.store, _resolver(project, part))) as admin:
            if isinstance(admin, MarkerReader):
                return SinkEnd(entity, admin.marker(identity.ledger, part.sink.entity))
    return SinkEnd(entity, unknown=f"{entity} keeps no ledger")


def _loader(project: LoadedProject, part: Part, identity: SinkIdentity) -> BatchLoader:
    return open_loader(_write(project, part), identity, _resolver(project, part))


def _resolver(project: LoadedProject, part: Part) -> Resolver:
    return resolver(project.settings, part.sink.store)


def _write(project: LoadedProject, part: Part) -> WriteSpec:
    store = project.catalog.store(part.sink.store)
    return kind_of_store(project, part.sink).write_spec(store, part.sink, part.refresh)
