"""Plan nodes that treat rows one by one, and the root."""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass

from ds_dagster.catalog.relation import Relation
from ds_dagster.plan.nodes.node import BoundExpression, ChangelogKind, Field, Named, Node, Passing, require


@dataclass(frozen=True, slots=True)
class Filter(Passing):
    """Keeps rows whose condition is true. Over an upsert input a row that fails becomes a delete of its key
    (``emits_deletes``), unless its rows are final: then it is dropped, nothing was there to delete."""

    condition: BoundExpression

    def __post_init__(self) -> None:
        require(self.input, self.condition.columns(), "filter")

    @property
    def emits_deletes(self) -> bool:
        """Whether a row that fails must become a delete of its key; rows with weights go by their weights."""
        return self.input.changelog == "upsert" and not self.input.is_final


@dataclass(frozen=True, slots=True)
class Project(Node):
    """Computes columns. Over an upsert input the key fields must pass through unchanged (``key`` gives their new
    names)."""

    input: Node
    columns: tuple[Named, ...]
    key_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for named in self.columns:
            require(self.input, named.expression.columns(), f"projection {named.name}")

    @property
    def output(self) -> tuple[Field, ...]:
        return tuple(named.field for named in self.columns)

    @property
    def changelog(self) -> ChangelogKind:
        return self.input.changelog

    @property
    def is_final(self) -> bool:
        return self.input.is_final

    @property
    def key(self) -> tuple[str, ...]:
        return self.key_names


@dataclass(frozen=True, slots=True)
class Sink(Node):
    """The root: writes its input into a relation. ``columns``: internal names in the order of the relation's
    columns."""

    input: Node
    relation: Relation
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        require(self.input, frozenset(self.columns), "sink")

    @property
    def output(self) -> tuple[Field, ...]:
        by_name = {field.name: field for field in self.input.output}
        return tuple(
            Field(column.name, by_name[name].type, by_name[name].nullable)
            for column, name in zip(self.relation.columns, self.columns, strict=True)
        )

    @property
    def changelog(self) -> ChangelogKind:
        return self.input.changelog

    @property
    def key(self) -> tuple[str, ...]:
        return self.relation.primary_key
