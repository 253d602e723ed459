"""Which queries can have two versions beside each other."""

from __future__ import annotations

from collections.abc import Iterator

from ds_dagster.catalog.versions import KeepsVersions, VersionsChangelogs
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.join import IntervalJoin
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, keeps_slot, kind_of_store

OWNED = ("materialized_view", "table")
"""Kinds of relations whose rows are their query's alone, where no statement declares them, and have a place of their
own in each version."""

IN_TURN = ("stream", "changelog")
"""Kinds of relations that versions write one after the other."""

SWITCHED = (Aggregate, IntervalJoin, Over)
"""Stateful steps whose results depend on nothing but the records and the event time that a batch ends at."""

ALONE = (Over,)
"""Of these, the ones for which that is known where no other step keeps state."""

WORDS = "materialized views and tables of CREATE TABLE … AS that run all the time"


def is_written_in_turn(query: BoundQuery) -> bool:
    """Whether versions of a query write one place, each from where the version before it stopped."""
    return all(sink.kind in IN_TURN for sink in query.sinks) and not is_refined(query)


def is_refined(query: BoundQuery) -> bool:
    """Whether a query writes a changelog whose rows replace one another. Its versions have entities of their own, and
    the one that takes over writes what differs."""
    return any(part.sink.kind == "changelog" and not part.root.input.is_final for part in query.parts)


def why_not_beside(project: LoadedProject, query: BoundQuery, old: BoundQuery | None = None) -> str:
    """Why a definition cannot be built beside the one that serves; empty where it can.

    Args:
        project: with the stores.
        query: the new definition.
        old: the one that serves; None: it is not compared.
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
            yield "rows of only one of both definitions replace one another"
        yield from _other_points(query, old) if is_in_turn else ()


def _why_not_owned(project: LoadedProject, query: BoundQuery) -> Iterator[str]:
    """Each version writes rows of its own."""
    for sink in query.sinks:
        if sink.kind not in OWNED or sink.declared:
            yield f"it writes the {sink.kind} {sink.name}, and only {WORDS} have versions"
        elif not isinstance(kind_of_store(project, sink), KeepsVersions):
            yield f"store {sink.store} of {sink.name} does not keep versions of a view"


def _why_not_in_turn(project: LoadedProject, query: BoundQuery) -> Iterator[str]:
    """The next version writes no row that the version before has written, and none is missing."""
    yield from _why_not_sole_writer(project, query)
    for scan in query.scans:
        if not kind_of_store(project, scan.relation).capabilities.compares_positions:
            yield f"only positions in topics of Kafka are compared, and it reads {scan.relation.name}"
        if scan.starting_position == "latest":
            yield f"it reads {scan.relation.name} from the latest record on, so its state would lack what came before"
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
    """The next version writes what differs, in one transaction."""
    yield from _why_not_sole_writer(project, query)
    if not isinstance(kind_of_store(project, query.sink), VersionsChangelogs):
        yield f"store {query.sink.store} of {query.sink.name} does not keep versions of a changelog"


def _why_not_sole_writer(project: LoadedProject, query: BoundQuery) -> Iterator[str]:
    """What is in the sink is the rows of one query, up to a batch that is known."""
    sink = query.sink
    if query.is_application or sink.declared:
        yield f"other statements may write {sink.name}" if sink.declared else "an application writes several relations"
    store = project.catalog.store(sink.store)
    if not kind_of_store(project, sink).write_spec(store, sink, query.refresh).transactional:
        yield f"{sink.name} is not written exactly once, so nobody knows where its rows end"


def _shared(project: LoadedProject, query: BoundQuery) -> Iterator[str]:
    """What two versions would have in common."""
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
            yield f"{sink.name} is in another place now: {sink.store}.{sink.entity}"


def _other_points(query: BoundQuery, old: BoundQuery) -> Iterator[str]:
    """The point of the hand-over is a position in each source."""
    places, before = ({(scan.relation.store, scan.relation.entity) for scan in bound.scans} for bound in (query, old))
    if places != before:
        yield "it reads other sources, in which the running query has no position"
