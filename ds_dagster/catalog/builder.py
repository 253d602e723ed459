"""Pass one over a project's statements: declare databases, schemas, stores and relations. The order of files does not
matter;
everything wrong is reported, what is right is usable all the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.descriptors import DescriptorSource, declare_sources
from ds_dagster.catalog.properties import Place, PropertyIndex, property_index
from ds_dagster.catalog.records import (
    NULLABLE_KEY,
    Draft,
    Findings,
    check_columns,
    event_time,
    record_key,
    value_format,
)
from ds_dagster.catalog.relation import Column, EventTime, RecordKey, Relation
from ds_dagster.catalog.relation_schemas import (
    ToRecord,
    check_schemas,
    default_format,
    descriptors,
    subject_of,
    unlisted_columns,
)
from ds_dagster.catalog.schema_registry import RegistryDefinition, declare_registry
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.catalog.stores_declared import declare_store
from ds_dagster.catalog.values import PropertyValue
from ds_dagster.datatypes import is_primitive
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName, did_you_mean
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import (
    ColumnDefinition,
    Context,
    CreateAsSelect,
    CreateDatabase,
    CreateDescriptorSource,
    CreateEntity,
    CreateRelation,
    CreateSchema,
    CreateSchemaRegistry,
    CreateStore,
    InsertInto,
    ParsedFile,
    RelationKind,
    Statement,
    WrittenName,
)

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind

S = TypeVar("S")
PUBLIC = "public"
EMBEDDED_VIEWS = "sqlite"
"""Setting ``views`` and name of the store that needs no CREATE STORE."""
KIND_WORDS: Mapping[RelationKind, str] = MappingProxyType(
    {"stream": "STREAM", "changelog": "CHANGELOG", "table": "TABLE", "materialized_view": "MATERIALIZED VIEW"}
)


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A CREATE … AS SELECT or INSERT INTO with the qualified name of the relation it fills."""

    target: QualifiedName
    statement: CreateAsSelect | InsertInto


