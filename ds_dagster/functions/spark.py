"""The meaning of a function on Spark. Nothing here imports pyspark: ``spark/`` passes its functions and columns in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import types as spark_types

MOST_PLACES = 2**31 - 1
"""The largest INTEGER."""
Functions = Any
"""The module ``pyspark.sql.functions``."""


class Java(Protocol):
    """Columns that methods of our jar compute."""

    def time_of_text(self, text: Column, pattern: Column) -> Column:
        """Milliseconds since 1970 (BIGINT) of a text whose start matches a pattern of SimpleDateFormat."""

    def to_digits(self, call: SparkCall, mode: Literal["HALF_UP", "DOWN"]) -> Column:
        """The first argument, rounded or cut to as many decimals as the second says (default 0), in its own type."""

    def json(self, value: Column, type_: spark_types.DataType) -> Column:
        """A value of that type as a JSON text; NULL stays NULL."""

    def negated(self, number: Column, type_: spark_types.DataType) -> Column:
        """A number with the other sign; a DECIMAL keeps all its digits."""

    def scalar(self, method: str, *columns: Column) -> Column:
        """A method of a class of ``dsdagster.scalar`` over columns: ``JsonTexts.value``."""


class SparkCall(Protocol):
    """One call."""

    @property
    def columns(self) -> list[Column]:
        """The arguments, left to right."""

    @property
    def java(self) -> Java:
        """The methods of our jar."""

    def literal(self, position: int) -> str | None:
        """Text of an argument that is written as a text literal, else None."""

    def function(self, position: int) -> str:
        """Name of the function an argument calls, empty for any other expression."""

    def type_of(self, position: int) -> spark_types.DataType:
        """Spark's type of an argument."""


@dataclass(frozen=True, slots=True)
class OfCall:
    """A meaning that needs more than the columns of a call: literals, types, our jar."""

    build: Callable[[Functions, SparkCall], Any]


def by_java(method: str) -> OfCall:
    """A method of our jar over the arguments, see :meth:`Java.scalar`."""
    return OfCall(lambda _, call: call.java.scalar(method, *call.columns))


def limited(f: Functions, number: Column) -> Any:
    """A whole number as the nearest INTEGER: one that is too large becomes the largest."""
    most = f.lit(MOST_PLACES)
    return f.when(number > most, most).when(number < -most, -most).otherwise(number).cast("int")


OUTSIDE_OF_YEARS = "a time lies outside of the years 0001 to 9999"
LEAST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""First and last second of the years 0001 to 9999, in seconds since 1970."""


def in_years(f: Functions, time: Column, *, safe: bool = False) -> Column:
    """A DATE or TIMESTAMP of the years 0001 to 9999, which the types of the dialect hold; for other years the row
    fails, or with ``safe`` the value is NULL."""
    fails = f.lit(None) if safe else f.raise_error(f.lit(OUTSIDE_OF_YEARS))
    # Spark's tree repeats the time wherever it stands here, so that casts of casts grow with a power of it
    held: Column = f.when(f.abs(f.year(time) - 5000) >= 5000, fails).otherwise(time)
    return held


def moment(f: Functions, number: Column, per_second: int, *, safe: bool = False, decimal: bool = False) -> Column:
    """TIMESTAMP_LTZ of a number of seconds (``per_second`` 1, fraction cut to milliseconds) or milliseconds (1000)
    since 1970. Outside of the years 0001 to 9999 the row fails, or with ``safe`` the value is NULL: Spark's functions
    overflow there, and their exception does not show that a row caused it. ``decimal``: the number is a DECIMAL."""
    fails = f.lit(None) if safe else f.raise_error(f.lit(OUTSIDE_OF_YEARS))
    is_held = (number >= LEAST_SECOND * per_second) & (number < (LAST_SECOND + 1) * per_second)
    millis = number if per_second == 1000 else _millis(f, number, decimal=decimal)
    time = f.timestamp_millis(millis.cast("bigint"))
    held: Column = f.when(~is_held, fails).otherwise(time)
    return held


def _millis(f: Functions, seconds: Column, *, decimal: bool) -> Any:
    """Milliseconds of seconds. Spark would round the product of a DECIMAL that has more than 38 digits."""
    if not decimal:
        return seconds * f.lit(1000).cast("bigint")  # beyond INTEGER
    fraction = (seconds % f.lit(1)) * f.lit(1000).cast("decimal(4,0)")
    return seconds.cast("bigint") * 1000 + fraction.cast("bigint")


def of_places(meaning: str | Callable[..., Any]) -> OfCall:
    """A meaning whose whole numbers are places or lengths: a BIGINT beyond INTEGER becomes the largest INTEGER."""

    def build(f: Functions, call: SparkCall) -> Any:
        is_long = [call.type_of(position).typeName() == "long" for position in range(len(call.columns))]
        columns = [limited(f, column) if long else column for column, long in zip(call.columns, is_long, strict=True)]
        return f.call_function(meaning, *columns) if isinstance(meaning, str) else meaning(f, *columns)

    return OfCall(build)


SparkMeaning = str | Callable[..., Any] | OfCall
"""The name of a function of Spark SQL with the same arguments and meaning; or a function of Spark's functions and the
arguments' columns that gives a column, ``lambda f, text, count: f.left(text, count)``; or :class:`OfCall`."""
