"""Declared schema registries: services that hold the schemas (Avro, Protobuf, JSON Schema) of a store's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from ds_dagster.catalog.declaring.updates import merged, refused_updates
from ds_dagster.catalog.io_spec import RegistrySpec
from ds_dagster.catalog.properties.spec import PropertyIndex, convert
from ds_dagster.catalog.properties.values import REFERENCE, PropertyValue, located
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.secret import without_secrets
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import DsError, error
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import CreateSchemaRegistry, Origin, Property, UpdateConnection

RegistryType = Literal["CONFLUENT", "CONFLUENT_CLOUD"]
LOGINS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "CONFLUENT": ("confluent.username", "confluent.password"),
        "CONFLUENT_CLOUD": ("confluent_cloud.key", "confluent_cloud.secret"),
    }
)
"""Type of registry → properties of its login: (user, secret)."""
CERTIFICATES: Mapping[str, str] = MappingProxyType(
    {"authorities": "tls.ca_cert_file", "certificate": "tls.client.cert_file", "key": "tls.client.key_file"}
)
"""Option of a :class:`RegistrySpec` → property with its PEM file."""
KEY_PASSWORD = "tls.client.key_password"
KEPT_UNDER_OVERLAY = ("description",)


@dataclass(frozen=True, slots=True)
class RegistryDefinition:
    """CREATE SCHEMA_REGISTRY after conversion, with the statements that update it; ``overlaid``: the overlay of local
    servers gives its address."""

    name: str
    type: RegistryType
    span: Span
    origin: Origin
    properties: Mapping[str, PropertyValue] = field(default_factory=lambda: MappingProxyType({}))
    overlaid: bool = False
    updates: tuple[Origin, ...] = ()

    @property
    def spec(self) -> RegistrySpec:
        """How to reach the registry."""
        user, secret = LOGINS[self.type]
        spellings = {
            "addresses": "uris",
            "user": user,
            "password": secret,
            **CERTIFICATES,
            "key_password": KEY_PASSWORD,
        }
        properties = {
            name: self.properties[written] for name, written in spellings.items() if written in self.properties
        }
        return RegistrySpec(self.name, MappingProxyType(properties))


def declare_registry(
    created: CreateSchemaRegistry,
    settings: Settings,
    index: PropertyIndex,
    updates: Sequence[UpdateConnection] = (),
) -> tuple[RegistryDefinition | None, Sequence[Diagnostic]]:
    """Convert one CREATE SCHEMA_REGISTRY with its updates. None with the reasons when it is refused."""
    findings = Findings()
    for problem in refused_updates(updates, index):
        findings.add(problem)
    properties = merged(created.properties, updates, index)
    statement = replace(created, properties=tuple(properties))
    type_ = findings.collect(lambda: _type_of(statement))
    pulled = index.pull([p for p in statement.properties if p.name != "type"], "registry")
    findings.extend(pulled.diagnostics)
    if type_ is None:
        return None, findings.diagnostics
    files = CERTIFICATES.values()
    written = {n: located(settings.root, value) if n in files else value for n, value in pulled.values.items()}
    name = str(statement.name)
    for key, value in written.items():
        if value.secret and not value.is_reference:
            findings.warn(error("LITERAL_SECRET", span=value.span, name=key, owner=f"schema registry {name}"))
    overlay = findings.collect(lambda: _overlay(statement, settings, index)) or {}
    effective = {key: value for key, value in written.items() if not overlay or key in KEPT_UNDER_OVERLAY}
    registry = RegistryDefinition(
        name=name,
        type=type_,
        span=statement.name.span,
        origin=without_secrets(created.origin, created.properties, index),
        updates=tuple(without_secrets(update.origin, update.properties, index) for update in updates),
        properties=MappingProxyType({**effective, **overlay}),
        overlaid=bool(overlay),
    )
    if not findings.failed:
        _check(registry, findings)
    return (None if findings.failed else registry), findings.diagnostics


def _type_of(statement: CreateSchemaRegistry) -> RegistryType:
    written = next((p for p in statement.properties if p.name == "type"), None)
    name = str(written.value).upper() if written is not None else "none"
    types = " or ".join(LOGINS)
    if written is not None and name in LOGINS:
        return "CONFLUENT_CLOUD" if name == "CONFLUENT_CLOUD" else "CONFLUENT"
    span = written.value_span if written is not None else statement.name.span
    raise error("REGISTRY_TYPE_UNKNOWN", span=span, name=str(statement.name), type=name, known=types)


def _overlay(statement: CreateSchemaRegistry, settings: Settings, index: PropertyIndex) -> Mapping[str, PropertyValue]:
    """Values from the overlay of local servers: its table with the registry's name (tables of stores are there,
    too)."""
    by_name = {name.lower(): table for name, table in settings.overlay.stores.items()}
    values: dict[str, PropertyValue] = {}
    for name, raw in by_name.get(str(statement.name), {}).items():
        spec = index.find(name)
        if spec is None or "registry" not in spec.places or not isinstance(raw, str | int | bool):
            reason = f"{name} is not a text of a schema registry"
            raise error("OVERLAY_INVALID", file=settings.overlay.path, reason=reason)
        span = statement.name.span
        value = convert(spec, Property(spec.name, raw, "string", span, span), "registry")
        values[spec.name] = PropertyValue(value, secret=spec.secret)
    return values


def _check(registry: RegistryDefinition, findings: Findings) -> None:
    """Report addresses that are not URLs or have credentials, and incomplete logins and client certificates."""
    for problem in (*_wrong_addresses(registry), *_wrong_login(registry), *_half_certificate(registry)):
        findings.add(problem)


def _wrong_addresses(registry: RegistryDefinition) -> list[DsError]:
    value = registry.properties.get("uris")
    if value is None:
        reason, example = "the address to ask", "'https://host:8081'"
        return [_missing(registry, "uris", reason, example)]
    parts = [] if REFERENCE.search(str(value.value)) else str(value.value).split(",")
    for part in parts:
        address = urlsplit(part.strip())
        if address.scheme not in ("http", "https") or not address.hostname or "@" in address.netloc:
            allowed = "URLs with commas between them, http:// or https://, without user and password"
            shown = f"{address.scheme}://{address.netloc.rpartition('@')[2]}"
            return [error("PROPERTY_INVALID", span=value.span, name="uris", value=shown, allowed=allowed)]
    return []


def _wrong_login(registry: RegistryDefinition) -> list[DsError]:
    user, secret = LOGINS[registry.type]
    wrong: list[DsError] = []
    for type_, names in LOGINS.items():
        for name in names:
            if type_ != registry.type and name in registry.properties:
                span = registry.properties[name].span
                params = {"name": name, "type": registry.type, "types": type_}
                wrong.append(error("REGISTRY_PROPERTY_OF_OTHER_TYPE", span=span, **params))
    if (user in registry.properties) != (secret in registry.properties):
        lacking, there = (user, secret) if secret in registry.properties else (secret, user)
        wrong.append(_missing(registry, lacking, f"{there} is set", "'${NAME}'"))
    return wrong


def _half_certificate(registry: RegistryDefinition) -> list[DsError]:
    """Report a certificate without its key, a key without its certificate, a password without a key."""
    certificate, key = CERTIFICATES["certificate"], CERTIFICATES["key"]
    needs = ((certificate, key, "'certs/client.key'"), (key, certificate, "'certs/client.pem'"))
    wrong = [
        _missing(registry, lacking, f"{there} is set", example)
        for there, lacking, example in (*needs, (KEY_PASSWORD, key, "'certs/client.key'"))
        if there in registry.properties and lacking not in registry.properties
    ]
    return wrong[:1]


def _missing(registry: RegistryDefinition, name: str, reason: str, example: str) -> DsError:
    params = {"registry": registry.name, "name": name, "reason": reason, "example": example}
    return error("REGISTRY_PROPERTY_MISSING", span=registry.span, **params)