@dataclass(frozen=True, slots=True)
class Declared:
    """What pass one found.

    Attributes:
        stores: by folded name, the embedded view store among them.
        relations: declared ones (with columns), by qualified name; those of CREATE … AS come with pass two.
        schemas: (database, schema) pairs that exist.
        queries: CREATE … AS and INSERT INTO in the order of files; of duplicates the first.
        diagnostics: errors and warnings, in the order of files.
        refused: names of declared relations that were refused (a query over one of them is not a root cause).
        refused_stores: the same of stores.
        descriptors: descriptor sources by folded name, None for refused ones.
    """

    stores: Mapping[str, StoreDefinition] = field(default_factory=lambda: MappingProxyType({}))
    relations: Mapping[QualifiedName, Relation] = field(default_factory=lambda: MappingProxyType({}))
    schemas: frozenset[tuple[str, str]] = frozenset()
    queries: tuple[NamedQuery, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    refused: frozenset[QualifiedName] = frozenset()
    refused_stores: frozenset[str] = frozenset()
    descriptors: Mapping[str, DescriptorSource | None] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def catalog(self) -> Catalog:
        """Lookup over it."""
        return Catalog(self.stores, self.relations, self.schemas, self.refused_stores, self.descriptors)


def qualify(written: WrittenName, context: Context, settings: Settings) -> QualifiedName:
    """Complete a written name from USE and the settings.

    Raises:
        UserError: NAME_TOO_LONG.
    """
    if len(written.parts) > 3:
        raise error("NAME_TOO_LONG", span=written.span, name=str(written))
    database = context.database or settings.database.lower()
    schema = context.schema or (PUBLIC if context.database else settings.schema.lower())
    filled = (database, schema, "")[: 3 - len(written.parts)] + written.parts
    return QualifiedName(*filled)


def check_schema(name: QualifiedName, schemas: Iterable[tuple[str, str]], span: Span | None) -> None:
    """The database and the schema of a name exist.

    Raises:
        UserError: UNKNOWN_DATABASE, UNKNOWN_SCHEMA with the nearest names.
    """
    known = set(schemas)
    if (name.database, name.schema) in known:
        return
    databases = sorted({database for database, _ in known})
    if name.database not in databases:
        raise error("UNKNOWN_DATABASE", span=span, name=name.database, nearest=did_you_mean(name.database, databases))
    inside = [f"{database}.{schema}" for database, schema in sorted(known) if database == name.database]
    full = f"{name.database}.{name.schema}"
    raise error("UNKNOWN_SCHEMA", span=span, name=full, nearest=did_you_mean(full, inside))


def current_store(
    name: QualifiedName,
    kind: RelationKind,
    values: Mapping[str, PropertyValue],
    context: Context,
    settings: Settings,
    catalog: Catalog,
    span: Span,
) -> StoreDefinition:
    """The store of a relation: written, else the current one (USE STORE, settings; for views the setting ``views``).

    Raises:
        UserError: NO_CURRENT_STORE, UNKNOWN_STORE, STORE_REFUSED.
    """
    written = values.get("store")
    fallback = settings.views if kind == "materialized_view" else (context.store or settings.store)
    wanted = str(written.value) if written else fallback.lower()
    if not wanted:
        raise error("NO_CURRENT_STORE", span=span, name=str(name))
    return catalog.store(wanted, written.span if written else span)


def declare(files: Sequence[ParsedFile], settings: Settings, kinds: Mapping[str, StoreKind]) -> Declared:
    """Declare everything the statements of a project say exists.

    Args:
        files: parsed, in any order.
        settings: defaults of names and the overlay.
        kinds: store kinds by name, aliases included (``stores.registry.KINDS``).
    """
    return _Builder(files, settings, kinds).build()


class _Builder:
    """One run of pass one; collects, never raises."""

    def __init__(self, files: Sequence[ParsedFile], settings: Settings, kinds: Mapping[str, StoreKind]) -> None:
        self.statements = [statement for file in sorted(files, key=lambda f: f.path) for statement in file.statements]
        self.settings = settings
        self.kinds = kinds
        self.index: PropertyIndex = property_index(kinds)
        self.findings = Findings()
        self.stores: dict[str, StoreDefinition] = {}
        self.refused_stores: set[str] = set()
        self.registries: dict[str, RegistryDefinition | None] = {}
        self.recorded: list[ToRecord] = []
        self.descriptors: Mapping[str, DescriptorSource | None] = {}
        self.schemas: set[tuple[str, str]] = set()
        self.refused: set[QualifiedName] = set()
        self.entities: dict[tuple[str, str], Mapping[str, PropertyValue]] = {}

    def build(self) -> Declared:
        self._declare_schemas()
        self._declare_registries()
        self.descriptors, found = declare_sources(self._of(CreateDescriptorSource), self.settings, self.index)
        self.findings.extend(found)
        self._declare_stores()
        self._declare_entities()
        named = self._named()
        relations: dict[QualifiedName, Relation] = {}
        for name, statement in named.items():
            if isinstance(statement, CreateRelation):
                made = self._relation(name, statement)
                if made is None:
                    self.refused.add(name)
                else:
                    relations[name] = made
        return Declared(
            stores=MappingProxyType(self.stores),
            relations=MappingProxyType(relations),
            schemas=frozenset(self.schemas),
            queries=self._queries(named),
            diagnostics=tuple(self.findings.diagnostics),
            refused=frozenset(self.refused),
            refused_stores=frozenset(self.refused_stores),
            descriptors=MappingProxyType(dict(self.descriptors)),
        )

    @property
    def catalog(self) -> Catalog:
        """Lookup over the stores known so far."""
        return Catalog(self.stores, refused_stores=frozenset(self.refused_stores))

    def _of(self, kind: type[S]) -> list[S]:
        return [statement for statement in self.statements if isinstance(statement, kind)]

    def _declare_schemas(self) -> None:
        defaults = self.settings.database.lower(), self.settings.schema.lower()
        self.schemas |= {defaults, (defaults[0], PUBLIC)}
        databases: dict[str, Span] = {}
        for statement in self._of(CreateDatabase):
            name = str(statement.name)
            if name in databases and not statement.if_not_exists:
                self.findings.add(error("DUPLICATE_DATABASE", span=statement.name.span, name=name), databases[name])
            databases.setdefault(name, statement.name.span)
            self.schemas.add((name, PUBLIC))
        known = {database for database, _ in self.schemas}
        seen: dict[tuple[str, str], Span] = {}
        for schema in self._of(CreateSchema):
            self._declare_schema(schema, known, seen)

    def _declare_schema(self, statement: CreateSchema, known: set[str], seen: dict[tuple[str, str], Span]) -> None:
        parts = statement.name.parts
        written = str(statement.database) if statement.database else (parts[0] if len(parts) == 2 else "")
        database = written or statement.origin.context.database or self.settings.database.lower()
        name, span = parts[-1], statement.name.span
        if len(parts) > 2:
            self.findings.add(error("NAME_TOO_LONG", span=span, name=str(statement.name)))
        elif database not in known:
            place = statement.database.span if statement.database else span
            nearest = did_you_mean(database, sorted(known))
            self.findings.add(error("UNKNOWN_DATABASE", span=place, name=database, nearest=nearest))
        elif (database, name) in seen and not statement.if_not_exists:
            self.findings.add(error("DUPLICATE_SCHEMA", span=span, name=f"{database}.{name}"), seen[database, name])
        else:
            seen.setdefault((database, name), span)
            self.schemas.add((database, name))

    def _declare_registries(self) -> None:
        """None for a refused one."""
        spans: dict[str, Span] = {}
        for statement in self._of(CreateSchemaRegistry):
            name = str(statement.name)
            if name in spans:
                problem = error("DUPLICATE_SCHEMA_REGISTRY", span=statement.name.span, name=name)
                self.findings.add(problem, spans[name])
                continue
            spans[name] = statement.name.span
            self.registries[name], diagnostics = declare_registry(statement, self.settings, self.index)
            self.findings.extend(diagnostics)

    def _declare_stores(self) -> None:
        spans: dict[str, Span] = {}
        for statement in self._of(CreateStore):
            name = str(statement.name)
            if name in spans:
                self.findings.add(error("DUPLICATE_STORE", span=statement.name.span, name=name), spans[name])
                continue
            spans[name] = statement.name.span
            store, diagnostics = declare_store(statement, self.settings, self.kinds)
            self.findings.extend(diagnostics)
            store = self.findings.collect(partial(with_registry, store, self.registries)) if store else None
            if store is not None:
                self.stores[name] = store
            else:
                self.refused_stores.add(name)
        self._embedded_views()

    def _embedded_views(self) -> None:
        """The embedded view store exists without CREATE STORE; ``folder`` is where its files are kept."""
        for kind in self.kinds.values():
            if kind.capabilities.embedded and kind.name.lower() not in self.stores:
                span = Span(self.settings.file or "(settings)", 1)
                folder = PropertyValue(str(self.settings.state / "views"))
                self.stores[kind.name.lower()] = embedded_store(kind, span, {"folder": folder})

    def _declare_entities(self) -> None:
        """CREATE ENTITY: sizes and settings for the relations that stand on the entity."""
        for statement in self._of(CreateEntity):
            wanted = str(statement.store) if statement.store else statement.origin.context.store or self.settings.store
            place = (statement.store or statement.path).span
            store = self.findings.collect(partial(self.catalog.store, wanted, place))
            if store is not None:
                pulled = self.index.pull(statement.properties, "entity", store.kind)
                self.findings.extend(pulled.diagnostics)
                self.entities[store.name, str(statement.path)] = pulled.values

    def _named(self) -> dict[QualifiedName, CreateRelation | CreateAsSelect]:
        """Relations by name, the first of duplicates."""
        named: dict[QualifiedName, CreateRelation | CreateAsSelect] = {}
        for statement in self.statements:
            if isinstance(statement, CreateRelation | CreateAsSelect):
                name = self._checked_name(statement.name, statement)
                if name is None:
                    continue
                if name not in named:
                    named[name] = statement
                elif not statement.if_not_exists:
                    span = statement.name.span
                    self.findings.add(error("DUPLICATE_RELATION", span=span, name=str(name)), named[name].name.span)
        return named

    def _checked_name(self, written: WrittenName, statement: Statement) -> QualifiedName | None:
        def step() -> QualifiedName:
            name = qualify(written, statement.origin.context, self.settings)
            check_schema(name, self.schemas, written.span)
            return name

        return self.findings.collect(step)

    def _queries(self, named: Mapping[QualifiedName, CreateRelation | CreateAsSelect]) -> tuple[NamedQuery, ...]:
        kept = {id(statement): name for name, statement in named.items()}
        found: list[NamedQuery] = []
        for statement in self.statements:
            if isinstance(statement, CreateAsSelect) and id(statement) in kept:
                found.append(NamedQuery(kept[id(statement)], statement))
            elif isinstance(statement, InsertInto):
                name = self._checked_name(statement.target, statement)
                if name is not None:
                    found.append(NamedQuery(name, statement))
        return tuple(found)

    def _relation(self, name: QualifiedName, statement: CreateRelation) -> Relation | None:
        findings = Findings()
        made = declared_relation(name, statement, self, findings)
        self.findings.extend(findings.diagnostics)
        return None if findings.failed else made


def with_registry(store: StoreDefinition, registries: Mapping[str, RegistryDefinition | None]) -> StoreDefinition:
    """The store with the schema registry it names. Where an overlay replaces the store, the registry has to be
    replaced too: schemas of local tests are never registered in production.

    Raises:
        UserError: UNKNOWN_SCHEMA_REGISTRY, SCHEMA_REGISTRY_REFUSED.
    """
    written = store.properties.get("schema_registry.name")
    if written is None:
        return store
    name = str(written.value)
    if name not in registries:
        raise error("UNKNOWN_SCHEMA_REGISTRY", span=written.span, name=name, nearest=did_you_mean(name, registries))
    found = registries[name]
    if found is None:
        raise error("SCHEMA_REGISTRY_REFUSED", span=written.span, name=name)
    return store if store.overlaid and not found.overlaid else replace(store, registry=found)


def embedded_store(kind: StoreKind, span: Span, properties: Mapping[str, PropertyValue]) -> StoreDefinition:
    """A store that needs no CREATE STORE."""
    from ds_dagster.sql.statements import Origin

    return StoreDefinition(kind.name.lower(), kind.name, span, Origin(span, ""), MappingProxyType(dict(properties)))


def pull_for_store(
    statement: CreateRelation | CreateAsSelect,
    place: Place,
    name: QualifiedName,
    settings: Settings,
    catalog: Catalog,
    index: PropertyIndex,
    findings: Findings,
) -> tuple[StoreDefinition | None, Mapping[str, PropertyValue]]:
    """The store of a relation and its converted properties; ``store`` is looked at first, since it decides about the
    others."""
    first = index.pull([p for p in statement.properties if p.name == "store"], place)
    findings.extend(first.diagnostics)
    store = findings.collect(
        lambda: current_store(
            name, statement.kind, first.values, statement.origin.context, settings, catalog, statement.name.span
        )
    )
    others = [p for p in statement.properties if p.name != "store"]
    pulled = index.pull(others, place, store.kind if store else None)
    findings.extend(pulled.diagnostics)
    return store, {**first.values, **pulled.values}


def check_holds(kind: StoreKind, relation: RelationKind, store: StoreDefinition, span: Span, *, written: bool) -> None:
    """The store may hold a relation of that kind.

    Raises:
        UserError: STORE_CANNOT_HOLD with what to write instead.
    """
    able = kind.capabilities
    holds: Mapping[RelationKind, bool] = {
        "stream": able.writes_streams if written else able.reads_streams or able.writes_streams,
        "changelog": able.writes_streams if written else able.reads_streams or able.writes_streams,
        "table": able.writes_tables,
        "materialized_view": able.serves_views,
    }
    if not holds[relation]:
        fixes: Mapping[RelationKind, str] = {
            "stream": "name a streaming store (KAFKA, KINESIS) with 'store' = …, or write CREATE TABLE … AS",
            "changelog": "name a streaming store (KAFKA, KINESIS) with 'store' = …, or write CREATE TABLE … AS",
            "table": "name a table store (POSTGRESQL, SNOWFLAKE, DATABRICKS, DELTA) with 'store' = …, "
            "or write CREATE STREAM or CREATE CHANGELOG",
            "materialized_view": "leave out 'store' for the embedded one, or name a POSTGRESQL store",
        }
        word = KIND_WORDS[relation]
        raise error("STORE_CANNOT_HOLD", span=span, kind=word, store=store.name, type=store.kind, fix=fixes[relation])


def check_parts(kind: StoreKind, draft: Draft) -> None:
    """What names the entity and has no default is written.

    Raises:
        UserError: RELATION_PROPERTY_MISSING.
    """
    for name, example in kind.capabilities.required_parts:
        if name not in draft.values:
            raise error(
                "RELATION_PROPERTY_MISSING",
                span=draft.span,
                relation=draft.name,
                name=name,
                type=kind.name,
                example=example,
            )


def entity_of(kind: StoreKind, name: QualifiedName, values: Mapping[str, PropertyValue]) -> str:
    """Name of the entity: the properties that name it, their defaults, the relation's own name."""
    parts = kind.capabilities.entity_parts
    if not parts:
        return str(name)
    chosen = [str(values[p].value) if p in values else (default or name.name) for p, default in parts]
    return ".".join(chosen)


def declared_relation(
    name: QualifiedName, statement: CreateRelation, builder: _Builder, findings: Findings
) -> Relation | None:
    """A relation with a column list; None (or a record nobody uses) when ``findings`` holds errors."""
    store, values = pull_for_store(
        statement, "relation", name, builder.settings, builder.catalog, builder.index, findings
    )
    if not statement.columns and store is not None:
        found = recorded(name, statement, store, values, builder, findings)
        if found is None:
            return None
        statement = replace(statement, columns=found)
    columns, primary_key = _columns(name, statement, findings)
    if store is None:
        return None
    kind = builder.kinds[store.kind]
    span = values["store"].span or statement.name.span if "store" in values else statement.name.span
    findings.collect(lambda: check_holds(kind, statement.kind, store, span, written=False))
    entity = entity_of(kind, name, values)
    values = {**builder.entities.get((store.name, entity), {}), **values}
    draft = Draft(str(name), statement.kind, columns, primary_key, values, statement.name.span)
    check_columns(draft, findings)
    check_upsert_mode(draft, findings)
    findings.collect(lambda: check_parts(kind, draft))
    if findings.failed:
        return None
    format_ = findings.collect(lambda: value_format(draft, default_format(values, "json"))) or "json"
    key = findings.collect(lambda: record_key(draft, format_)) or RecordKey()
    messages = findings.collect(lambda: descriptors(values, format_, key.format, builder.descriptors)) or (None, None)
    made = Relation(
        name=name,
        kind=statement.kind,
        store=store.name,
        entity=entity,
        columns=columns,
        span=statement.name.span,
        origin=statement.origin,
        primary_key=primary_key,
        value_format=format_,
        key=key,
        event_time=findings.collect(lambda: event_time(draft)) or EventTime(),
        starting_position="latest" if draft.text("starting.position") == "latest" else "earliest",
        properties=MappingProxyType(dict(values)),
        value_descriptor=messages[0],
        key_descriptor=messages[1],
    )
    if not findings.failed:
        findings.collect(lambda: check_schemas(made, kind, store, draft))
    return made


def recorded(
    name: QualifiedName,
    statement: CreateRelation,
    store: StoreDefinition,
    values: Mapping[str, PropertyValue],
    builder: _Builder,
    findings: Findings,
) -> tuple[ColumnDefinition, ...] | None:
    """The column list of a relation that has none, from a descriptor or from the project's copy of a schema. None where
    it was refused; an empty one where its format has no schema, which is refused later."""
    entity, span = entity_of(builder.kinds[store.kind], name, values), statement.name.span
    values = {**builder.entities.get((store.name, entity), {}), **values}
    wanted = subject_of(values, store, entity, str(name))
    if wanted is not None:
        builder.recorded.append(wanted)
    root = builder.settings.root
    columns = findings.collect(lambda: unlisted_columns(values, wanted, span, builder.descriptors, root))
    return None if columns is None else tuple(ColumnDefinition(c.name, c.type, c.nullable, span) for c in columns)


def subjects_to_record(
    files: Sequence[ParsedFile], settings: Settings, kinds: Mapping[str, StoreKind]
) -> tuple[ToRecord, ...]:
    """What relations without a column list want a copy of, each subject once."""
    builder = _Builder(files, settings, kinds)
    builder.build()
    return tuple({(one.registry.name, one.subject): one for one in builder.recorded}.values())


def check_upsert_mode(draft: Draft, findings: Findings) -> None:
    """``enable.upsert.mode`` is for changelogs, which always have it."""
    value = draft.values.get("enable.upsert.mode")
    if value is None:
        return
    if draft.kind != "changelog":
        span = value.span
        kind = KIND_WORDS[draft.kind]
        findings.add(
            error("PROPERTY_OF_OTHER_KIND", span=span, name="enable.upsert.mode", kind=kind, kinds="CHANGELOG")
        )
    elif value.value is False:
        reason = "a changelog's records replace one another by key; declare a STREAM to read every record"
        problem = error(
            "PROPERTY_VALUE_NOT_YET", span=value.span, name="enable.upsert.mode", value="false", reason=reason
        )
        findings.add(problem)


def _columns(
    name: QualifiedName, statement: CreateRelation, findings: Findings
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Columns and primary key; key columns are NOT NULL unless ``primary.key.nullable`` says otherwise."""
    if not statement.columns:
        word = KIND_WORDS[statement.kind]
        findings.add(error("COLUMNS_MISSING", span=statement.name.span, relation=str(name), kind=word))
    if statement.kind == "changelog" and not statement.primary_key:
        findings.add(error("PRIMARY_KEY_MISSING", span=statement.name.span, relation=str(name)))
    columns = tuple(Column(c.name, c.type, c.nullable, c.span) for c in statement.columns)
    draft = Draft(str(name), statement.kind, columns, ())
    key: list[str] = []
    for written in statement.primary_key:
        column = findings.collect(partial(draft.known_column, str(written), "PRIMARY KEY", written.span))
        if column is not None and not is_primitive(column.type):
            problem = error(
                "KEY_COLUMN_TYPE", span=written.span, name=column.name, type=column.type, relation=str(name)
            )
            findings.add(problem)
        if column is not None:
            key.append(column.name)
    strict = not any(p.name == NULLABLE_KEY and p.value is True for p in statement.properties)
    typed = tuple(replace(c, nullable=False) if strict and c.name in key else c for c in columns)
    return typed, tuple(dict.fromkeys(key))
