"""Where the sinks of a job end, read from their ledgers by the means of their stores."""

from __future__ import annotations

from contextlib import closing

from ds_dagster.catalog.io_spec import LedgerReader, Resolver, SinkIdentity, open_loader
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.store import MarkerReader
from ds_dagster.errors import DsError
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.project.load import LoadedProject, kind_of_store, store_admin
from ds_dagster.questions.connecting import resolver
from ds_dagster.runtime.deciding.repair import SinkEnd


def sink_ends(project: LoadedProject, query: BoundQuery, identity: SinkIdentity) -> tuple[SinkEnd, ...]:
    """The newest batch in every sink.

    Args:
        project: with the stores.
        query: one, or an application.
        identity: of the job and its checkpoint version.
    """
    return tuple(_end(project, part, query.writer_of(part, identity)) for part in query.parts)


def _end(project: LoadedProject, part: Part, identity: SinkIdentity) -> SinkEnd:
    entity = f"{part.sink.store}.{part.sink.entity}"
    try:
        return SinkEnd(entity, *_newest(project, part, identity))
    except DsError as problem:
        return SinkEnd(entity, unknown=f"the ledger of {entity} cannot be read: {problem.message}")


def _newest(project: LoadedProject, part: Part, identity: SinkIdentity) -> tuple[Tip | None, str]:
    """The batch, and why nobody can tell."""
    resolve = resolver(project.settings, part.sink.store)
    store = project.catalog.store(part.sink.store)
    write = kind_of_store(project, part.sink).write_spec(store, part.sink, part.refresh)
    if write.kind == "batch":
        with closing(open_loader(write, identity, resolve)) as loader:
            if isinstance(loader, LedgerReader):
                return loader.tip(), ""
    if write.transactional:
        return _marker(project, part, identity, resolve)
    return None, f"{part.sink.store}.{part.sink.entity} keeps no ledger"


def _marker(project: LoadedProject, part: Part, identity: SinkIdentity, resolve: Resolver) -> tuple[Tip | None, str]:
    with closing(store_admin(project, part.sink.store, resolve)) as admin:
        if isinstance(admin, MarkerReader):
            return admin.marker(identity.ledger, part.sink.entity), ""
    return None, f"{part.sink.store}.{part.sink.entity} keeps no ledger"
