"""Functions of dates and times, Flink SQL's names and meanings. Everything is in UTC, patterns are Java's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.datatypes import BIGINT, DATE, TIMESTAMP, TIMESTAMP_LTZ, VARCHAR, DataType, Scalar
from ds_dagster.functions.constants import (
    DATE_PATTERN,
    DEFAULT_PATTERN,
    MONTHS,
    NOT_A_PRECISION,
    OWN_MARKS,
    Constant,
)
from ds_dagster.functions.function import RowFunction, last, scalar
from ds_dagster.functions.question import Call, Computed, native, strict
from ds_dagster.functions.spark import LAST_SECOND, LEAST_SECOND, Functions, OfCall, SparkCall, in_years, moment

if TYPE_CHECKING:
    from pyspark.sql import Column

TIME_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
"""Units of TIMESTAMPDIFF, TIMESTAMPADD, and of FLOOR and CEIL of times."""
EXTRACT_UNITS = (
    *TIME_UNITS, "MICROSECOND", "NANOSECOND", "DOY", "DOW", "ISODOW", "ISOYEAR", "DECADE", "CENTURY", "MILLENNIUM",
    "EPOCH",
)  # fmt: skip
"""Parts of EXTRACT."""


def _other_time(types: Sequence[DataType]) -> DataType:
    """TIMESTAMP ↔ TIMESTAMP_LTZ, with the same precision."""
    time = types[0]
    assert isinstance(time, Scalar)
    return replace(time, name="TIMESTAMP" if time.name == "TIMESTAMP_LTZ" else "TIMESTAMP_LTZ")


# --- Spark ------------------------------------------------------------------------------------------------------------


def _at_the_start(f: Functions, call: SparkCall, text: Column, pattern: Column) -> Any:
    """TIMESTAMP_LTZ of a text whose start matches the pattern."""
    return moment(f, call.java.time_of_text(text, pattern), 1000, safe=True)


def _spark_to_date(f: Functions, call: SparkCall) -> Any:
    text, *pattern = call.columns
    return _at_the_start(f, call, text, pattern[0] if pattern else f.lit(DATE_PATTERN)).cast("date")


def _spark_to_timestamp_ltz(f: Functions, call: SparkCall) -> Any:
    if call.type_of(0).typeName() == "string":
        return in_years(f, f.try_to_timestamp(*call.columns))
    number, *precision = call.columns
    time = moment(f, number, 1000)
    for digits in precision:
        fails = f.raise_error(f.lit(NOT_A_PRECISION))
        seconds = f.when(digits == 0, moment(f, number, 1, decimal=call.type_of(0).typeName() == "decimal"))
        time = seconds.when(digits == 3, time).when(digits.isNotNull() & number.isNotNull(), fails)
    return time


def _shown(f: Functions, seconds: Column, text: Column) -> Any:
    """The text of a time; the row fails if its year is not from 0001 to 9999."""
    fails = f.raise_error(f.lit("a time as text needs a year from 0001 to 9999"))
    return f.when((seconds < LEAST_SECOND) | (seconds > LAST_SECOND), fails).otherwise(text)


def _by_pattern(f: Functions, pattern: Column, text: Column) -> Any:
    """A text by a pattern; the row fails if the pattern has unquoted marks that Java reserves."""
    bare = f.regexp_replace(pattern, f.lit("'[^']*'"), f.lit(""))
    fails = f.raise_error(f.lit("a mark in a pattern of times is not quoted"))
    return f.when(f.rlike(bare, f.lit(f"[{re.escape(''.join(sorted(OWN_MARKS)))}]")), fails).otherwise(text)


def _spark_from_unixtime(f: Functions, seconds: Column, *pattern: Column) -> Any:
    form = pattern[0] if pattern else f.lit(DEFAULT_PATTERN)
    text = f.call_function("from_unixtime", seconds, form)
    return _shown(f, seconds, _by_pattern(f, form, text) if pattern else text)


def _spark_unix_timestamp(f: Functions, call: SparkCall) -> Any:
    if not call.columns:
        return f.unix_seconds(f.current_timestamp())
    text, *pattern = call.columns
    return f.unix_seconds(_at_the_start(f, call, text, pattern[0] if pattern else f.lit(DEFAULT_PATTERN)))


def _spark_date_format(f: Functions, call: SparkCall) -> Any:
    value, pattern = call.columns
    if call.type_of(0).typeName() == "string":
        value = f.try_to_timestamp(value)
    return _by_pattern(f, pattern, f.call_function("date_format", value, pattern))


def _spark_convert_tz(f: Functions, call: SparkCall) -> Any:
    text, source, target = call.columns
    moment = f.to_utc_timestamp(_at_the_start(f, call, text, f.lit(DEFAULT_PATTERN)), source)
    clock = f.from_utc_timestamp(moment, target)
    return _shown(f, f.unix_seconds(clock), f.date_format(clock, DEFAULT_PATTERN))


def _spark_at_time_zone(f: Functions, call: SparkCall) -> Any:
    time, zone = call.columns
    if call.type_of(0).typeName() == "timestamp_ntz":
        return in_years(f, f.to_utc_timestamp(time.cast("timestamp"), zone))
    return in_years(f, f.from_utc_timestamp(time, zone)).cast("timestamp_ntz")


def _unit(call: SparkCall) -> str:
    return str(call.literal(0)).upper()


SPARK_PARTS: Mapping[str, Callable[[Functions, Any], Any]] = MappingProxyType(
    {
        "EPOCH": lambda f, time: f.unix_seconds(time.cast("timestamp")),
        "MILLISECOND": lambda f, time: f.pmod(f.unix_millis(time.cast("timestamp")), f.lit(1000)),
        "MICROSECOND": lambda f, time: f.pmod(f.unix_micros(time.cast("timestamp")), f.lit(1_000_000)),
        "NANOSECOND": lambda f, time: f.pmod(f.unix_micros(time.cast("timestamp")), f.lit(1_000_000)) * 1000,
        "ISODOW": lambda f, time: f.date_part(f.lit("DOW_ISO"), time),
        "ISOYEAR": lambda f, time: f.date_part(f.lit("YEAROFWEEK"), time),
        "DECADE": lambda f, time: f.floor(f.year(time) / 10),
        "CENTURY": lambda f, time: f.floor((f.year(time) + 99) / 100),
        "MILLENNIUM": lambda f, time: f.floor((f.year(time) + 999) / 1000),
    }
)
"""Part of a time that Spark's date_part names differently, or computes differently from Flink."""


