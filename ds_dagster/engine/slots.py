"""Task slots of queries in real-time mode: their tasks run all the time, so they must all fit into the engine."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import ReadSpec
from ds_dagster.catalog.properties.latency import KEPT_SLOTS, realtime_millis
from ds_dagster.engine.query import HostedQuery
from ds_dagster.errors import error
from ds_dagster.plan.query import BoundQuery

_LOCK = threading.Lock()
"""Several jobs start at the same time."""


def slots_of(spark: SparkSession) -> int:
    """How many tasks the engine can run at once."""
    context: Any = spark.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def tasks_of(query: BoundQuery, reads: Mapping[str, ReadSpec]) -> int:
    """Slots that a query occupies for as long as it runs; 0 for a query in batches."""
    if realtime_millis(query.sink) is None:
        return 0
    return sum(read.partitions or 1 for read in reads.values())


def reserve(
    job: HostedQuery, query: BoundQuery, reads: Mapping[str, ReadSpec], spark: SparkSession, jobs: Iterable[HostedQuery]
) -> None:
    """Note the slots of a job that is about to start.

    Args:
        job: the job.
        query, reads: what it runs and reads.
        spark: the engine's session.
        jobs: all jobs of the engine.

    Raises:
        UserError: REALTIME_SLOTS.
    """
    tasks = tasks_of(query, reads)
    if not tasks:
        return
    with _LOCK:
        live = [other for other in jobs if other is not job and other.phase in ("starting", "running")]
        slots, taken = slots_of(spark), sum(other.tasks for other in live)
        free = max(0, slots - KEPT_SLOTS - taken)
        if tasks > free:
            wanted = taken + tasks + KEPT_SLOTS
            raise error("REALTIME_SLOTS", name=job.order.name, tasks=tasks, free=free, slots=slots, wanted=wanted)
        job.tasks = tasks
