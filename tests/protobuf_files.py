"""Protobuf files for tests from lines as in a .proto file, and classes of their messages by Python's own protobuf."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.type import date_pb2, timeofday_pb2

COMMON = (
    descriptor_pb2, timestamp_pb2, wrappers_pb2, duration_pb2, struct_pb2, date_pb2, timeofday_pb2, meta_pb2,
    decimal_pb2,
)  # fmt: skip
NAMES = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes",
    "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
SCALARS = {name: number for number, name in enumerate(NAMES, 1)}
_FIELD = re.compile(r"(?:(?P<label>optional|repeated|required) )?(?P<type>map<.*>|\S+) (?P<name>\w+) = (?P<number>\d+)")
Messages = Mapping[str, Sequence[str]]
"""Message → lines: ``int32 a = 1``, ``optional string b = 2``, ``map<string, int32> c = 3``, ``oneof o: bool d = 4``"""


def proto_file(
    name: str,
    messages: Messages,
    *,
    package: str = "shop",
    enums: Mapping[str, Mapping[str, int]] | None = None,
    imports: Sequence[str] = (),
    syntax: str = "proto3",
) -> Any:
    """A file. Inner messages are named with a dot (``Order.Item``) behind their outer one."""
    made = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax=syntax, dependency=list(imports))
    for enum, values in (enums or {}).items():
        kind = made.enum_type.add(name=enum)
        for symbol, number in values.items():
            kind.value.add(name=symbol, number=number)
    by_path: dict[str, Any] = {}
    for path, lines in messages.items():
        outer, _, own = path.rpartition(".")
        message = by_path[outer].nested_type.add(name=own) if outer else made.message_type.add(name=own)
        by_path[path] = message
        for line in lines:
            _add(message, line, f".{package}.{path}", f".{package}", enums or {})
        _tell_optional(message)
    return made


def _add(message: Any, line: str, path: str, package: str, enums: Mapping[str, Any]) -> None:
    oneof, _, rest = line.rpartition(": ")
    found = _FIELD.fullmatch(rest)
    assert found, line
    label = {"repeated": 3, "required": 2}.get(found["label"] or "", 1)
    field = message.field.add(name=found["name"], number=int(found["number"]), label=label)
    if found["label"] == "optional":
        field.proto3_optional = True
    if oneof:
        names = [one.name for one in message.oneof_decl]
        if oneof.removeprefix("oneof ") not in names:
            message.oneof_decl.add(name=oneof.removeprefix("oneof "))
        field.oneof_index = [one.name for one in message.oneof_decl].index(oneof.removeprefix("oneof "))
    if found["type"].startswith("map<"):
        key, value = found["type"][4:-1].split(", ")
        entry = message.nested_type.add(name="".join(part.title() for part in found["name"].split("_")) + "Entry")
        entry.options.map_entry = True
        for number, (name, type_) in enumerate((("key", key), ("value", value)), 1):
            _type(entry.field.add(name=name, number=number, label=1), type_, package, enums)
        field.label, field.type, field.type_name = 3, 11, f"{path}.{entry.name}"
    else:
        _type(field, found["type"], package, enums)


def _type(field: Any, type_: str, package: str, enums: Mapping[str, Any]) -> None:
    if type_ in SCALARS:
        field.type = SCALARS[type_]
        return
    field.type = 14 if type_ in enums else 11
    is_common = type_.startswith(("google.", "confluent.", "base."))
    field.type_name = f".{type_}" if is_common else f"{package}.{type_}"


def _tell_optional(message: Any) -> None:
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def classes(*files: Any) -> dict[str, type[Any]]:
    """Full name → class of every message of files, imported ones first."""
    pool = descriptor_pool.DescriptorPool()
    for module in COMMON:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    found: dict[str, type[Any]] = {}
    for file in files:
        pool.Add(file)
        waiting = list(pool.FindFileByName(file.name).message_types_by_name.values())
        while waiting:
            one = waiting.pop()
            found[one.full_name] = message_factory.GetMessageClass(one)
            waiting += one.nested_types
    return found


def descriptor_set(*files: Any) -> bytes:
    """What ``protoc --descriptor_set_out`` writes."""
    return bytes(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())


def text_of(file: Any) -> str:
    """A file as Confluent's Python client registers it."""
    return base64.b64encode(file.SerializeToString()).decode()
