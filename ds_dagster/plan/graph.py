"""Relations and queries as a graph: which query reads which relation, an order with sources first, circles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from sqlglot import exp

from ds_dagster.catalog.declaring.declared import NamedQuery, qualify
from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Span
from ds_dagster.names import QualifiedName
from ds_dagster.plan.binding.sources import written_name
from ds_dagster.plan.query import BoundQuery
from ds_dagster.settings import Settings
from ds_dagster.sql.expressions import RelationRef
from ds_dagster.sql.lowering import span_of
from ds_dagster.sql.statements import CreateAsSelect

Edges = Mapping[QualifiedName, Sequence[QualifiedName]]


@dataclass(frozen=True, slots=True)
class QueryNode:
    """A query before binding: its target, and the relations it reads from left to right, each once."""

    named: NamedQuery
    reads: tuple[QualifiedName, ...]

    @property
    def target(self) -> QualifiedName:
        """The relation it fills."""
        return self.named.target

    @property
    def virtual(self) -> CreateAsSelect | None:
        """The statement of a virtual relation of an application, which fills nothing; None for other queries."""
        statement = self.named.statement
        return statement if isinstance(statement, CreateAsSelect) and statement.virtual else None

    @property
    def span(self) -> Span:
        """Position of its statement."""
        return self.named.statement.origin.span


def query_node(named: NamedQuery, settings: Settings) -> QueryNode:
    """Find the relations a statement reads."""
    body = named.statement.body
    context = named.statement.origin.context
    names: dict[QualifiedName, None] = {}
    for node in relation_refs(body.tree):
        written = written_name(node, body.span)
        if len(written.parts) <= 3:
            names.setdefault(qualify(written, context, settings))
    return QueryNode(named, tuple(names))


def relation_refs(select: exp.Expression) -> Iterator[RelationRef]:
    """References to relations, left to right, wherever a query names one."""
    yield from select.find_all(RelationRef, bfs=False)


def place_of(node: QueryNode, source: QualifiedName, settings: Settings) -> Span:
    """Position at which a query names a source."""
    body = node.named.statement.body
    context = node.named.statement.origin.context
    for ref in relation_refs(body.tree):
        place = span_of(ref, body.span)
        if qualify(written_name(ref, place), context, settings) == source:
            return place
    return body.span


def reads_by_target(nodes: Iterable[QueryNode]) -> dict[QualifiedName, list[QualifiedName]]:
    """Filled relation → relations its queries read."""
    edges: dict[QualifiedName, list[QualifiedName]] = {}
    for node in nodes:
        names = edges.setdefault(node.target, [])
        names += [name for name in node.reads if name not in names]
    return edges


def ordered(edges: Edges) -> tuple[list[QualifiedName], list[list[QualifiedName]]]:
    """Relations with sources first (else in the order given), and the circles, each as a path without its repeated
    end."""
    done: dict[QualifiedName, None] = {}
    circles: list[list[QualifiedName]] = []
    for start in edges:
        _visit(start, edges, done, circles)
    return list(done), circles


def _visit(
    start: QualifiedName, edges: Edges, done: dict[QualifiedName, None], circles: list[list[QualifiedName]]
) -> None:
    path: dict[QualifiedName, None] = {}
    pending: list[tuple[QualifiedName, bool]] = [(start, False)]
    while pending:
        name, leaving = pending.pop()
        if leaving:
            path.pop(name)
            done.setdefault(name)
        elif name in path:
            names = list(path)
            circles.append(names[names.index(name) :])
        elif name not in done:
            path[name] = None
            pending.append((name, True))
            pending += [(source, False) for source in reversed(edges.get(name, ()))]


def job_circle(jobs: Iterable[BoundQuery]) -> list[str]:
    """Names of jobs in a circle, each reading what the next one writes, the first again at the end; empty without a
    circle. An application that reads its own results does not count."""
    listed = list(jobs)
    fillers: dict[QualifiedName, list[str]] = {}
    for job in listed:
        for sink in job.sinks:
            fillers.setdefault(sink.name, []).append(job.name)
    read = {job.name: {name for source in job.sources for name in fillers.get(source, ())} for job in listed}
    try:
        TopologicalSorter({name: others - {name} for name, others in read.items()}).prepare()
    except CycleError as problem:
        return list(problem.args[1])
    return []


def entity_edges(
    relations: Mapping[QualifiedName, Relation], queries: Iterable[BoundQuery]
) -> dict[QualifiedName, QualifiedName]:
    """Declared relation that nothing fills → relation whose query writes the same entity."""
    writers: dict[tuple[str, str], QualifiedName] = {}
    filled: set[QualifiedName] = set()
    for query in queries:
        filled.update(sink.name for sink in query.sinks)
        for sink in query.sinks:
            writers.setdefault((sink.store, sink.entity), sink.name)
        for part in query.parts:
            for log in part.logs:
                writers.setdefault((log.store, log.entity), part.sink.name)
    writer_of: dict[QualifiedName, QualifiedName] = {}
    for name, relation in relations.items():
        writer = writers.get((relation.store, relation.entity))
        if writer is not None and writer != name and name not in filled:
            writer_of[name] = writer
    return writer_of


def dependencies(
    relations: Mapping[QualifiedName, Relation], queries: Sequence[BoundQuery]
) -> dict[QualifiedName, tuple[QualifiedName, ...]]:
    """Relation → relations its data comes from: sources of its queries, or the writer of its entity."""
    reads: dict[QualifiedName, dict[QualifiedName, None]] = {name: {} for name in relations}
    for part in (part for query in queries for part in query.parts):
        reads[part.sink.name].update(dict.fromkeys(part.sources))
    for name, writer in entity_edges(relations, queries).items():
        reads[name].setdefault(writer)
    return {name: tuple(sources) for name, sources in reads.items()}


def readers(
    depends_on: Mapping[QualifiedName, Sequence[QualifiedName]], queries: Sequence[BoundQuery]
) -> dict[QualifiedName, tuple[str, ...]]:
    """Relation → names of the queries that read it, directly or through a relation that declares the same entity
    again."""
    queries_of: dict[QualifiedName, dict[str, None]] = {name: {} for name in depends_on}
    filled = {sink.name for query in queries for sink in query.sinks}
    for query in queries:
        for source in query.sources:
            queries_of[source].setdefault(query.name)
            if source not in filled:
                for writer in depends_on[source]:
                    queries_of[writer].setdefault(query.name)
    return {name: tuple(names) for name, names in queries_of.items()}
