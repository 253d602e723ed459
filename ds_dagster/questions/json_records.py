"""Parses JSON of records like the reader for Spark (``jvm/src/dsdagster/json``): strict JSON. The values that each type
accepts are in one table for both, ``tests/fixtures/json_input.tsv``."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from types import MappingProxyType
from typing import Any

from ds_dagster.datatypes import INTEGERS, VARCHAR, ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.functions.values.casts import INTEGER_BITS, cast

MOST_NESTED = 1000
NOT_VALID = "the value is not valid JSON"
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<string>\"(?:[^\"\\\x00-\x1f]|\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4}))*\")"
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(?P<word>true|false|null)|(?P<mark>[\[\]{}:,]))"
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_MOST_DIGITS = 400


class JsonMistakeError(ValueError):
    """A text that is not JSON, or a value that its type does not accept."""


@dataclass(frozen=True, slots=True)
class Json:
    """One parsed value with its text.

    Attributes:
        kind: ``string``, ``number``, ``true``, ``false``, ``null``, ``{`` or ``[``.
        text: text of the value.
        members: members of an object, by name; of equal names the last counts.
        items: items of an array.
    """

    kind: str
    text: str
    members: Mapping[str, Json] = field(default_factory=dict)
    items: tuple[Json, ...] = ()


def read_object(value: bytes) -> Json:
    """The JSON object in a record's key or value.

    Raises:
        JsonMistakeError: it is not a JSON object.
    """
    try:
        text = value.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise JsonMistakeError(NOT_VALID) from problem
    if not text.strip(" \t\r\n"):
        raise JsonMistakeError("the value is empty")
    root, end = _Reader(text).read()
    if root.kind != "{":
        raise JsonMistakeError("the value is not a JSON object")
    if text[end:].strip(" \t\r\n"):
        raise JsonMistakeError("more text follows the JSON object")
    return root


def compact(text: str) -> str | None:
    """A JSON text without blanks between its tokens, None for any other text; numbers are not changed."""
    try:
        reader = _Reader(text)
        _, end = reader.read()
    except JsonMistakeError:
        return None
    if text[end:].strip(" \t\r\n"):
        return None
    return "".join(reader.tokens)


class _Reader:
    """Parses one text; ``tokens``: the tokens read so far, without blanks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []

    def read(self) -> tuple[Json, int]:
        """The value at the beginning of the text, and the index of its end."""
        try:
            return self.value(0, 0)
        except RecursionError as problem:
            raise JsonMistakeError("the value is nested too deep to be read here") from problem

    def value(self, at: int, depth: int) -> tuple[Json, int]:
        """The value that begins at an index, and the index of its end."""
        kind, text, end = self._token(at)
        if kind != "mark":
            return Json(text if kind == "word" else kind, text), end
        if text not in "{[" or depth == MOST_NESTED:
            raise JsonMistakeError(NOT_VALID)
        begin = end - 1
        parts, end = self._parts(text, end, depth)
        written = self.text[begin:end]
        if text == "{":
            return Json("{", written, {str(name): part for name, part in parts}), end
        return Json("[", written, items=tuple(part for _, part in parts)), end

    def _parts(self, opening: str, at: int, depth: int) -> tuple[list[tuple[str | None, Json]], int]:
        closing, parts = "}" if opening == "{" else "]", list[tuple[str | None, Json]]()
        if self._peek(at) == closing:
            return parts, self._token(at)[2]
        while True:
            name = None
            if opening == "{":
                name, at = self._name(at)
            part, at = self.value(at, depth + 1)
            parts.append((name, part))
            kind, text, at = self._token(at)
            if kind != "mark" or text not in (",", closing):
                raise JsonMistakeError(NOT_VALID)
            if text == closing:
                return parts, at

    def _name(self, at: int) -> tuple[str, int]:
        kind, text, at = self._token(at)
        if kind != "string" or self._peek(at) != ":":
            raise JsonMistakeError(NOT_VALID)
        return json.loads(text), self._token(at)[2]

    def _peek(self, at: int) -> str:
        match = _TOKEN.match(self.text, at)
        return match["mark"] or "" if match else ""

    def _token(self, at: int) -> tuple[str, str, int]:
        match = _TOKEN.match(self.text, at)
        if match is None or match.lastgroup is None:
            raise JsonMistakeError(NOT_VALID)
        self.tokens.append(match[match.lastgroup])
        return match.lastgroup, match[match.lastgroup], match.end()


# --- values of types --------------------------------------------------------------------------------------------------


def value_of_json(json_value: Json | None, type_: DataType) -> Any:
    """A value of a type, in Python's form (see ``arrow.value_of``); None for ``null`` and for a missing value.

    Raises:
        JsonMistakeError: the type does not accept the value.
    """
    if json_value is None or json_value.kind == "null":
        return None
    try:
        if isinstance(type_, Scalar):
            return _READERS.get(type_.name, _time)(json_value, type_)
        return _nested(json_value, type_)
    except (ArithmeticError, ValueError) as problem:
        raise JsonMistakeError(str(problem)) from problem


def _nested(value: Json, type_: DataType) -> Any:
    if value.kind != ("[" if isinstance(type_, ArrayType) else "{"):
        raise JsonMistakeError(f"{value.kind} is not a valid {type_}")
    if isinstance(type_, ArrayType):
        return [value_of_json(item, type_.element) for item in value.items]
    if isinstance(type_, MapType):
        return {key: value_of_json(inner, type_.value) for key, inner in _entries(value, type_)}
    assert isinstance(type_, StructType)
    return {part.name: value_of_json(value.members.get(part.name), part.type) for part in type_.fields}


def _entries(value: Json, type_: MapType) -> Iterator[tuple[Any, Json]]:
    for name, inner in value.members.items():
        yield value_of_json(Json("string", json.dumps(name)), type_.key), inner


def _string(value: Json) -> str:
    if value.kind != "string":
        raise JsonMistakeError(f"{value.kind} is not a text")
    return str(json.loads(value.text))


def _digits(value: Json) -> str:
    """The text of a number, also of a number in quotes."""
    text = value.text if value.kind == "number" else _string(value).strip()
    if not _NUMBER.fullmatch(text):
        raise JsonMistakeError("not a number")
    return text


def _exact(value: Json) -> Decimal:
    number = Decimal(_digits(value))
    return number if number and abs(number.adjusted()) < _MOST_DIGITS else _far(number)


def _far(number: Decimal) -> Decimal:
    """0 for a number with an exponent too small for any type; a number too large for any type fails."""
    if number and number.adjusted() > 0:
        raise JsonMistakeError("too large")
    return Decimal(0)


def _integer(value: Json, type_: Scalar) -> int:
    number = _exact(value)
    if number != number.to_integral_value() or (not number and Decimal(_digits(value))):
        raise JsonMistakeError("not a whole number")
    bits = INTEGER_BITS[type_.name]
    if not -(1 << (bits - 1)) <= int(number) < 1 << (bits - 1):
        raise JsonMistakeError("too large")
    return int(number)


def _float(value: Json, type_: Scalar) -> float:
    if value.kind == "string" and _string(value) in _NOT_FINITE:
        return float(_string(value))
    number = float(_digits(value))
    if type_.name == "FLOAT":
        number = float(struct.unpack("f", struct.pack("f", number))[0])
    if math.isinf(number):
        raise JsonMistakeError("too large")
    return number


def _decimal(value: Json, type_: Scalar) -> Decimal:
    precision, scale = type_.precision or 10, type_.scale or 0
    number = _exact(value).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, Context(prec=2 * _MOST_DIGITS))
    if number and number.adjusted() >= precision - scale:
        raise JsonMistakeError("too large")
    return number


def _truth(value: Json, _: Scalar) -> bool:
    text = value.text if value.kind in ("true", "false") else _string(value).strip().lower()
    if text not in ("true", "false"):
        raise JsonMistakeError("not a BOOLEAN")
    return text == "true"


def _varchar(value: Json, _: Scalar) -> str:
    return _string(value) if value.kind == "string" else value.text


def _bytes(value: Json, _: Scalar) -> bytes:
    return base64.b64decode(_string(value), validate=True)


def _time(value: Json, type_: Scalar) -> Any:
    return cast(_string(value), VARCHAR, type_)


_READERS: Mapping[str, Callable[[Json, Scalar], Any]] = MappingProxyType(
    {
        **dict.fromkeys(INTEGERS, _integer),
        "FLOAT": _float,
        "DOUBLE": _float,
        "DECIMAL": _decimal,
        "BOOLEAN": _truth,
        "VARCHAR": _varchar,
        "VARBINARY": _bytes,
    }
)
"""Type → function that converts a JSON value to it; all other types are times."""
