"""The Protobuf schema of a sink's records: made from its columns, with parts of a base kept; how two schemas differ.

Rules: records are written as the first message of the base. A field whose type holds its column stays as it is,
with its number, made ``optional`` where its column may be NULL. A column of another type gets a new field with an
unused number; the message of a STRUCT is changed inside. The numbers and names of removed fields are reserved
(Protobuf, "Updating a message type"). Scalars that may be NULL are ``optional``; NULL of other types is an absent
field, of lists and maps an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from ds_dagster.catalog.relation import Column
from ds_dagster.catalog.schemas import protobuf
from ds_dagster.catalog.schemas.protobuf import BYTES, MESSAGE, OPTIONAL, REPEATED, REQUIRED, Proto, Types
from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, UserError, error

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WRITTEN: Mapping[str, int | str] = MappingProxyType(
    {
        "BOOLEAN": protobuf.BOOL,
        "VARCHAR": protobuf.STRING,
        **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER"), protobuf.INT32),
        "BIGINT": protobuf.INT64,
        "FLOAT": protobuf.FLOAT,
        "DOUBLE": protobuf.DOUBLE,
        "VARBINARY": BYTES,
        "DATE": protobuf.DATE,
        "TIME": protobuf.TIME,
        "TIMESTAMP": protobuf.TIMESTAMP,
        "TIMESTAMP_LTZ": protobuf.TIMESTAMP,
        "DECIMAL": protobuf.DECIMAL,
    }
)
"""Scalar name → type of a new field, or the message that stands for it."""
IMPORTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        protobuf.DATE: ("google/type/date.proto",),
        protobuf.TIME: ("google/type/timeofday.proto",),
        protobuf.TIMESTAMP: ("google/protobuf/timestamp.proto",),
        protobuf.DECIMAL: ("confluent/type/decimal.proto", protobuf.META),
    }
)
MAP_KEYS = ("VARCHAR", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "BOOLEAN")
RESERVED_NUMBERS = range(19_000, 20_000)
"""Numbers that Protobuf keeps for itself."""


def sink_schema(subject: str, name: str, columns: Sequence[Column], base: str = "", span: Span | None = None) -> str:
    """The schema of records of these columns: a set of files as base64, the message first in its last file.

    Args:
        subject: for messages.
        name: of the message where there is no base; other characters than letters, digits and _ become _.
        columns: in order.
        base: schema whose fields are kept where they fit; empty: none.
        span: for messages.

    Raises:
        UserError: PROTOBUF_NAME_INVALID, PROTOBUF_TYPE_UNWRITABLE, PROTOBUF_SCHEMA_UNREADABLE of the base.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    files = protobuf.read_text(base) if base else None
    file = FileDescriptorProto(syntax="proto3")
    if files is not None:
        file.CopyFrom(files.file[-1])
    else:
        own = re.sub(r"[^A-Za-z0-9_]", "_", name)
        file.message_type.add(name=own if NAME.fullmatch(own) else f"_{own}")
    file.name = f"{subject}.proto"
    types = Types.of(files) if files is not None else Types({})
    writer = _Writer(subject, span, file, types)
    writer.write(file.message_type[0], f".{protobuf.full_name(file, file.message_type[0])}", columns)
    others = list(files.file[:-1]) if files is not None else []
    return protobuf.set_text([*others, file])


