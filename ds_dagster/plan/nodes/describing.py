"""Texts that EXPLAIN shows of plan nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ds_dagster.plan.expressions.field_names import shown
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.sql.generator import duration_text

if TYPE_CHECKING:
    from ds_dagster.plan.nodes.node import BoundExpression, Field, Named, Node


def text(expression: BoundExpression) -> str:
    """An expression, its fields as ``alias.column``."""
    return expression_text(expression.tree, shown)


def changelog_text(node: Node) -> str:
    """``append``, or ``upsert by`` the key's fields."""
    if node.changelog == "append":
        return "append"
    return "upsert by " + (", ".join(shown(name) for name in node.key) or "(nothing)")


def named_text(columns: Sequence[Named]) -> str:
    """Columns with their types and what they are computed from."""
    return ", ".join(assigned(named.field, text(named.expression)) for named in columns)


def assigned(field: Field, value: str) -> str:
    """A field with its type and its value; only the value if it is a column of the same name."""
    name = shown(field.name)
    same = value == name or value.rpartition(".")[2] == name
    return f"{value} {field.type}" if same else f"{name} {field.type} = {value}"


def by_text(partition: Sequence[BoundExpression]) -> str:
    """`` by`` and the partition's expressions; empty without a partition."""
    return f" by {', '.join(map(text, partition))}" if partition else ""


def forgets_text(ttl_millis: int) -> str:
    """When state is forgotten, with a separator before it; empty for never."""
    return f" · forgets after {duration_text(ttl_millis)} without a change" if ttl_millis else ""


def rests(ttl_millis: int) -> list[str]:
    """When a step forgets a partition by event time, as a list of one fact; empty for never."""
    return [f"forgotten after {duration_text(ttl_millis)} without a row"] if ttl_millis else []
