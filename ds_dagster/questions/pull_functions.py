"""Functions of the dialect for SQLite connections: the same results as in queries that never end.

Values are as views keep them: truth values 0 and 1, times as text of fixed width in UTC, decimals as numbers or text,
ARRAY, MAP and STRUCT as JSON text.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ds_dagster.datatypes import INTEGERS

Function = Callable[..., Any]
TIMESTAMP_FORMAT = "%Y-%m-%d %H:%M:%S.%f"
DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0"})
INTEGER_BITS: Mapping[str, int] = MappingProxyType({"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64})


class FunctionFailures:
    """Why the last function call failed: SQLite itself tells only that one did."""

    def __init__(self) -> None:
        self.last = ""

    def guarded(self, function: Function) -> Function:
        """The function with its failure noted."""

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except (ValueError, ArithmeticError, TypeError, LookupError) as problem:
                self.last = str(problem) or type(problem).__name__
                raise

        return call


def install(connection: sqlite3.Connection) -> FunctionFailures:
    """Add every function to a connection."""
    failures = FunctionFailures()
    for name, function in FUNCTIONS.items():
        connection.create_function(name, -1, failures.guarded(function), deterministic=name not in NOT_DETERMINISTIC)
    for name, aggregate in AGGREGATES.items():
        connection.create_aggregate(name, 1, aggregate)  # type: ignore[arg-type]
    connection.create_function("like", 2, failures.guarded(_like), deterministic=True)
    connection.create_function("like", 3, failures.guarded(_like), deterministic=True)
    return failures


def _strict(function: Function) -> Function:
    """NULL when any argument is NULL."""
    return lambda *arguments: None if any(a is None for a in arguments) else function(*arguments)


# --- texts ------------------------------------------------------------------------------------------------------------


def _like(pattern: str | None, value: str | None, escape: str = "\\") -> int | None:
    """SQLite calls ``value LIKE pattern`` with the pattern first; case matters, as in the dialect."""
    if pattern is None or value is None:
        return None
    return int(_like_pattern(str(pattern), escape).fullmatch(str(value)) is not None)


@lru_cache(maxsize=256)
def _like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    parts, position = [], 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == escape and position + 1 < len(pattern):
            position += 1
            parts.append(re.escape(pattern[position]))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter, re.escape(letter)))
        position += 1
    return re.compile("".join(parts), re.DOTALL)


def _substring(text: str, start: int, length: int | None = None) -> str:
    """From a position counted from 1; negative from the end."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _split_index(text: str, separator: str, position: int) -> str | None:
    parts = text.split(separator) if separator else [text]
    return parts[position] if 0 <= position < len(parts) else None


def _regexp_extract(text: str, pattern: str, group: int = 0) -> str | None:
    found = re.search(pattern, text)
    return found.group(group) if found else None


def _json_value(text: str, path: str) -> str | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    for name, index in re.findall(r"\.([A-Za-z_][\w]*)|\[(\d+)\]", path):
        value = value.get(name) if name and isinstance(value, dict) else _at(value, int(index)) if index else None
        if value is None:
            return None
    return None if isinstance(value, dict | list) else _as_text(value)


def _at(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list) and index < len(value) else None


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- numbers ----------------------------------------------------------------------------------------------------------


def _round(value: float | str, digits: int = 0) -> float | int | str:
    exact = Decimal(str(value)).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    if isinstance(value, int):
        return int(exact)
    return str(exact) if isinstance(value, str) else float(exact)


def _number(value: Any) -> Any:
    return Decimal(value) if isinstance(value, str) else value


def _modulo(left: Any, right: Any) -> Any:
    """Sign of the first."""
    left, right = _number(left), _number(right)
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (1 if left >= 0 else -1)
    return math.fmod(left, right)


# --- times ------------------------------------------------------------------------------------------------------------

_LETTERS: Mapping[str, str] = MappingProxyType(
    {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S", "a": "%p",
     "EEE": "%a", "EEEE": "%A", "MMM": "%b", "MMMM": "%B", "D": "%j", "SSSSSS": "%f", "XXX": "%z", "Z": "%z", "X": "%z"}
)  # fmt: skip


@lru_cache(maxsize=64)
def _pattern(java: str) -> str:
    """A Java date pattern as strftime's.

    Raises:
        ValueError: a letter that is not known here.
    """
    parts = []
    for quoted, letters, other in pattern_pieces(java):
        if letters:
            if letters not in _LETTERS and set(letters) != {"S"}:
                raise ValueError(f"{letters} in the pattern {java} is not supported here")
            parts.append(_LETTERS.get(letters, "%f"))
        else:
            parts.append((quoted or other).replace("%", "%%"))
    return "".join(parts)


def pattern_pieces(java: str) -> list[tuple[str, str, str]]:
    """(quoted text, run of one letter, anything else), one of them filled."""
    found = re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)", java)
    return [(m.group(1) or "", m.group(0) if m.group(2) else "", m.group(3) or "") for m in found]


