"""CREATE STORE and its updates → StoreDefinition: kind, properties, ``config_file``, the overlay of local servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.declaring.updates import merged, refused_updates
from ds_dagster.catalog.properties.spec import PropertyIndex, PropertySpec, convert, property_index
from ds_dagster.catalog.properties.values import PropertyValue, located, parse_properties, read_value_file
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.secret import without_secrets
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import CreateStore, Property, UpdateConnection

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind

KEPT_UNDER_OVERLAY = ("access_region", "description", "delivery", "schema_registry.name")
"""Written properties that stay when an overlay gives another address: all others (logins, TLS) belong to the written
address."""


@dataclass(frozen=True, slots=True)
class _Store:
    """One CREATE STORE while it is converted."""

    statement: CreateStore
    kind: StoreKind
    index: PropertyIndex
    settings: Settings
    findings: Findings

    @property
    def name(self) -> str:
        return str(self.statement.name)


def declare_store(
    created: CreateStore,
    settings: Settings,
    kinds: Mapping[str, StoreKind],
    updates: Sequence[UpdateConnection] = (),
) -> tuple[StoreDefinition | None, Sequence[Diagnostic]]:
    """Convert one CREATE STORE with its updates. None with the reasons when it is refused."""
    findings = Findings()
    index = property_index(kinds)
    for problem in refused_updates(updates, index):
        findings.add(problem)
    statement = replace(created, properties=merged(created.properties, updates, index))
    kind = findings.collect(lambda: store_kind(statement, kinds))
    if kind is None:
        return None, findings.diagnostics
    store = _Store(statement, kind, index, settings, findings)
    replaced = _values_of(store, settings.store_values.get(store.name, {}), _replacement)
    written = {**_implied(store), **_written(store)}
    values: Mapping[str, PropertyValue] = {**written, **replaced}
    overlay = _overlay(store)
    values = _merged(values, overlay) if overlay else _with_config_file(store, values)
    definition = StoreDefinition(
        name=store.name,
        kind=kind.name,
        span=statement.name.span,
        origin=without_secrets(created.origin, created.properties, index),
        updates=tuple(without_secrets(update.origin, update.properties, index) for update in updates),
        properties=MappingProxyType({name: v for name, v in values.items() if name != "config_file"}),
        overlaid=bool(overlay),
    )
    if not findings.failed:
        findings.extend(kind.check_store(definition))
    return (None if findings.failed else definition), findings.diagnostics


def store_types(kinds: Mapping[str, StoreKind]) -> tuple[str, ...]:
    """Values of ``'type'`` that are built."""
    return tuple(sorted(name for name, kind in kinds.items() if not kind.capabilities.not_yet))


def store_kind(statement: CreateStore, kinds: Mapping[str, StoreKind]) -> StoreKind:
    """The kind a CREATE STORE names.

    Raises:
        UserError: STORE_TYPE_MISSING, STORE_TYPE_UNKNOWN. NotYetError: STORE_TYPE_NOT_YET.
    """
    written = next((p for p in statement.properties if p.name == "type"), None)
    built = store_types(kinds)
    if written is None:
        raise error("STORE_TYPE_MISSING", span=statement.name.span, name=str(statement.name), known=", ".join(built))
    name = str(written.value).upper()
    kind = kinds.get(name)
    if kind is None:
        raise error("STORE_TYPE_UNKNOWN", span=written.value_span, name=name, nearest=did_you_mean(name, built))
    if kind.capabilities.not_yet:
        raise error("STORE_TYPE_NOT_YET", span=written.value_span, name=name, reason=kind.capabilities.not_yet)
    return kind


def _written(store: _Store) -> Mapping[str, PropertyValue]:
    properties = [p for p in store.statement.properties if p.name != "type"]
    pulled = store.index.pull(properties, "store", store.kind.name)
    store.findings.extend(pulled.diagnostics)
    for name, value in pulled.values.items():
        if value.secret and not value.is_reference:
            store.findings.warn(error("LITERAL_SECRET", span=value.span, name=name, owner=f"store {store.name}"))
    return {name: _located(store, name, value) for name, value in pulled.values.items()}


def _implied(store: _Store) -> Mapping[str, PropertyValue]:
    """Properties that an alias of a kind implies (``CONFLUENT_KAFKA`` → the profile of Confluent Cloud)."""
    called = next((str(p.value).upper() for p in store.statement.properties if p.name == "type"), "")
    meant = dict(store.kind.capabilities.alias_defaults).get(called, ())
    return {name: PropertyValue(value) for name, value in meant}


def _located(store: _Store, name: str, value: PropertyValue) -> PropertyValue:
    """A value of type ``file`` with its absolute path (relative to the project); other values as they are."""
    spec = store.index.find(name)
    if spec is None or spec.type != "file" or name == "config_file":
        return value
    return located(store.settings.root, value)


def _merged(written: Mapping[str, PropertyValue], overlay: Mapping[str, PropertyValue]) -> Mapping[str, PropertyValue]:
    if "uris" not in overlay:
        return {**written, **overlay}
    return {**{name: value for name, value in written.items() if name in KEPT_UNDER_OVERLAY}, **overlay}


def _with_config_file(store: _Store, values: Mapping[str, PropertyValue]) -> Mapping[str, PropertyValue]:
    """Add the properties of ``config_file``; properties of the statement win."""
    config = values.get("config_file")
    if config is None:
        return values
    path = _config_path(store, str(config.value).removeprefix("@"))
    contents: dict[str, PropertyValue] = {}
    try:
        lines = parse_properties(read_value_file(str(path), f"store {store.name}"))
    except DsError as problem:
        reason = str(problem.params.get("reason", ""))
        _refuse_config(store, config, reason)
        return values
    for name, text in lines.items():
        item = Property(
            name, text, "string", config.span or store.statement.name.span, config.span or store.statement.name.span
        )
        pulled = store.index.pull([item], "store", store.kind.name)
        for diagnostic in pulled.diagnostics:
            _refuse_config(store, config, diagnostic.message)
        for canonical, pulled_value in pulled.values.items():
            value = _located(store, canonical, pulled_value)
            entry_value = PropertyValue("", secret=True, file=str(path), entry=name) if value.secret else value
            contents[canonical] = PropertyValue(
                entry_value.value, entry_value.secret, None, entry_value.file, entry_value.entry
            )
    return {**contents, **values}


def _config_path(store: _Store, written: str) -> Path:
    """Relative to the project; a file beside the statement is found too."""
    root = store.settings.root
    path = root / written
    beside = (root / store.statement.origin.span.file).parent / written
    return (beside if not path.is_file() and beside.is_file() else path).resolve()


def _refuse_config(store: _Store, config: PropertyValue, reason: str) -> None:
    folder = str(store.settings.root)
    problem = error(
        "CONFIG_FILE_INVALID", span=config.span, file=str(config.value), store=store.name, reason=reason, folder=folder
    )
    store.findings.add(problem)


def _overlay(store: _Store) -> Mapping[str, PropertyValue]:
    """The overlay's values for this store: by its name, else by its kind."""
    overlay = store.settings.overlay
    by_name = {name.lower(): table for name, table in overlay.stores.items()}
    by_kind = {name.upper(): table for name, table in overlay.kinds.items()}
    names = (store.kind.name, *store.kind.aliases)
    table = by_name.get(store.name) or next((by_kind[name] for name in names if name in by_kind), {})
    return _values_of(store, table, _overlay_value)


