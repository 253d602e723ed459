"""Loads batches into a Postgres table: rows and ledger row in one transaction on one ADBC connection.

Appends whose Arrow types equal the table's are written directly by binary COPY; other batches go through a temporary
table and are cast on the way. Rows of a large append are written while others are computed. A full refresh loads a new
table. When its run is complete, the new table replaces the old one, or the old one is filled from it if other objects
depend on the old one.

Conflicts with other sessions (deadlocks, serialization failures) are retried here. If a lock times out or the server is
down, the engine retries later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, SinkFacts, Tip
from ds_dagster.catalog.reading.ranges import Replaced, TimeRange
from ds_dagster.catalog.reading.row_stream import RowStream
from ds_dagster.errors import DsError, error
from ds_dagster.stores.postgres.connection import PostgresAddress, is_conflict
from ds_dagster.stores.postgres.shapes import ExistingTable, casts, find_table, is_exact, is_kept, shape_difference
from ds_dagster.stores.postgres.tables import ADDED_COLUMNS, LOCK_SPACE, STAGE, TableStatements, new_prefix
from ds_dagster.stores.repeating import repeated
from ds_dagster.stores.table_sink import (
    DELETED,
    KEPT_EPOCHS,
    PRUNE_EVERY,
    TableSink,
    TargetState,
    opened,
    tip_of,
    undone_on_failure,
)

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
CONFLICT_ATTEMPTS = 4
CONFLICT_PAUSE_SECONDS = 1.0
PUBLISH_LOCK_MILLIS = 5_000
"""How long a publication waits for its lock on the target: new readers queue after it."""


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> PostgresLoader:
    """The loader of a table or view; connects at :meth:`PostgresLoader.prepare`."""
    target, settings = opened(spec, resolve)
    address = PostgresAddress.of(settings["store"], settings)
    return PostgresLoader(address, target, identity, shared=settings["shared"] == "true")


class PostgresLoader(TableSink):
    """See :class:`TableSink`. Preparing and publishing use one connection, batches another."""

    is_restorable: ClassVar[bool] = True

    def __init__(
        self, address: PostgresAddress, target: TableTarget, identity: SinkIdentity, *, shared: bool = False
    ) -> None:
        super().__init__(target, identity, shared=shared)
        self.address = address
        self._control: Any = None
        self._bulk: Any = None
        self._made: TableStatements | None = None
        self._casts: Mapping[str, str] = MappingProxyType({})
        self._is_exact = False

    def expire(self) -> int:
        """See ``catalog.io_spec.ExpiringLoader``."""
        import psycopg2

        try:
            with closing(self.address.control()) as connection, connection, connection.cursor() as cursor:
                cursor.execute(TableStatements(connection, self.target, self.identity).expire())
                return int(cursor.rowcount)
        except psycopg2.Error as problem:
            raise self.address.failure(problem, "delete old rows", self.table) from None

    def shape_now(self) -> str | None:
        """See ``catalog.shapes.ComparesShape``."""
        import psycopg2

        try:
            with closing(self.address.control()) as connection, connection, connection.cursor() as cursor:
                existing = find_table(cursor, self.target.path)
            return None if existing is None else shape_difference(existing, self.target, shared=self.shared)
        except psycopg2.Error as problem:
            raise self.address.failure(problem, "compare the table", self.table) from None

    def load_stream(self, rows: RowStream, batch: Tip) -> LoadResult:
        """See ``catalog.reading.row_stream.StreamLoader``."""
        result, counted = self._guarded("load a batch", lambda: self._load(rows, batch), batch.batch, attempts=1)
        self._loaded += counted
        return result

    def replace_range(self, span: TimeRange, batches: Iterable[pyarrow.Table], tip: Tip) -> Replaced:
        """See ``catalog.reading.ranges.ReplacesRanges``."""
        import adbc_driver_manager
        import psycopg2

        from ds_dagster.stores.postgres.ranges import replace_range

        try:
            return replace_range(self, span, batches, tip)
        except (psycopg2.Error, adbc_driver_manager.Error) as problem:
            raise self.address.failure(problem, "replace a range of rows", self.table) from None
        finally:
            self.close()

    def close(self) -> None:
        """Close both connections."""
        for connection in (self._bulk, self._control):
            if connection is not None:
                with suppress(Exception):
                    connection.close()
        self._bulk = self._control = self._made = None

    def _guarded(
        self, action: str, step: Callable[[], R], epoch: int | None = None, attempts: int = CONFLICT_ATTEMPTS
    ) -> R:
        """Run a transaction, up to ``attempts`` times in conflicts; every failure ends the sessions."""
        import adbc_driver_manager
        import psycopg2

        def tried() -> R:
            try:
                return step()
            except (psycopg2.Error, adbc_driver_manager.Error, DsError):
                self.close()
                raise

        try:
            return repeated(tried, is_conflict, attempts, CONFLICT_PAUSE_SECONDS)
        except (psycopg2.Error, adbc_driver_manager.Error) as problem:
            raise self.address.failure(problem, action, self.table, epoch) from None

    def _statements(self) -> TableStatements:
        """The statements, composed on the control connection; opens that at the first use."""
        if self._made is None:
            self._control = self.address.control()
            self._made = TableStatements(self._control, self.target, self.identity, self._casts)
        return self._made

    @contextmanager
    def _preparation(self) -> Iterator[Any]:
        """A transaction on the control connection; one preparation at a time. Creates the ledger, or adds missing
        columns to an older one."""
        statements = self._statements()
        with self._control, self._control.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_SPACE, self.table))
            cursor.execute("SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", (self.target.path[0],))
            if not cursor.fetchone()[0]:
                raise error("TARGET_SCHEMA_MISSING", schema=self.target.path[0], store=self.address.store)
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext('ds_ledger'))", (LOCK_SPACE,))
            cursor.execute(statements.create_ledger())
            cursor.execute(statements.ledger_columns())
            columns_there = {name for (name,) in cursor.fetchall()}
            for name in ADDED_COLUMNS:
                if name not in columns_there:
                    cursor.execute(statements.add_column(name))
            yield cursor

    def _look(self, cursor: Any) -> TargetState:
        statements = self._statements()
        state, existing = self._ledger(cursor), find_table(cursor, self.target.path)
        difference = "" if existing is None else shape_difference(existing, self.target, shared=self.shared)
        others = state.facts.version is None and not self.shared and not self.is_full and existing is not None
        facts = replace(
            state.facts,
            exists=statements.new in self._new_tables(cursor, statements.new) if self.is_full else existing is not None,
            differs=bool(difference) and not self._is_replaceable(cursor, existing),
            has_others=others and self._has_others(cursor),
            keeps=self._keeps(existing),
        )
        return replace(state, facts=facts, difference=difference, target=existing)

    def _keeps(self, existing: ExistingTable | None) -> str:
        """Condition if the rows of an earlier version may not be replaced, else empty."""
        if self.is_full or existing is None:
            return ""
        return "TARGET_SHARED_RESET" if self.shared else "TARGET_REFERENCED" if existing.referenced else ""

    def _is_replaceable(self, cursor: Any, existing: ExistingTable | None) -> bool:
        """Whether a full refresh may change the shape of a table: an earlier refresh of the job wrote it, and no other
        object depends on it."""
        cursor.execute(self._statements().has_earlier())
        has_earlier = self.is_full and cursor.fetchone()[0]
        return bool(existing is not None and has_earlier and not is_kept(cursor, existing, self.target))

    def _make(self, cursor: Any, state: TargetState) -> None:
        statements, existing = self._statements(), state.target
        if existing is None and not self.is_full:
            cursor.execute(statements.create_table())
        self._written_as(None if self.is_full else existing)
        self._prepare_ageing(cursor, statements)
        if self.is_full:
            self._check_publishable(existing)
            self._make_new(cursor, state)

    def _check_publishable(self, existing: ExistingTable | None) -> None:
        if existing is not None and existing.referenced and self.target.mode != "upsert":
            raise error("TARGET_REFERENCED", table=self.table)

    def _prepare_ageing(self, cursor: Any, statements: TableStatements) -> None:
        """When a retention is added, existing rows count as written now; without one no age is stored."""
        cursor.execute(statements.has_stamp())
        has_stamp = cursor.fetchone()[0]
        if self.target.retention_millis and not has_stamp:
            cursor.execute(statements.add_stamp())
        elif has_stamp and not self.target.retention_millis:
            cursor.execute(statements.drop_stamp())

    def _ledger(self, cursor: Any, below: int | None = None) -> TargetState:
        """The ledger's state of this job; ``below``: only of batches before that one."""
        statements = self._statements()
        cursor.execute(statements.text(statements.newest(below)))
        newest, batch, offsets, ends, rows, published = cursor.fetchone()
        facts = SinkFacts(tip_of(batch, offsets, ends), None if newest is None else int(newest))
        is_published = self.is_full and published is not None
        return TargetState(facts, rows=int(rows or 0), published=int(published) if is_published else None)

    def _written_as(self, existing: ExistingTable | None) -> None:
        """Choose casts for the table that batches are written into; None: the table that we create."""
        self._casts = casts(existing, self.target)
        self._is_exact = existing is None or _same_types(existing, self.target)
        if self._made is not None:
            self._made.casts = self._casts

    def _has_others(self, cursor: Any) -> bool:
        """Whether the table has rows that another job has loaded."""
        statements = self._statements()
        query = statements.sql.SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE target = %s) AND EXISTS (SELECT 1 FROM {})")
        cursor.execute(query.format(statements.ledger, statements.target_name), (self.target.path[1],))
        return bool(cursor.fetchone()[0])

    def _new_tables(self, cursor: Any, prefix: str) -> set[str]:
        """Tables of the schema whose names have a prefix."""
        cursor.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND starts_with(tablename, %s)",
            (self.target.path[0], prefix),
        )
        return {name for (name,) in cursor.fetchall()}

    def _make_new(self, cursor: Any, state: TargetState) -> None:
        """Create the new table of this run and drop the new tables of earlier runs of this job."""
        statements = self._statements()
        names = self._new_tables(cursor, new_prefix(self.target.path[1], self.identity.job))
        for name in names - {statements.new}:
            identifier = statements.sql.Identifier(self.target.path[0], name)
            cursor.execute(statements.sql.SQL("DROP TABLE {}").format(identifier))
        if statements.new not in names and state.published is None:
            cursor.execute(statements.create_table())

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """The transaction of a batch, on the bulk connection."""
        if self._bulk is None:
            self._bulk = self.address.bulk()
        with undone_on_failure(self._bulk.rollback):
            with self._bulk.cursor() as cursor:
                yield cursor
            self._bulk.commit()

    def _staged(self, rows: pyarrow.Table | RowStream, batch: Tip) -> pyarrow.Table | RowStream:  # noqa: ARG002
        import pyarrow

        return _storable(rows, self.target) if isinstance(rows, pyarrow.Table) else rows

    def _state(self, cursor: Any, batch: Tip, rows: int) -> TargetState:
        """Insert the ledger row first: a second writer waits for it, and then sees what the first has committed."""
        statements = self._statements()
        cursor.execute(statements.text(statements.claim(batch, rows)))
        is_ours = cursor.fetchone() is not None
        return self._ledger(cursor, below=batch.batch if is_ours else None)

    def _apply(self, cursor: Any, staged: pyarrow.Table | RowStream, batch: Tip, *, replaces: bool) -> None:
        import pyarrow

        statements = self._statements()
        rows = staged if isinstance(staged, pyarrow.Table) else self._streamed(cursor, staged, whole=replaces)
        if replaces:
            cursor.execute(statements.text(statements.clear()))
        if not isinstance(rows, pyarrow.Table) or rows.num_rows:
            self._write(cursor, statements, rows)
        if batch.batch % PRUNE_EVERY == 0 and not self.is_full:
            cursor.execute(statements.text(statements.prune(batch.batch - KEPT_EPOCHS)))

    def _streamed(self, cursor: Any, rows: RowStream, *, whole: bool) -> pyarrow.Table | pyarrow.RecordBatchReader:
        """The rows of a stream; ``whole``: all of them, since the batch cannot read the table after it was emptied."""
        statements = self._statements()
        cursor.execute(statements.text(statements.wait_for_rows()))
        cursor.fetchone()
        reader = _reader(rows, self.target)
        return reader.read_all() if whole else reader

    def _recount(self, cursor: Any, batch: Tip, rows: int) -> None:
        statements = self._statements()
        cursor.execute(statements.text(statements.recount(batch, rows)))

    def _write(self, cursor: Any, statements: TableStatements, rows: pyarrow.Table | pyarrow.RecordBatchReader) -> None:
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
        """Objects that depend on the target remain."""
        statements = self._statements()
        with self._control, self._control.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", (f"{PUBLISH_LOCK_MILLIS}ms",))
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_SPACE, self.table))
            state = self._look(cursor)
            if state.published is not None:
                return state.published
            tip = state.facts.tip
            self._admitted(CheckpointTip(tip), state)
            self._check_publishable(state.target)
            for step in self._published_by(cursor, statements, state.target):
                cursor.execute(step)
            cursor.execute(statements.total())
            rows = int(cursor.fetchone()[0])
            cursor.execute(statements.publication(rows))
            return rows

    def _published_by(self, cursor: Any, statements: TableStatements, existing: ExistingTable | None) -> Sequence[Any]:
        """Statements that publish into the present target: swap, refill, or merge by key."""
        if existing is None:
            return statements.swap(replaces=False)
        fits = not shape_difference(existing, self.target)
        if not is_kept(cursor, existing, self.target) and (is_exact(existing, self.target) or not fits):
            return statements.swap(replaces=True)
        into = casts(existing, self.target)
        return statements.merge(into) if existing.referenced else statements.refill(into)


def _same_types(existing: ExistingTable, target: TableTarget) -> bool:
    """Whether the table has our column types, so that COPY can write Arrow's values."""
    return all(existing.columns[column.name].type == column.native_type for column in target.columns)


def _reader(rows: RowStream, target: TableTarget) -> pyarrow.RecordBatchReader:
    """The rows to append, part by part."""
    import pyarrow

    schema = _storable(rows.schema.empty_table(), target).schema
    parts = (part.select(schema.names).cast(schema) for part in rows.parts())
    return pyarrow.RecordBatchReader.from_batches(schema, parts)


def _storable(rows: pyarrow.Table, target: TableTarget) -> pyarrow.Table:
    """The target's columns in order (and ``__deleted`` for upserts); one-byte integers as two-byte ones, since Postgres
    has none."""
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
