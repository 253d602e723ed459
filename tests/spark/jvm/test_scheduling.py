"""Slots go round between busy jobs, whatever their names are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count

from pyspark.sql import SparkSession

from ds_dagster.spark.session import in_pool

TASK = "java_method('java.lang.Thread', 'sleep', 300L)"
ROUNDS = 6


def test_the_last_pool_by_name_has_its_turn(spark: SparkSession) -> None:
    """Two pools that are never without a job leave nothing to a third one where ties go by name."""
    ended = count()

    def jobs(pool: str, rounds: int) -> list[int]:
        places = []
        with in_pool(spark, pool):
            for _ in range(rounds):
                spark.range(0, 2, 1, 2).selectExpr(TASK).collect()
                places.append(next(ended))
        return places

    with ThreadPoolExecutor(4) as threads:
        first = [threads.submit(jobs, name, ROUNDS) for name in ("a", "b", "c")]
        last = threads.submit(jobs, "z", 2)
        places = last.result()
        for other in first:
            other.result()
    assert places[-1] < 3 * ROUNDS // 2, places
