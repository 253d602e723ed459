"""Plan nodes of tables that are looked up: each batch reads their current rows, never their changes."""

# ruff: noqa: D102, ARG002 — methods of nodes and their arguments are described once, in Node
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.errors import error
from ds_dagster.plan.expressions.field_names import field_name
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.join import JoinKind, pairs_text
from ds_dagster.plan.nodes.node import BoundExpression, Field, Names, Node, Sources
from ds_dagster.plan.nodes.reading import columns_read, require
from ds_dagster.plan.nodes.relation_shapes import Shape, columns_shape, entity_shape
from ds_dagster.plan.nodes.shaping import Shaper
from ds_dagster.sql.generator import duration_text


@dataclass(frozen=True, slots=True)
class StaticScan(Node):
    """The rows of a table when a batch reads them. Fields are ``alias$column``.

    ``columns``: names of the columns the query needs, in the relation's order; None = all. ``source_name``: its name
    among the tables of its query. ``cache_millis``: most age of rows (``lookup.cache.millis``); 0: every batch reads.
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

    @property
    def untimed(self) -> str:
        return "a table"

    def shape(self, shaper: Shaper) -> Shape:
        relation = self.relation
        columns = columns_shape(relation, frozenset(c.name for c in self.read_columns))
        return [entity_shape(relation, shaper.scope.store_kinds), columns]

    def about(self) -> str:
        relation = self.relation
        age = f"at most {duration_text(self.cache_millis)} old" if self.cache_millis else "read again by every batch"
        return f"table {relation.name.name} ← {relation.store}.{relation.entity}, {age}"

    def lineage(self, below: Sources) -> Sources:
        return {self.field_name(c.name): ((self.relation.name, c.name),) for c in self.read_columns}

    def pruned(self, needed: Names) -> StaticScan:
        names = tuple(column.name for column in self.relation.columns if self.field_name(column.name) in needed)
        return replace(self, columns=None if len(names) == len(self.relation.columns) else names)


@dataclass(frozen=True, slots=True)
class StaticJoin(Node):
    """Stream ⋈ table: each left row is joined with the table's rows of its batch. Keeps no state; NULL keys match
    nothing. ``right`` is not an input, since no rows flow from it."""

    passes_time: ClassVar[bool] = True
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

    @property
    def untimed(self) -> str:
        return self.left.untimed

    def shape(self, shaper: Shaper) -> Shape:
        order = [field.name for field in self.right.output]
        right_keys = [
            [expression_text(key.tree, lambda name: f"#{order.index(name)}", strict=True), str(key.type)]
            for key in self.right_keys
        ]
        table = self.right.shape(shaper)
        return [self.kind, shaper.texts(self.left_keys), right_keys, table, self.right.cache_millis]

    def about(self) -> str:
        return f"{self.kind} on {pairs_text(self.left_keys, self.right_keys)} · {self.right.about()}"

    def lineage(self, below: Sources) -> Sources:
        return {**below, **self.right.all_lineage()}

    def pruned(self, needed: Names) -> StaticJoin:
        left = self.left.pruned(needed | columns_read(self.left_keys))
        return replace(self, left=left, right=self.right.pruned(needed | columns_read(self.right_keys)))


def static_scans(root: Node) -> tuple[StaticScan, ...]:
    """The tables a plan looks up, left-most first."""
    return tuple(node.right for node in root.walk() if isinstance(node, StaticJoin))
