"""Rows on their way through the compiler of plans, and how Spark emits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame

from ds_dagster.errors import error
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.weights import has_weights

OutputMode = Literal["append", "update"]


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows of a node. ``timed``: Spark's watermark is already set on the frame's event time."""

    frame: DataFrame
    timed: bool = False


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of one or more frames with the same columns. The depth of the plan is the logarithm of the number of
    frames, since Spark walks plans recursively."""
    middle = (len(frames) + 1) // 2
    return frames[0] if len(frames) == 1 else union(frames[:middle]).union(union(frames[middle:]))


def output_mode(root: Sink) -> OutputMode:
    """How Spark emits the plan's rows: ``update`` if groups are refined, else ``append``.

    Raises:
        InternalError: PLAN_NOT_STREAMABLE for a plan that Spark refuses or answers wrongly; the plan's checks should
            have refused it.
    """
    if has_weights(root):
        return "append"
    aggregates = [node for node in root.walk() if isinstance(node, Aggregate)]
    mode: OutputMode = "update" if any(not node.is_final for node in aggregates) else "append"
    if mode == "update" and len(aggregates) > 1:
        raise error("PLAN_NOT_STREAMABLE", reason="an aggregate over an aggregate that is refined")
    if mode == "update" and root.settles:
        raise error("PLAN_NOT_STREAMABLE", reason="an aggregate that is refined over a join that waits for time")
    return mode
