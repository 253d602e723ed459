"""Formats whose records need a schema, and each format's use of it. The only place that tells them apart.

A schema is text: Avro and JSON Schema as a registry gives them, Protobuf as base64 of a set of file descriptors.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ds_dagster.catalog.io_spec import SchemaPart, SchemaSpec, WriteSpec
from ds_dagster.catalog.relation import Column, Relation, SchemaFormatName
from ds_dagster.catalog.schemas import avro, json_schema, protobuf, protobuf_schema
from ds_dagster.catalog.schemas.evolution import RecordShape
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error

Named = tuple[str, tuple[Column, ...]]
"""Name and columns of a sink's records."""
WHOLE = "(all)"
"""Name of the only field of a schema without fields (a number, a text, anything)."""


@dataclass(frozen=True, slots=True)
class SchemaFormat:
    """One format.

    Attributes:
        name: as in ``value.format``.
        title: as people call it.
        type: as registries call it.
        suffix: of the project's copies of schemas.
        sink: (subject, name, columns, base or empty, span) → schema of a sink's records.
        fields: schema → (name, SQL type or None where no SQL type holds it, type as people read it) of each field.
        shape: (schema, declared columns) → its shape, with the rules by which the columns are read.
        same: (old, new) → whether two schemas mean the same.
        difference: (old, new) → how they differ, in words.
        copied: schema → text of the project's copy.
        recorded: text of the project's copy → schema.
        message: schema of a sink → full name of the message it describes; empty for formats without messages.
    """

    name: SchemaFormatName
    title: str
    type: str
    suffix: str
    sink: Callable[[str, str, Sequence[Column], str, Span | None], str]
    fields: Callable[[str], Sequence[tuple[str, DataType | None, str]]]
    shape: Callable[[str, Sequence[Column]], RecordShape]
    same: Callable[[str, str], bool]
    difference: Callable[[str, str], str]
    copied: Callable[[str], str]
    recorded: Callable[[str], str]
    message: Callable[[str], str] = lambda _schema: ""


# --- Avro -------------------------------------------------------------------------------------------------------------


def _avro_sink(subject: str, name: str, columns: Sequence[Column], base: str, span: Span | None) -> str:
    return json.dumps(avro.sink_schema(subject, name, columns, base, span))


def _avro_fields(schema: str) -> Sequence[tuple[str, DataType | None, str]]:
    parsed = avro.parse_avro(schema)
    if not isinstance(parsed, dict) or parsed["type"] != "record":
        return [(WHOLE, None, avro.shown(parsed))]
    read = [(field["name"], avro.sql_type(field["type"]), avro.shown(field["type"])) for field in parsed["fields"]]
    return [(name, typed[0] if typed else None, shown) for name, typed, shown in read]


def _avro_shape(schema: str, columns: Sequence[Column]) -> RecordShape:
    shape = _shape(_avro_fields(schema))
    return replace(shape, names=avro.aliases_of(schema), rules=avro.reading_rules(schema, columns))


def _shape(fields: Sequence[tuple[str, DataType | None, str]]) -> RecordShape:
    """The shape of a schema's fields, without rules: columns are read by their names alone."""
    named = [(name, type_, shown) for name, type_, shown in fields if name != WHOLE]
    types = {name: type_ for name, type_, _ in named if type_ is not None}
    return RecordShape({name: shown for name, _, shown in named}, types)


def _same_avro(old: str, new: str) -> bool:
    return bool(avro.parse_avro(old) == avro.parse_avro(new))


def _indented(text: str) -> str:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


# --- Protobuf ---------------------------------------------------------------------------------------------------------


def message_fields(schema: str, message: str = "") -> Sequence[tuple[str, DataType | None, str]]:
    """Fields of a message in a set of descriptors; without a name, of the first message of the last file."""
    files = protobuf.read_text(schema)
    types = protobuf.Types.of(files)
    name = message or protobuf_schema.message_of(schema)
    return [
        (field.name, protobuf.sql_type(field, types), protobuf.shown(field, types))
        for field in types.messages[f".{name}"].field
    ]


