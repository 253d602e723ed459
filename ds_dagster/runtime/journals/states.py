"""The states of a job and every legal step between them, as one table.

A transition is written to the journal before the effect it stands for (STARTING before the query is started, STOPPING
before it is asked to stop), so that whoever reads the journal after a crash knows what may have happened.
"""

from __future__ import annotations

from ds_dagster.errors import error
from ds_dagster.runtime.status import JobState

ACTIVE: frozenset[JobState] = frozenset({"STARTING", "RUNNING", "STOPPING"})
"""A Spark query exists, or may exist."""

PENDING: frozenset[JobState] = frozenset({"WAITING", "BACKING_OFF"})
"""No query exists; the engine starts it again by itself."""

SETTLED: frozenset[JobState] = frozenset({"RUNNING", "FAILED", "STOPPED", "FINISHED"})
"""Waiting for a request ends here. RUNNING is only entered on proof: a finished batch, or a source seen empty."""

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
"""UNKNOWN is what a reader says who hears nothing from the engine; no engine ever records it."""


def check_transition(name: str, source: JobState, target: JobState) -> None:
    """Raises: InternalError RUNTIME_IMPOSSIBLE_TRANSITION when the table does not have it."""
    if target not in LEGAL[source]:
        raise error("RUNTIME_IMPOSSIBLE_TRANSITION", name=name, source=source, target=target)
