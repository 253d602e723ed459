"""SQL types from samples of JSON values: every value widens the type.

Whole numbers are BIGINT (DECIMAL(38,0) if one does not fit), other numbers DOUBLE. Objects are a STRUCT of all fields
in the samples, or a MAP if they have more than :data:`MAP_FIELDS` fields of one type. Values of two kinds are VARCHAR
and marked as mixed. Texts are VARCHAR: whether a text is a time is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType
from typing import Any

from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructField,
    StructType,
    decimal,
)

BIGINT_BOUND = 2**63
MAP_FIELDS = 64
"""Objects with more different fields than this are a MAP, if all values have one type."""


@dataclass(frozen=True, slots=True)
class SampledPlace:
    """Statistics of one place in the values.

    Attributes:
        count: number of values, including NULL.
        nulls: number of NULLs.
        scalar: type of the scalars, None without any.
        fields: fields of objects; the ``count`` of a field is the number of objects that have it.
        objects: number of objects.
        element: elements of arrays, None without any.
        arrays: number of arrays.
        mixed: scalars of different types have no common type but VARCHAR.
    """

    count: int = 0
    nulls: int = 0
    scalar: Scalar | None = None
    fields: Mapping[str, SampledPlace] = field(default_factory=lambda: MappingProxyType({}))
    objects: int = 0
    element: SampledPlace | None = None
    arrays: int = 0
    mixed: bool = False

    @property
    def type(self) -> DataType:
        """The type that holds all values; VARCHAR if there are only NULLs, or values of several kinds."""
        kinds = (self.scalar is not None) + (self.objects > 0) + (self.arrays > 0)
        if kinds > 1 or self.mixed or not kinds:
            return VARCHAR
        if self.arrays:
            return ArrayType(self.element.type if self.element else VARCHAR)
        if self.objects:
            return self._object_type()
        return self.scalar or VARCHAR

    @property
    def is_mixed(self) -> bool:
        """Whether the values are of several kinds."""
        return self.mixed or (self.scalar is not None) + (self.objects > 0) + (self.arrays > 0) > 1

    def _object_type(self) -> DataType:
        types = {inner.type for inner in self.fields.values()}
        if not self.fields or (len(self.fields) > MAP_FIELDS and len(types) == 1):
            return MapType(VARCHAR, types.pop() if types else VARCHAR)
        return StructType(tuple(StructField(name, inner.type) for name, inner in self.fields.items()))


def seen(values: Iterable[Any]) -> SampledPlace:
    """Statistics of these JSON values."""
    return reduce(merged, map(_one, values), SampledPlace())


def _one(value: Any) -> SampledPlace:
    if value is None:
        return SampledPlace(1, nulls=1)
    if isinstance(value, dict):
        fields = MappingProxyType({str(name): _one(inner) for name, inner in value.items()})
        return SampledPlace(1, fields=fields, objects=1)
    if isinstance(value, list):
        return SampledPlace(1, element=seen(value) if value else None, arrays=1)
    return SampledPlace(1, scalar=_scalar(value))


def _scalar(value: Any) -> Scalar:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return BIGINT if -BIGINT_BOUND <= value < BIGINT_BOUND else decimal(38, 0)
    return VARCHAR if isinstance(value, str) else DOUBLE


def merged(left: SampledPlace, right: SampledPlace) -> SampledPlace:
    """Statistics of both together; fields are in the order of their first appearance."""
    scalar, mixed = _widened(left.scalar, right.scalar)
    names = dict.fromkeys([*left.fields, *right.fields])
    fields = {
        name: merged(left.fields.get(name, SampledPlace()), right.fields.get(name, SampledPlace())) for name in names
    }
    element = left.element
    if right.element is not None:
        element = right.element if element is None else merged(element, right.element)
    return replace(
        left,
        count=left.count + right.count,
        nulls=left.nulls + right.nulls,
        scalar=scalar,
        fields=MappingProxyType(fields),
        objects=left.objects + right.objects,
        element=element,
        arrays=left.arrays + right.arrays,
        mixed=left.mixed or right.mixed or mixed,
    )


def _widened(left: Scalar | None, right: Scalar | None) -> tuple[Scalar | None, bool]:
    """The common type, and whether it is VARCHAR only because the types do not fit together."""
    if left is None or right is None or left == right:
        return left or right, False
    numbers = (BIGINT, decimal(38, 0), DOUBLE)
    if left in numbers and right in numbers:
        return numbers[max(numbers.index(left), numbers.index(right))], False
    return VARCHAR, True