def _message_shape(schema: str, columns: Sequence[Column]) -> RecordShape:
    """The shape of the message in the last file that has most of the columns. (Each record names its own message, so
    this is a guess.)"""
    files = protobuf.read_text(schema)
    file, types, wanted = files.file[-1], protobuf.Types.of(files), {column.name: column for column in columns}
    message = max(file.message_type, key=lambda each: sum(field.name in wanted for field in each.field))
    fields = [(field, wanted[field.name].type) for field in message.field if field.name in wanted]
    return replace(
        _shape(message_fields(schema, protobuf.full_name(file, message))),
        names={field.name: frozenset({f"= {field.number}"}) for field in message.field},
        rules={field.name: protobuf.reading_rule(field, file, types, type_) for field, type_ in fields},
    )


def _descriptor_copy(schema: str) -> str:
    """Text of the project's copy: the messages for people, and the descriptors for the compiler."""
    types = protobuf.Types.of(protobuf.read_text(schema))
    fields = {
        name: {
            field.name: f"{protobuf.shown(field, types)} = {field.number}" for field in types.messages[f".{name}"].field
        }
        for name in types.names()
    }
    return json.dumps({"messages": fields, "descriptors": schema}, indent=2) + "\n"


def _copied_descriptor(text: str) -> str:
    try:
        descriptors = json.loads(text)["descriptors"]
    except (json.JSONDecodeError, KeyError, TypeError) as problem:
        raise error("PROTOBUF_SCHEMA_UNREADABLE", reason="its copy in the project is damaged") from problem
    return str(descriptors)


# --- JSON Schema ------------------------------------------------------------------------------------------------------


def _json_fields(schema: str) -> Sequence[tuple[str, DataType | None, str]]:
    parsed = json_schema.parse_schema(schema)
    properties = json_schema.properties_of(parsed)
    if not properties:
        return [(WHOLE, None, json_schema.shown(parsed))]
    return [(name, type_, json_schema.shown(part)) for name, (part, type_) in properties.items()]


def _json_shape(schema: str, _columns: Sequence[Column]) -> RecordShape:
    return _shape(_json_fields(schema))


FORMATS: Mapping[str, SchemaFormat] = MappingProxyType(
    {
        "avro": SchemaFormat(
            "avro",
            "Avro",
            "AVRO",
            ".avsc",
            _avro_sink,
            _avro_fields,
            _avro_shape,
            _same_avro,
            avro.difference,
            _indented,
            str,
        ),
        "protobuf": SchemaFormat(
            "protobuf",
            "Protobuf",
            "PROTOBUF",
            ".proto.json",
            protobuf_schema.sink_schema,
            message_fields,
            _message_shape,
            protobuf_schema.same,
            protobuf_schema.difference,
            _descriptor_copy,
            _copied_descriptor,
            protobuf_schema.message_of,
        ),
        "json_schema": SchemaFormat(
            "json_schema",
            "JSON Schema",
            "JSON",
            ".schema.json",
            json_schema.sink_schema,
            _json_fields,
            _json_shape,
            json_schema.same,
            json_schema.difference,
            _indented,
            str,
        ),
    }
)
"""By name."""


# --- relations --------------------------------------------------------------------------------------------------------


def key_part(sink: Relation) -> Named:
    """Name and columns of the records that are the keys of a sink."""
    by_name = {column.name: column for column in sink.columns}
    names = sink.key.columns or sink.primary_key
    return f"{sink.entity}_key", tuple(by_name[name] for name in names)


def value_part(sink: Relation) -> Named:
    """Name and columns of the records that are the values of a sink."""
    return sink.entity, tuple(column for column in sink.columns if column.name not in sink.key.exclude)


def parts_of(relation: Relation) -> Sequence[tuple[str, SchemaFormat, Named]]:
    """(value or key, format, name and columns) of the parts of a sink's records whose schemas a registry keeps."""
    parts = []
    if relation.value_format in FORMATS and relation.value_descriptor is None:
        parts.append(("value", FORMATS[relation.value_format], value_part(relation)))
    if relation.key.format in FORMATS and relation.key_descriptor is None:
        parts.append(("key", FORMATS[relation.key.format], key_part(relation)))
    return parts


