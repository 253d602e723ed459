"""Times without a zone become times in UTC, and back, without being taken apart."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as sf

pytestmark = pytest.mark.spark

DAY = 86_400_000_000
MICROS = [0, -1, 1, 1_767_225_600_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999, -719_162 * DAY - 1, None]
"""Since 1970: around it, today, the first and last moment of the years 1 to 9999, one before, and none."""


def test_a_time_is_the_same_in_both_types(ruled: Any) -> None:
    frame = ruled.spark.createDataFrame([(number, at) for number, at in enumerate(MICROS)], "n int, at bigint")
    local = sf.expr("timestampadd(MICROSECOND, at, TIMESTAMP_NTZ '1970-01-01 00:00:00')")
    there = frame.select("n", local.alias("local")).withColumn("instant", sf.col("local").try_cast("timestamp"))
    back = there.select("n", "local", "instant", sf.col("instant").cast("timestamp_ntz").alias("again"))
    shown = back.select(
        "n",
        sf.unix_micros("instant"),
        sf.expr("local <=> again"),
        sf.col("local").cast("string"),
        sf.col("instant").cast("string"),
    )
    assert "as timestamp" not in shown._jdf.queryExecution().executedPlan().toString()
    rows = sorted(map(tuple, shown.collect()))
    assert [row[:3] for row in rows] == [(number, at, True) for number, at in enumerate(MICROS)]
    assert all(local_text == instant_text for *_, local_text, instant_text in rows)