class _Writer:
    """One schema while it is written."""

    def __init__(self, subject: str, span: Span | None, file: Proto, types: Types) -> None:
        self.subject = subject
        self.span = span
        self.file = file
        self.types = types

    def write(self, message: Proto, path: str, columns: Sequence[Column]) -> None:
        """Change a message so that it has a field for each of these columns, in order, and no others."""
        self._check_names(columns)
        before = {item.name: item for item in _copies(message.field)}
        real = [item.name for item in message.oneof_decl]
        synthetic = {real[item.oneof_index] for item in before.values() if item.proto3_optional}
        free = _free_numbers(message)
        fields: list[Proto] = []
        for column in columns:
            written = self._kept(column, before.get(column.name), path)
            if written is None:
                base = before.pop(column.name, None)
                _reserve(message, [base] if base is not None else [], names=False)
                written = self._field(message, path, column, next(free))
            before.pop(column.name, None)
            fields.append(written)
        _reserve(message, before.values(), names=True)
        del message.field[:]
        message.field.extend(sorted(fields, key=lambda item: item.number))
        _settle_oneofs(message, [name for name in real if name not in synthetic], real)
        _drop_entries(message, path)

    def _check_names(self, columns: Sequence[Column]) -> None:
        """Refuse names that Protobuf does not allow, and two names that are the same in its JSON."""
        names: set[str] = set()
        for column in columns:
            plain = column.name.replace("_", "").lower()
            if not NAME.fullmatch(column.name) or plain in names:
                span = column.span or self.span
                raise error("PROTOBUF_NAME_INVALID", span=span, subject=self.subject, name=column.name)
            names.add(plain)

    def _kept(self, column: Column, field: Proto | None, path: str) -> Proto | None:
        """The base's field if it can hold the column, made optional and with its STRUCT's message changed if the column
        needs that."""
        if field is None:
            return None
        if self._evolves(column.type, field, path):
            return field
        if not protobuf.fits(column.type, field, self.types) or _other_digits(column.type, field):
            return None
        if column.nullable and field.label == REQUIRED:
            field.label = OPTIONAL
        if column.nullable and field.label == OPTIONAL and not protobuf.has_presence(field, self.file):
            field.proto3_optional = True
        return field

    def _evolves(self, type_: DataType, field: Proto, path: str) -> bool:
        """Whether a field's own nested message now holds a STRUCT, or the elements of an ARRAY of them."""
        is_list = isinstance(type_, ArrayType)
        struct = type_.element if isinstance(type_, ArrayType) else type_
        own = field.type == MESSAGE and field.type_name.rpartition(".")[0] == path
        if not own or not isinstance(struct, StructType) or is_list != (field.label == REPEATED):
            return False
        message = _nested(self.file, field.type_name)
        if message is None or message.options.map_entry:
            return False
        self.write(message, field.type_name, _columns_of(struct))
        return True

    def _field(self, message: Proto, path: str, column: Column, number: int) -> Proto:
        from google.protobuf.descriptor_pb2 import FieldDescriptorProto

        field = FieldDescriptorProto(name=column.name, number=number, label=OPTIONAL)
        type_ = column.type
        if isinstance(type_, MapType):
            field.label = REPEATED
            self._map(field, message, path, column, type_)
        elif isinstance(type_, ArrayType):
            field.label = REPEATED
            self._type(field, message, path, column, type_.element)
        else:
            self._type(field, message, path, column, type_)
            if column.nullable and field.type != MESSAGE and self.file.syntax == "proto3":
                field.proto3_optional = True
        return field

    def _type(self, field: Proto, message: Proto, path: str, column: Column, type_: DataType) -> None:
        if isinstance(type_, StructType):
            field.type = MESSAGE
            name = _free_name(message, _camel(field.name))
            nested = message.nested_type.add(name=name)
            field.type_name = f"{path}.{name}"
            self.write(nested, field.type_name, _columns_of(type_))
            return
        if not isinstance(type_, Scalar):
            raise self._refused(column, "a list or map inside of a list or map has no form there: put it into a STRUCT")
        written = WRITTEN[type_.name]
        if isinstance(written, int):
            field.type = written
            return
        field.type, field.type_name = MESSAGE, written
        self._import(IMPORTS[written])
        if type_.name == "DECIMAL":
            protobuf.tell_digits(field, type_)

    def _map(self, field_message: Proto, message: Proto, path: str, column: Column, type_: MapType) -> None:
        if not isinstance(type_.key, Scalar) or type_.key.name not in MAP_KEYS:
            raise self._refused(column, "keys of maps are text, whole numbers or BOOLEAN there: CAST them")
        name = f"{_camel(field_message.name)}Entry"
        _remove(message.nested_type, name)
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, inside) in enumerate((("key", type_.key), ("value", type_.value)), 1):
            field = entry.field.add(name=part, number=number, label=OPTIONAL)
            self._type(field, message, path, column, inside)
        field_message.type, field_message.type_name = MESSAGE, f"{path}.{name}"

    def _import(self, names: Iterable[str]) -> None:
        self.file.dependency.extend(name for name in names if name not in self.file.dependency)

    def _refused(self, column: Column, fix: str) -> DsError:
        span = column.span or self.span
        params = {"subject": self.subject, "column": column.name, "fix": fix}
        return error("PROTOBUF_TYPE_UNWRITABLE", span=span, type=column.type, **params)


def _columns_of(struct: StructType) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type) for field in struct.fields)


def _copies(fields: Iterable[Proto]) -> list[Proto]:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    copies = []
    for field in fields:
        copy = FieldDescriptorProto()
        copy.CopyFrom(field)
        copies.append(copy)
    return copies


def _other_digits(type_: DataType, field: Proto) -> bool:
    """Whether a field's options have other digits than the DECIMAL."""
    if not isinstance(type_, Scalar) or type_.name != "DECIMAL" or field.type_name != protobuf.DECIMAL:
        return False
    digits = protobuf.decimal_of(field)
    return digits is not None and digits != Scalar("DECIMAL", precision=type_.precision or 10, scale=type_.scale or 0)


