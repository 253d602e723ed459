"""Plan nodes over weighted rows: a changelog as rows that come (weight above 0) and go (below 0).

Weights live between these nodes only; a sink sees appended rows, or upserts and deletes by key. Operators:
``jvm/src/dsdagster/delta``.

``ttl_millis`` of a node: what no change touches for so long it forgets; 0: never. ``plan/checks/expiry.py`` sets it.
"""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ds_dagster.errors import error
from ds_dagster.plan.nodes.aggregate import AggregateCall
from ds_dagster.plan.nodes.node import BoundExpression, ChangelogKind, Field, Named, Node, or_null, require
from ds_dagster.plan.nodes.rank import TopN

DeltaJoinKind = Literal["inner", "left", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Weigh(Node):
    """Rows with weights: appended ones (closed windows among them) come once; upserts by key become the old row that
    goes and the new one that comes, for which the last row of every key is kept."""

    input: Node
    ttl_millis: int = 0

    @property
    def output(self) -> tuple[Field, ...]:
        return self.input.output

    @property
    def changelog(self) -> ChangelogKind:
        return "weighted"

    @property
    def key(self) -> tuple[str, ...]:
        return self.input.key

    @property
    def is_stateful(self) -> bool:
        return not self.input.is_final


@dataclass(frozen=True, slots=True)
class DeltaAggregate(Node):
    """GROUP BY over weighted rows. ``weighted``: its own rows have weights, for another such node; else upserts by
    ``group``, at most one per group and batch. A group without rows goes."""

    input: Node
    group: tuple[Named, ...]
    calls: tuple[AggregateCall, ...]
    weighted: bool = False
    ttl_millis: int = 0

    def __post_init__(self) -> None:
        if self.input.changelog != "weighted":
            raise error("INTERNAL", where="an aggregate over weights without weights")
        for named in self.group:
            require(self.input, named.expression.columns(), f"group {named.name}")

    @property
    def output(self) -> tuple[Field, ...]:
        return (*(named.field for named in self.group), *(call.field for call in self.calls))

    @property
    def changelog(self) -> ChangelogKind:
        return "weighted" if self.weighted else "upsert"

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(named.name for named in self.group)

    @property
    def is_stateful(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class DeltaJoin(Node):
    """Changelog ⋈ changelog: all pairs of rows whose keys are equal, as both sides are now. NULL keys match nothing.
    ``residual``: what else LEFT and FULL ask of a pair (INNER: a filter above)."""

    left: Node
    right: Node
    kind: DeltaJoinKind
    left_keys: tuple[BoundExpression, ...]
    right_keys: tuple[BoundExpression, ...]
    residual: BoundExpression | None = None
    ttl_millis: int = 0

    def __post_init__(self) -> None:
        if {self.left.changelog, self.right.changelog} != {"weighted"}:
            raise error("INTERNAL", where="a join over weights without weights")

    @property
    def output(self) -> tuple[Field, ...]:
        if self.kind in ("semi", "anti"):
            return self.left.output
        left = or_null(self.left, self.kind == "full")
        return (*left, *or_null(self.right, self.kind != "inner"))

    @property
    def changelog(self) -> ChangelogKind:
        return "weighted"

    @property
    def key(self) -> tuple[str, ...]:
        if self.kind in ("semi", "anti") or (self.kind in ("inner", "left") and _covers(self.right_keys, self.right)):
            return self.left.key
        if self.kind == "inner" and _covers(self.left_keys, self.left):
            return self.right.key
        return (*self.left.key, *self.right.key) if self.left.key and self.right.key else ()

    @property
    def is_stateful(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Distinct(Node):
    """Each row once. Where rows only come, the first of each value is appended; else rows come and go with weights, and
    all their fields are their key."""

    input: Node
    ttl_millis: int = 0

    def __post_init__(self) -> None:
        if self.input.changelog != "weighted":
            raise error("INTERNAL", where="distinct rows without weights")

    @property
    def output(self) -> tuple[Field, ...]:
        return self.input.output

    @property
    def changelog(self) -> ChangelogKind:
        return "append" if appends_only(self.input) else "weighted"

    @property
    def key(self) -> tuple[str, ...]:
        return () if self.changelog == "append" else tuple(field.name for field in self.output)

    @property
    def is_stateful(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Unweigh(Node):
    """Rows with weights of which none ever goes, as appended rows: each as often as its weight says."""

    input: Node

    def __post_init__(self) -> None:
        if not appends_only(self.input):
            raise error("INTERNAL", where="appended rows of which some may go")

    @property
    def output(self) -> tuple[Field, ...]:
        return self.input.output


@dataclass(frozen=True, slots=True)
class Fold(Node):
    """Weighted rows → upserts and deletes by ``key_names``, at most one per key and batch. Keeps nothing."""

    input: Node
    key_names: tuple[str, ...]

    def __post_init__(self) -> None:
        require(self.input, frozenset(self.key_names), "fold")

    @property
    def output(self) -> tuple[Field, ...]:
        return self.input.output

    @property
    def changelog(self) -> ChangelogKind:
        return "upsert"

    @property
    def key(self) -> tuple[str, ...]:
        return self.key_names


def _covers(keys: tuple[BoundExpression, ...], node: Node) -> bool:
    """Whether a row of the node is found by these at most once: they hold its whole key."""
    found = frozenset().union(*(key.columns() for key in keys))
    return bool(node.key) and found.issuperset(node.key)


def appends_only(node: Node) -> bool:
    """Whether no row of a weighted node ever goes: made of appended rows by steps that take nothing back."""
    if isinstance(node, Weigh):
        return node.input.is_final
    if isinstance(node, TopN):
        return node.is_whole
    if isinstance(node, DeltaAggregate | Fold) or (isinstance(node, DeltaJoin) and node.kind not in ("inner", "semi")):
        return False
    return all(appends_only(child) for child in node.inputs)
