"""Writes batches into a view's SQLite file: rows and ledger row in one transaction, readers never wait."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ds_dagster.catalog.io_spec import Resolver, SinkIdentity, TableColumn, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, SinkFacts, Tip
from ds_dagster.catalog.properties.tables import CHANGED_AT
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import DsError, error
from ds_dagster.stores.lookup_rows import NAN
from ds_dagster.stores.sqlite.statements import SqliteStatements
from ds_dagster.stores.sqlite.views import FOLDER
from ds_dagster.stores.table_sink import (
    DELETED,
    KEPT_EPOCHS,
    TableSink,
    TargetState,
    column_difference,
    opened,
    tip_of,
    undone_on_failure,
)

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
BUSY_SECONDS = 30.0
META_STATEMENTS = (
    "CREATE TABLE IF NOT EXISTS ds_ledger (job TEXT NOT NULL, version INTEGER NOT NULL, epoch INTEGER NOT NULL, "
    "rows INTEGER NOT NULL, at REAL NOT NULL, offsets TEXT NOT NULL DEFAULT '', "
    "ends TEXT NOT NULL DEFAULT '', PRIMARY KEY (job, version, epoch)) "
    "WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS ds_columns (position INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, "
    "nullable INTEGER NOT NULL, key_position INTEGER)",
)
ADDED_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "offsets": "ALTER TABLE ds_ledger ADD COLUMN offsets TEXT NOT NULL DEFAULT ''",
        "ends": "ALTER TABLE ds_ledger ADD COLUMN ends TEXT NOT NULL DEFAULT ''",
    }
)
"""Digest and text of a batch's end offsets: ledgers of earlier versions of the package lack them."""
NEWEST = "SELECT max(CASE WHEN job = ? THEN version END), count(*) FROM ds_ledger"
NEWEST_BATCH = (
    "SELECT epoch, offsets, ends, rows FROM ds_ledger WHERE job = ? AND version = ? ORDER BY epoch DESC LIMIT 1"
)
NOTE = "INSERT INTO ds_ledger (job, version, epoch, rows, at, offsets, ends) VALUES (?, ?, ?, ?, ?, ?, ?)"
PRUNE = "DELETE FROM ds_ledger WHERE job = ? AND version = ? AND epoch < ?"
OTHERS = -1
"""Version for rows of a job of another journal: they are replaced, since the file belongs to this state folder."""
PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA wal_autocheckpoint=4000",
    "PRAGMA cache_size=-32000",
)
"""FULL: a batch is on disk before Spark commits it, so a power failure loses nothing."""


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> SqliteLoader:
    """The loader of a view."""
    target, settings = opened(spec, resolve)
    return SqliteLoader(Path(settings[FOLDER]) / target.path[0], target, identity)


