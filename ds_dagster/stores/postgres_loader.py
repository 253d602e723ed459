"""Loads batches into a Postgres table: rows and ledger row in one transaction on one ADBC connection.

Appends whose Arrow types are the table's go straight in by binary COPY; everything else goes through a temporary
table and is
cast while it is published. A full refresh loads a new table and puts it in the place of the old one when its run is
complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import DsError, error
from ds_dagster.stores.postgres_connection import PostgresAddress
from ds_dagster.stores.postgres_tables import (
    KEPT_QUERY,
    LOCK_SPACE,
    PUBLISHED,
    STAGE,
    TableStatements,
    find_table,
    new_prefix,
    shape_difference,
)
from ds_dagster.stores.sqlite_loader import DELETED

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
KEPT_EPOCHS = 1000
PRUNE_EVERY = 100
NOT_DIRECT = ("TIME",)
"""Types ADBC's COPY does not write as the table's; they are staged and cast."""


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> PostgresLoader:
    """The loader of a table or view; connects at :meth:`PostgresLoader.prepare`."""
    if spec.table is None:
        raise error("INTERNAL", where="a table without a target")
    settings: Mapping[str, str] = {name: resolve(value) for name, value in spec.options.items()}
    address = PostgresAddress.of(settings["store"], settings)
    return PostgresLoader(address, spec.table, identity, shared=settings["shared"] == "true")


class PostgresLoader:
    """See ``catalog.io_spec.BatchLoader``. ``shared``: several queries fill the table (INSERT INTO)."""

    def __init__(
        self, address: PostgresAddress, target: TableTarget, identity: SinkIdentity, *, shared: bool = False
    ) -> None:
        self.address = address
        self.target = target
        self.identity = identity
        self.shared = shared
        self._control: Any = None
        self._bulk: Any = None
        self._made: TableStatements | None = None
        self._loaded = 0

    @property
    def table(self) -> str:
        """Schema and table, for messages."""
        return ".".join(self.target.path)

    def prepare(self) -> None:
        """Create or verify ledger and target.

        Raises:
            UserError: TARGET_DIFFERS, TARGET_NOT_A_TABLE, TARGET_SCHEMA_MISSING, TARGET_OF_OTHER_JOB,
            TARGET_SHARED_RESET,
                LEDGER_NEWER, STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED. ExternalError: STORE_UNREACHABLE.
        """
        self._guarded("prepare the table", self._prepare)

    def load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        """Apply one batch exactly once.

        Raises:
            UserError: LEDGER_NEWER, TARGET_REJECTS_ROWS. ExternalError: STORE_UNREACHABLE, DISK_FULL.
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
        """Close both connections."""
        for connection in (self._bulk, self._control):
            if connection is not None:
                with suppress(Exception):
                    connection.close()
        self._bulk = self._control = self._made = None

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:
        import adbc_driver_manager
        import psycopg2

        try:
            return step()
        except (psycopg2.Error, adbc_driver_manager.Error) as problem:
            failure = self.address.failure(problem, action, self.table, epoch)
            self.close()
            raise failure from None
        except DsError:
            self.close()
            raise

    def _statements(self) -> TableStatements:
        """Composed on the control connection, opened at the first use."""
        if self._made is None:
            self._control = self.address.control()
            self._made = TableStatements(self._control, self.target, self.identity)
        return self._made

    def _prepare(self) -> None:
        statements = self._statements()
        with self._control, self._control.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_SPACE, self.table))
            cursor.execute("SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", (self.target.path[0],))
            if not cursor.fetchone()[0]:
                raise error("TARGET_SCHEMA_MISSING", schema=self.target.path[0], store=self.address.store)
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext('ds_ledger'))", (LOCK_SPACE,))
            cursor.execute(statements.create_ledger())
            newest = self._newest(cursor, statements)
            self._check_target(cursor, statements, newest)
            if self.target.refresh == "full":
                self._prepare_new(cursor, statements)

    def _newest(self, cursor: Any, statements: TableStatements) -> int | None:
        cursor.execute(statements.text(statements.newest()))
        found = cursor.fetchone()[0]
        if found is not None and found > self.identity.version:
            raise error("LEDGER_NEWER", table=self.table, found=found, version=self.identity.version)
        return None if found is None else int(found)

    def _check_target(self, cursor: Any, statements: TableStatements, newest: int | None) -> None:
        """The target takes our rows, or is made."""
        existing = find_table(cursor, self.target.path)
        if existing is None:
            if self.target.refresh != "full":
                cursor.execute(statements.create_table())
            return
        difference = shape_difference(existing, self.target)
        replaceable = self.target.refresh == "full" and newest is not None and not self._is_kept(cursor, existing.oid)
        if difference and not replaceable:
            raise error("TARGET_DIFFERS", table=self.table, difference=difference)
        if self.target.refresh == "full":
            return
        if self.shared and newest is not None and newest < self.identity.version:
            raise error("TARGET_SHARED_RESET", table=self.table)
        if newest is None and not self.shared:
            self._check_others(cursor, statements)

    def _check_others(self, cursor: Any, statements: TableStatements) -> None:
        """Rows another job has loaded would be doubled."""
        query = statements.sql.SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE target = %s) AND EXISTS (SELECT 1 FROM {})")
        cursor.execute(query.format(statements.ledger, statements.target_name), (self.target.path[1],))
        if cursor.fetchone()[0]:
            raise error("TARGET_OF_OTHER_JOB", table=self.table)

    def _prepare_new(self, cursor: Any, statements: TableStatements) -> None:
        """The new table of this run; those of earlier runs of this job go."""
        prefix = new_prefix(self.target.path[1], self.identity.job)
        cursor.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND starts_with(tablename, %s)",
            (self.target.path[0], prefix),
        )
        names = {name for (name,) in cursor.fetchall()}
        for name in names - {statements.new}:
            identifier = statements.sql.Identifier(self.target.path[0], name)
            cursor.execute(statements.sql.SQL("DROP TABLE {}").format(identifier))
        if statements.new not in names and self._published(cursor, statements) is None:
            cursor.execute(statements.create_table())

    def _load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        statements = self._statements()
        if self._bulk is None:
            self._bulk = self.address.bulk()
        try:
            with self._bulk.cursor() as cursor:
                result = self._apply(cursor, statements, rows, epoch)
            self._bulk.commit()
        except BaseException:
            with suppress(Exception):
                self._bulk.rollback()
            raise
        return result

    def _apply(self, cursor: Any, statements: TableStatements, rows: pyarrow.Table, epoch: int) -> LoadResult:
        newest = self._newest(cursor, statements)
        cursor.execute(statements.text(statements.claim(epoch, rows.num_rows)))
        if cursor.fetchone() is None:
            cursor.execute(statements.text(statements.known(epoch)))
            self._loaded += int(cursor.fetchone()[0])
            return LoadResult(0, replayed=True)
        if newest is not None and newest < self.identity.version and self.target.refresh != "full":
            cursor.execute(statements.text(statements.clear()))
        if rows.num_rows:
            self._write(cursor, statements, _storable(rows, self.target))
        if epoch % PRUNE_EVERY == 0 and self.target.refresh != "full":
            cursor.execute(statements.text(statements.prune(epoch - KEPT_EPOCHS)))
        return LoadResult(rows.num_rows)

    def _write(self, cursor: Any, statements: TableStatements, rows: pyarrow.Table) -> None:
        if self.target.mode == "append" and _goes_direct(self.target):
            cursor.adbc_ingest(statements.written, rows, mode="append", db_schema_name=self.target.path[0])
            return
        cursor.adbc_ingest(STAGE, rows, mode="create", temporary=True)
        if self.target.mode == "upsert":
            import pyarrow.compute as compute

            if compute.any(rows[DELETED]).as_py():
                cursor.execute(statements.text(statements.delete_staged(nulls=False)))
                if any(rows[name].null_count for name in self.target.primary_key):
                    cursor.execute(statements.text(statements.delete_staged(nulls=True)))
        cursor.execute(statements.text(statements.insert_staged()))
        cursor.execute(statements.text(statements.drop_stage()))

    def _publish(self) -> int:
        """Put the new table in the old one's place; what hangs on the old one stays where it is."""
        statements = self._statements()
        with self._control, self._control.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_SPACE, self.table))
            published = self._published(cursor, statements)
            if published is not None:
                return published
            self._newest(cursor, statements)
            existing = find_table(cursor, self.target.path)
            if existing is not None and self._is_kept(cursor, existing.oid):
                self._refill(cursor, statements)
            else:
                if existing is not None:
                    cursor.execute(statements.sql.SQL("DROP TABLE {}").format(statements.target_name))
                rename = statements.sql.SQL("ALTER TABLE {} RENAME TO {}")
                cursor.execute(rename.format(statements.new_name, statements.sql.Identifier(self.target.path[1])))
            total = statements.sql.SQL(
                "SELECT coalesce(sum(rows), 0) FROM {} WHERE job = %s AND version = %s AND epoch >= 0"
            )
            cursor.execute(total.format(statements.ledger), (self.identity.job, self.identity.version))
            rows = int(cursor.fetchone()[0])
            cursor.execute(statements.claim(PUBLISHED, rows))
            return rows

    def _refill(self, cursor: Any, statements: TableStatements) -> None:
        """TRUNCATE and INSERT: readers wait for the transaction, views and grants stay."""
        names = statements.sql.SQL(", ").join(statements.sql.Identifier(c.name) for c in self.target.columns)
        cursor.execute(statements.clear())
        fill = statements.sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}")
        cursor.execute(fill.format(statements.target_name, names, names, statements.new_name))
        cursor.execute(statements.sql.SQL("DROP TABLE {}").format(statements.new_name))

    def _published(self, cursor: Any, statements: TableStatements) -> int | None:
        """Rows of this version if it was published."""
        cursor.execute(statements.known(PUBLISHED))
        found = cursor.fetchone()
        return None if found is None else int(found[0])

    def _is_kept(self, cursor: Any, oid: int) -> bool:
        cursor.execute(KEPT_QUERY, {"oid": oid, "own": 1 if self.target.mode == "upsert" else 0})
        return bool(cursor.fetchone()[0])


def _goes_direct(target: TableTarget) -> bool:
    """Whether Arrow's types are the table's own."""
    return not any(
        column.as_json or (isinstance(column.type, Scalar) and column.type.name in NOT_DIRECT)
        for column in target.columns
    )


def _storable(rows: pyarrow.Table, target: TableTarget) -> pyarrow.Table:
    """The target's columns in order (and ``__deleted``); one-byte integers as the two-byte ones Postgres has."""
    import pyarrow
    import pyarrow.compute as compute

    names = [column.name for column in target.columns]
    if target.mode == "upsert":
        marks = rows[DELETED] if DELETED in rows.column_names else pyarrow.array([False] * rows.num_rows)
        rows = rows.select(names).append_column(DELETED, compute.fill_null(marks, False))
    else:
        rows = rows.select(names)
    fields = [field.with_type(pyarrow.int16()) if field.type == pyarrow.int8() else field for field in rows.schema]
    return rows.cast(pyarrow.schema(fields))
