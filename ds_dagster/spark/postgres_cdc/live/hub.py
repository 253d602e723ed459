"""The process that holds the session of one database, for all queries of an engine over it.

``serve`` is called in a fork of the planner. It ends when no query has been a member for a while, or when the engine
ends.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ds_dagster.spark.postgres_cdc.live.buffer import Buffer
from ds_dagster.spark.postgres_cdc.live.selection import changes_of
from ds_dagster.spark.postgres_cdc.live.session import LiveSession
from ds_dagster.spark.postgres_cdc.live.wire import BROKEN, Fetch, Membership, Standing, receive, send
from ds_dagster.spark.postgres_cdc.options import address_of
from ds_dagster.spark.postgres_cdc.position import has_reached, lsn_number

_LOG = logging.getLogger(__name__)
TICK_SECONDS = 0.1
"""How often the server's clock is read, and the queries are told about it."""
GATHER_SECONDS = 0.3
"""A session begins when no query has joined for so long: an engine starts its queries together."""
SHRINK_SECONDS = 60.0
"""After so long a session is replaced that publishes tables of queries that have left."""
HANDOVER_SECONDS = 5.0
"""How long the former session may take to reach the beginning of the next one. After that the buffer is emptied, and
queries read their own slots up to there."""
RETRY_SECONDS = (1.0, 30.0)
"""Pause after a session that failed, and its limit."""
EMPTY_SECONDS = 10.0
CALL_MILLIS = 5_000
CLOCK_QUERY = "SELECT pg_current_wal_flush_lsn()::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


def serve(listener: socket.socket, lifeline: int) -> None:
    """Serve until the engine ends (end of file at the descriptor ``lifeline``), or nobody is a member any more."""
    hub = Hub()
    threading.Thread(target=hub.keep, daemon=True).start()
    try:
        _accept(hub, listener, lifeline)
    finally:
        hub.close()


def _accept(hub: Hub, listener: socket.socket, lifeline: int) -> None:
    emptied = time.monotonic()
    while True:
        ready, _, _ = select.select([listener.fileno(), lifeline], [], [], 1.0)
        if lifeline in ready:
            return
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            threading.Thread(target=hub.answer, args=(connection,), daemon=True).start()
            emptied = time.monotonic()
        if hub.followers:
            emptied = time.monotonic()
        elif time.monotonic() - emptied >= EMPTY_SECONDS:
            return


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The end of the server's log, its time (epoch ms; 0: unknown), and when it was read (monotonic clock)."""

    flushed: int
    millis: int
    as_of: float


NO_CLOCK = ServerClock(0, 0, 0.0)


