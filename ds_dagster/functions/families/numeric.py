"""Functions of numbers, Flink SQL's names and meanings; each record gives the result outside the function's domain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

from sqlglot import exp

from ds_dagster.datatypes import (
    BIGINT,
    DOUBLE,
    INTEGER,
    MAX_DECIMAL_PRECISION,
    DataType,
    Scalar,
    decimal,
)
from ds_dagster.functions.function import DigitsRule, RowFunction, first, scalar
from ds_dagster.functions.question import Call, Computed, Native, native, strict
from ds_dagster.functions.spark import Functions, OfCall, SparkCall

# --- types ------------------------------------------------------------------------------------------------------------


def _whole(types: Sequence[DataType]) -> DataType:
    type_ = types[0]
    if isinstance(type_, Scalar) and type_.name == "DECIMAL":
        return decimal(min((type_.precision or 10) - (type_.scale or 0) + 1, 38), 0)
    return type_


def _rounded(types: Sequence[DataType], digits: Sequence[int | None]) -> DataType:
    """A DECIMAL with the remaining digits after the point, and one more before it: 99.9 becomes 100."""
    type_ = types[0]
    if not isinstance(type_, Scalar) or type_.name != "DECIMAL":
        return type_
    left = 0 if len(types) == 1 else digits[1]
    precision, scale = type_.precision or 10, type_.scale or 0
    if left is not None and left >= scale:
        return type_
    digits_left = scale if left is None else max(left, 0)
    return decimal(min(precision - scale + 1 + digits_left, MAX_DECIMAL_PRECISION), digits_left)


# --- Spark ------------------------------------------------------------------------------------------------------------


WHOLE_FROM = 2.0**53
"""Doubles of this size and above have no fraction."""


def _spark_sign(f: Functions, call: SparkCall) -> Any:
    """Spark makes a DOUBLE of every number."""
    return f.sign(*call.columns).cast(call.type_of(0))


def _spark_modulo(f: Functions, call: SparkCall) -> Any:
    """Floats by zero give NaN, where Spark fails; other numbers by zero fail."""
    left, right = call.columns
    if {call.type_of(0).typeName(), call.type_of(1).typeName()}.isdisjoint(("float", "double")):
        return left % right
    by_zero = f.when(left.isNotNull(), f.lit(math.nan))
    return f.when(right == 0, by_zero).otherwise(left % right)


def _spark_absolute(f: Functions, call: SparkCall) -> Any:
    (number,) = call.columns
    return f.when(number < 0, call.java.negated(number, call.type_of(0))).otherwise(f.abs(number))


def _spark_whole(name: str) -> OfCall:
    """FLOOR, CEIL: Spark makes a BIGINT of FLOAT and DOUBLE, which cannot hold large numbers, NaN and infinity."""

    def build(f: Functions, call: SparkCall) -> Any:
        type_, (number,) = call.type_of(0), call.columns
        whole = f.call_function(name, number)
        if type_.typeName() == "decimal":
            return whole
        if type_.typeName() not in ("float", "double"):
            return whole.cast(type_)
        return f.when(f.abs(number) < WHOLE_FROM, whole.cast(type_)).otherwise(number)

    return OfCall(build)


def _spark_logarithm(f: Functions, *columns: Any) -> Any:
    if len(columns) == 1:
        return f.ln(columns[0])
    base, value = columns
    return f.when(base != 1, f.call_function("log", base, value))


# --- questions --------------------------------------------------------------------------------------------------------


def _like_result(rounding: str) -> Computed:
    """A number with that many decimals, in the result's type; NULL if the type cannot hold it."""

    def make(call: Call) -> Callable[..., Any]:
        from ds_dagster.functions.values.casts import rounded

        return lambda value, digits=0: rounded(value, digits, rounding, call.result)

    return Computed(make)


