"""GENERATE COLUMNS: the DDL of a relation over an existing entity, to be pasted into a file.

Columns come from the first of these that exists: the newest schema of the entity's subject in the store's registry, the
table's own columns, samples of the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.entity_operations import EntityDescription, EntityOperations, EntityPath
from ds_dagster.catalog.schemas.formats import FORMATS, WHOLE
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.cli.sampled_types import SampledPlace, seen
from ds_dagster.datatypes import VARCHAR, DataType, StructType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.runtime.connecting import resolver
from ds_dagster.settings import Settings
from ds_dagster.sql.generator import name_text, properties_text
from ds_dagster.sql.script import parse_statement
from ds_dagster.sql.statements import Property
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.schema_registry import SchemaRegistry

NOWHERE = Span("", 0)
TEXT_KEY, JSON_KEY = "primitive", "json"
_BY_TYPE = {format_.type: format_ for format_ in FORMATS.values()}
_UNPLAIN = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a column list. ``remark``: text of its comment; empty: no comment."""

    name: str
    type: DataType
    nullable: bool = True
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Generated:
    """The DDL, the source of its columns (``registry``, ``table``, ``samples``), and the number of sampled records."""

    ddl: str
    source: str
    records: int | None = None


def generated(
    settings: Settings, store: StoreDefinition, operations: EntityOperations, path: EntityPath, samples: int
) -> Generated:
    """The DDL of an entity. ``samples``: most records to sample, if needed.

    Raises:
        UserError: ENTITY_NOT_FOUND, NOTHING_TO_SAMPLE.
        UnsupportedError: ENTITY_STATEMENT_REFUSED.
    """
    entity = operations.describe(path)
    if entity is None:
        names = [node.path[-1] for node in operations.children(path[:-1])]
        nearest = did_you_mean(path[-1], names)
        raise error("ENTITY_NOT_FOUND", entity=".".join(path), store=store.name, nearest=nearest)
    from_registry = _from_registry(settings, store, entity)
    if from_registry is not None:
        return from_registry
    if entity.columns:
        return _from_table(store, entity)
    return _from_samples(store, entity, operations.sample(path, samples))


def _from_registry(settings: Settings, store: StoreDefinition, entity: EntityDescription) -> Generated | None:
    if store.registry is None:
        return None
    subject = f"{entity.facts.name}-value"
    with closing(SchemaRegistry(store.registry.spec, resolver(settings, store.registry.name))) as registry:
        format_ = _BY_TYPE.get(registry.type_of(subject) or "")
        latest = None if format_ is None else registry.latest(subject, format_.type)
    if format_ is None or latest is None:
        return None
    fields = format_.fields(latest.schema)
    if [name for name, *_ in fields] == [WHOLE]:
        return None
    lines = [
        Line(name, type_ or VARCHAR, remark="" if type_ else f"{shown}: no SQL type holds it")
        for name, type_, shown in fields
    ]
    values = {"store": store.name, "topic": entity.facts.name, "value.format": format_.name}
    return Generated(_ddl("STREAM", entity.path, lines, (), values), "registry")


def _from_table(store: StoreDefinition, entity: EntityDescription) -> Generated:
    """CREATE TABLE with the table's columns; a column whose type has no SQL type here is VARCHAR with a remark.

    Raises:
        UnsupportedError: ENTITY_STATEMENT_REFUSED: the store has no tables to declare.
    """
    if not KINDS[store.kind].capabilities.writes_tables:
        reason, fix = "a view's columns are in its query", "use DESCRIBE RELATION"
        raise error(
            "ENTITY_STATEMENT_REFUSED",
            statement="GENERATE COLUMNS",
            store=store.name,
            type=store.kind,
            reason=reason,
            fix=fix,
        )
    lines = [
        Line(
            column.name,
            column.type or VARCHAR,
            column.nullable,
            column.native if column.type else f"{column.native}: no SQL type holds it",
        )
        for column in entity.columns
    ]
    parts = [name for name, _ in KINDS[store.kind].capabilities.entity_parts]
    named = dict(zip(reversed(parts), reversed(entity.path), strict=False))
    if len(parts) == 1:
        named = {parts[0]: entity.facts.name}
    values = {"store": store.name, **{name: named[name] for name in parts if name in named}}
    key = tuple(column.name for column in entity.columns if column.key)
    return Generated(_ddl("TABLE", entity.path, lines, key, values), "table")


