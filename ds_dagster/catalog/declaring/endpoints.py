"""All CREATE SECRET, SCHEMA_REGISTRY, STORE and ENTITY of a project and their updates: the servers it connects to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.declaring.stores import declare_store
from ds_dagster.catalog.declaring.updates import updates_of
from ds_dagster.catalog.properties.spec import PropertyIndex, property_index
from ds_dagster.catalog.properties.values import PropertyValue, secret_names
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.schemas.registry import RegistryDefinition, declare_registry
from ds_dagster.catalog.secret import SecretDefinition, declare_secret, named_secrets, unknown_secrets
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import (
    CreateEntity,
    CreateSchemaRegistry,
    CreateSecret,
    CreateStore,
    Origin,
    Property,
    Statement,
)

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind

Secrets = Mapping[str, SecretDefinition | None]


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The servers a project connects to.

    Attributes:
        stores: by folded name, the embedded view store among them.
        refused: names of stores whose statement was refused.
        secrets, registries: by folded name.
        entities: properties of CREATE ENTITY, by store and entity.
    """

    stores: Mapping[str, StoreDefinition]
    refused: frozenset[str]
    secrets: Mapping[str, SecretDefinition]
    registries: Mapping[str, RegistryDefinition]
    entities: Mapping[tuple[str, str], Mapping[str, PropertyValue]]


def declare_endpoints(
    statements: Sequence[Statement],
    settings: Settings,
    kinds: Mapping[str, StoreKind],
    index: PropertyIndex,
    findings: Findings,
) -> Endpoints:
    """Secrets, schema registries, stores with their registries, and entities. Mistakes go into ``findings``."""
    secrets = _declare_secrets(statements, settings, index, findings)
    registries = _declare_registries(statements, settings, index, secrets, findings)
    stores, refused = _declare_stores(statements, settings, kinds, registries, secrets, findings)
    stores.update(_embedded_views(settings, kinds, stores))
    entities = _declare_entities(statements, settings, index, Catalog(stores, refused_stores=refused), findings)
    definitions = MappingProxyType({name: secret for name, secret in secrets.items() if secret is not None})
    usable = MappingProxyType({name: registry for name, registry in registries.items() if registry is not None})
    return Endpoints(MappingProxyType(stores), refused, definitions, usable, entities)


def _declare_secrets(
    statements: Sequence[Statement], settings: Settings, index: PropertyIndex, findings: Findings
) -> Secrets:
    """Secrets by folded name, None for a refused statement."""
    secrets: dict[str, SecretDefinition | None] = {}
    spans: dict[str, Span] = {}
    for statement in statements:
        if not isinstance(statement, CreateSecret):
            continue
        name = str(statement.name).lower()
        if name in spans:
            findings.add(error("DUPLICATE_SECRET", span=statement.name.span, name=name), spans[name])
            continue
        spans[name] = statement.name.span
        secrets[name], diagnostics = declare_secret(statement, settings, index)
        findings.extend(diagnostics)
    return secrets


def _are_secrets_known(
    written: Sequence[Property],
    values: Mapping[str, PropertyValue],
    index: PropertyIndex,
    secrets: Secrets,
    findings: Findings,
) -> bool:
    """Whether all secrets are declared that statements, the overlay or users' resources name; the others are
    reported."""
    elsewhere = ((name, None) for value in values.values() for name in secret_names(str(value.value)))
    problems = list(unknown_secrets((*elsewhere, *named_secrets(written, index)), secrets))
    for problem in problems:
        findings.add(problem)
    return not problems


def _declare_registries(
    statements: Sequence[Statement], settings: Settings, index: PropertyIndex, secrets: Secrets, findings: Findings
) -> Mapping[str, RegistryDefinition | None]:
    """Registries by folded name, None for a refused statement."""
    registries: dict[str, RegistryDefinition | None] = {}
    spans: dict[str, Span] = {}
    created = [statement for statement in statements if isinstance(statement, CreateSchemaRegistry)]
    updates = updates_of(statements, "schema_registry", (str(statement.name) for statement in created), findings)
    for statement in created:
        name = str(statement.name)
        if name in spans:
            findings.add(error("DUPLICATE_SCHEMA_REGISTRY", span=statement.name.span, name=name), spans[name])
            continue
        spans[name] = statement.name.span
        own = updates.get(name.lower(), ())
        registry, diagnostics = declare_registry(statement, settings, index, own)
        findings.extend(diagnostics)
        written = [*statement.properties, *(item for update in own for item in update.properties)]
        is_usable = registry is not None and _are_secrets_known(written, registry.properties, index, secrets, findings)
        registries[name] = registry if is_usable else None
    return registries


def _declare_stores(
    statements: Sequence[Statement],
    settings: Settings,
    kinds: Mapping[str, StoreKind],
    registries: Mapping[str, RegistryDefinition | None],
    secrets: Secrets,
    findings: Findings,
) -> tuple[dict[str, StoreDefinition], frozenset[str]]:
    """Stores by name, and the names of the refused ones."""
    stores: dict[str, StoreDefinition] = {}
    spans: dict[str, Span] = {}
    index = property_index(kinds)
    created = [statement for statement in statements if isinstance(statement, CreateStore)]
    updates = updates_of(statements, "store", (str(statement.name) for statement in created), findings)
    for statement in created:
        name = str(statement.name)
        if name in spans:
            findings.add(error("DUPLICATE_STORE", span=statement.name.span, name=name), spans[name])
            continue
        spans[name] = statement.name.span
        own = updates.get(name.lower(), ())
        store, diagnostics = declare_store(statement, settings, kinds, own)
        findings.extend(diagnostics)
        store = findings.collect(partial(with_registry, store, registries)) if store else None
        written = [*statement.properties, *(item for update in own for item in update.properties)]
        if store is not None and _are_secrets_known(written, store.properties, index, secrets, findings):
            stores[name] = store
    return stores, frozenset(spans) - frozenset(stores)


def _embedded_views(
    settings: Settings, kinds: Mapping[str, StoreKind], stores: Mapping[str, StoreDefinition]
) -> dict[str, StoreDefinition]:
    """Definitions of the embedded view store, which exists without CREATE STORE; ``folder`` holds its files."""
    embedded: dict[str, StoreDefinition] = {}
    for kind in kinds.values():
        if kind.capabilities.embedded and kind.name.lower() not in stores:
            span = Span(settings.file or "(settings)", 1)
            folder = PropertyValue(str(settings.state / "views"))
            embedded[kind.name.lower()] = embedded_store(kind, span, {"folder": folder})
    return embedded


def _declare_entities(
    statements: Sequence[Statement], settings: Settings, index: PropertyIndex, catalog: Catalog, findings: Findings
) -> Mapping[tuple[str, str], Mapping[str, PropertyValue]]:
    """Properties of CREATE ENTITY by (store, entity): sizes and settings for the relations over the entity."""
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
    registry = registries[name]
    if registry is None:
        raise error("SCHEMA_REGISTRY_REFUSED", span=written.span, name=name)
    return store if store.overlaid and not registry.overlaid else replace(store, registry=registry)


def embedded_store(kind: StoreKind, span: Span, properties: Mapping[str, PropertyValue]) -> StoreDefinition:
    """A store that needs no CREATE STORE."""
    return StoreDefinition(kind.name.lower(), kind.name, span, Origin(span, ""), MappingProxyType(dict(properties)))
