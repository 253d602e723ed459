"""Tables whose source are files, and ranges of them that are computed again: random rows in random files, which appear
in any order, against a plain model."""

from __future__ import annotations

import csv
import io
import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import pyarrow
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from ds_dagster.catalog.reading.ranges import NO_END, TimeRange
from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.backfill import Backfill, PlannedRange
from ds_dagster.runtime.control import Control
from tests.spark.conftest import settings_in

pytestmark = pytest.mark.spark
BEGIN = 1_700_000_040_000
"""A whole minute."""
MINUTE, HOUR = 60_000, 3_600_000
SQL = """
CREATE STORE f WITH ('type' = S3, 'uris' = '{files}');
CREATE STORE lake WITH ('type' = DELTA, 'uris' = '{lake}');
CREATE STREAM events (at BIGINT, id BIGINT, word VARCHAR) WITH ('store' = 'f', 'value.format' = '{format}',
  'timestamp' = 'at', 'files.per.batch' = 3);
CREATE TABLE copied WITH ('store' = 'lake', 'refresh.mode' = 'incremental') AS
  SELECT TO_TIMESTAMP_LTZ(at, 3) AS happened, id, UPPER(word) AS word
  FROM events WITH ('source.deserialization.error.handling' = 'IGNORE') WHERE id % 7 <> 0;
CREATE TABLE followed WITH ('store' = 'lake', 'refresh.mode' = 'incremental') AS
  SELECT TO_TIMESTAMP_LTZ(at, 3) AS happened, id, UPPER(word) AS word
  FROM events WITH ('starting.position' = 'latest', 'source.deserialization.error.handling' = 'IGNORE')
  WHERE id % 7 <> 0;
CREATE TABLE counted WITH ('store' = 'lake', 'refresh.mode' = 'incremental') AS
  SELECT window_start, window_end, word, COUNT(*) AS n, SUM(id) AS ids
  FROM TUMBLE(events, SIZE 1 MINUTE) WITH ('source.deserialization.error.handling' = 'IGNORE')
  GROUP BY window_start, window_end, word;
CREATE STREAM plain (id BIGINT) WITH ('store' = 'f', 'topic' = 'events', 'value.format' = '{format}');
CREATE TABLE by_file WITH ('store' = 'lake', 'refresh.mode' = 'incremental') AS
  SELECT TO_TIMESTAMP_LTZ(ROWTIME(), 3) AS written, id FROM plain;
"""
Row = dict[str, Any]
NUMBERS = count()


def moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, timezone.utc)


