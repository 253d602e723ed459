"""Constraints of relations, bound: what the rows that a query reads or writes satisfy."""

from __future__ import annotations

from dataclasses import dataclass

from ds_dagster.catalog.relation import Relation
from ds_dagster.plan.nodes.describing import text
from ds_dagster.plan.nodes.node import BoundExpression
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.sql.statements import OnViolation


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of a relation.

    Attributes:
        name: unique in its relation.
        condition: over the fields of the node that checks it; a row violates it where it is FALSE, not where it is
            NULL.
        on_violation: what a row that violates it causes.
    """

    name: str
    condition: BoundExpression
    on_violation: OnViolation

    def about(self) -> str:
        """The text EXPLAIN shows."""
        return f"{self.name}: {text(self.condition)}, else {self.on_violation}"


def constraints_shape(constraints: tuple[Constraint, ...], texts: Shape, quarantine: Relation | None) -> Shape:
    """Their part of a fingerprint; nothing without any, so that other plans keep their hashes.

    Args:
        constraints: of one node.
        texts: of their conditions.
        quarantine: where rows are put aside, None for nowhere.
    """
    if not constraints:
        return []
    parts = zip(constraints, texts, strict=True)
    shapes = [[constraint.name, condition, constraint.on_violation] for constraint, condition in parts]
    log = [] if quarantine is None else [["log", quarantine.store, quarantine.entity]]
    return [["constraints", *shapes, *log]]
