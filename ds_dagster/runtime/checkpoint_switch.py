"""A checkpoint that continues exactly where another checkpoint ended, in offsets and in event time.

The state of a version depends on the records it has read and the event time it has reached. So the version that takes
over goes back to one of its own batches that is not beyond that point in any source, and gets one more planned batch,
which ends there. It runs that batch without writing rows and writes from the next batch on, so no row is repeated and
none is missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ds_dagster.catalog.ledger import Tip
from ds_dagster.errors import error
from ds_dagster.places.trees import Place, remove_tree, write_whole
from ds_dagster.runtime.checkpoint_files import OFFSETS, VOID, current_folder, entry_of, finish_exchange, unusable
from ds_dagster.runtime.checkpoint_log import kept_batches, rewind_checkpoint
from ds_dagster.runtime.deciding.from_sink import CheckpointLog

NAMED = "v2"
"""Format of an offset log whose sources have names; in format ``v1`` they are in the order of the plan."""
WATERMARK, BEGAN = "batchWatermarkMs", "batchTimestampMs"
Positions = Mapping[str, Mapping[str, int]]
"""Topic → partition → offset of the next record."""


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """An entry of an offset log. Sources are Kafka topics, each read once, and sources of ticks, which all give the
    same time.

    Attributes:
        version: of the format, ``v1`` or ``v2``.
        head: first line of the entry, with the watermark of the batch.
        sources: pairs of a name (empty in format ``v1``) and the text of the offset.
    """

    version: str
    head: Mapping[str, Any]
    sources: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, place: Place, batch: int) -> BatchEnd:
        """Read the entry of a batch from a checkpoint folder.

        Raises:
            ExternalError: CHECKPOINT_UNREADABLE.
        """
        path = place / OFFSETS / str(batch)
        try:
            version, head, *lines = path.read_text(encoding="utf-8").splitlines()
            sources = tuple(_named(line) if version == NAMED else ("", line) for line in lines)
            return cls(version, json.loads(head), sources)
        except (OSError, ValueError) as problem:
            raise error("CHECKPOINT_UNREADABLE", detail=f"{path}: {problem}") from problem

    @property
    def text(self) -> str:
        """The entry as Spark writes it."""
        lines = (f"{name}:{text}" if self.version == NAMED else text for name, text in self.sources)
        return "\n".join([self.version, _compact(self.head), *lines])

    @property
    def positions(self) -> Positions:
        """End positions of all topics."""
        return {
            topic: ends for _, text in self.sources if not _is_time(text) for topic, ends in json.loads(text).items()
        }

    @property
    def tick(self) -> str:
        """The newest tick, as the text of its offset; empty without a source of ticks."""
        ticks = [text for _, text in self.sources if _is_time(text) and text != VOID]
        return max(ticks, key=_micros, default="")

    @property
    def watermark(self) -> int:
        """Watermark of the batch, epoch milliseconds; 0 without one."""
        return int(self.head.get(WATERMARK, 0))

    def is_up_to(self, other: BatchEnd) -> bool:
        """Whether this batch read no record that ``other`` did not read, and reached no later time. A partition that is
        missing in ``other`` counts as not read there."""
        mine, others = self.positions, other.positions
        if mine.keys() != others.keys():
            return False
        if any(end > others[topic].get(part, 0) for topic, ends in mine.items() for part, end in ends.items()):
            return False
        if not (self.tick and other.tick):
            return True
        return _micros(self.tick) <= _micros(other.tick) and self.watermark <= other.watermark

    def moved_to(self, other: BatchEnd) -> BatchEnd:
        """The next batch of this query, with the end positions of ``other``. If ``other`` has no tick, the tick and the
        watermark stay."""
        positions, time = other.positions, other.tick
        has_time = bool(time) and any(_is_time(text) for _, text in self.sources)

        def end(text: str) -> str:
            return (
                (time or text) if _is_time(text) else _compact({topic: positions[topic] for topic in json.loads(text)})
            )

        moved = {BEGAN: max(self.head.get(BEGAN, 0), other.head.get(BEGAN, 0))}
        moved |= {WATERMARK: other.watermark} if has_time else {}
        return BatchEnd(self.version, {**self.head, **moved}, tuple((name, end(text)) for name, text in self.sources))


def source_ends(place: Place, source: str) -> Mapping[int, Mapping[str, Any]]:
    """Offset of a source after each batch that a checkpoint keeps and that had something of the source.

    Args:
        place: checkpoint folder.
        source: name of the source in the checkpoint.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    ends = {}
    for batch in kept_batches(place).batches:
        sources = BatchEnd.of(place, batch).sources  # those without names are in their order
        text = next((text for name, text in sources if name in (source, "")), VOID)
        if text != VOID:
            ends[batch] = json.loads(text)
    return ends


