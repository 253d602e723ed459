"""Records of a topic that are read again: which offsets they have, and whether they are still there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.reading.extent import Extent
from ds_dagster.catalog.reading.past import PACE_SECONDS, Amount, PastRequest, Portion
from ds_dagster.stores.kafka.extents import extents

if TYPE_CHECKING:
    from ds_dagster.stores.kafka.admin import KafkaAdmin

AT_ONCE = 200_000
"""Most records of one portion."""


@dataclass(frozen=True, slots=True)
class TopicPast:
    """See ``catalog.reading.past.Past``.

    Attributes:
        topic: its name.
        offsets: partition → (first, after the last).
        is_stamped: the broker sets the time of records.
        before: number of offsets before those at which the query began; None if unknown.
    """

    topic: str
    offsets: Mapping[str, tuple[int, int]]
    is_stamped: bool = False
    before: int | None = None

    def __str__(self) -> str:
        text = f"{_count(self.offsets):,} records of {len(self.offsets)} partitions are read again"
        return f"{text}, {self.before:,} of them from before the query began" if self.before else text

    @property
    def amount(self) -> Amount:
        """Number of offsets, including markers of transactions."""
        return Amount(records=_count(self.offsets))

    def whole(self) -> Portion | None:
        """All offsets at once."""
        return self._portion(self.offsets) if self.offsets else None

    def portions(self, rate: int | None) -> Iterator[Portion]:
        """Partition by partition, at most :data:`AT_ONCE` records, or those of a few seconds."""
        most = AT_ONCE if rate is None else max(1, min(AT_ONCE, round(rate * PACE_SECONDS)))
        for part, (first, last) in self.offsets.items():
            for at in range(first, last, most):
                yield self._portion({part: (at, min(at + most, last))})

    def _portion(self, offsets: Mapping[str, tuple[int, int]]) -> Portion:
        ends = {
            name: json.dumps({self.topic: {part: pair[side] for part, pair in offsets.items()}})
            for side, name in enumerate(("startingOffsets", "endingOffsets"))
        }
        assigned = json.dumps({self.topic: [int(part) for part in offsets]})
        return Portion({"assign": assigned, **ends, "failOnDataLoss": "true"}, _count(offsets))


def past(admin: KafkaAdmin, request: PastRequest) -> TopicPast:
    """See ``catalog.reading.past.ReadsPast``."""
    facts = admin.describe(request.entity)
    check_topic(request, facts)
    is_stamped = facts is not None and facts.record_time == "broker"
    return offsets_to_read(request, extents(admin, request.entity, request.since), is_stamped=is_stamped)


def check_topic(request: PastRequest, facts: EntityFacts | None) -> None:
    """Refuse a topic that was deleted since it was read, or that is compacted: records are gone.

    Args:
        request: with the identity of the topic that was read.
        facts: of the topic.

    Raises:
        UserError: BACKFILL_REFUSED.
    """
    if facts is None or (request.identity and facts.identity and request.identity != facts.identity):
        raise request.refused("its topic was deleted since it was loaded")
    if "compact" in facts.settings.get("cleanup.policy", ""):
        raise request.refused("its topic is compacted: records that had rows may be gone")


def offsets_to_read(request: PastRequest, extents: Mapping[str, Extent], *, is_stamped: bool) -> TopicPast:
    """The records that are wanted, up to the end of the query.

    Args:
        request: of a topic.
        extents: of the topic, from ``request.since`` on.
        is_stamped: the broker sets the time of records, so records that are gone are older than the others.

    Raises:
        UserError: BACKFILL_REFUSED, BACKFILL_RECORDS_GONE.
    """
    ends, began = _offsets(request.end, request.entity), _offsets(request.began, request.entity)
    if ends is None:
        raise request.refused(f"it has no records of {request.entity} yet")
    if began is None and request.is_own:
        raise request.unknown_beginning()
    begun: Mapping[str, int] = (began or {}) if request.is_own else MappingProxyType({})
    _check_there(request, extents, ends, begun, is_stamped=is_stamped)
    begins = {
        part: max(e.first if request.since is None else max(e.begin, e.first), begun.get(part, 0))
        for part, e in extents.items()
    }
    pairs = {part: (begins[part], ends.get(part, 0)) for part in extents}
    offsets = {part: (first, last) for part, (first, last) in pairs.items() if last > first}
    return TopicPast(request.entity, offsets, is_stamped, None if began is None else _before(offsets, began))


def _check_there(
    request: PastRequest,
    extents: Mapping[str, Extent],
    ends: Mapping[str, int],
    begun: Mapping[str, int],
    *,
    is_stamped: bool,
) -> None:
    lost = {part: e for part, e in extents.items() if e.first > begun.get(part, 0) and ends.get(part, 0) > 0}
    firsts = [extent.first_time for extent in lost.values()]
    times = [first for first in firsts if first is not None]
    is_short = any(partition not in extents or extents[partition].end < end for partition, end in ends.items())
    since = request.since if is_stamped and len(times) == len(firsts) else None
    if is_short or (firsts and not (since is not None and since > max(times))):
        raise request.gone(max(times, default=None))


def _offsets(offset: Mapping[str, Mapping[str, int]] | None, topic: str) -> Mapping[str, int] | None:
    """Partition → offset, from an offset in Spark's log; None if it does not have the topic."""
    if offset is None or topic not in offset:
        return None
    return {str(partition): int(number) for partition, number in offset[topic].items()}


def _before(offsets: Mapping[str, tuple[int, int]], began: Mapping[str, int]) -> int:
    parts = ((began.get(part, 0), *ends) for part, ends in offsets.items())
    return sum(max(0, min(begin, last) - first) for begin, first, last in parts)


def _count(offsets: Mapping[str, tuple[int, int]]) -> int:
    return sum(last - first for first, last in offsets.values())
