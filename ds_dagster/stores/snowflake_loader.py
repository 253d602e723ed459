"""Loads batches into a Snowflake table: rows and ledger row in one transaction.

A batch is written as Parquet files, which are put on a stage of the session before the transaction begins; then COPY
brings them into the table, or into a load table from which deletes, upserts and JSON are applied. A full refresh
collects its rows in a new table and replaces those of the old one, in one transaction too, when its run is complete:
views, grants and comments on the target stay.

The warehouse runs for a few statements per batch and for none between them; uploads, transactions, looks at what
exists and DDL do not need it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import DsError, error
from ds_dagster.stores.snowflake_connection import LONG_SECONDS, SnowflakeAddress, driver
from ds_dagster.stores.snowflake_names import column_name
from ds_dagster.stores.snowflake_statements import DELETED_COLUMN, PUBLISHED, TEXT_ONLY, Statements, neutral
from ds_dagster.stores.snowflake_tables import described, shape_difference
from ds_dagster.stores.sqlite_loader import DELETED

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
KEPT_EPOCHS = 1000
PRUNE_EVERY = 100
ROWS_PER_FILE = 1_000_000
"""COPY reads files side by side; https://docs.snowflake.com/en/user-guide/data-load-considerations-prepare."""
DISK_FULL_CODES = (28, 122)
NOT_THERE_CODES = (2003, 2043)
"""SQL compilation errors: does not exist or not authorized."""


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> SnowflakeLoader:
    """The loader of a table; connects at :meth:`SnowflakeLoader.prepare`."""
    if spec.table is None:
        raise error("INTERNAL", where="a table without a target")
    settings: Mapping[str, str] = {name: resolve(value) for name, value in spec.options.items()}
    address = SnowflakeAddress.of(settings["store"], settings)
    return SnowflakeLoader(address, spec.table, identity, shared=settings["shared"] == "true")


