"""What can be done for a job whose checkpoint and sink disagree: data, and no I/O. Only what ends in exact rows is
offered as a step of ours; everything else is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ds_dagster.plan.identity.replay import effect
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime.deciding.from_sink import FromSink
from ds_dagster.runtime.status import JobStatus

RESET = "reset"
FROM_SINK = "from-sink"
GOES_ON = ("CHECKPOINT_BEHIND_SINK", "CHECKPOINT_MISSING", "SINK_BEHIND_CHECKPOINT")
"""Conditions of a job that may be able to go on from the last batch of its sinks."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way out.

    Attributes:
        name: ``from-sink``, ``restore-checkpoint``, ``restore-sink`` (by hand) or ``reset``.
        does: in a sentence; why it cannot be done.
        command: to run afterwards; for ``from-sink`` and ``reset`` the command that does it; else empty.
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


def ways(status: JobStatus, query: BoundQuery, from_sink: FromSink | None = None) -> tuple[Way, ...]:
    """Ways out of a job's condition, the best first; none where checkpoint and sink do not disagree.

    Args:
        status: of the job.
        query: its statement today.
        from_sink: whether it can go on from its sinks; None where its condition leaves nothing to go on from.
    """
    if status.state == "RUNNING" or status.condition not in BY_HAND:
        return ()
    name, does = BY_HAND[status.condition]
    sinks = _kept_rows(query)
    reset = "read the sources again from their starting position with a new checkpoint; "
    reset += (
        f"rows that are in {sinks} stay and come twice" if sinks else "its first batch replaces what is in the target"
    )
    adds = bool(query.logs) or any(effect(query, sink) == "added" for sink in query.sinks)
    command = f"ds reset {status.name}" + (" --allow duplicates" if adds else "")
    others = Way(name, does, f"ds restart {status.name}", True), Way(RESET, reset, command, not sinks)
    return others if from_sink is None else (_goes_on(status.name, from_sink), *others)


def _goes_on(name: str, from_sink: FromSink) -> Way:
    if from_sink.tip is None:
        return Way(FROM_SINK, f"not possible: {from_sink.reason}", "", False)
    return Way(FROM_SINK, from_sink.does, f"ds repair {name} --from-sink", True)


def _kept_rows(query: BoundQuery) -> str:
    """Sinks that a new checkpoint version adds to instead of replacing their rows."""
    targets = (*(sink for sink in query.sinks if effect(query, sink) != "replaced"), *query.logs)
    return ", ".join(f"{sink.store}.{sink.entity}" for sink in targets)
