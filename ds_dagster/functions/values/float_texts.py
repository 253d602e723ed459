"""FLOAT and DOUBLE as text: what Java 19 and later write, which Spark on an older Java gets from
``dsdagster.scalar.FloatTexts``."""

from __future__ import annotations

import math
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from ds_dagster.datatypes import Scalar

LEAST_DOUBLE, LEAST_NORMAL_FLOAT = 5e-324, 2.0**-126
FEW_BITS = 1e-321
"""Smaller numbers have so few bits that two digits may give them where repr() writes one."""
INFINITE_BITS = 0x7F800000
"""Of the float that is infinite; the largest number is one below."""
MOST_DIGITS = 18
"""One more than a double needs."""


def double_text(value: float, _type: Scalar | None = None) -> str:
    """As Java writes a double: 1.0, 1.0E10, 1.0E-5, Infinity, NaN. The shortest digits, at least two, that give the
    same number."""
    if not math.isfinite(value) or abs(value) >= FEW_BITS or value == 0:
        return _java_text(value, Decimal(repr(value)))
    size = abs(value)
    bounds = (math.nextafter(size, 0), math.nextafter(size, math.inf))
    return _java_text(value, _shortest(size, bounds, is_even=Fraction(size) / Fraction(LEAST_DOUBLE) % 2 == 0))


def float_text(value: float, _type: Scalar | None = None) -> str:
    """The same of a number of 32 bits."""
    size = abs(value)
    few = f"{size:.6g}"
    if not math.isfinite(value) or size == 0 or (size >= LEAST_NORMAL_FLOAT and _narrow(float(few)) == size):
        return _java_text(value, Decimal(few))
    (bits,) = struct.unpack("<I", struct.pack("<f", size))
    bounds = (_float_of(bits - 1), 2.0**128 if bits + 1 == INFINITE_BITS else _float_of(bits + 1))
    return _java_text(value, _shortest(size, bounds, is_even=bits % 2 == 0))


def _float_of(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _shortest(size: float, bounds: tuple[float, float], *, is_even: bool) -> Decimal:
    """The decimal with the fewest digits (two or more) that is read as a number, and of several the nearest one;
    of two the even one.

    Args:
        size: the number, above zero.
        bounds: the numbers next to it.
        is_even: what lies in the middle to one of them is read as this one.
    """
    exact = Fraction(size)
    low, high = ((exact + Fraction(bound)) / 2 for bound in bounds)
    for digits in range(2, MOST_DIGITS):
        both = [Context(digits, way).create_decimal_from_float(size) for way in (ROUND_FLOOR, ROUND_CEILING)]
        fitting = [near for near in both if low < Fraction(near) < high or (is_even and Fraction(near) in (low, high))]
        if fitting:
            return min(fitting, key=lambda near: (abs(Fraction(near) - exact), near.as_tuple().digits[-1] % 2))
    return Decimal(repr(size))


def _java_text(value: float, decimal: Decimal) -> str:
    """A number as Java writes it; ``decimal``: its digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    front = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{front}0.0"
    _, digits, exponent = decimal.as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    place = len(digits) + int(exponent)
    if 1e-3 <= abs(value) < 1e7:
        whole = shown[:place].ljust(place, "0") if place > 0 else "0"
        rest = shown[place:] if place > 0 else "0" * -place + shown
        return f"{front}{whole}.{rest or '0'}"
    return f"{front}{shown[0]}.{shown[1:] or '0'}E{place - 1}"


def _narrow(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
