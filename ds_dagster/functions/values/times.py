"""Times and Java's patterns of them, in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ds_dagster.functions.constants import (
    DATE_PATTERN,
    DEFAULT_PATTERN,
    MONTHS,
    NOT_A_PRECISION,
    OWN_MARKS,
    PRECISIONS,
)
from ds_dagster.functions.values.casts import in_utc, read_moment, zone_offset

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001, times are UTC without a zone here
Letters = Callable[[datetime, int], str]


def _name(form: str, short: str) -> Letters:
    return lambda moment, count: moment.strftime(form if count >= 4 else short)


def _month(moment: datetime, count: int) -> str:
    return moment.strftime("%B" if count >= 4 else "%b") if count >= 3 else f"{moment.month:0{count}d}"


def _year(moment: datetime, count: int) -> str:
    return f"{moment.year % 100:02d}" if count == 2 else f"{moment.year:0{count}d}"


def _zone(moment: datetime, count: int) -> str:
    del moment, count
    return "Z"


def _offset(moment: datetime, count: int) -> str:
    del moment
    return "+00:00" if count >= 3 else "+0000" if count == 2 else "+00"


_SHOWN: Mapping[str, Letters] = MappingProxyType(
    {
        "y": _year,
        "u": _year,
        "M": _month,
        "L": _month,
        "d": lambda moment, count: f"{moment.day:0{count}d}",
        "D": lambda moment, count: f"{moment.timetuple().tm_yday:0{count}d}",
        "E": _name("%A", "%a"),
        "a": lambda moment, _: "AM" if moment.hour < 12 else "PM",
        "H": lambda moment, count: f"{moment.hour:0{count}d}",
        "k": lambda moment, count: f"{moment.hour or 24:0{count}d}",
        "h": lambda moment, count: f"{moment.hour % 12 or 12:0{count}d}",
        "K": lambda moment, count: f"{moment.hour % 12:0{count}d}",
        "m": lambda moment, count: f"{moment.minute:0{count}d}",
        "s": lambda moment, count: f"{moment.second:0{count}d}",
        "S": lambda moment, count: f"{moment.microsecond:06d}".ljust(9, "0")[:count],
        "Q": lambda moment, count: f"{(moment.month + 2) // 3:0{count}d}",
        "q": lambda moment, count: f"{(moment.month + 2) // 3:0{count}d}",
        "X": _zone,
        "x": _offset,
        "Z": lambda _, __: "+0000",
        "z": lambda _, __: "UTC",
        "V": lambda _, __: "UTC",
        "G": lambda _, __: "AD",
    }
)
"""Letter of a Java pattern → its text. Source: java.time.format.DateTimeFormatter."""
_READ: Mapping[str, str] = MappingProxyType(
    {
        "y": r"\d{4}", "u": r"\d{4}", "M": r"\d{2}", "d": r"\d{2}", "H": r"\d{2}", "h": r"\d{2}", "m": r"\d{2}",
        "s": r"\d{2}", "a": r"AM|PM|am|pm", "D": r"\d{3}", "X": r"Z|[+-]\d\d(?::?\d\d)?", "x": r"[+-]\d\d(?::?\d\d)?",
        "Z": r"[+-]\d{4}", "E": r"[A-Za-z]+",
    }
)  # fmt: skip
"""Letter of a Java pattern → expression of the text that a run of it reads; a single letter reads any number of
digits."""
_NOT_SIMPLE = frozenset("xu")
"""Letters that SimpleDateFormat, which reads the start of a text, does not have or gives another meaning."""
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def pattern_pieces(java: str) -> list[tuple[str, str, str]]:
    """The parts of a pattern as (quoted text, run of one letter, other characters); one of the three is filled."""
    parts = re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)", java)
    return [
        ((m.group(1) or "'").replace("''", "'") if m.group(1) is not None else "",
         m.group(0) if m.group(2) else "", m.group(3) or "")
        for m in parts
    ]  # fmt: skip


def formatted(moment: datetime | date, pattern: str) -> str:
    """A time as text by a Java pattern.

    Raises:
        ValueError: a letter that is not supported here, or a mark that Java reserves.
    """
    value = in_utc(moment) if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001, in UTC
    shown = []
    for quoted, letters, other in pattern_pieces(pattern):
        if set(other) & OWN_MARKS:
            raise ValueError(f"{other} in the pattern {pattern} is not quoted")
        if letters and letters[0] not in _SHOWN:
            raise ValueError(f"{letters} in the pattern {pattern} is not supported in a question")
        shown.append(_SHOWN[letters[0]](value, len(letters)) if letters else quoted or other)
    return "".join(shown)


@lru_cache(maxsize=64)
def _reading(java: str, whole: bool) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """A Java pattern as a regular expression with a group for each run of a letter, and the runs."""
    parts, runs = [], []
    for quoted, letters, other in pattern_pieces(java):
        if not letters:
            parts.append(re.escape(quoted or other))
            continue
        runs.append(letters)
        if letters[0] in _NOT_SIMPLE and not whole:
            raise ValueError(f"{letters} in the pattern {java} is not supported in a question")
        form = _digits_of(letters, java)
        parts.append(f"({form if whole else form.replace('{2}', '{1,2}')})")
    return re.compile("".join(parts)), tuple(runs)


def _digits_of(letters: str, java: str) -> str:
    if letters[0] == "S":
        return rf"\d{{{len(letters)}}}"
    if letters[0] == "M" and len(letters) > 2:
        return "[A-Za-z]+"
    if letters == "yy":
        return r"\d{2}"
    form = _READ.get(letters[0])
    if form is None:
        raise ValueError(f"{letters} in the pattern {java} is not supported in a question")
    return r"\d+" if len(letters) == 1 and form.startswith(r"\d") else form


def parsed(text: str, pattern: str | None = None, *, whole: bool = True) -> datetime | None:
    """A text as a time in UTC by a Java pattern, None if it does not match.

    Args:
        text: of the time.
        pattern: None: SQL and ISO texts, see :func:`~ds_dagster.functions.values.casts.read_moment`; for the start of a
            text ``yyyy-MM-dd HH:mm:ss``.
        whole: the pattern must match the whole text, else only its start.
    """
    if pattern is None and whole:
        try:
            return read_moment(text)
        except ValueError:
            return None
    expression, runs = _reading(DEFAULT_PATTERN if pattern is None else pattern, whole)
    match = expression.fullmatch(text) if whole else expression.match(text)
    if match is None or not (whole or match.end()):
        return None
    try:
        return _moment(dict(zip((run[0] for run in runs), zip(runs, match.groups(), strict=True), strict=True)))
    except ValueError:
        return None


def _moment(parts: Mapping[str, tuple[str, str]]) -> datetime:
    def number(*letters: str, default: int = 0) -> int:
        text = next((parts[letter][1] for letter in letters if letter in parts), None)
        return default if text is None else int(text)

    run, written = parts.get("M", ("", "1"))
    month = _MONTH_NAMES.index(written[:3].lower()) + 1 if len(run) > 2 else int(written)
    hour = number("H")
    if "h" in parts:
        hour = number("h") % 12 + (12 if parts.get("a", ("", ""))[1].upper() == "PM" else 0)
    year = number("y", "u", default=1970)
    year += 2000 if parts.get("y", ("", ""))[0] == "yy" else 0
    fraction = parts.get("S", ("", "0"))[1].ljust(6, "0")[:6]
    moment = datetime(year, month, number("d", default=1), hour, number("m"), number("s"), int(fraction))  # noqa: DTZ001, in UTC
    if "D" in parts:
        moment += timedelta(days=number("D") - 1)
    zone = next((parts[letter][1] for letter in "XxZ" if letter in parts), "")
    return moment - zone_offset(zone) if zone else moment


def after_epoch(*, millis: int) -> datetime:
    """The moment that many milliseconds after 1970, with zone UTC."""
    return (EPOCH + timedelta(milliseconds=millis)).replace(tzinfo=timezone.utc)


def epoch_micros(moment: datetime | date) -> int:
    """Microseconds since 1970."""
    value = in_utc(moment) if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001, in UTC
    return (value - EPOCH) // timedelta(microseconds=1)


def to_date(text: str, pattern: str = DATE_PATTERN) -> date | None:
    """The day of a text whose start matches a pattern; None if it does not."""
    moment = parsed(text, pattern, whole=False)
    return None if moment is None else moment.date()


def to_moment(value: Any, second: Any = 3) -> datetime | None:
    """A moment with zone UTC: of seconds (``second`` 0) or milliseconds (3) since 1970, or of a text by the pattern
    ``second``; None if the text does not match.

    Raises:
        ValueError: the precision is not one of :data:`~ds_dagster.functions.constants.PRECISIONS`.
    """
    if not isinstance(value, str):
        if second not in PRECISIONS:
            raise ValueError(NOT_A_PRECISION)
        exact = (
            Fraction(value) if isinstance(value, Decimal) else value
        )  # a product of DECIMALs is rounded at 28 digits
        return after_epoch(millis=int(exact * 1000 if second == 0 else exact))
    moment = parsed(value, second if isinstance(second, str) else DEFAULT_PATTERN)
    return None if moment is None else moment.replace(tzinfo=timezone.utc)


def text_of_epoch(seconds: int, pattern: str = DEFAULT_PATTERN) -> str:
    """Seconds since 1970 as text by a pattern."""
    return formatted(after_epoch(millis=seconds * 1000), pattern)


def epoch_seconds(text: str | None = None, pattern: str = DEFAULT_PATTERN) -> int | None:
    """Seconds since 1970 of a text whose start matches a pattern, None if it does not; without a text, of now."""
    moment = datetime.now(timezone.utc) if text is None else parsed(text, pattern, whole=False)
    return None if moment is None else epoch_micros(moment) // 1_000_000


def date_format(value: Any, pattern: str) -> str | None:
    """A time, or the text of one, as text by a pattern; None for a text that is not a time."""
    if not isinstance(value, str):
        return formatted(value, pattern)
    try:
        return formatted(read_moment(value), pattern)
    except ValueError:
        return None


_MICROS: Mapping[str, int] = MappingProxyType(
    {
        "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000,
        "DAY": 86_400_000_000, "WEEK": 604_800_000_000,
    }
)  # fmt: skip


def moved(moment: Any, count: float, unit: str) -> Any:
    """A time or a day, ``count`` units later; MONTH, QUARTER and YEAR keep the day, or take the month's last one."""
    name = unit.upper().removesuffix("S")
    if name in MONTHS:
        months = moment.year * 12 + moment.month - 1 + int(count) * MONTHS[name]
        year, month = divmod(months, 12)
        return moment.replace(year=year, month=month + 1, day=min(moment.day, _last_day(year, month + 1)))
    return moment + timedelta(microseconds=int(count * _MICROS[name]))


