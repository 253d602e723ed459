"""The right to act on a journal: one row per engine; its token changes with every holder."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from ds_dagster.clock import Clock
from ds_dagster.errors import error
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.journals.records import EngineRow
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.liveness import SILENT_SECONDS, Heard, engine_name, pool_name
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.processes.process import ProcessId
from ds_dagster.runtime.status import EngineState
from ds_dagster.version import __version__


@dataclass(slots=True)
class Lease:
    """The lease of one engine. ``row``: written by the next :meth:`renew`; ``pool``: of the engine."""

    clock: Clock
    row: EngineRow
    pool: str = ""

    @classmethod
    def new(cls, clock: Clock, pool: str = "") -> Lease:
        """A lease for this process; nothing is written yet. ``pool``: of the engine; empty for the project's own."""
        process, now = ProcessId.current(), clock.now()
        row = EngineRow(
            name=engine_name(pool),
            token=uuid.uuid4().hex,
            state="STARTING",
            pid=process.pid,
            process_started=process.started,
            host=socket.gethostname(),
            version=__version__,
            started=now,
            beat=now,
        )
        return cls(clock, row, pool)

    def take(self, journal: Journal) -> None:
        """Become the holder. The caller holds the lock, so no other engine lives in this state folder; with a journal
        on a server, an engine elsewhere may live and hold the lease.

        Raises:
            UserError: ENGINE_LEASE_HELD.
        """
        with journal.write() as connection:
            self._check_free(connection)
            rows.take_lease(connection, self.row)

    def check_free(self, journal: Journal) -> None:
        """Refuse if :meth:`take` would refuse; also reads journals of older versions.

        Raises:
            UserError: ENGINE_LEASE_HELD.
        """
        with journal.read() as connection:
            self._check_free(connection)

    def is_over(self, heard: Heard, places: Places) -> bool:
        """Whether another engine of the project has ended, with its JVM: by its locks if it shares our state folder,
        else by its heartbeats. ``places``: of that engine."""
        if heard.is_elsewhere():
            return False
        if heard.on_server and heard.row is not None and heard.row.host != self.row.host:
            return True
        return not locks.is_held(places.python_lock) and not locks.is_held(places.jvm_lock)

    def has_neighbour(self, journal: Journal, places: Places) -> bool:
        """Whether another engine of the project lives. ``places``: of this one."""
        with journal.read() as connection:
            names = [name for name in rows.engine_names(connection) if name != self.row.name]
            heard = {name: rows.heard(connection, name, self.clock.now()) for name in names}
        return not all(self.is_over(heard[name], replace(places, pool=pool_name(name))) for name in names)

    def ended(self, connection: Connection, places: Places, pools: Iterable[str]) -> Mapping[str, EngineRow]:
        """Engines of these pools that have ended: pool → row of its lease. ``places``: of this engine."""
        gone: dict[str, EngineRow] = {}
        for pool in pools:
            heard = rows.heard(connection, engine_name(pool), self.clock.now())
            if heard.row is not None and self.is_over(heard, replace(places, pool=pool)):
                gone[pool] = heard.row
        return gone

    def _check_free(self, connection: Connection) -> None:
        heard = rows.heard(connection, self.row.name, self.clock.now())
        other = heard.row
        if other is not None and heard.is_elsewhere():
            raise error("ENGINE_LEASE_HELD", host=other.host, pid=other.pid, seconds=int(SILENT_SECONDS))

    def renew(self, connection: Connection) -> None:
        """Renew the lease inside the transaction of a tick, so that an engine without the lease writes nothing.

        Raises:
            ExternalError: ENGINE_LEASE_LOST.
        """
        row = replace(self.row, beats=self.row.beats + 1, beat=self.clock.now())
        if not rows.beat(connection, row):
            raise error("ENGINE_LEASE_LOST")
        self.row = row

    def tell(self, state: EngineState, condition: str = "", message: str = "") -> None:
        """Set the engine's state for the next :meth:`renew`."""
        self.row = replace(self.row, state=state, condition=condition, message=message)
