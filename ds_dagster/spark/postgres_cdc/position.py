"""The position of a reader and its JSON: ``{"<entity>": {"0": {...}}}`` with one of::

    {"begin": "earliest"}                       nothing is read yet
    {"lsn": "0/16B3748"}                        all transactions whose commit record begins before this LSN are read
    {"lsn": "0/16B3748", "part": 3, "of": 8}    3 of 8 parts of the snapshot taken at this LSN are read

LSNs are in the text form of Postgres.
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
    """A position in the changes.

    Attributes:
        lsn: see the module; None before the first batch.
        part: number of parts of the snapshot that are read.
        of: number of parts of the snapshot; 0: there is no snapshot, or later changes are read.
        begin: ``earliest`` or ``latest``, before the first batch.
    """

    lsn: int | None = None
    part: int = 0
    of: int = 0
    begin: str = "earliest"

    @property
    def in_snapshot(self) -> bool:
        """Whether parts of the snapshot are not read yet."""
        return self.part < self.of

    def json(self, entity: str) -> JsonOffset:
        """The form in Spark's offset log; ``entity``: name of the table or tables."""
        if self.lsn is None:
            return {entity: {PARTITION: {"begin": self.begin}}}
        parts = {"part": self.part, "of": self.of} if self.of else {}
        return {entity: {PARTITION: {"lsn": lsn_text(self.lsn), **parts}}}

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> LogPosition:
        """The position from the result of :meth:`json`. Raises InternalError: CDC_OFFSET_INVALID."""
        try:
            (partitions,) = offset.values()
            log_offset = partitions[PARTITION]
            if "begin" in log_offset:
                return cls(begin=str(log_offset["begin"]))
            return cls(lsn_number(log_offset["lsn"]), int(log_offset.get("part", 0)), int(log_offset.get("of", 0)))
        except (KeyError, TypeError, ValueError, AttributeError) as mismatch:
            raise error("CDC_OFFSET_INVALID", offset=str(offset)[:300]) from mismatch


def lsn_text(number: int) -> str:
    """The text ``16/B374D848`` of an LSN."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """The LSN as a number, from a text like ``16/B374D848``."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


PAGE_BYTES, PAGE_HEADER_BYTES = 8192, 40


def has_reached(position: int, flushed: int) -> bool:
    """Whether a session has sent everything before the end of the log. The end may be named after the header of a page
    that has no records yet; a session is at the beginning of that page then."""
    inside = flushed % PAGE_BYTES
    return position >= (flushed - inside if inside <= PAGE_HEADER_BYTES else flushed)
