"""Schemas of a relation's records, from its statement: descriptors, inferred columns, and whether its store can hold
such records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.records import Draft
from ds_dagster.catalog.relation import Column, Descriptor, Relation, ValueFormat
from ds_dagster.catalog.schemas.descriptors import Sources, check_names, descriptor_of, file_content
from ds_dagster.catalog.schemas.formats import FORMATS, SchemaFormat, check_sink_columns, message_fields, value_part
from ds_dagster.catalog.schemas.protobuf import read_set, set_text
from ds_dagster.catalog.schemas.recorded import columns_of, recorded_columns
from ds_dagster.catalog.schemas.registry import RegistryDefinition
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind

VALUE_DESCRIPTOR, KEY_DESCRIPTOR = "value.descriptor.name", "key.descriptor.name"


@dataclass(frozen=True, slots=True)
class ToRecord:
    """A subject whose newest schema has a copy in the project, and the relation that needs the copy."""

    registry: RegistryDefinition
    subject: str
    format: SchemaFormat
    relation: str


def default_format(values: Mapping[str, PropertyValue], otherwise: ValueFormat) -> ValueFormat:
    """Default format of values: Protobuf if a Protobuf message of values is named, else ``otherwise``."""
    return "protobuf" if VALUE_DESCRIPTOR in values else otherwise


def descriptors(
    values: Mapping[str, PropertyValue], value_format: str, key_format: str, sources: Sources
) -> tuple[Descriptor | None, Descriptor | None]:
    """The Protobuf messages of value and key, None where none is named; a name is refused for other formats.

    Raises:
        UserError: DESCRIPTOR_WITHOUT_PROTOBUF; conditions of :func:`descriptor_of`.
    """
    pair = []
    for name, format_ in ((VALUE_DESCRIPTOR, value_format), (KEY_DESCRIPTOR, key_format)):
        written = values.get(name)
        if written is not None and format_ != "protobuf" and written.span is not None:
            params = {"name": name, "format": name.replace("descriptor.name", "format"), "is": format_}
            raise error("DESCRIPTOR_WITHOUT_PROTOBUF", span=written.span, **params)
        pair.append(descriptor_of(name, written, sources) if format_ == "protobuf" else None)
    return pair[0], pair[1]


def subject_of(
    values: Mapping[str, PropertyValue], store: StoreDefinition, entity: str, relation: str
) -> ToRecord | None:
    """The subject whose copy gives the columns of a relation without a column list. None without a registry, for
    formats without schemas, and where a descriptor source has the message."""
    format_ = FORMATS.get(_format_of(values))
    if store.registry is None or format_ is None or _says_message(values):
        return None
    return ToRecord(store.registry, f"{entity}-value", format_, relation)


def _format_of(values: Mapping[str, PropertyValue]) -> str:
    written = values.get("value.format")
    return str(written.value) if written is not None else default_format(values, "json")


def _says_message(values: Mapping[str, PropertyValue]) -> bool:
    return _format_of(values) == "protobuf" and VALUE_DESCRIPTOR in values


def unlisted_columns(
    values: Mapping[str, PropertyValue], wanted: ToRecord | None, span: Span, sources: Sources, root: Path
) -> tuple[Column, ...]:
    """The columns of a relation without a column list: of its message, else of the copy of its schema. Empty if its
    format has no schema to take them from.

    Raises:
        UserError: conditions of :func:`descriptor_of` and :func:`recorded_columns`.
    """
    message = descriptor_of(VALUE_DESCRIPTOR, values.get(VALUE_DESCRIPTOR), sources) if _says_message(values) else None
    if message is not None:
        schema = set_text(read_set(file_content(message.file)).file)
        return columns_of(message_fields(schema, message.message), message.message, span)
    if wanted is None:
        return ()
    return recorded_columns(root, wanted.registry, wanted.subject, wanted.format, wanted.relation, span)


def check_schemas(relation: Relation, kind: StoreKind, store: StoreDefinition, draft: Draft) -> None:
    """Refuse records of a schema format whose store cannot hold them, whose schema is unknown, or whose columns do not
    fit.

    Raises:
        UserError: AVRO_NEEDS_REGISTRY, PROTOBUF_NEEDS_SCHEMA, JSON_SCHEMA_NEEDS_REGISTRY; conditions of
            :func:`check_sink_columns`. NotYetError: FORMAT_STORE_NOT_YET.
    """
    parts = (
        ("value.format", relation.value_format, relation.value_descriptor),
        ("key.format", relation.key.format, relation.key_descriptor),
    )
    for name, format_, descriptor in parts:
        if format_ not in FORMATS:
            continue
        span = draft.span_of(name)
        params = {"relation": str(relation.name), "format": FORMATS[format_].title}
        if not kind.capabilities.avro:
            raise error("FORMAT_STORE_NOT_YET", span=span, type=store.kind, **params)
        if kind.capabilities.avro == "registry" and store.registry is None and descriptor is None:
            raise error(_NEEDS[format_], span=span, store=store.name, relation=str(relation.name))
    if not relation.declared:
        check_sink_columns(relation)
    elif relation.value_descriptor is not None:
        check_names(relation.value_descriptor, value_part(relation)[1], relation.span)


_NEEDS: Mapping[str, str] = {
    "avro": "AVRO_NEEDS_REGISTRY",
    "protobuf": "PROTOBUF_NEEDS_SCHEMA",
    "json_schema": "JSON_SCHEMA_NEEDS_REGISTRY",
}
