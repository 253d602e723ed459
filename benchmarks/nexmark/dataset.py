"""Events in files and tables: Parquet records for us, JSON lines for others, Arrow tables for the batch answer."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from benchmarks.nexmark.generator import BASE, KINDS, Event, arriving, events

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
WHOLE = "whole"
"""A file of this name stands in a folder that has everything."""
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

    def write(self, *, lines: bool = False) -> None:
        """Write records, with ``lines`` also JSON lines in order of arrival; a data set that is whole stays."""
        forms = [self.folder / form for form in ("records", "lines")[: 1 + lines]]
        if not all((form / WHOLE).is_file() for form in forms):
            positions = dict.fromkeys(KINDS, 0)
            for part, slice_ in enumerate(self._slices()):
                for topic in KINDS:
                    rows = [event for event in slice_ if event.kind == topic]
                    self._write_part(topic, part, rows, positions[topic], lines=lines)
                    positions[topic] += len(rows)
            self._write_side(lines=lines)
            for form in forms:
                (form / WHOLE).touch()
        for name in TOPICS:
            for number, files in enumerate(self.files(name)):
                for path in files:
                    os.utime(path, (number, number))  # in this order, whatever the file system's clock can tell apart

    def _slices(self) -> Iterator[list[Event]]:
        """Events of each part: an equal share of all."""
        coming, size = arriving(self.events, per_second=self.per_second), -(-self.events // self.parts)
        return (list(itertools.islice(coming, size)) for _ in range(self.parts))

    def _write_part(self, topic: str, part: int, rows: Sequence[Event], first: int, *, lines: bool) -> None:
        """One part of a topic, whose first event has this position in it."""
        records = [_record(event, first + at) for at, event in enumerate(rows)]
        for number, path in enumerate(self.files(topic)[part]):
            _replace(path, [record for record in records if record["partition"] == str(number)])
        for number, path in enumerate(self.lines(topic) if lines else ()):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab" if part else "wb") as file:
                file.writelines(r["value"] + b"\n" for at, r in enumerate(records, first) if at % PARTITIONS == number)

    def _write_side(self, *, lines: bool) -> None:
        ((first, second),) = self.files("side_input")
        _replace(first, _side_records())
        _replace(second, [])
        for number, path in enumerate(self.lines("side_input") if lines else ()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(_json(row) + b"\n" for row in _side_rows()[number::PARTITIONS]))

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
    """Written beside its place first, so that a file is whole or not there. Neither compressed nor with a dictionary:
    the files stand for a topic, whose records a broker hands over as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name("." + path.name)
    table = pyarrow.Table.from_pylist(list(records), RECORDS)
    pyarrow.parquet.write_table(table, beside, compression="none", use_dictionary=False)
    beside.rename(path)
