"""Decides whether and how a job can continue from the last batch of its sinks. No I/O.

A query without state needs the end offsets of that batch, which the sinks' ledgers have. A query with state needs a
checkpoint that still has the state after that batch. A continuation that would not be exact is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ds_dagster.catalog.ledger import Tip
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime.checkpoint_files import unusable

MOST_BATCHES = 100
"""Most batches that a sink of an application may lack: they are loaded as one batch."""


@dataclass(frozen=True, slots=True)
class SinkEnd:
    """Where one sink of a job ends.

    Attributes:
        entity: ``store.entity``.
        tip: the newest batch in its ledger, or None.
        unknown: why the end is unknown; empty if the ledger was read.
        is_restorable: see ``catalog.io_spec.LedgerReader``.
        part: name of the part of the query that fills it.
    """

    entity: str
    tip: Tip | None = None
    unknown: str = ""
    is_restorable: bool = False
    part: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """What a checkpoint keeps of its batches.

    Attributes:
        finished: number of its last finished batch; None without one, or without a checkpoint.
        batches: batches whose end offsets it has, by number.
        states: numbers of the finished batches after which it has the state of every step.
    """

    finished: int | None = None
    batches: Mapping[int, Tip] = field(default_factory=lambda: MappingProxyType({}))
    states: frozenset[int] = frozenset()

    def has(self, tip: Tip) -> bool:
        """Whether the checkpoint has this batch, with the same offsets."""
        own = self.batches.get(tip.batch)
        return own is not None and bool(tip.offsets) and own.is_same(tip)


NOTHING_KEPT = CheckpointLog()


@dataclass(frozen=True, slots=True)
class FromSink:
    """Whether a job can continue from its sinks.

    Attributes:
        tip: the batch that becomes the last finished one of its checkpoint; None if it cannot continue.
        following: the batch after ``tip``, which becomes planned: sinks that have it skip it, the others load it. None
            if all sinks end at one batch.
        renumbered: parts whose sinks' newest batch first gets the number of ``tip`` in their ledgers.
        rewinds: the checkpoint goes back to ``tip``, with its state; else a new one is made from the ledgers' offsets.
        reason: why it cannot continue; empty if it can.
        entities: its sinks, as one text.
    """

    tip: Tip | None = None
    following: Tip | None = None
    renumbered: tuple[str, ...] = ()
    rewinds: bool = False
    reason: str = ""
    entities: str = ""

    @property
    def does(self) -> str:
        """The repair as a phrase, for people; only if there is a ``tip``."""
        assert self.tip is not None
        where = f"ends at batch {self.tip.batch}, where {self.entities} ends"
        if self.following is not None:
            where = f"ends at batch {self.tip.batch} and has begun batch {self.following.batch}, which some of "
            where += f"{self.entities} have and skip"
        if self.rewinds:
            return f"go back to the copy of the checkpoint that {where}, and read later records again"
        return f"make a checkpoint that {where}, from the offsets in its ledger, and start after it"


def needs_its_checkpoint(query: BoundQuery) -> str:
    """Why a query can never continue from its sinks without its own checkpoint; empty if it may."""
    if query.refresh == "full":
        return "every run of a full refresh begins with a new checkpoint"
    if query.logs:
        logs = ", ".join(f"{log.store}.{log.entity}" for log in query.logs)
        return f"it is not known which of the rows that its batches left out are already in {logs}"
    return ""


def from_sink(
    query: BoundQuery,
    ends: Sequence[SinkEnd],
    log: CheckpointLog = NOTHING_KEPT,
    forgotten: str = "",
) -> FromSink:
    """Whether a query can continue from where its sinks end.

    Args:
        query: the query, from today's statement.
        ends: of all its sinks; ignored if :func:`needs_its_checkpoint` returns a reason.
        log: of its checkpoint.
        forgotten: why its sources may not return the same records again; empty if they do.
    """
    reason = needs_its_checkpoint(query) or next((text for text in map(_unknown, ends) if text), "")
    if reason:
        return FromSink(reason=reason)
    low, high = (pick((end.tip for end in ends if end.tip), key=_number) for pick in (min, max))
    behind = [end for end in ends if end.tip and end.tip.is_same(low)]
    entities = ", ".join(dict.fromkeys(end.entity for end in ends))
    aim = FromSink(low, None if low.is_same(high) else high, entities=entities)
    reason = (
        _scattered(ends, low, high)
        or _too_far(query, ends, behind, aim)
        or _cannot_go_back(behind, low, log, forgotten)
    )
    if reason:
        return FromSink(reason=reason)
    if high.batch > low.batch + 1:
        tip, parts = replace(low, batch=high.batch - 1), tuple(end.part for end in behind)
        aim = replace(aim, tip=tip, renumbered=parts)
    return _with_means(query, aim, log)


def _number(tip: Tip) -> int:
    return tip.batch


def _unknown(end: SinkEnd) -> str:
    if end.unknown:
        return end.unknown
    return "" if end.tip else f"the ledger of {end.entity} has no batch of this checkpoint version"


def _shown(ends: Sequence[SinkEnd]) -> str:
    return ", ".join(f"{end.entity} at batch {end.tip.batch}" for end in ends if end.tip)


def _scattered(ends: Sequence[SinkEnd], low: Tip, high: Tip) -> str:
    """The reason if sinks end at more than two batches: sinks that have the newest batch skip it, all others load
    it."""
    is_one = low.is_same(high)
    fits = all(end.tip.is_same(low) or end.tip.is_same(high) for end in ends if end.tip)
    if fits and (is_one or low.batch != high.batch):
        return ""
    return f"its sinks do not end at one batch, nor at two of which one follows the other: {_shown(ends)}"


def _too_far(query: BoundQuery, ends: Sequence[SinkEnd], behind: Sequence[SinkEnd], aim: FromSink) -> str:
    """The reason if sinks are too many batches apart. The batches that some sinks lack become one batch, with the
    number of the newest. A query with state would need the state after the batch before the newest, so it is
    refused."""
    low, high = aim.tip, aim.following
    if low is None or high is None or high.batch == low.batch + 1:
        return ""
    steps = _steps(query)
    if steps:
        return f"its sinks do not end at one batch: {_shown(ends)}; and the query keeps state ({steps})"
    if high.batch - low.batch > MOST_BATCHES:
        return f"its sinks end more than {MOST_BATCHES} batches apart: {_shown(ends)}"
    return _not_restorable(behind)


def _cannot_go_back(behind: Sequence[SinkEnd], low: Tip, log: CheckpointLog, forgotten: str) -> str:
    """The reason if a batch before the end of the checkpoint cannot be the end: later batches are read and written
    again."""
    if log.finished is None or low.batch >= log.finished:
        return ""
    return _not_restorable(behind) or forgotten


def _not_restorable(behind: Sequence[SinkEnd]) -> str:
    names = ", ".join(end.entity for end in behind if not end.is_restorable)
    return f"rows may be in {names} that its ledger does not know: they are not one transaction" if names else ""


def _with_means(query: BoundQuery, aim: FromSink, log: CheckpointLog) -> FromSink:
    """The aim with the way to make its checkpoint, or the reason why there is no way."""
    assert aim.tip is not None
    batches = [aim.tip, *([aim.following] if aim.following else [])]
    is_finished = log.finished is not None and aim.tip.batch <= log.finished
    has_batches = is_finished and not aim.renumbered and all(map(log.has, batches))
    steps = _steps(query)
    if has_batches and (not steps or aim.tip.batch in log.states):
        return replace(aim, rewinds=True)
    if steps:
        reason = f"the query keeps state that only its checkpoint has ({steps})"
        if log.finished is not None:
            reason += f", and its checkpoint does not have that of batch {aim.tip.batch}"
        return FromSink(reason=reason)
    for tip in batches:
        why = unusable(tip)
        if why:
            return FromSink(reason=f"the ledger of {aim.entities} {why} (batch {tip.batch})")
    return aim


def _steps(query: BoundQuery) -> str:
    """Steps of a query that keep state, as one text."""
    return ", ".join(dict.fromkeys(type(node).__name__ for node in query.plan.walk() if node.is_stateful))