def read_time(text: str) -> datetime:
    """A time in UTC from SQL or ISO text.

    Raises:
        ValueError: it is neither.
    """
    plain = re.sub(r"(\.\d{6})\d+", r"\1", text.strip().replace("Z", "+00:00"))
    plain = re.sub(r"\.(\d{1,5})(?=$|[+-])", lambda m: "." + m.group(1).ljust(6, "0"), plain)
    found = datetime.fromisoformat(plain)
    return found.astimezone(timezone.utc).replace(tzinfo=None) if found.tzinfo else found


def time_text(value: datetime) -> str:
    """As views keep times."""
    return value.strftime(TIMESTAMP_FORMAT).rjust(26, "0")


def _epoch(seconds: float) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=seconds)  # noqa: DTZ001, times are UTC without a zone in views


def _to_timestamp(text: str, pattern: str = DEFAULT_PATTERN) -> str | None:
    try:
        moment = datetime.strptime(text, _pattern(pattern)).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return time_text(moment)


def _to_timestamp_ltz(value: Any, second: Any = 3) -> str | None:
    if isinstance(value, str):
        return _to_timestamp(value, second if isinstance(second, str) else DEFAULT_PATTERN)
    return time_text(_epoch(value if second == 0 else value / 1000))


def _from_unixtime(seconds: int, pattern: str = DEFAULT_PATTERN) -> str:
    return _date_format(time_text(_epoch(seconds)), pattern)


