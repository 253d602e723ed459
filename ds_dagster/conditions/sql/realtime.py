"""Conditions of queries in real-time mode."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "REALTIME_CHECKPOINT_UNUSED",
        "user",
        "'latency.checkpoint.millis' of {relation} has no effect without real-time mode",
        "add 'latency.mode' = 'realtime', or leave it out",
    ),
    Condition(
        "REALTIME_DELIVERY",
        "user",
        "{relation} cannot be written exactly once in real-time mode: after a restart, rows since the last checkpoint "
        "are written again",
        "accept that with 'delivery' = 'at_least_once', or leave out 'latency.mode'",
    ),
    Condition(
        "REALTIME_UNSUPPORTED",
        "user",
        "the query of {relation} cannot run in real-time mode: {reason}",
        "leave out 'latency.mode', or move that part into a second query that reads this one's result",
    ),
    Condition(
        "REALTIME_SLOTS",
        "user",
        "{name} needs {tasks} task slots all the time, one per partition of its source, and {free} of the engine's "
        "{slots} are free (one is kept for batches)",
        "set cores = {wanted} under [engine] (of a compute pool 'compute_pool.cores'), which may be more than the "
        "machine has, and restart the engine; or stop other queries in real-time mode",
    ),
)
