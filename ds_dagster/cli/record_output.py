"""Records of topics and streams, for people and for programs: `ds print`, and PRINT ENTITY in `ds sql`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.output import CALENDAR, clock, parsed, visible
from ds_dagster.project.load import LoadedProject, storage_kind

if TYPE_CHECKING:
    from ds_dagster.datatypes import DataType

PLACES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"kafka": ("partition", "offset"), "kinesis": ("shard", "sequence number")}
)
"""Kind of storage → its words for a part of an entity and for a record's place in that part."""
WIDEST_KEY = 40
"""Greatest width of the column of keys, in characters."""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record as text.

    Attributes:
        raw: the record as it is in the store.
        key, value: JSON or plain text; ``null`` for none.
    """

    raw: RawRecord
    key: str
    value: str

    @property
    def document(self) -> dict[str, Any]:
        """Its fields for JSON; ``timestamp`` is in epoch milliseconds."""
        return {
            "partition": self.raw.partition,
            "position": self.raw.position,
            "timestamp": self.raw.timestamp_millis,
            "key": None if self.raw.key is None else parsed(self.key),
            "value": None if self.raw.value is None else parsed(self.value),
        }

    def has_key(self, text: str) -> bool:
        """Whether ``text`` is the key's text, its JSON, or the value of the only field of a JSON key."""
        if self.raw.key is None:
            return False
        key = parsed(self.key)
        values = [key, *(key.values() if isinstance(key, dict) and len(key) == 1 else ())]
        texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
        return text in (self.key, *texts) or (isinstance(key, dict) and _canonical(parsed(text)) == _canonical(key))

    def is_in(self, partition: str) -> bool:
        """Whether the record is in this partition or shard, see :func:`is_part`."""
        return is_part(self.raw.partition, partition)


def is_part(name: str, text: str) -> bool:
    """Whether a text names a partition or shard: ``0`` is also ``00`` and ``shardId-000000000000``."""
    number = name.removeprefix("shardId-")
    return name == text or (text.isdecimal() and number.isdecimal() and int(number) == int(text))


def _canonical(value: object) -> str:
    """JSON that is equal for equal values: ``1``, ``1.0`` and ``true`` differ, as they do in a key's bytes."""
    return json.dumps(value, sort_keys=True)


def shower(project: LoadedProject, store: str, relation: Relation | None) -> Callable[[RawRecord], ShownRecord]:
    """A function that turns records of a store into text. ``relation``: describes the records; None: unknown."""
    from ds_dagster.questions.following import has_text_keys
    from ds_dagster.questions.records import primitive_types, shown_part

    key_type, value_type = primitive_types(relation)
    own_key_type: DataType | None = None if has_text_keys(project, store) else key_type
    return lambda raw: ShownRecord(raw, shown_part(raw.key, own_key_type), shown_part(raw.value, value_type))


@dataclass(slots=True)
class RecordLines:
    """Aligned lines of records that come one by one, with headers above the first. Columns grow with their values.

    Attributes:
        kind: kind of storage, for the headers.
    """

    kind: str
    _widths: list[int] = field(default_factory=list)

    def line(self, record: ShownRecord) -> str:
        """The record's line; for the first record, headers and the line."""
        partition, position = PLACES.get(self.kind, ("partition", "position"))
        raw = record.raw
        texts = (raw.partition, raw.position, moment_text(raw.timestamp_millis), record.key)
        cells = [visible(text) for text in texts]
        headers = [partition.upper(), position.upper(), "TIME (UTC)", "KEY"]
        is_first = not self._widths
        self._widths = self._widths or [len(header) for header in headers]
        lengths = [*(len(cell) for cell in cells[:3]), min(len(cells[3]), WIDEST_KEY)]
        self._widths = [max(width, length) for width, length in zip(self._widths, lengths, strict=True)]
        shown = self._aligned(cells, visible(record.value))
        return f"{self._aligned(headers, 'VALUE')}\n{shown}" if is_first else shown

    def _aligned(self, cells: list[str], value: str) -> str:
        return "  ".join([*(cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)), value])


def lines_of(project: LoadedProject, store: str) -> RecordLines:
    """Lines for the records of a store."""
    return RecordLines(storage_kind(project, store))


def moment_text(millis: int) -> str:
    """Epoch milliseconds as a time in UTC; ``-`` for a record without a time (negative)."""
    if millis < 0:
        return "-"
    if millis // 1000 > CALENDAR[1]:
        return f"{millis} ms"
    return f"{clock(millis // 1000)}.{millis % 1000:03d}"
