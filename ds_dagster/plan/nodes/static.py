"""Plan nodes of tables that are looked up: read as they stand now, never as a stream."""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass

from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.errors import error
from ds_dagster.plan.expressions.field_names import field_name
from ds_dagster.plan.nodes.join import JoinKind
from ds_dagster.plan.nodes.node import BoundExpression, Field, Node, require


@dataclass(frozen=True, slots=True)
class StaticScan(Node):
    """The rows of a table as they stand when a batch asks for them. Fields are ``alias$column``.

    ``columns``: names of those the query needs, in the relation's order; None = all. ``source_name``: names it among
    the tables of its query. ``cache_millis``: rows may be so old (``lookup.cache.millis``); 0: every batch reads anew.
    """

    relation: Relation
    alias: str
    source_name: str
    cache_millis: int
    columns: tuple[str, ...] | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        return tuple(Field(self.field_name(c.name), c.type, c.nullable) for c in self.read_columns)

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """Columns of the relation that are read."""
        return tuple(c for c in self.relation.columns if self.columns is None or c.name in self.columns)

    def field_name(self, column: str) -> str:
        """Internal name of a column of the relation."""
        return field_name(self.alias, column)


@dataclass(frozen=True, slots=True)
class StaticJoin(Node):
    """Stream ⋈ table: each left row meets the table's rows as they stand in its batch. Keeps nothing; NULL keys match
    nothing. ``right`` is no input, since no rows flow from it."""

    left: Node
    right: StaticScan
    kind: JoinKind
    left_keys: tuple[BoundExpression, ...]
    right_keys: tuple[BoundExpression, ...]

    def __post_init__(self) -> None:
        if self.left.changelog != "append":
            raise error("INTERNAL", where="a table joined to rows that are replaced")
        for key in self.left_keys:
            require(self.left, key.columns(), "join with a table")

    @property
    def output(self) -> tuple[Field, ...]:
        right = tuple(Field(f.name, f.type, f.nullable or self.kind == "left") for f in self.right.output)
        return (*self.left.output, *right)


def static_scans(root: Node) -> tuple[StaticScan, ...]:
    """The tables a plan looks up, left-most first."""
    return tuple(node.right for node in root.walk() if isinstance(node, StaticJoin))
