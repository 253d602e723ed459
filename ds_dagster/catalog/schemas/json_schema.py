"""JSON Schema ↔ columns: the schema of a sink's records, the columns of a registered one, how two schemas differ.

Draft 7. Types: ``integer`` BIGINT, ``number`` DOUBLE, ``boolean``, ``string`` VARCHAR or by its format DATE, TIME,
TIMESTAMP_LTZ, ``array`` ARRAY, ``object`` with properties STRUCT, with ``additionalProperties`` alone MAP with keys of
text. A type or ``null`` (a list of types, ``oneOf``, ``anyOf``) is that type. References inside of the schema are
followed. A schema that a sink registers is closed (``additionalProperties`` false): registries accept a new property as
a compatible change only in closed schemas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.relation import Column
from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructField, StructType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import UserError, error

Schema = Any
"""A parsed schema: a dictionary, or True or False."""

DRAFT = "http://json-schema.org/draft-07/schema#"
READ: Mapping[tuple[str, str], Scalar] = MappingProxyType(
    {
        ("integer", ""): Scalar("BIGINT"),
        ("number", ""): Scalar("DOUBLE"),
        ("boolean", ""): Scalar("BOOLEAN"),
        ("string", ""): Scalar("VARCHAR"),
        ("string", "date"): Scalar("DATE"),
        ("string", "time"): Scalar("TIME", precision=6),
        ("string", "date-time"): Scalar("TIMESTAMP_LTZ", precision=6),
    }
)
"""(type, format) → SQL type; other formats count as none."""
WRITTEN: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "BOOLEAN": {"type": "boolean"},
        "VARCHAR": {"type": "string"},
        "TINYINT": {"type": "integer"},
        "SMALLINT": {"type": "integer"},
        "INTEGER": {"type": "integer"},
        "BIGINT": {"type": "integer"},
        "FLOAT": {"type": "number"},
        "DOUBLE": {"type": "number"},
        "DECIMAL": {"type": "number"},
        "VARBINARY": {"type": "string", "contentEncoding": "base64"},
        "DATE": {"type": "string", "format": "date"},
        "TIME": {"type": "string"},
        "TIMESTAMP": {"type": "string"},
        "TIMESTAMP_LTZ": {"type": "string", "format": "date-time"},
    }
)
"""Scalar name → schema of its values. TIME and TIMESTAMP have no format: they have no zone, which JSON's formats
require."""
_DEPTH = 32


def parse_schema(text: str) -> Schema:
    """A schema from its text.

    Raises:
        UserError: JSON_SCHEMA_UNREADABLE: it is not a valid JSON object.
    """
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as problem:
        raise error("JSON_SCHEMA_UNREADABLE", reason="it is not valid JSON") from problem
    if not isinstance(schema, dict):
        raise error("JSON_SCHEMA_UNREADABLE", reason="it is not an object")
    return schema


def properties_of(schema: Schema) -> Mapping[str, tuple[Schema, DataType | None]]:
    """Property → (its schema, its SQL type or None where no SQL type holds it); empty for schemas of other values."""
    target = _followed(schema, schema)
    parts = target.get("properties", {}) if isinstance(target, dict) else {}
    return {name: (part, sql_type(part, schema)) for name, part in parts.items()} if isinstance(parts, dict) else {}


def sql_type(part: Schema, root: Schema) -> DataType | None:
    """The SQL type of a part of a schema; None where no SQL type holds it."""
    return _sql_type(part, root, 0)


def _sql_type(part: Schema, root: Schema, depth: int) -> DataType | None:
    target = _plain(_followed(part, root), root)
    if target is None or depth > _DEPTH:
        return None
    kind = target["type"]
    if kind == "array":
        element = _sql_type(target.get("items"), root, depth + 1)
        return ArrayType(element) if element is not None else None
    if kind == "object":
        return _object_type(target, root, depth)
    format_ = str(target.get("format", ""))
    return READ.get((kind, format_), READ.get((kind, "")))


def _object_type(part: Mapping[str, Any], root: Schema, depth: int) -> DataType | None:
    parts = part.get("properties")
    if not parts:
        value = _sql_type(part.get("additionalProperties"), root, depth + 1)
        return MapType(Scalar("VARCHAR"), value) if value is not None else None
    fields = [(name, _sql_type(property_, root, depth + 1)) for name, property_ in parts.items()]
    typed = tuple(StructField(name, type_) for name, type_ in fields if type_ is not None)
    return StructType(typed) if len(typed) == len(fields) else None


def _followed(part: Schema, root: Schema) -> Schema:
    """The part that a chain of references inside the schema leads to; None for a reference to another schema."""
    for _ in range(_DEPTH):
        if not isinstance(part, dict) or "$ref" not in part:
            return part
        written = str(part["$ref"])
        if not written.startswith("#"):
            return None
        part = root
        for step in written.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            part = part.get(name) if isinstance(part, dict) else None
    return None


def _plain(part: Schema, root: Schema) -> Mapping[str, Any] | None:
    """The part with one type, null left out."""
    if not isinstance(part, dict):
        return None
    for word in ("oneOf", "anyOf"):
        if word in part:
            others = [branch for branch in part[word] if branch != {"type": "null"}]
            return _plain(_followed(others[0], root), root) if len(others) == 1 else None
    kinds = part.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        return {**part, "type": others[0]} if len(others) == 1 else None
    if kinds is None and "properties" in part:
        return {**part, "type": "object"}
    return part if isinstance(kinds, str) and kinds != "null" else None


# --- the schema of a sink ---------------------------------------------------------------------------------------------


def sink_schema(subject: str, name: str, columns: Sequence[Column], base: str = "", span: Span | None = None) -> str:
    """The schema of records of these columns.

    Args:
        subject: for messages.
        name: title where there is no base.
        columns: in order.
        base: schema whose title is kept, and its properties where type and NULL fit; empty: none.
        span: for messages.

    Raises:
        UserError: JSON_SCHEMA_TYPE_UNWRITABLE, JSON_SCHEMA_UNREADABLE of the base.
    """
    earlier = parse_schema(base) if base else {}
    properties = properties_of(earlier) if earlier else {}
    about = {word: earlier[word] for word in ("$id", "title", "description", "definitions", "$defs") if word in earlier}
    schema: dict[str, Any] = {"$schema": earlier.get("$schema", DRAFT), "title": name, **about, "type": "object"}
    schema["properties"] = {
        column.name: _property(column, properties.get(column.name), earlier, subject, span) for column in columns
    }
    schema["required"] = [column.name for column in columns if not column.nullable]
    schema["additionalProperties"] = False
    return json.dumps(schema, ensure_ascii=False)


def _property(
    column: Column, base: tuple[Schema, DataType | None] | None, root: Schema, subject: str, span: Span | None
) -> Schema:
    written = _written(column, column.type, subject, span)
    if base is not None and base[1] is not None and _nullable(base[0], root) >= column.nullable:
        own = sql_type(written, {})
        if own == base[1]:
            return base[0]
    property_ = _or_null(written) if column.nullable else dict(written)
    if base is not None and isinstance(base[0], dict) and "description" in base[0]:
        property_["description"] = base[0]["description"]
    return property_


def _nullable(part: Schema, root: Schema) -> bool:
    target = _followed(part, root)
    if not isinstance(target, dict):
        return False
    kinds = target.get("type")
    listed = isinstance(kinds, list) and "null" in kinds
    return listed or any({"type": "null"} in target.get(word, ()) for word in ("oneOf", "anyOf"))


def _or_null(written: Mapping[str, Any]) -> dict[str, Any]:
    return {**written, "type": [written["type"], "null"]}


def _written(column: Column, type_: DataType, subject: str, span: Span | None) -> Mapping[str, Any]:
    if isinstance(type_, Scalar):
        return WRITTEN[type_.name]
    if isinstance(type_, ArrayType):
        return {"type": "array", "items": _or_null(_written(column, type_.element, subject, span))}
    if isinstance(type_, MapType):
        if not (isinstance(type_.key, Scalar) and type_.key.name == "VARCHAR"):
            fix = "names in JSON are text: CAST the keys to VARCHAR"
            place = column.span or span
            params = {"subject": subject, "column": column.name, "fix": fix}
            raise error("JSON_SCHEMA_TYPE_UNWRITABLE", span=place, type=type_, **params)
        return {"type": "object", "additionalProperties": _or_null(_written(column, type_.value, subject, span))}
    inside = {field.name: _or_null(_written(column, field.type, subject, span)) for field in type_.fields}
    return {"type": "object", "properties": inside, "additionalProperties": False}


# --- comparing --------------------------------------------------------------------------------------------------------


def same(old: str, new: str) -> bool:
    """Whether two schemas mean the same."""
    return bool(parse_schema(old) == parse_schema(new))


def difference(old: str, new: str) -> str:
    """How the properties of two schemas differ, in words."""
    try:
        was, is_ = (parse_schema(text) for text in (old, new))
    except UserError:
        return "the two cannot be compared"
    before, after = properties_of(was), properties_of(is_)
    changes = [f"{name} is new{_required(name, is_)}" for name in after if name not in before]
    changes += [f"{name} is gone" for name in before if name not in after]
    for name in (name for name in before if name in after):
        first, second = _shown(before[name], was), _shown(after[name], is_)
        if first != second:
            changes.append(f"{name} was {first}, is {second}")
        elif _required(name, was) != _required(name, is_):
            changes.append(f"{name} is{_required(name, is_) or ' no longer required'}".replace(" and", ""))
    return "; ".join(changes) or "its properties are the same, something else or an older version is not"


def _required(name: str, schema: Schema) -> str:
    return " and required" if name in schema.get("required", ()) else ""


def _shown(part: tuple[Schema, DataType | None], root: Schema) -> str:
    type_ = str(part[1]) if part[1] is not None else shown(part[0])
    return f"{type_} or null" if _nullable(part[0], root) else type_


def shown(part: Schema) -> str:
    """A part as people read it."""
    if not isinstance(part, dict):
        return "anything"
    if "$ref" in part:
        return f"a reference to {part['$ref']}"
    kinds = part.get("type", "several types" if "oneOf" in part or "anyOf" in part else "anything")
    return " or ".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)
