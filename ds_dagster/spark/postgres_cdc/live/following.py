"""A query's side of the session, in the process that plans its batches: whether the session has what it needs."""

from __future__ import annotations

import hashlib
import json
import select
import socket
import time
from dataclasses import dataclass, field

from ds_dagster.spark.planner import companions
from ds_dagster.spark.postgres_cdc.live.wire import BROKEN, Membership, Standing, connected, receive, send
from ds_dagster.spark.postgres_cdc.options import CdcOptions
from ds_dagster.spark.postgres_cdc.position import has_reached
from ds_dagster.spark.postgres_cdc.server import Server

HUB = "ds_dagster.spark.postgres_cdc.live.hub"
JOIN_SECONDS = 2.0
"""How long joining may take."""
LAG_SECONDS = 5.0
"""A session that has not sent what was in the log so long ago is left."""
AGAIN_SECONDS, LONGEST_PAUSE = 10.0, 600.0
"""Pause before a query joins again; twice as long after each hub in turn that did not answer, up to a limit."""
_RECEIVE = 65_536
PUBLICATION_QUERY = """
    SELECT to_jsonb(p), (SELECT count(*) FROM pg_publication_tables t WHERE t.pubname = p.pubname),
        (SELECT jsonb_agg(to_jsonb(r) || jsonb_build_object('partition', c.relispartition) ORDER BY r.prrelid)
            FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid WHERE r.prpubid = p.oid)
    FROM pg_publication p WHERE p.pubname = %s
"""
WHOLE = ("pubinsert", "pubupdate", "pubdelete", "pubtruncate", "pubviaroot")
"""A publication has to publish all of this to be shared, as those that queries make do."""
NARROW = ("prqual", "prattrs")
"""Row filters and column lists: with several publications of a table, the server sends what any of them has."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication, as far as it matters to a session.

    Attributes:
        text: its definition; two are equal if it has not changed.
        oids: its tables; empty: it cannot be shared.
    """

    text: str
    oids: tuple[int, ...] = ()

    @classmethod
    def of(cls, server: Server) -> Publication:
        """The current one of a query."""
        row = server.row(PUBLICATION_QUERY, (server.options.slot,))
        if row is None:
            return cls("")
        facts, count, tables = row[0], row[1], row[2] or []
        text = json.dumps(row, sort_keys=True)
        is_whole = all(facts.get(name) for name in WHOLE) and facts.get("pubgencols", "n") == "n"
        is_plain = not any(table.get(name) for table in tables for name in (*NARROW, "partition"))
        if not (is_whole and is_plain and count == len(tables) == len(server.options.tables)):
            return cls(text)
        return cls(text, tuple(int(table["prrelid"]) for table in tables))


@dataclass(slots=True)
class Following:
    """The membership of one query.

    Attributes:
        options: of the query.
        address: path of the hub's socket; empty: the query is not a member.
        member: name of the membership.
    """

    options: CdcOptions
    address: str = ""
    member: str = ""
    _publication: Publication = field(default_factory=lambda: Publication(""))
    _connection: socket.socket | None = None
    _standing: Standing | None = None
    _rest: bytes = b""
    _committed: int = 0
    _again_at: float = 0.0
    _failures: int = 0
    _flushed: int = 0
    _flushed_at: float = 0.0

    def join(self, server: Server) -> None:
        """Become a member, if the query is none and may be one."""
        is_possible = self.options.is_live and companions.is_possible()
        if self.member or not is_possible or time.monotonic() < self._again_at:
            return
        self._again_at = time.monotonic() + min(LONGEST_PAUSE, AGAIN_SECONDS * 2**self._failures)
        publication = Publication.of(server)
        if not publication.oids:
            return
        address = companions.companion(HUB, _key(self.options))
        if address is None:
            return
        options = self.options
        request = Membership(options.connector, options.store, dict(options.settings), options.slot, publication.oids)
        try:
            connection = connected(address)
            self._connection = connection
            connection.settimeout(JOIN_SECONDS)
            send(connection, request)
            self.member = receive(connection)
            connection.setblocking(False)
        except BROKEN:
            self._failures += 1
            self.leave()
            return
        self._failures = 0
        self.address, self._publication = address, publication

    def leave(self) -> None:
        """End the membership."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._standing, self._rest = None, None, b""
        self.address = self.member = ""
        self._committed = self._flushed = 0

    def is_unchanged(self, server: Server) -> bool:
        """Whether the publication is the one that the query joined with."""
        return Publication.of(server) == self._publication

    def keeps_up(self, head: int, flushed: int) -> bool:
        """Whether the session, at a position, has had time enough to send what it has not sent.

        Args:
            head: position of the session.
            flushed: end of the log now.
        """
        now = time.monotonic()
        if has_reached(head, self._flushed):
            self._flushed, self._flushed_at = flushed, now
        return now - self._flushed_at < LAG_SECONDS

    def standing(self, committed: int, clear: int) -> Standing | None:
        """What the session has, if it has everything after a position.

        Args:
            committed: position of the checkpoint, reported to the hub.
            clear: the position; between ``committed`` and it nothing has changed.
        """
        self._receive()
        if self._connection is None:
            return None
        if committed > self._committed:
            self._committed = committed
            try:
                send(self._connection, committed)
            except OSError:
                self.leave()
                return None
        standing = self._standing
        return standing if standing is not None and standing.since <= clear else None

    def wait(self, seconds: float, look: float) -> None:
        """Wait for news of the session; a query that reads its own slot waits for its next look.

        Args:
            seconds: the longest wait.
            look: seconds until the next look at the slot; may be over.
        """
        if self._connection is None:
            time.sleep(max(0.0, min(seconds, look)))
        else:
            select.select([self._connection], [], [], seconds)

    def reached(self, flushed: int, seconds: float) -> Standing | None:
        """What the session has when it has sent everything before the end of the log; None if it does not in time."""
        end = time.monotonic() + seconds
        while self._standing is not None and not has_reached(self._standing.head, flushed):
            left = end - time.monotonic()
            if self._connection is None or left <= 0:
                return None
            select.select([self._connection], [], [], left)
            self._receive()
        return self._standing

    def _receive(self) -> None:
        while self._connection is not None:
            try:
                frames = self._connection.recv(_RECEIVE)
            except BlockingIOError:
                return
            except OSError:
                frames = b""
            if not frames:
                self.leave()
                return
            standing, self._rest = Standing.newest(self._rest + frames)
            self._standing = standing or self._standing


def _key(options: CdcOptions) -> str:
    """A name for a server, database and role."""
    text = json.dumps([options.connector, sorted(options.settings.items())])
    return f"live-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
