"""Plan node over several inputs of one shape."""

# ruff: noqa: D102, ARG002 — methods of nodes and their arguments are described once, in Node
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ds_dagster.errors import error
from ds_dagster.plan.nodes.node import ChangelogKind, Field, Names, Node, Sources
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.shaping import Shaper


@dataclass(frozen=True, slots=True)
class Union(Node):
    """UNION ALL: the rows of all branches. They have the same fields in the same order, and are all appended or all
    weighted. ``key_names``: the key of the rows of all branches, if there is one."""

    one_by_one: ClassVar[bool] = True
    passes_time: ClassVar[bool] = True
    only_shows: ClassVar[bool] = True
    branches: tuple[Node, ...]
    key_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shapes = {tuple((field.name, field.type) for field in branch.output) for branch in self.branches}
        kinds = {branch.changelog for branch in self.branches}
        if len(shapes) != 1 or len(kinds) != 1 or "upsert" in kinds:
            raise error("INTERNAL", where=f"a union of different shapes or kinds: {sorted(kinds)}")

    @property
    def output(self) -> tuple[Field, ...]:
        columns = zip(*(branch.output for branch in self.branches), strict=True)
        return tuple(Field(fields[0].name, fields[0].type, any(f.nullable for f in fields)) for fields in columns)

    @property
    def changelog(self) -> ChangelogKind:
        return self.branches[0].changelog

    @property
    def key(self) -> tuple[str, ...]:
        return self.key_names

    @property
    def untimed(self) -> str:
        """Time is measured over the rows of all branches together, so no step below may have measured it."""
        if not self.is_ordered:
            return "a UNION over joins or aggregates"
        return next((branch.untimed for branch in self.branches if branch.untimed), "")

    @property
    def time_fields(self) -> Names:
        return frozenset.intersection(*(branch.time_fields for branch in self.branches))

    def shape(self, shaper: Shaper) -> Shape:
        return []

    def about(self) -> str:
        return "of all rows"

    def lineage(self, below: Sources) -> Sources:
        return below

    def pruned(self, needed: Names) -> Union:
        """All branches keep the same fields: they are projections with the same names."""
        wanted = needed | frozenset(self.key_names)
        return replace(self, branches=tuple(branch.pruned(wanted) for branch in self.branches))
