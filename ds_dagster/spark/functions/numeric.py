"""How Spark computes the functions of ``functions/numeric.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.datatypes import MAX_DECIMAL_PRECISION
from ds_dagster.spark.functions.calls import Arguments, Scalar, named, plain
from ds_dagster.spark.functions.java_values import with_digits


def _like_first(function: Callable[..., Column]) -> Scalar:
    """FLOOR, CEIL, SIGN: Spark makes BIGINT or DOUBLE of small numbers; FLOOR and CEIL of decimals are as we want
    them."""

    def made(arguments: Arguments) -> Column:
        type_ = arguments.type_of(0)
        result = function(*arguments.columns)
        keeps = isinstance(type_, spark_types.DecimalType) and function is not sf.sign
        return result if keeps else result.cast(type_)

    return made


def _to_digits(mode: Literal["HALF_UP", "DOWN"]) -> Scalar:
    """ROUND and TRUNCATE. Whole numbers go through DECIMAL; a DECIMAL is one digit wider than its argument, and becomes
    the call's type."""

    def made(arguments: Arguments) -> Column:
        value, *digits = arguments.columns
        type_, places = arguments.type_of(0), digits[0] if digits else sf.lit(0)
        if isinstance(type_, spark_types.FloatType | spark_types.DoubleType):
            return with_digits(value, places, mode, type_)
        if isinstance(type_, spark_types.IntegralType):
            exact = spark_types.DecimalType(20, 0)
            return with_digits(value.cast(exact), places, mode, exact).cast(type_) if digits else value
        assert isinstance(type_, spark_types.DecimalType)
        wide = spark_types.DecimalType(min(type_.precision + 1, MAX_DECIMAL_PRECISION), type_.scale)
        return with_digits(value.cast(wide), places, mode, wide)

    return made


def _logarithm(arguments: Arguments) -> Column:
    if len(arguments.columns) == 1:
        return sf.ln(arguments.columns[0])
    base, value = arguments.columns
    return sf.when(base != 1, sf.call_function("log", base, value))


NUMBER_FUNCTIONS: Mapping[str, Scalar] = MappingProxyType(
    {
        "ABS": plain(sf.abs),
        "SIGN": _like_first(sf.sign),
        "ROUND": _to_digits("HALF_UP"),
        "TRUNCATE": _to_digits("DOWN"),
        "FLOOR": _like_first(sf.floor),
        "CEIL": _like_first(sf.ceil),
        "MOD": lambda a: a.columns[0] % a.columns[1],
        "POWER": plain(sf.pow),
        "SQRT": plain(sf.sqrt),
        "EXP": plain(sf.exp),
        "LN": plain(sf.ln),
        "LOG10": plain(sf.log10),
        "LOG2": plain(sf.log2),
        "LOG": _logarithm,
        "SIN": plain(sf.sin),
        "COS": plain(sf.cos),
        "TAN": plain(sf.tan),
        "COT": plain(sf.cot),
        "ASIN": plain(sf.asin),
        "ACOS": plain(sf.acos),
        "ATAN": plain(sf.atan),
        "SINH": plain(sf.sinh),
        "COSH": plain(sf.cosh),
        "TANH": plain(sf.tanh),
        "ATAN2": plain(sf.atan2),
        "DEGREES": plain(sf.degrees),
        "RADIANS": plain(sf.radians),
        "PI": plain(sf.pi),
        "E": plain(sf.e),
        "BIN": plain(sf.bin),
        "RAND": lambda _: sf.rand(),
        "RAND_INTEGER": lambda a: sf.floor(sf.rand() * a.columns[0]).cast("int"),
        "BITCOUNT": plain(sf.bit_count),
        "WIDTH_BUCKET": named("width_bucket"),
    }
)
"""Function → Spark."""
