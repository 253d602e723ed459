"""The states of a job and every legal transition between them, as one table.

A transition is written to the journal before its effect (STARTING before the query is started, STOPPING before it is
stopped), so that a reader of the journal knows after a crash what may have happened.
"""

from __future__ import annotations

from ds_dagster.errors import error
from ds_dagster.runtime.status import JobState

ACTIVE: frozenset[JobState] = frozenset({"STARTING", "RUNNING", "STOPPING"})
"""A Spark query exists, or may exist."""

PENDING: frozenset[JobState] = frozenset({"WAITING", "BACKING_OFF"})
"""No query exists; the engine will start the job again by itself."""

SETTLED: frozenset[JobState] = frozenset({"RUNNING", "FAILED", "STOPPED", "FINISHED"})
"""States that answer a request. RUNNING is entered only with proof: a finished batch, or all sources seen empty."""

LEGAL: dict[JobState, frozenset[JobState]] = {
    "ABSENT": frozenset({"STARTING", "STOPPED", "BACKING_OFF"}),
    "STARTING": frozenset({"RUNNING", "FINISHED", "WAITING", "BACKING_OFF", "FAILED", "STOPPING", "ABSENT"}),
    "RUNNING": frozenset({"FINISHED", "WAITING", "BACKING_OFF", "FAILED", "STOPPING", "ABSENT"}),
    "WAITING": frozenset({"STARTING", "STOPPED", "FAILED", "ABSENT"}),
    "BACKING_OFF": frozenset({"STARTING", "STOPPED", "FAILED", "ABSENT"}),
    "FAILED": frozenset({"STARTING", "STOPPED"}),
    "STOPPING": frozenset({"STOPPED", "FINISHED", "ABSENT"}),
    "STOPPED": frozenset({"STARTING"}),
    "FINISHED": frozenset({"STARTING", "STOPPED"}),
    "UNKNOWN": frozenset(),
}
"""State → states it may change to. Readers report UNKNOWN while the engine is silent; no engine records it."""


def check_transition(name: str, source: JobState, target: JobState) -> None:
    """Raises: InternalError RUNTIME_IMPOSSIBLE_TRANSITION if the transition is not in :data:`LEGAL`."""
    if target not in LEGAL[source]:
        raise error("RUNTIME_IMPOSSIBLE_TRANSITION", name=name, source=source, target=target)
