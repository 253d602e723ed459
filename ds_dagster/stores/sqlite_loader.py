"""Writes batches into a view's SQLite file: rows and ledger row in one transaction, readers never wait."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableColumn, TableTarget, WriteSpec
from ds_dagster.catalog.table_properties import CHANGED_AT
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import DsError, error
from ds_dagster.stores.sqlite_statements import Statements
from ds_dagster.stores.sqlite_views import FOLDER

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
DELETED = "__deleted"
BUSY_SECONDS = 30.0
KEPT_EPOCHS = 1000
"""Ledger rows kept per version: only the newest epochs can be replayed."""
META_STATEMENTS = (
    "CREATE TABLE IF NOT EXISTS ds_ledger (job TEXT NOT NULL, version INTEGER NOT NULL, epoch INTEGER NOT NULL, "
    "rows INTEGER NOT NULL, at REAL NOT NULL, PRIMARY KEY (job, version, epoch)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS ds_columns (position INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, "
    "nullable INTEGER NOT NULL, key_position INTEGER)",
)
PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA wal_autocheckpoint=4000",
    "PRAGMA cache_size=-32000",
)
"""FULL: a batch is on disk before Spark notes it as done, so a power failure loses nothing."""


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> SqliteLoader:
    """The loader of a view."""
    if spec.table is None:
        raise error("INTERNAL", where="a view without a table target")
    return SqliteLoader(Path(resolve(spec.options[FOLDER])) / spec.table.path[0], spec.table, identity)


class SqliteLoader:
    """One view, one file, one writer (see ``catalog.io_spec.BatchLoader``)."""

    def __init__(self, path: Path, target: TableTarget, identity: SinkIdentity) -> None:
        self.path = path
        self.target = target
        self.identity = identity
        self._statements = Statements(target)
        self._connection: sqlite3.Connection | None = None
        self._loaded = 0
        self._rebuild = False

    def prepare(self) -> None:
        """Create or verify the file. A new checkpoint version begins with an empty view when its first batch commits.

        Raises:
            UserError: LEDGER_NEWER, TARGET_DIFFERS. ExternalError: DISK_FULL, VIEW_UNREADABLE.
        """
        self._guarded(self._prepare)

    def load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        """Apply one batch.

        Raises:
            UserError: LEDGER_NEWER. ExternalError: DISK_FULL, VIEW_UNREADABLE.
        """
        return self._guarded(lambda: self._load(rows, epoch))

    def finish(self) -> int:
        """Rows this loader wrote."""
        return self._loaded

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

    def _guarded(self, step: Callable[[], R]) -> R:
        try:
            return step()
        except sqlite3.Error as problem:
            self.close()
            raise view_error(problem, self.path) from problem
        except OSError as problem:
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

    def _prepare(self) -> None:
        connection = self._open()
        with transaction(connection):
            for statement in META_STATEMENTS:
                connection.execute(statement)
            self._rebuild = not self._ours(connection)
            found = connection.execute("SELECT name, type, nullable, key_position FROM ds_columns ORDER BY position")
            existing, wanted = found.fetchall(), self._meta_rows()
            if existing == wanted:
                self._prepare_ageing(connection)
                return
            if existing and not self._rebuild:
                raise error("TARGET_DIFFERS", table=self.path.name, difference=_difference(existing, wanted))
            connection.execute(self._statements.drop)
            connection.execute("DELETE FROM ds_columns")
            connection.executemany("INSERT INTO ds_columns VALUES (?, ?, ?, ?, ?)", _numbered(wanted))
            for statement in self._statements.create:
                connection.execute(statement)
            self._prepare_ageing(connection)

    def _prepare_ageing(self, connection: sqlite3.Connection) -> None:
        """Rows of a view that has got a retention only now are as old as this moment; without one none has an age."""
        statements, has_stamp = self._statements, has_column(connection, self.target.path[1], CHANGED_AT)
        if not self.target.retention_millis:
            for statement in statements.drop_stamp if has_stamp else ():
                connection.execute(statement)
            return
        if not has_stamp:
            connection.execute(statements.add_stamp)
            connection.execute(statements.stamp_all, (now_millis(),))
        connection.execute(statements.index)

    def _ours(self, connection: sqlite3.Connection) -> bool:
        """Whether this job and version has written here already."""
        job, version = self.identity.job, self.identity.version
        newest = connection.execute("SELECT max(version) FROM ds_ledger WHERE job = ?", (job,)).fetchone()[0]
        if newest is not None and newest > version:
            raise error("LEDGER_NEWER", table=self.path.name, found=newest, version=version)
        return bool(newest == version)

    def _meta_rows(self) -> list[tuple[object, ...]]:
        keys = {name: position for position, name in enumerate(self.target.primary_key)}
        return [(c.name, str(c.type), int(c.nullable), keys.get(c.name)) for c in self.target.columns]

    def _load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        connection = self._open()
        with transaction(connection):
            ours = self._ours(connection)
            known = self._ledger_rows(connection, epoch) if ours else None
            if known is not None:
                self._loaded += known
                return LoadResult(0, replayed=True)
            if not ours:
                connection.execute(self._statements.clear)
                connection.execute("DELETE FROM ds_ledger")
            self._apply(connection, rows)
            entry = (self.identity.job, self.identity.version, epoch, rows.num_rows, time.time())
            connection.execute("INSERT INTO ds_ledger VALUES (?, ?, ?, ?, ?)", entry)
            oldest = (self.identity.job, self.identity.version, epoch - KEPT_EPOCHS)
            connection.execute("DELETE FROM ds_ledger WHERE job = ? AND version = ? AND epoch < ?", oldest)
        self._loaded += rows.num_rows
        return LoadResult(rows.num_rows)

    def _ledger_rows(self, connection: sqlite3.Connection, epoch: int) -> int | None:
        key = (self.identity.job, self.identity.version, epoch)
        found = connection.execute(
            "SELECT rows FROM ds_ledger WHERE job = ? AND version = ? AND epoch = ?", key
        ).fetchone()
        return None if found is None else int(found[0])

    def _apply(self, connection: sqlite3.Connection, rows: pyarrow.Table) -> None:
        """Deletes first, then inserts or upserts."""
        import pyarrow.compute as compute

        statements = self._statements
        kept = rows
        if self.target.mode == "upsert" and DELETED in rows.column_names:
            deleted = compute.fill_null(rows[DELETED], False)
            gone = rows.filter(deleted)
            kept = rows.filter(compute.invert(deleted)) if gone.num_rows else rows
            connection.executemany(statements.delete, _tuples(gone, self._key_columns()))
        with_null = self._with_null_key(kept)
        if with_null is not None:
            nulls = kept.filter(with_null)
            connection.executemany(statements.delete, _tuples(nulls, self._key_columns()))
            connection.executemany(statements.insert, self._written(nulls))
            kept = kept.filter(compute.invert(with_null))
        connection.executemany(statements.write, self._written(kept))

    def _written(self, rows: pyarrow.Table) -> Iterable[tuple[Any, ...]]:
        """Rows as they are written, with the moment where they go by their age."""
        made = _tuples(rows, self.target.columns)
        if not self.target.retention_millis:
            return made
        moment = now_millis()
        return ((*row, moment) for row in made)

    def _key_columns(self) -> list[TableColumn]:
        by_name = {column.name: column for column in self.target.columns}
        return [by_name[name] for name in self.target.primary_key]

    def _with_null_key(self, rows: pyarrow.Table) -> Any:
        """Mask of rows whose key holds a NULL (a unique index takes no two NULLs for equal), None when there are
        none."""
        import pyarrow.compute as compute

        nullable = [name for name in self.target.primary_key if rows[name].null_count]
        if not nullable:
            return None
        masks = [compute.is_null(rows[name]) for name in nullable]
        return list(itertools.accumulate(masks, compute.or_))[-1]


def now_millis() -> int:
    """The clock by which rows age: this machine's, which also reads the views; epoch milliseconds."""
    return int(time.time() * 1000)