def added(unit: str, count: float, moment: Any) -> Any:
    """:func:`moved` with the arguments in the order of TIMESTAMPADD."""
    return moved(moment, count, unit)


def _last_day(year: int, month: int) -> int:
    return (date(year + (month == 12), month % 12 + 1, 1) - timedelta(days=1)).day


def difference(unit: str, begin: Any, end: Any) -> int:
    """Whole units from one time to another; negative if the second is earlier."""
    name = unit.upper()
    first, last = _plain(begin), _plain(end)
    if last < first:
        return -difference(unit, end, begin)
    if name not in MONTHS:
        return (epoch_micros(last) - epoch_micros(first)) // _MICROS[name]
    months = (last.year - first.year) * 12 + last.month - first.month
    is_too_far = months > 0 and moved(first, months, "MONTH") > last
    return (months - is_too_far) // MONTHS[name]


def _plain(moment: Any) -> datetime:
    return in_utc(moment) if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001, in UTC


def floor(unit: str, moment: Any) -> Any:
    """The start of the unit that a time or a day is in; weeks begin on Monday."""
    if not isinstance(moment, datetime):
        return floor(unit, _plain(moment)).date()
    name = unit.upper()
    if name in MONTHS:
        size = MONTHS[name]
        month = (moment.month - 1) // size * size + 1
        return moment.replace(month=month, day=1, hour=0, minute=0, second=0, microsecond=0)
    if name == "WEEK":
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        return day - timedelta(days=day.weekday())
    return moment - timedelta(microseconds=epoch_micros(moment) % _MICROS[name])


