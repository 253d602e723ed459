"""CAST of one value by the rules of the dialect: text forms of every type, limits of numbers.

Values are Python's: ``datetime``, ``date``, ``time``, ``Decimal``, ``bytes``, lists, dicts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from ds_dagster.datatypes import FLOATS, INTEGERS, ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.functions.values.float_texts import double_text, float_text

INTEGER_BITS: Mapping[str, int] = MappingProxyType({"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64})
TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0"})
EXACT = Context(prec=100)
FEWEST_DIGITS = -400
"""Fewest decimals that rounding uses: every number is below 10**400, so fewer decimals give 0 as well."""
TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
DEFAULT_PRECISION: Mapping[str, int] = MappingProxyType({"TIMESTAMP": 3, "TIMESTAMP_LTZ": 3, "TIME": 0})
"""Digits of a fraction if the type names none."""
MOMENT = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?\s*(Z|z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
"""A year with optional parts; a missing month or day is 1, a missing time is midnight."""
SHORT = re.compile(r"\S+[ T](\d{1,2}|\d{1,2}:\S*[+-]\d\d)", re.ASCII)
"""A text whose hour, or whose offset at the end, has no minutes: CAST reads it as a full hour."""
MOMENT_OF_CAST = re.compile(
    r"\d{4}(?:-\d{1,2}(?:-\d{1,2}(?:[ T]\d{1,2}(?::\d{1,2}(?::\d{1,2}(?:\.\d{1,9})?"
    r"(?:\s*(?:Z|[+-](?:(?:0\d|1[0-7])(?::?[0-5]\d)?|18(?::?00)?)))?"
    r")?)?)?)?)?",
    re.ASCII,
)
"""Texts that CAST reads as a time, on Spark too: no zone has a name."""
TIME_OF_DAY = re.compile(r"T?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII)
WHOLE = re.compile(r"([+-]?\d+)(\.\d*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WORDS: Mapping[str, float] = MappingProxyType({"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf})


def cast(value: Any, source: DataType | None, target: DataType, *, safe: bool = False) -> Any:
    """A value of one type as another; NULL stays NULL.

    Args:
        value: of the type ``source``.
        source: None if the value is of the target's type already.
        target: of the result.
        safe: a value that does not fit becomes NULL, also inside a nested value.

    Raises:
        ValueError: the value does not fit.
    """
    if value is None or source == target or source is None:
        return value
    if isinstance(target, ArrayType):
        return [cast(inner, _element(source), target.element, safe=safe) for inner in value]
    if isinstance(target, MapType):
        key, inside = _key(source), _value(source)
        return {cast(k, key, target.key, safe=safe): cast(v, inside, target.value, safe=safe) for k, v in value.items()}
    if not isinstance(target, Scalar):
        return _as_struct(value, source, target, safe)
    try:
        return _as_scalar(value, source, target)
    except (ValueError, ArithmeticError):
        if safe:
            return None
        raise


def _as_scalar(value: Any, source: DataType, target: Scalar) -> Any:
    if target.name == "VARCHAR":
        text = as_text(value, source)
        return text if target.length is None else text[: target.length]
    if target.name in INTEGERS:
        return _as_integer(value, target.name)
    if target.name in FLOATS:
        return _as_float(value)
    return _CASTS[target.name](value, target)


def _element(type_: DataType) -> DataType | None:
    return type_.element if isinstance(type_, ArrayType) else None


def _key(type_: DataType) -> DataType | None:
    return type_.key if isinstance(type_, MapType) else None


def _value(type_: DataType) -> DataType | None:
    return type_.value if isinstance(type_, MapType) else None


def _as_struct(value: Mapping[str, Any], source: DataType, target: StructType, safe: bool) -> dict[str, Any]:
    """Fields are paired by position."""
    fields = source.fields if isinstance(source, StructType) else ()
    pairs = zip(fields, target.fields, strict=True)
    return {new.name: cast(value.get(old.name), old.type, new.type, safe=safe) for old, new in pairs}


def as_text(value: Any, type_: DataType) -> str:
    """The text form of a value: TRUE, 2024-01-31 12:00:00.000, [1, NULL]."""
    if value is None:
        return "NULL"
    if isinstance(type_, ArrayType):
        return "[" + ", ".join(as_text(inner, type_.element) for inner in value) + "]"
    if isinstance(type_, MapType):
        pairs = value.items() if isinstance(value, Mapping) else value
        return "{" + ", ".join(f"{as_text(k, type_.key)}={as_text(v, type_.value)}" for k, v in pairs) + "}"
    if not isinstance(type_, Scalar):
        return "(" + ", ".join(as_text(value.get(field.name), field.type) for field in type_.fields) + ")"
    return _TEXTS.get(type_.name, _plain)(value, type_)


def _plain(value: Any, _type: Scalar) -> str:
    return str(value)


def _truth_text(value: Any, _type: Scalar) -> str:
    return "TRUE" if value else "FALSE"


def _fraction(microseconds: int, type_: Scalar) -> str:
    digits = type_.precision if type_.precision is not None else DEFAULT_PRECISION[type_.name]
    return "." + f"{microseconds:06d}".ljust(9, "0")[:digits] if digits else ""


def _moment_text(value: datetime, type_: Scalar) -> str:
    moment = in_utc(value)
    return f"{moment:%Y-%m-%d %H:%M:%S}".rjust(19, "0") + _fraction(moment.microsecond, type_)


def _time_text(value: time, type_: Scalar) -> str:
    return f"{value:%H:%M:%S}" + _fraction(value.microsecond, type_)


def _decimal_text(value: Decimal, type_: Scalar) -> str:
    return f"{Decimal(value):.{type_.scale or 0}f}"


def _bytes_text(value: bytes, _type: Scalar) -> str:
    return bytes(value).decode("utf-8", "replace")


_TEXTS: Mapping[str, Callable[[Any, Scalar], str]] = MappingProxyType(
    {
        "BOOLEAN": _truth_text,
        "TIMESTAMP": _moment_text,
        "TIMESTAMP_LTZ": _moment_text,
        "TIME": _time_text,
        "DECIMAL": _decimal_text,
        "FLOAT": float_text,
        "DOUBLE": double_text,
        "VARBINARY": _bytes_text,
    }
)


def in_utc(value: datetime) -> datetime:
    """A moment in UTC, without its zone."""
    return value if value.tzinfo is None else value.astimezone(timezone.utc).replace(tzinfo=None)


def _as_integer(value: Any, name: str) -> int:
    number = _whole(value, name)
    if not -(1 << (INTEGER_BITS[name] - 1)) <= number < 1 << (INTEGER_BITS[name] - 1):
        raise ValueError(f"{number} does not fit {name}")
    return number


def _whole(value: Any, name: str) -> int:
    if isinstance(value, str):
        match = WHOLE.fullmatch(value.strip())
        if match is None:
            raise ValueError(f"'{value}' is not a valid {name}")
        return int(match[1])
    if isinstance(value, datetime):
        return math.floor((in_utc(value) - datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001, in UTC
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{double_text(value)} does not fit {name}")
    return int(value)


def _as_float(value: Any) -> float:
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if NUMBER.fullmatch(text) is None:
        raise ValueError(f"'{value}' is not a valid DOUBLE")
    return float(text)


def _as_boolean(value: Any, _target: Scalar) -> bool:
    if not isinstance(value, str):
        return bool(value)
    word = value.strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError(f"'{value}' is not a valid BOOLEAN")
    return word in TRUE_WORDS


def _as_decimal(value: Any, target: Scalar) -> Decimal:
    return fitted(_exact(value, target), target)


def _exact(value: Any, target: Scalar) -> Decimal:
    if isinstance(value, bool):
        return Decimal(int(value))
    text = repr(value) if isinstance(value, float) else str(value).strip()
    try:
        exact = Decimal("" if "_" in text else text)  # Python would ignore a _
    except InvalidOperation as problem:
        raise ValueError(f"'{value}' is not a valid {target}") from problem
    if not exact.is_finite():
        raise ValueError(f"{value} does not fit {target}")
    return exact


def fitted(value: Decimal, target: Scalar, rounding: str = ROUND_HALF_UP) -> Decimal:
    """A number rounded to the scale of a DECIMAL type.

    Raises:
        ValueError: it has more digits than the type.
    """
    fitted_value = value.quantize(Decimal(1).scaleb(-(target.scale or 0)), rounding=rounding, context=EXACT)
    if len(fitted_value.as_tuple().digits) > (target.precision or 10) and fitted_value != 0:
        raise ValueError(f"{value} does not fit {target}")
    return fitted_value


def divided(total: Decimal, count: int, target: Scalar) -> Decimal:
    """The mean of values with that total, as a DECIMAL type."""
    return fitted(EXACT.divide(total, Decimal(count)), target)


def rounded(value: Any, digits: int, rounding: str, type_: DataType) -> Any:
    """A number with ``digits`` decimals (negative: before the point), in a type; None if the type cannot hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        return value
    exact = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)
    if int(exact.as_tuple().exponent) < -digits:
        exact = exact.quantize(Decimal(1).scaleb(-max(digits, FEWEST_DIGITS)), rounding=rounding, context=EXACT)
    if not isinstance(type_, Scalar) or type_.name != "DECIMAL":
        return float(exact) + 0.0 if isinstance(value, float) else int(exact)
    try:
        return fitted(exact, type_)
    except ValueError:
        return None


