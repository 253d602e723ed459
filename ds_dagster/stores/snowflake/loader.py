"""Loads batches into a Snowflake table: rows and ledger row in one transaction.

A batch is written as Parquet files, which are uploaded to a stage of the session before the transaction begins. Then
COPY loads them into the table, or into a load table from which deletes, upserts and JSON are applied. A full refresh
collects its rows in a new table. When its run is complete, they replace the rows of the old table in one transaction:
views, grants and comments on the target remain.

The warehouse runs for a few statements per batch, and for none between batches; uploads, transactions, SHOW, DESCRIBE
and DDL do not need it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ds_dagster.catalog.io_spec import Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, SinkFacts, Tip
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import DsError, error
from ds_dagster.stores.snowflake.connection import LOCK_SECONDS, LONG_SECONDS, SnowflakeAddress, driver
from ds_dagster.stores.snowflake.names import column_name
from ds_dagster.stores.snowflake.statements import (
    ADDED_COLUMNS,
    DELETED_COLUMN,
    TEXT_ONLY,
    SnowflakeStatements,
    neutral,
)
from ds_dagster.stores.snowflake.tables import described, shape_difference
from ds_dagster.stores.table_sink import (
    DELETED,
    KEPT_EPOCHS,
    PRUNE_EVERY,
    PUBLISHED,
    TableSink,
    TargetState,
    opened,
    tip_of,
    undone_on_failure,
)

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
ROWS_PER_FILE = 1_000_000
"""COPY reads files in parallel; https://docs.snowflake.com/en/user-guide/data-load-considerations-prepare."""
DISK_FULL_CODES = (28, 122)
NOT_THERE_CODES = (2003, 2043)
"""SQL compilation errors: does not exist or not authorized."""


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> SnowflakeLoader:
    """The loader of a table; connects at :meth:`SnowflakeLoader.prepare`."""
    target, settings = opened(spec, resolve)
    address = SnowflakeAddress.of(settings["store"], settings)
    return SnowflakeLoader(address, target, identity, shared=settings["shared"] == "true")