def ceil(unit: str, moment: Any) -> Any:
    """The next start of a unit, or the time or day itself if it is one."""
    start = floor(unit, moment)
    return moment if start == moment else moved(start, 1, unit)


PARTS: Mapping[str, Callable[[datetime], int]] = MappingProxyType(
    {
        "YEAR": lambda moment: moment.year,
        "QUARTER": lambda moment: (moment.month + 2) // 3,
        "MONTH": lambda moment: moment.month,
        "WEEK": lambda moment: moment.isocalendar()[1],
        "DAY": lambda moment: moment.day,
        "DOY": lambda moment: moment.timetuple().tm_yday,
        "DOW": lambda moment: moment.isoweekday() % 7 + 1,
        "ISODOW": lambda moment: moment.isoweekday(),
        "HOUR": lambda moment: moment.hour,
        "MINUTE": lambda moment: moment.minute,
        "SECOND": lambda moment: moment.second,
        "MILLISECOND": lambda moment: moment.microsecond // 1000,
        "MICROSECOND": lambda moment: moment.microsecond,
        "NANOSECOND": lambda moment: moment.microsecond * 1000,
        "ISOYEAR": lambda moment: moment.isocalendar()[0],
        "DECADE": lambda moment: moment.year // 10,
        "CENTURY": lambda moment: (moment.year + 99) // 100,
        "MILLENNIUM": lambda moment: (moment.year + 999) // 1000,
        "EPOCH": lambda moment: epoch_micros(moment) // 1_000_000,
    }
)
"""Part of a time → function of EXTRACT."""


