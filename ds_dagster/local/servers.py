"""All local servers of a project together: start, stop, look.

Each call takes the state folder of a project; everything else is on disk. ``up`` starts the servers in parallel, does
nothing to running ones, recovers killed ones, and writes the overlay (:mod:`ds_dagster.local.overlay`).
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ds_dagster.errors import error
from ds_dagster.jars import Progress, silent
from ds_dagster.local import kafka, kinesis, postgres, snowflake
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.local.overlay import write_overlay
from ds_dagster.local.ports import HOST, assign_ports, is_listening, remembered_ports
from ds_dagster.local.server import Home, ServerKind, running, start_server, stop_server

KINDS: Mapping[str, ServerKind] = {kind.name: kind for kind in (kafka.SERVER, kinesis.SERVER, postgres.SERVER)}
"""Local servers that ``ds up`` starts, by name, in the order in which they are shown."""
ON_DEMAND: Mapping[str, ServerKind] = {snowflake.SERVER.name: snowflake.SERVER}
"""Servers that start only when they are named: few projects need them."""

BUSY_SECONDS = 600.0
LOCK_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """State of one server.

    Attributes:
        name: kafka, kinesis, postgres or snowflake.
        state: ``running`` (answers), ``ailing`` (its process runs but does not answer), ``stopped``.
        pid: of its process, None when stopped.
        port: its client port, None when none was chosen yet.
        reason: why it is ailing, or that another process has its port; else empty.
        log: folder of its logs.
    """

    name: str
    state: Literal["running", "ailing", "stopped"]
    pid: int | None
    port: int | None
    reason: str
    log: Path


def up(state: Path, *, only: Sequence[str] | None = None, progress: Progress | None = None) -> LocalAddresses:
    """Make sure that the servers run, and write the overlay.

    Args:
        state: the project's state folder; made when missing.
        only: names of :data:`KINDS` or :data:`ON_DEMAND`; all of the former when None.
        progress: receives a line per step; may be called from several threads.

    Returns:
        The addresses of all servers the project has, those of earlier calls included.

    Raises:
        UserError: LOCAL_SERVER_UNKNOWN, LOCAL_PORT_TAKEN, JAVA_MISSING, NODE_MISSING, …
        ExternalError: LOCAL_SERVER_FAILED, LOCAL_STATE_BUSY, JARS_FETCH_FAILED, …
    """
    state = state.resolve()
    kinds = _kinds(only)
    state.mkdir(parents=True, exist_ok=True)
    with _exclusive(state), ThreadPoolExecutor(len(kinds)) as pool:
        homes = {kind.name: Home(state, kind.name, assign_ports(state, kind.ports)) for kind in kinds}
        started = [pool.submit(start_server, kind, homes[kind.name], progress or silent) for kind in kinds]
        failures = [failure for failure in (future.exception() for future in started) if failure is not None]
        for failure in failures[1:]:
            (progress or silent)(str(failure))
        servers = addresses(state)
        write_overlay(state, servers)
        if failures:
            raise failures[0]
    return servers


def down(state: Path, *, only: Sequence[str] | None = None) -> tuple[str, ...]:
    """Stop the servers; their data, ports and the overlay stay. Returns the names of the servers that ran.

    Raises:
        UserError: LOCAL_SERVER_UNKNOWN.
        ExternalError: LOCAL_SERVER_NOT_STOPPED, LOCAL_STATE_BUSY.
    """
    state = state.resolve()
    if not (state / "local").is_dir():
        return ()
    kinds = _kinds(only or [*KINDS, *ON_DEMAND])
    with _exclusive(state), ThreadPoolExecutor(len(kinds)) as pool:
        stopped = {kind.name: pool.submit(stop_server, kind, _home(state, kind)) for kind in kinds}
        return tuple(name for name, future in stopped.items() if future.result())


def status(state: Path) -> tuple[ServerStatus, ...]:
    """State of each server, by asking it; changes nothing."""
    state = state.resolve()
    kinds = [kind for name, kind in ON_DEMAND.items() if (state / "local" / name).is_dir()]
    return tuple(_status(kind, _home(state, kind)) for kind in (*KINDS.values(), *kinds))


def addresses(state: Path) -> LocalAddresses:
    """The addresses of the servers this project has started at least once, running or not."""
    state = state.resolve()
    ports = {name: port for name, port in remembered_ports(state).items() if (state / "local" / name).is_dir()}
    has_postgres = "postgres" in ports
    return LocalAddresses(
        kafka=f"{HOST}:{ports['kafka']}" if "kafka" in ports else "",
        kinesis=f"http://{HOST}:{ports['kinesis']}" if "kinesis" in ports else "",
        postgres=f"postgresql://{HOST}:{ports['postgres']}/{postgres.DATABASE}" if has_postgres else "",
        postgres_user=postgres.USER if has_postgres else "",
        postgres_password_file=str(postgres.password_file(state)) if has_postgres else "",
        snowflake=f"http://{HOST}:{ports['snowflake']}" if "snowflake" in ports else "",
    )


def postgres_password(state: Path) -> str:
    """The password of the project's local Postgres, for clients; never print it.

    Raises:
        UserError: LOCAL_STATE_UNREADABLE.
    """
    file = postgres.password_file(state.resolve())
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise error("LOCAL_STATE_UNREADABLE", file=str(file), reason=str(problem)) from problem


def _kinds(only: Sequence[str] | None) -> tuple[ServerKind, ...]:
    kinds = {**KINDS, **ON_DEMAND}
    for name in only or ():
        if name not in kinds:
            raise error("LOCAL_SERVER_UNKNOWN", name=name, known=list(kinds))
    return tuple(kinds[name] for name in kinds if name in (only or KINDS))


def _home(state: Path, kind: ServerKind) -> Home:
    ports = remembered_ports(state)
    return Home(state, kind.name, {name: ports[name] for name in kind.ports if name in ports})


def _status(kind: ServerKind, home: Home) -> ServerStatus:
    record, port = running(home), home.ports.get(kind.name)
    if record is None:
        reason = f"another process listens on port {port}" if port and is_listening(port) else ""
        return ServerStatus(kind.name, "stopped", None, port, reason, home.logs)
    reason = kind.ailment(home) or ""
    return ServerStatus(kind.name, "ailing" if reason else "running", record.pid, port, reason, home.logs)


@contextmanager
def _exclusive(state: Path) -> Iterator[None]:
    """One ``up`` or ``down`` at a time; the lock dies with its holder and is not inherited by the servers."""
    path = state / "local" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + BUSY_SECONDS
    with path.open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as problem:
                if time.monotonic() > deadline:
                    raise error("LOCAL_STATE_BUSY", folder=str(path.parent), seconds=int(BUSY_SECONDS)) from problem
                time.sleep(LOCK_POLL_SECONDS)
        yield
