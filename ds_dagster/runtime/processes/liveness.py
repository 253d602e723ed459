"""Does the engine live? By locks where it shares our state folder, by its beats otherwise; never by a pid alone.

A lock says that a process exists, beats say that it works. Beats are counted on the reader's monotonic clock: that a
counter did not move for so long is true whatever the wall clock does. With Postgres the server's clock says how old the
last beat is.
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
"""An engine that has not reported for so long counts as silent; its lease ends where locks cannot be seen."""

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
    """What the journal says about the engine.

    Attributes:
        row: None if it never ran.
        age: of its last beat, in seconds by the journal's clock.
        on_server: the journal is on a server, so an engine with another state folder may hold the lease.
    """

    row: EngineRow | None
    age: float
    on_server: bool = False

    def is_elsewhere(self) -> bool:
        """Whether an engine with another state folder works: on another host, or in a living process of this one. Asked
        where nobody holds the lock of this state folder."""
        row = self.row
        if not self.on_server or row is None or row.state == "GONE" or self.age >= SILENT_SECONDS:
            return False
        return row.host != socket.gethostname() or ProcessId(row.pid, row.process_started).is_alive()


@dataclass(slots=True)
class EngineWatch:
    """Judges one engine. ``shares_host``: the engine's locks are files this process can see.

    Keeps the last counter it saw, so one watch should live as long as its reader.
    """

    places: Places
    clock: Clock
    shares_host: bool
    listen: Callable[[], Heard]
    _beats: tuple[str, int] = field(default=("", -1), init=False)
    _moved: float = field(default=0.0, init=False)

    @property
    def name(self) -> str:
        """Of the engine."""
        return engine_name(self.places.pool)

    def status(self) -> EngineStatus:
        """Judge now. May take up to 2.5 s when the wall clock makes a first look doubtful."""
        heard = self.listen()
        if self.shares_host:
            return self._by_locks(heard)
        if heard.row is None or heard.row.state == "GONE" or heard.age > SILENT_SECONDS:
            return self._shown(heard.row, "GONE" if heard.row is None or heard.row.state == "GONE" else "UNKNOWN")
        return self._shown(heard.row, heard.row.state)

    def silent_for(self) -> float:
        """Seconds since its counter was last seen to move (0 before the first look)."""
        return self.clock.monotonic() - self._moved if self._moved else 0.0

    def _by_locks(self, heard: Heard) -> EngineStatus:
        if not locks.is_held(self.places.python_lock):
            if heard.row is not None and heard.is_elsewhere():
                return self._shown(heard.row, heard.row.state)
            state: EngineState = "STOPPING" if locks.is_held(self.places.jvm_lock) else "GONE"
            return replace(self._shown(heard.row, state), token="")  # this lease has no live holder any more
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
        """The wall clock says it is silent, but wall clocks jump: watch the counter for a moment."""
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
