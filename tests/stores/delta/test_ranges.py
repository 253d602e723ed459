"""Rows of a range of time are replaced in a Delta table: all or none, once, and only in the table that they were
computed for. The model is a list of rows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.ranges import NO_END, Replaced, TimeRange
from ds_dagster.datatypes import BIGINT, TIMESTAMP, TIMESTAMP_LTZ, DataType
from ds_dagster.errors import DsError
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.loader import DeltaLoader
from ds_dagster.stores.delta.tables import native_type
from tests.driven import Driven

UTC = timezone.utc
NOON = datetime(2024, 5, 7, 12, tzinfo=UTC)
Row = tuple[datetime | None, int]
TYPES = (TIMESTAMP, TIMESTAMP_LTZ)


class Table:
    """Filled by version 1 of a job."""

    def __init__(self, folder: Path, type_: DataType = TIMESTAMP_LTZ, column: str = "At") -> None:
        self.address, self.column = LakeAddress("lake", folder.as_uri()), column
        columns = (TableColumn(column, type_, native_type(type_), True), TableColumn("n", BIGINT, "bigint", True))
        self.target = TableTarget(("t",), columns, (), "append")
        self.arrow_type = pyarrow.timestamp("us", "UTC" if type_ == TIMESTAMP_LTZ else None)

    def loader(self, version: int = 1, job: str = "j") -> DeltaLoader:
        return DeltaLoader(self.address, self.address.place("t"), self.target, SinkIdentity(job, version))

    def write(self, rows: Sequence[Row], batch: int = 0, version: int = 1) -> None:
        loader = Driven(self.loader(version))
        loader.prepare()
        loader.load(self.arrow(rows), batch)
        loader.close()

    def arrow(self, rows: Sequence[Row]) -> pyarrow.Table:
        moments = [at if at is None or self.arrow_type.tz else at.replace(tzinfo=None) for at, _ in rows]
        numbers = pyarrow.array([n for _, n in rows], pyarrow.int64())
        return pyarrow.table({self.column: pyarrow.array(moments, self.arrow_type), "n": numbers})

    def replace(
        self, batches: Iterable[pyarrow.Table], begin: datetime = NOON, end: datetime = NO_END, batch: int = 0
    ) -> Replaced:
        return self.loader().replace_range(TimeRange(self.column, begin, end), batches, Tip(batch))

    def rows(self) -> list[Row]:
        table = self.address.table(self.address.place("t"))
        assert table is not None
        stored = [(row[self.column], row["n"]) for row in table.to_pyarrow_dataset().to_table().to_pylist()]
        return ordered((at if at is None else at.replace(tzinfo=UTC), n) for at, n in stored)


def ordered(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=str)


def refused(table: Table, batches: Iterable[pyarrow.Table]) -> str:
    with pytest.raises(DsError) as problem:
        table.replace(batches)
    return problem.value.condition


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_replaced_as_a_plain_model_does(tmp_path: Path, type_: DataType, seed: int) -> None:
    """In files of several batches, with rows at the ends of the range, without a time and of any year."""
    chance, table = random.Random(seed), Table(tmp_path, type_)
    moments = [None, NOON, NOON + timedelta(microseconds=1), datetime(1500, 1, 1, tzinfo=UTC), NO_END]
    moments += [NOON + timedelta(seconds=chance.randrange(7200)) for _ in range(20)]
    stored: list[Row] = []
    for batch in range(3):
        rows = [(chance.choice(moments), chance.randrange(100)) for _ in range(15)]
        table.write(rows, batch)
        stored += rows
    for number in range(3):
        begin = chance.choice([NOON, NOON + timedelta(minutes=20), datetime(1400, 1, 1, tzinfo=UTC)])
        end = chance.choice([NO_END, NOON + timedelta(hours=1), begin + timedelta(seconds=1)])
        new = [(chance.choice(moments), 1000 * (number + 1) + n) for n in range(chance.randrange(12))]

        def within(at: datetime | None, begin: datetime = begin, end: datetime = end) -> bool:
            return at is not None and at >= begin and (at < end or end == NO_END)

        kept, inserted = [r for r in stored if not within(r[0])], [r for r in new if within(r[0])]
        pieces = [table.arrow(new[:5]), table.arrow(()), table.arrow(new[5:])]
        assert table.replace(pieces, begin, end, batch=2) == Replaced(len(stored) - len(kept), len(inserted))
        stored = kept + inserted
        assert table.rows() == ordered(stored)
    table.write([(NOON, 7)], 3)
    assert table.rows() == ordered([*stored, (NOON, 7)]), "loads go on"
    loader = Driven(table.loader())
    loader.prepare()
    loader.load(table.arrow([(NOON, 7)]), 3)
    assert table.rows() == ordered([*stored, (NOON, 7)]), "and each batch is there once"


def test_rows_with_keys_are_replaced(tmp_path: Path) -> None:
    """Aggregates of windows: a row that the range has no more is gone."""
    table = Table(tmp_path)
    table.target = TableTarget(("t",), table.target.columns, (table.column, "n"), "upsert")
    before = NOON - timedelta(hours=1)
    table.write([(before, 1), (NOON, 2), (NOON, 3)])
    rows = table.arrow([(before, 7), (NOON, 3), (NOON, 4)]).append_column("__deleted", pyarrow.array([False] * 3))
    for deleted in (2, 2):
        assert table.replace([rows]) == Replaced(deleted, 2)
        assert table.rows() == [(before, 1), (NOON, 3), (NOON, 4)]


def test_a_failure_before_the_commit_changes_nothing(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.write([(NOON, 1)])

    def failing() -> Iterator[pyarrow.Table]:
        yield table.arrow([(NOON, 10)])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.replace(failing())
    assert table.rows() == [(NOON, 1)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_table_that_got_a_batch_is_left_alone(tmp_path: Path, version: int) -> None:
    """Of the same version, or of one that a reset began."""
    table = Table(tmp_path)
    table.write([(NOON, 1)])

    def meanwhile() -> Iterator[pyarrow.Table]:
        yield table.arrow([(NOON, 10)])
        table.write([(NOON, 2)], 1 if version == 1 else 0, version)

    before = [(NOON, 1)] if version == 1 else []
    assert refused(table, meanwhile()) == "BACKFILL_OVERTAKEN"
    assert table.rows() == [*before, (NOON, 2)]
    assert refused(table, never()) == "BACKFILL_OVERTAKEN", "before anything is computed"


def never() -> Iterator[pyarrow.Table]:
    raise AssertionError("computed in vain")
    yield


def test_commits_of_others_are_waited_for(tmp_path: Path) -> None:
    """Another writer commits between the look at the table and our commit: the rows are replaced in what it left."""
    table = Table(tmp_path)
    table.write([(NOON, 1), (NOON - timedelta(hours=1), 2)])
    module, commits = table.address.deltalake(), []
    place = table.address.place("t")

    class Overtaken(DeltaLoader):
        def _commit(self, *arguments: object) -> object:
            if not commits:
                commits.append(module.write_deltalake(place, table.arrow([(NOON, 3)]), mode="append"))
            return super()._commit(*arguments)  # type: ignore[arg-type]

    loader = Overtaken(table.address, place, table.target, SinkIdentity("j", 1))
    span = TimeRange(table.column, NOON, NO_END)
    assert loader.replace_range(span, [table.arrow([(NOON, 10)])], Tip(0)) == Replaced(2, 1)
    assert table.rows() == [(NOON - timedelta(hours=1), 2), (NOON, 10)]


def test_a_table_that_is_gone_is_refused(tmp_path: Path) -> None:
    assert refused(Table(tmp_path), never()) == "TARGET_GONE"
