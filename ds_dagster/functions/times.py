"""Functions of dates and times; everything is in UTC, patterns are Java's. Names and meanings are Flink SQL's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ds_dagster.datatypes import BIGINT, DATE, TIMESTAMP, TIMESTAMP_LTZ, VARCHAR, DataType, Scalar
from ds_dagster.functions.function import Example, Function, last, signature, simple

TIME_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
"""Units of TIMESTAMPDIFF and TIMESTAMPADD."""
EXTRACT_UNITS = (*TIME_UNITS, "DOY", "DOW", "ISODOW", "EPOCH")
"""Parts EXTRACT gives."""


def _part(name: str, meaning: str, gives: str) -> Function:
    example = (f"{name}(TIMESTAMP '2024-02-03 14:15:16')", gives)
    return simple(name, "temporal", BIGINT, meaning, example)


def _other_time(types: Sequence[DataType]) -> DataType:
    """TIMESTAMP ↔ TIMESTAMP_LTZ, with as many digits."""
    time = types[0]
    assert isinstance(time, Scalar)
    return replace(time, name="TIMESTAMP" if time.name == "TIMESTAMP_LTZ" else "TIMESTAMP_LTZ")


TIME_FUNCTIONS: tuple[Function, ...] = (
    simple(
        "TO_DATE",
        "text text?",
        DATE,
        "text to DATE by a pattern (yyyy-MM-dd), which it may go on behind; NULL when it does not begin so",
        ("TO_DATE('31.01.2024', 'dd.MM.yyyy')", "DATE '2024-01-31'"),
        ("TO_DATE('2024-13-01')", "NULL"),
        nulls="always",
    ),
    simple(
        "TO_TIMESTAMP",
        "text text?",
        TIMESTAMP,
        "text to TIMESTAMP by a pattern (yyyy-MM-dd HH:mm:ss); NULL when it does not match",
        ("TO_TIMESTAMP('31.01.2024', 'dd.MM.yyyy')", "TIMESTAMP '2024-01-31 00:00:00'"),
        nulls="always",
    ),
    Function(
        "TO_TIMESTAMP_LTZ",
        (
            signature("number integer", TIMESTAMP_LTZ),
            signature("number", TIMESTAMP_LTZ),
            signature("text text?", TIMESTAMP_LTZ),
        ),
        "epoch number with precision 0 (seconds) or 3 (milliseconds, default), or text by a pattern in UTC",
        nulls="always",
        examples=(Example("DATE_FORMAT(TO_TIMESTAMP_LTZ(1700000000, 0), 'HH:mm:ss')", "'22:13:20'"),),
    ),
    simple(
        "FROM_UNIXTIME",
        "integer text?",
        VARCHAR,
        "epoch seconds as text by a pattern",
        ("FROM_UNIXTIME(0)", "'1970-01-01 00:00:00'"),
    ),
    simple(
        "UNIX_TIMESTAMP",
        "text? text?",
        BIGINT,
        "epoch seconds of a text by a pattern of SimpleDateFormat, which it may go on behind; without arguments: now",
        ("UNIX_TIMESTAMP('1970-01-01 00:01:00')", "60"),
        nulls="always",
    ),
    Function(
        "DATE_FORMAT",
        (signature("temporal text", VARCHAR), signature("text text", VARCHAR)),
        "a timestamp (or its text) as text by a pattern",
        examples=(Example("DATE_FORMAT(TIMESTAMP '2024-01-31 10:11:12', 'yyyy/MM')", "'2024/01'"),),
    ),
    simple(
        "CONVERT_TZ",
        "text text text",
        VARCHAR,
        "a text that begins yyyy-MM-dd HH:mm:ss of one time zone in another one; NULL when it is not such a text",
        ("CONVERT_TZ('2024-07-01 12:00:00', 'UTC', 'Europe/Berlin')", "'2024-07-01 14:00:00'"),
        nulls="always",
    ),
    Function(
        "AT_TIME_ZONE",
        (signature("timestamp text", _other_time),),
        "`time AT TIME ZONE 'zone'`: a TIMESTAMP is taken for the clock of that zone and gives the moment, "
        "TIMESTAMP_LTZ; a TIMESTAMP_LTZ gives what that clock shows, TIMESTAMP. Hours that a clock skips are read as "
        "the clock before, hours that come twice are the first ones",
        examples=(
            Example("TIMESTAMP '2024-07-01 14:00:00' AT TIME ZONE 'Europe/Berlin'", "TO_TIMESTAMP_LTZ(1719835200, 0)"),
            Example("TO_TIMESTAMP_LTZ(0, 3) AT TIME ZONE 'Asia/Tokyo'", "TIMESTAMP '1970-01-01 09:00:00'"),
        ),
    ),
    simple(
        "CURRENT_TIMESTAMP",
        "",
        TIMESTAMP_LTZ,
        "time of the batch",
        nulls="never",
        deterministic=False,
        aliases=("NOW", "LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP"),
    ),
    simple("CURRENT_DATE", "", DATE, "day of the batch", nulls="never", deterministic=False),
    simple(
        "EXTRACT",
        "text temporal",
        BIGINT,
        "part of a time, `EXTRACT(unit FROM time)`: "
        + ", ".join(EXTRACT_UNITS)
        + " (weeks are ISO's; DOW: Sunday is 1)",
        ("EXTRACT(HOUR FROM TIMESTAMP '2024-01-31 10:11:12')", "10"),
        ("EXTRACT(EPOCH FROM TIMESTAMP '1970-01-02 00:00:00')", "86400"),
    ),
    _part("YEAR", "its year", "2024"),
    _part("QUARTER", "its quarter, 1 to 4", "1"),
    _part("MONTH", "its month, 1 to 12", "2"),
    _part("WEEK", "its ISO week", "5"),
    _part("DAYOFYEAR", "its day in the year", "34"),
    _part("DAYOFMONTH", "its day in the month", "3"),
    _part("DAYOFWEEK", "1 (Sunday) to 7 (Saturday)", "7"),
    _part("HOUR", "its hour", "14"),
    _part("MINUTE", "its minute", "15"),
    _part("SECOND", "its second", "16"),
    simple(
        "TIMESTAMPDIFF",
        "text temporal temporal",
        BIGINT,
        "whole units from the second to the third, `TIMESTAMPDIFF(unit, from, to)`: " + ", ".join(TIME_UNITS),
        ("TIMESTAMPDIFF(HOUR, TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-02 01:59:00')", "25"),
        ("TIMESTAMPDIFF(MONTH, DATE '2024-01-31', DATE '2024-02-29')", "0"),
    ),
    simple(
        "TIMESTAMPADD",
        "text integer timestamp",
        last,
        "a time moved by so many units, `TIMESTAMPADD(unit, number, time)`; a DATE is moved by `+ INTERVAL`",
        ("TIMESTAMPADD(MINUTE, 90, TIMESTAMP '2024-01-01 00:00:00')", "TIMESTAMP '2024-01-01 01:30:00'"),
    ),
    simple(
        "TIME_FLOOR",
        "text timestamp",
        last,
        "`FLOOR(time TO unit)`: the start of the unit the time is in",
        ("FLOOR(TIMESTAMP '2024-05-17 10:11:12' TO HOUR)", "TIMESTAMP '2024-05-17 10:00:00'"),
        ("FLOOR(TIMESTAMP '2024-05-17 10:11:12' TO QUARTER)", "TIMESTAMP '2024-04-01 00:00:00'"),
    ),
    simple(
        "TIME_CEIL",
        "text timestamp",
        last,
        "`CEIL(time TO unit)`: the next start of a unit, or the time itself when it is one",
        ("CEIL(TIMESTAMP '2024-05-17 10:11:12' TO DAY)", "TIMESTAMP '2024-05-18 00:00:00'"),
        ("CEIL(TIMESTAMP '2024-05-01 00:00:00' TO MONTH)", "TIMESTAMP '2024-05-01 00:00:00'"),
    ),
)
