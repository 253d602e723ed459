"""Protobuf descriptors → columns: messages by name, the SQL type of each field, which columns a field can hold.

A schema is a set of file descriptors (``FileDescriptorSet``), with the file of the messages last, after its imports; as
text it is base64. Types of a field (Protobuf, language guide; the common types as in Confluent's converters)::

    int32, sint32, sfixed32   INTEGER           google.protobuf.Timestamp    TIMESTAMP_LTZ(6)
    uint32, fixed32           BIGINT            google.type.Date             DATE
    int64, sint64, sfixed64   BIGINT            google.type.TimeOfDay        TIME(9)
    uint64, fixed64           DECIMAL(20,0)     confluent.type.Decimal       DECIMAL, its digits in an option
    float, double, bool       FLOAT, …          google.protobuf.…Value       the type inside
    string, enum, bytes       VARCHAR, …        other messages               STRUCT
    repeated, map             ARRAY, MAP
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructField, StructType
from ds_dagster.errors import error

Proto = Any
"""A message of ``descriptor.proto``: a file, a message or a field."""

(DOUBLE, FLOAT, INT64, UINT64, INT32, FIXED64, FIXED32, BOOL, STRING, GROUP, MESSAGE, BYTES, UINT32, ENUM) = range(
    1, 15
)
SFIXED32, SFIXED64, SINT32, SINT64 = range(15, 19)
OPTIONAL, REQUIRED, REPEATED = 1, 2, 3
_INTEGER, _BIGINT, _VARCHAR = Scalar("INTEGER"), Scalar("BIGINT"), Scalar("VARCHAR")
_UNSIGNED = Scalar("DECIMAL", precision=20, scale=0)
SCALARS: Mapping[int, tuple[str, Scalar]] = MappingProxyType(
    {
        DOUBLE: ("double", Scalar("DOUBLE")),
        FLOAT: ("float", Scalar("FLOAT")),
        INT64: ("int64", _BIGINT),
        UINT64: ("uint64", _UNSIGNED),
        INT32: ("int32", _INTEGER),
        FIXED64: ("fixed64", _UNSIGNED),
        FIXED32: ("fixed32", _BIGINT),
        BOOL: ("bool", Scalar("BOOLEAN")),
        STRING: ("string", _VARCHAR),
        BYTES: ("bytes", Scalar("VARBINARY")),
        UINT32: ("uint32", _BIGINT),
        ENUM: ("enum", _VARCHAR),
        SFIXED32: ("sfixed32", _INTEGER),
        SFIXED64: ("sfixed64", _BIGINT),
        SINT32: ("sint32", _INTEGER),
        SINT64: ("sint64", _BIGINT),
    }
)
"""Number of a field's type → its name and SQL type."""
TIMESTAMP = ".google.protobuf.Timestamp"
DATE = ".google.type.Date"
TIME = ".google.type.TimeOfDay"
DECIMAL = ".confluent.type.Decimal"
COMMON: Mapping[str, Scalar] = MappingProxyType(
    {
        TIMESTAMP: Scalar("TIMESTAMP_LTZ", precision=6),
        DATE: Scalar("DATE"),
        TIME: Scalar("TIME", precision=9),
        ".google.protobuf.DoubleValue": Scalar("DOUBLE"),
        ".google.protobuf.FloatValue": Scalar("FLOAT"),
        ".google.protobuf.Int64Value": _BIGINT,
        ".google.protobuf.UInt64Value": _UNSIGNED,
        ".google.protobuf.Int32Value": _INTEGER,
        ".google.protobuf.UInt32Value": _BIGINT,
        ".google.protobuf.BoolValue": Scalar("BOOLEAN"),
        ".google.protobuf.StringValue": _VARCHAR,
        ".google.protobuf.BytesValue": Scalar("VARBINARY"),
    }
)
"""Message that stands for one value → its SQL type."""
_SMALL, _WHOLE = ("TINYINT", "SMALLINT", "INTEGER"), ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
HOLDS: Mapping[int | str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys((INT32, SINT32, SFIXED32), _SMALL),
        **dict.fromkeys((UINT32, FIXED32, INT64, SINT64, SFIXED64), _WHOLE),
        **dict.fromkeys((UINT64, FIXED64), (*_WHOLE, "DECIMAL")),
        **dict.fromkeys((STRING, ENUM), ("VARCHAR",)),
        BOOL: ("BOOLEAN",),
        BYTES: ("VARBINARY",),
        FLOAT: ("FLOAT",),
        DOUBLE: ("FLOAT", "DOUBLE"),
        TIMESTAMP: ("TIMESTAMP", "TIMESTAMP_LTZ"),
        DATE: ("DATE",),
        TIME: ("TIME",),
        DECIMAL: ("DECIMAL",),
        ".google.protobuf.DoubleValue": ("FLOAT", "DOUBLE"),
        ".google.protobuf.FloatValue": ("FLOAT",),
        ".google.protobuf.Int64Value": _WHOLE,
        ".google.protobuf.UInt64Value": (*_WHOLE, "DECIMAL"),
        ".google.protobuf.Int32Value": _SMALL,
        ".google.protobuf.UInt32Value": _WHOLE,
        ".google.protobuf.BoolValue": ("BOOLEAN",),
        ".google.protobuf.StringValue": ("VARCHAR",),
        ".google.protobuf.BytesValue": ("VARBINARY",),
    }
)
"""Type of a field, or message that stands for one value → SQL types that can be written into it. Signs and sizes that
do not fit are refused row by row."""
META = "confluent/meta.proto"
_META_OPTION = 1088


