"""The SQL type system: scalars, ARRAY, MAP, STRUCT; printing, and the widening table.

Types and their bounds: DeltaStream's data type page (VARCHAR(n), DECIMAL(p,s) with p 1–38 and default (10,0), TIME and
TIMESTAMP precision 0–9, STRUCT, MAP, ARRAY nested at will).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeGuard, overload

ScalarName = Literal[
    "BOOLEAN", "VARCHAR", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME",
    "TIMESTAMP", "TIMESTAMP_LTZ", "VARBINARY",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without inner types.

    Attributes:
        name: its SQL name.
        length: of VARCHAR and VARBINARY; None: unbounded.
        precision: of DECIMAL, TIME, TIMESTAMP and TIMESTAMP_LTZ.
        scale: of DECIMAL.
    """

    name: ScalarName
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision},{self.scale})"
        if self.length is not None:
            return f"{self.name}({self.length})"
        if self.precision is not None:
            return f"{self.name}({self.precision})"
        return self.name


@dataclass(frozen=True, slots=True)
class ArrayType:
    """ARRAY<element>."""

    element: DataType

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """MAP<key, value>; keys unique, order without meaning."""

    key: DataType
    value: DataType

    def __str__(self) -> str:
        return f"MAP<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """One field of a STRUCT; the name is folded unless it was quoted."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class StructType:
    """STRUCT<name type, …>, fields in order."""

    fields: tuple[StructField, ...]

    def field(self, name: str) -> StructField | None:
        """The field of that name, or None."""
        return next((field for field in self.fields if field.name == name), None)

    def __str__(self) -> str:
        inside = ", ".join(f"{_identifier(field.name)} {field.type}" for field in self.fields)
        return f"STRUCT<{inside}>"


DataType = Scalar | ArrayType | MapType | StructType

BOOLEAN = Scalar("BOOLEAN")
VARCHAR = Scalar("VARCHAR")
TINYINT = Scalar("TINYINT")
SMALLINT = Scalar("SMALLINT")
INTEGER = Scalar("INTEGER")
BIGINT = Scalar("BIGINT")
FLOAT = Scalar("FLOAT")
DOUBLE = Scalar("DOUBLE")
DATE = Scalar("DATE")
TIMESTAMP = Scalar("TIMESTAMP")
TIMESTAMP_LTZ = Scalar("TIMESTAMP_LTZ")
VARBINARY = Scalar("VARBINARY")

INTEGERS: tuple[str, ...] = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
FLOATS: tuple[str, ...] = ("FLOAT", "DOUBLE")
_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
MAX_DECIMAL_PRECISION = 38


def decimal(precision: int = 10, scale: int = 0) -> Scalar:
    """DECIMAL(precision, scale); the default is the dialect's (10, 0)."""
    return Scalar("DECIMAL", precision=precision, scale=scale)


def is_numeric(type_: DataType) -> TypeGuard[Scalar]:
    """Integers, floats and decimals."""
    return isinstance(type_, Scalar) and (type_.name in INTEGERS or type_.name in FLOATS or type_.name == "DECIMAL")


def is_integer(type_: DataType) -> bool:
    """TINYINT to BIGINT."""
    return isinstance(type_, Scalar) and type_.name in INTEGERS


def is_text(type_: DataType) -> bool:
    """VARCHAR of any length."""
    return isinstance(type_, Scalar) and type_.name == "VARCHAR"


def is_temporal(type_: DataType) -> bool:
    """TIMESTAMP and TIMESTAMP_LTZ."""
    return isinstance(type_, Scalar) and type_.name in ("TIMESTAMP", "TIMESTAMP_LTZ")


def holds_timestamp(type_: DataType) -> bool:
    """TIMESTAMP, TIMESTAMP_LTZ, or an ARRAY, MAP or STRUCT with one inside."""
    inside: tuple[DataType, ...] = ()
    if isinstance(type_, ArrayType):
        inside = (type_.element,)
    elif isinstance(type_, MapType):
        inside = (type_.key, type_.value)
    elif isinstance(type_, StructType):
        inside = tuple(field.type for field in type_.fields)
    return is_temporal(type_) or any(map(holds_timestamp, inside))


def is_primitive(type_: DataType) -> bool:
    """Anything but ARRAY, MAP and STRUCT."""
    return isinstance(type_, Scalar)


def is_comparable(type_: DataType) -> bool:
    """Whether values can be compared for equality: no MAP anywhere inside, since its entries have no order."""
    if isinstance(type_, ArrayType):
        return is_comparable(type_.element)
    if isinstance(type_, StructType):
        return all(is_comparable(field.type) for field in type_.fields)
    return not isinstance(type_, MapType)


def is_hashable(type_: DataType) -> bool:
    """Whether values can be keys of groups and joins, and in DISTINCT: the types of :func:`is_comparable`."""
    return is_comparable(type_)


def is_orderable(type_: DataType) -> bool:
    """Whether one value can be less than another: single values, as in Flink."""
    return is_primitive(type_)


@overload
def common_type(left: Scalar, right: Scalar) -> Scalar | None: ...
@overload
def common_type(left: DataType, right: DataType) -> DataType | None: ...
def common_type(left: DataType, right: DataType) -> DataType | None:
    """The type both widen to (CASE branches, COALESCE, UNION, comparison), or None when there is none."""
    if left == right:
        return left
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return _common_scalar(left, right)
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        element = common_type(left.element, right.element)
        return ArrayType(element) if element else None
    return None


def _common_scalar(left: Scalar, right: Scalar) -> Scalar | None:
    if left.name == right.name:
        if left.name == "DECIMAL":
            return _common_decimal(left, right)
        if left.name in ("VARCHAR", "VARBINARY"):
            bounded = left.length is not None and right.length is not None
            return Scalar(left.name, length=max(left.length or 0, right.length or 0) if bounded else None)
        return Scalar(left.name, precision=max(left.precision or 0, right.precision or 0) or None)
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    if is_temporal(left) and is_temporal(right):
        return TIMESTAMP_LTZ
    if {left.name, right.name} == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    return None


def _common_number(left: Scalar, right: Scalar) -> Scalar:
    if left.name in FLOATS or right.name in FLOATS:
        return FLOAT if {left.name, right.name} <= {"FLOAT", "TINYINT", "SMALLINT"} else DOUBLE
    if "DECIMAL" in (left.name, right.name):
        return _common_decimal(_as_decimal(left), _as_decimal(right))
    return Scalar(max(left.name, right.name, key=INTEGERS.index))


def _as_decimal(type_: Scalar) -> Scalar:
    return type_ if type_.name == "DECIMAL" else decimal(_INTEGER_DIGITS[type_.name], 0)


def _common_decimal(left: Scalar, right: Scalar) -> Scalar:
    scale = max(left.scale or 0, right.scale or 0)
    whole = max((left.precision or 10) - (left.scale or 0), (right.precision or 10) - (right.scale or 0))
    return decimal(min(whole + scale, MAX_DECIMAL_PRECISION), scale)


def _identifier(name: str) -> str:
    plain = name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
