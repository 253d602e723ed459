"""Plan nodes over weighted rows: a changelog as additions (weight above 0) and retractions (below 0).

Weights live between these nodes only; a sink sees appended rows, or upserts and deletes by key. Operators:
``jvm/src/dsdagster/delta``.

``ttl_millis`` of a node: milliseconds after which state without a change is dropped; 0: never. Set by
``plan/checks/expiry.py``.
"""

# ruff: noqa: D102, ARG002 — methods of nodes and their arguments are described once, in Node
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ds_dagster.errors import error
from ds_dagster.plan.expressions.field_names import column_of, shown
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.aggregate import (
    KEEP_VALUES,
    AggregateCall,
    groups_growth,
    groups_lineage,
    groups_shape,
    groups_text,
    needed_calls,
)
from ds_dagster.plan.nodes.describing import forgets_text
from ds_dagster.plan.nodes.join import BOTH, LEFT, Join, Side, pairs_text, residual_shape
from ds_dagster.plan.nodes.node import BoundExpression, ChangelogKind, Field, Keeps, Named, Names, Node, Sources
from ds_dagster.plan.nodes.reading import columns_read, or_null, require
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.shaping import Shaper, forgets, places

DeltaJoinKind = Literal["inner", "left", "full", "semi", "anti"]
_KEEP_VALUES = KEEP_VALUES | {"APPROX_COUNT_DISTINCT"}
"""Aggregates that keep every value; a sketch cannot take a value back."""


@dataclass(frozen=True, slots=True)
class Weigh(Node):
    """Rows with weights: an appended row (of closed windows too) is one addition; an upsert becomes the retraction of
    the old row and the addition of the new one, for which the last row of every key is kept."""

    input: Node
    ttl_millis: int = 0
    keeps: ClassVar[Keeps] = "rows"

    @property
    def output(self) -> tuple[Field, ...]:
        return self.input.output

    @property
    def changelog(self) -> ChangelogKind:
        return "weighted"

    @property
    def only_grows(self) -> bool:
        return self.input.is_final

    @property
    def key(self) -> tuple[str, ...]:
        return self.input.key

    @property
    def is_stateful(self) -> bool:
        return not self.input.is_final

    @property
    def untimed(self) -> str:
        return self.input.untimed or "rows with weights"

    def origin(self, name: str) -> tuple[Node, str]:
        return (self, name) if self.is_stateful else self.input.origin(name)

    def growth(self) -> Iterator[str]:
        """None: the state has one row per key, as the changelog itself."""
        return iter(())

    def shape(self, shaper: Shaper) -> Shape:
        return [self.is_stateful, *forgets(self.ttl_millis)]

    def about(self) -> str:
        if not self.is_stateful:
            return ""
        return f"keeps the last row by {', '.join(map(shown, self.key))}{forgets_text(self.ttl_millis)}"

    def lineage(self, below: Sources) -> Sources:
        return below

    def pruned(self, needed: Names) -> Weigh:
        return replace(self, input=self.input.pruned(needed | frozenset(self.input.key)))


@dataclass(frozen=True, slots=True)
class DeltaAggregate(Node):
    """GROUP BY over weighted rows. ``weighted``: its own rows have weights, for another such node; else upserts by
    ``group``, at most one per group and batch. A group without rows is deleted."""

    input: Node
    group: tuple[Named, ...]
    calls: tuple[AggregateCall, ...]
    weighted: bool = False
    ttl_millis: int = 0
    keeps: ClassVar[Keeps] = "results"
    one_per_key: ClassVar[bool] = True

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
    def only_grows(self) -> bool:
        return False

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(named.name for named in self.group)

    @property
    def is_stateful(self) -> bool:
        return True

    @property
    def untimed(self) -> str:
        return "an aggregate"

    def growth(self) -> Iterator[str]:
        return iter(()) if self.ttl_millis else groups_growth(self.input, self.group, self.calls, _KEEP_VALUES)

    def shape(self, shaper: Shaper) -> Shape:
        return [*groups_shape(shaper, self.group, self.calls), self.weighted, *forgets(self.ttl_millis)]

    def about(self) -> str:
        return groups_text(self.group, self.calls, "every change") + forgets_text(self.ttl_millis)

    def lineage(self, below: Sources) -> Sources:
        return groups_lineage(below, self.group, self.calls)

    def pruned(self, needed: Names) -> DeltaAggregate:
        calls, used = needed_calls(self.group, self.calls, needed)
        return replace(self, input=self.input.pruned(used), calls=calls)


