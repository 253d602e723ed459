"""A checkpoint that goes on exactly where another one has ended: the pair of end offsets and event time.

The state of a version is made of the records it has read and of the time it has reached. So the version that takes over
goes back to a batch of its own that is not behind that point in any source, and gets one more planned batch, which ends
there. Whoever runs that batch without writing its rows, and writes from the next one on, repeats no row and leaves none
out.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds_dagster.catalog.ledger import Tip
from ds_dagster.durable import write_whole
from ds_dagster.errors import error
from ds_dagster.runtime.checkpoint_files import OFFSETS, VOID, entry_of, unusable
from ds_dagster.runtime.checkpoint_log import kept_batches, rewind_checkpoint
from ds_dagster.runtime.deciding.from_sink import CheckpointLog

NAMED = "v2"
"""Format of an offset log whose sources have names; in the other one they are in the order of the plan."""
WATERMARK, BEGAN = "batchWatermarkMs", "batchTimestampMs"
Positions = Mapping[str, Mapping[str, int]]
"""Topic → partition → offset of the next record."""


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """An entry of an offset log. Sources are topics of Kafka, each read once, and sources of time, which all give the
    same time.

    Attributes:
        version: of the format.
        head: of the entry, with the event time of the batch.
        sources: name, empty without one, and text of the offset.
    """

    version: str
    head: Mapping[str, Any]
    sources: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, place: Path, batch: int) -> BatchEnd:
        """Read it.

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
        """As Spark writes it."""
        lines = (f"{name}:{text}" if self.version == NAMED else text for name, text in self.sources)
        return "\n".join([self.version, _compact(self.head), *lines])

    @property
    def positions(self) -> Positions:
        """Of all topics."""
        return {
            topic: ends for _, text in self.sources if not _is_time(text) for topic, ends in json.loads(text).items()
        }

    @property
    def tick(self) -> str:
        """The newest offset of a source of time; empty without one."""
        ticks = [text for _, text in self.sources if _is_time(text) and text != VOID]
        return max(ticks, key=_micros, default="")

    @property
    def watermark(self) -> int:
        """Event time that the batch was computed with, epoch milliseconds."""
        return int(self.head.get(WATERMARK, 0))

    def is_up_to(self, other: BatchEnd) -> bool:
        """Whether nothing was read that the other one has not read, and no later time was reached. A partition that the
        other one does not have was not read."""
        mine, others = self.positions, other.positions
        if mine.keys() != others.keys():
            return False
        if any(end > others[topic].get(part, 0) for topic, ends in mine.items() for part, end in ends.items()):
            return False
        if not (self.tick and other.tick):
            return True
        return _micros(self.tick) <= _micros(other.tick) and self.watermark <= other.watermark

    def moved_to(self, other: BatchEnd) -> BatchEnd:
        """The next batch of the same query, which ends where the other one does. Where the other query has no time, its
        own stays."""
        positions, time = other.positions, other.tick
        has_time = bool(time) and any(_is_time(text) for _, text in self.sources)

        def end(text: str) -> str:
            return (
                (time or text) if _is_time(text) else _compact({topic: positions[topic] for topic in json.loads(text)})
            )

        moved = {BEGAN: max(self.head.get(BEGAN, 0), other.head.get(BEGAN, 0))}
        moved |= {WATERMARK: other.watermark} if has_time else {}
        return BatchEnd(self.version, {**self.head, **moved}, tuple((name, end(text)) for name, text in self.sources))


def plan_switch(name: str, place: Path, former: Path, last: int | None, *, has_state: bool) -> int | None:
    """Plan the batch of a checkpoint that ends where a batch of another one does. May be done again.

    Args:
        name: of the version that takes over.
        place: its checkpoint; nobody writes it.
        former: of the version that has written until now.
        last: its last batch that is written; None: it has written nothing.
        has_state: whether the query of ``place`` keeps state.

    Returns:
        Number of the batch; None where both have read nothing.

    Raises:
        UserError: STREAM_NOT_HANDED_OVER. ExternalError: CHECKPOINT_UNREADABLE. OSError: a file cannot be written.
    """
    _finish_exchange(place)
    log = kept_batches(place)
    if last is None and log.finished is None:
        return None
    base = None if last is None else _newest_up_to(BatchEnd.of(former, last), place, log, has_state)
    if base is None or last is None:
        unready = "it keeps no batch from before the point where the running version stopped"
        reason = unready if last is not None else "the running version has finished no batch yet"
        raise error("STREAM_NOT_HANDED_OVER", name=name, reason=reason)
    planned = BatchEnd.of(place, base).moved_to(BatchEnd.of(former, last)).text
    path, newest = place / OFFSETS / str(base + 1), max(log.batches)
    if newest == base + 1 and path.read_text(encoding="utf-8") == planned:
        return newest
    if newest > base:
        shutil.rmtree(rewind_checkpoint(place, Tip(base)))
    write_whole(path, planned.encode())
    return base + 1


def entry_at(place: Path, end: Tip, saved: Path, batch: int) -> str:
    """The entry of an offset log for a batch that ends where another one of the same query does; empty where its event
    time is not known.

    Args:
        place: checkpoint that the other batch is of; it may be gone.
        end: the other batch, as a ledger has it.
        saved: checkpoint that gets the entry.
        batch: its last batch.

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


def _newest_up_to(end: BatchEnd, place: Path, log: CheckpointLog, has_state: bool) -> int | None:
    """The newest finished batch that can be gone on from, and is not beyond a point."""
    finished = [number for number in log.batches if log.finished is not None and number <= log.finished]
    usable = [number for number in finished if number in log.states or not has_state]
    return next((number for number in sorted(usable, reverse=True) if BatchEnd.of(place, number).is_up_to(end)), None)


def _finish_exchange(place: Path) -> None:
    """A kill between two renames leaves the whole new folder beside an empty place."""
    folder = place.with_name(f"{place.name}-new")
    if folder.is_dir() and not place.exists():
        folder.rename(place)


def _named(line: str) -> tuple[str, str]:
    name, _, text = line.partition(":")
    return name, text


def _is_time(text: str) -> bool:
    """Whether an offset is one of time: ``{"tick": micros, …}``, or nothing while no time is known. Those of topics are
    objects by the name of a topic, from the first batch on."""
    if text == VOID:
        return True
    offset = json.loads(text)
    return isinstance(offset, dict) and isinstance(offset.get("tick"), int)


def _micros(tick: str) -> int:
    return int(json.loads(tick)["tick"])


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