# --- sets -------------------------------------------------------------------------------------------------------------


def read_set(content: bytes) -> Proto:
    """A set of file descriptors as ``protoc --descriptor_set_out`` writes it.

    Raises:
        UserError: PROTOBUF_SCHEMA_UNREADABLE.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    files = FileDescriptorSet()
    try:
        files.ParseFromString(content)
    except DecodeError as problem:
        raise error("PROTOBUF_SCHEMA_UNREADABLE", reason="it holds no descriptors") from problem
    if not any(file.message_type for file in files.file):
        raise error("PROTOBUF_SCHEMA_UNREADABLE", reason="it holds no message")
    return files


def read_text(text: str) -> Proto:
    """A set of file descriptors from base64.

    Raises:
        UserError: PROTOBUF_SCHEMA_UNREADABLE.
    """
    try:
        return read_set(base64.b64decode(text, validate=True))
    except binascii.Error as problem:
        raise error("PROTOBUF_SCHEMA_UNREADABLE", reason="it is not a valid descriptor") from problem


def set_text(files: Sequence[Proto]) -> str:
    """Base64 of a set of files; the file of the messages has to be last."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    return base64.b64encode(FileDescriptorSet(file=files).SerializeToString(deterministic=True)).decode("ascii")


def full_name(file: Proto, message: Proto) -> str:
    """Name of a message of a file, with its package."""
    return f"{file.package}.{message.name}" if file.package else str(message.name)


@dataclass(frozen=True, slots=True)
class Types:
    """The messages of a set by full name with a leading dot, as fields name them."""

    messages: Mapping[str, Proto]

    @staticmethod
    def of(files: Proto) -> Types:
        """All messages of a set of files."""
        return Types({name: message for file in files.file for name, message in _messages(file)})

    def names(self) -> tuple[str, ...]:
        """Full names as people write them: without the leading dot, without the entries of maps."""
        return tuple(name[1:] for name, message in self.messages.items() if not message.options.map_entry)

    def entry(self, field: Proto) -> Proto | None:
        """The message of a map's entries, None for a field that is not a map."""
        message = self.messages.get(field.type_name) if field.type == MESSAGE and field.label == REPEATED else None
        return message if message is not None and message.options.map_entry else None


def _messages(file: Proto) -> Iterator[tuple[str, Proto]]:
    waiting = [(f".{full_name(file, message)}", message) for message in file.message_type]
    while waiting:
        name, message = waiting.pop(0)
        yield name, message
        waiting += [(f"{name}.{inner.name}", inner) for inner in message.nested_type]


# --- columns of a message ---------------------------------------------------------------------------------------------


def sql_type(field: Proto, types: Types) -> DataType | None:
    """The SQL type of a field; None where no SQL type holds it (groups, recursive messages, messages without
    fields)."""
    return _sql_type(field, types, ())


def _sql_type(field: Proto, types: Types, outer: tuple[str, ...]) -> DataType | None:
    entry = types.entry(field)
    if entry is not None:
        key, value = (_one(part, types, outer) for part in entry.field)
        return MapType(key, value) if key is not None and value is not None else None
    inner = _one(field, types, outer)
    return ArrayType(inner) if inner is not None and field.label == REPEATED else inner


def _one(field: Proto, types: Types, outer: tuple[str, ...]) -> DataType | None:
    if field.type != MESSAGE:
        return SCALARS[field.type][1] if field.type in SCALARS else None
    if field.type_name == DECIMAL:
        return decimal_of(field)
    if field.type_name in COMMON:
        return COMMON[field.type_name]
    message = types.messages.get(field.type_name)
    if message is None or field.type_name in outer or not message.field:
        return None
    inside = [(member.name, _sql_type(member, types, (*outer, field.type_name))) for member in message.field]
    fields = [StructField(name, type_) for name, type_ in inside if type_ is not None]
    return StructType(tuple(fields)) if len(fields) == len(inside) else None


