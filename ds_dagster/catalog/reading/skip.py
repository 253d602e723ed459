"""Records that a job passes over on request: ``ds skip``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """One record.

    Attributes:
        entity: ``store.entity``, as failures name it.
        partition: of a topic, or a shard.
        position: offset or sequence number, as text.
        reason: for the row log; who asked is in it.
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
    """For the journal; empty without one."""
    rows = [astuple(skip) for skip in skips]
    return json.dumps(rows) if rows else ""


def skips_of(text: str) -> tuple[SkippedRecord, ...]:
    """The inverse of :func:`skips_to_json`."""
    return tuple(SkippedRecord(*row) for row in json.loads(text)) if text else ()