@dataclass(frozen=True, slots=True)
class ReadPart:
    """Key or value of the records of a source whose schemas a registry keeps.

    Attributes:
        part: its subject and format.
        columns: of the relation, those that may be read from this part.
        own: names of the columns that are read from this part only.
    """

    part: SchemaPart
    columns: tuple[Column, ...]
    own: tuple[str, ...]

    def shape(self, schema: str) -> RecordShape:
        """The shape of a schema of the subject, with the rules by which the columns are read."""
        return FORMATS[self.part.format].shape(schema, self.columns)


def read_parts(relation: Relation, schemas: SchemaSpec | None) -> Iterator[ReadPart]:
    """Parts of the records of a source that need a registry; ``schemas`` are those of its read spec."""
    if schemas is None or schemas.registry is None:
        return
    in_key = {*relation.key.exclude, *(relation.primary_key if relation.is_changelog else ())}
    of_value, of_key = value_part(relation)[1], key_part(relation)[1]
    own = tuple(column.name for column in of_value if column.name not in in_key)
    sides = ((schemas.value, of_value, own), (schemas.key, of_key, relation.key.exclude))
    for part, columns, names in sides:
        if part is not None and not part.file:
            yield ReadPart(part, columns, tuple(names))


def check_sink_columns(sink: Relation) -> None:
    """Refuse columns of a sink whose names or types its formats cannot hold.

    Raises:
        UserError: conditions of :attr:`SchemaFormat.sink`, PROTOBUF_FIELD_MISSING, PROTOBUF_FIELD_TYPE,
            PROTOBUF_FIELD_REQUIRED.
    """
    from ds_dagster.catalog.schemas.descriptors import check_message

    for part, format_, named in parts_of(sink):
        format_.sink(f"{sink.entity}-{part}", *named, "", sink.span)
    check_message(sink.value_descriptor, value_part(sink)[1], sink.span)
    if sink.key_descriptor is not None:
        check_message(sink.key_descriptor, key_part(sink)[1], sink.span)


def offline_schemas(write: WriteSpec, sink: Relation) -> WriteSpec:
    """A write spec with unregistered schemas and no id: for display, not for writing.

    Raises:
        UserError: conditions of :attr:`SchemaFormat.sink`.
    """
    if write.schemas is None:
        return write
    return replace(write, schemas=with_parts(write.schemas, sink, _unregistered))


def with_parts(spec: SchemaSpec, sink: Relation, change: Callable[[SchemaPart, Named], SchemaPart]) -> SchemaSpec:
    """A copy of a spec whose parts are replaced by ``change(part, (name, columns))``."""
    value = change(spec.value, value_part(sink)) if spec.value is not None else None
    key = change(spec.key, key_part(sink)) if spec.key is not None else None
    return replace(spec, value=value, key=key)


def _unregistered(part: SchemaPart, named: Named) -> SchemaPart:
    if part.file:
        return described(part)
    format_ = FORMATS[part.format]
    schema = format_.sink(part.subject, *named, "", None)
    return replace(part, id=0, schema=schema, message=format_.message(schema))


def with_descriptors(spec: SchemaSpec | None) -> SchemaSpec | None:
    """A copy of a spec with the descriptors of the project's files.

    Raises:
        UserError: DESCRIPTOR_FILE_INVALID.
    """
    if spec is None:
        return None
    value, key = (described(part) if part is not None and part.file else part for part in (spec.value, spec.key))
    return replace(spec, value=value, key=key)


def described(part: SchemaPart) -> SchemaPart:
    """A copy of a part with the descriptors of its file.

    Raises:
        UserError: DESCRIPTOR_FILE_INVALID.
    """
    from ds_dagster.catalog.schemas.descriptors import file_content

    return replace(part, schema=base64.b64encode(file_content(part.file)).decode("ascii"))
