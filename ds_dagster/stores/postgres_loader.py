"""Loads batches into a Postgres table: rows and ledger row in one transaction on one ADBC connection.

Appends whose Arrow types are the table's go straight in by binary COPY; everything else goes through a temporary
table and is cast while it is published. A full refresh loads a new table; when its run is complete, that takes the
place of the old one where nothing hangs on the old one, else the old one is filled from it.

What other sessions cause and what passes by itself (deadlocks, serialization failures) is tried again here; a lock
that is not given in time and a server that is gone are the engine's to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.errors import DsError, error
from ds_dagster.stores.postgres_connection import PostgresAddress, is_conflict
from ds_dagster.stores.postgres_shapes import Existing, casts, find_table, is_exact, is_kept, shape_difference
from ds_dagster.stores.postgres_tables import LOCK_SPACE, PUBLISHED, STAGE, TableStatements, new_prefix
from ds_dagster.stores.repeating import repeated
from ds_dagster.stores.sqlite_loader import DELETED

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
KEPT_EPOCHS = 1000
PRUNE_EVERY = 100
CONFLICT_ATTEMPTS = 4
CONFLICT_PAUSE_SECONDS = 1.0
PUBLISH_LOCK_MILLIS = 5_000
"""How long a publication queues for the target: new readers wait behind it."""
PUBLISH_ATTEMPTS = 6
PUBLISH_PAUSE_SECONDS = 5.0


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
        self._casts: Mapping[str, str] = MappingProxyType({})
        self._is_exact = False
        self._loaded = 0

    @property
    def table(self) -> str:
        """Schema and table, for messages."""
        return ".".join(self.target.path)

    def prepare(self) -> None:
        """Create or verify ledger and target.

        Raises:
            UserError: TARGET_DIFFERS, TARGET_NOT_A_TABLE, TARGET_SCHEMA_MISSING, TARGET_OF_OTHER_JOB,
                TARGET_SHARED_RESET, TARGET_REFERENCED, TARGET_GONE, LEDGER_NEWER, STORE_LOGIN_REFUSED,
                STORE_PERMISSION_DENIED. ExternalError: STORE_UNREACHABLE, TARGET_LOCKED.
        """
        self._guarded("prepare the table", self._prepare)

    def load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        """Apply one batch exactly once.

        Raises:
            UserError: LEDGER_NEWER, TARGET_REJECTS_ROWS, TARGET_CHANGED. ExternalError: STORE_UNREACHABLE, DISK_FULL,
                TARGET_LOCKED.
        """
        result, counted = self._guarded("load a batch", lambda: self._load(rows, epoch), epoch)
        self._loaded += counted
        return result

    def finish(self) -> int:
        """Publish a full refresh; rows of the run (incremental: those this loader saw, a replayed batch included)."""
        if self.target.refresh != "full":
            return self._loaded
        return repeated(
            lambda: self._guarded("publish the table", self._publish),
            lambda problem: isinstance(problem, DsError) and problem.condition == "TARGET_LOCKED",
            PUBLISH_ATTEMPTS,
            PUBLISH_PAUSE_SECONDS,
        )

    def expire(self) -> int:
        """See ``catalog.io_spec.ExpiringLoader``."""
        import psycopg2

        try:
            with closing(self.address.control()) as connection, connection, connection.cursor() as cursor:
                cursor.execute(TableStatements(connection, self.target, self.identity).expire())
                return int(cursor.rowcount)
        except psycopg2.Error as problem:
            raise self.address.failure(problem, "delete old rows", self.table) from None

    def close(self) -> None:
        """Close both connections."""
        for connection in (self._bulk, self._control):
            if connection is not None:
                with suppress(Exception):
                    connection.close()
        self._bulk = self._control = self._made = None

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:
        """A transaction, as often as other transactions break it; every failure ends the sessions."""
        import adbc_driver_manager
        import psycopg2

        def tried() -> R:
            try:
                return step()
            except (psycopg2.Error, adbc_driver_manager.Error, DsError):
                self.close()
                raise

        try:
            return repeated(tried, is_conflict, CONFLICT_ATTEMPTS, CONFLICT_PAUSE_SECONDS)
        except (psycopg2.Error, adbc_driver_manager.Error) as problem:
            raise self.address.failure(problem, action, self.table, epoch) from None

    def _statements(self) -> TableStatements:
        """Composed on the control connection, opened at the first use."""
        if self._made is None:
            self._control = self.address.control()
            self._made = TableStatements(self._control, self.target, self.identity, self._casts)
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
            self._prepare_ageing(cursor, statements)
            if self.target.refresh == "full":
                self._prepare_new(cursor, statements)

    def _prepare_ageing(self, cursor: Any, statements: TableStatements) -> None:
        """Rows of a view that has got a retention only now are as old as this moment; without one none has an age."""
        cursor.execute(statements.has_stamp())
        has_stamp = cursor.fetchone()[0]
        if self.target.retention_millis and not has_stamp:
            cursor.execute(statements.add_stamp())
        elif has_stamp and not self.target.retention_millis:
            cursor.execute(statements.drop_stamp())

    def _newest(self, cursor: Any, statements: TableStatements) -> int | None:
        cursor.execute(statements.text(statements.newest()))
        found = cursor.fetchone()[0]
        if found is not None and found > self.identity.version:
            raise error("LEDGER_NEWER", table=self.table, found=found, version=self.identity.version)
        return None if found is None else int(found)

    def _check_target(self, cursor: Any, statements: TableStatements, newest: int | None) -> None:
        """The target takes our rows, or is made."""
        existing = find_table(cursor, self.target.path)
        is_full = self.target.refresh == "full"
        if existing is None:
            if newest == self.identity.version and not is_full and self._has_loaded(cursor, statements):
                raise error("TARGET_GONE", table=self.table)
            if not is_full:
                cursor.execute(statements.create_table())
            self._written_as(None)
            return
        self._check_shape(cursor, statements, existing)
        if is_full:
            self._written_as(None)
            return
        self._written_as(existing)
        if newest is not None and newest < self.identity.version:
            if self.shared:
                raise error("TARGET_SHARED_RESET", table=self.table)
            if existing.referenced:
                raise error("TARGET_REFERENCED", table=self.table)
        if newest is None and not self.shared:
            self._check_others(cursor, statements)

    def _check_shape(self, cursor: Any, statements: TableStatements, existing: Existing) -> None:
        """A full refresh may give a table another shape if an earlier one made it and nothing hangs on it."""
        difference = shape_difference(existing, self.target, shared=self.shared)
        is_full = self.target.refresh == "full"
        cursor.execute(statements.has_earlier())
        replaceable = is_full and cursor.fetchone()[0] and not is_kept(cursor, existing, self.target)
        if difference and not replaceable:
            raise error("TARGET_DIFFERS", table=self.table, difference=difference)
        if is_full and existing.referenced and self.target.mode != "upsert":
            raise error("TARGET_REFERENCED", table=self.table)

    def _written_as(self, existing: Existing | None) -> None:
        """Batches go into a table that is there, or into one of ours."""
        self._casts = casts(existing, self.target)
        self._is_exact = existing is None or _same_types(existing, self.target)
        if self._made is not None:
            self._made.casts = self._casts

    def _has_loaded(self, cursor: Any, statements: TableStatements) -> bool:
        """Whether this version has brought rows that must be somewhere."""
        cursor.execute(statements.total())
        return bool(cursor.fetchone()[0])

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

    def _load(self, rows: pyarrow.Table, epoch: int) -> tuple[LoadResult, int]:
        """What the batch did, and how many rows of the run it stands for."""
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

    def _apply(
        self, cursor: Any, statements: TableStatements, rows: pyarrow.Table, epoch: int
    ) -> tuple[LoadResult, int]:
        newest = self._newest(cursor, statements)
        cursor.execute(statements.text(statements.claim(epoch, rows.num_rows)))
        if cursor.fetchone() is None:
            cursor.execute(statements.text(statements.known(epoch)))
            return LoadResult(0, replayed=True), int(cursor.fetchone()[0])
        if newest is not None and newest < self.identity.version and self.target.refresh != "full":
            cursor.execute(statements.text(statements.clear()))
        if rows.num_rows:
            self._write(cursor, statements, _storable(rows, self.target))
        if epoch % PRUNE_EVERY == 0 and self.target.refresh != "full":
            cursor.execute(statements.text(statements.prune(epoch - KEPT_EPOCHS)))
        return LoadResult(rows.num_rows), rows.num_rows

    def _write(self, cursor: Any, statements: TableStatements, rows: pyarrow.Table) -> None:
        if self.target.mode == "append" and self._is_exact and not self._casts:
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
        """The new table's rows become the target's; what hangs on the target stays where it is."""
        statements = self._statements()
        with self._control, self._control.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", (f"{PUBLISH_LOCK_MILLIS}ms",))
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_SPACE, self.table))
            published = self._published(cursor, statements)
            if published is not None:
                return published
            self._newest(cursor, statements)
            existing = find_table(cursor, self.target.path)
            if existing is not None:
                self._check_shape(cursor, statements, existing)
            for step in self._published_by(cursor, statements, existing):
                cursor.execute(step)
            cursor.execute(statements.total())
            rows = int(cursor.fetchone()[0])
            cursor.execute(statements.claim(PUBLISHED, rows))
            return rows

    def _published_by(self, cursor: Any, statements: TableStatements, existing: Existing | None) -> Sequence[Any]:
        """The statements that fit the target as it stands now."""
        if existing is None:
            return statements.swap(replaces=False)
        fits = not shape_difference(existing, self.target)
        if not is_kept(cursor, existing, self.target) and (is_exact(existing, self.target) or not fits):
            return statements.swap(replaces=True)
        into = casts(existing, self.target)
        return statements.merge(into) if existing.referenced else statements.refill(into)

    def _published(self, cursor: Any, statements: TableStatements) -> int | None:
        """Rows of this version if it was published."""
        cursor.execute(statements.known(PUBLISHED))
        found = cursor.fetchone()
        return None if found is None else int(found[0])


def _same_types(existing: Existing, target: TableTarget) -> bool:
    """Whether Arrow's types are those of the table, so that COPY can write them."""
    return all(existing.columns[column.name].type == column.native_type for column in target.columns)


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
