"""Rows that are written while others are computed: one transaction, which has all rows of a batch or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow
import pytest
from psycopg2.extensions import make_dsn

from ds_dagster.catalog.io_spec import LoadResult, SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.datatypes import BIGINT, TINYINT, VARCHAR
from ds_dagster.errors import DsError
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.postgres.loader import PostgresLoader

pytestmark = pytest.mark.servers
SCHEMA = pyarrow.schema([("name", pyarrow.string()), ("n", pyarrow.int64()), ("small", pyarrow.int8())])
COLUMNS = (
    TableColumn("name", VARCHAR, "text"),
    TableColumn("n", BIGINT, "bigint"),
    TableColumn("small", TINYINT, "smallint"),
)


@dataclass
class Stream:
    """Parts of two rows. ``between`` is called before each part but the first."""

    numbers: list[int]
    between: Callable[[], None] = lambda: None
    num_rows: int = 0
    schema: pyarrow.Schema = field(default=SCHEMA)

    def parts(self) -> Iterator[pyarrow.RecordBatch]:
        for place in range(0, len(self.numbers), 2):
            if place:
                self.between()
            numbers = self.numbers[place : place + 2]
            self.num_rows += len(numbers)
            yield pyarrow.record_batch([[f"n{n}" for n in numbers], numbers, [1] * len(numbers)], SCHEMA)


class Runs:
    """Runs of one job into a table."""

    def __init__(self, address: PostgresAddress, schema: str, cursor: Any) -> None:
        self.address, self.schema, self.cursor = address, schema, cursor

    def load(self, stream: Stream, epoch: int, version: int = 1, *, is_planned: bool = False) -> LoadResult:
        """A run of one batch. ``is_planned``: an earlier run has planned it, as it has every batch but the first."""
        loader = PostgresLoader(self.address, TableTarget((self.schema, "t"), COLUMNS), SinkIdentity("job", version))
        with closing(loader):
            loader.prepare(CheckpointTip.at(Tip(epoch)) if is_planned or epoch else CheckpointTip())
            return loader.load_stream(stream, Tip(epoch))

    @property
    def rows(self) -> list[int]:
        self.cursor.execute(f"SELECT n FROM {self.schema}.t WHERE name = 'n' || n AND small = 1 ORDER BY n")
        return [n for (n,) in self.cursor.fetchall()]

    @property
    def ledger(self) -> list[tuple[int, int, int]]:
        self.cursor.execute(f"SELECT version, epoch, rows FROM {self.schema}.ds_ledger ORDER BY version, epoch")
        return list(self.cursor.fetchall())


@pytest.fixture
def runs(postgres_settings: Mapping[str, str], postgres_schema: str, postgres_cursor: Any) -> Runs:
    return Runs(PostgresAddress.of("warehouse", postgres_settings), postgres_schema, postgres_cursor)


@pytest.mark.parametrize("ddl", ["", "name varchar(20), n numeric, small int", "name text, n bigint, small smallint"])
def test_all_rows_and_their_number(runs: Runs, ddl: str) -> None:
    """Into a table of ours, and of a user: with casts, and without."""
    if ddl:
        runs.cursor.execute(f"CREATE TABLE {runs.schema}.t ({ddl})")
    assert runs.load(Stream([1, 2, 3, 4, 5]), 0) == LoadResult(5)
    assert runs.load(Stream([6, 7]), 1) == LoadResult(2)
    assert runs.rows == [1, 2, 3, 4, 5, 6, 7]
    assert runs.ledger == [(1, 0, 5), (1, 1, 2)]


def test_rows_go_to_the_server_before_the_last_one_is_there(runs: Runs) -> None:
    sent: list[str] = []

    def look() -> None:
        runs.cursor.execute("SELECT query FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%'")
        sent.extend(query for (query,) in runs.cursor.fetchall())

    runs.load(Stream([1, 2, 3, 4], look), 0)
    assert [query.split()[0] for query in sent] == ["COPY"]


def test_a_batch_that_fails_leaves_nothing(runs: Runs) -> None:
    def fail() -> None:
        raise RuntimeError("of the batch")

    with pytest.raises(DsError):
        runs.load(Stream([1, 2, 3, 4], fail), 0)
    assert runs.rows == []
    assert runs.ledger == []
    assert runs.load(Stream([1, 2, 3, 4]), 0) == LoadResult(4)
    assert runs.rows == [1, 2, 3, 4]


def test_a_connection_that_breaks_leaves_nothing_and_is_not_repeated(runs: Runs) -> None:
    """Rows that were read are gone: a second attempt would load the others alone."""

    def end() -> None:
        runs.cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = 'ds-dagster' AND query LIKE 'COPY%'"
        )

    with pytest.raises(DsError) as raised:
        runs.load(Stream(list(range(40)), end), 0)
    assert raised.value.fault.domain == "external"
    assert (runs.rows, runs.ledger) == ([], [])


def test_a_batch_that_is_replayed_is_not_loaded_again(runs: Runs) -> None:
    runs.load(Stream([1, 2, 3]), 0)
    again = Stream([1, 2, 3])
    assert runs.load(again, 0, is_planned=True) == LoadResult(0, replayed=True)
    assert (runs.rows, runs.ledger, again.num_rows) == ([1, 2, 3], [(1, 0, 3)], 0)


def test_a_new_version_can_read_the_table_to_the_last_of_its_rows(runs: Runs) -> None:
    """TRUNCATE locks the table: a batch that looks rows up in it would wait for its own end."""
    runs.load(Stream([1, 2, 3]), 0)
    seen: list[list[int]] = []
    runs.load(Stream([4, 5, 6, 7], lambda: seen.append(runs.rows)), 0, version=2)
    assert seen == [[1, 2, 3]]
    assert runs.rows == [4, 5, 6, 7]


def test_slow_rows_are_waited_for(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """For longer than a statement may take, or a session may be idle: the query takes its time, not the statement."""
    dsn, limits = PostgresAddress.dsn, ("statement_timeout", "idle_in_transaction_session_timeout")
    hasty = " ".join(f"-c {name}=300" for name in limits)
    monkeypatch.setattr(PostgresAddress, "dsn", lambda self, *_: make_dsn(dsn(self), options=hasty))

    def wait() -> None:
        runs.cursor.execute("SELECT pg_sleep(0.6)")

    assert runs.load(Stream([1, 2, 3, 4], wait), 0) == LoadResult(4)
    assert runs.load(Stream([5, 6, 7, 8], wait), 0, version=2) == LoadResult(4)
    assert runs.rows == [5, 6, 7, 8]
