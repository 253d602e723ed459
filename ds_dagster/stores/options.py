"""Helpers that all stores share: values of options, properties of a definition, target tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from ds_dagster.catalog.io_spec import (
    Options,
    RefreshMode,
    SchemaPart,
    SchemaSpec,
    TableColumn,
    TableTarget,
    WriteMode,
)
from ds_dagster.catalog.properties.tables import RETENTION
from ds_dagster.catalog.properties.values import REFERENCE, PropertyValue
from ds_dagster.catalog.relation import SCHEMA_FORMAT_NAMES, Descriptor, Relation
from ds_dagster.catalog.store import StoreDefinition, StoreKind
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error


def make_options(values: Mapping[str, str | int | bool | PropertyValue | None]) -> Options:
    """Options of a spec; without entries whose value is None."""
    return MappingProxyType(
        {
            name: value if isinstance(value, PropertyValue) else PropertyValue(value)
            for name, value in values.items()
            if value is not None
        }
    )


def schema_spec(store: StoreDefinition, relation: Relation) -> SchemaSpec | None:
    """The parts of a relation's records that need a schema; None without such parts, or if the store has no registry
    and no part has a descriptor. Subjects are named after the topic, as Confluent's clients do (TopicNameStrategy); a
    descriptor of the project wins over a registry."""
    value = _schema_part(relation, "value", relation.value_format, relation.value_descriptor)
    key = _schema_part(relation, "key", relation.key.format, relation.key_descriptor)
    parts = [part for part in (value, key) if part is not None]
    if not parts or (store.registry is None and not any(part.file for part in parts)):
        return None
    uses_registry = store.registry is not None and not all(part.file for part in parts)
    return SchemaSpec(store.registry.spec if uses_registry and store.registry else None, value, key)


def _schema_part(relation: Relation, part: str, format_: str, descriptor: Descriptor | None) -> SchemaPart | None:
    if format_ == "protobuf" and descriptor is not None:
        return SchemaPart("protobuf", descriptor.message, message=descriptor.message, file=descriptor.file)
    name = SCHEMA_FORMAT_NAMES.get(format_)
    return SchemaPart(name, f"{relation.entity}-{part}") if name is not None else None


def flag(store: StoreDefinition, name: str) -> bool | None:
    """A truth value of a store, None when it is not set."""
    value = store.properties.get(name)
    return value.value if value is not None and isinstance(value.value, bool) else None


def word(store: StoreDefinition, name: str) -> str:
    """A word of a store, empty when it is not set."""
    value = store.properties.get(name)
    return str(value.value) if value is not None else ""


def missing(store: StoreDefinition, name: str, reason: str, example: str) -> Diagnostic:
    """STORE_PROPERTY_MISSING."""
    return error(
        "STORE_PROPERTY_MISSING", span=store.span, store=store.name, name=name, reason=reason, example=example
    ).diagnostic()


def invalid_address(store: StoreDefinition, allowed: str) -> Diagnostic:
    """PROPERTY_INVALID of ``uris``; credentials in it are not repeated."""
    value = store.properties["uris"]
    shown = without_credentials(str(value.value))
    return error(
        "PROPERTY_INVALID", span=value.span or store.span, name="uris", value=shown, allowed=allowed
    ).diagnostic()


def without_credentials(address: str) -> str:
    """A URL without user and password; references remain as written."""
    head, separator, tail = address.partition("://")
    host, at, rest = tail.rpartition("@")
    return f"{head}{separator}{rest}" if separator and at and host is not None else address


def is_literal(value: PropertyValue | None) -> bool:
    """Whether a value is set and contains no reference, so that its text is known before it is resolved."""
    return value is not None and not value.is_reference and REFERENCE.search(str(value.value)) is None


def host_part(address: str) -> str:
    """Host and port of a URL, without credentials."""
    return urlsplit(address).netloc.rpartition("@")[2] or address


def target_table(
    kind: StoreKind, relation: Relation, refresh: RefreshMode, path: tuple[str, ...], fallback: str
) -> TableTarget:
    """The table a relation becomes; a column without a type in the store is JSON text in a column of type
    ``fallback``."""
    columns = tuple(
        TableColumn(c.name, c.type, kind.native_type(c.type) or fallback, c.nullable, kind.native_type(c.type) is None)
        for c in relation.columns
    )
    mode: WriteMode = "upsert" if relation.primary_key else "append"
    retention = int(relation.option(RETENTION) or 0)
    return TableTarget(path, columns, relation.primary_key, mode, refresh, retention_millis=retention)
