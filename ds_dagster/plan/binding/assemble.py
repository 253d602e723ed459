"""All queries of a project, bound sources first; a query that fails marks the queries that read it."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.declaring.declared import Declared
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import quarantine
from ds_dagster.catalog.store import StoreKind
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import DsError, error
from ds_dagster.names import QualifiedName
from ds_dagster.plan.binding.applications import together
from ds_dagster.plan.binding.binder import bind_query, bind_virtual
from ds_dagster.plan.binding.sources import World
from ds_dagster.plan.binding.virtual import VirtualRelation
from ds_dagster.plan.checks.constraints import check_constraints
from ds_dagster.plan.expressions.user_calls import check_names
from ds_dagster.plan.graph import (
    QueryNode,
    dependencies,
    entity_edges,
    job_circle,
    ordered,
    place_of,
    query_node,
    readers,
    reads_by_target,
)
from ds_dagster.plan.query import BoundQuery
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import Application, CreateAsSelect, InsertInto


@dataclass(frozen=True, slots=True)
class Refused:
    """A query that was not bound and why."""

    node: QueryNode
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Assembled:
    """The result of binding a project. Shapes as in ``project.Project``."""

    catalog: Catalog
    queries: Mapping[str, BoundQuery]
    diagnostics: tuple[Diagnostic, ...]
    refused: tuple[Refused, ...]
    depends_on: Mapping[QualifiedName, tuple[QualifiedName, ...]]
    downstream: Mapping[QualifiedName, tuple[str, ...]]


def assemble(
    declared: Declared,
    settings: Settings,
    kinds: Mapping[str, StoreKind],
    broken: Iterable[QualifiedName] = (),
) -> Assembled:
    """Bind all queries of a project.

    Args:
        declared: the result of pass one.
        settings, kinds: as in pass one.
        broken: names of relations whose statement could not be parsed.
    """
    return _Assembly(declared, settings, kinds, broken).run()


@dataclass(slots=True)
class _Bound:
    """A query with the node it came from, in the order of files."""

    node: QueryNode
    query: BoundQuery
    diagnostics: list[Diagnostic] = field(default_factory=list)


class _Assembly:
    def __init__(
        self, declared: Declared, settings: Settings, kinds: Mapping[str, StoreKind], broken: Iterable[QualifiedName]
    ) -> None:
        self.settings = settings
        self.nodes = [query_node(named, settings) for named in declared.queries]
        self.relations: dict[QualifiedName, Relation] = dict(declared.relations)
        self.catalog = replace(declared.catalog, relations=MappingProxyType(self.relations))
        self.virtuals: dict[QualifiedName, VirtualRelation] = {}
        self.applications = declared.applications
        self.undeclared = dict(_undeclared(declared))
        self.world = World(self.catalog, settings, kinds, self.virtuals)
        self.failed: set[QualifiedName] = {*declared.refused, *broken}
        self.refused: list[Refused] = []
        self.diagnostics: list[Diagnostic] = []
        self.bound: list[_Bound] = []

    def run(self) -> Assembled:
        self.diagnostics += check_names(self.catalog.functions)
        self._check_constraints()
        order, circles = ordered(reads_by_target(self.nodes))
        self._refuse_circles(circles)
        by_target: dict[QualifiedName, list[QueryNode]] = {}
        for node in self.nodes:
            by_target.setdefault(node.target, []).append(node)
        for name in order:
            self._fill(by_target.get(name, ()))
        self._name_queries()
        self._refuse_entity_circles()
        queries = self._jobs()
        depends_on = dependencies(self.relations, queries)
        return Assembled(
            catalog=self.catalog,
            queries=MappingProxyType({query.name: query for query in queries}),
            diagnostics=tuple(self.diagnostics),
            refused=tuple(self.refused),
            depends_on=MappingProxyType(depends_on),
            downstream=MappingProxyType(readers(depends_on, queries)),
        )

    def _check_constraints(self) -> None:
        """A declared relation with wrong constraints fails the queries that read it; a quarantine is a relation too."""
        for name, relation in tuple(self.relations.items()):
            findings = Findings()
            check_constraints(relation, self.catalog.functions, findings)
            log = findings.collect(partial(quarantine, relation))
            self.diagnostics += findings.diagnostics
            if findings.failed:
                self.failed.add(name)
            elif log is not None and log.name not in {node.target for node in self.nodes}:
                self.relations.setdefault(log.name, log)

    def _fill(self, nodes: Sequence[QueryNode]) -> None:
        """Bind the queries of one relation, first the one that creates it."""
        for node in sorted(nodes, key=lambda node: isinstance(node.named.statement, InsertInto)):
            if any(refused.node is node for refused in self.refused):
                continue
            upstream = next((name for name in (*node.reads, *self._target_of(node)) if name in self.failed), None)
            if upstream is not None:
                self._refuse(node, [self._caused(node, upstream)])
            else:
                self._fenced(node)

    def _fenced(self, node: QueryNode) -> None:
        """Bind a query; a bug of this package refuses the statement only, not the project."""
        try:
            self._bind(node)
        except DsError as problem:
            finding = problem.diagnostic()
            self._refuse(node, [finding if finding.span else replace(finding, span=node.span)])
        except Exception as problem:  # noqa: BLE001, the boundary of one statement: the others are bound
            where = f"binding {_shown(node.target)}"
            bug = error("INTERNAL", span=node.span, where=where).diagnostic()
            last = traceback.extract_tb(problem.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}"
            self._refuse(node, [replace(bug, detail=f"{type(problem).__name__} in {place}: {problem}"[:500])])

    def _target_of(self, node: QueryNode) -> tuple[QualifiedName, ...]:
        return (node.target,) if isinstance(node.named.statement, InsertInto) else ()

    def _bind_virtual(self, node: QueryNode, statement: CreateAsSelect) -> None:
        root, diagnostics = bind_virtual(node.target, statement, self.world)
        if root is None:
            self._refuse(node, diagnostics)
            return
        self.diagnostics += diagnostics
        self.virtuals[node.target] = root

    def _bind(self, node: QueryNode) -> None:
        if node.virtual is not None:
            self._bind_virtual(node, node.virtual)
            return
        outcome = bind_query(node.named, self.world)
        if outcome.query is None:
            self._refuse(node, outcome.diagnostics)
            return
        self.diagnostics += outcome.diagnostics
        self.bound.append(_Bound(node, outcome.query))
        self.relations.setdefault(node.target, outcome.query.sink)

    def _refuse(self, node: QueryNode, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics += diagnostics
        self.refused.append(Refused(node, tuple(diagnostics)))
        if isinstance(node.named.statement, CreateAsSelect):
            self.failed.add(node.target)

    def _caused(self, node: QueryNode, upstream: QualifiedName) -> Diagnostic:
        span = place_of(node, upstream, self.settings)
        params = {"relation": _shown(node.target), "upstream": _shown(upstream)}
        finding = error("UPSTREAM_FAILED", span=span, **params).diagnostic()
        return replace(finding, caused_by=str(upstream))

    # applications

    def _jobs(self) -> list[BoundQuery]:
        """The jobs: a single query, or all queries of an application; if one of these is refused, all are."""
        composed: dict[str, BoundQuery] = {}
        self._fell()
        for statement in self.applications:
            name = str(statement.name)
            bound = [member for member in self.bound if _application(member.node) == name]
            if not bound:
                continue
            try:
                composed[name] = self._together(statement, sorted(bound, key=lambda member: member.node.span), composed)
            except DsError as problem:
                self._lose(bound, problem)
                composed.pop(name, None)
        names = {_application(member.node) or member.query.name: member.query for member in self.bound}
        jobs = [composed.get(name, query) for name, query in names.items()]
        circle = job_circle(jobs)
        if not circle:
            return jobs
        self._lose_circle(circle)
        return self._jobs()

    def _lose_circle(self, circle: Sequence[str]) -> None:
        """Relations without a circle can still give jobs in a circle, since all queries of an application are one
        job."""
        statement = next(application for application in self.applications if str(application.name) in circle)
        name, path = str(statement.name), " → ".join(circle)
        bound = [member for member in self.bound if _application(member.node) == name]
        self._lose(bound, error("APPLICATION_CYCLE", span=statement.name.span, name=name, path=path))

    def _together(self, statement: Application, bound: Sequence[_Bound], jobs: Mapping[str, BoundQuery]) -> BoundQuery:
        name = str(statement.name)
        if name in jobs or any(member.query.name == name for member in self.bound if _application(member.node) != name):
            raise error("QUERY_NAME_TAKEN", span=statement.name.span, name=name)
        spans = {member.query.name: member.node.span for member in bound}
        parts = [part for member in bound for part in member.query.parts]
        return together(statement, parts, spans, self.catalog.store_kinds)

    def _lose(self, bound: Sequence[_Bound], problem: DsError) -> None:
        """Refuse each query of an application that cannot be one job."""
        for member in bound:
            self._refuse(member.node, [problem.diagnostic()])
            self._forget(member)
        self._fell()

    def _fell(self) -> None:
        """Refuse the queries of applications with a refused query, and the queries that read from them, until no more
        are refused."""
        while True:
            why = {name: _cause(r) for r in reversed(self.refused) if (name := _application(r.node))} | self.undeclared
            fallen = [bound for bound in self.bound if _application(bound.node) in why]
            for bound in fallen:
                name = _application(bound.node)
                shown, cause = _shown(bound.node.target), why[name]
                fallen_with = error("APPLICATION_REFUSED", span=bound.node.span, name=name, relation=shown, other=cause)
                finding = fallen_with.diagnostic()
                self._refuse(bound.node, [replace(finding, caused_by=name)])
                self._forget(bound)
            self._drop_readers_of_lost()
            if not fallen:
                return

    def _forget(self, bound: _Bound) -> None:
        self.bound.remove(bound)
        if isinstance(bound.node.named.statement, CreateAsSelect):
            self.relations.pop(bound.node.target, None)

    # circles

    def _refuse_circles(self, circles: Sequence[Sequence[QualifiedName]]) -> None:
        for circle in circles:
            nodes = [node for node in self.nodes if node.target in circle and set(node.reads) & set(circle)]
            remaining = [node for node in nodes if not any(refused.node is node for refused in self.refused)]
            if remaining:
                self._refuse_circle(circle, remaining)

    def _refuse_circle(self, circle: Sequence[QualifiedName], nodes: Sequence[QueryNode]) -> None:
        """One diagnostic at one query, with the other one as related; all queries of the circle are refused with it."""
        first = nodes[0]
        source = next(name for name in first.reads if name in circle)
        other = next((node for node in nodes if node.target == source), first)
        names = [*circle[circle.index(first.target) :], *circle[: circle.index(first.target)], first.target]
        path = " reads ".join(map(_shown, names))
        problem = error(
            "RELATION_CYCLE",
            span=place_of(first, source, self.settings),
            first=_shown(first.target),
            second=_shown(source),
            path=path,
        )
        back = next((name for name in other.reads if name in circle), source)
        related = (place_of(other, back, self.settings),) if other is not first else ()
        finding = replace(problem.diagnostic(), related=related)
        self.diagnostics.append(finding)
        for node in nodes:
            self.refused.append(Refused(node, (finding,)))
            self.failed.add(node.target)

    def _refuse_entity_circles(self) -> None:
        """Refuse circles that close through an entity: a query writes an entity that another relation declares again,
        and a query of the circle reads this relation."""
        declared_again = entity_edges(self.relations, [bound.query for bound in self.bound])
        if not declared_again:
            return
        edges = reads_by_target(bound.node for bound in self.bound)
        for name, writer in declared_again.items():
            edges.setdefault(name, []).append(writer)
        _, circles = ordered(edges)
        self._refuse_circles(circles)
        lost = {id(refused.node) for refused in self.refused}
        self.bound = [bound for bound in self.bound if id(bound.node) not in lost]
        for refused in self.refused:
            if isinstance(refused.node.named.statement, CreateAsSelect):
                self.relations.pop(refused.node.target, None)
        self._drop_readers_of_lost()

    def _drop_readers_of_lost(self) -> None:
        for bound in list(self.bound):
            upstream = next((name for name in bound.query.sources if name not in self.relations), None)
            if upstream is not None:
                self._refuse(bound.node, [self._caused(bound.node, upstream)])
                self._forget(bound)

    # names of queries

    def _name_queries(self) -> None:
        """Refuse a name that is taken, and INSERT INTO without ``'query.name'`` if several queries fill a relation."""
        count: dict[QualifiedName, int] = {}
        for node in self.nodes:
            count[node.target] = count.get(node.target, 0) + 1
        taken: dict[str, Span] = {}
        unique: list[_Bound] = []
        for bound in self.bound:
            problem = self._name_problem(bound, count[bound.node.target], taken)
            if problem is None:
                taken[bound.query.name] = bound.node.span
                unique.append(bound)
            else:
                self._refuse(bound.node, [problem])
                if isinstance(bound.node.named.statement, CreateAsSelect):
                    self.relations.pop(bound.node.target, None)
        lost = len(self.bound) - len(unique)
        self.bound = unique
        if lost:
            self._drop_readers_of_lost()

    def _name_problem(self, bound: _Bound, count: int, taken: Mapping[str, Span]) -> Diagnostic | None:
        statement = bound.node.named.statement
        named = any(item.name == "query.name" for item in statement.body.query_properties)
        if isinstance(statement, InsertInto) and count > 1 and not named:
            span = statement.target.span
            return error("QUERY_NAME_REQUIRED", span=span, relation=_shown(bound.node.target)).diagnostic()
        if bound.query.name in taken:
            finding = error("QUERY_NAME_TAKEN", span=bound.node.span, name=bound.query.name).diagnostic()
            return replace(finding, related=(taken[bound.query.name],))
        return None


def _application(node: QueryNode) -> str:
    return node.named.statement.origin.application


def _cause(refused: Refused) -> Span:
    return refused.diagnostics[0].span or refused.node.span


def _undeclared(declared: Declared) -> Iterator[tuple[str, Span]]:
    """Applications with an error of pass one, and its position."""
    errors = [d.span for d in declared.diagnostics if d.severity == "error" and d.span is not None]
    for statement in declared.applications:
        whole = statement.origin.span
        end = whole.end_line or whole.line
        inside = (span for span in errors if span.file == whole.file and whole.line <= span.line <= end)
        first = next(inside, None)
        if first is not None:
            yield str(statement.name), first


def _shown(name: QualifiedName) -> str:
    return name.name
