"""The plan node of UNNEST: each row once per element of an ARRAY or entry of a MAP."""

# ruff: noqa: D102 — methods of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ds_dagster.datatypes import ArrayType, MapType
from ds_dagster.errors import error
from ds_dagster.plan.expressions.field_names import shown
from ds_dagster.plan.nodes.describing import text
from ds_dagster.plan.nodes.node import BoundExpression, Bounds, ChangelogKind, Field, Names, Node, Sources
from ds_dagster.plan.nodes.reading import merged, require
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.shaping import Shaper


@dataclass(frozen=True, slots=True)
class Unnest(Node):
    """Each row once per element of ``value``, without state. A retracted row retracts its elements too, so rows of a
    changelog carry weights.

    ``elements``: the fields of an element: one for a scalar, one per field of a STRUCT, key and value for a MAP.
    ``ordinal``: the field with the element's number, from 1; None without one. ``outer``: a row without elements is
    kept once, with NULL in these fields.
    """

    one_by_one: ClassVar[bool] = True
    passes_time: ClassVar[bool] = True
    input: Node
    value: BoundExpression
    elements: tuple[Field, ...]
    ordinal: Field | None = None
    outer: bool = False

    def __post_init__(self) -> None:
        require(self.input, self.value.columns(), "unnest")
        if self.input.changelog == "upsert":
            raise error("INTERNAL", where="elements of rows that are replaced by key")
        if not isinstance(self.value.type, ArrayType | MapType):
            raise error("INTERNAL", where=f"elements of {self.value.type}")

    @property
    def own(self) -> tuple[Field, ...]:
        """The fields it makes."""
        return self.elements if self.ordinal is None else (*self.elements, self.ordinal)

    @property
    def output(self) -> tuple[Field, ...]:
        return (*self.input.output, *self.own)

    @property
    def changelog(self) -> ChangelogKind:
        return self.input.changelog

    @property
    def is_final(self) -> bool:
        return self.input.is_final

    @property
    def key(self) -> tuple[str, ...]:
        """The row's key with the element's number, or with the key of a MAP's entry; empty without either."""
        if not self.input.key:
            return ()
        if self.ordinal is not None:
            return (*self.input.key, self.ordinal.name)
        return (*self.input.key, self.elements[0].name) if isinstance(self.value.type, MapType) else ()

    @property
    def untimed(self) -> str:
        return self.input.untimed

    @property
    def time_fields(self) -> Names:
        return self.input.time_fields

    @property
    def windows(self) -> tuple[Bounds, ...]:
        return self.input.windows

    def shape(self, shaper: Shaper) -> Shape:
        types = [str(field.type) for field in self.elements]
        return [shaper.text(self.value), types, self.ordinal is not None, self.outer]

    def about(self) -> str:
        fields = ", ".join(f"{shown(field.name)} {field.type}" for field in self.own)
        return f"{text(self.value)} as {fields}" + (" · rows without elements stay" if self.outer else "")

    def lineage(self, below: Sources) -> Sources:
        return {**below, **dict.fromkeys((field.name for field in self.own), merged(below, [self.value]))}

    def pruned(self, needed: Names) -> Unnest:
        """Keeps all parts of an element: unread parts cost nothing."""
        below = (needed - {field.name for field in self.own}) | self.value.columns() | frozenset(self.input.key)
        return replace(self, input=self.input.pruned(below))
