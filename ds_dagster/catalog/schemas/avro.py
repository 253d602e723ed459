"""Avro schemas ↔ columns: the schema of a sink's records, the parts kept of a base schema, how two schemas differ.

Rules (DeltaStream, CREATE STREAM, Avro base schema): a column whose base field has the same name and type keeps that
field as it is (doc, logical type, default, aliases); a field of another type keeps the doc; all else is made new. The
base is the newest version of the sink's own subject. Columns that may be NULL are unions with null, null by default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.relation import Column
from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructField, StructType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import UserError, error

Avro = Any
"""A parsed schema: text for a primitive type, a list for a union, a dictionary for the rest. Names are full, and a use
of a named type is the very dictionary that defines it."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAMED = ("record", "enum", "fixed")
MILLIS = 3
PLAIN: Mapping[str, Avro] = MappingProxyType(
    {
        "BOOLEAN": "boolean",
        "VARCHAR": "string",
        "TINYINT": "int",
        "SMALLINT": "int",
        "INTEGER": "int",
        "BIGINT": "long",
        "FLOAT": "float",
        "DOUBLE": "double",
        "VARBINARY": "bytes",
        "DATE": {"type": "int", "logicalType": "date"},
    }
)
"""Scalar name → its Avro type; times and decimals have digits."""
MOMENTS: Mapping[str, tuple[Avro, Avro]] = MappingProxyType(
    {
        "TIME": ({"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}),
        "TIMESTAMP": (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            {"type": "long", "logicalType": "local-timestamp-micros"},
        ),
        "TIMESTAMP_LTZ": (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
        ),
    }
)
"""Scalar name → its Avro type with up to three digits, and with more."""
PRIMITIVES: Mapping[str, Scalar] = MappingProxyType(
    {
        "boolean": Scalar("BOOLEAN"),
        "int": Scalar("INTEGER"),
        "long": Scalar("BIGINT"),
        "float": Scalar("FLOAT"),
        "double": Scalar("DOUBLE"),
        "string": Scalar("VARCHAR"),
        "bytes": Scalar("VARBINARY"),
        "enum": Scalar("VARCHAR"),
        "fixed": Scalar("VARBINARY"),
    }
)
LOGICAL: Mapping[tuple[str, str], Scalar] = MappingProxyType(
    {
        ("int", "date"): Scalar("DATE"),
        ("int", "time-millis"): Scalar("TIME", precision=3),
        ("long", "time-micros"): Scalar("TIME", precision=6),
        ("long", "timestamp-millis"): Scalar("TIMESTAMP_LTZ", precision=3),
        ("long", "timestamp-micros"): Scalar("TIMESTAMP_LTZ", precision=6),
        ("long", "local-timestamp-millis"): Scalar("TIMESTAMP", precision=3),
        ("long", "local-timestamp-micros"): Scalar("TIMESTAMP", precision=6),
        ("fixed", "uuid"): Scalar("VARCHAR"),
    }
)


# --- reading a schema -------------------------------------------------------------------------------------------------


def parse_avro(text: str) -> Avro:
    """A schema with all names looked up.

    Raises:
        UserError: AVRO_SCHEMA_UNREADABLE: it is not valid JSON, or uses a type that it does not define.
    """
    try:
        read = json.loads(text)
    except json.JSONDecodeError as problem:
        raise error("AVRO_SCHEMA_UNREADABLE", reason="it is not valid JSON") from problem
    return _parsed(read, "", {})


def _parsed(part: Any, namespace: str, types: dict[str, Avro]) -> Avro:
    if isinstance(part, list):
        return [_parsed(branch, namespace, types) for branch in part]
    if isinstance(part, str):
        return _named(part, namespace, types)
    if not isinstance(part, dict) or "type" not in part:
        raise error("AVRO_SCHEMA_UNREADABLE", reason="one of its parts has no type")
    if part["type"] in NAMED:
        return _definition(part, namespace, types)
    inner = {name: _parsed(part[name], namespace, types) for name in ("items", "values") if name in part}
    kind = part["type"]
    if not inner and (isinstance(kind, list | dict) or kind not in PRIMITIVES):
        return _parsed(kind, namespace, types)
    return {**part, **inner}


def _named(name: str, namespace: str, types: Mapping[str, Avro]) -> Avro:
    if name == "null" or name in PRIMITIVES:
        return name
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    definition = types.get(full, types.get(name))
    if definition is None:
        raise error("AVRO_SCHEMA_UNREADABLE", reason=f"it does not define {name}")
    return definition


def _definition(part: Mapping[str, Any], namespace: str, types: dict[str, Avro]) -> Avro:
    name = str(part.get("name", ""))
    inside = name.rpartition(".")[0] if "." in name else str(part.get("namespace", namespace))
    full = name if "." in name or not inside else f"{inside}.{name}"
    definition: dict[str, Any] = {**part, "name": full}
    definition.pop("namespace", None)
    types[full] = definition
    if part["type"] == "record":
        fields = part.get("fields", ())
        definition["fields"] = [{**field, "type": _parsed(field["type"], inside, types)} for field in fields]
    return definition


def sql_type(avro: Avro) -> tuple[DataType, bool] | None:
    """(type, whether it may be NULL) of a schema; None where no SQL type holds it (unions, recursive records)."""
    return _sql_type(avro, ())


def _sql_type(avro: Avro, outer: tuple[int, ...]) -> tuple[DataType, bool] | None:
    if isinstance(avro, list):
        parts = [part for part in avro if part != "null"]
        inner = _sql_type(parts[0], outer) if len(parts) == 1 else None
        return (inner[0], len(parts) < len(avro) or inner[1]) if inner else None
    if isinstance(avro, str):
        return (PRIMITIVES[avro], False) if avro in PRIMITIVES else None
    type_ = _complex_type(avro, outer)
    return None if type_ is None else (type_, False)


def _complex_type(avro: Mapping[str, Any], outer: tuple[int, ...]) -> DataType | None:
    kind, logical = avro["type"], avro.get("logicalType")
    if kind == "array":
        element = _sql_type(avro["items"], outer)
        return ArrayType(element[0]) if element else None
    if kind == "map":
        value = _sql_type(avro["values"], outer)
        return MapType(Scalar("VARCHAR"), value[0]) if value else None
    if kind == "record":
        return None if id(avro) in outer else _struct_type(avro, (*outer, id(avro)))
    if logical == "decimal" and avro.get("precision", 99) <= 38:
        return Scalar("DECIMAL", precision=avro["precision"], scale=avro.get("scale", 0))
    return LOGICAL.get((kind, str(logical)), PRIMITIVES[kind]) if logical != "decimal" else None


def _struct_type(avro: Mapping[str, Any], outer: tuple[int, ...]) -> StructType | None:
    fields = []
    for field in avro["fields"]:
        type_ = _sql_type(field["type"], outer)
        if type_ is None:
            return None
        fields.append(StructField(field["name"], type_[0]))
    return StructType(tuple(fields)) if fields else None


# --- the schema of a sink ---------------------------------------------------------------------------------------------


class _Names:
    """Names of types that a schema has defined so far while it is written; each may be defined once."""

    def __init__(self, subject: str, span: Span | None) -> None:
        self.subject = subject
        self.span = span
        self.defined: dict[str, Any] = {}

    def free(self, wanted: str) -> str:
        """The wanted name, with a number if it is taken."""
        name, number = wanted, 1
        while name in self.defined:
            number += 1
            name = f"{wanted}_{number}"
        return name


def sink_schema(
    subject: str, name: str, columns: Sequence[Column], base: str = "", span: Span | None = None
) -> Mapping[str, Any]:
    """The schema of records of these columns, as JSON values.

    Args:
        subject: for messages.
        name: of the record where there is no base; other characters than letters, digits and _ become _.
        columns: in order.
        base: schema whose fields are kept where they fit; empty: none.
        span: for messages.

    Raises:
        UserError: AVRO_NAME_INVALID, AVRO_TYPE_UNWRITABLE, AVRO_SCHEMA_UNREADABLE of the base.
    """
    record = _base(base)
    fields = {field["name"]: field for field in record["fields"]} if record else {}
    own = re.sub(r"[^A-Za-z0-9_]", "_", name)
    full = record["name"] if record else own if NAME.fullmatch(own) else f"_{own}"
    names = _Names(subject, span)
    names.defined[full] = record
    schema: dict[str, Any] = {"type": "record", "name": full}
    if record and "doc" in record:
        schema["doc"] = record["doc"]
    schema["fields"] = [_field(column, fields.get(column.name), full, names) for column in columns]
    return schema


def _base(text: str) -> Avro:
    if not text:
        return None
    schema = parse_avro(text)
    return schema if isinstance(schema, dict) and schema["type"] == "record" else None


def _field(column: Column, base: Mapping[str, Any] | None, outer: str, names: _Names) -> Mapping[str, Any]:
    if not NAME.fullmatch(column.name):
        raise error("AVRO_NAME_INVALID", span=column.span or names.span, subject=names.subject, name=column.name)
    earlier = sql_type(base["type"]) if base else None
    if (
        base is not None
        and earlier is not None
        and _alike(earlier[0], column.type)
        and (earlier[1] or not column.nullable)
    ):
        return {**base, "type": _emitted(base["type"], names)}
    avro = _avro_type(column, column.type, f"{outer}_{column.name}", names)
    field = {"name": column.name, "type": ["null", avro] if column.nullable else avro}
    field |= {"default": None} if column.nullable else {}
    return {**field, "doc": base["doc"]} if base is not None and "doc" in base else field


def _alike(first: DataType, second: DataType) -> bool:
    """Types with the same Avro form."""
    if isinstance(first, Scalar) and isinstance(second, Scalar):
        return bool(_form(first) == _form(second))
    if isinstance(first, ArrayType) and isinstance(second, ArrayType):
        return _alike(first.element, second.element)
    if isinstance(first, MapType) and isinstance(second, MapType):
        return _alike(first.key, second.key) and _alike(first.value, second.value)
    if isinstance(first, StructType) and isinstance(second, StructType):
        names = [field.name for field in first.fields] == [field.name for field in second.fields]
        pairs = zip(first.fields, second.fields, strict=False)
        return names and all(_alike(field.type, other.type) for field, other in pairs)
    return False


def _form(type_: Scalar) -> Avro:
    if type_.name == "DECIMAL":
        return ("DECIMAL", type_.precision, type_.scale)
    if type_.name in MOMENTS:
        return MOMENTS[type_.name][(type_.precision or MILLIS) > MILLIS]
    return PLAIN[type_.name]


def _emitted(avro: Avro, names: _Names) -> Avro:
    """A part of the base as JSON values: a named type is written out where it is first used."""
    if isinstance(avro, list):
        return [_emitted(part, names) for part in avro]
    if isinstance(avro, str):
        return avro
    if avro["type"] not in NAMED:
        return {key: _emitted(part, names) if key in ("items", "values") else part for key, part in avro.items()}
    if avro["name"] in names.defined:
        return avro["name"]
    names.defined[avro["name"]] = avro
    inside = [{**field, "type": _emitted(field["type"], names)} for field in avro.get("fields", ())]
    return {**avro, "fields": inside} if avro["type"] == "record" else avro


def _avro_type(column: Column, type_: DataType, path: str, names: _Names) -> Avro:
    if isinstance(type_, ArrayType):
        return {"type": "array", "items": ["null", _avro_type(column, type_.element, path, names)]}
    if isinstance(type_, MapType):
        if not (isinstance(type_.key, Scalar) and type_.key.name == "VARCHAR"):
            fix = "keys of Avro's maps are text: CAST them to VARCHAR"
            span = column.span or names.span
            raise error(
                "AVRO_TYPE_UNWRITABLE", span=span, subject=names.subject, column=column.name, type=type_, fix=fix
            )
        return {"type": "map", "values": ["null", _avro_type(column, type_.value, path, names)]}
    if isinstance(type_, StructType):
        return _nested_record(column, type_, path, names)
    if type_.name == "DECIMAL":
        digits = {"precision": type_.precision or 10, "scale": type_.scale or 0}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    return _form(type_)


def _nested_record(column: Column, type_: StructType, path: str, names: _Names) -> Avro:
    name = names.free(path)
    names.defined[name] = None
    inside = [Column(field.name, field.type, span=column.span) for field in type_.fields]
    return {"type": "record", "name": name, "fields": [_field(field, None, name, names) for field in inside]}


# --- rules of reading -------------------------------------------------------------------------------------------------


def aliases_of(text: str) -> Mapping[str, frozenset[str]]:
    """Field → its aliases; empty for schemas that are not records."""
    fields = _fields_of(parse_avro(text))
    return {name: frozenset(map(str, field.get("aliases", ()))) for name, field in fields.items()}


def reading_rules(text: str, columns: Sequence[Column]) -> Mapping[str, object]:
    """Column → aliases and default that a reader's schema gives it, inner fields included; columns with neither are
    left out. A default of null has no effect."""
    fields = _fields_of(parse_avro(text))
    rules = {c.name: _rule(fields[c.name], c.type) for c in columns if c.name in fields}
    return {name: rule for name, rule in rules.items() if rule}


def _rule(field: Mapping[str, Any], type_: DataType) -> Mapping[str, Any]:
    own = {name: field[name] for name in ("aliases", "default") if field.get(name) is not None}
    inside = _rules_inside(field["type"], type_)
    return {**own, "inside": inside} if inside else own


def _rules_inside(avro: Avro, type_: DataType) -> Mapping[str, Any]:
    """Rules of the fields of a STRUCT, wherever it is in the type."""
    parts = [part for part in avro if part != "null"] if isinstance(avro, list) else [avro]
    part = parts[0] if len(parts) == 1 and isinstance(parts[0], dict) else {}
    if isinstance(type_, ArrayType):
        return _rules_inside(part.get("items", "null"), type_.element)
    if isinstance(type_, MapType):
        return _rules_inside(part.get("values", "null"), type_.value)
    fields = {field["name"]: field for field in part.get("fields", ())}
    wanted = type_.fields if isinstance(type_, StructType) else ()
    rules = {inner.name: _rule(fields[inner.name], inner.type) for inner in wanted if inner.name in fields}
    return {name: rule for name, rule in rules.items() if rule}


# --- differences ------------------------------------------------------------------------------------------------------


def difference(old: str, new: str) -> str:
    """How the fields of two record schemas differ, in words."""
    try:
        first, second = (_fields_of(parse_avro(text)) for text in (old, new))
    except UserError:
        return "the two cannot be compared"
    changes = [f"{name} is new{_default(field)}" for name, field in second.items() if name not in first]
    changes += [f"{name} is gone{_default(field)}" for name, field in first.items() if name not in second]
    for name in first.keys() & second.keys():
        was, is_ = shown(first[name]["type"]), shown(second[name]["type"])
        if was != is_:
            changes.append(f"{name} was {was}, is {is_}")
    return "; ".join(changes) or "its fields are the same, its name or an older version is not"


def _fields_of(avro: Avro) -> Mapping[str, Any]:
    if not isinstance(avro, dict) or avro["type"] != "record":
        return {}
    return {field["name"]: field for field in avro["fields"]}


def _default(field: Mapping[str, Any]) -> str:
    return "" if "default" in field else " and has no default"


def shown(avro: Avro) -> str:
    """A type as people read it."""
    if isinstance(avro, list):
        return " or ".join(shown(part) for part in avro)
    if isinstance(avro, str):
        return avro
    type_ = sql_type(avro)
    logical = avro.get("logicalType")
    return str(logical) if logical else str(type_[0]) if type_ and avro["type"] != "fixed" else str(avro["type"])
