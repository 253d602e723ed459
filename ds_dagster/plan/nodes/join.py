"""Plan nodes of joins: the base, Spark's interval join, and our temporal join."""

# ruff: noqa: D102 — methods of nodes are described once, in Node
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ds_dagster.plan.nodes.describing import text
from ds_dagster.plan.nodes.node import BoundExpression, Bounds, Field, Keeps, Names, Node, Sources
from ds_dagster.plan.nodes.reading import columns_read, or_null
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.rows import Filter
from ds_dagster.plan.nodes.shaping import Shaper, ShapeScope
from ds_dagster.sql.generator import duration_text

JoinKind = Literal["inner", "left", "full"]
Side = Literal["left", "right"]
BOTH: tuple[Side, ...] = ("left", "right")
LEFT: tuple[Side, ...] = ("left",)
DEFAULT_RETENTION_MILLIS = 3_600_000
"""Default of ``temporal.join.retention.millis``: one hour."""


@dataclass(frozen=True, slots=True)
class Join(Node):
    """Base of joins of two inputs by equal keys."""

    is_base: ClassVar[bool] = True
    left: Node
    right: Node
    kind: str
    left_keys: tuple[BoundExpression, ...]
    right_keys: tuple[BoundExpression, ...]

    @property
    def is_stateful(self) -> bool:
        return True

    @property
    @abstractmethod
    def sides_of_filters(self) -> tuple[Side, ...]:
        """The sides a filter above may be pushed to, see :mod:`ds_dagster.plan.binding.filter_rules`."""

    @abstractmethod
    def own_columns(self) -> Names:
        """Fields of both sides that it reads besides the keys."""

    def lineage(self, below: Sources) -> Sources:
        return below

    def pruned(self, needed: Names) -> Node:
        needed |= self.own_columns()
        left = self.left.pruned(needed | columns_read(self.left_keys) | frozenset(self.left.key))
        right = self.right.pruned(needed | columns_read(self.right_keys) | frozenset(self.right.key))
        return replace(self, left=left, right=right)

    def keys_shape(self, shaper: Shaper) -> Shape:
        """Its keys, pair by pair."""
        keys = zip(self.left_keys, self.right_keys, strict=True)
        return [[shaper.text(left), shaper.text(right)] for left, right in keys]


def residual_shape(shaper: Shaper, residual: BoundExpression | None) -> Shape:
    """A condition besides the keys; without one nothing is added, so that other joins keep their hashes."""
    return [["residual", shaper.text(residual)]] if residual else []


def pairs_text(left: Sequence[BoundExpression], right: Sequence[BoundExpression], *others: BoundExpression) -> str:
    """Pairs of keys and other conditions, for people."""
    pairs = [f"{text(a)} = {text(b)}" for a, b in zip(left, right, strict=True)]
    return " and ".join([*pairs, *map(text, others)])


@dataclass(frozen=True, slots=True)
class TimedJoin(Join):
    """Base of joins whose result has an event time."""

    is_base: ClassVar[bool] = True
    kind: JoinKind
    keeps: ClassVar[Keeps] = "rows"
    layout: ClassVar[tuple[int, ...]] = (2,)

    @property
    def untimed(self) -> str:
        return self.left.untimed or self.right.untimed

    @property
    def windows(self) -> tuple[Bounds, ...]:
        """Without bounds that an outer join may set to NULL."""
        left = () if self.kind == "full" else self.left.windows
        return (*left, *(self.right.windows if self.kind == "inner" else ()))

    def growth(self) -> Iterator[str]:
        """None: event time bounds the state."""
        return iter(())


@dataclass(frozen=True, slots=True)
class IntervalJoin(TimedJoin):
    """Stream ⋈ stream: all pairs of keys equal and ``|left time − right time| ≤ within``. NULL keys match nothing.
    ``residual``: other conditions of LEFT and FULL on a pair (INNER: a filter above)."""

    asks_time: ClassVar[bool] = True
    drops_late_rows: ClassVar[bool] = True
    within_millis: int
    residual: BoundExpression | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        return (*or_null(self.left, self.kind == "full"), *or_null(self.right, self.kind != "inner"))

    @property
    def late_step(self) -> str:
        if self.kind == "inner":
            return self.left.late_step or self.right.late_step
        return "an outer interval join"

    @property
    def settles(self) -> bool:
        return self.kind != "inner" or self.left.settles or self.right.settles

    @property
    def waits_for_time(self) -> bool:
        return True

    @property
    def wait_millis(self) -> int:
        return self.within_millis

    @property
    def sides_of_filters(self) -> tuple[Side, ...]:
        """None: Spark pushes filters down itself."""
        return ()

    def takes_filters(self, names: Names) -> bool:  # noqa: ARG002
        return self.kind != "inner" and self.residual is not None

    def own_columns(self) -> Names:
        return columns_read([self.residual])

    def shape(self, shaper: Shaper) -> Shape:
        return _keyed_shape(self, shaper, [self.within_millis], self.residual)

    def about(self) -> str:
        others = () if self.residual is None else (self.residual,)
        on = pairs_text(self.left_keys, self.right_keys, *others)
        return f"{self.kind} on {on} · within {duration_text(self.within_millis)}"


@dataclass(frozen=True, slots=True)
class TemporalJoin(TimedJoin):
    """Stream ⋈ changelog: each left row is joined with the right version valid at its event time. ``right`` is a scan
    of a changelog whose primary key is ``right_keys``; INNER drops rows without a version, LEFT keeps them with NULLs.
    ``residual``: other conditions of LEFT; a version that fails them counts as missing (INNER: a filter above).
    Old versions are kept for late rows for ``retention_millis`` (``temporal.join.retention.millis``, default one hour),
    the newest version is kept for ever. ``immediate``: a row takes the latest version at once."""

    asks_time: ClassVar[bool] = True
    immediate: bool = False
    retention_millis: int = DEFAULT_RETENTION_MILLIS
    residual: BoundExpression | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        return (*self.left.output, *or_null(self.right, self.kind != "inner"))

    @property
    def waits_for_time(self) -> bool:
        """False if a row takes the latest version at once."""
        return not self.immediate

    @property
    def sides_of_filters(self) -> tuple[Side, ...]:
        """Not the versions: a version that a filter drops still ends the version before it, so nothing is saved."""
        return LEFT

    def own_columns(self) -> Names:
        return columns_read([self.residual])

    def shape(self, shaper: Shaper) -> Shape:
        return _keyed_shape(self, shaper, [self.immediate, self.retention_millis], self.residual)

    def kept_shape(self, scope: ShapeScope) -> Shape:
        """Without the filters directly on the stream: its rows are kept only until time has passed them."""
        left = self.left
        while isinstance(left, Filter):
            left = left.input
        return replace(self, left=left).whole_shape(scope)

    def about(self) -> str:
        others = () if self.residual is None else (self.residual,)
        on = pairs_text(self.left_keys, self.right_keys, *others)
        mode = "latest version at once" if self.immediate else "version valid at event time"
        retained = duration_text(self.retention_millis) if self.retention_millis else "0"
        return f"{self.kind} on {on} · {mode} · versions kept {retained}"


def _keyed_shape(node: TimedJoin, shaper: Shaper, options: Shape, residual: BoundExpression | None) -> Shape:
    """Keys after the first, and conditions, come last: a join without them keeps its hash."""
    first, *others = node.keys_shape(shaper)
    pair: Shape = first if isinstance(first, list) else []
    return [node.kind, *pair, options, *([others] if others else []), *residual_shape(shaper, residual)]
