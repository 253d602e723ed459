"""How Spark computes the functions of ``functions/times.py``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.spark.functions.calls import Arguments, Scalar, plain
from ds_dagster.spark.functions.java_values import time_of_text

DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
DATE_PATTERN = "yyyy-MM-dd"


def _time_of_text(arguments: Arguments) -> Column:
    return sf.try_to_timestamp(*arguments.columns)


def _time_at_the_start(text: Column, pattern: Column) -> Column:
    """TIMESTAMP_LTZ of a text that begins by the pattern."""
    return sf.timestamp_millis(time_of_text(text, pattern))


def _to_date(arguments: Arguments) -> Column:
    text, *pattern = arguments.columns
    return _time_at_the_start(text, pattern[0] if pattern else sf.lit(DATE_PATTERN)).cast("date")


def _to_timestamp_ltz(arguments: Arguments) -> Column:
    if isinstance(arguments.type_of(0), spark_types.StringType):
        return _time_of_text(arguments)
    number, *precision = arguments.columns
    millis = sf.timestamp_millis(number.cast("bigint"))
    return sf.when(precision[0] == 0, sf.timestamp_seconds(number)).otherwise(millis) if precision else millis


def _from_unixtime(arguments: Arguments) -> Column:
    seconds, *pattern = arguments.columns
    return sf.call_function("from_unixtime", seconds, pattern[0] if pattern else sf.lit(DEFAULT_PATTERN))


def _unix_timestamp(arguments: Arguments) -> Column:
    if len(arguments.columns) == 2:
        return sf.unix_seconds(_time_at_the_start(*arguments.columns))
    return sf.unix_seconds(_time_of_text(arguments) if arguments.columns else sf.current_timestamp())


def _date_format(arguments: Arguments) -> Column:
    value, pattern = arguments.columns
    if isinstance(arguments.type_of(0), spark_types.StringType):
        value = sf.try_to_timestamp(value)
    return sf.call_function("date_format", value, pattern)


def _convert_tz(arguments: Arguments) -> Column:
    text, source, target = arguments.columns
    moment = sf.to_utc_timestamp(_time_at_the_start(text, sf.lit(DEFAULT_PATTERN)), source)
    return sf.date_format(sf.from_utc_timestamp(moment, target), DEFAULT_PATTERN)


def _at_time_zone(arguments: Arguments) -> Column:
    time, zone = arguments.columns
    if isinstance(arguments.type_of(0), spark_types.TimestampNTZType):
        return sf.to_utc_timestamp(time.cast("timestamp"), zone)
    return sf.from_utc_timestamp(time, zone).cast("timestamp_ntz")


def _unit(arguments: Arguments) -> str:
    return str(arguments.literal(0)).upper()


def _epoch_seconds(time: Column) -> Column:
    return sf.unix_seconds(time.cast("timestamp"))


def _milliseconds(time: Column) -> Column:
    """Of the second."""
    return sf.pmod(sf.unix_millis(time.cast("timestamp")), sf.lit(1000))


def _extract(arguments: Arguments) -> Column:
    unit, time = _unit(arguments), arguments.columns[1]
    own = {"EPOCH": _epoch_seconds, "MILLISECOND": _milliseconds}.get(unit)
    isoday = {"ISODOW": "DOW_ISO"}.get(unit, unit)
    return (own(time) if own else sf.date_part(sf.lit(isoday), time)).cast("bigint")


def _part(unit: str) -> Scalar:
    return lambda arguments: sf.date_part(sf.lit(unit), arguments.columns[0]).cast("bigint")


def _difference(arguments: Arguments) -> Column:
    _, begin, end = arguments.columns
    return sf.timestamp_diff(_unit(arguments), begin.cast("timestamp"), end.cast("timestamp"))


def _moved(unit: str, number: Column, time: Column) -> Column:
    return sf.timestamp_add(unit, number, time)


def _added(arguments: Arguments) -> Column:
    _, number, time = arguments.columns
    return _moved(_unit(arguments), number, time).cast(arguments.type_of(2))


def _floor(arguments: Arguments) -> Column:
    time = arguments.columns[1]
    return sf.date_trunc(_unit(arguments), time).cast(arguments.type_of(1))


def _ceil(arguments: Arguments) -> Column:
    time, floor = arguments.columns[1], _floor(arguments)
    above = _moved(_unit(arguments), sf.lit(1), floor).cast(arguments.type_of(1))
    return sf.when(floor == time, time).otherwise(above)


TIME_FUNCTIONS: Mapping[str, Scalar] = MappingProxyType(
    {
        "TO_DATE": _to_date,
        "TO_TIMESTAMP": lambda a: _time_of_text(a).cast("timestamp_ntz"),
        "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
        "FROM_UNIXTIME": _from_unixtime,
        "UNIX_TIMESTAMP": _unix_timestamp,
        "DATE_FORMAT": _date_format,
        "CONVERT_TZ": _convert_tz,
        "AT_TIME_ZONE": _at_time_zone,
        "CURRENT_TIMESTAMP": plain(sf.current_timestamp),
        "CURRENT_DATE": plain(sf.current_date),
        "EXTRACT": _extract,
        "YEAR": _part("YEAR"),
        "QUARTER": _part("QUARTER"),
        "MONTH": _part("MONTH"),
        "WEEK": _part("WEEK"),
        "DAYOFYEAR": _part("DOY"),
        "DAYOFMONTH": _part("DAY"),
        "DAYOFWEEK": _part("DOW"),
        "HOUR": _part("HOUR"),
        "MINUTE": _part("MINUTE"),
        "SECOND": _part("SECOND"),
        "TIMESTAMPDIFF": _difference,
        "TIMESTAMPADD": _added,
        "TIME_FLOOR": _floor,
        "TIME_CEIL": _ceil,
    }
)
"""Function → Spark."""