def part(unit: str, moment: Any) -> int:
    """One part of a time or a day."""
    return PARTS[unit.upper()](_plain(moment))


_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?")


def _zone_named(name: str) -> tzinfo:
    """A zone by its name or its offset from UTC."""
    offset = _OFFSET.fullmatch(name)
    if offset:
        return timezone(zone_offset(f"{offset['sign']}{int(offset['hours']):02d}{offset['minutes'] or '00'}"))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as problem:
        raise ValueError(f"{problem} is not a known time zone") from problem


def converted(text: str, source: str, target: str) -> str | None:
    """A text of one time zone in another one; None if it does not begin ``yyyy-MM-dd HH:mm:ss``."""
    moment = parsed(text, whole=False)
    if moment is None:
        return None
    zones = _zone_named(source), _zone_named(target)
    return moment.replace(tzinfo=zones[0]).astimezone(zones[1]).strftime("%Y-%m-%d %H:%M:%S")


def moment_of(clock: datetime, zone: str) -> datetime:
    """The moment, in UTC, at which the clock of a zone shows a time."""
    return in_utc(clock).replace(tzinfo=_zone_named(zone)).astimezone(timezone.utc)


def clock_of(moment: datetime, zone: str) -> datetime:
    """The time, without a zone, that the clock of a zone shows at a moment."""
    return in_utc(moment).replace(tzinfo=timezone.utc).astimezone(_zone_named(zone)).replace(tzinfo=None)