def _as_moment(value: Any, target: Scalar) -> datetime:
    if isinstance(value, str):
        text = value.strip()
        if MOMENT_OF_CAST.fullmatch(text) is None:
            raise ValueError(f"'{value}' is not a valid TIMESTAMP")
        text += ":00" if SHORT.fullmatch(text) else ""
        moment = read_moment(text, has_zone=target.name == "TIMESTAMP_LTZ")
    elif isinstance(value, datetime):
        moment = in_utc(value)
    elif isinstance(value, date):
        moment = datetime(value.year, value.month, value.day)  # noqa: DTZ001, in UTC
    else:
        raise ValueError(f"{value} is not a valid {target}")
    if target.precision is not None:
        moment = moment.replace(microsecond=_cut(moment.microsecond, target.precision))
    return moment.replace(tzinfo=timezone.utc) if target.name == "TIMESTAMP_LTZ" else moment


def _cut(microseconds: int, digits: int) -> int:
    """Microseconds cut to that many digits of a second."""
    return microseconds - microseconds % 10 ** (6 - digits) if digits < 6 else microseconds


def read_moment(text: str, *, has_zone: bool = True) -> datetime:
    """A time in UTC from SQL or ISO text, without its zone.

    Args:
        text: of the time.
        has_zone: False for a type without a zone: a zone in the text is ignored.

    Raises:
        ValueError: the text is neither.
    """
    match = MOMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a valid TIMESTAMP")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6])
    try:
        midnight = datetime(int(year), int(month or 1), int(day or 1))  # noqa: DTZ001, in UTC
        moment = midnight.replace(
            hour=int(hour or 0), minute=int(minute or 0), second=int(second or 0), microsecond=micros
        )
    except ValueError as problem:
        raise ValueError(f"'{text}' is not a valid TIMESTAMP") from problem
    return moment - zone_offset(zone) if zone and has_zone else moment