class SnowflakeLoader(TableSink):
    """See :class:`TableSink`."""

    is_restorable: ClassVar[bool] = True

    def __init__(
        self, address: SnowflakeAddress, target: TableTarget, identity: SinkIdentity, *, shared: bool = False
    ) -> None:
        super().__init__(target, identity, shared=shared)
        self.address = address
        self.statements = SnowflakeStatements(target, identity)
        self._connection: Any = None
        self._has_load_table = False

    def close(self) -> None:
        """Drop the load table and end the session, which drops its stage."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(Exception):
            if self._has_load_table:
                connection.cursor().execute(self.statements.drop(self.statements.names.load))
        with suppress(Exception):
            connection.close(retry=False)

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:
        """Run a step; exceptions become conditions. A failure closes the session at once, which rolls back an open
        transaction."""
        errors = driver().errors
        try:
            return step()
        except errors.Error as problem:
            failure = self.address.failure(problem, action, self.table, epoch)
            self._leave()
            raise failure from None
        except OSError as problem:
            self._leave()
            if problem.errno in DISK_FULL_CODES:
                raise error("DISK_FULL", what="files of a batch", detail=str(problem)) from problem
            raise
        except DsError:
            self._leave()
            raise

    def _leave(self) -> None:
        """End a session that failed; the next session replaces its load table."""
        self._has_load_table = False
        self.close()

    # --- the session --------------------------------------------------------------------------------------------------

    def _cursor(self) -> Any:
        """A cursor of the session. The first call opens the session in the target's schema, with a stage, and with a
        load table if needed."""
        if self._connection is None:
            self._connection = self.address.connect(tag=f"ds-dagster {self.identity.ledger}")
            cursor = self._connection.cursor()
            database, schema, _ = self.target.path
            self._enter(cursor, self.statements.use_database(), "TARGET_DATABASE_MISSING", database=database)
            self._enter(cursor, self.statements.use_schema(), "TARGET_SCHEMA_MISSING", schema=schema)
            cursor.execute(self.statements.create_stage())
            if not self.statements.direct:
                cursor.execute(self.statements.create_load())
                self._has_load_table = True
        return self._connection.cursor()

    def _enter(self, cursor: Any, statement: str, missing: str, **names: Any) -> None:
        try:
            cursor.execute(statement)
        except driver().errors.ProgrammingError as problem:
            if problem.errno in NOT_THERE_CODES:
                raise error(missing, store=self.address.store, **names) from None
            raise

    # --- before the first batch ---------------------------------------------------------------------------------------

    @contextmanager
    def _preparation(self) -> Iterator[Any]:
        """A cursor without a transaction, since preparation runs DDL."""
        yield self._cursor()

    def _look(self, cursor: Any) -> TargetState:
        statements, objects = self.statements, self._objects(cursor)
        self._make_ledger(cursor, objects)
        state, kind = self._state(cursor), objects.get(self.target.path[-1])
        has_rows, is_table = state.facts.version is not None, kind in (None, "TABLE")
        difference = ""
        if kind == "TABLE":
            cursor.execute(statements.describe(statements.names.target))
            difference = shape_difference(described(cursor), self.target)
        is_first = not has_rows and not self.shared and not self.is_full and kind == "TABLE"
        facts = replace(
            state.facts,
            exists=(statements.names.new if self.is_full else statements.names.target) in objects,
            is_table=is_table,
            differs=bool(difference) and not (self.is_full and has_rows),
            has_others=is_first and self._has_others(cursor),
            keeps="TARGET_SHARED_RESET" if self.shared and not self.is_full else "",
        )
        kind = "" if is_table else str(kind).lower()
        return replace(state, facts=facts, difference=difference, kind=kind, target=objects)

    def _make_ledger(self, cursor: Any, objects: Mapping[str, str]) -> None:
        statements = self.statements
        if statements.names.ledger not in objects:
            for statement in statements.create_ledger():
                cursor.execute(statement)
            return
        cursor.execute(statements.describe(statements.names.ledger))
        columns_there = described(cursor).columns
        for name in ADDED_COLUMNS:
            if name not in columns_there:
                cursor.execute(statements.extend_ledger(name))

    def _make(self, cursor: Any, state: TargetState) -> None:
        names, objects = self.statements.names, state.target
        if not self.is_full and names.target not in objects:
            cursor.execute(self.statements.create_table(names.target))
        self._drop_others(cursor, objects, names.load_prefix, names.load)
        if self.is_full:
            self._drop_others(cursor, objects, names.new_prefix, names.new)
            if names.new not in objects and state.published is None:
                cursor.execute(self.statements.create_table(names.new))

    def _objects(self, cursor: Any) -> Mapping[str, str]:
        """Name → kind of the objects in the schema with names like the target's."""
        cursor.execute(self.statements.show_objects())
        places = {column[0].lower(): position for position, column in enumerate(cursor.description)}
        return {row[places["name"]]: row[places["kind"]] for row in cursor.fetchall()}

    def _has_others(self, cursor: Any) -> bool:
        """Whether a job has loaded batches into the table, and the table has rows."""
        return all(
            cursor.execute(statement).fetchone() is not None
            for statement in (self.statements.any_batch(), self.statements.any_row())
        )

    def _drop_others(self, cursor: Any, tables: Mapping[str, str], prefix: str, excepted: str) -> None:
        """Drop the leftover tables of other versions of this job."""
        for name in tables:
            if name.startswith(prefix) and name != excepted:
                cursor.execute(self.statements.drop(name))

    # --- a batch ------------------------------------------------------------------------------------------------------

    def _staged(self, rows: pyarrow.Table, batch: Tip) -> pyarrow.Table:
        """Upload files to the stage before the transaction, so that no other session waits for the upload."""
        if rows.num_rows:
            self._upload(self._cursor(), rows, batch.batch)
        return rows

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        cursor = self._cursor()
        with transaction(cursor):
            self._lock(cursor)
            yield cursor

    def _lock(self, cursor: Any) -> None:
        """First statement of a transaction. The session has just answered, so if this statement does not end, it waits
        for another transaction, possibly that of a dead driver.

        Raises:
            ExternalError: TARGET_LOCKED.
        """
        try:
            cursor.execute(self.statements.lock(), timeout=min(LOCK_SECONDS, self.address.call_seconds))
        except driver().errors.Error as problem:
            failure = self.address.failure(problem, "wait for the table", self.table)
            if failure.condition in ("STORE_CALL_FAILED", "STORE_UNREACHABLE"):
                failure = error("TARGET_LOCKED", table=self.table, reason=failure.detail)
            raise failure from None

    def _state(self, cursor: Any, *_: Any) -> TargetState:
        cursor.execute(self.statements.state())
        newest, batch, published = (None if value is None else int(value) for value in cursor.fetchone())
        offsets, ends, rows = "", "", 0
        if batch is not None:
            offsets, ends, rows = cursor.execute(self.statements.batch(batch)).fetchone()
        published = published if self.is_full else None
        return TargetState(SinkFacts(tip_of(batch, offsets, ends), newest), rows=int(rows), published=published)

    def _upload(self, cursor: Any, rows: pyarrow.Table, epoch: int) -> None:
        """Upload a batch, in files of :data:`ROWS_PER_FILE` rows."""
        import pyarrow.parquet

        shaped = _storable(rows, self.target, direct=self.statements.direct)
        with tempfile.TemporaryDirectory(prefix="ds-snowflake-") as folder:
            for number, start in enumerate(range(0, shaped.num_rows, ROWS_PER_FILE)):
                part = shaped.slice(start, ROWS_PER_FILE)
                pyarrow.parquet.write_table(part, Path(folder, f"part-{number:05}.parquet"), compression="zstd")
            cursor.execute(self.statements.put(f"{folder}/*.parquet", epoch))

    def _apply(self, cursor: Any, staged: pyarrow.Table, batch: Tip, *, replaces: bool) -> None:
        statements, epoch = self.statements, batch.batch
        if replaces:
            cursor.execute(statements.clear(statements.names.target))
        if staged.num_rows:
            self._write(cursor, staged, epoch)
        cursor.execute(statements.claim(epoch, staged.num_rows, batch))
        if epoch and epoch % PRUNE_EVERY == 0 and not self.is_full:
            cursor.execute(statements.prune(epoch - KEPT_EPOCHS))

    def _write(self, cursor: Any, rows: pyarrow.Table, epoch: int) -> None:
        statements = self.statements
        cursor.execute(statements.copy(epoch))
        if statements.direct:
            return
        if self.target.mode == "upsert":
            cursor.execute(statements.delete_loaded(nulls=False))
            if any(rows[name].null_count for name in self.target.primary_key):
                cursor.execute(statements.delete_loaded(nulls=True))
        cursor.execute(statements.insert_loaded())
        cursor.execute(statements.clear(statements.names.load))

    # --- the end of a full refresh ------------------------------------------------------------------------------------

    def _publish(self) -> int:
        """See :class:`TableSink`. If the shape differs, one DDL statement replaces the table, else one transaction
        replaces its rows."""
        cursor, statements = self._cursor(), self.statements
        state = self._look(cursor)
        if state.published is not None:
            return state.published
        self._admitted(CheckpointTip(state.facts.tip), state)
        rows = int(cursor.execute(statements.total()).fetchone()[0])
        if state.difference:
            cursor.execute(statements.replace(), timeout=LONG_SECONDS)
        elif statements.names.target not in state.target:
            cursor.execute(statements.create_table(statements.names.target))
        with self._transaction():
            published = self._state(cursor).published
            if published is not None:
                return published
            if not state.difference:
                cursor.execute(statements.clear(statements.names.target))
                cursor.execute(statements.publish(), timeout=LONG_SECONDS)
            cursor.execute(statements.claim(PUBLISHED, rows, None))
        cursor.execute(statements.drop(statements.names.new))
        return rows