def plan_switch(name: str, place: Place, former: Place, last: int | None, *, has_state: bool) -> int | None:
    """Plan a batch in one checkpoint that ends where a batch of another checkpoint ends. Idempotent.

    Args:
        name: of the version that takes over.
        place: its checkpoint; no query writes it.
        former: checkpoint of the version that has written until now.
        last: the last batch in the sink of ``former``; None: it has written nothing.
        has_state: whether the query of ``place`` keeps state.

    Returns:
        Number of the planned batch; None if neither version has finished a batch.

    Raises:
        UserError: STREAM_NOT_HANDED_OVER. ExternalError: CHECKPOINT_UNREADABLE. OSError: a file cannot be written.
    """
    finish_exchange(place)
    log = kept_batches(place)
    if last is None and log.finished is None:
        return None
    base = None if last is None else _newest_up_to(BatchEnd.of(former, last), place, log, has_state)
    if base is None or last is None:
        unready = "it keeps no batch from before the point where the running version stopped"
        reason = unready if last is not None else "the running version has finished no batch yet"
        raise error("STREAM_NOT_HANDED_OVER", name=name, reason=reason)
    planned = BatchEnd.of(place, base).moved_to(BatchEnd.of(former, last)).text
    entry, newest = str(base + 1), max(log.batches)
    if newest == base + 1 and (place / OFFSETS / entry).read_text(encoding="utf-8") == planned:
        return newest
    if newest > base:
        remove_tree(rewind_checkpoint(place, Tip(base)))
        place = current_folder(place)
    write_whole(place / OFFSETS / entry, planned.encode())
    return base + 1


def entry_at(place: Place, end: Tip, saved: Place, batch: int) -> str:
    """The entry of an offset log for a batch that ends where another batch of the same query ends; empty if its event
    time is unknown.

    Args:
        place: checkpoint of the other batch; it may be gone.
        end: the other batch, as a ledger has it.
        saved: checkpoint that gets the entry.
        batch: last batch of ``saved``.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    own = kept_batches(place).batches.get(end.batch)
    if own is not None and own.offsets and own.is_same(end):
        return (place / OFFSETS / str(end.batch)).read_text(encoding="utf-8")
    last = BatchEnd.of(saved, batch)
    if unusable(end) or last.watermark or any(_is_time(text) for _, text in last.sources if text != VOID):
        return ""
    return entry_of(json.loads(end.ends)["offsets"], last.head["conf"])


def _newest_up_to(end: BatchEnd, place: Place, log: CheckpointLog, has_state: bool) -> int | None:
    """The newest finished batch that is not beyond ``end`` and, if the query keeps state, still has its state."""
    finished = [number for number in log.batches if log.finished is not None and number <= log.finished]
    usable = [number for number in finished if number in log.states or not has_state]
    return next((number for number in sorted(usable, reverse=True) if BatchEnd.of(place, number).is_up_to(end)), None)


def _named(line: str) -> tuple[str, str]:
    name, _, text = line.partition(":")
    return name, text


def _is_time(text: str) -> bool:
    """Whether an offset is a tick: ``{"tick": microseconds, …}``, or ``-`` while no time is known. Offsets of topics
    are objects with the topic's name as key, from the first batch on."""
    if text == VOID:
        return True
    offset = json.loads(text)
    return isinstance(offset, dict) and isinstance(offset.get("tick"), int)


def _micros(tick: str) -> int:
    return int(json.loads(tick)["tick"])


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