@dataclass(frozen=True, slots=True)
class DeltaJoin(Join):
    """Changelog ⋈ changelog: all pairs of current rows whose keys are equal. NULL keys match nothing.
    ``residual``: other conditions of LEFT and FULL on a pair (INNER: a filter above)."""

    kind: DeltaJoinKind
    residual: BoundExpression | None = None
    ttl_millis: int = 0
    keeps: ClassVar[Keeps] = "results"

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
    def only_grows(self) -> bool:
        return self.kind in ("inner", "semi") and self.left.only_grows and self.right.only_grows

    @property
    def untimed(self) -> str:
        return "a join of changelogs"

    def growth(self) -> Iterator[str]:
        is_test = self.kind in ("semi", "anti")
        names = ("the outer query", "the sub-select") if is_test else ("its left side", "its right side")
        rows = [name for name, side in zip(names, (self.left, self.right), strict=True) if side.only_grows]
        if rows and not self.ttl_millis:
            yield f"{self._test() if is_test else self._as_written()} keeps every row of {' and '.join(rows)}"

    def _test(self) -> str:
        """Text of an IN or EXISTS, which are one kind of node; only the outer columns have names of the user."""
        keys = dict.fromkeys(expression_text(key.tree, column_of) for key in self.left_keys)
        return f"{'NOT ' if self.kind == 'anti' else ''}EXISTS or IN on {', '.join(keys)}"

    def _as_written(self) -> str:
        pairs = zip(self.left_keys, self.right_keys, strict=True)
        texts = [(expression_text(a.tree, column_of), expression_text(b.tree, column_of)) for a, b in pairs]
        return f"the join on {' and '.join(f'{left} = {right}' for left, right in texts)}"

    @property
    def sides_of_filters(self) -> tuple[Side, ...]:
        return {"inner": BOTH, "full": ()}.get(self.kind, LEFT)

    def own_columns(self) -> Names:
        return columns_read([self.residual])

    def shape(self, shaper: Shaper) -> Shape:
        residual = residual_shape(shaper, self.residual)
        return [self.kind, self.keys_shape(shaper), *residual, *forgets(self.ttl_millis)]

    def about(self) -> str:
        others = () if self.residual is None else (self.residual,)
        return f"{self.kind} on {pairs_text(self.left_keys, self.right_keys, *others)}{forgets_text(self.ttl_millis)}"


@dataclass(frozen=True, slots=True)
class Distinct(Node):
    """Each row once. Over rows that are only added, the first row of each value is appended; else rows have weights,
    and all their fields are their key."""

    input: Node
    ttl_millis: int = 0
    keeps: ClassVar[Keeps] = "results"

    def __post_init__(self) -> None:
        if self.input.changelog != "weighted":
            raise error("INTERNAL", where="distinct rows without weights")

    @property
    def output(self) -> tuple[Field, ...]:
        return self.input.output

    @property
    def changelog(self) -> ChangelogKind:
        return "append" if self.input.only_grows else "weighted"

    @property
    def key(self) -> tuple[str, ...]:
        return () if self.changelog == "append" else tuple(field.name for field in self.output)

    @property
    def is_stateful(self) -> bool:
        return True

    @property
    def untimed(self) -> str:
        """A value that was retracted may be added again."""
        return "SELECT DISTINCT"

    def growth(self) -> Iterator[str]:
        if self.input.only_grows and not self.ttl_millis:
            yield f"DISTINCT keeps every value of {', '.join(column_of(f.name) for f in self.output)}"

    def shape(self, shaper: Shaper) -> Shape:
        return [self.changelog, *forgets(self.ttl_millis)]

    def about(self) -> str:
        first = " · the first row of each" if self.changelog == "append" else ""
        return f"keeps every value{first}{forgets_text(self.ttl_millis)}"

    def lineage(self, below: Sources) -> Sources:
        return below

    def pruned(self, needed: Names) -> Distinct:
        """Keeps all fields: every one is part of the key."""
        return replace(self, input=self.input.pruned(self.names))


@dataclass(frozen=True, slots=True)
class Unweigh(Node):
    """Weighted rows without retractions → appended rows, each as many times as its weight."""

    input: Node

    def __post_init__(self) -> None:
        if not self.input.only_grows:
            raise error("INTERNAL", where="appended rows of which some may be retracted")

    @property
    def output(self) -> tuple[Field, ...]:
        return self.input.output

    @property
    def untimed(self) -> str:
        return "a condition with a sub-select"

    def shape(self, shaper: Shaper) -> Shape:
        return []

    def about(self) -> str:
        return ""

    def lineage(self, below: Sources) -> Sources:
        return below

    def pruned(self, needed: Names) -> Unweigh:
        return replace(self, input=self.input.pruned(needed))


@dataclass(frozen=True, slots=True)
class Fold(Node):
    """Weighted rows → upserts and deletes by ``key_names``, at most one per key and batch. Has no state."""

    only_shows: ClassVar[bool] = True
    one_per_key: ClassVar[bool] = True
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

    @property
    def untimed(self) -> str:
        return "a changelog"

    def shape(self, shaper: Shaper) -> Shape:
        return [places(self.key_names, self.output)]

    def about(self) -> str:
        return f"to one change per {', '.join(map(shown, self.key))}"

    def lineage(self, below: Sources) -> Sources:
        return below

    def pruned(self, needed: Names) -> Fold:
        return replace(self, input=self.input.pruned(needed | frozenset(self.key_names)))


def _covers(keys: tuple[BoundExpression, ...], node: Node) -> bool:
    """Whether these keys hold the whole key of the node, so that they match at most one of its rows."""
    columns_of_keys = frozenset().union(*(key.columns() for key in keys))
    return bool(node.key) and columns_of_keys.issuperset(node.key)
