"""Values as test cases write them: the JSON of a record, and the same form for values of tables and views."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timezone
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.errors import error
from ds_dagster.functions.values.float_texts import double_text

_WIDTHS = {"TINYINT": 1, "SMALLINT": 2, "INTEGER": 4, "BIGINT": 8}
_SHAPES = {"FLOAT": ">f", "DOUBLE": ">d"}
_DIGITS = 12
"""Significant digits of a fraction that are compared."""


def to_bytes(part: Any) -> bytes | None:
    """A key or value as bytes of a record: bytes as they are, text in UTF-8, anything else as JSON; None remains
    None."""
    if part is None or isinstance(part, bytes):
        return part
    return (part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)).encode()


def from_bytes(part: bytes | None) -> Any:
    """A key or value for people: a JSON object or array if it is one, else text, else bytes."""
    if part is None:
        return None
    try:
        text = part.decode()
    except UnicodeDecodeError:
        return part
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def normal(value: Any) -> Any:
    """One form for equal values: numbers without trailing fraction, timestamps as text, bytes as base64."""
    for types, form in _FORMS.items():
        if isinstance(value, types):
            return form(value)
    return value


def _mapping(value: Any) -> Any:
    return {str(name): normal(inner) for name, inner in value.items()}


def _fraction(value: float) -> int | float | str:
    """A number that JSON lacks is the text that records have for it: NaN, Infinity."""
    if not math.isfinite(value):
        return double_text(value)
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 10**_DIGITS else rounded


def _moment(value: datetime) -> str:
    """A time as text, with three or six digits of a second; a time with an offset in UTC, with ``Z``."""
    value = value.astimezone(timezone.utc) if value.tzinfo else value
    text = value.strftime("%Y-%m-%d %H:%M:%S.") + (
        f"{value.microsecond:06d}" if value.microsecond % 1000 else f"{value.microsecond // 1000:03d}"
    )
    return text + ("Z" if value.tzinfo else "")


_FORMS: Mapping[type | tuple[type, ...], Callable[[Any], Any]] = MappingProxyType(
    {
        bool: lambda value: value,
        float: _fraction,
        Decimal: lambda value: int(value) if value == value.to_integral_value() else _fraction(float(value)),
        datetime: _moment,
        (date, time): lambda value: value.isoformat(),
        bytes: lambda value: base64.b64encode(value).decode(),
        Mapping: _mapping,
        (list, tuple): lambda value: [normal(inner) for inner in value],
    }
)
"""Type → form of its values; the first matching type counts."""


def exact(value: Any) -> Any:
    """One form of a DECIMAL: a number if a JSON number holds all of its digits, else text."""
    if value is None or isinstance(value, bool):
        return value
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return value
    if number == number.to_integral_value():
        return int(number)
    return float(number) if Decimal(repr(float(number))) == number else format(number, "f").rstrip("0")


def moment(value: Any) -> Any:
    """One form of a TIMESTAMP, however it is written; a text that is not a time remains as it is."""
    if not isinstance(value, str):
        return normal(value)
    try:
        return _moment(datetime.fromisoformat(value.replace("Z", "+00:00")))
    except ValueError:
        return value


def normal_row(row: Mapping[str, Any], types: Mapping[str, DataType]) -> dict[str, Any]:
    """One form for equal rows: DECIMAL to the last digit, other fractions to twelve digits.

    Args:
        row: values by column.
        types: of the columns, as far as they are known.
    """
    return {name: _of_type(value, types.get(name), _TYPED) for name, value in row.items()}


def compared_row(row: Mapping[str, Any], types: Mapping[str, DataType]) -> dict[str, Any]:
    """As :func:`normal_row`, with times by their value, for rows that are compared."""
    return {name: _of_type(value, types.get(name), _COMPARED) for name, value in row.items()}


def _of_type(value: Any, type_: DataType | None, forms: Mapping[str, Callable[[Any], Any]]) -> Any:
    """One form of a value, applied to its parts by their types."""
    if isinstance(type_, ArrayType) and isinstance(value, list | tuple):
        return [_of_type(inner, type_.element, forms) for inner in value]
    if isinstance(type_, MapType) and isinstance(value, Mapping):
        return {str(key): _of_type(inner, type_.value, forms) for key, inner in value.items()}
    if isinstance(type_, StructType) and isinstance(value, Mapping):
        fields = {field.name: field.type for field in type_.fields}
        return {str(name): _of_type(inner, fields.get(str(name)), forms) for name, inner in value.items()}
    return forms.get(type_.name if isinstance(type_, Scalar) else "", normal)(value)


def _approximate(value: Any) -> Any:
    """One form of a FLOAT or DOUBLE, which is read from JSON as a Decimal."""
    return normal(float(value) if isinstance(value, Decimal) else value)


_TYPED: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"DECIMAL": exact, "FLOAT": _approximate, "DOUBLE": _approximate}
)
_COMPARED: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {**_TYPED, "TIMESTAMP": moment, "TIMESTAMP_LTZ": moment}
)
"""Scalar type → its form: in rows (``_TYPED``), and in rows that are compared (``_COMPARED``)."""


def table_row(row: Mapping[str, Any], columns: Mapping[str, DataType]) -> dict[str, Any]:
    """A row of a table or view in one form; maps are given as pairs."""
    plain = {
        name: dict(value) if isinstance(columns.get(name), MapType) and value is not None else value
        for name, value in row.items()
    }
    return normal_row(plain, columns)


# --- records ----------------------------------------------------------------------------------------------------------


def record_row(relation: Relation, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """The row of a record as its relation reads it; None for a delete.

    Raises:
        UserError: CASE_RECORD_UNREADABLE.
    """
    if value is None or (not value and relation.value_format != "primitive"):
        return None
    outside = set(relation.key.exclude)
    row: dict[str, Any] = {}
    if relation.value_format == "primitive":
        (column,) = [column for column in relation.columns if column.name not in outside]
        row[column.name] = normal(_primitive(value, column, relation))
    else:
        types = {column.name: column.type for column in relation.columns}
        row |= normal_row(_json_object(value, relation, "JSON object"), types)
    if outside:
        row |= {name: value for name, value in record_key(relation, key).items() if name in outside}
    return row


def record_key(relation: Relation, key: bytes | None) -> dict[str, Any]:
    """Columns from a record's key: the members of a JSON object, or the one column of a plain key; empty without a key.

    Raises:
        UserError: CASE_RECORD_UNREADABLE.
    """
    if key is None:
        return {}
    names = relation.key.columns or relation.primary_key or relation.key.exclude
    columns = [column for name in names for column in relation.columns if column.name == name]
    if relation.key.format == "primitive" and len(columns) == 1:
        return {columns[0].name: normal(_primitive(key, columns[0], relation))}
    if not key.lstrip().startswith(b"{") and len(columns) == 1:
        return {columns[0].name: key.decode()}
    return dict(normal(_json_object(key, relation, "JSON key")))


def _json_object(part: bytes, relation: Relation, what: str) -> dict[str, Any]:
    try:
        value = json.loads(part, parse_float=Decimal)
    except ValueError as problem:
        raise error("CASE_RECORD_UNREADABLE", relation=str(relation.name), what=what) from problem
    if not isinstance(value, dict):
        raise error("CASE_RECORD_UNREADABLE", relation=str(relation.name), what=what)
    return value


def _primitive(part: bytes, column: Column, relation: Relation) -> Any:
    type_ = column.type
    name = type_.name if isinstance(type_, Scalar) else ""
    if name == "VARCHAR":
        return part.decode()
    if name == "BOOLEAN":
        return part != b"\x00"
    if name in _SHAPES and len(part) == struct.calcsize(_SHAPES[name]):
        return struct.unpack(_SHAPES[name], part)[0]
    if name in _WIDTHS:
        if len(part) != _WIDTHS[name]:
            raise error("CASE_RECORD_UNREADABLE", relation=str(relation.name), what=f"{name} in big-endian bytes")
        return int.from_bytes(part, "big", signed=True)
    return part
