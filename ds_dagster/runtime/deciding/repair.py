"""What can be done for a job whose checkpoint and sink disagree: data, and no I/O. Only what ends in exact rows is
offered as a step of ours; everything else is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ds_dagster.catalog.ledger import Tip
from ds_dagster.plan.identity.replay import effect
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime.checkpoint_files import unusable
from ds_dagster.runtime.status import JobStatus

RESET = "reset"
FROM_SINK = "from-sink"
GOES_ON = ("CHECKPOINT_BEHIND_SINK", "CHECKPOINT_MISSING")
"""Conditions of a job whose sink may know more than its checkpoint."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way out.

    Attributes:
        name: ``from-sink``, ``restore-checkpoint``, ``restore-sink`` (by hand) or ``reset``.
        does: in a sentence; why it cannot be done.
        command: what to run when it is done; of ``from-sink`` and ``reset`` what does it; empty where nothing does.
        exact: every row is in the sink once afterwards. What is restored is compared again at the start.
    """

    name: str
    does: str
    command: str
    exact: bool


@dataclass(frozen=True, slots=True)
class SinkEnd:
    """Where one sink of a job ends.

    Attributes:
        entity: ``store.entity``.
        tip: the newest batch in its ledger, or None.
        unknown: why nobody can tell; empty where the ledger was read.
    """

    entity: str
    tip: Tip | None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class FromSink:
    """Whether a job can go on from what its sinks have.

    Attributes:
        tip: the batch its checkpoint then ends at; None where it cannot.
        reason: why it cannot, empty where it can.
        entities: its sinks.
    """

    tip: Tip | None = None
    reason: str = ""
    entities: str = ""

    def way(self, name: str) -> Way:
        """The same as a way out of a job's condition."""
        if self.tip is None:
            return Way(FROM_SINK, f"not possible: {self.reason}", "", False)
        does = (
            f"make a checkpoint that ends at batch {self.tip.batch}, where {self.entities} ends, from the offsets in "
        )
        return Way(FROM_SINK, does + "its ledger, and start after it", f"ds repair {name} --from-sink", True)


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
    return others if from_sink is None else (from_sink.way(status.name), *others)


def needs_its_checkpoint(query: BoundQuery) -> str:
    """What of a query only its checkpoint has; empty for one that can go on from offsets alone."""
    if query.refresh == "full":
        return "every run of a full refresh begins with a new checkpoint"
    steps = dict.fromkeys(type(node).__name__ for node in query.plan.walk() if node.is_stateful)
    if steps:
        return f"the query keeps state that only its checkpoint has ({', '.join(steps)})"
    if query.logs:
        logs = ", ".join(f"{log.store}.{log.entity}" for log in query.logs)
        return f"rows that its last batch has left out may not be in {logs} yet"
    return ""


def from_sink(query: BoundQuery, ends: Sequence[SinkEnd]) -> FromSink:
    """Whether a query can go on from where its sinks end.

    Args:
        query: its statement today.
        ends: of all its sinks; not looked at where :func:`needs_its_checkpoint` says something.
    """
    reason = needs_its_checkpoint(query) or next((text for text in map(_unusable, ends) if text), "")
    tips = {end.entity: end.tip for end in ends if end.tip is not None}
    first = next(iter(tips.values()), None)
    if not reason and any(not tip.is_same(first) for tip in tips.values() if first is not None):
        reason = "its sinks do not end at one batch: "
        reason += ", ".join(f"{entity} at batch {tip.batch}" for entity, tip in tips.items())
    return FromSink(reason=reason) if reason else FromSink(first, entities=", ".join(tips))


def _unusable(end: SinkEnd) -> str:
    if end.unknown:
        return end.unknown
    if end.tip is None:
        return f"the ledger of {end.entity} has no batch of this checkpoint version"
    why = unusable(end.tip)
    return f"the ledger of {end.entity} {why} (batch {end.tip.batch})" if why else ""


def _kept_rows(query: BoundQuery) -> str:
    """Sinks that a new checkpoint version adds to instead of replacing their rows."""
    targets = (*(sink for sink in query.sinks if effect(query, sink) != "replaced"), *query.logs)
    return ", ".join(f"{sink.store}.{sink.entity}" for sink in targets)
