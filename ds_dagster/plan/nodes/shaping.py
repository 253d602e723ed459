"""How a node says its shape: nested lists of positions and types, in which no name counts that only the text knows."""

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
    """What of a plan counts in its shape.

    Attributes:
        store_kinds: folded store name → kind.
        pace: how sources are read counts: where they begin, how long they wait, how much a batch takes. It does not in
            what a checkpoint holds.
        bad_records: what a bad record does counts where ``pace`` does not (state signatures before ``s2``).
        rows_by_type: of a step that keeps rows their types alone count (state signatures before ``s3``).
    """

    store_kinds: StoreKinds = field(default_factory=lambda: NO_NAMES)
    pace: bool = True
    bad_records: bool = False
    rows_by_type: bool = False


class Shaper:
    """Says expressions over the inputs of one node: each field by its place among them."""

    def __init__(self, inputs: Sequence[Node], scope: ShapeScope) -> None:
        self._inputs = inputs
        self.scope = scope
        self._positions: dict[str, str] | None = None

    def text(self, expression: BoundExpression | None, own: Mapping[str, str] = NO_NAMES) -> object:
        """An expression with its type. ``own``: names that are no fields of an input → what they are called instead."""
        if expression is None:
            return None
        position = (lambda name: own.get(name) or self.position(name)) if own else self.position
        return [expression_text(expression.tree, position, strict=True), str(expression.type)]

    def texts(self, expressions: Sequence[BoundExpression]) -> Shape:
        """Several, in order."""
        return [self.text(expression) for expression in expressions]

    def position(self, name: str) -> str:
        """A field of the inputs, by its place among them."""
        if self._positions is None:
            fields = [field for child in self._inputs for field in child.output]
            self._positions = {field.name: f"#{index}" for index, field in enumerate(fields)}
        return self._positions[name]


def places(names: Sequence[str], fields: Sequence[Field]) -> Shape:
    """The places of names among fields."""
    order = [field.name for field in fields]
    return [order.index(name) for name in names]


def forgets(ttl_millis: int) -> Shape:
    """Whether state carries the time at which it is forgotten; how long may change with a restart. Where it does not,
    nothing is added, so that other plans keep their hashes."""
    return ["ttl"] if ttl_millis else []