def _signed(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isnan(value) or value == 0 else math.copysign(1.0, value)
    return type(value)((value > 0) - (value < 0))


def _modulo(left: Any, right: Any) -> Any:
    """The remainder, with the sign of ``left``."""
    from ds_dagster.functions.values.casts import EXACT

    if isinstance(left, float) or isinstance(right, float):
        return math.fmod(left, right) if right and not math.isinf(left) else math.nan
    if right == 0:
        raise ValueError("division by zero")
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (1 if left >= 0 else -1)
    return EXACT.remainder(Decimal(left), Decimal(right))


def _log(first: Any, second: Any = None) -> float | None:
    if second is None:
        return None if first <= 0 else math.log(first)
    return None if first <= 0 or second <= 0 or first == 1 else math.log(second) / math.log(first)


def _power(base: Any, exponent: Any) -> float:
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.nan if base else math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf
    except OverflowError:
        return math.inf if base > 0 or exponent % 2 == 0 else -math.inf


MOST_BUCKETS = 2**63 - 1


def _bucket(value: Any, low: Any, high: Any, count: int) -> int | None:
    if (
        not 0 < count < MOST_BUCKETS
        or low == high
        or math.isnan(value)
        or not (math.isfinite(low) and math.isfinite(high))
    ):
        return None
    position = (float(value) - float(low)) / (float(high) - float(low))
    return 0 if position < 0 else count + 1 if position >= 1 else int(position * count) + 1


def _cotangent(number: float) -> float:
    return 1 / math.tan(number) if number else math.copysign(math.inf, number)


def _arc_tangent_2(y: float, x: float) -> float:
    return math.atan2(float(y) + 0.0, float(x) + 0.0)  # of DECIMALs too; as on Spark, no zero is negative


def _random_below(bound: int) -> int:
    import random

    return random.randrange(bound)


# --- records ----------------------------------------------------------------------------------------------------------


def _curve(name: str, meaning: str, function: Callable[[float], float], *examples: tuple[str, str]) -> RowFunction:
    """A function of a DOUBLE, NaN outside its domain; Spark has it under the same name."""

    def value(number: Any) -> float:
        try:
            return function(float(number))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, function(math.copysign(1.0, number)))

    return scalar(name, "number", DOUBLE, meaning, *examples, spark=name.lower(), question=strict(value))


def _logarithm(name: str, meaning: str, function: Callable[[float], float], *examples: tuple[str, str]) -> RowFunction:
    """A logarithm, NULL for 0 and below; Spark has it under the same name."""
    value = strict(lambda number: None if number <= 0 else function(float(number)))
    text = f"{meaning}; NULL for 0 and below"
    return scalar(name, "number", DOUBLE, text, *examples, nulls="always", spark=name.lower(), question=value)


