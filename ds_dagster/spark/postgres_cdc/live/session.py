"""One replication session on a temporary slot, which ends with it."""

from __future__ import annotations

import secrets
import select
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from ds_dagster.spark.postgres_cdc.position import lsn_number
from ds_dagster.spark.postgres_cdc.server import PLUGIN, SESSION

MESSAGES = 2_000
"""Most messages that are handed on at once."""
FEEDBACK_SECONDS = 0.5
"""How often the server is told that it may release the log."""
IDLE_SECONDS = 1.0


@dataclass(slots=True)
class LiveSession:
    """An open session.

    Attributes:
        publications: what it publishes.
        floor: position at which it begins.
    """

    publications: frozenset[str]
    floor: int
    _connection: Any
    _cursor: Any
    _is_closed: bool = False
    _told: float = field(default_factory=time.monotonic)

    @classmethod
    def open(cls, address: Any, publications: Collection[str]) -> LiveSession:
        """Begin a session. The server waits for the end of all transactions that are open now.

        Args:
            address: of the server (``PostgresAddress``).
            publications: names; they exist.

        Raises:
            psycopg2.Error: as the server says.
        """
        import psycopg2
        from psycopg2 import sql
        from psycopg2.extras import LogicalReplicationConnection

        connection = psycopg2.connect(address.dsn(0), connection_factory=LogicalReplicationConnection)
        with ExitStack() as undo:
            undo.callback(connection.close)
            cursor = connection.cursor()
            for name, value in SESSION:
                cursor.execute(sql.SQL("SET {} TO {}").format(sql.Identifier(name), sql.Literal(value)))
            slot = f"ds_live_{secrets.token_hex(8)}"
            create = sql.SQL("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL {} NOEXPORT_SNAPSHOT")
            cursor.execute(create.format(sql.Identifier(slot), sql.Identifier(PLUGIN)))
            floor = lsn_number(cursor.fetchone()[1])
            names = ",".join(f'"{name}"' for name in sorted(publications))
            options = {"proto_version": "1", "publication_names": names}
            cursor.start_replication(slot_name=slot, options=options, decode=False)
            undo.pop_all()
        return cls(frozenset(publications), floor, connection, cursor)

    def pump(self, take: Callable[[list[bytes], int], None]) -> None:
        """Hand on messages, and the position before which everything is sent, until the session is closed.

        Raises:
            psycopg2.Error: the session has ended.
        """
        while not self._is_closed:
            messages = self._received()
            take(messages, self._cursor.wal_end)
            self._confirm(self._cursor.wal_end)
            if not messages:
                select.select([self._connection], [], [], IDLE_SECONDS)

    def close(self) -> None:
        """End the session; the loop of :meth:`pump` ends within a second."""
        self._is_closed = True

    def release(self) -> None:
        """Close the connection, after :meth:`pump`; never raises."""
        with suppress(Exception):
            self._connection.close()

    def _received(self) -> list[bytes]:
        messages: list[bytes] = []
        while len(messages) < MESSAGES and (message := self._cursor.read_message()) is not None:
            messages.append(message.payload)
        return messages

    def _confirm(self, lsn: int) -> None:
        now = time.monotonic()
        if lsn and now - self._told >= FEEDBACK_SECONDS:
            self._told = now
            self._cursor.send_feedback(write_lsn=lsn, flush_lsn=lsn, apply_lsn=lsn, force=True)