def _spark_extract(f: Functions, call: SparkCall) -> Any:
    unit, time = _unit(call), call.columns[1]
    own = SPARK_PARTS.get(unit)
    return (own(f, time) if own else f.date_part(f.lit(unit), time)).cast("bigint")


def _spark_difference(f: Functions, call: SparkCall) -> Any:
    times = [time.cast("timestamp") for time in call.columns[1:]]
    months = MONTHS.get(_unit(call))
    if months is None:
        return f.timestamp_diff(_unit(call), *times)
    return (call.java.scalar("Times.months", *map(f.unix_micros, times)) / months).cast("bigint")


def _spark_added(f: Functions, call: SparkCall) -> Any:
    _, number, time = call.columns
    return in_years(f, f.timestamp_add(_unit(call), number, time).cast(call.type_of(2)))


def _spark_floor(f: Functions, call: SparkCall) -> Any:
    return f.date_trunc(_unit(call), call.columns[1]).cast(call.type_of(1))


def _spark_ceil(f: Functions, call: SparkCall) -> Any:
    time, floor = call.columns[1], _spark_floor(f, call)
    above = in_years(f, f.timestamp_add(_unit(call), f.lit(1), floor).cast(call.type_of(1)))
    return f.when(floor == time, time).otherwise(above)


# --- questions --------------------------------------------------------------------------------------------------------


def _clock(call: Call) -> Callable[..., Any]:
    """The clock of a zone for a moment (TIMESTAMP_LTZ), or the moment for a clock of a zone (TIMESTAMP)."""
    from ds_dagster.functions.values import times

    is_moment = isinstance(call.result, Scalar) and call.result.name == "TIMESTAMP"
    return times.clock_of if is_moment else times.moment_of


def _of_unit(unit: str) -> Computed:
    def make(_call: Call) -> Callable[..., Any]:
        from ds_dagster.functions.values import times

        return lambda moment: times.part(unit, moment)

    return Computed(make)


# --- records ----------------------------------------------------------------------------------------------------------


def _part(name: str, meaning: str, gives: str, unit: str = "") -> RowFunction:
    """A function for a part of a time; ``unit``: its name in EXTRACT; empty: the same name."""
    part = unit or name
    return scalar(
        name,
        "temporal",
        BIGINT,
        meaning,
        (f"{name}(TIMESTAMP '2024-02-03 14:15:16')", gives),
        spark=lambda f, time: f.date_part(f.lit(part), time).cast("bigint"),
        question=_of_unit(part),
    )