def _free_numbers(message: Proto) -> Iterator[int]:
    taken = [field.number for field in message.field]
    taken += [span.end - 1 for span in (*message.reserved_range, *message.extension_range) if span.end < 2**29]
    return (number for number in range(max(taken, default=0) + 1, 2**29) if number not in RESERVED_NUMBERS)


def _reserve(message: Proto, gone: Iterable[Proto], *, names: bool) -> None:
    for field in gone:
        message.reserved_range.add(start=field.number, end=field.number + 1)
        if names:
            message.reserved_name.append(field.name)


def _settle_oneofs(message: Proto, written_names: Sequence[str], before: Sequence[str]) -> None:
    """Write the oneofs of a message again: those that still have members, then one for each optional scalar."""
    members: dict[str, list[Proto]] = {}
    single: list[Proto] = []
    for field in message.field:
        if field.proto3_optional:
            single.append(field)
        elif field.HasField("oneof_index"):
            members.setdefault(before[field.oneof_index], []).append(field)
    options = {oneof.name: oneof for oneof in message.oneof_decl}
    declared = [options[name] for name in written_names if name in members]
    names = [oneof.name for oneof in declared]
    del message.oneof_decl[:]
    message.oneof_decl.extend(declared)
    for index, name in enumerate(names):
        for field in members[name]:
            field.oneof_index = index
    taken = {*names, *(field.name for field in message.field)}
    for field in single:
        own = f"_{field.name}"
        while own in taken:
            own = f"X{own}"
        taken.add(own)
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=own)


def _drop_entries(message: Proto, path: str) -> None:
    """Remove the entry messages of maps that are gone."""
    used = {field.type_name for field in message.field}
    for nested in [nested.name for nested in message.nested_type if nested.options.map_entry]:
        if f"{path}.{nested}" not in used:
            _remove(message.nested_type, nested)


def _remove(messages: Proto, name: str) -> None:
    for index, message in enumerate(messages):
        if message.name == name:
            del messages[index]
            return


def _nested(file: Proto, name: str) -> Proto | None:
    """The message with a full name in a file, as an object that can be changed."""
    within = f".{file.package}." if file.package else "."
    among, nested = file.message_type, None
    for part in name.removeprefix(within).split("."):
        nested = next((message for message in among if message.name == part), None)
        if nested is None:
            return None
        among = nested.nested_type
    return nested


def _camel(name: str) -> str:
    """A field's name in the form in which protoc names the entry message of a map."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) or "_"


def _free_name(message: Proto, wanted: str) -> str:
    taken = {item.name for item in (*message.nested_type, *message.enum_type)}
    taken |= {f"{_camel(item.name)}Entry" for item in message.field}
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}{number}"
    return name


# --- comparing --------------------------------------------------------------------------------------------------------


def message_of(schema: str) -> str:
    """Full name of the message that a sink's schema describes."""
    file = protobuf.read_text(schema).file[-1]
    return protobuf.full_name(file, file.message_type[0])


def same(old: str, new: str) -> bool:
    """Whether two schemas mean the same; file names, and JSON names derived from field names, are not compared."""
    return _plain(old) == _plain(new)


def _plain(text: str) -> list[bytes]:
    files = protobuf.read_text(text)
    for file in files.file:
        file.name = ""
        file.ClearField("source_code_info")
        imports = sorted(file.dependency)
        del file.dependency[:]
        file.dependency.extend(imports)
        for message in Types.of(files).messages.values():
            for field in message.field:
                field.ClearField("json_name")
    return [file.SerializeToString(deterministic=True) for file in files.file]


def difference(old: str, new: str) -> str:
    """How the first messages of two schemas differ, in words."""
    try:
        first, second = (protobuf.read_text(text) for text in (old, new))
    except UserError:
        return "the two cannot be compared"
    sides = [
        ({field.name: field for field in files.file[-1].message_type[0].field}, Types.of(files))
        for files in (first, second)
    ]
    (was, was_types), (is_, is_types) = sides
    changes = [f"{name} is new" for name in is_ if name not in was]
    changes += [f"{name} is gone" for name in was if name not in is_]
    for name in (name for name in was if name in is_):
        before, after = protobuf.shown(was[name], was_types), protobuf.shown(is_[name], is_types)
        if before != after:
            changes.append(f"{name} was {before}, is {after}")
        elif was[name].number != is_[name].number:
            changes.append(f"{name} was number {was[name].number}, is {is_[name].number}")
    return "; ".join(changes) or "its fields are the same, its name, an inner message or an older version is not"
