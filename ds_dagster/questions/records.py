"""Records of topics and streams for display: key and value as text, and as typed columns of a relation."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.datatypes import VARCHAR, DataType, Scalar
from ds_dagster.functions.values.casts import cast
from ds_dagster.questions.json_records import Json, JsonMistakeError, compact, read_object, value_of_json

FLOATS: Mapping[str, str] = MappingProxyType({"FLOAT": ">f", "DOUBLE": ">d"})
WIDTHS: Mapping[str, int] = MappingProxyType({"TINYINT": 1, "SMALLINT": 2, "INTEGER": 4, "BIGINT": 8})
"""Primitive whole numbers are big-endian bytes of this width."""
MISSING = "null"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record as columns.

    Attributes:
        values: column → value, see ``arrow.value_of``; empty if there is a problem.
        deleted: the record deletes its key; ``values`` has only key columns.
        problem: why the record cannot be decoded; empty if it can.
    """

    values: Mapping[str, Any]
    deleted: bool = False
    problem: str = ""


def shown_part(part: bytes | None, type_: DataType | None = None) -> str:
    """A key or value as text: JSON without blanks if it is valid JSON, else plain text, else ``0x…``; None: ``null``.

    Args:
        part: raw bytes.
        type_: type of a primitive part; None for other parts.
    """
    if part is None:
        return MISSING
    if isinstance(type_, Scalar) and type_.name != "VARCHAR":
        number = _primitive(part, type_)
        return f"0x{part.hex()}" if number is None else json.dumps(number)
    try:
        text = part.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{part.hex()}"
    compacted = compact(text)
    return text if compacted is None else compacted


def primitive_types(relation: Relation | None) -> tuple[DataType | None, DataType | None]:
    """Types of a relation's primitive key and value; None for a part that is not primitive."""
    if relation is None:
        return None, None
    key = relation.key
    by_name = {column.name: column.type for column in relation.columns}
    names = key.columns or relation.primary_key
    key_type = key.type or (by_name.get(names[0]) if len(names) == 1 else None)
    in_value = [column.type for column in relation.columns if column.name not in key.exclude]
    return (
        key_type if key.format == "primitive" else None,
        in_value[0] if relation.value_format == "primitive" and in_value else None,
    )


def decode(relation: Relation, record: RawRecord, *, text_keys: bool = False) -> Decoded:
    """The columns of a record.

    Args:
        relation: relation of the record's entity.
        record: the raw record.
        text_keys: primitive keys are text, not bytes (Kinesis).
    """
    try:
        if record.value is None:
            if not relation.is_changelog:
                return Decoded({}, problem="it has no value")
            return Decoded(_key_values(relation, record.key, text_keys), deleted=True)
        values = _value_columns(relation, record.value)
        if relation.key.exclude:
            values |= _key_values(relation, record.key, text_keys)
    except (ValueError, ArithmeticError) as problem:
        return Decoded({}, problem=str(problem))
    return Decoded(values)


def _value_columns(relation: Relation, value: bytes) -> dict[str, Any]:
    inside = [column for column in relation.columns if column.name not in relation.key.exclude]
    if relation.value_format == "primitive":
        return {inside[0].name: _part(value, inside[0].type)}
    return _columns(read_object(value), inside)


def _key_values(relation: Relation, key: bytes | None, text_keys: bool) -> dict[str, Any]:
    wanted = {*relation.key.exclude, *(relation.primary_key if relation.is_changelog else ())}
    columns = [column for column in relation.columns if column.name in wanted]
    if key is None:
        raise ValueError("it has no key")
    if relation.key.format == "primitive" and not text_keys and len(columns) == 1:
        return {columns[0].name: _part(key, columns[0].type)}
    text = key.decode("utf-8")
    if len(columns) == 1 and not text.lstrip().startswith("{"):
        of_json = None if relation.key.format == "primitive" else _of_json_text(text, columns[0])
        return {columns[0].name: cast(text, VARCHAR, columns[0].type) if of_json is None else of_json}
    return _columns(read_object(key), columns)


def _of_json_text(text: str, only: Column) -> Any:
    """The column's value from a JSON string, None for other texts."""
    if not text.lstrip().startswith('"'):
        return None
    try:
        return _columns(read_object(f"{{{json.dumps(only.name)}:{text}}}".encode()), [only])[only.name]
    except ValueError:
        return None


def _part(part: bytes, type_: DataType) -> Any:
    value = _primitive(part, type_) if isinstance(type_, Scalar) else None
    if value is None:
        raise ValueError(f"it is not a valid {type_}")
    return value


def _primitive(part: bytes, type_: Scalar) -> Any:
    """The value of a whole record part; None if it is not a valid value of the type."""
    if type_.name == "VARCHAR":
        return part.decode("utf-8", "replace")
    if type_.name == "VARBINARY":
        return part
    if type_.name == "BOOLEAN":
        return part != b"\0" if len(part) == 1 else None
    if type_.name in FLOATS:
        shape = FLOATS[type_.name]
        return struct.unpack(shape, part)[0] if len(part) == struct.calcsize(shape) else None
    width = WIDTHS.get(type_.name)
    return int.from_bytes(part, "big", signed=True) if len(part) == width else None


def _columns(record: Json, columns: Iterable[Column]) -> dict[str, Any]:
    """The columns of a JSON object.

    Raises:
        ValueError: a value does not fit its type, or is NULL in a NOT NULL column.
    """
    values = {}
    for column in columns:
        try:
            values[column.name] = value_of_json(record.members.get(column.name), column.type)
        except JsonMistakeError as problem:
            raise ValueError(f"the JSON has another type for: {column.name} {column.type}") from problem
        if values[column.name] is None and not column.nullable:
            raise ValueError(f"column {column.name} is NULL")
    return values
