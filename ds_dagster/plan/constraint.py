"""Bound constraints of relations: conditions on the rows that a query reads or writes."""

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
        condition: over the fields of the node that checks it; a row violates it if it is FALSE, not if it is NULL.
        on_violation: what happens to a row that violates it.
    """

    name: str
    condition: BoundExpression
    on_violation: OnViolation

    def about(self) -> str:
        """The text EXPLAIN shows."""
        return f"{self.name}: {text(self.condition)}, else {self.on_violation}"


def constraints_shape(constraints: tuple[Constraint, ...], texts: Shape, quarantine: Relation | None) -> Shape:
    """The constraints' part of a fingerprint; empty without constraints, so that other plans keep their hashes.

    Args:
        constraints: of one node.
        texts: shapes of their conditions.
        quarantine: relation for rows that violate a constraint, None without one.
    """
    if not constraints:
        return []
    parts = zip(constraints, texts, strict=True)
    shapes = [[constraint.name, condition, constraint.on_violation] for constraint, condition in parts]
    log = [] if quarantine is None else [["log", quarantine.store, quarantine.entity]]
    return [["constraints", *shapes, *log]]
