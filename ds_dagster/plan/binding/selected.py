"""The result of binding a SELECT: a plan, and the output columns over it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import BOOLEAN
from ds_dagster.diagnostics import Span
from ds_dagster.plan.expressions.bound_trees import column
from ds_dagster.plan.expressions.field_names import field_name, total_key
from ds_dagster.plan.nodes.node import BoundExpression, Named, Node
from ds_dagster.plan.nodes.rows import Project


class RefusedSelectError(Exception):
    """A SELECT is refused for the mistakes in the findings; never leaves this package."""


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One output column: visible name, expression over the source's plan, position."""

    name: str
    expression: BoundExpression
    span: Span


@dataclass(frozen=True, slots=True)
class Selected:
    """A bound SELECT before its projection. ``relation``: the left-most one; ``key``: names of items; ``total``: field
    of the node with the constant key of its only row, if no item is this key, else empty."""

    node: Node
    items: tuple[SelectItem, ...]
    relation: Relation
    key: tuple[str, ...]
    total: str = ""

    def with_total(self, name: str) -> Selected:
        """A copy with the key of a total as one more item; the name gets a number if it is taken."""
        taken, number, base = {item.name for item in self.items}, 1, name
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        field = next(field for field in self.node.output if field.name == self.total)
        key = SelectItem(name, BoundExpression(column(field.name), field.type, field.nullable), self.items[0].span)
        return replace(self, items=(*self.items, key), key=(name,), total="")


def project(selected: Selected, alias: str = "") -> Project:
    """The projection of a bound SELECT; with ``alias`` its fields are named ``alias$column``."""

    def named(column: str) -> str:
        return field_name(alias, column) if alias else column

    columns = tuple(Named(named(item.name), item.expression) for item in selected.items)
    if selected.total and alias:
        key = Named(total_key(alias), BoundExpression(column(selected.total), BOOLEAN, nullable=False))
        return Project(selected.node, (*columns, key), (key.name,))
    return Project(selected.node, columns, tuple(map(named, selected.key)))
