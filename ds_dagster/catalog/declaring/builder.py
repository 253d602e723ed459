"""Pass one over a project's statements: declare databases, schemas, stores and relations. The order of files does not
matter; every mistake is reported, and the correct statements stay usable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.compute_pool import declare_pools
from ds_dagster.catalog.declaring.declared import Declared, NamedQuery, check_schema, qualify
from ds_dagster.catalog.declaring.endpoints import declare_endpoints
from ds_dagster.catalog.declaring.relations import Ground, declared_relation
from ds_dagster.catalog.declaring.schemas import declare_schemas
from ds_dagster.catalog.properties.spec import PropertyIndex, property_index
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.descriptors import declare_sources
from ds_dagster.catalog.schemas.relations import ToRecord
from ds_dagster.catalog.user_function import UserCode, declare_functions
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName
from ds_dagster.settings import Settings
from ds_dagster.sql.printing import print_statement
from ds_dagster.sql.statements import (
    Application,
    CreateAsSelect,
    CreateComputePool,
    CreateDescriptorSource,
    CreateFunction,
    CreateFunctionSource,
    CreateRelation,
    InsertInto,
    ParsedFile,
    Property,
    Statement,
    WrittenName,
)

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind

OF_SELECT = frozenset({"emit.mode", "temporal.join.mode", "temporal.join.retention.millis"})
"""Properties of QUERY WITH that decide what a SELECT computes; the others are about the job that runs it."""


def declare(files: Sequence[ParsedFile], settings: Settings, kinds: Mapping[str, StoreKind]) -> Declared:
    """Declare all databases, schemas, stores, relations, functions and other objects of a project's statements.

    Args:
        files: parsed, in any order.
        settings: defaults of names and the overlay.
        kinds: store kinds by name, aliases included (``stores.registry.KINDS``).
    """
    return _DeclarationPass(files, settings, kinds).build()[0]


def subjects_to_record(
    files: Sequence[ParsedFile], settings: Settings, kinds: Mapping[str, StoreKind]
) -> tuple[ToRecord, ...]:
    """Schema subjects of relations without a column list, each once: the project needs copies of their schemas."""
    recorded = _DeclarationPass(files, settings, kinds).build()[1]
    return tuple({(record.registry.name, record.subject): record for record in recorded}.values())


class _DeclarationPass:
    """One run of pass one; collects, never raises."""

    def __init__(self, files: Sequence[ParsedFile], settings: Settings, kinds: Mapping[str, StoreKind]) -> None:
        self.statements = [statement for file in sorted(files, key=lambda f: f.path) for statement in _flat(file)]
        self.settings = settings
        self.kinds = kinds
        self.findings = Findings()
        self.schemas: set[tuple[str, str]] = set()

    def build(self) -> tuple[Declared, tuple[ToRecord, ...]]:
        index = property_index(self.kinds)
        self.schemas = declare_schemas(self.statements, self.settings, self.findings)
        endpoints = declare_endpoints(self.statements, self.settings, self.kinds, index, self.findings)
        written = [statement for statement in self.statements if isinstance(statement, CreateDescriptorSource)]
        descriptors, diagnostics = declare_sources(written, self.settings, index)
        self.findings.extend(diagnostics)
        functions = self._functions(index)
        pools = [statement for statement in self.statements if isinstance(statement, CreateComputePool)]
        declared_pools = declare_pools(pools, self.settings, index, self.findings)
        catalog = Catalog(endpoints.stores, refused_stores=endpoints.refused, descriptors=descriptors)
        ground = Ground(self.settings, self.kinds, index, catalog, endpoints.entities, [])
        named = self._named()
        relations = {
            name: self._relation(name, statement, ground)
            for name, statement in named.items()
            if isinstance(statement, CreateRelation)
        }
        declared = Declared(
            stores=endpoints.stores,
            relations=MappingProxyType(
                {name: relation for name, relation in relations.items() if relation is not None}
            ),
            schemas=frozenset(self.schemas),
            queries=self._queries(named),
            diagnostics=tuple(self.findings.diagnostics),
            refused=frozenset(name for name, relation in relations.items() if relation is None),
            refused_stores=endpoints.refused,
            secrets=endpoints.secrets,
            registries=endpoints.registries,
            descriptors=MappingProxyType(dict(descriptors)),
            applications=tuple(schema for schema in self.statements if isinstance(schema, Application)),
            functions=functions,
            pools=MappingProxyType(dict(declared_pools)),
        )
        return declared, tuple(ground.recorded)

    def _functions(self, index: PropertyIndex) -> UserCode:
        sources = [statement for statement in self.statements if isinstance(statement, CreateFunctionSource)]
        written = [statement for statement in self.statements if isinstance(statement, CreateFunction)]
        code, diagnostics = declare_functions(sources, written, self.settings, index)
        self.findings.extend(diagnostics)
        return code

    def _named(self) -> dict[QualifiedName, CreateRelation | CreateAsSelect]:
        """Statements of relations by qualified name; of duplicates the first, the others are reported."""
        named: dict[QualifiedName, CreateRelation | CreateAsSelect] = {}
        for statement in self.statements:
            if isinstance(statement, CreateRelation | CreateAsSelect):
                name = self._checked_name(statement.name, statement)
                if name is None:
                    continue
                if name not in named:
                    named[name] = statement
                elif not (statement.if_not_exists and _same(statement, named[name])):
                    condition = "RELATION_CONTRADICTS" if statement.if_not_exists else "DUPLICATE_RELATION"
                    problem = error(condition, span=statement.name.span, name=str(name))
                    self.findings.add(problem, named[name].name.span)
        return named

    def _checked_name(self, written: WrittenName, statement: Statement) -> QualifiedName | None:
        def step() -> QualifiedName:
            name = qualify(written, statement.origin.context, self.settings)
            if not (isinstance(statement, CreateAsSelect) and statement.virtual):
                check_schema(name, self.schemas, written.span)
            return name

        return self.findings.collect(step)

    def _queries(self, named: Mapping[QualifiedName, CreateRelation | CreateAsSelect]) -> tuple[NamedQuery, ...]:
        names = {id(statement): name for name, statement in named.items()}
        queries: list[NamedQuery] = []
        for statement in self.statements:
            if isinstance(statement, CreateAsSelect) and id(statement) in names:
                queries.append(NamedQuery(names[id(statement)], statement))
            elif isinstance(statement, InsertInto):
                name = self._insert_name(statement, named)
                if name is not None:
                    queries.append(NamedQuery(name, statement))
        return tuple(queries)

    def _insert_name(
        self, statement: InsertInto, named: Mapping[QualifiedName, CreateRelation | CreateAsSelect]
    ) -> QualifiedName | None:
        span = statement.target.span
        target = self.findings.collect(lambda: qualify(statement.target, statement.origin.context, self.settings))
        writer = named.get(target) if target is not None else None
        if isinstance(writer, CreateAsSelect) and writer.virtual:
            self.findings.add(error("VIRTUAL_INSERT", span=span, relation=str(statement.target)))
            return None
        return self._checked_name(statement.target, statement)

    def _relation(self, name: QualifiedName, statement: CreateRelation, ground: Ground) -> Relation | None:
        findings = Findings()
        relation = declared_relation(name, statement, ground, findings)
        self.findings.extend(findings.diagnostics)
        return None if findings.failed else relation


def _same(create: CreateRelation | CreateAsSelect, other: CreateRelation | CreateAsSelect) -> bool:
    """Whether two statements declare a relation in the same way, however its name is written."""
    shown = (print_statement(replace(each, if_not_exists=True, name=create.name)) for each in (create, other))
    return len(set(shown)) == 1


def _flat(file: ParsedFile) -> Iterator[Statement]:
    """The statements of a file. Those inside an application come before it, with the properties after END APPLICATION
    added to its queries."""
    for statement in file.statements:
        if isinstance(statement, Application):
            yield from (_with_properties(inner, statement.properties) for inner in statement.statements)
        yield statement


def _with_properties(statement: Statement, properties: tuple[Property, ...]) -> Statement:
    if not properties or not isinstance(statement, CreateAsSelect | InsertInto):
        return statement
    own = statement.body.query_properties
    own_names = {item.name for item in own}
    more = tuple(item for item in properties if item.name not in own_names)
    if isinstance(statement, CreateAsSelect) and statement.virtual:
        more = tuple(item for item in more if item.name in OF_SELECT)
    return replace(statement, body=replace(statement.body, query_properties=(*own, *more)))
