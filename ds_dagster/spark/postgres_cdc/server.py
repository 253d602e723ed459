"""Requests to the server: publication and slot, position of its log, changes, tables under a snapshot.

Only one session at a time may use a slot. A session that was cut off may hold the slot for a moment, so requests to a
slot in use are retried for :data:`SLOT_SECONDS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pyarrow as pa

from ds_dagster.catalog.reading.slots import snapshot_slot
from ds_dagster.errors import DsError, error
from ds_dagster.spark.postgres_cdc.options import CdcOptions
from ds_dagster.spark.postgres_cdc.pgoutput import SourceTable
from ds_dagster.spark.postgres_cdc.position import lsn_number, lsn_text
from ds_dagster.spark.postgres_cdc.statements import (
    CREATE_PUBLICATION,
    FACTS_QUERY,
    LOOK_QUERY,
    PEEK,
    PEEK_ONE,
    PUBLISHED_QUERY,
)
from ds_dagster.spark.postgres_cdc.tables import source_tables

T = TypeVar("T")
PLUGIN = "pgoutput"
SLOT_SECONDS = 30.0
RETRY_SECONDS = 0.1
LEAST_VERSION = 130_000
"""Version 13, the first whose slots report whether their log still exists, and whose publications have partitions."""
SNAPSHOT_RECORD_SINCE = 160_000
IN_USE, MISSING, NOT_READY, NONE_FREE = "55006", "42704", "55000", "53400"
FAILURES = (
    (IN_USE, "replication slot", "CDC_SLOT_ACTIVE"),
    (MISSING, "replication slot", "CDC_SLOT_MISSING"),
    (MISSING, "publication", "CDC_PUBLICATION_MISSING"),
    (NOT_READY, "replication slot", "CDC_SLOT_LOST"),
    (NONE_FREE, "replication slot", "CDC_NO_SLOT_FREE"),
)
"""SQLSTATE, words in the text, our condition."""
SESSION = (
    ("datestyle", "ISO"), ("intervalstyle", "iso_8601"), ("timezone", "UTC"), ("bytea_output", "hex"),
    ("extra_float_digits", "1"), ("client_encoding", "UTF8"), ("statement_timeout", "0"),
)  # fmt: skip
"""Session settings, which determine the texts of values; the last one lifts the time limit, only to read rows."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The server at one moment.

    Attributes:
        flushed: end of its log on disk (LSN).
        millis: its clock, milliseconds since 1970.
        database: database of the connection.
        confirmed: LSN up to which the slot has released the log; None if there is no slot.
        status: status of the slot's log (``reserved``, ``extended``, ``unreserved``, ``lost``).
        retained: bytes of log that the slot keeps.
        published: how many of our tables are in the publication.
        keep: the server's limit for the log that a slot keeps (``4GB``); ``-1``: no limit.
    """

    flushed: int
    millis: int
    database: str
    confirmed: int | None
    status: str = ""
    retained: int = 0
    published: int = 0
    keep: str = ""


@dataclass(frozen=True, slots=True)
class Exported:
    """A snapshot of the database, usable while ``session`` is open. It contains every transaction whose commit record
    begins before ``lsn``."""

    lsn: int
    name: str
    session: Any


class Server:
    """One reader's connection. Every method raises conditions of the store (STORE_UNREACHABLE, STORE_LOGIN_REFUSED,
    STORE_PERMISSION_DENIED) besides its own."""

    def __init__(self, options: CdcOptions) -> None:
        self.options = options
        self._address = options.address
        self._connection: Any = None
        self._version = 0

    # -- preconditions -------------------------------------------------------------------------------------------------

    def check(self) -> tuple[SourceTable, ...]:
        """The tables, if their changes can be read.

        Raises:
            UserError: CDC_SERVER_TOO_OLD, CDC_WAL_LEVEL, CDC_NOT_ALLOWED, and the conditions of ``source_tables``.
        """

        def ask(cursor: Any) -> tuple[SourceTable, ...]:
            cursor.execute(FACTS_QUERY)
            version, level, may_replicate, database, user = cursor.fetchone()
            place = {"store": self.options.store, "database": database}
            if version < LEAST_VERSION:
                raise error("CDC_SERVER_TOO_OLD", version=version // 10_000, **place)
            if level != "logical":
                raise error("CDC_WAL_LEVEL", level=level, **place)
            if not may_replicate:
                raise error("CDC_NOT_ALLOWED", user=user, **place)
            self._version = version
            return source_tables(cursor, self.options.tables, self.options.shape)

        return self._ask(ask, "look at its tables")

    def ensure_publication(self) -> None:
        """Create the publication with the slot's name if it is missing, and add missing tables to it."""
        from psycopg2 import sql

        slot, wanted = self.options.slot, self.options.tables

        def ask(cursor: Any) -> None:
            cursor.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (slot,))
            exists = cursor.fetchone() is not None
            cursor.execute(PUBLISHED_QUERY, (slot,))
            published = set(cursor.fetchall())
            missing = [table for table in wanted if table not in published]
            listed = sql.SQL(", ").join(sql.Identifier(*table) for table in missing)
            name = sql.Identifier(slot)
            if not exists:
                cursor.execute(sql.SQL(CREATE_PUBLICATION).format(name=name, tables=listed))
            elif missing:
                cursor.execute(sql.SQL("ALTER PUBLICATION {name} ADD TABLE {tables}").format(name=name, tables=listed))

        shown = ", ".join(".".join(table) for table in wanted)
        self._ask(ask, f"make the publication {slot} over {shown}")

    def ensure_slot(self) -> ServerState:
        """Create the slot if it is missing. Returns the state of the server.

        Raises:
            UserError: CDC_SLOT_FOREIGN, CDC_SLOT_LOST, CDC_NO_SLOT_FREE.
        """
        look = self.look()
        if look.confirmed is not None or look.status:
            return look
        slot = self.options.slot

        def ask(cursor: Any) -> None:
            cursor.execute("SELECT pg_create_logical_replication_slot(%s, %s)", (slot, PLUGIN))

        self._ask(ask, f"make the replication slot {slot}")
        return self.look()

    # -- positions -----------------------------------------------------------------------------------------------------

    def look(self) -> ServerState:
        """The positions of the log and of the slot.

        Raises:
            UserError: CDC_SLOT_FOREIGN, CDC_SLOT_LOST.
        """

        def ask(cursor: Any) -> tuple[Any, ...]:
            cursor.execute(LOOK_QUERY, {"slot": self.options.slot, "tables": self.options.tables})
            return tuple(cursor.fetchone())

        row = self._ask(ask, "look at its log")
        flushed, millis, plugin, owner, status, confirmed, retained, published, database, keep = row
        slot, store = self.options.slot, self.options.store
        if plugin is not None and (plugin != PLUGIN or owner != database):
            raise error("CDC_SLOT_FOREIGN", slot=slot, store=store, plugin=plugin, database=owner)
        if status == "lost":
            raise error("CDC_SLOT_LOST", slot=slot, store=store)
        position = None if confirmed is None else lsn_number(confirmed)
        log = (status or "", int(retained or 0), int(published), str(keep))
        return ServerState(lsn_number(flushed), int(millis), database, position, *log)

    def look_from(self, start: int) -> ServerState:
        """Like :meth:`look`; checks that the slot still has everything after a position.

        Raises:
            UserError: CDC_SLOT_MISSING, CDC_SLOT_AHEAD; CDC_PUBLICATION_MISSING, since newer servers silently drop the
                changes of a publication that does not exist.
        """
        look = self.look()
        slot, store = self.options.slot, self.options.store
        if look.confirmed is None:
            raise error("CDC_SLOT_MISSING", slot=slot, store=store)
        if look.confirmed > start:
            raise error("CDC_SLOT_AHEAD", slot=slot, store=store, at=lsn_text(look.confirmed), read=lsn_text(start))
        if look.published < len(self.options.tables):
            raise error("CDC_PUBLICATION_MISSING", slot=slot, store=store)
        return look

    def first_commit(self, upto: int) -> int | None:
        """End (LSN) of our tables' first transaction that is committed before a position and not released, or None."""
        values = {"slot": self.options.slot, "upto": lsn_text(upto), "publication": self._publication}

        def ask(cursor: Any) -> int | None:
            cursor.execute(PEEK_ONE, values)
            (value,) = cursor.fetchone()
            return None if value is None else lsn_number(value)

        return self._ask(ask, "look for changes")

    def advance(self, lsn: int) -> None:
        """Release the log before a position. See also :meth:`mark_log`."""

        def ask(cursor: Any) -> None:
            cursor.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self.options.slot, lsn_text(lsn)))

        self._ask(ask, "advance its replication slot")

    def mark_log(self) -> None:
        """Write a record of running transactions to the log, from which decoding can begin. Without it, every look
        decodes the log of the last quarter of a minute again. Does nothing before Postgres 16, or if the user lacks the
        privilege."""

        def ask(cursor: Any) -> None:
            cursor.execute("SELECT current_setting('server_version_num')::int >= %s", (SNAPSHOT_RECORD_SINCE,))
            if not cursor.fetchone()[0]:
                return
            cursor.execute("SELECT has_function_privilege('pg_log_standby_snapshot()', 'EXECUTE')")
            if cursor.fetchone()[0]:
                cursor.execute("SELECT pg_log_standby_snapshot()")

        self._ask(ask, "mark its log")

    # -- reading -------------------------------------------------------------------------------------------------------

    def peek(self, upto: int) -> Iterator[pa.Array]:
        """Messages of the transactions that were committed before a position and are not released, in chunks of about
        16 MB."""
        from psycopg2 import sql

        values = {"slot": self.options.slot, "upto": lsn_text(upto), "publication": self._publication}
        literals = {name: sql.Literal(value) for name, value in values.items()}
        statement = self.printed(sql.SQL(PEEK).format(**literals))
        for batch in self._retried(lambda: self.select(statement)):
            yield batch.column(0)

    def row(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The first row of a query."""

        def ask(cursor: Any) -> tuple[Any, ...] | None:
            cursor.execute(query, values)
            return cast("tuple[Any, ...] | None", cursor.fetchone())

        return self._ask(ask, "look at its publication")

    def printed(self, statement: Any) -> str:
        """A composed statement as text."""
        return str(statement.as_string(self._open()))

    def select(self, statement: str, snapshot: str = "") -> Iterator[pa.RecordBatch]:
        """Rows of a query as Arrow batches; ``snapshot``: name of an exported snapshot, or empty."""
        import adbc_driver_manager

        connection = self._address.bulk()
        try:
            with connection.cursor() as cursor:
                for setting in self._settings(snapshot):
                    cursor.execute(setting)
                cursor.execute(statement)
                yield from cursor.fetch_record_batch()
        except adbc_driver_manager.Error as problem:
            raise self._failure(problem, "read") from None
        except pa.ArrowException as problem:  # the driver's error, raised by the reader of its batches
            raise self._failure(problem, "read") from None
        finally:
            with suppress(Exception):
                connection.close()

    def _settings(self, snapshot: str) -> list[str]:
        """Statements that a session executes before it reads; the snapshot comes first."""
        from psycopg2 import sql

        of_session = [sql.SQL("SET {} TO {}").format(sql.Identifier(n), sql.Literal(v)) for n, v in SESSION]
        if not snapshot:
            return [self.printed(setting) for setting in of_session]
        chosen = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot))
        isolation = sql.SQL("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return [self.printed(setting) for setting in (isolation, chosen, *of_session)]

    def export(self) -> Exported:
        """Export a snapshot of the database, with a temporary slot that is dropped with its session."""
        import psycopg2
        from psycopg2 import sql
        from psycopg2.extras import LogicalReplicationConnection

        try:
            session = psycopg2.connect(self._address.dsn(0), connection_factory=LogicalReplicationConnection)
            cursor = session.cursor()
            name = sql.Identifier(snapshot_slot(self.options.slot))
            cursor.execute(sql.SQL("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput").format(name))
            _, lsn, snapshot, _ = cursor.fetchone()
        except psycopg2.Error as problem:
            raise self._failure(problem, "take a snapshot") from None
        return Exported(lsn_number(lsn), snapshot, session)

    def close(self) -> None:
        """Close the connection; never raises."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _publication(self) -> str:
        return f'"{self.options.slot}"'

    def _open(self) -> Any:
        if self._connection is None:
            self._connection = self._address.control()
            self._connection.autocommit = True
            with self._connection.cursor() as cursor:
                for name, value in SESSION[:-1]:
                    cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
        return self._connection

    def _ask(self, step: Callable[[Any], T], action: str) -> T:
        def once() -> T:
            import psycopg2

            try:
                with self._open().cursor() as cursor:
                    return step(cursor)
            except psycopg2.Error as problem:
                failure = self._failure(problem, action)
                if _code(problem) != IN_USE:
                    self.close()
                raise failure from None

        return self._again(once)

    def _retried(self, make: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """The batches; retried while another session uses the slot. That error comes before the first batch."""

        def begin() -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]]:
            batches = make()
            first = next(batches, None)
            return ([] if first is None else [first]), batches

        first, rest = self._again(begin)
        yield from first
        yield from rest

    def _again(self, step: Callable[[], T]) -> T:
        end = time.monotonic() + SLOT_SECONDS
        while True:
            try:
                return step()
            except DsError as problem:
                if problem.condition != "CDC_SLOT_ACTIVE" or time.monotonic() >= end:
                    raise
            time.sleep(RETRY_SECONDS)

    def _failure(self, problem: Exception, action: str) -> DsError:
        """A driver's exception as a condition."""
        slot, store, text = self.options.slot, self.options.store, str(problem)
        code = _code(problem)
        for sqlstate, word, condition in FAILURES:
            if code == sqlstate and word in text:
                return error(condition, slot=slot, store=store)
        failure: DsError = self._address.failure(problem, action)
        return failure


def _code(problem: Exception) -> str:
    """The SQLSTATE of a driver's exception."""
    return str(getattr(problem, "pgcode", None) or getattr(problem, "sqlstate", None) or "")
