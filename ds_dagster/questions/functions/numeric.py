"""Functions of numbers in questions; the keys are those of ``functions/numeric.py``."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.functions.question import Call, Computed, Meaning, Native, native, strict
from ds_dagster.functions.values.casts import EXACT, fitted


def _quantized(value: Any, digits: int, rounding: str) -> Decimal:
    exact = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)
    return exact.quantize(Decimal(1).scaleb(-digits), rounding=rounding, context=EXACT)


def _like_result(rounding: str) -> Computed:
    """A number with so many digits, as the result's type."""

    def made(call: Call) -> Callable[..., Any]:
        def function(value: Any, digits: int = 0) -> Any:
            if isinstance(value, float) and not math.isfinite(value):
                return value
            try:
                return typed(_quantized(value, digits, rounding), call.result)
            except ValueError:
                return None

        return function

    return Computed(made)


def typed(value: Decimal, type_: DataType) -> Any:
    """An exact number as a value of a type.

    Raises:
        ValueError: it does not fit.
    """
    name = type_.name if isinstance(type_, Scalar) else ""
    if name == "DECIMAL":
        assert isinstance(type_, Scalar)
        return fitted(value, type_)
    return float(value) + 0.0 if name in ("FLOAT", "DOUBLE") else int(value)


def _signed(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isnan(value) or value == 0 else math.copysign(1.0, value)
    return type(value)((value > 0) - (value < 0))


def _modulo(left: Any, right: Any) -> Any:
    """Sign of the first."""
    if isinstance(left, float) or isinstance(right, float):
        return math.fmod(left, right) if right else math.nan
    if right == 0:
        raise ValueError("division by zero")
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (1 if left >= 0 else -1)
    return EXACT.remainder(Decimal(left), Decimal(right))


def _curve(function: Callable[[float], float], outside: float | None = math.nan) -> Computed:
    """A function of a DOUBLE; what is outside its domain gives NaN or NULL."""

    def value(number: Any) -> float | None:
        try:
            return function(float(number))
        except ValueError:
            return outside
        except OverflowError:
            return math.inf

    return strict(value)


def _logarithm(function: Callable[[float], float]) -> Computed:
    return strict(lambda number: function(float(number)) if number > 0 else None)


def _log(first: Any, second: Any = None) -> float | None:
    if second is None:
        return math.log(first) if first > 0 else None
    return math.log(second) / math.log(first) if first > 0 and second > 0 and first != 1 else None


def _power(base: Any, exponent: Any) -> float:
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.inf if base == 0 else math.nan
    except OverflowError:
        return math.inf if base > 0 or exponent % 2 == 0 else -math.inf


def _binary(number: int) -> str:
    return format(number if number >= 0 else number + (1 << 64), "b")


def _bucket(value: Any, low: Any, high: Any, count: int) -> int | None:
    if count <= 0 or low == high:
        return None
    position = (float(value) - float(low)) / (float(high) - float(low))
    return 0 if position < 0 else count + 1 if position >= 1 else int(position * count) + 1


def _cotangent(number: float) -> float:
    return 1 / math.tan(number) if number else math.inf


def _double(number: float) -> exp.Expression:
    return exp.Cast(this=exp.Literal.number(repr(number)), to=exp.DataType.build("DOUBLE"))


NUMBER_FUNCTIONS: Mapping[str, Meaning] = MappingProxyType(
    {
        "ABS": native("abs"),
        "SIGN": strict(_signed),
        "ROUND": _like_result(ROUND_HALF_UP),
        "TRUNCATE": _like_result(ROUND_DOWN),
        "FLOOR": _like_result(ROUND_FLOOR),
        "CEIL": _like_result(ROUND_CEILING),
        "MOD": strict(_modulo),
        "POWER": strict(_power),
        "SQRT": _curve(math.sqrt),
        "EXP": _curve(math.exp),
        "LN": _logarithm(math.log),
        "LOG10": _logarithm(math.log10),
        "LOG2": _logarithm(math.log2),
        "LOG": strict(_log),
        "SIN": _curve(math.sin),
        "COS": _curve(math.cos),
        "TAN": _curve(math.tan),
        "COT": _curve(_cotangent),
        "ASIN": _curve(math.asin),
        "ACOS": _curve(math.acos),
        "ATAN": _curve(math.atan),
        "SINH": _curve(math.sinh),
        "COSH": _curve(math.cosh),
        "TANH": _curve(math.tanh),
        "ATAN2": strict(math.atan2),
        "DEGREES": _curve(math.degrees),
        "RADIANS": _curve(math.radians),
        "PI": native("pi"),
        "E": Native(lambda _: _double(math.e)),
        "BIN": strict(_binary),
        "RAND": native("random"),
        "RAND_INTEGER": Computed(lambda _: lambda bound: random.randrange(bound), changes=True),
        "BITCOUNT": strict(lambda number: bin(number if number >= 0 else number + (1 << 64)).count("1")),
        "WIDTH_BUCKET": strict(_bucket),
    }
)
"""Function → meaning."""
