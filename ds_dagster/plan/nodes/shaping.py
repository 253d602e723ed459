"""Shapes of plan nodes: nested lists of positions and types, without names that only the SQL text has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.relation_shapes import Shape, StoreKinds

if TYPE_CHECKING:
    from ds_dagster.plan.nodes.node import BoundExpression, Field, Node

NO_NAMES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ShapeScope:
    """The parts of a plan that count in its shape.

    Attributes:
        store_kinds: folded store name → kind.
        pace: the way sources are read counts: start, waiting times, size of a batch. False for state signatures.
        bad_records: the handling of bad records counts although ``pace`` is False (state signatures before ``s2``).
        rows_by_type: of rows that a step keeps only the types count (state signatures before ``s3``).
    """

    store_kinds: StoreKinds = field(default_factory=lambda: NO_NAMES)
    pace: bool = True
    bad_records: bool = False
    rows_by_type: bool = False


class Shaper:
    """Texts of expressions over the inputs of one node, each field as its place among the inputs' fields."""

    def __init__(self, inputs: Sequence[Node], scope: ShapeScope) -> None:
        self._inputs = inputs
        self.scope = scope
        self._positions: dict[str, str] | None = None

    def text(self, expression: BoundExpression | None, own: Mapping[str, str] = NO_NAMES) -> object:
        """An expression with its type. ``own``: names that are not fields of an input → their texts."""
        if expression is None:
            return None
        position = (lambda name: own.get(name) or self.position(name)) if own else self.position
        return [expression_text(expression.tree, position, strict=True), str(expression.type)]

    def texts(self, expressions: Sequence[BoundExpression]) -> Shape:
        """Several expressions with their types, in order."""
        return [self.text(expression) for expression in expressions]

    def position(self, name: str) -> str:
        """A field of the inputs as its place among them: ``#0``."""
        if self._positions is None:
            fields = [field for child in self._inputs for field in child.output]
            self._positions = {field.name: f"#{index}" for index, field in enumerate(fields)}
        return self._positions[name]


def places(names: Sequence[str], fields: Sequence[Field]) -> Shape:
    """The places of names among fields, from 0."""
    order = [field.name for field in fields]
    return [order.index(name) for name in names]


def forgets(ttl_millis: int) -> Shape:
    """``ttl`` if state carries a time to forget it, whatever the length, which may change with a restart. Else nothing,
    so that other plans keep their hashes."""
    return ["ttl"] if ttl_millis else []