class SqliteLoader(TableSink):
    """One view, one file, one writer (see :class:`TableSink`). The first batch of a new checkpoint version, or of a job
    of another journal, empties the view when it commits."""

    is_restorable: ClassVar[bool] = True

    def __init__(self, path: Path, target: TableTarget, identity: SinkIdentity) -> None:
        super().__init__(target, identity)
        self.path = path
        self._statements = SqliteStatements(target)
        self._connection: sqlite3.Connection | None = None

    @property
    def table(self) -> str:
        """Name of the file, for messages."""
        return self.path.name

    def expire(self) -> int:
        """See ``catalog.io_spec.ExpiringLoader``."""
        if not self.path.is_file():
            return 0
        try:
            with closing(self._connect()) as connection, transaction(connection):
                oldest = now_millis() - self.target.retention_millis
                return connection.execute(self._statements.expire, (oldest,)).rowcount
        except (sqlite3.Error, OSError) as problem:
            raise view_error(problem, self.path) from problem

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:  # noqa: ARG002
        try:
            return step()
        except (sqlite3.Error, OSError) as problem:
            self.close()
            raise view_error(problem, self.path) from problem
        except DsError:
            self.close()
            raise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        for statement in PRAGMAS:
            connection.execute(statement)
        return connection

    def _transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self._open())

    def _prepare(self, tip: CheckpointTip) -> None:
        if not self.path.is_file():
            self._admitted(tip, TargetState(SinkFacts(exists=False)))
        super()._prepare(tip)

    def _tip(self) -> Tip | None:
        return super()._tip() if self.path.is_file() else None

    def _look(self, connection: sqlite3.Connection) -> TargetState:
        for statement in META_STATEMENTS:
            connection.execute(statement)
        for name, statement in ADDED_COLUMNS.items():
            if not has_column(connection, "ds_ledger", name):
                connection.execute(statement)
        state = self._state(connection)
        columns = connection.execute("SELECT name, type, nullable, key_position FROM ds_columns ORDER BY position")
        existing, wanted = columns.fetchall(), self._meta_rows()
        differs = bool(existing) and existing != wanted and state.facts.version == self.identity.version
        facts = replace(state.facts, exists=bool(existing), differs=differs)
        return replace(state, facts=facts, difference=_difference(existing, wanted), target=existing == wanted)

    def _make(self, connection: sqlite3.Connection, state: TargetState) -> None:
        if not state.target:
            connection.execute(self._statements.drop)
            connection.execute("DELETE FROM ds_columns")
            connection.executemany("INSERT INTO ds_columns VALUES (?, ?, ?, ?, ?)", _numbered(self._meta_rows()))
            for statement in self._statements.create:
                connection.execute(statement)
        self._prepare_ageing(connection)

    def _prepare_ageing(self, connection: sqlite3.Connection) -> None:
        """When a retention is added, existing rows count as written now; without one no age is stored."""
        statements, has_stamp = self._statements, has_column(connection, self.target.path[1], CHANGED_AT)
        if not self.target.retention_millis:
            for statement in statements.drop_stamp if has_stamp else ():
                connection.execute(statement)
            return
        if not has_stamp:
            connection.execute(statements.add_stamp)
            connection.execute(statements.stamp_all, (now_millis(),))
        connection.execute(statements.index)

    def _meta_rows(self) -> list[tuple[object, ...]]:
        keys = {name: position for position, name in enumerate(self.target.primary_key)}
        return [(c.name, str(c.type), int(c.nullable), keys.get(c.name)) for c in self.target.columns]

    def _state(self, connection: sqlite3.Connection, *_: Any) -> TargetState:
        job, version = self.identity.job, self.identity.version
        newest, batches = connection.execute(NEWEST, (job,)).fetchone()
        row = connection.execute(NEWEST_BATCH, (job, version)).fetchone()
        batch, offsets, ends, rows = row or (None, "", "", 0)
        earlier = OTHERS if newest is None and batches else newest
        return TargetState(SinkFacts(tip_of(batch, offsets, ends), earlier), rows=rows)

    def _apply(self, connection: sqlite3.Connection, rows: pyarrow.Table, batch: Tip, *, replaces: bool) -> None:
        if replaces:
            connection.execute(self._statements.clear)
            connection.execute("DELETE FROM ds_ledger")
        if rows.num_rows:
            self._write(connection, rows)
        job, version, epoch = self.identity.job, self.identity.version, batch.batch
        connection.execute(NOTE, (job, version, epoch, rows.num_rows, time.time(), batch.offsets, batch.ends))
        connection.execute(PRUNE, (job, version, epoch - KEPT_EPOCHS))

    def _write(self, connection: sqlite3.Connection, rows: pyarrow.Table) -> None:
        """Deletes first, then inserts or upserts."""
        import pyarrow.compute as compute

        statements = self._statements
        live = rows
        if self.target.mode == "upsert" and DELETED in rows.column_names:
            deleted = compute.fill_null(rows[DELETED], False)
            gone = rows.filter(deleted)
            live = rows.filter(compute.invert(deleted)) if gone.num_rows else rows
            connection.executemany(statements.delete, _tuples(gone, self._key_columns()))
        with_null = self._with_null_key(live)
        if with_null is not None:
            nulls = live.filter(with_null)
            connection.executemany(statements.delete, _tuples(nulls, self._key_columns()))
            connection.executemany(statements.insert, self._written(nulls))
            live = live.filter(compute.invert(with_null))
        connection.executemany(statements.write, self._written(live))

    def _written(self, rows: pyarrow.Table) -> Iterable[tuple[Any, ...]]:
        """Values to insert, with the present time in a view with a retention."""
        row_tuples = _tuples(rows, self.target.columns)
        if not self.target.retention_millis:
            return row_tuples
        moment = now_millis()
        return ((*row, moment) for row in row_tuples)

    def _key_columns(self) -> list[TableColumn]:
        by_name = {column.name: column for column in self.target.columns}
        return [by_name[name] for name in self.target.primary_key]

    def _with_null_key(self, rows: pyarrow.Table) -> Any:
        """Mask of rows whose key has a NULL (NULLs are never equal in a unique index); None without such rows."""
        import pyarrow.compute as compute

        nullable = [name for name in self.target.primary_key if rows[name].null_count]
        if not nullable:
            return None
        masks = [compute.is_null(rows[name]) for name in nullable]
        return list(itertools.accumulate(masks, compute.or_))[-1]