TIME_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "TO_DATE",
        "text text?",
        DATE,
        "text to DATE by a pattern (default yyyy-MM-dd) that the start of the text must match; else NULL",
        ("TO_DATE('31.01.2024', 'dd.MM.yyyy')", "DATE '2024-01-31'"),
        ("TO_DATE('2024-13-01')", "NULL"),
        nulls="always",
        spark=OfCall(_spark_to_date),
        question=strict("times.to_date"),
        constants=(Constant("time_pattern", 1),),
    ),
    scalar(
        "TO_TIMESTAMP",
        "text text?",
        TIMESTAMP,
        "text to TIMESTAMP by a pattern (default yyyy-MM-dd HH:mm:ss); NULL if it does not match",
        ("TO_TIMESTAMP('31.01.2024', 'dd.MM.yyyy')", "TIMESTAMP '2024-01-31 00:00:00'"),
        nulls="always",
        spark=lambda f, text, *pattern: in_years(f, f.try_to_timestamp(text, *pattern)).cast("timestamp_ntz"),
        question=strict("times.parsed"),
        constants=(Constant("time_pattern", 1),),
    ),
    scalar(
        "TO_TIMESTAMP_LTZ",
        ("number integer", "number", "text text?"),
        TIMESTAMP_LTZ,
        "epoch number with precision 0 (seconds) or 3 (milliseconds, the default; the row fails for another "
        "precision), or text by a pattern in UTC",
        ("DATE_FORMAT(TO_TIMESTAMP_LTZ(1700000000, 0), 'HH:mm:ss')", "'22:13:20'"),
        nulls="always",
        spark=OfCall(_spark_to_timestamp_ltz),
        question=strict("times.to_moment"),
        constants=(Constant("time_pattern", 1), Constant("precision", 1)),
    ),
    scalar(
        "FROM_UNIXTIME",
        "integer text?",
        VARCHAR,
        "epoch seconds as text by a pattern",
        ("FROM_UNIXTIME(0)", "'1970-01-01 00:00:00'"),
        spark=_spark_from_unixtime,
        question=strict("times.text_of_epoch"),
        constants=(Constant("time_pattern", 1, by_spark=True),),
    ),
    scalar(
        "UNIX_TIMESTAMP",
        "text? text?",
        BIGINT,
        "epoch seconds of a text by a pattern of SimpleDateFormat that its start must match; without arguments: now",
        ("UNIX_TIMESTAMP('1970-01-01 00:01:00')", "60"),
        nulls="always",
        spark=OfCall(_spark_unix_timestamp),
        question=strict("times.epoch_seconds"),
        of_batch=True,
        constants=(Constant("time_pattern", 1),),
    ),
    scalar(
        "DATE_FORMAT",
        ("temporal text", "text text"),
        VARCHAR,
        "a timestamp (or its text) as text by a pattern",
        ("DATE_FORMAT(TIMESTAMP '2024-01-31 10:11:12', 'yyyy/MM')", "'2024/01'"),
        spark=OfCall(_spark_date_format),
        question=strict("times.date_format"),
        constants=(Constant("time_pattern", 1, by_spark=True),),
    ),
    scalar(
        "CONVERT_TZ",
        "text text text",
        VARCHAR,
        "a text that begins with yyyy-MM-dd HH:mm:ss, from one time zone to another; NULL for other texts",
        ("CONVERT_TZ('2024-07-01 12:00:00', 'UTC', 'Europe/Berlin')", "'2024-07-01 14:00:00'"),
        nulls="always",
        spark=OfCall(_spark_convert_tz),
        question=strict("times.converted"),
        constants=(Constant("zone", 1), Constant("zone", 2)),
    ),
    scalar(
        "AT_TIME_ZONE",
        "timestamp text",
        _other_time,
        "`time AT TIME ZONE 'zone'`: a TIMESTAMP is read as the clock of that zone and gives the moment, "
        "TIMESTAMP_LTZ; a TIMESTAMP_LTZ gives the time of that clock, TIMESTAMP. Hours that a clock skips are read "
        "with the offset before the change, of hours that come twice the first ones count",
        ("TIMESTAMP '2024-07-01 14:00:00' AT TIME ZONE 'Europe/Berlin'", "TO_TIMESTAMP_LTZ(1719835200, 0)"),
        ("TO_TIMESTAMP_LTZ(0, 3) AT TIME ZONE 'Asia/Tokyo'", "TIMESTAMP '1970-01-01 09:00:00'"),
        spark=OfCall(_spark_at_time_zone),
        question=Computed(_clock),
        constants=(Constant("zone", 1),),
    ),
    scalar(
        "CURRENT_TIMESTAMP",
        "",
        TIMESTAMP_LTZ,
        "time of the batch",
        ("CURRENT_TIMESTAMP > TO_TIMESTAMP_LTZ(0, 0)", "TRUE"),
        nulls="never",
        deterministic=False,
        aliases=("NOW", "LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP"),
        spark="current_timestamp",
        question=native("now"),
        of_batch=True,
    ),
    scalar(
        "CURRENT_DATE",
        "",
        DATE,
        "day of the batch",
        ("CURRENT_DATE > DATE '2024-01-01'", "TRUE"),
        nulls="never",
        deterministic=False,
        spark="current_date",
        question=native("today"),
        of_batch=True,
    ),
    scalar(
        "EXTRACT",
        "text temporal",
        BIGINT,
        "part of a time, `EXTRACT(unit FROM time)`: "
        + ", ".join(EXTRACT_UNITS)
        + " (weeks are ISO's; DOW: Sunday is 1; fractions are of the second)",
        ("EXTRACT(HOUR FROM TIMESTAMP '2024-01-31 10:11:12')", "10"),
        ("EXTRACT(EPOCH FROM TIMESTAMP '1970-01-02 00:00:00')", "86400"),
        spark=OfCall(_spark_extract),
        question=strict("times.part"),
        constants=(Constant("unit", 0, units=EXTRACT_UNITS),),
    ),
    _part("YEAR", "its year", "2024"),
    _part("QUARTER", "its quarter, 1 to 4", "1"),
    _part("MONTH", "its month, 1 to 12", "2"),
    _part("WEEK", "its ISO week", "5"),
    _part("DAYOFYEAR", "its day in the year", "34", "DOY"),
    _part("DAYOFMONTH", "its day in the month", "3", "DAY"),
    _part("DAYOFWEEK", "1 (Sunday) to 7 (Saturday)", "7", "DOW"),
    _part("HOUR", "its hour", "14"),
    _part("MINUTE", "its minute", "15"),
    _part("SECOND", "its second", "16"),
    scalar(
        "TIMESTAMPDIFF",
        "text temporal temporal",
        BIGINT,
        "whole units from the second to the third, `TIMESTAMPDIFF(unit, from, to)`: "
        + ", ".join(TIME_UNITS)
        + "; months count as TIMESTAMPADD can move the earlier time without passing the later one",
        ("TIMESTAMPDIFF(HOUR, TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-02 01:59:00')", "25"),
        ("TIMESTAMPDIFF(MONTH, DATE '2024-01-31', DATE '2024-02-29')", "1"),
        spark=OfCall(_spark_difference),
        question=strict("times.difference"),
        constants=(Constant("unit", 0, units=TIME_UNITS),),
    ),
    scalar(
        "TIMESTAMPADD",
        "text integer timestamp",
        last,
        "a time moved by that many units, `TIMESTAMPADD(unit, number, time)`; a DATE is moved by `+ INTERVAL`",
        ("TIMESTAMPADD(MINUTE, 90, TIMESTAMP '2024-01-01 00:00:00')", "TIMESTAMP '2024-01-01 01:30:00'"),
        spark=OfCall(_spark_added),
        question=strict("times.added"),
        constants=(Constant("unit", 0, units=TIME_UNITS),),
    ),
    scalar(
        "TIME_FLOOR",
        "text temporal",
        last,
        "`FLOOR(time TO unit)`: the start of the unit the time is in; weeks begin on Monday",
        ("FLOOR(TIMESTAMP '2024-05-17 10:11:12' TO HOUR)", "TIMESTAMP '2024-05-17 10:00:00'"),
        ("FLOOR(TIMESTAMP '2024-05-17 10:11:12' TO QUARTER)", "TIMESTAMP '2024-04-01 00:00:00'"),
        ("FLOOR(DATE '2024-05-17' TO MONTH)", "DATE '2024-05-01'"),
        spark=OfCall(_spark_floor),
        question=strict("times.floor"),
        constants=(Constant("unit", 0, units=TIME_UNITS),),
    ),
    scalar(
        "TIME_CEIL",
        "text temporal",
        last,
        "`CEIL(time TO unit)`: the next start of a unit, or the time itself if it is one",
        ("CEIL(TIMESTAMP '2024-05-17 10:11:12' TO DAY)", "TIMESTAMP '2024-05-18 00:00:00'"),
        ("CEIL(TIMESTAMP '2024-05-01 00:00:00' TO MONTH)", "TIMESTAMP '2024-05-01 00:00:00'"),
        spark=OfCall(_spark_ceil),
        question=strict("times.ceil"),
        constants=(Constant("unit", 0, units=TIME_UNITS),),
    ),
)