def zone_offset(zone: str) -> timedelta:
    """Difference of a zone ``Z``, ``+02``, ``+0200``, ``+02:00`` to UTC; positive to the east."""
    if zone.upper() == "Z":
        return timedelta()
    hours, minutes = int(zone[1:3]), int(zone[3:].strip(":") or 0)
    return timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)


_DAY_ALONE = re.compile("[ T]")
"""End of a day in a text; CAST to DATE ignores the rest."""


def _as_date(value: Any, _target: Scalar) -> date:
    moment = read_moment(_DAY_ALONE.split(value.strip(), maxsplit=1)[0]) if isinstance(value, str) else value
    return in_utc(moment).date() if isinstance(moment, datetime) else date(moment.year, moment.month, moment.day)


def _as_time(value: Any, _target: Scalar) -> time:
    if isinstance(value, datetime):
        return in_utc(value).time()
    if isinstance(value, time):
        return value
    match = TIME_OF_DAY.fullmatch(str(value).strip())
    try:
        if match is None:
            raise ValueError
        hour, minute, second, fraction = match.groups()
        return time(int(hour), int(minute), int(second or 0), int((fraction or "0").ljust(6, "0")[:6]))
    except ValueError as problem:
        raise ValueError(f"'{value}' is not a valid TIME") from problem


def _as_bytes(value: Any, target: Scalar) -> bytes:
    content = value.encode() if isinstance(value, str) else bytes(value)
    return content if target.length is None else content[: target.length]


_CASTS: Mapping[str, Callable[[Any, Scalar], Any]] = MappingProxyType(
    {
        "BOOLEAN": _as_boolean,
        "DECIMAL": _as_decimal,
        "TIMESTAMP": _as_moment,
        "TIMESTAMP_LTZ": _as_moment,
        "DATE": _as_date,
        "TIME": _as_time,
        "VARBINARY": _as_bytes,
    }
)