def _unix_timestamp(text: str | None = None, pattern: str = DEFAULT_PATTERN) -> int | None:
    if text is None:
        return int(time.time())
    found = _to_timestamp(text, pattern)
    return None if found is None else int((read_time(found) - _epoch(0)).total_seconds() // 1)


def _date_format(text: str, pattern: str) -> str:
    made, moment = [], read_time(text)
    for quoted, letters, other in pattern_pieces(pattern):
        if set(letters) == {"S"}:
            made.append(f"{moment.microsecond:06d}"[: len(letters)].ljust(len(letters), "0"))
        elif letters == "yyyy":
            made.append(f"{moment.year:04d}")
        else:
            made.append(moment.strftime(_pattern(letters)) if letters else quoted or other)
    return "".join(made)


def _extract(unit: str, text: str) -> int:
    return int(getattr(read_time(text), unit.lower()))


_MONTHS: Mapping[str, int] = MappingProxyType({"MONTH": 1, "QUARTER": 3, "YEAR": 12})
_SECONDS: Mapping[str, float] = MappingProxyType(
    {"MILLISECOND": 0.001, "SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
)


def _shift(text: str, sign: str, amount: str, unit: str) -> str:
    count = float(amount) * (-1 if sign == "-" else 1)
    name, moment = unit.upper().rstrip("S"), read_time(text)
    if name in _MONTHS:
        months = moment.year * 12 + moment.month - 1 + int(count) * _MONTHS[name]
        year, month = divmod(months, 12)
        last = (date(year + (month == 11), (month + 1) % 12 + 1, 1) - timedelta(days=1)).day
        moved = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
    else:
        moved = moment + timedelta(seconds=count * _SECONDS[name])
    return time_text(moved) if len(text) > 10 else moved.strftime("%Y-%m-%d")


# --- parts and conversions --------------------------------------------------------------------------------------------


def stored(value: Any) -> Any:
    """A JSON value as SQLite keeps it."""
    if isinstance(value, bool):
        return int(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _field(text: str, name: str) -> Any:
    found = json.loads(text)
    return stored(found.get(name)) if isinstance(found, dict) else None


def _element(text: str, index: int | str) -> Any:
    found = json.loads(text)
    if isinstance(found, dict):
        return stored(found.get(str(index)))
    return stored(found[int(index) - 1]) if 1 <= int(index) <= len(found) else None


def _array(*items: Any) -> str:
    return json.dumps(list(items), ensure_ascii=False)


def cast(value: Any, source: str, target: str) -> Any:
    """A value of one SQL type as another.

    Raises:
        ValueError: it does not fit.
    """
    if value is None or source == target:
        return value
    head, _, bounds = target.partition("(")
    if head in INTEGERS:
        return _as_integer(value, head)
    if head in ("FLOAT", "DOUBLE"):
        return float(value)
    return _CASTS.get(head, _unchanged)(value, source, bounds.rstrip(")"))


def _as_integer(value: Any, name: str) -> int:
    try:
        number = int(Decimal(value)) if isinstance(value, str) else int(value)
    except (InvalidOperation, OverflowError) as problem:
        raise ValueError(f"'{value}' is no {name}") from problem
    if not -(1 << (INTEGER_BITS[name] - 1)) <= number < 1 << (INTEGER_BITS[name] - 1):
        raise ValueError(f"{number} does not fit {name}")
    return number


def _as_varchar(value: Any, source: str, bounds: str) -> str:
    if source == "BOOLEAN":
        return "true" if value else "false"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if source.startswith("TIMESTAMP"):
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text[: int(bounds)] if bounds else text


def _as_boolean(value: Any, _source: str, _bounds: str) -> int:
    if not isinstance(value, str):
        return int(value != 0)
    word = value.strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError(f"'{value}' is no BOOLEAN")
    return int(word in TRUE_WORDS)


def _as_decimal(value: Any, _source: str, bounds: str) -> Any:
    precision, scale = (int(part) for part in bounds.split(",")) if bounds else (10, 0)
    try:
        exact = Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
    except InvalidOperation as problem:
        raise ValueError(f"'{value}' is no DECIMAL({precision},{scale})") from problem
    return str(exact) if precision > 15 else float(exact)


def _as_timestamp(value: Any, _source: str, _bounds: str) -> str:
    return time_text(read_time(str(value)))


def _as_date(value: Any, _source: str, _bounds: str) -> str:
    return read_time(str(value)).strftime("%Y-%m-%d")


def _unchanged(value: Any, _source: str, _bounds: str) -> Any:
    return value


_CASTS: Mapping[str, Callable[[Any, str, str], Any]] = MappingProxyType(
    {
        "VARCHAR": _as_varchar,
        "BOOLEAN": _as_boolean,
        "DECIMAL": _as_decimal,
        "TIMESTAMP": _as_timestamp,
        "TIMESTAMP_LTZ": _as_timestamp,
        "DATE": _as_date,
    }
)


def _try_cast(value: Any, source: str, target: str) -> Any:
    try:
        return cast(value, source, target)
    except (ValueError, ArithmeticError):
        return None


# --- aggregates of decimals -------------------------------------------------------------------------------------------


class DecimalSum:
    """SUM without rounding."""

    def __init__(self) -> None:
        self.values: list[Decimal] = []

    def step(self, value: Any) -> None:
        """Take one value."""
        if value is not None:
            self.values.append(Decimal(str(value)))

    def finalize(self) -> str | None:
        """The result as text."""
        return str(sum(self.values, Decimal(0))) if self.values else None


class DecimalAvg(DecimalSum):
    """AVG, rounded half up to the type's digits where it is shown."""

    def finalize(self) -> str | None:
        """The result as text."""
        return str(sum(self.values, Decimal(0)) / len(self.values)) if self.values else None


class DecimalMin(DecimalSum):
    """MIN by number."""

    def finalize(self) -> str | None:
        """The result as text."""
        return str(min(self.values)) if self.values else None


class DecimalMax(DecimalSum):
    """MAX by number."""

    def finalize(self) -> str | None:
        """The result as text."""
        return str(max(self.values)) if self.values else None


AGGREGATES: Mapping[str, type[DecimalSum]] = MappingProxyType(
    {
        "ds_decimal_sum": DecimalSum,
        "ds_decimal_avg": DecimalAvg,
        "ds_decimal_min": DecimalMin,
        "ds_decimal_max": DecimalMax,
    }
)

_STRICT: Mapping[str, Function] = MappingProxyType(
    {
        "greatest": max,
        "least": min,
        "concat": lambda *texts: "".join(texts),
        "upper": str.upper,
        "lower": str.lower,
        "trim": lambda text, removed=" ": text.strip(removed),
        "ltrim": lambda text, removed=" ": text.lstrip(removed),
        "rtrim": lambda text, removed=" ": text.rstrip(removed),
        "substring": _substring,
        "char_length": len,
        "replace": lambda text, old, new: text.replace(old, new) if old else text,
        "split_index": _split_index,
        "regexp_extract": _regexp_extract,
        "abs": lambda value: abs(_number(value)),
        "round": _round,
        "floor": lambda value: math.floor(_number(value)),
        "ceil": lambda value: math.ceil(_number(value)),
        "mod": _modulo,
        "to_timestamp": _to_timestamp,
        "to_timestamp_ltz": _to_timestamp_ltz,
        "from_unixtime": _from_unixtime,
        "date_format": _date_format,
        "json_value": _json_value,
        "cardinality": lambda text: len(json.loads(text)),
        "position": lambda part, text: text.find(part) + 1,
        "extract": _extract,
        "md5": lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
        "sha256": lambda text: hashlib.sha256(text.encode()).hexdigest(),
        "field": _field,
        "element": _element,
        "shift": _shift,
    }
)
FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        **{f"ds_{name}": _strict(function) for name, function in _STRICT.items()},
        "ds_coalesce": lambda *values: next((value for value in values if value is not None), None),
        "ds_nullif": lambda left, right: None if left == right else left,
        "ds_unix_timestamp": _unix_timestamp,
        "ds_current_timestamp": lambda: time_text(_epoch(time.time())),
        "ds_uuid": lambda: str(uuid.uuid4()),
        "ds_array": _array,
        "ds_cast": cast,
        "ds_try_cast": _try_cast,
    }
)
"""Name in SQLite → function."""
NOT_DETERMINISTIC = frozenset({"ds_unix_timestamp", "ds_current_timestamp", "ds_uuid"})
