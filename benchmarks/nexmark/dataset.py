"""Events in files and tables: Parquet records for us, JSON lines for others, Arrow tables for the batch answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from benchmarks.nexmark.generator import BASE, KINDS, Event, events
from ds_dagster.spark.queries.sources import STREAM_BATCH_ROWS

SIDE_ROWS = 10_000
PARTITIONS = 2
TOPICS = (*KINDS, "side_input")
RECORDS = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("timestamp", pyarrow.timestamp("us", "UTC")),
        ("partition", pyarrow.string()),
        ("order", pyarrow.string()),
    ]
)
"""A record as a topic hands it over: what :data:`ds_dagster.spark.queries.sources.SourceProvider` gives."""
_MOMENT = pyarrow.timestamp("ms")


@dataclass(frozen=True)
class Dataset:
    """The same events in every form.

    Attributes:
        folder: where the files are; each topic has a folder per part, with a file per partition.
        parts: how many parts a topic has; the same part of every topic arrived in the same time.
        events: how many events there are.
        per_second: of event time.
    """

    folder: Path
    parts: int
    events: int
    per_second: int = 100

    @property
    def parts_of_batch(self) -> int:
        """How many parts a batch of a backlog has: as many records as the engine reads at once."""
        return max(1, STREAM_BATCH_ROWS * self.parts // self.events)

    @cached_property
    def arrived(self) -> Sequence[Event]:
        """All events, in the order in which they arrive."""
        return events(self.events, per_second=self.per_second)

    @property
    def end_millis(self) -> int:
        """A moment behind everything: every window that holds an event is closed by then."""
        return _millis(BASE + timedelta(seconds=self.events / self.per_second) + timedelta(days=2))

    def files(self, topic: str) -> list[tuple[Path, ...]]:
        """Files of a topic, part by part, in order: one for each partition. The side input has one part, which is there
        from the beginning."""
        parts = (self.folder / "records" / topic / f"{part:05d}" for part in range(self._parts_of(topic)))
        return [tuple(part / f"{number}.parquet" for number in range(PARTITIONS)) for part in parts]

    def lines(self, topic: str) -> list[Path]:
        """The same as JSON lines, one file per partition."""
        return [self.folder / "lines" / topic / f"{number}.json" for number in range(PARTITIONS)]

    def _parts_of(self, topic: str) -> int:
        return 1 if topic == "side_input" else self.parts

    # writing

    def write(self) -> None:
        """Write the records; topics that are there stay."""
        for topic in TOPICS:
            if not all(path.is_file() for part in self.files(topic) for path in part):
                slices = [_side_records()] if topic == "side_input" else self._slices(topic)
                for part, records in zip(self.files(topic), slices, strict=True):
                    for number, path in enumerate(part):
                        _replace(path, [record for record in records if record["partition"] == str(number)])
            for number, part in enumerate(self.files(topic)):
                for path in part:
                    os.utime(path, (number, number))  # in this order, whatever the file system's clock can tell apart

    def _slices(self, topic: str) -> list[list[dict[str, Any]]]:
        """Records of one kind of event by part; a part is a share of all events."""
        size = -(-len(self.arrived) // self.parts)
        found: list[list[dict[str, Any]]] = [[] for _ in range(self.parts)]
        position = 0
        for number, event in enumerate(self.arrived):
            if event.kind == topic:
                found[number // size].append(_record(event, position))
                position += 1
        return found

    def write_lines(self) -> None:
        """Write JSON lines, in order of arrival; topics that are there stay."""
        for topic in TOPICS:
            if all(path.is_file() for path in self.lines(topic)):
                continue
            made = _side_rows() if topic == "side_input" else [e.row for e in self.arrived if e.kind == topic]
            for number, path in enumerate(self.lines(topic)):
                path.parent.mkdir(parents=True, exist_ok=True)
                beside = path.with_name("." + path.name)
                beside.write_bytes(b"".join(_json(row) + b"\n" for row in made[number::PARTITIONS]))
                beside.rename(path)

    # batch

    @cached_property
    def tables(self) -> Mapping[str, pyarrow.Table]:
        """One table per topic, made of the events themselves; those of events have a column ``arrival`` as well."""
        found = {"side_input": pyarrow.Table.from_pylist(_side_rows())}
        for kind in KINDS:
            rows = [event.row | {"arrival": event.arrival} for event in self.arrived if event.kind == kind]
            found[kind] = _with_millis(pyarrow.Table.from_pylist(rows))
        return found


def _record(event: Event, position: int) -> dict[str, Any]:
    row = event.row
    key = None if event.kind == "bid" else _json({"id": row["id"]})
    partition = (position if event.kind == "bid" else row["id"]) % PARTITIONS
    return {
        "key": key,
        "value": _json(row),
        "timestamp": event.arrival.replace(tzinfo=timezone.utc),
        "partition": str(partition),
        "order": f"{position:019d}",
    }


def _side_rows() -> list[dict[str, Any]]:
    return [{"key": number, "value": f"side {number}"} for number in range(SIDE_ROWS)]


def _side_records() -> list[dict[str, Any]]:
    moment = BASE.replace(tzinfo=timezone.utc)
    return [
        {
            "key": _json({"key": row["key"]}),
            "value": _json(row),
            "timestamp": moment,
            "partition": "0",
            "order": f"{row['key']:019d}",
        }
        for row in _side_rows()
    ]


def _json(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, default=_text, ensure_ascii=False, separators=(",", ":")).encode()


def _text(value: datetime) -> str:
    return value.isoformat(" ", "milliseconds")


def _millis(moment: datetime) -> int:
    return int(moment.replace(tzinfo=timezone.utc).timestamp() * 1000)


def _with_millis(table: pyarrow.Table) -> pyarrow.Table:
    """Times in milliseconds, as the relations declare them."""
    fields = [
        pyarrow.field(field.name, _MOMENT if pyarrow.types.is_timestamp(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields))


def _replace(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Written beside its place first, so that a file is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name("." + path.name)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(records), RECORDS), beside)
    beside.rename(path)
