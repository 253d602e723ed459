"""Which queries can have two versions next to each other."""

from __future__ import annotations

from collections.abc import Iterator

from ds_dagster.catalog.versions import KeepsVersions, VersionsChangelogs
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.join import IntervalJoin
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, keeps_slot, kind_of_store

OWNED = ("materialized_view", "table")
"""Kinds of relations that have a table of their own in each version. Their rows belong to one query, unless a statement
declares the relation."""

IN_TURN = ("stream", "changelog")
"""Kinds of relations that versions write one after the other."""

SWITCHED = (Aggregate, IntervalJoin, Over)
"""Stateful steps whose results depend only on the records read and the event time at the end of a batch."""

ALONE = (Over,)
"""Steps of :data:`SWITCHED` for which this is known only if no other step keeps state."""

WORDS = "materialized views and tables of CREATE TABLE … AS that run all the time"


def is_written_in_turn(query: BoundQuery) -> bool:
    """Whether all versions of a query write the same place, each from where the version before it stopped."""
    return all(sink.kind in IN_TURN for sink in query.sinks) and not is_refined(query)


def is_refined(query: BoundQuery) -> bool:
    """Whether a query writes a changelog whose rows are updated. Each of its versions has its own entity, and the
    version that takes over writes the differences."""
    return any(part.sink.kind == "changelog" and not part.root.input.is_final for part in query.parts)


def why_not_beside(project: LoadedProject, query: BoundQuery, old: BoundQuery | None = None) -> str:
    """Why a definition cannot be built next to the serving version; empty if it can.

    Args:
        project: with the stores.
        query: the new definition.
        old: the serving definition; None: it is not compared.
    """
    if query.is_finite:
        return "each of its loads ends by itself"
    return next(_reasons(project, query, old), "")


def _reasons(project: LoadedProject, query: BoundQuery, old: BoundQuery | None) -> Iterator[str]:
    is_in_turn = is_written_in_turn(query)
    if is_in_turn:
        yield from _why_not_in_turn(project, query)
    else:
        yield from _why_not_refined(project, query) if is_refined(query) else _why_not_owned(project, query)
    yield from _shared(project, query)
    if old is not None:
        yield from _moved(query, old)
        if is_refined(query) != is_refined(old):
            yield "only one of the two definitions updates its rows"
        yield from _other_points(query, old) if is_in_turn else ()


def _why_not_owned(project: LoadedProject, query: BoundQuery) -> Iterator[str]:
    """Reasons for queries whose versions each have their own tables."""
    for sink in query.sinks:
        if sink.kind not in OWNED or sink.declared:
            yield f"it writes the {sink.kind} {sink.name}, and only {WORDS} have versions"
        elif not isinstance(kind_of_store(project, sink), KeepsVersions):
            yield f"store {sink.store} of {sink.name} does not keep versions of a view"


def _why_not_in_turn(project: LoadedProject, query: BoundQuery) -> Iterator[str]:
    """Reasons for queries whose versions write the same place: the next version must repeat no row and miss none."""
    yield from _why_not_sole_writer(project, query)
    for scan in query.scans:
        if not kind_of_store(project, scan.relation).capabilities.compares_positions:
            yield f"only positions in topics of Kafka are compared, and it reads {scan.relation.name}"
        if scan.starting_position == "latest":
            yield f"it reads {scan.relation.name} from the latest record on, so its state would lack earlier records"
    topics = [(scan.relation.store, scan.relation.entity) for scan in query.scans]
    if len(set(topics)) < len(topics):
        yield "it reads a topic twice, at two positions"
    stateful = [node for node in query.plan.walk() if node.is_stateful]
    for node in stateful:
        step = f"a step of it ({type(node).__name__})"
        if not isinstance(node, SWITCHED):
            yield f"{step} is not handed over at an exact point yet"
        elif isinstance(node, ALONE) and len(stateful) > 1:
            yield f"{step} is handed over at an exact point only where no other keeps state"


def _why_not_refined(project: LoadedProject, query: BoundQuery) -> Iterator[str]:
    """Reasons for changelogs whose rows are updated: the next version writes the differences in one transaction."""
    yield from _why_not_sole_writer(project, query)
    if not isinstance(kind_of_store(project, query.sink), VersionsChangelogs):
        yield f"store {query.sink.store} of {query.sink.name} does not keep versions of a changelog"


def _why_not_sole_writer(project: LoadedProject, query: BoundQuery) -> Iterator[str]:
    """The sink must contain the rows of one query only, up to a known batch."""
    sink = query.sink
    if query.is_application or sink.declared:
        yield f"other statements may write {sink.name}" if sink.declared else "an application writes several relations"
    store = project.catalog.store(sink.store)
    if not kind_of_store(project, sink).write_spec(store, sink, query.refresh).transactional:
        yield f"{sink.name} is not written exactly once, so the end of its rows is unknown"


def _shared(project: LoadedProject, query: BoundQuery) -> Iterator[str]:
    """Things that two versions cannot share: row logs and replication slots."""
    if query.logs:
        yield f"both versions would write the row log {query.logs[0].name}"
    for scan in query.scans:
        if keeps_slot(project, scan.relation):
            yield f"the replication slot of {scan.relation.name} gives each change once"


def _moved(query: BoundQuery, old: BoundQuery) -> Iterator[str]:
    """A public name can only be handed over inside one store."""
    places = {sink.name: (sink.store, sink.entity) for sink in old.sinks}
    for sink in query.sinks:
        if places.get(sink.name) != (sink.store, sink.entity):
            yield f"{sink.name} has moved to {sink.store}.{sink.entity}"


def _other_points(query: BoundQuery, old: BoundQuery) -> Iterator[str]:
    """The point of a hand-over is a position in each source, so both versions must read the same sources."""
    places, before = ({(scan.relation.store, scan.relation.entity) for scan in bound.scans} for bound in (query, old))
    if places != before:
        yield "it reads other sources, in which the running query has no position"
