"""What binding a SELECT gives: a plan, and its output columns over it."""

from __future__ import annotations

from dataclasses import dataclass

from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Span
from ds_dagster.plan.field_names import field_name
from ds_dagster.plan.nodes import BoundExpression, Named, Node, Project


class RefusedSelectError(Exception):
    """The findings say why; never leaves this package."""


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One output column: visible name, expression over the source's plan, place."""

    name: str
    expression: BoundExpression
    span: Span


@dataclass(frozen=True, slots=True)
class Selected:
    """A bound SELECT before its projection. ``relation``: the left-most one; ``key``: names of items."""

    node: Node
    items: tuple[SelectItem, ...]
    relation: Relation
    key: tuple[str, ...]


def project(selected: Selected, alias: str = "") -> Project:
    """The projection of a bound SELECT; with ``alias`` its fields are those of a source."""

    def named(column: str) -> str:
        return field_name(alias, column) if alias else column

    columns = tuple(Named(named(item.name), item.expression) for item in selected.items)
    return Project(selected.node, columns, tuple(map(named, selected.key)))
