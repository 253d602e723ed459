"""JSON texts: the value at a path, and values of the dialect as JSON."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from datetime import time as day_time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ds_dagster.datatypes import DOUBLE, ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.functions.json_path import STEP, PathError, canonical
from ds_dagster.functions.values.casts import as_text, in_utc

ABSENT = object()
"""The result if there is no value; None is JSON's ``null``."""
EACH = object()
"""A step to all elements of an array."""


class Number(str):
    """A number of a JSON text, with its digits as they are written."""


def read(text: str) -> Any:
    """The value of a JSON text, numbers as :class:`Number`; :data:`ABSENT` if the text is not valid JSON."""
    try:
        return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=_refuse)
    except ValueError:
        return ABSENT


def _refuse(name: str) -> Any:
    raise ValueError(name)


@lru_cache(maxsize=64)
def steps(path: str) -> tuple[object, ...] | None:
    """A path ``$.name[0]['other'][*]`` as names, places and :data:`EACH`; None if it is not a valid path."""
    try:
        rest = canonical(path)
    except PathError:
        return None
    return tuple(map(_step, STEP.finditer(rest, 1)))


def _step(step: re.Match[str]) -> object:
    if step["all"]:
        return EACH
    return int(step["at"]) if step["at"] else step["name"] or step["quoted"] or step["double"]


def at(text: str, path: str) -> Any:
    """The value at a path of a JSON text, :data:`ABSENT` if there is none, or the path is not valid."""
    path_steps = steps(path)
    return ABSENT if path_steps is None else _below(read(text), path_steps)


def _below(value: Any, path_steps: Sequence[object]) -> Any:
    for position, step in enumerate(path_steps):
        if step is EACH:
            return _each(value, path_steps[position + 1 :])
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else ABSENT
        else:
            value = value.get(step, ABSENT) if isinstance(value, dict) else ABSENT
        if value is ABSENT:
            return ABSENT
    return value


def _each(value: Any, path_steps: Sequence[object]) -> Any:
    """The values at a path of all elements of an array; elements without one are left out."""
    if not isinstance(value, list):
        return ABSENT
    parts = (_below(element, path_steps) for element in value)
    return [part for part in parts if part is not ABSENT]


def scalar(text: str, path: str) -> str | None:
    """JSON_VALUE: the scalar at a path as text; None if there is none."""
    value = at(text, path)
    if value is ABSENT or value is None or isinstance(value, dict | list):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def exists(text: str, path: str) -> bool:
    """JSON_EXISTS: whether there is a value at a path."""
    return at(text, path) is not ABSENT


def nested(text: str, path: str) -> str | None:
    """JSON_QUERY: the object or array at a path as JSON, None if there is none; ``[*]`` gives an array with the values
    of all elements."""
    value = at(text, path)
    return written(value) if isinstance(value, dict | list) else None


def written(value: Any) -> str:
    """A value of :func:`read` as JSON without blanks."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{quote(name)}:{written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def quote(text: str) -> str:
    """A text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def as_json(value: Any, type_: DataType | None) -> str | None:
    """A value as JSON; None for NULL."""
    return None if value is None else _json(value, type_)


def _json(value: Any, type_: DataType | None) -> str:
    if value is None:
        return "null"
    if isinstance(type_, ArrayType):
        return "[" + ",".join(_json(inner, type_.element) for inner in value) + "]"
    if isinstance(type_, MapType):
        return _pairs(((_name(name, type_.key), inner, type_.value) for name, inner in value.items()))
    if isinstance(type_, StructType):
        return _pairs((field.name, value.get(field.name), field.type) for field in type_.fields)
    return _scalar_json(value, type_)


def _name(key: Any, type_: DataType) -> str:
    """A key of a MAP: the text that its type has as a value."""
    text = key if isinstance(key, str) else _json(key, type_)
    return text if text is key or not text.startswith('"') else str(json.loads(text))


def _pairs(pairs: Any) -> str:
    return "{" + ",".join(f"{quote(name)}:{_json(inner, type_)}" for name, inner, type_ in pairs) + "}"


def _scalar_json(value: Any, type_: Scalar | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        moment = in_utc(value).isoformat(timespec="milliseconds" if value.microsecond % 1000 == 0 else "microseconds")
        return quote(moment + ("Z" if type_ is not None and type_.name == "TIMESTAMP_LTZ" else ""))
    if isinstance(value, date | day_time):
        text = value.isoformat()
        return quote(text.rstrip("0") if "." in text else text)
    if isinstance(value, bytes | bytearray | memoryview):
        return quote(base64.b64encode(bytes(value)).decode())
    if isinstance(value, float):
        text = as_text(value, type_ or DOUBLE)
        return text if math.isfinite(value) else quote(text)
    return str(value) if isinstance(value, int | Decimal) else quote(str(value))


def json_object(parts: Sequence[str | None], *, absent: bool) -> str:
    """A JSON object; ``parts``: names and values in turn, as JSON. NULL is ``null``, or left out with ``absent``."""
    pairs = zip(parts[::2], parts[1::2], strict=True)
    shown = (f"{name}:{value or 'null'}" for name, value in pairs if value is not None or not absent)
    return "{" + ",".join(shown) + "}"


def json_array(parts: Sequence[str | None], *, absent: bool) -> str:
    """A JSON array; ``parts``: values as JSON. NULL is ``null``, or left out with ``absent``."""
    return "[" + ",".join(part or "null" for part in parts if part is not None or not absent) + "]"


def unquoted(text: str) -> str:
    """The text in a JSON string; any other text unchanged."""
    value = read(text) if text.startswith('"') else ABSENT
    return value if isinstance(value, str) else text


def is_json(text: str | None) -> bool:
    """Whether a text is JSON."""
    return text is not None and read(text) is not ABSENT
