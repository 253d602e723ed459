"""Rows on their way through the compiler of plans."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows of a node. ``timed``: its event time carries Spark's watermark already."""

    frame: DataFrame
    timed: bool = False
