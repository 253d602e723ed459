"""What can be done for a job whose checkpoint and sink disagree: data, and no I/O. Only what ends in exact rows is
offered as a step of ours; everything else is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ds_dagster.plan.query import BoundQuery
from ds_dagster.plan.replay import effect
from ds_dagster.runtime.status import JobStatus

RESET = "reset"


@dataclass(frozen=True, slots=True)
class Way:
    """One way out.

    Attributes:
        name: ``restore-checkpoint``, ``restore-sink`` (by hand) or ``reset``.
        does: in a sentence.
        command: what to run when it is done; of ``reset`` what does it.
        exact: every row is in the sink once afterwards. What is restored is compared again at the start.
    """

    name: str
    does: str
    command: str
    exact: bool


CHECKPOINT = "put a newer copy of the checkpoint back, the sink has more batches than this one"
SINK = "put a newer copy of the target and its ledger back, the checkpoint has more batches than this one"
LOST = "put the checkpoint's folder back"
BY_HAND: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "CHECKPOINT_BEHIND_SINK": ("restore-checkpoint", CHECKPOINT),
        "SINK_BEHIND_CHECKPOINT": ("restore-sink", SINK),
        "TARGET_GONE": ("restore-sink", SINK),
        "CHECKPOINT_MISSING": ("restore-checkpoint", LOST),
    }
)
"""Condition of a job → what a person may restore; a job with another condition is not repaired by these means."""


def ways(status: JobStatus, query: BoundQuery) -> tuple[Way, ...]:
    """Ways out of a job's condition, the best first; none where checkpoint and sink do not disagree.

    Args:
        status: of the job.
        query: its statement today.
    """
    if status.state == "RUNNING" or status.condition not in BY_HAND:
        return ()
    name, does = BY_HAND[status.condition]
    kept = _kept_rows(query)
    reset = "read the sources again from their starting position with a new checkpoint; "
    reset += (
        f"rows that are in {kept} stay and come twice" if kept else "its first batch replaces what is in the target"
    )
    adds = any(effect(query, sink) == "added" for sink in query.sinks)
    command = f"ds reset {status.name}" + (" --allow duplicates" if adds else "")
    return Way(name, does, f"ds restart {status.name}", True), Way(RESET, reset, command, not kept)


def _kept_rows(query: BoundQuery) -> str:
    """Sinks that a new checkpoint version adds to instead of replacing their rows."""
    kept = (sink for sink in query.sinks if effect(query, sink) != "replaced")
    return ", ".join(f"{sink.store}.{sink.entity}" for sink in kept)