def has_column(connection: sqlite3.Connection, table: str, name: str, schema: str = "main") -> bool:
    """Whether a table has a column."""
    found = connection.execute("SELECT 1 FROM pragma_table_info(?, ?) WHERE name = ?", (table, schema, name))
    return found.fetchone() is not None


class transaction:  # noqa: N801 - reads as a word in `with transaction(connection)`
    """BEGIN IMMEDIATE … COMMIT, ROLLBACK on any failure."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __enter__(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.connection.execute("COMMIT")
        elif self.connection.in_transaction:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")


def _numbered(rows: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [(position, *row) for position, row in enumerate(rows)]


def _difference(existing: Sequence[tuple[object, ...]], wanted: Sequence[tuple[object, ...]]) -> str:
    before = {str(row[0]): f"{row[1]}{'' if row[2] else ' NOT NULL'}" for row in existing}
    after = {str(row[0]): f"{row[1]}{'' if row[2] else ' NOT NULL'}" for row in wanted}
    return column_difference(before, after)


def column_difference(existing: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Two column lists, told column by column."""
    found = [
        f"{name} is {existing[name]}, not {type_}"
        for name, type_ in wanted.items()
        if existing.get(name, type_) != type_
    ]
    found += [f"{name} {type_} is missing" for name, type_ in wanted.items() if name not in existing]
    found += [f"{name} {type_} is too many" for name, type_ in existing.items() if name not in wanted]
    return "; ".join(found) or "the order or the key differs"