@dataclass(slots=True)
class _Follower:
    """The connection of a member; ``rest``: bytes of a standing that the socket has not taken yet."""

    connection: socket.socket
    told: Standing | None = None
    rest: bytes = b""

    def tell(self, standing: Standing) -> None:
        """Send a standing if it is new; never waits for a slow query."""
        if standing == self.told and not self.rest:
            return
        with suppress(OSError):
            if not self.rest:
                self.rest, self.told = standing.packed(), standing
            self.rest = self.rest[self.connection.send(self.rest, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]


@dataclass(slots=True)
class Hub:
    """The queries, their session and its buffer. One lock guards all of it."""

    buffer: Buffer = field(default_factory=Buffer)
    followers: dict[str, _Follower] = field(default_factory=dict)
    _address: Any = None
    _session: LiveSession | None = None
    _opening: threading.Thread | None = None
    _changed: float = 0.0
    _begun: float = 0.0
    _retry_at: float = 0.0
    _failures: int = 0
    _clock: ServerClock = NO_CLOCK
    _complete_until: ServerClock = NO_CLOCK
    _closed: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Condition = field(default_factory=threading.Condition)

    # -- queries -------------------------------------------------------------------------------------------------------

    def answer(self, connection: socket.socket) -> None:
        """Answer the request of one connection."""
        with suppress(*BROKEN), connection:
            request = receive(connection)
            if isinstance(request, Fetch):
                self._give(connection, request)
            elif isinstance(request, Membership):
                self._follow(connection, request)

    def _give(self, connection: socket.socket, request: Fetch) -> None:
        with self._lock:
            chunks = self.buffer.chunks(request.member, request.start, request.end)
            member = self.buffer.members.get(request.member)
        if chunks is None or member is None:
            send(connection, False)
            return
        for chunk in chunks:
            send(connection, changes_of(chunk.changes(), member.oids, request.start, request.end))
        send(connection, None)

    def _follow(self, connection: socket.socket, request: Membership) -> None:
        name = uuid.uuid4().hex
        with self._lock:
            self._address = self._address or address_of(request.connector, request.store, request.settings)
            self.buffer.join(name, request.slot, request.oids)
            self._changed = time.monotonic()
        try:
            send(connection, name)
            with self._lock:
                self.followers[name] = _Follower(connection)
                self._tell()
            while True:
                lsn = receive(connection)
                with self._lock:
                    self.buffer.commit(name, lsn)
        finally:
            with self._lock:
                self.followers.pop(name, None)
                self.buffer.leave(name)

    def _tell(self) -> None:
        if has_reached(self.buffer.head, self._clock.flushed):
            self._complete_until = self._clock
        clock = self._complete_until
        for name, follower in self.followers.items():
            member = self.buffer.members[name]
            follower.tell(Standing(member.since, self.buffer.head, member.last, clock.millis, clock.as_of))

    # -- the session ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session."""
        self._closed.set()
        with self._lock:
            if self._session is not None:
                self._session.close()

    def keep(self) -> None:
        """Begin sessions as queries need them, and read the server's clock, until the hub is closed."""
        connection: Any = None
        while not self._closed.wait(TICK_SECONDS):
            if self._needs_session():
                self._opening = threading.Thread(target=self._run, daemon=True)
                self._opening.start()
            if self._session is not None:
                connection = self._read_clock(connection)
            with self._lock:
                self._tell()
        if connection is not None:
            connection.close()

    def _needs_session(self) -> bool:
        now = time.monotonic()
        if self._opening is not None or now < self._retry_at or now - self._changed < GATHER_SECONDS:
            return False
        with self._lock:
            wanted, held = self._wanted(), self.buffer.publications
        is_too_wide = bool(wanted) and wanted < held and now - self._begun >= SHRINK_SECONDS
        return not wanted <= held or is_too_wide

    def _wanted(self) -> frozenset[str]:
        return frozenset(member.slot for member in self.buffer.members.values())

    def _run(self) -> None:
        """Begin a session and read it to its end; the former one goes on until its place is taken."""
        import psycopg2

        session = None
        try:
            with self._lock:
                wanted = self._wanted()
            session = LiveSession.open(self._address, wanted)
            self._take_over(session)
            session.pump(partial(self._take, session))
        except psycopg2.Error as problem:
            self._ended(session, problem)
        finally:
            if session is not None:
                session.release()

    def _take_over(self, session: LiveSession) -> None:
        """A session takes the place of the former one, once that has sent everything before the new one begins."""

        def has_all() -> bool:
            return self._session is not None and self.buffer.head >= session.floor

        with self._lock:
            self._lock.wait_for(lambda: self._session is None or has_all(), HANDOVER_SECONDS)
            if has_all():
                self.buffer.go_on(session.publications)
            else:
                self.buffer.begin(session.floor, session.publications)
                self._clock = NO_CLOCK
            if self._session is not None:
                self._session.close()
            self._session, self._begun, self._failures = session, time.monotonic(), 0
            self._opening = None

    def _take(self, session: LiveSession, messages: list[bytes], lsn: int) -> None:
        with self._lock:
            if session is not self._session:
                return
            is_complete = self.buffer.take(messages)
            self.buffer.reach(lsn)
            self._lock.notify_all()
            if is_complete:
                self._tell()

    def _ended(self, session: LiveSession | None, problem: Exception) -> None:
        with self._lock:
            is_current = session is self._session
            if session is None:
                self._opening = None
            if session is None or is_current:
                pause = min(RETRY_SECONDS[1], RETRY_SECONDS[0] * 2**self._failures)
                if not self._failures:
                    _LOG.warning("queries read their own slots: %s", self._address.failure(problem, "read its log"))
                self._failures, self._retry_at = self._failures + 1, time.monotonic() + pause
            if is_current:
                self._session = None
                self._lock.notify_all()
                self.buffer.end()
                self._tell()

    def _read_clock(self, connection: Any) -> Any:
        """Read the end of the log, and the time. Returns the connection, None if it failed."""
        import psycopg2

        from ds_dagster.errors import DsError

        try:
            as_of = time.monotonic()
            if connection is None:
                connection = self._address.control(CALL_MILLIS)
                connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(CLOCK_QUERY)
                flushed, millis = cursor.fetchone()
        except (psycopg2.Error, DsError):  # the session fails by itself if the server is gone
            if connection is not None:
                connection.close()
            return None
        with self._lock:
            if has_reached(self.buffer.head, self._clock.flushed):
                self._complete_until = self._clock
                self._clock = ServerClock(lsn_number(flushed), int(millis), as_of)
        return connection