def as_json(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode() + b'{"at": "no time", "id": 1}\n'


def as_csv(rows: list[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["word", "at", "id"])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode() + b"x,no time,1\n"


def as_parquet(rows: list[Row]) -> bytes:
    sink = io.BytesIO()
    columns = [("at", pyarrow.string()), ("id", pyarrow.int64()), ("word", pyarrow.string())]
    texts = [{**row, "at": str(row["at"])} for row in rows] + [{"at": "no time", "id": 1, "word": "x"}]
    parquet.write_table(pyarrow.Table.from_pylist(texts, pyarrow.schema(columns)), sink)
    return sink.getvalue()


FORMATS: Mapping[str, Callable[[list[Row]], bytes]] = {"json": as_json, "csv": as_csv, "parquet": as_parquet}
"""Format → rows as a file with a further, bad row."""


@dataclass
class World:
    """A project over files and Delta, in one session; no server, no engine."""

    folder: Path
    spark: SparkSession
    format: str
    chance: random.Random
    sent: dict[str, list[Row]] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        places = {name: (self.folder / name).as_uri() for name in ("files", "lake")}
        (self.folder / "files" / "events").mkdir(parents=True)
        (self.folder / "sql").mkdir()
        (self.folder / "sql" / "a.sql").write_text(SQL.format(format=self.format, **places))
        settings = settings_in(self.folder)
        self.project: LoadedProject = load_project(self.folder, settings=settings, strict=True)
        self.control = Control.open(settings)

    def rows(self, number: int, minutes: tuple[int, int] = (0, 60)) -> list[Row]:
        first, last = (minute * MINUTE for minute in minutes)
        times = [BEGIN + self.chance.randrange(first, last) for _ in range(number)]
        return [{"at": at, "id": next(NUMBERS), "word": self.chance.choice("abc")} for at in times]

    def send(self, rows: list[Row], at: int | None = None) -> str:
        """A file with these rows; its modification time is ``at``, or any."""
        name = f"{self.chance.randrange(10**9)}.{self.format}"
        self.place(name).write_bytes(FORMATS[self.format](rows))
        at = BEGIN + self.chance.randrange(HOUR) if at is None else at
        os.utime(self.place(name), ns=(at * 1_000_000, at * 1_000_000))
        self.sent[name] = rows
        return name

    def place(self, name: str) -> Path:
        return self.folder / "files" / "events" / name

    def load(self, *names: str) -> None:
        for name in names:
            result = self.control.run_in_session(self.project, name, self.spark, "tests", catch_up=0)
            assert result.state == "FINISHED", result
        self.loaded = set(self.sent)

    def backfill(self, name: str, column: str, begin: int, end: int | None = None, **more: Any) -> Backfill:
        span = TimeRange(column, moment(begin), NO_END if end is None else moment(end))
        query = self.project.queries[name]
        return Backfill(self.project, self.control, query, span, "tests", session=self.spark, **more)

    def recompute(self, *arguments: Any, **more: Any) -> PlannedRange:
        backfill = self.backfill(*arguments, **more)
        planned = backfill.planned()
        backfill.carried_out(planned)
        return planned

    def table(self, name: str) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(str(self.folder / "lake" / name))

    def stored(self, name: str = "copied") -> list[tuple[Any, ...]]:
        rows = self.table(name).to_pyarrow_dataset().to_table().to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    def damage(self, name: str) -> None:
        self.table(name).update(updates={"word": "'wrong'"}, predicate="id % 3 = 0")
        self.table(name).delete("id % 5 = 1")

    def wanted(self, names: set[str] | None = None) -> list[tuple[Any, ...]]:
        """The model of the tables of rows, for the files that were loaded."""
        rows = [row for name in (self.loaded if names is None else names) for row in self.sent[name]]
        return sorted((moment(row["at"]), row["id"], row["word"].upper()) for row in rows if row["id"] % 7)

    def windows(self, begin: int, end: int) -> list[tuple[Any, ...]]:
        """The model of the table of windows that begin in a range."""
        groups: dict[tuple[int, str], list[int]] = {}
        for name in self.loaded:
            for row in self.sent[name]:
                groups.setdefault((row["at"] // MINUTE * MINUTE, row["word"]), []).append(row["id"])
        return sorted(
            (moment(start), moment(start + MINUTE), word, len(ids), sum(ids))
            for (start, word), ids in groups.items()
            if begin <= start < end
        )


def inside(rows: list[tuple[Any, ...]], begin: int, end: int) -> list[tuple[Any, ...]]:
    return [row for row in rows if moment(begin) <= row[0] < moment(end)]


def outside(rows: list[tuple[Any, ...]], begin: int, end: int) -> list[tuple[Any, ...]]:
    return [row for row in rows if not moment(begin) <= row[0] < moment(end)]


LONG = [pytest.param(("json", "csv")[seed % 2], seed, marks=pytest.mark.slow) for seed in range(2, 8)]


@pytest.mark.parametrize(("format_", "seed"), [("parquet", 1), *LONG])
def test_a_range_is_as_the_stream_computes_it(format_: str, seed: int, spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, format_, chance := random.Random(seed))
    history = {world.send(world.rows(chance.randrange(1, 30))) for _ in range(5)}
    world.load("followed")
    assert not world.stored("followed")
    for _ in range(2):
        for _ in range(chance.randrange(1, 6)):
            world.send(world.rows(chance.randrange(40)))
        world.load("copied", "followed")
    world.send(world.rows(30))  # not loaded: it is no part of the tables
    assert world.stored() == world.wanted()
    assert world.stored("followed") == world.wanted(world.loaded - history)
    world.damage("copied")
    damaged = world.stored()
    begin, end = sorted(BEGIN + chance.randrange(HOUR) for _ in range(2))
    planned = world.recompute("copied", "happened", begin, end)
    assert (planned.past.amount.files, planned.past.before) == (len(world.loaded), 0)
    assert inside(world.stored(), begin, end) == inside(world.wanted(), begin, end)
    assert outside(world.stored(), begin, end) == outside(damaged, begin, end)
    world.recompute("copied", "happened", 0)
    assert world.stored() == world.wanted()

    world.damage("followed")
    world.recompute("followed", "happened", 0, has_history=False)
    assert world.stored("followed") == world.wanted(world.loaded - history)
    planned = world.recompute("followed", "happened", begin)
    assert planned.past.before == len(history)
    assert inside(world.stored("followed"), begin, BEGIN + HOUR) == inside(world.wanted(), begin, BEGIN + HOUR)
    world.load("copied")
    assert world.stored() == world.wanted(), "loads go on where they were"


def test_windows_get_the_rows_of_files_that_came_too_late(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, "json", random.Random(5))
    for begin in range(0, 30, 10):
        world.send(world.rows(30, (begin, begin + 10)), BEGIN + begin)
    world.load("counted")
    world.send(world.rows(20, (0, 20)), BEGIN)
    world.send(world.rows(1, (60, 61)), BEGIN + HOUR)
    world.load("counted")
    had, end = world.stored("counted"), BEGIN + 60 * MINUTE
    assert had != world.windows(BEGIN, end)
    begin = BEGIN + 8 * MINUTE
    problem = refusal(world.backfill("counted", "window_start", begin))
    assert "lack records that came late" in problem.message
    world.recompute("counted", "window_start", begin, has_late=True)
    repaired = world.windows(begin, end)
    assert world.stored("counted") == sorted([*outside(had, begin, end), *repaired])
    world.send(world.rows(20, (61, 62)), BEGIN + HOUR)
    world.load("counted")
    assert set(repaired) <= set(world.stored("counted")), "loads go on where they were"


def test_files_are_left_out_by_their_times(spark: SparkSession, tmp_path: Path) -> None:
    """The time of a row is its file's here. Files of other times are not read, and may be gone if they are older."""
    world = World(tmp_path, spark, "json", random.Random(6))
    names = [world.send(world.rows(10), BEGIN + number * MINUTE) for number in range(10)]
    world.load("by_file")
    whole = world.stored("by_file")
    begin, end = BEGIN + 4 * MINUTE, BEGIN + 7 * MINUTE
    world.table("by_file").delete("id % 2 = 0")
    world.send(world.rows(10), begin)  # not loaded
    planned = world.recompute("by_file", "written", begin, end, lateness=0)
    assert planned.past.amount.files == 3 and "3 files" in str(planned) and "10 files" in str(planned)
    assert inside(world.stored("by_file"), begin, end) == inside(whole, begin, end)
    world.place(names[1]).unlink()
    world.place(names[0]).unlink()
    problem = refusal(world.backfill("by_file", "written", begin))
    assert problem.condition == "BACKFILL_RECORDS_GONE"
    world.recompute("by_file", "written", BEGIN + 3 * MINUTE, lateness=30)
    assert inside(world.stored("by_file"), BEGIN + 3 * MINUTE, end) == inside(whole, BEGIN + 3 * MINUTE, end)
    changed = world.backfill("by_file", "written", begin, lateness=0)
    planned = changed.planned()
    world.place(names[5]).write_bytes(b"")
    before = world.stored("by_file")
    with pytest.raises(DsError) as problems:
        changed.carried_out(planned)
    assert problems.value.condition == "FILE_CHANGED" and world.stored("by_file") == before


def refusal(backfill: Backfill) -> DsError:
    with pytest.raises(DsError) as problem:
        backfill.planned()
    return problem.value
