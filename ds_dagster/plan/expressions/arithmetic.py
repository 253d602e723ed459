"""Result types of arithmetic, and which casts exist: Flink's rules, as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ds_dagster.datatypes import (
    FLOATS,
    INTEGERS,
    MAX_DECIMAL_PRECISION,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructType,
    common_type,
    decimal,
    is_numeric,
)

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_LEAST_SCALE = 6


def _parts(type_: Scalar) -> tuple[int, int]:
    if type_.name == "DECIMAL":
        return type_.precision or 10, type_.scale or 0
    return _DIGITS[type_.name], 0


def _bounded(precision: int, scale: int) -> Scalar:
    """A DECIMAL of at most 38 digits: whole digits are kept first, but at least six decimals remain."""
    if precision <= MAX_DECIMAL_PRECISION:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MAX_DECIMAL_PRECISION, max(MAX_DECIMAL_PRECISION - whole, min(scale, _LEAST_SCALE)))


def _sum_decimal(p1: int, s1: int, p2: int, s2: int) -> Scalar:
    scale = max(s1, s2)
    return _bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _product_decimal(p1: int, s1: int, p2: int, s2: int) -> Scalar:
    return _bounded(p1 + p2 + 1, s1 + s2)


def _quotient_decimal(p1: int, s1: int, p2: int, s2: int) -> Scalar:
    scale = max(_LEAST_SCALE, s1 + p2 + 1)
    return _bounded(p1 - s1 + s2 + scale, scale)


def _remainder_decimal(p1: int, s1: int, p2: int, s2: int) -> Scalar:
    scale = max(s1, s2)
    return _bounded(min(p1 - s1, p2 - s2) + scale, scale)


DECIMAL_RULES: Mapping[str, Callable[[int, int, int, int], Scalar]] = MappingProxyType(
    {"+": _sum_decimal, "-": _sum_decimal, "*": _product_decimal, "/": _quotient_decimal, "%": _remainder_decimal}
)
"""Operator → (p1, s1, p2, s2) → DECIMAL."""


def arithmetic_type(operator: str, left: DataType, right: DataType) -> Scalar | None:
    """Type of ``left operator right`` for numbers, None if a side is not a number. Two whole numbers give a whole
    number."""
    if not (is_numeric(left) and is_numeric(right)):
        return None
    if left.name in FLOATS or right.name in FLOATS or (left.name in INTEGERS and right.name in INTEGERS):
        return common_type(left, right)
    return DECIMAL_RULES[operator](*_parts(left), *_parts(right))


_NUMBERS = (*INTEGERS, *FLOATS, "DECIMAL")
_EVERYTHING = ("BOOLEAN", "VARCHAR", *_NUMBERS, "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "VARBINARY")
CASTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(_NUMBERS, (*_NUMBERS, "VARCHAR", "BOOLEAN")),
        "BOOLEAN": ("BOOLEAN", "VARCHAR", *_NUMBERS),
        "VARCHAR": _EVERYTHING,
        "DATE": ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "VARCHAR"),
        "TIME": ("TIME", "VARCHAR"),
        "TIMESTAMP": ("TIMESTAMP", "TIMESTAMP_LTZ", "DATE", "TIME", "VARCHAR"),
        "TIMESTAMP_LTZ": ("TIMESTAMP_LTZ", "TIMESTAMP", "DATE", "TIME", "VARCHAR"),
        "VARBINARY": ("VARBINARY", "VARCHAR"),
    }
)
"""Type → types it can be cast to."""


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether CAST exists: nested types part by part, and every type to text."""
    if source == target or (isinstance(target, Scalar) and target.name == "VARCHAR"):
        return True
    if isinstance(source, Scalar) and isinstance(target, Scalar):
        return target.name in CASTS[source.name]
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return can_cast(source.element, target.element)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return can_cast(source.key, target.key) and can_cast(source.value, target.value)
    if isinstance(source, StructType) and isinstance(target, StructType):
        pairs = list(zip(source.fields, target.fields, strict=False))
        return len(source.fields) == len(target.fields) and all(can_cast(a.type, b.type) for a, b in pairs)
    return False


def widens(source: DataType, target: DataType) -> bool:
    """Whether a value may go into a column of that type without CAST: no digit, character or field can be lost."""
    if source == target:
        return True
    if isinstance(source, StructType) and isinstance(target, StructType):
        pairs = list(zip(source.fields, target.fields, strict=False))
        same = [a.name for a in source.fields] == [b.name for b in target.fields]
        return same and all(widens(a.type, b.type) for a, b in pairs)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return widens(source.key, target.key) and widens(source.value, target.value)
    return common_type(source, target) == target
