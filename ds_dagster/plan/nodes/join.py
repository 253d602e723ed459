"""Plan nodes of joins that native operators and the versioned join of our own do."""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ds_dagster.plan.nodes.node import BoundExpression, Field, Node, or_null

JoinKind = Literal["inner", "left", "full"]
DEFAULT_RETENTION_MILLIS = 3_600_000


@dataclass(frozen=True, slots=True)
class IntervalJoin(Node):
    """Stream ⋈ stream: all pairs of keys equal and ``|left time − right time| ≤ within``. NULL keys match nothing.
    ``residual``: what else LEFT and FULL ask of a pair (INNER: a filter above)."""

    left: Node
    right: Node
    kind: JoinKind
    left_keys: tuple[BoundExpression, ...]
    right_keys: tuple[BoundExpression, ...]
    within_millis: int
    residual: BoundExpression | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        return (*or_null(self.left, self.kind == "full"), *or_null(self.right, self.kind != "inner"))

    @property
    def is_stateful(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class TemporalJoin(Node):
    """Stream ⋈ changelog: each left row meets the right version valid at its event time. ``right`` is a scan of a
    changelog whose primary key is ``right_keys``; INNER drops rows without a version, LEFT keeps them with NULLs.
    ``residual``: what else LEFT asks of a version; one that fails counts as none (INNER: a filter above).
    Versions are kept for late rows for ``retention_millis`` (``temporal.join.retention.millis``, default one hour),
    the newest for ever."""

    left: Node
    right: Node
    kind: JoinKind
    left_keys: tuple[BoundExpression, ...]
    right_keys: tuple[BoundExpression, ...]
    immediate: bool = False
    retention_millis: int = DEFAULT_RETENTION_MILLIS
    residual: BoundExpression | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        return (*self.left.output, *or_null(self.right, self.kind != "inner"))

    @property
    def is_stateful(self) -> bool:
        return True