def now_millis() -> int:
    """This machine's clock, by which rows age, in epoch milliseconds; readers of views are on the same machine."""
    return int(time.time() * 1000)


def has_column(connection: sqlite3.Connection, table: str, name: str, schema: str = "main") -> bool:
    """Whether a table has a column."""
    cursor = connection.execute("SELECT 1 FROM pragma_table_info(?, ?) WHERE name = ?", (table, schema, name))
    return cursor.fetchone() is not None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """BEGIN IMMEDIATE … COMMIT, ROLLBACK on any failure."""
    connection.execute("BEGIN IMMEDIATE")
    with undone_on_failure(connection.rollback):
        yield connection
    connection.execute("COMMIT")


def _numbered(rows: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [(position, *row) for position, row in enumerate(rows)]


def _difference(existing: Sequence[tuple[object, ...]], wanted: Sequence[tuple[object, ...]]) -> str:
    before = {str(row[0]): f"{row[1]}{'' if row[2] else ' NOT NULL'}" for row in existing}
    after = {str(row[0]): f"{row[1]}{'' if row[2] else ' NOT NULL'}" for row in wanted}
    return column_difference(before, after)


def _tuples(rows: pyarrow.Table, columns: Sequence[TableColumn]) -> Iterable[tuple[Any, ...]]:
    """Rows in SQLite's types, converted column by column in Arrow."""
    return zip(*(_values(rows[column.name], column) for column in columns), strict=True)


def _values(values: Any, column: TableColumn) -> list[Any]:
    name = column.type.name if isinstance(column.type, Scalar) and not column.as_json else ""
    return list(CONVERSIONS.get(name, _plain)(values, column))


def _plain(values: Any, _: TableColumn) -> list[Any]:
    return list(values.to_pylist())


def _boolean(values: Any, _: TableColumn) -> list[Any]:
    import pyarrow

    return list(values.cast(pyarrow.int8()).to_pylist())


def _texts(values: Any, _: TableColumn) -> list[Any]:
    import pyarrow

    return list(values.cast(pyarrow.string()).to_pylist())


def _timestamp(values: Any, _: TableColumn) -> list[Any]:
    """Times as text in UTC, with microseconds, of fixed width."""
    import pyarrow
    import pyarrow.compute as compute

    plain = values.cast(pyarrow.timestamp("us", "UTC")) if values.type.tz else values.cast(pyarrow.timestamp("us"))
    return list(compute.strftime(plain, format="%Y-%m-%d %H:%M:%S").to_pylist())


def _decimal(values: Any, column: TableColumn) -> list[Any]:
    """Short decimals as numbers, longer ones as text (a double would round them)."""
    import pyarrow

    return list(values.cast(pyarrow.float64() if column.native_type != "TEXT" else pyarrow.string()).to_pylist())


def _floats(values: Any, _: TableColumn) -> list[Any]:
    """NaN as text, since SQLite would store NULL; a text sorts after all numbers and can be a key."""
    import pyarrow.compute as compute

    numbers = list(values.to_pylist())
    is_nan = compute.is_nan(values)
    if not compute.any(is_nan).as_py():
        return numbers
    return [NAN if missing else number for number, missing in zip(numbers, is_nan.to_pylist(), strict=True)]


CONVERSIONS: Mapping[str, Callable[[Any, TableColumn], list[Any]]] = MappingProxyType(
    {
        "BOOLEAN": _boolean,
        "DATE": _texts,
        "TIME": _texts,
        "TIMESTAMP": _timestamp,
        "TIMESTAMP_LTZ": _timestamp,
        "DECIMAL": _decimal,
        "FLOAT": _floats,
        "DOUBLE": _floats,
    }
)


def view_error(problem: Exception, path: Path) -> DsError:
    """A failure of SQLite or the file system as DISK_FULL or VIEW_UNREADABLE."""
    text = str(problem)
    if "disk is full" in text or (isinstance(problem, OSError) and problem.errno in (28, 122)):
        return error("DISK_FULL", what=f"the view {path.name}", detail=text)
    return error("VIEW_UNREADABLE", view=path.name, detail=text)