def _values_of(
    store: _Store, table: Mapping[str, Any], value_of: Callable[[_Store, PropertySpec, Any], PropertyValue]
) -> Mapping[str, PropertyValue]:
    """Properties that are not in the statement."""
    values: dict[str, PropertyValue] = {}
    for name, raw in table.items():
        spec = store.index.find(name)
        try:
            if spec is None:
                nearest = did_you_mean(name, store.index.names_at("store", store.kind.name))
                raise _overlay_error(store, f"unknown property {name}, did you mean {nearest}?")
            values[spec.name] = value_of(store, spec, raw)
        except DsError as problem:
            store.findings.add(problem)
    return values


def _replacement(store: _Store, spec: PropertySpec, raw: Any) -> PropertyValue:
    """A value of a user's resource: a reference stays one."""
    text = PropertyValue(str(raw), secret=spec.secret)
    if text.is_reference:
        return text
    return _located(store, spec.name, PropertyValue(_converted(store, spec, raw), secret=spec.secret))


def _overlay_value(store: _Store, spec: PropertySpec, raw: Any) -> PropertyValue:
    if isinstance(raw, str | int | bool):
        return PropertyValue(_converted(store, spec, raw), secret=spec.secret)
    if isinstance(raw, dict) and set(raw) == {"env"}:
        return PropertyValue("${" + str(raw["env"]) + "}", secret=spec.secret)
    if isinstance(raw, dict) and set(raw) == {"file"}:
        return PropertyValue("", secret=spec.secret, file=str((store.settings.state / str(raw["file"])).resolve()))
    raise _overlay_error(
        store, f'{spec.name} is not a text, number, truth value, {{env = "NAME"}} or {{file = "path"}}'
    )


def _converted(store: _Store, spec: PropertySpec, raw: str | int | bool) -> str | int | bool:
    span = store.statement.name.span
    try:
        return convert(spec, Property(spec.name, raw, "string", span, span), "store")
    except DsError as problem:
        raise _overlay_error(store, f"{problem.message}, {problem.hint}") from problem


def _overlay_error(store: _Store, reason: str) -> DsError:
    return error("OVERLAY_INVALID", file=store.settings.overlay.path, reason=reason)
