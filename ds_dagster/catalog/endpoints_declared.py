"""All CREATE SCHEMA_REGISTRY, CREATE STORE and CREATE ENTITY of a project: what stands outside and is connected to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.properties import PropertyIndex
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.schema_registry import RegistryDefinition, declare_registry
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.catalog.stores_declared import declare_store
from ds_dagster.catalog.values import PropertyValue
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import CreateEntity, CreateSchemaRegistry, CreateStore, Origin, Statement

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What a project connects to.

    Attributes:
        stores: by folded name, the embedded view store among them.
        refused: names of stores whose statement was refused.
        entities: properties of CREATE ENTITY, by store and entity.
    """

    stores: Mapping[str, StoreDefinition]
    refused: frozenset[str]
    entities: Mapping[tuple[str, str], Mapping[str, PropertyValue]]


def declare_endpoints(
    statements: Sequence[Statement],
    settings: Settings,
    kinds: Mapping[str, StoreKind],
    index: PropertyIndex,
    findings: Findings,
) -> Endpoints:
    """Stores with their registries, and entities. What is wrong goes into ``findings``."""
    registries = _declare_registries(statements, settings, index, findings)
    stores, refused = _declare_stores(statements, settings, kinds, registries, findings)
    stores.update(_embedded_views(settings, kinds, stores))
    entities = _declare_entities(statements, settings, index, Catalog(stores, refused_stores=refused), findings)
    return Endpoints(MappingProxyType(stores), refused, entities)


def _declare_registries(
    statements: Sequence[Statement], settings: Settings, index: PropertyIndex, findings: Findings
) -> Mapping[str, RegistryDefinition | None]:
    """None for a refused one."""
    registries: dict[str, RegistryDefinition | None] = {}
    spans: dict[str, Span] = {}
    for statement in statements:
        if not isinstance(statement, CreateSchemaRegistry):
            continue
        name = str(statement.name)
        if name in spans:
            findings.add(error("DUPLICATE_SCHEMA_REGISTRY", span=statement.name.span, name=name), spans[name])
            continue
        spans[name] = statement.name.span
        registries[name], diagnostics = declare_registry(statement, settings, index)
        findings.extend(diagnostics)
    return registries


def _declare_stores(
    statements: Sequence[Statement],
    settings: Settings,
    kinds: Mapping[str, StoreKind],
    registries: Mapping[str, RegistryDefinition | None],
    findings: Findings,
) -> tuple[dict[str, StoreDefinition], frozenset[str]]:
    """Stores by name, and the names of the refused ones."""
    stores: dict[str, StoreDefinition] = {}
    spans: dict[str, Span] = {}
    for statement in statements:
        if not isinstance(statement, CreateStore):
            continue
        name = str(statement.name)
        if name in spans:
            findings.add(error("DUPLICATE_STORE", span=statement.name.span, name=name), spans[name])
            continue
        spans[name] = statement.name.span
        store, diagnostics = declare_store(statement, settings, kinds)
        findings.extend(diagnostics)
        store = findings.collect(partial(with_registry, store, registries)) if store else None
        if store is not None:
            stores[name] = store
    return stores, frozenset(spans) - frozenset(stores)


def _embedded_views(
    settings: Settings, kinds: Mapping[str, StoreKind], stores: Mapping[str, StoreDefinition]
) -> dict[str, StoreDefinition]:
    """The embedded view store exists without CREATE STORE; ``folder`` is where its files are kept."""
    made: dict[str, StoreDefinition] = {}
    for kind in kinds.values():
        if kind.capabilities.embedded and kind.name.lower() not in stores:
            span = Span(settings.file or "(settings)", 1)
            folder = PropertyValue(str(settings.state / "views"))
            made[kind.name.lower()] = embedded_store(kind, span, {"folder": folder})
    return made


def _declare_entities(
    statements: Sequence[Statement], settings: Settings, index: PropertyIndex, catalog: Catalog, findings: Findings
) -> Mapping[tuple[str, str], Mapping[str, PropertyValue]]:
    """CREATE ENTITY: sizes and settings for the relations that stand on the entity."""
    entities: dict[tuple[str, str], Mapping[str, PropertyValue]] = {}
    for statement in statements:
        if not isinstance(statement, CreateEntity):
            continue
        wanted = str(statement.store) if statement.store else statement.origin.context.store or settings.store
        place = (statement.store or statement.path).span
        store = findings.collect(partial(catalog.store, wanted, place))
        if store is not None:
            pulled = index.pull(statement.properties, "entity", store.kind)
            findings.extend(pulled.diagnostics)
            entities[store.name, str(statement.path)] = pulled.values
    return entities


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
    return StoreDefinition(kind.name.lower(), kind.name, span, Origin(span, ""), MappingProxyType(dict(properties)))
