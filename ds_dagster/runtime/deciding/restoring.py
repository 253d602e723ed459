"""Decides whether and how a job continues from a savepoint. No I/O.

The sinks have rows of batches after the savepoint. Either the job first reads up to the end of the sinks without
writing, so that every row is there once, or it writes those rows again, with permission. Otherwise it is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ds_dagster.catalog.ledger import Tip
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime.deciding.from_sink import SinkEnd, needs_its_checkpoint

How = Literal["at_sink", "after_sink", "again", "fork"]
"""``at_sink``: its sinks end at the savepoint; ``after_sink``: it reads up to the end of its sinks without writing;
``again``: it writes rows of streams a second time; ``fork``: another job, whose sinks have no rows of the savepoint's
job."""
STREAMS = ("stream", "changelog")
START_OVER = "`ds reset {name}` reads its sources again; `--allow duplicates` writes rows of streams again"
OTHER_TOPIC = "write another 'topic' in the WITH of {name}: it gets the rows from the savepoint on"
RESET = "`ds reset {name}` reads its sources again"
SAME_SOURCE = "let the store of {name}'s sources have the address of the savepoint's cluster, or `ds reset {name}`"
ROLLBACK = "run `ds rollback {name} --to {version}` first, then `ds stop {name}` and restore it"
"""Hints."""


@dataclass(frozen=True, slots=True)
class Restoring:
    """``how`` a job continues, or None and the ``reason`` why it cannot, with a ``hint``; ``end``: where its sinks end
    (``at_sink``, ``after_sink``)."""

    how: How | None = None
    end: Tip | None = None
    reason: str = ""
    hint: str = START_OVER


@dataclass(frozen=True, slots=True)
class SavedState:
    """Facts about a savepoint that the decision needs.

    Attributes:
        unfit: why its state does not fit today's statement; empty if it fits.
        tip: its last batch.
        is_same_version: it was copied from the job's checkpoint version, so batch numbers can be compared.
        is_same_history: the job's checkpoint version continues the history that the savepoint belongs to.
        targets: see ``Savepoint.targets``.
    """

    unfit: str
    tip: Tip
    is_same_version: bool = True
    is_same_history: bool = True
    targets: Mapping[str, str] | None = None


def restoring(
    query: BoundQuery,
    saved: SavedState,
    ends: Sequence[SinkEnd],
    forgotten: str = "",
    *,
    may_double: bool = False,
) -> Restoring:
    """Whether the job that made a savepoint can continue from it.

    Args:
        query: the query, from today's statement.
        saved: the savepoint.
        ends: of all sinks.
        forgotten: why its sources may not return the same records again; empty if they do.
        may_double: rows that a stream has may be written again.
    """
    reason = _unfit(query, saved)
    if reason:
        return Restoring(reason=reason)
    if may_double:
        others = ", ".join(f"{sink.store}.{sink.entity}" for sink in query.sinks if sink.kind not in STREAMS)
        if others:
            return Restoring(reason=f"rows of {others} cannot be taken back to the savepoint")
        return Restoring("again", reason="") if not forgotten else Restoring(reason=forgotten)
    return _beyond(saved, ends, forgotten)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts about another job that is to begin with a savepoint.

    Attributes:
        targets: ``store.entity`` → identity of the entity that the query writes, empty if it does not exist yet.
        sources: ``store.entity`` → identity of the entity that the query reads, empty if it does not exist, and of the
            one that the savepoint's job has read; sources for which one of the two is unknown are left out.
        written: identities of entities that the other job has written itself.
        has_worked: whether the other job has finished a batch.
        version: the number that the savepoint's job has as another version of the same query; None if it is none.
    """

    targets: Mapping[str, str]
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    written: Collection[str] = ()
    has_worked: bool = False
    version: int | None = None


def forking(query: BoundQuery, saved: SavedState, there: Surroundings) -> Restoring:
    """Whether another job can begin with a savepoint that it did not make.

    Args:
        query: of the other job.
        saved: the savepoint, with its targets.
        there: the other job.
    """
    reason = _unfit(query, saved)
    views = ", ".join(f"{sink.store}.{sink.entity}" for sink in query.sinks if sink.kind not in STREAMS)
    others = ", ".join(entity for entity, (own, read) in there.sources.items() if own != read)
    twice, again = (_among(there.targets, identities) for identities in ((saved.targets or {}).values(), there.written))
    is_unknown = there.has_worked and not there.written
    reasons = {
        f"it is from version {there.version} of {query.name}": (there.version is not None, ROLLBACK),
        f"a savepoint has no rows of {views}, so rows from before it would be missing": (bool(views), RESET),
        f"the job of the savepoint has read another {others}, whose records have other positions": (
            bool(others),
            SAME_SOURCE,
        ),
        f"the job of the savepoint writes {twice}, too": (bool(twice), OTHER_TOPIC),
        f"it has written rows of its own into {again or 'its topics'}": (bool(again) or is_unknown, OTHER_TOPIC),
    }
    if reason:
        return Restoring(reason=reason, hint=RESET)
    problems = (Restoring(reason=text, hint=hint) for text, (holds, hint) in reasons.items() if holds)
    return next(problems, Restoring("fork"))


def _among(targets: Mapping[str, str], identities: Collection[str]) -> str:
    return ", ".join(entity for entity, identity in targets.items() if identity and identity in identities)


def _unfit(query: BoundQuery, saved: SavedState) -> str:
    return saved.unfit or needs_its_checkpoint(query)


def _beyond(saved: SavedState, ends: Sequence[SinkEnd], forgotten: str) -> Restoring:
    unknown = next((end.unknown or f"the ledger of {end.entity} has no batch" for end in ends if not end.tip), "")
    tips = [end.tip for end in ends if end.tip]
    if unknown or any(not tip.is_same(tips[0]) for tip in tips):
        shown = ", ".join(f"{end.entity} at batch {end.tip.batch}" for end in ends if end.tip)
        return Restoring(reason=unknown or f"its sinks do not end at one batch: {shown}")
    end = tips[0]
    if saved.is_same_version and end.is_same(saved.tip):
        return Restoring("at_sink", end)
    reasons = {
        "the job was reset since: its sinks have rows of another history": not saved.is_same_history,
        f"its sinks end at batch {end.batch}, before the savepoint": saved.is_same_version
        and end.batch < saved.tip.batch,
        forgotten: bool(forgotten),
    }
    reason = next((text for text, holds in reasons.items() if holds), "")
    return Restoring(reason=reason) if reason else Restoring("after_sink", end)
