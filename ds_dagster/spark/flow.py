"""Rows on their way through the compiler of plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows of a node. ``timed``: its event time carries Spark's watermark already."""

    frame: DataFrame
    timed: bool = False


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns (at least one), as a plan whose depth is the logarithm of their number:
    Spark walks it with recursion."""
    middle = (len(frames) + 1) // 2
    return frames[0] if len(frames) == 1 else union(frames[:middle]).union(union(frames[middle:]))
