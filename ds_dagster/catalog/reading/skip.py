"""Records that a job skips on request: ``ds skip``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """One record to skip.

    Attributes:
        entity: ``store.entity``, as failures name it.
        partition: of a topic, or a shard.
        position: offset or sequence number, as text.
        reason: for the row log; it names who requested the skip.
    """

    entity: str
    partition: str
    position: str
    reason: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        """Identity among the records of the entity."""
        return self.entity, self.partition, self.position


def skips_to_json(skips: Iterable[SkippedRecord]) -> str:
    """JSON text for the journal; empty if there are no records to skip."""
    rows = [astuple(skip) for skip in skips]
    return json.dumps(rows) if rows else ""


def skips_of(text: str) -> tuple[SkippedRecord, ...]:
    """The inverse of :func:`skips_to_json`."""
    return tuple(SkippedRecord(*row) for row in json.loads(text)) if text else ()
