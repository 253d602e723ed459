"""Ways to repair a job whose checkpoint and sink disagree. No I/O. Only a repair that ends in exact rows is offered as
a command of its own; for the others the texts say what a person can do."""

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
"""Conditions of jobs that may be able to continue from the last batch of their sinks."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to repair a job.

    Attributes:
        name: ``from-sink``, ``restore-checkpoint``, ``restore-sink`` (both by hand) or ``reset``.
        does: what it does, as a phrase, or why it is not possible.
        command: for ``from-sink`` and ``reset`` the command that does it, for the others the command to run afterwards;
            empty if it is not possible.
        exact: afterwards every row is in the sink once. The start compares restored files again.
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
"""Condition of a job → name and description of what a person may restore. Jobs with other conditions have no
repair."""


def ways(status: JobStatus, query: BoundQuery, from_sink: FromSink | None = None) -> tuple[Way, ...]:
    """Ways to repair a job, the best first; none if checkpoint and sink agree.

    Args:
        status: of the job.
        query: the query, from today's statement.
        from_sink: whether it can continue from its sinks; None if its condition is not in :data:`GOES_ON`.
    """
    if status.state == "RUNNING" or status.condition not in BY_HAND:
        return ()
    name, does = BY_HAND[status.condition]
    sinks = _kept_rows(query)
    reset = "read the sources again from their starting position with a new checkpoint; "
    reset += (
        f"rows that are in {sinks} stay, and are written a second time"
        if sinks
        else "its first batch replaces the rows in the target"
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
    """Sinks whose rows a new checkpoint version does not replace, as one text."""
    targets = (*(sink for sink in query.sinks if effect(query, sink) != "replaced"), *query.logs)
    return ", ".join(f"{sink.store}.{sink.entity}" for sink in targets)