NUMBER_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "ABS",
        "number",
        first,
        "absolute value",
        ("ABS(-7)", "7"),
        spark=OfCall(_spark_absolute),
        question=native("abs"),
    ),
    scalar(
        "SIGN",
        "number",
        first,
        "-1, 0 or 1",
        ("SIGN(-7)", "-1"),
        spark=OfCall(_spark_sign),
        question=strict(_signed),
    ),
    scalar(
        "ROUND",
        "number integer?",
        DigitsRule(_rounded),
        "rounded half up, to that many decimals (default 0)",
        ("ROUND(2.345, 2)", "2.35"),
        spark=OfCall(lambda _, call: call.java.to_digits(call, "HALF_UP")),
        question=_like_result(ROUND_HALF_UP),
    ),
    scalar(
        "TRUNCATE",
        "number integer?",
        DigitsRule(_rounded),
        "cut towards zero, to that many decimals (default 0)",
        ("TRUNCATE(-2.349, 2)", "-2.34"),
        spark=OfCall(lambda _, call: call.java.to_digits(call, "DOWN")),
        question=_like_result(ROUND_DOWN),
    ),
    scalar(
        "FLOOR",
        "number",
        _whole,
        "largest whole number not above",
        ("FLOOR(-2.5)", "-3"),
        spark=_spark_whole("floor"),
        question=_like_result(ROUND_FLOOR),
    ),
    scalar(
        "CEIL",
        "number",
        _whole,
        "smallest whole number not below",
        ("CEIL(2.1)", "3"),
        aliases=("CEILING",),
        spark=_spark_whole("ceil"),
        question=_like_result(ROUND_CEILING),
    ),
    scalar(
        "MOD",
        "same_number same_number",
        first,
        "remainder with the sign of the first (also `%`)",
        ("MOD(-7, 2)", "-1"),
        spark=OfCall(_spark_modulo),
        question=strict(_modulo),
    ),
    scalar(
        "POWER",
        "number number",
        DOUBLE,
        "the first to the power of the second",
        ("POWER(2, 10)", "1024"),
        aliases=("POW",),
        spark="pow",
        question=strict(_power),
    ),
    _curve("SQRT", "square root; NaN below 0", math.sqrt, ("SQRT(16)", "4")),
    _curve("EXP", "e to that power", math.exp, ("EXP(0)", "1")),
    _logarithm("LN", "natural logarithm", math.log, ("LN(1)", "0"), ("LN(0)", "NULL")),
    _logarithm("LOG10", "logarithm to base 10", math.log10, ("LOG10(1000)", "3")),
    _logarithm("LOG2", "logarithm to base 2", math.log2, ("LOG2(8)", "3")),
    scalar(
        "LOG",
        "number number?",
        DOUBLE,
        "natural logarithm, or of the second to the base of the first; NULL outside the domain",
        ("LOG(2, 8)", "3"),
        nulls="always",
        spark=_spark_logarithm,
        question=strict(_log),
    ),
    _curve("SIN", "sine of radians", math.sin, ("SIN(0)", "0")),
    _curve("COS", "cosine of radians", math.cos, ("COS(0)", "1")),
    _curve("TAN", "tangent of radians", math.tan, ("TAN(0)", "0")),
    _curve("COT", "cotangent of radians", _cotangent, ("ROUND(COT(1), 4)", "0.6421")),
    _curve("ASIN", "arc sine; NaN outside -1 to 1", math.asin, ("ASIN(0)", "0")),
    _curve("ACOS", "arc cosine; NaN outside -1 to 1", math.acos, ("ACOS(1)", "0")),
    _curve("ATAN", "arc tangent", math.atan, ("ATAN(0)", "0")),
    _curve("SINH", "hyperbolic sine", math.sinh, ("SINH(0)", "0")),
    _curve("COSH", "hyperbolic cosine", math.cosh, ("COSH(0)", "1")),
    _curve("TANH", "hyperbolic tangent", math.tanh, ("TANH(0)", "0")),
    scalar(
        "ATAN2",
        "number number",
        DOUBLE,
        "angle of the point (second, first)",
        ("ATAN2(0, 1)", "0"),
        spark="atan2",
        question=strict(_arc_tangent_2),
    ),
    _curve("DEGREES", "radians in degrees", math.degrees, ("DEGREES(PI())", "180")),
    _curve("RADIANS", "degrees in radians", math.radians, ("RADIANS(180) = PI()", "TRUE")),
    scalar(
        "PI",
        "",
        DOUBLE,
        "3.14159…",
        ("ROUND(PI(), 5)", "3.14159"),
        nulls="never",
        spark="pi",
        question=native("pi"),
    ),
    scalar(
        "E",
        "",
        DOUBLE,
        "2.71828…",
        ("ROUND(E(), 5)", "2.71828"),
        nulls="never",
        spark="e",
        question=Native(lambda _: exp.Cast(this=exp.Literal.number(repr(math.e)), to=exp.DataType.build("DOUBLE"))),
    ),
    scalar(
        "RAND",
        "",
        DOUBLE,
        "random, from 0 to below 1, per row",
        ("RAND() < 1", "TRUE"),
        nulls="never",
        deterministic=False,
        spark=lambda f: f.rand(),
        question=native("random"),
    ),
    scalar(
        "RAND_INTEGER",
        "integer",
        INTEGER,
        "random, from 0 to below the argument, per row",
        ("RAND_INTEGER(3) < 3", "TRUE"),
        deterministic=False,
        spark=lambda f, bound: f.floor(f.rand() * bound).cast("int"),
        question=Computed(lambda _: _random_below, changes=True),
    ),
    scalar(
        "WIDTH_BUCKET",
        "number number number integer",
        BIGINT,
        "number of the part, from 1, that the first argument is in, if the range between two bounds is cut into that "
        "many equal parts; 0 below the range, one more than the last part above it",
        ("WIDTH_BUCKET(5, 0, 10, 5)", "3"),
        spark="width_bucket",
        question=strict(_bucket),
    ),
)
