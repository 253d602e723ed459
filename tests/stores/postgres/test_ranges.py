"""Rows of a range of time are replaced in Postgres: all or none, once, and only in the table that they were computed
for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.ranges import NO_END, Replaced, TimeRange
from ds_dagster.datatypes import BIGINT, Scalar
from ds_dagster.errors import DsError
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.postgres.loader import PostgresLoader
from ds_dagster.stores.postgres.versions import serve, version_table
from tests.driven import Driven
from tests.stores.postgres.test_existing import column

pytestmark = pytest.mark.servers

Row = tuple[str | None, int]
COLUMNS = (column("at", Scalar("TIMESTAMP", precision=0)), column("n", BIGINT))
ROWS: tuple[Row, ...] = (
    ("10:00:00", 1),
    ("10:59:59.400", 2),
    ("10:59:59.600", 3),
    ("11:00:00", 4),
    ("12:00:00", 5),
    (None, 6),
)
RANGE = TimeRange("at", datetime(2024, 5, 7, 11, tzinfo=timezone.utc), datetime(2024, 5, 7, 12, tzinfo=timezone.utc))
DOUBLED = [("10:00:00", 1), ("10:59:59", 2), ("11:00:00", 30), ("11:00:00", 40), ("12:00:00", 5), (None, 6)]
"""What is stored: the rows of the range have their numbers times ten, and times are rounded to seconds."""


def arrow(rows: Sequence[Row], times: int = 1) -> pyarrow.Table:
    moments = [None if at is None else datetime.fromisoformat(f"2024-05-07T{at}") for at, _ in rows]
    return pyarrow.table({"at": pyarrow.array(moments, pyarrow.timestamp("us")), "n": numbers(rows, times)})


def numbers(rows: Sequence[Row], times: int) -> pyarrow.Array:
    return pyarrow.array([n * times for _, n in rows], pyarrow.int64())


class Table:
    """Filled by version 1 of a job."""

    def __init__(self, settings: Mapping[str, str], schema: str, cursor: Any) -> None:
        self.settings, self.schema, self.cursor = settings, schema, cursor
        self.address = PostgresAddress.of("warehouse", settings)

    def loader(self, job: str = "j", version: int = 1, table: str = "t") -> PostgresLoader:
        return PostgresLoader(self.address, self.target(table), SinkIdentity(job, version))

    def target(self, table: str = "t") -> TableTarget:
        return TableTarget((self.schema, table), COLUMNS, (), "append")

    def write(self, rows: Sequence[Row], batch: int = 0, **place: Any) -> None:
        loader = Driven(self.loader(**place))
        loader.prepare()
        loader.load(arrow(rows), batch)
        loader.close()

    def replace(self, batches: Iterable[pyarrow.Table] = (arrow(ROWS, 10),), batch: int = 0) -> Replaced:
        return self.loader().replace_range(RANGE, batches, Tip(batch))

    def promote(self) -> None:
        options: Any = dict(self.settings)
        spec = WriteSpec("batch", "warehouse.t", "exactly_once", options=options, table=self.target())
        serve(spec, str, 1, 2)

    def rows(self) -> list[Row]:
        self.cursor.execute(f"SELECT to_char(at, 'HH24:MI:SS'), n FROM {self.schema}.t ORDER BY at, n")
        return [tuple(row) for row in self.cursor.fetchall()]


@pytest.fixture
def table(postgres_settings: Mapping[str, str], postgres_schema: str, postgres_cursor: Any) -> Table:
    filled = Table(postgres_settings, postgres_schema, postgres_cursor)
    filled.write(ROWS)
    postgres_cursor.execute(f"ALTER TABLE {postgres_schema}.t ALTER COLUMN at TYPE timestamp(0)")
    return filled


def refused(table: Table, batches: Iterable[pyarrow.Table] = (arrow(ROWS, 10),)) -> str:
    with pytest.raises(DsError) as problem:
        table.replace(batches)
    return problem.value.condition


def test_rows_are_replaced_by_their_stored_times_each_time_anew(table: Table) -> None:
    table.cursor.execute(f"ALTER TABLE {table.schema}.t ADD COLUMN note text NOT NULL DEFAULT 'none'")
    pieces = [arrow(ROWS[:3], 10), arrow((), 10), arrow(ROWS[3:], 10)]
    for _ in range(2):
        assert table.replace(pieces) == Replaced(2, 2)
        assert table.rows() == DOUBLED
    assert table.replace(()) == Replaced(2, 0)
    table.write(ROWS[:1], batch=1)
    assert [n for _, n in table.rows()] == [1, 1, 2, 5, 6], "loads go on"


def test_a_range_without_an_end_has_all_later_rows(table: Table) -> None:
    table.cursor.execute(f"INSERT INTO {table.schema}.t VALUES ('infinity', 7), ('9999-12-31 23:59:59', 8)")
    span = TimeRange("at", RANGE.begin, NO_END)
    assert table.loader().replace_range(span, [arrow(ROWS, 10)], Tip(0)) == Replaced(5, 3)
    assert [n for _, n in table.rows()] == [1, 2, 30, 40, 50, 6]


def test_rows_with_keys_are_replaced(table: Table) -> None:
    """Aggregates of windows: a row that the range has no more is gone."""
    target = TableTarget((table.schema, "keyed"), COLUMNS, ("n",), "upsert")
    loader = Driven(PostgresLoader(table.address, target, SinkIdentity("k", 1)))
    loader.prepare()
    loader.load(arrow([("10:00:00", 1), ("11:00:00", 2), ("11:00:00", 3), ("12:00:00", 4)]), 0)
    loader.close()
    rows = arrow([("10:00:00", 5), ("11:00:00", 3), ("11:30:00", 6), ("12:00:00", 7)])
    rows = rows.append_column("__deleted", pyarrow.array([False] * 4))
    for _ in range(2):
        again = PostgresLoader(table.address, target, SinkIdentity("k", 1))
        assert again.replace_range(RANGE, [rows], Tip(0)) == Replaced(2, 2)
        table.cursor.execute(f"SELECT to_char(at, 'HH24:MI'), n FROM {table.schema}.keyed ORDER BY at, n")
        stored = [tuple(row) for row in table.cursor.fetchall()]
        assert stored == [("10:00", 1), ("11:00", 3), ("11:30", 6), ("12:00", 4)]


def test_a_failure_before_the_exchange_changes_nothing(table: Table) -> None:
    before = table.rows()

    def failing() -> Iterator[pyarrow.Table]:
        yield arrow(ROWS, 10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.replace(failing())
    assert table.rows() == before
    table.replace()
    assert table.rows() == DOUBLED


def test_a_table_that_got_a_batch_is_left_alone(table: Table) -> None:
    def meanwhile() -> Iterator[pyarrow.Table]:
        yield arrow(ROWS, 10)
        table.write(ROWS[:1], batch=1)

    assert refused(table, meanwhile()) == "BACKFILL_OVERTAKEN"
    assert [n for _, n in table.rows()] == [1, 1, 2, 3, 4, 5, 6]
    assert refused(table, never()) == "BACKFILL_OVERTAKEN", "before anything is computed"


def never() -> Iterator[pyarrow.Table]:
    raise AssertionError("computed in vain")
    yield


def test_the_exchange_waits_for_a_load_that_is_in_its_transaction(table: Table) -> None:
    other, endings = table.address.control(), []
    with other, other.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table.schema}.ds_ledger (job, version, epoch, rows, target) VALUES ('j', 1, 1, 1, 't')"
        )
        cursor.execute(f"INSERT INTO {table.schema}.t (n) VALUES (7)")
        exchange = threading.Thread(target=lambda: endings.append(refused(table)), daemon=True)
        exchange.start()
        limit = time.monotonic() + 60
        while not waiting(table):
            assert exchange.is_alive() and time.monotonic() < limit
        assert endings == []
    exchange.join(60)
    other.close()
    assert endings == ["BACKFILL_OVERTAKEN"]
    assert [n for _, n in table.rows()] == [1, 2, 3, 4, 5, 6, 7]


def waiting(table: Table) -> bool:
    table.cursor.execute(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = to_regclass(%s)", (f"{table.schema}.t",)
    )
    return bool(table.cursor.fetchone()[0])


def test_a_promoted_version_is_another_table(table: Table) -> None:
    staged = version_table("t", 2)
    table.write(ROWS, job="j@2", table=staged)

    def promoted() -> Iterator[pyarrow.Table]:
        yield arrow(ROWS, 10)
        table.promote()

    assert refused(table, promoted()) == "BACKFILL_OVERTAKEN"
    assert [n for _, n in table.rows()] == [1, 2, 3, 4, 5, 6]


def test_rows_of_a_new_version_are_left_alone(table: Table) -> None:
    def reset() -> Iterator[pyarrow.Table]:
        yield arrow(ROWS, 10)
        table.write(ROWS[:2], version=2)

    assert refused(table, reset()) == "BACKFILL_OVERTAKEN"
    assert [n for _, n in table.rows()] == [1, 2]


def test_rows_that_others_refer_to_are_not_deleted(table: Table) -> None:
    table.cursor.execute(f"ALTER TABLE {table.schema}.t ADD UNIQUE (n)")
    table.cursor.execute(f"CREATE TABLE {table.schema}.o (n bigint REFERENCES {table.schema}.t (n) ON DELETE CASCADE)")
    assert refused(table) == "TARGET_REFERENCED"