def _from_samples(store: StoreDefinition, entity: EntityDescription, records: Sequence[RawRecord]) -> Generated:
    values = [parsed for record in records if (parsed := _json(record.value)) is not None]
    objects = [value for value in values if isinstance(value, dict)]
    if not objects:
        raise error("NOTHING_TO_SAMPLE", entity=entity.facts.name, store=store.name, count=len(records))
    whole = seen(objects)
    lines = [Line(name, inner.type, remark=_remark(inner, len(objects))) for name, inner in whole.fields.items()]
    properties: dict[str, str] = {"store": store.name, "topic": entity.facts.name, "value.format": "json"}
    key_format, key = _key(records, [line.name for line in lines])
    if key_format:
        properties["key.format"] = key_format
    kind = "CHANGELOG" if key and any(record.value is None for record in records) else "STREAM"
    if kind == "STREAM":
        properties |= _key_properties(key_format, key, records)
        key = ()
    return Generated(_ddl(kind, entity.path, lines, key, properties), "samples", len(records))


def _key_properties(key_format: str, key: Sequence[str], records: Sequence[RawRecord]) -> dict[str, str]:
    """Key properties of a stream: ``key.columns`` if its columns repeat the key, else ``key.type``."""
    if not key_format:
        return {}
    if key:
        return {"key.columns": ", ".join(map(name_text, key))}
    if key_format == TEXT_KEY:
        return {"key.type": str(VARCHAR)}
    type_ = seen(fields for record in records if isinstance(fields := _json(record.key), dict)).type
    return {"key.type": str(type_)} if isinstance(type_, StructType) else {}


def _key(records: Sequence[RawRecord], names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Format of the keys (empty if a record has no key), and the columns that repeat the key."""
    keys = [record.key for record in records]
    if not keys or any(key is None for key in keys):
        return "", ()
    pairs = [(_json(r.key), _json(r.value), r.key) for r in records if isinstance(_json(r.value), dict)]
    if all(isinstance(_json(key), dict) for key in keys):
        fields = tuple(dict.fromkeys(name for key in keys for name in _json(key)))
        repeated = all(value.get(name) == key.get(name) for key, value, _ in pairs for name in fields)
        return JSON_KEY, fields if repeated and set(fields) <= set(names) else ()
    texts = [(raw.decode("utf-8", "replace"), value) for _, value, raw in pairs if raw is not None]
    same = [name for name in names if all(value.get(name) == text for text, value in texts)]
    return TEXT_KEY, tuple(same[:1])


def _json(part: bytes | None) -> Any:
    try:
        return None if part is None else json.loads(part)
    except ValueError:
        return None


def _remark(place: SampledPlace, count: int) -> str:
    remarks = []
    if place.count < count:
        remarks.append(f"in {place.count} of {count}")
    if place.nulls:
        remarks.append(f"NULL in {place.nulls}")
    if place.is_mixed:
        remarks.append("values of several kinds")
    elif place.nulls == place.count:
        remarks.append("no value was seen")
    return ", ".join(remarks)


def _ddl(kind: str, path: EntityPath, lines: Sequence[Line], key: Sequence[str], properties: dict[str, str]) -> str:
    """CREATE … in several lines; it is parsed once as a check."""
    name = _UNPLAIN.sub("_", path[-1].rpartition("/")[2]).strip("_").lower() or "relation"
    items = [_column(line, last=index == len(lines) - 1 and not key) for index, line in enumerate(lines)]
    if key:
        items.append("  PRIMARY KEY (" + ", ".join(map(name_text, key)) + ")")
    written = tuple(Property(name, value, "string", NOWHERE, NOWHERE) for name, value in properties.items())
    text = "\n".join([f"CREATE {kind} {name_text(name)} (", *items, ") " + properties_text(written) + ";"])
    parse_statement(text)
    return text


def _column(line: Line, *, last: bool) -> str:
    required = "" if line.nullable else " NOT NULL"
    text = f"  {name_text(line.name)} {line.type}{required}{'' if last else ','}"
    return f"{text}  -- {line.remark}" if line.remark else text
