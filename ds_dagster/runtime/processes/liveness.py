"""Does the engine live? Decided by its locks if it shares our state folder, else by its heartbeats; never by a pid
alone.

A lock shows that a process exists, heartbeats show that it works. The reader measures the time since the counter of
heartbeats last moved on its own monotonic clock, so jumps of the wall clock do not matter. With Postgres, the server's
clock gives the age of the last heartbeat.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ds_dagster.catalog.compute_pool import RESERVED
from ds_dagster.clock import Clock
from ds_dagster.runtime.journals.records import EngineRow
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.processes.process import ProcessId
from ds_dagster.runtime.status import EngineState, EngineStatus

SILENT_SECONDS = 15.0
"""An engine counts as silent after this time without a heartbeat. If its locks cannot be seen, its lease then ends."""

CONFIRM_SECONDS = 2.5
DEFAULT_ENGINE = RESERVED


def engine_name(pool: str) -> str:
    """Name of a compute pool's engine. ``pool``: empty for the project's own engine."""
    return pool or DEFAULT_ENGINE


def pool_name(engine: str) -> str:
    """The reverse of :func:`engine_name`."""
    return "" if engine == DEFAULT_ENGINE else engine


@dataclass(frozen=True, slots=True)
class Heard:
    """What the journal has about an engine.

    Attributes:
        row: the engine's lease; None if it never ran.
        age: seconds since its last heartbeat, by the journal's clock.
        on_server: the journal is on a server, so an engine with another state folder may hold the lease.
    """

    row: EngineRow | None
    age: float
    on_server: bool = False

    def is_elsewhere(self) -> bool:
        """Whether an engine with another state folder works: on another host, or in a living process on this host. Only
        meaningful if no process holds the lock of this state folder."""
        row = self.row
        if not self.on_server or row is None or row.state == "GONE" or self.age >= SILENT_SECONDS:
            return False
        return row.host != socket.gethostname() or ProcessId(row.pid, row.process_started).is_alive()


@dataclass(slots=True)
class EngineWatch:
    """Observes one engine. ``shares_host``: this process can see the engine's lock files; ``listen``: reads the
    journal.

    It keeps the last counter of heartbeats, so one watch should live as long as its reader.
    """

    places: Places
    clock: Clock
    shares_host: bool
    listen: Callable[[], Heard]
    _beats: tuple[str, int] = field(default=("", -1), init=False)
    _moved: float = field(default=0.0, init=False)

    @property
    def name(self) -> str:
        """Name of the engine."""
        return engine_name(self.places.pool)

    def status(self) -> EngineStatus:
        """The engine's present status. May take :data:`CONFIRM_SECONDS` if by the wall clock a first look finds the
        engine silent."""
        heard = self.listen()
        if self.shares_host:
            return self._by_locks(heard)
        if heard.row is None or heard.row.state == "GONE" or heard.age > SILENT_SECONDS:
            return self._shown(heard.row, "GONE" if heard.row is None or heard.row.state == "GONE" else "UNKNOWN")
        return self._shown(heard.row, heard.row.state)

    def silent_for(self) -> float:
        """Seconds since the counter of heartbeats last moved (0 before the first look)."""
        return self.clock.monotonic() - self._moved if self._moved else 0.0

    def _by_locks(self, heard: Heard) -> EngineStatus:
        if not locks.is_held(self.places.python_lock):
            if heard.row is not None and heard.is_elsewhere():
                return self._shown(heard.row, heard.row.state)
            state: EngineState = "STOPPING" if locks.is_held(self.places.jvm_lock) else "GONE"
            return replace(self._shown(heard.row, state), token="")  # the lease has no living holder
        holder = locks.holder(self.places.python_lock)
        if heard.row is None or ("token" in holder and holder["token"] != heard.row.token):
            pid = holder.get("pid")
            return EngineStatus(self.name, "STARTING", pid if isinstance(pid, int) else None, socket.gethostname())
        return self._shown(heard.row, "UNKNOWN" if self._is_silent(heard) else heard.row.state)

    def _shown(self, row: EngineRow | None, state: EngineState) -> EngineStatus:
        return EngineStatus(self.name, state) if row is None else shown(row, state)

    def _is_silent(self, heard: Heard) -> bool:
        first = self._beats[0] != self._counter(heard)[0]
        if self._has_moved(heard):
            return first and not 0.0 <= heard.age <= SILENT_SECONDS and not self._moves_soon()
        return self.silent_for() > SILENT_SECONDS

    def _moves_soon(self) -> bool:
        """Whether the counter moves within :data:`CONFIRM_SECONDS`: by the wall clock the engine is silent, but wall
        clocks jump."""
        end = self.clock.monotonic() + CONFIRM_SECONDS
        while self.clock.monotonic() < end:
            self.clock.sleep(0.25)
            if self._has_moved(self.listen()):
                return True
        self._moved = self.clock.monotonic() - SILENT_SECONDS - 1.0
        return False

    def _has_moved(self, heard: Heard) -> bool:
        counter = self._counter(heard)
        if counter == self._beats:
            return False
        self._beats, self._moved = counter, self.clock.monotonic()
        return True

    @staticmethod
    def _counter(heard: Heard) -> tuple[str, int]:
        return ("", -1) if heard.row is None else (heard.row.token, heard.row.beats)


def shown(row: EngineRow, state: EngineState) -> EngineStatus:
    """The public record of an engine."""
    return EngineStatus(
        name=row.name,
        state=state,
        pid=row.pid,
        host=row.host,
        version=row.version,
        beat=row.beat,
        started=row.started,
        condition=row.condition,
        message=row.message,
        token=row.token,
    )