class SnowflakeLoader:
    """See ``catalog.io_spec.BatchLoader``. ``shared``: several queries fill the table (INSERT INTO)."""

    def __init__(
        self, address: SnowflakeAddress, target: TableTarget, identity: SinkIdentity, *, shared: bool = False
    ) -> None:
        self.address = address
        self.target = target
        self.identity = identity
        self.shared = shared
        self.statements = Statements(target, identity)
        self._connection: Any = None
        self._has_load_table = False
        self._loaded = 0

    @property
    def table(self) -> str:
        """Database, schema and table, for messages."""
        return ".".join(self.target.path)

    def prepare(self) -> None:
        """Create or verify ledger and target.

        Raises:
            UserError: TARGET_DIFFERS, TARGET_NOT_A_TABLE, TARGET_DATABASE_MISSING, TARGET_SCHEMA_MISSING,
                TARGET_OF_OTHER_JOB, TARGET_SHARED_RESET, LEDGER_NEWER, STORE_LOGIN_REFUSED, STORE_ROLE_REFUSED,
                STORE_WAREHOUSE_MISSING, STORE_PERMISSION_DENIED. ExternalError: STORE_UNREACHABLE.
        """
        self._guarded("prepare the table", self._prepare)

    def load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        """Apply one batch exactly once.

        Raises:
            UserError: LEDGER_NEWER, TARGET_REJECTS_ROWS, STORE_WAREHOUSE_MISSING.
            ExternalError: STORE_UNREACHABLE, DISK_FULL.
        """
        result = self._guarded("load a batch", lambda: self._load(rows, epoch), epoch)
        self._loaded += result.rows
        return result

    def finish(self) -> int:
        """Publish a full refresh; rows of the run (incremental: those this loader saw, a replayed batch included)."""
        if self.target.refresh != "full":
            return self._loaded
        return self._guarded("publish the table", self._publish)

    def close(self) -> None:
        """Drop the load table and end the session, with it its stage."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(Exception):
            if self._has_load_table:
                connection.cursor().execute(self.statements.drop(self.statements.names.load))
        with suppress(Exception):
            connection.close(retry=False)

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:
        """Failures as conditions. The session is left at once: an open transaction goes with it."""
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
        """End a session that failed; its load table is found again by the next one."""
        self._has_load_table = False
        self.close()

    # --- the session --------------------------------------------------------------------------------------------------

    def _cursor(self) -> Any:
        """A cursor of the session, which is opened at the first use: in the schema of the target, with a stage."""
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

    def _prepare(self) -> None:
        cursor, statements = self._cursor(), self.statements
        found = self._objects(cursor)
        newest = None
        if statements.names.ledger in found:
            newest = self._newest(cursor, PUBLISHED)[0]
        else:
            for statement in statements.create_ledger():
                cursor.execute(statement)
        self._check_target(cursor, found, newest)
        self._drop_others(cursor, found, statements.names.load_prefix, statements.names.load)
        if self.target.refresh == "full":
            self._prepare_new(cursor, found)

    def _objects(self, cursor: Any) -> Mapping[str, str]:
        """Name → kind of what stands in the schema under names like the target's."""
        cursor.execute(self.statements.show_objects())
        places = {column[0].lower(): position for position, column in enumerate(cursor.description)}
        return {row[places["name"]]: row[places["kind"]] for row in cursor.fetchall()}

    def _newest(self, cursor: Any, epoch: int) -> tuple[int | None, int | None]:
        """Newest version of the job, and rows of a batch of this version.

        Raises:
            UserError: LEDGER_NEWER.
        """
        cursor.execute(self.statements.state(epoch))
        newest, known = (None if value is None else int(value) for value in cursor.fetchone())
        if newest is not None and newest > self.identity.version:
            raise error("LEDGER_NEWER", table=self.table, found=newest, version=self.identity.version)
        return newest, known

    def _check_target(self, cursor: Any, found: Mapping[str, str], newest: int | None) -> None:
        """The target takes our rows, or is made."""
        kind = found.get(self.target.path[-1])
        if kind is None:
            if self.target.refresh != "full":
                cursor.execute(self.statements.create_table(self.target.path[-1]))
            return
        if kind != "TABLE":
            raise error("TARGET_NOT_A_TABLE", table=self.table, found=kind.lower())
        cursor.execute(self.statements.describe())
        difference = shape_difference(described(cursor), self.target)
        if difference:
            raise error("TARGET_DIFFERS", table=self.table, difference=difference)
        if self.target.refresh == "full":
            return
        if self.shared and newest is not None and newest < self.identity.version:
            raise error("TARGET_SHARED_RESET", table=self.table)
        if newest is None and not self.shared and self._has_others(cursor):
            raise error("TARGET_OF_OTHER_JOB", table=self.table)

    def _has_others(self, cursor: Any) -> bool:
        """Whether rows another job has loaded would be doubled."""
        return all(
            cursor.execute(statement).fetchone() is not None
            for statement in (self.statements.any_batch(), self.statements.any_row())
        )

    def _prepare_new(self, cursor: Any, found: Mapping[str, str]) -> None:
        """The new table of this run; those of earlier runs of this job go."""
        names = self.statements.names
        self._drop_others(cursor, found, names.new_prefix, names.new)
        if names.new not in found and self._newest(cursor, PUBLISHED)[1] is None:
            cursor.execute(self.statements.create_table(names.new))

    def _drop_others(self, cursor: Any, found: Mapping[str, str], prefix: str, kept: str) -> None:
        """What runs of other versions of this job left behind."""
        for name in found:
            if name.startswith(prefix) and name != kept:
                cursor.execute(self.statements.drop(name))

    # --- a batch ------------------------------------------------------------------------------------------------------

    def _load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        cursor = self._cursor()
        if rows.num_rows:
            self._upload(cursor, rows, epoch)
        with transaction(cursor):
            return self._apply(cursor, rows, epoch)

    def _upload(self, cursor: Any, rows: pyarrow.Table, epoch: int) -> None:
        """Files on the stage; no transaction is open yet, so nobody waits for the network."""
        import pyarrow.parquet

        shaped = _storable(rows, self.target, direct=self.statements.direct)
        with tempfile.TemporaryDirectory(prefix="ds-snowflake-") as folder:
            for number, start in enumerate(range(0, shaped.num_rows, ROWS_PER_FILE)):
                part = shaped.slice(start, ROWS_PER_FILE)
                pyarrow.parquet.write_table(part, Path(folder, f"part-{number:05}.parquet"), compression="zstd")
            cursor.execute(self.statements.put(f"{folder}/*.parquet", epoch))

    def _apply(self, cursor: Any, rows: pyarrow.Table, epoch: int) -> LoadResult:
        statements = self.statements
        cursor.execute(statements.lock())
        newest, known = self._newest(cursor, epoch)
        if known is not None:
            self._loaded += known
            return LoadResult(0, replayed=True)
        if newest is not None and newest < self.identity.version and self.target.refresh != "full":
            cursor.execute(statements.clear(statements.names.target))
        if rows.num_rows:
            self._write(cursor, rows, epoch)
        cursor.execute(statements.claim(epoch, rows.num_rows))
        if epoch and epoch % PRUNE_EVERY == 0 and self.target.refresh != "full":
            cursor.execute(statements.prune(epoch - KEPT_EPOCHS))
        return LoadResult(rows.num_rows)

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
        """The new rows take the place of the old ones; doing it twice tells the same."""
        cursor, statements = self._cursor(), self.statements
        if self.target.path[-1] not in self._objects(cursor):
            cursor.execute(statements.create_table(self.target.path[-1]))
        with transaction(cursor):
            cursor.execute(statements.lock())
            known = self._newest(cursor, PUBLISHED)[1]
            if known is not None:
                return known
            cursor.execute(statements.clear(statements.names.target))
            cursor.execute(statements.publish(), timeout=LONG_SECONDS)
            rows = int(cursor.execute(statements.total()).fetchone()[0])
            cursor.execute(statements.claim(PUBLISHED, rows))
        cursor.execute(statements.drop(statements.names.new))
        return rows


class transaction:  # noqa: N801 - reads as a word in `with transaction(cursor)`
    """BEGIN … COMMIT, ROLLBACK on any failure: after a failed statement COMMIT may report success and keep nothing."""

    def __init__(self, cursor: Any) -> None:
        self.cursor = cursor

    def __enter__(self) -> None:
        self.cursor.execute("BEGIN TRANSACTION")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.cursor.execute("COMMIT")
            return
        with suppress(Exception):
            self.cursor.execute("ROLLBACK")


def _storable(rows: pyarrow.Table, target: TableTarget, *, direct: bool) -> pyarrow.Table:
    """Columns of a file: the target's under their own names, or under neutral ones with the delete marks behind."""
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
