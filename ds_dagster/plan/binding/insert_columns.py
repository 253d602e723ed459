"""INSERT INTO relation (column, …): items of a SELECT in the order of the relation, NULL for columns that are not
listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.plan.binding.selected import Selected, SelectItem
from ds_dagster.plan.expressions.field_names import own_field
from ds_dagster.plan.nodes.node import BoundExpression
from ds_dagster.sql.statements import WrittenName
from ds_dagster.sql.typetext import type_node


def in_columns(selected: Selected, columns: Sequence[WrittenName], relation: Relation) -> Selected:
    """The SELECT with one item per column of the relation.

    Raises:
        UserError: INSERT_COLUMNS.
    """
    names = [column.parts[0] for column in columns]
    columns_there = [column.name for column in relation.columns]

    def refused(place: WrittenName, reason: str, fix: str) -> DsError:
        shown = ", ".join(names)
        return error(
            "INSERT_COLUMNS", span=place.span, relation=relation.name.name, columns=shown, reason=reason, fix=fix
        )

    for position, (column, name) in enumerate(zip(columns, names, strict=True)):
        if name not in columns_there:
            raise refused(column, f"no column is called {name}", f"did you mean {did_you_mean(name, columns_there)}?")
        if name in names[:position]:
            raise refused(column, f"{name} is listed twice", "name each column once")
    if len(names) != len(selected.items):
        reason = f"{len(names)} columns, but the SELECT has {len(selected.items)}"
        raise refused(columns[0], reason, "select one expression per column")
    items = dict(zip(names, selected.items, strict=True))
    missing = next((c.name for c in relation.columns if c.name not in items and not _may_be_null(c, relation)), None)
    if missing is not None:
        raise refused(columns[0], f"{missing} is NOT NULL and not listed", f"add {missing}")
    placed = tuple(items.get(column.name) or _null(column, selected) for column in relation.columns)
    return replace(selected, items=placed)


def _may_be_null(column: Column, relation: Relation) -> bool:
    return column.nullable and column.name not in relation.primary_key


def _null(column: Column, selected: Selected) -> SelectItem:
    tree = exp.Cast(this=exp.Null(), to=type_node(column.type))
    expression = BoundExpression(tree, column.type, nullable=True)
    return SelectItem(own_field("none", column.name), expression, selected.items[0].span)
