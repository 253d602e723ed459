"""The plan node of UNNEST: each row once per element of an ARRAY or entry of a MAP."""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass

from ds_dagster.datatypes import MapType
from ds_dagster.errors import error
from ds_dagster.plan.nodes.node import BoundExpression, ChangelogKind, Field, Node, require


@dataclass(frozen=True, slots=True)
class Unnest(Node):
    """Rows with the elements of ``value``, computed of each row; nothing is kept. A row that goes takes its elements
    with it, so rows that may go carry weights.

    ``elements``: the fields of an element: one of a scalar, one per field of a STRUCT, key and value of a MAP.
    ``ordinal``: name of the field with the element's number, from 1; empty for none. ``outer``: a row without elements
    comes once, with NULL in their place.
    """

    input: Node
    value: BoundExpression
    elements: tuple[Field, ...]
    ordinal: Field | None = None
    outer: bool = False

    def __post_init__(self) -> None:
        require(self.input, self.value.columns(), "unnest")
        if self.input.changelog == "upsert":
            raise error("INTERNAL", where="elements of rows that are replaced by key")

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
        """Elements of one row are told apart by their number, entries of a MAP by their key."""
        if not self.input.key:
            return ()
        if self.ordinal is not None:
            return (*self.input.key, self.ordinal.name)
        return (*self.input.key, self.elements[0].name) if isinstance(self.value.type, MapType) else ()