@contextmanager
def transaction(cursor: Any) -> Iterator[None]:
    """BEGIN … COMMIT, ROLLBACK on any failure: after a failed statement, COMMIT may report success and store
    nothing."""
    cursor.execute("BEGIN TRANSACTION")
    with undone_on_failure(lambda: cursor.execute("ROLLBACK")):
        yield
    cursor.execute("COMMIT")


def _storable(rows: pyarrow.Table, target: TableTarget, *, direct: bool) -> pyarrow.Table:
    """Columns of a file: the target's columns under their own names, or under neutral names and followed by the marks
    of deletes."""
    import pyarrow
    import pyarrow.compute as compute

    arrays = [rows[column.name] for column in target.columns]
    shaped = [
        array.cast(pyarrow.string()) if isinstance(column.type, Scalar) and column.type.name in TEXT_ONLY else array
        for array, column in zip(arrays, target.columns, strict=True)
    ]
    if direct:
        return pyarrow.table(shaped, names=[column_name(column.name) for column in target.columns])
    names = [neutral(position) for position in range(len(shaped))]
    if target.mode == "upsert":
        marks = rows[DELETED] if DELETED in rows.column_names else pyarrow.array([False] * rows.num_rows)
        shaped.append(compute.fill_null(marks, False))
        names.append(DELETED_COLUMN)
    return pyarrow.table(shaped, names=names)
