"""Where a reader is, and its JSON: ``{"<entity>": {"0": {...}}}`` with one of::

    {"begin": "earliest"}                       nothing was read yet
    {"lsn": "0/16B3748"}                        every transaction whose commit record begins before it is read
    {"lsn": "0/16B3748", "part": 3, "of": 8}    so many parts of the snapshot taken at that LSN are read

LSNs are as Postgres writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ds_dagster.errors import error

PARTITION = "0"
JsonOffset = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in the changes. ``lsn`` None: before the first; ``of`` > 0: inside or at the end of a snapshot."""

    lsn: int | None = None
    part: int = 0
    of: int = 0
    begin: str = "earliest"

    @property
    def in_snapshot(self) -> bool:
        """Parts of the snapshot are still to be read."""
        return self.part < self.of

    def json(self, entity: str) -> JsonOffset:
        """The form in Spark's offset log; ``entity``: table or tables, for people."""
        if self.lsn is None:
            return {entity: {PARTITION: {"begin": self.begin}}}
        parts = {"part": self.part, "of": self.of} if self.of else {}
        return {entity: {PARTITION: {"lsn": lsn_text(self.lsn), **parts}}}

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> LogPosition:
        """Read what :meth:`json` gave. Raises InternalError: CDC_OFFSET_INVALID."""
        try:
            (partitions,) = offset.values()
            log_offset = partitions[PARTITION]
            if "begin" in log_offset:
                return cls(begin=str(log_offset["begin"]))
            return cls(lsn_number(log_offset["lsn"]), int(log_offset.get("part", 0)), int(log_offset.get("of", 0)))
        except (KeyError, TypeError, ValueError, AttributeError) as mismatch:
            raise error("CDC_OFFSET_INVALID", offset=str(offset)[:300]) from mismatch


def lsn_text(number: int) -> str:
    """``16/B374D848`` of a number."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """A number of ``16/B374D848``."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)
