"""Functions of numbers. Names and meanings are Flink SQL's; what happens outside a domain is told at each."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.datatypes import BIGINT, DOUBLE, INTEGER, MAX_DECIMAL_PRECISION, VARCHAR, DataType, Scalar, decimal
from ds_dagster.functions.function import DigitsRule, Function, first, simple


def _whole(types: Sequence[DataType]) -> DataType:
    type_ = types[0]
    if isinstance(type_, Scalar) and type_.name == "DECIMAL":
        return decimal(min((type_.precision or 10) - (type_.scale or 0) + 1, 38), 0)
    return type_


def _rounded(types: Sequence[DataType], digits: Sequence[int | None]) -> DataType:
    """A DECIMAL with the digits that are left behind the point, and one more before it: 99.9 becomes 100."""
    type_ = types[0]
    if not isinstance(type_, Scalar) or type_.name != "DECIMAL":
        return type_
    left = 0 if len(types) == 1 else digits[1]
    precision, scale = type_.precision or 10, type_.scale or 0
    if left is not None and left >= scale:
        return type_
    kept = scale if left is None else max(left, 0)
    return decimal(min(precision - scale + 1 + kept, MAX_DECIMAL_PRECISION), kept)


def _curve(name: str, meaning: str, *examples: tuple[str, str], domain: bool = True) -> Function:
    return simple(name, "number", DOUBLE, meaning, *examples, nulls="any" if domain else "always")


NUMBER_FUNCTIONS: tuple[Function, ...] = (
    simple("ABS", "number", first, "absolute value", ("ABS(-7)", "7")),
    simple("SIGN", "number", first, "-1, 0 or 1", ("SIGN(-7)", "-1")),
    simple(
        "ROUND",
        "number integer?",
        DigitsRule(_rounded),
        "half up, to that many decimals (0)",
        ("ROUND(2.345, 2)", "2.35"),
    ),
    simple(
        "TRUNCATE",
        "number integer?",
        DigitsRule(_rounded),
        "cut towards zero, to that many decimals (0)",
        ("TRUNCATE(-2.349, 2)", "-2.34"),
    ),
    simple("FLOOR", "number", _whole, "largest whole number not above", ("FLOOR(-2.5)", "-3")),
    simple("CEIL", "number", _whole, "smallest whole number not below", ("CEIL(2.1)", "3"), aliases=("CEILING",)),
    simple(
        "MOD", "same_number same_number", first, "remainder with the sign of the first (also `%`)", ("MOD(-7, 2)", "-1")
    ),
    simple(
        "POWER",
        "number number",
        DOUBLE,
        "the first to the power of the second",
        ("POWER(2, 10)", "1024"),
        aliases=("POW",),
    ),
    _curve("SQRT", "square root; NaN below 0", ("SQRT(16)", "4")),
    _curve("EXP", "e to that power", ("EXP(0)", "1")),
    _curve("LN", "natural logarithm; NULL for 0 and below", ("LN(1)", "0"), ("LN(0)", "NULL"), domain=False),
    _curve("LOG10", "logarithm to base 10; NULL for 0 and below", ("LOG10(1000)", "3"), domain=False),
    _curve("LOG2", "logarithm to base 2; NULL for 0 and below", ("LOG2(8)", "3"), domain=False),
    simple(
        "LOG",
        "number number?",
        DOUBLE,
        "natural logarithm, or of the second to the base of the first; NULL outside the domain",
        ("LOG(2, 8)", "3"),
        nulls="always",
    ),
    _curve("SIN", "sine of radians", ("SIN(0)", "0")),
    _curve("COS", "cosine of radians", ("COS(0)", "1")),
    _curve("TAN", "tangent of radians", ("TAN(0)", "0")),
    _curve("COT", "cotangent of radians", ("ROUND(COT(1), 4)", "0.6421")),
    _curve("ASIN", "arc sine; NaN outside -1 to 1", ("ASIN(0)", "0")),
    _curve("ACOS", "arc cosine; NaN outside -1 to 1", ("ACOS(1)", "0")),
    _curve("ATAN", "arc tangent", ("ATAN(0)", "0")),
    _curve("SINH", "hyperbolic sine", ("SINH(0)", "0")),
    _curve("COSH", "hyperbolic cosine", ("COSH(0)", "1")),
    _curve("TANH", "hyperbolic tangent", ("TANH(0)", "0")),
    simple("ATAN2", "number number", DOUBLE, "angle of the point (second, first)", ("ATAN2(0, 1)", "0")),
    _curve("DEGREES", "radians in degrees", ("DEGREES(PI())", "180")),
    _curve("RADIANS", "degrees in radians", ("RADIANS(180) = PI()", "TRUE")),
    simple("PI", "", DOUBLE, "3.14159…", ("ROUND(PI(), 5)", "3.14159"), nulls="never"),
    simple("E", "", DOUBLE, "2.71828…", ("ROUND(E(), 5)", "2.71828"), nulls="never"),
    simple("BIN", "integer", VARCHAR, "in binary digits", ("BIN(10)", "'1010'")),
    simple("RAND", "", DOUBLE, "random, from 0 to below 1, per row", nulls="never", deterministic=False),
    simple("RAND_INTEGER", "integer", INTEGER, "random, from 0 to below the argument, per row", deterministic=False),
    simple("BITCOUNT", "integer", INTEGER, "number of bits that are 1", ("BITCOUNT(7)", "3"), aliases=("BIT_COUNT",)),
    simple(
        "WIDTH_BUCKET",
        "number number number integer",
        BIGINT,
        "which of so many equal parts between two bounds a number falls into; 0 below, one more above",
        ("WIDTH_BUCKET(5, 0, 10, 5)", "3"),
    ),
)