def _tuples(rows: pyarrow.Table, columns: Sequence[TableColumn]) -> Iterable[tuple[Any, ...]]:
    """Rows as SQLite wants them; conversion by column, in Arrow."""
    return zip(*(_values(rows[column.name], column) for column in columns), strict=True)


def _values(values: Any, column: TableColumn) -> list[Any]:
    name = column.type.name if isinstance(column.type, Scalar) and not column.as_json else ""
    return list(CONVERSIONS.get(name, _plain)(values, column))


def _plain(values: Any, _: TableColumn) -> list[Any]:
    return list(values.to_pylist())


def _boolean(values: Any, _: TableColumn) -> list[Any]:
    import pyarrow

    return list(values.cast(pyarrow.int8()).to_pylist())


def _text(values: Any, _: TableColumn) -> list[Any]:
    import pyarrow

    return list(values.cast(pyarrow.string()).to_pylist())


def _timestamp(values: Any, _: TableColumn) -> list[Any]:
    """UTC, microseconds, fixed width."""
    import pyarrow
    import pyarrow.compute as compute

    plain = values.cast(pyarrow.timestamp("us", "UTC")) if values.type.tz else values.cast(pyarrow.timestamp("us"))
    return list(compute.strftime(plain, format="%Y-%m-%d %H:%M:%S").to_pylist())


def _decimal(values: Any, column: TableColumn) -> list[Any]:
    """Short decimals as numbers, longer ones as text (a double would round them)."""
    import pyarrow

    return list(values.cast(pyarrow.float64() if column.native_type != "TEXT" else pyarrow.string()).to_pylist())


CONVERSIONS: Mapping[str, Callable[[Any, TableColumn], list[Any]]] = MappingProxyType(
    {
        "BOOLEAN": _boolean,
        "DATE": _text,
        "TIME": _text,
        "TIMESTAMP": _timestamp,
        "TIMESTAMP_LTZ": _timestamp,
        "DECIMAL": _decimal,
    }
)


def view_error(problem: Exception, path: Path) -> DsError:
    """What a failure of SQLite or the file system means."""
    text = str(problem)
    if "disk is full" in text or (isinstance(problem, OSError) and problem.errno in (28, 122)):
        return error("DISK_FULL", what=f"the view {path.name}", detail=text)
    return error("VIEW_UNREADABLE", view=path.name, detail=text)