def has_presence(field: Proto, file: Proto) -> bool:
    """Whether a record distinguishes a missing value from a default."""
    if field.label == REPEATED:
        return False
    is_told = field.type in (MESSAGE, GROUP) or field.HasField("oneof_index") or field.label == REQUIRED
    return is_told or file.syntax in ("", "proto2")


def shown(field: Proto, types: Types) -> str:
    """A field's type as people write it."""
    entry = types.entry(field)
    if entry is not None:
        return f"map<{shown(entry.field[0], types)}, {shown(entry.field[1], types)}>"
    name = field.type_name.removeprefix(".") or SCALARS.get(field.type, ("group", None))[0]
    return f"repeated {name}" if field.label == REPEATED else str(name)


def reading_rule(field: Proto, file: Proto, types: Types, type_: DataType) -> object:
    """Rule by which a column is read: its field's number and the value for a missing one, inner fields included."""
    inside = _rules_inside(field, file, types, type_)
    return (field.number, field.label, has_presence(field, file), field.default_value, inside)


def _rules_inside(field: Proto, file: Proto, types: Types, type_: DataType) -> Mapping[str, object]:
    """Rules of the fields of a STRUCT, wherever it is in the type."""
    entry = types.entry(field)
    if isinstance(type_, MapType):
        return {} if entry is None else _rules_inside(entry.field[1], file, types, type_.value)
    if isinstance(type_, ArrayType):
        return _rules_inside(field, file, types, type_.element)
    message = types.messages.get(field.type_name) if isinstance(type_, StructType) else None
    if not isinstance(type_, StructType) or message is None:
        return {}
    fields = {inner.name: inner for inner in message.field}
    wanted = (inner for inner in type_.fields if inner.name in fields)
    return {inner.name: reading_rule(fields[inner.name], file, types, inner.type) for inner in wanted}


def fits(type_: DataType, field: Proto, types: Types) -> bool:
    """Whether values of a type can be written into a field."""
    entry = types.entry(field)
    if entry is not None:
        key, value = entry.field
        return isinstance(type_, MapType) and _fits(type_.key, key, types) and _fits(type_.value, value, types)
    if field.label == REPEATED:
        return isinstance(type_, ArrayType) and _fits(type_.element, field, types)
    return _fits(type_, field, types)


def _fits(type_: DataType, field: Proto, types: Types) -> bool:
    if isinstance(type_, Scalar):
        held = HOLDS.get(field.type_name if field.type == MESSAGE else field.type, ())
        return type_.name in held and (type_.name != "DECIMAL" or field.type == MESSAGE or not type_.scale)
    if not isinstance(type_, StructType) or field.type != MESSAGE or field.type_name not in types.messages:
        return False
    inside = {field.name: field for field in types.messages[field.type_name].field}
    return all(field.name in inside and fits(field.type, inside[field.name], types) for field in type_.fields)


# --- digits of a decimal ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _options_class() -> Any:
    """Class of a field's options with Confluent's ``field_meta``, of which only the parameters (text by name) are
    declared."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="field_meta.proto", package="ds", syntax="proto3")
    meta = file.message_type.add(name="Meta")
    entry = meta.nested_type.add(name="ParamsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, label=OPTIONAL, type=STRING)
    meta.field.add(name="params", number=2, label=REPEATED, type=MESSAGE, type_name=".ds.Meta.ParamsEntry")
    options = file.message_type.add(name="Options")
    options.field.add(name="meta", number=_META_OPTION, label=OPTIONAL, type=MESSAGE, type_name=".ds.Meta")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ds.Options"))


def decimal_of(field: Proto) -> Scalar | None:
    """DECIMAL with the digits that the options of its field name, as Confluent's converters write them."""
    params = _options_class().FromString(field.options.SerializeToString()).meta.params
    precision, scale = params.get("precision", ""), params.get("scale", "0")
    if not (precision.isdecimal() and scale.isdecimal() and int(scale) <= int(precision) <= 38):
        return None
    return Scalar("DECIMAL", precision=int(precision), scale=int(scale))


def tell_digits(field: Proto, type_: Scalar) -> None:
    """Write a DECIMAL's digits into the options of its field."""
    options = _options_class()()
    options.meta.params["precision"] = str(type_.precision or 10)
    options.meta.params["scale"] = str(type_.scale or 0)
    field.options.MergeFromString(options.SerializeToString(deterministic=True))
