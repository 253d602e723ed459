"""CAST on Spark, with the dialect's results (Flink's) where Spark's differ.

Text of a time has the digits that its type declares, BOOLEAN is ``TRUE`` or ``FALSE``, nested values are ``[1, NULL]``,
``{a=1}`` and ``(1, x)``; text with a fraction becomes a whole number without it; a time is cut to the digits of its
type. The tables in tests/fixtures/scalars check this for every engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as sf

from ds_dagster.datatypes import (
    FLOATS,
    INTEGERS,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructType,
    is_temporal,
    is_text,
)
from ds_dagster.functions.spark import in_years
from ds_dagster.functions.values.casts import MOMENT_OF_CAST, TIME_OF_DAY
from ds_dagster.spark.functions import java_values
from ds_dagster.spark.records.typemap import spark_sql

DEFAULT_DIGITS: Mapping[str, int] = MappingProxyType({"TIME": 0, "TIMESTAMP": 3, "TIMESTAMP_LTZ": 3})
"""Type of a time without a precision → digits of the second in its text."""
_STORED_DIGITS = 6
_MOMENT, _OF_DAY = (rf"^\s*(?:{pattern.pattern})\s*$" for pattern in (MOMENT_OF_CAST, TIME_OF_DAY))
_READ_BY: Mapping[str, str] = MappingProxyType({"TIMESTAMP": _MOMENT, "TIMESTAMP_LTZ": _MOMENT, "TIME": _OF_DAY})
"""Type of a time → the texts that CAST reads as one."""
_WHOLE_PART = r"^(\s*[+-]?\d+)\.\d*(\s*)$"


def converted(value: Column, source: DataType | None, target: DataType, *, safe: bool) -> Column:
    """A value as another type.

    Args:
        value: a column of the source's type.
        source: None for NULL without a type.
        target: type of the result.
        safe: TRY_CAST: NULL instead of a failure.
    """
    if source is None:
        return value.cast(spark_sql(target))
    if isinstance(target, Scalar):
        return _sized(_as_scalar(value, source, target, safe=safe), source, target)
    if _differs(source, target):
        if isinstance(source, ArrayType) and isinstance(target, ArrayType):
            return _array(value, source, target, safe)
        if isinstance(source, MapType) and isinstance(target, MapType):
            return _map(value, source, target, safe)
        if isinstance(source, StructType) and isinstance(target, StructType):
            return _struct(value, source, target, safe)
    return _plain(value, target, safe=safe)


def _plain(value: Column, target: DataType, *, safe: bool) -> Column:
    return value.try_cast(spark_sql(target)) if safe else value.cast(spark_sql(target))


def _as_scalar(value: Column, source: DataType, target: Scalar, *, safe: bool) -> Column:
    if target.name == "VARCHAR":
        return text_of(value, source)
    if isinstance(source, Scalar) and source.name == "VARCHAR" and target.name in INTEGERS:
        has_fraction = sf.contains(value, sf.lit("."))
        value = sf.when(has_fraction, sf.regexp_replace(value, _WHOLE_PART, "$1$2")).otherwise(value)
    if is_text(source) and target.name in _READ_BY:
        value = _readable(value, _READ_BY[target.name])
    if target.name == "TIME" and is_temporal(source):  # Spark has no such cast
        value = sf.date_format(value, "HH:mm:ss.SSSSSS")
    converted_value = _plain(value, target, safe=safe)
    if is_text(source) and (target.name == "DATE" or is_temporal(target)):
        return in_years(sf, converted_value, safe=safe)
    from_float = isinstance(source, Scalar) and source.name in FLOATS
    if from_float and target.name == "DECIMAL" and not safe:
        return _finite_or_failing(value, converted_value, target)
    return converted_value


def _readable(value: Column, pattern: str) -> Column:
    """The text if it matches, else one that Spark refuses too: it reads 12:34 PM, zones by their names, and a time of
    day as that of today."""
    quoted = sf.concat(sf.lit("'"), value, sf.lit("'"))
    return sf.when(sf.rlike(value, sf.lit(pattern)), value).otherwise(quoted)


def _finite_or_failing(value: Column, result: Column, target: Scalar) -> Column:
    """The result, or a failure for NaN and Infinity: Spark converts them to NULL, but the cast of their texts fails."""
    fails = value.cast("string").cast(spark_sql(target))
    return sf.when(value.isNull() | (sf.abs(value) < sf.lit(float("inf"))), result).otherwise(fails)


def _sized(value: Column, source: DataType, target: Scalar) -> Column:
    """The value, cut to the length or the digits that the target declares."""
    if target.length is not None:
        fits = isinstance(source, Scalar) and source.length is not None and source.length <= target.length
        return value if fits and isinstance(source, Scalar) and source.name == target.name else _left(value, target)
    if target.name in DEFAULT_DIGITS and target.precision is not None and target.precision < _STORED_DIGITS:
        return _cut(value, target, target.precision)
    return value


def _left(value: Column, target: Scalar) -> Column:
    return sf.substring(value, 1, target.length or 0)


def _cut(value: Column, target: Scalar, digits: int) -> Column:
    """A time, cut to so many digits of the fraction."""
    if target.name == "TIME":
        shown = len("12:34:56") + (1 + digits if digits else 0)
        return sf.substring(value.cast("string"), 1, shown).cast(spark_sql(target))
    step = 10 ** (_STORED_DIGITS - digits)
    micros = sf.unix_micros(value.cast("timestamp"))
    return sf.timestamp_micros(micros - sf.pmod(micros, sf.lit(step))).cast(spark_sql(target))


# --- text -------------------------------------------------------------------------------------------------------------


def text_of(value: Column, type_: DataType) -> Column:
    """The text of a value; NULL stays NULL."""
    if isinstance(type_, ArrayType):
        texts = sf.transform(value, lambda item: _shown(item, type_.element))
        return sf.concat(sf.lit("["), sf.array_join(texts, ", "), sf.lit("]"))
    if isinstance(type_, MapType):
        return _text_of_map(value, type_)
    if isinstance(type_, StructType):
        parts = [_shown(value.getField(field.name), field.type) for field in type_.fields]
        return sf.when(value.isNotNull(), sf.concat(sf.lit("("), sf.concat_ws(", ", *parts), sf.lit(")")))
    if type_.name == "BOOLEAN":
        return sf.when(value, sf.lit("TRUE")).when(~value, sf.lit("FALSE"))
    if type_.name == "DECIMAL":
        value = value.cast(spark_sql(type_))  # Spark may compute with more digits than the type has
    if type_.name in FLOATS:  # Spark may compute a FLOAT as a double
        return java_values.scalar("FloatTexts.of" + type_.name.capitalize(), value.cast(spark_sql(type_)))
    if type_.name == "VARBINARY":
        return sf.make_valid_utf8(value.cast("string"))
    return _text_of_time(value, type_) if type_.name in DEFAULT_DIGITS else value.cast("string")


def _text_of_map(value: Column, type_: MapType) -> Column:
    def entry(pair: Column) -> Column:
        key, item = _shown(pair.getField("key"), type_.key), _shown(pair.getField("value"), type_.value)
        return sf.concat(key, sf.lit("="), item)

    return sf.concat(sf.lit("{"), sf.array_join(sf.transform(sf.map_entries(value), entry), ", "), sf.lit("}"))


def _shown(value: Column, type_: DataType) -> Column:
    return sf.coalesce(text_of(value, type_), sf.lit("NULL"))


def _text_of_time(value: Column, type_: Scalar) -> Column:
    digits = DEFAULT_DIGITS[type_.name] if type_.precision is None else type_.precision
    if type_.name != "TIME":
        return sf.date_format(value, "yyyy-MM-dd HH:mm:ss" + ("." + "S" * digits if digits else ""))
    text = value.cast("string")  # Spark has no pattern for TIME, and drops trailing zeros
    whole, fraction = sf.substring(text, 1, 8), sf.substring(text, 10, _STORED_DIGITS)
    return sf.concat(whole, sf.lit("."), sf.rpad(fraction, digits, "0")) if digits else whole


# --- nested types -----------------------------------------------------------------------------------------------------


def _differs(source: DataType, target: DataType) -> bool:
    """Whether the types differ in some part, so that Spark's own cast is not used for the whole."""
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return _differs(source.element, target.element)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return _differs(source.key, target.key) or _differs(source.value, target.value)
    if isinstance(source, StructType) and isinstance(target, StructType):
        pairs = zip(source.fields, target.fields, strict=True)
        return any(_differs(source.type, other.type) for source, other in pairs)
    return source != target


def _array(value: Column, source: ArrayType, target: ArrayType, safe: bool) -> Column:
    return sf.transform(value, lambda item: converted(item, source.element, target.element, safe=safe))


def _map(value: Column, source: MapType, target: MapType, safe: bool) -> Column:
    keys = sf.transform(sf.map_keys(value), lambda key: converted(key, source.key, target.key, safe=safe))
    items = sf.transform(sf.map_values(value), lambda item: converted(item, source.value, target.value, safe=safe))
    return sf.map_from_arrays(keys, items)


def _struct(value: Column, source: StructType, target: StructType, safe: bool) -> Column:
    pairs = zip(source.fields, target.fields, strict=True)
    parts = [
        converted(value.getField(own.name), own.type, other.type, safe=safe).alias(other.name) for own, other in pairs
    ]
    return sf.when(value.isNotNull(), sf.struct(*parts)).cast(spark_sql(target))
