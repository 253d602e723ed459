"""Values in a format of Java: PRINTF in questions. A test compares this module with Java."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from types import MappingProxyType
from typing import Any

from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.functions.java_format import BITS, Directive, directives, judge
from ds_dagster.functions.values.casts import as_text

_DEFAULT_PRECISION = 6
_LEAST_FIXED = Decimal("0.0001")
"""%g writes numbers below this with an exponent."""


def formatted(form: str, values: Sequence[Any], types: Sequence[DataType | None]) -> str:
    """The values in a format.

    Raises:
        ValueError: Java refuses the format.
    """
    of_values = [None if value is None else type_ for value, type_ in zip(values, types, strict=True)]
    reason = judge(form, of_values)
    if reason:
        raise ValueError(f"'{form}': {reason}")
    return "".join(part if isinstance(part, str) else _shown(part, values, types) for part in directives(form))


def _shown(part: Directive, values: Sequence[Any], types: Sequence[DataType | None]) -> str:
    if part.kind == "n":
        return "\n"
    if part.index is None:
        return _padded("%", part)
    value, type_ = values[part.index], types[part.index]
    if value is not None and part.kind in _NUMBERS:
        return _padded(_number(part, value, type_), part)
    text = _text(part, value, type_)
    return _padded(text if part.precision is None else text[: part.precision], part)


def _number(part: Directive, value: Any, type_: DataType | None) -> str:
    sign, digits, end = _NUMBERS[part.kind](part, value, type_)
    if "0" in part.flags and digits[-1] not in "Ny":  # neither NaN nor Infinity
        digits = digits.rjust((part.width or 0) - len(sign) - len(end), "0")
    return sign + digits + end


def _text(part: Directive, value: Any, type_: DataType | None) -> str:
    if part.kind == "b" or isinstance(value, bool):
        return str(value if isinstance(value, bool) else value is not None).lower()
    if value is None:
        return "null"
    return chr(value) if part.kind == "c" else str(value) if type_ is None else str(as_text(value, type_))


def _padded(text: str, part: Directive) -> str:
    width, shown = part.width or 0, text.upper() if part.conversion.isupper() else text
    return shown.ljust(width) if "-" in part.flags else shown.rjust(width)


Parts = tuple[str, str, str]
"""The text before the digits, the digits, the text after them."""


def _signed(negative: bool, digits: str, flags: str) -> Parts:
    if negative:
        return ("(", digits, ")") if "(" in flags else ("-", digits, "")
    return "+" if "+" in flags else " " if " " in flags else "", digits, ""


def _grouped(digits: str, flags: str) -> str:
    whole, point, rest = digits.partition(".")
    return (f"{int(whole):,}" if "," in flags else whole) + point + rest


def _whole(part: Directive, value: int, _type: DataType | None) -> Parts:
    return _signed(value < 0, _grouped(str(abs(value)), part.flags), part.flags)


def _by_bits(part: Directive, value: int, type_: DataType | None) -> Parts:
    bits = BITS[type_.name] if isinstance(type_, Scalar) else 32
    sign = {"x": "0x", "o": "0"}[part.kind] if "#" in part.flags else ""
    return sign, format(value % (1 << bits), part.kind), ""


def _fraction(part: Directive, value: float, _type: DataType | None) -> Parts:
    if not math.isfinite(value):
        return ("", "NaN", "") if math.isnan(value) else _signed(value < 0, "Infinity", part.flags)
    number = abs(Decimal(repr(value)))
    precision = _DEFAULT_PRECISION if part.precision is None else part.precision
    with localcontext() as context:
        context.prec, context.rounding = 1100, ROUND_HALF_UP
        digits = _WRITTEN[part.kind](number, precision)
    if "#" in part.flags and "." not in digits:
        digits = re.sub(r"^(\d+)", r"\1.", digits)
    return _signed(math.copysign(1, value) < 0, _grouped(digits, part.flags), part.flags)


def _fixed(number: Decimal, precision: int) -> str:
    return f"{number:.{precision}f}"


def _scientific(number: Decimal, precision: int) -> str:
    mantissa, exponent = f"{number:.{precision}e}".split("e") if number else (f"{number:.{precision}f}", "+0")
    return f"{mantissa}e{exponent[0]}{exponent[1:].zfill(2)}"


def _general(number: Decimal, precision: int) -> str:
    figures = precision or 1
    if not number:
        return _fixed(number, figures - 1)
    rounded = Decimal(f"{number:.{figures - 1}e}")
    if _LEAST_FIXED <= rounded < Decimal(10) ** figures:
        return _fixed(number, max(figures - rounded.adjusted() - 1, 0))
    return _scientific(number, figures - 1)


_WRITTEN: Mapping[str, Callable[[Decimal, int], str]] = MappingProxyType({"f": _fixed, "e": _scientific, "g": _general})
_NUMBERS: Mapping[str, Callable[[Directive, Any, DataType | None], Parts]] = MappingProxyType(
    {"d": _whole, "x": _by_bits, "o": _by_bits, **dict.fromkeys("feg", _fraction)}
)
