"""SQL types from samples of JSON values: every value widens the type.

A whole number is BIGINT (DECIMAL(38,0) where one does not fit), any other DOUBLE; an object is a STRUCT of all fields
that were seen, or a MAP where it has very many of one type; values of two kinds are VARCHAR, and it is said so. Texts
stay VARCHAR: whether one is a time is not guessed.
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
"""Objects of one kind with more fields than this are a map, if all values have one type."""


@dataclass(frozen=True, slots=True)
class SampledPlace:
    """Statistics of one place in the values.

    Attributes:
        count: values, NULL included.
        nulls: NULLs among them.
        scalar: the type of scalars, None when there was none.
        fields: of objects; the count of each says how often it was there.
        objects: how many objects.
        element: of arrays, None when there was none.
        arrays: how many arrays.
        mixed: kinds that do not go together.
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
        """The type that holds all of them; VARCHAR where nothing but NULL was seen, or several kinds."""
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
        """Whether values of several kinds are here."""
        return self.mixed or (self.scalar is not None) + (self.objects > 0) + (self.arrays > 0) > 1

    def _object_type(self) -> DataType:
        types = {inner.type for inner in self.fields.values()}
        if not self.fields or (len(self.fields) > MAP_FIELDS and len(types) == 1):
            return MapType(VARCHAR, types.pop() if types else VARCHAR)
        return StructType(tuple(StructField(name, inner.type) for name, inner in self.fields.items()))


def seen(values: Iterable[Any]) -> SampledPlace:
    """Everything that is known after these JSON values."""
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
    """Both together; the order of fields is that in which they were first seen."""
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
    """The type of both, and whether they do not go together."""
    if left is None or right is None or left == right:
        return left or right, False
    numbers = (BIGINT, decimal(38, 0), DOUBLE)
    if left in numbers and right in numbers:
        return numbers[max(numbers.index(left), numbers.index(right))], False
    return VARCHAR, True
