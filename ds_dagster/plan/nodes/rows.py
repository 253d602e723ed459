"""Plan nodes that treat rows one by one, and the root."""

# ruff: noqa: D102, ARG002 — methods of nodes and their arguments are described once, in Node
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot import exp

from ds_dagster.catalog.properties.latency import mode_text
from ds_dagster.catalog.relation import Relation
from ds_dagster.plan.constraint import Constraint, constraints_shape
from ds_dagster.plan.nodes.describing import changelog_text, named_text, text
from ds_dagster.plan.nodes.node import (
    BoundExpression,
    Bounds,
    ChangelogKind,
    Field,
    Named,
    Names,
    Node,
    Sources,
)
from ds_dagster.plan.nodes.reading import columns_read, lineage_of, renamed, renamed_bounds, require
from ds_dagster.plan.nodes.relation_shapes import Shape, sink_shape
from ds_dagster.plan.nodes.shaping import Shaper, places


@dataclass(frozen=True, slots=True)
class Passing(Node):
    """Base of nodes that pass rows through unchanged; key, changelog kind and finality are the input's."""

    is_base: ClassVar[bool] = True
    passes_time: ClassVar[bool] = True
    input: Node

    @property
    def output(self) -> tuple[Field, ...]:
        return self.input.output

    @property
    def changelog(self) -> ChangelogKind:
        return self.input.changelog

    @property
    def is_final(self) -> bool:
        return self.input.is_final

    @property
    def key(self) -> tuple[str, ...]:
        return self.input.key

    @property
    def untimed(self) -> str:
        return self.input.untimed

    def lineage(self, below: Sources) -> Sources:
        return below

    def pruned(self, needed: Names) -> Node:
        return replace(self, input=self.input.pruned(needed | self.own_columns()))

    def own_columns(self) -> Names:
        """Fields of the input that the node itself reads."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Filter(Passing):
    """Keeps rows whose condition is true. Over an upsert input a row that fails becomes a delete of its key
    (``emits_deletes``), unless rows are final: then it is dropped, since no earlier row of the key exists."""

    one_by_one: ClassVar[bool] = True
    condition: BoundExpression

    def __post_init__(self) -> None:
        require(self.input, self.condition.columns(), "filter")

    @property
    def emits_deletes(self) -> bool:
        """Whether a row that fails must become a delete of its key; rows with weights have retractions instead."""
        return self.input.changelog == "upsert" and not self.input.is_final

    @property
    def decides_about_state(self) -> bool:
        """Whether the state or the result depends on this condition's outcome for earlier rows: a retraction must pass
        the filter that its row has passed, and Spark moves conditions below steps of its own."""
        is_retracted = self.input.changelog == "weighted" and not self.input.only_grows
        return is_retracted or (not self.emits_deletes and self.input.takes_filters(self.condition.columns()))

    def takes_filters(self, names: Names) -> bool:
        return self.input.takes_filters(names)

    def shape(self, shaper: Shaper) -> Shape:
        return [shaper.text(self.condition)]

    def about(self) -> str:
        return text(self.condition) + (" · rows that fail are deleted" if self.emits_deletes else "")

    @property
    def time_fields(self) -> Names:
        return self.input.time_fields

    @property
    def windows(self) -> tuple[Bounds, ...]:
        return self.input.windows

    def origin(self, name: str) -> tuple[Node, str]:
        return self.input.origin(name)

    def own_columns(self) -> Names:
        return self.condition.columns()


@dataclass(frozen=True, slots=True)
class Project(Node):
    """Computes columns. Over an upsert input the key fields must pass through unchanged (``key`` gives their new
    names)."""

    one_by_one: ClassVar[bool] = True
    passes_time: ClassVar[bool] = True
    only_shows: ClassVar[bool] = True
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

    @property
    def untimed(self) -> str:
        return self.input.untimed

    @property
    def time_fields(self) -> Names:
        return renamed(self.input.time_fields, self.columns)

    @property
    def windows(self) -> tuple[Bounds, ...]:
        return renamed_bounds(self.input.windows, self.columns)

    def origin(self, name: str) -> tuple[Node, str]:
        tree = next((named.expression.tree for named in self.columns if named.name == name), None)
        return self.input.origin(tree.name) if isinstance(tree, exp.Column) else (self, name)

    def takes_filters(self, names: Names) -> bool:
        return self.input.takes_filters(columns_read(named.expression for named in self.columns if named.name in names))

    def shape(self, shaper: Shaper) -> Shape:
        names = [named.name for named in self.columns]
        texts = shaper.texts([named.expression for named in self.columns])
        return [texts, [names.index(key) for key in self.key_names]]

    def about(self) -> str:
        return named_text(self.columns)

    def lineage(self, below: Sources) -> Sources:
        return lineage_of(below, self.columns)

    def pruned(self, needed: Names) -> Project:
        selected = tuple(named for named in self.columns if named.name in needed or named.name in self.key_names)
        columns = selected or self.columns[:1]
        used = columns_read(named.expression for named in columns)
        return replace(self, columns=columns, input=self.input.pruned(used | frozenset(self.input.key)))


@dataclass(frozen=True, slots=True)
class Sink(Node):
    """The root: writes its input into a relation. ``columns``: internal names in the order of the relation's columns.
    ``constraints``: checked before rows are written. ``quarantine``: relation for rows that violate a constraint."""

    passes_time: ClassVar[bool] = True
    only_shows: ClassVar[bool] = True
    input: Node
    relation: Relation
    columns: tuple[str, ...]
    constraints: tuple[Constraint, ...] = ()
    quarantine: Relation | None = None

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

    @property
    def untimed(self) -> str:
        return self.input.untimed

    def shape(self, shaper: Shaper) -> Shape:
        """The relation, and the place of each of its columns among the fields."""
        columns = [*places(self.columns, self.input.output), *self._constraints_shape(shaper)]
        return [sink_shape(self.relation, shaper.scope.store_kinds), columns]

    def _constraints_shape(self, shaper: Shaper) -> Shape:
        texts = shaper.texts([constraint.condition for constraint in self.constraints])
        return constraints_shape(self.constraints, texts, self.quarantine)

    def about(self) -> str:
        relation = self.relation
        place = f"{relation.name.name} → {relation.store}.{relation.entity}"
        facts = [f"{relation.kind.replace('_', ' ')} {place}", changelog_text(self)]
        facts += filter(None, (mode_text(relation),))
        return " · ".join([*facts, *(constraint.about() for constraint in self.constraints)])

    def lineage(self, below: Sources) -> Sources:
        pairs = zip(self.relation.columns, self.columns, strict=True)
        return {column.name: below[name] for column, name in pairs}

    def pruned(self, needed: Names) -> Sink:
        """Keeps all columns of the relation."""
        return replace(self, input=self.input.pruned(self.input.names))
