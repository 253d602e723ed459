"""Parts that all local servers share: a folder, a pid file, ports, a health check, a log, a way to stop.

A server is described by a :class:`ServerKind`; this module starts, finds and stops it. Its state is on disk, not in
this process: the pid file holds pid and start time, so any later process finds the server again, recognises a stale
file after a kill or a reboot, and never touches a recycled pid.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.errors import DsError, error
from ds_dagster.jars import Progress
from ds_dagster.local import ports as port_table
from ds_dagster.local.processes import ServerCommand, StopStep, end, is_alive, spawn, start_token

LOG_BYTES = 10_000_000
LOGS_KEPT = 3
HEALTH_POLL_SECONDS = 0.05
PORT_RELEASE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Home:
    """One server of one project: its folders and its ports by name."""

    state: Path
    name: str
    ports: Mapping[str, int]

    @property
    def folder(self) -> Path:
        """Folder with all files of this server."""
        return self.state / "local" / self.name

    @property
    def data(self) -> Path:
        """Folder of data that a restart keeps."""
        return self.folder / "data"

    @property
    def logs(self) -> Path:
        """Folder of log files."""
        return self.folder / "log"

    @property
    def log(self) -> Path:
        """File of the process's output."""
        return self.logs / "server.log"

    @property
    def pid_file(self) -> Path:
        """File of a :class:`PidRecord` as JSON."""
        return self.folder / "server.json"

    @property
    def port(self) -> int:
        """The port clients use."""
        return self.ports[self.name]


@dataclass(frozen=True, slots=True)
class PidRecord:
    """A started process: pid, start token (:func:`~ds_dagster.local.processes.start_token`), version of this record."""

    pid: int
    token: str
    version: int = 1

    @property
    def alive(self) -> bool:
        """Whether this process, not another with its pid, runs."""
        return is_alive(self.pid, self.token)


@dataclass(frozen=True, slots=True)
class ServerKind:
    """Description of one kind of server.

    Attributes:
        name: folder, and name of the client port.
        ports: names of all its ports, the client port first.
        prepare: installs missing programs, writes the configuration, repairs files after a kill; may be repeated.
        ailment: returns None if our server answers, else why not (yet); must return within seconds.
        start_seconds: how long a start may take.
        stop: signals, gentle first.
        attempts: starts to try when the process ends by itself at once (leftovers of a killed one may need a moment).
    """

    name: str
    ports: tuple[str, ...]
    prepare: Callable[[Home, Progress], ServerCommand]
    ailment: Callable[[Home], str | None]
    start_seconds: float = 90.0
    stop: tuple[StopStep, ...] = (StopStep(signal.SIGTERM, 20.0), StopStep(signal.SIGKILL, 5.0))
    attempts: int = 1


def read_record(home: Home) -> PidRecord | None:
    """The record in the pid file, or None. A file that cannot be read (cut off by a kill) counts as none."""
    try:
        table = port_table.read_json(home.pid_file)
        return PidRecord(int(str(table["pid"])), str(table["token"]))
    except (DsError, KeyError, ValueError):
        return None


def running(home: Home) -> PidRecord | None:
    """The record of the server if it runs now."""
    record = read_record(home)
    return record if record is not None and record.alive else None


def start_server(kind: ServerKind, home: Home, progress: Progress) -> PidRecord:
    """Make sure that the server runs and answers; does nothing if it does already.

    Raises:
        UserError: LOCAL_PORT_TAKEN, conditions of ``prepare``.
        ExternalError: LOCAL_SERVER_FAILED, LOCAL_SERVER_NOT_STOPPED.
    """
    record = running(home)
    if record is not None:
        if _wait_healthy(kind, home, record) is None:
            return record
        progress(f"{kind.name} does not answer, starting it again")
        stop_server(kind, home)
    reason = ""
    for attempt in range(kind.attempts):
        time.sleep(min(attempt, 2))
        record, reason = _start_once(kind, home, progress)
        if not reason:
            progress(f"{kind.name} runs on port {home.port} (pid {record.pid})")
            return record
        if record.alive:
            stop_server(kind, home)
            break
    home.pid_file.unlink(missing_ok=True)
    raise error("LOCAL_SERVER_FAILED", name=kind.name, reason=reason, log=str(home.logs), detail=log_tail(home))


def stop_server(kind: ServerKind, home: Home) -> bool:
    """Stop the server; True if it ran. A stale pid file is removed, a process that is not ours is not touched.

    Raises:
        ExternalError: LOCAL_SERVER_NOT_STOPPED.
    """
    record = running(home)
    if record is not None and not end(record.pid, record.token, kind.stop):
        raise error("LOCAL_SERVER_NOT_STOPPED", name=kind.name, pid=record.pid)
    home.pid_file.unlink(missing_ok=True)
    return record is not None


def log_tail(home: Home, lines: int = 12) -> str:
    """The end of the newest log files, for an error's detail."""
    logs = sorted((p for p in home.folder.glob("**/*.log") if p.is_file()), key=lambda p: p.stat().st_mtime)
    texts = [path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-lines:] for path in logs[-2:]]
    return "\n".join(line for text in texts for line in text)


def _start_once(kind: ServerKind, home: Home, progress: Progress) -> tuple[PidRecord, str]:
    """Start the process and wait for it; returns why it is not healthy, empty if it is."""
    _refuse_taken_ports(home)
    home.logs.mkdir(parents=True, exist_ok=True)
    launch = kind.prepare(home, progress)
    progress(f"starting {kind.name}")
    rotate(home.log)
    try:
        pid = spawn(launch, home.log)
    except OSError as problem:
        raise error("LOCAL_SERVER_FAILED", name=kind.name, reason=str(problem), log=str(home.logs)) from problem
    record = PidRecord(pid, start_token(pid) or "")
    table = {"version": record.version, "name": kind.name, "pid": pid, "token": record.token, "ports": dict(home.ports)}
    port_table.write_json(home.pid_file, table)
    return record, _wait_healthy(kind, home, record) or ""


def _refuse_taken_ports(home: Home) -> None:
    """Refuse ports that another process holds. A port may stay taken for a moment after its holder was killed."""
    deadline = time.monotonic() + PORT_RELEASE_SECONDS
    for port in home.ports.values():
        while not port_table.is_free(port):
            if time.monotonic() > deadline:
                file = str(port_table.ports_file(home.state))
                raise error("LOCAL_PORT_TAKEN", name=home.name, port=port, file=file)
            time.sleep(HEALTH_POLL_SECONDS)


def _wait_healthy(kind: ServerKind, home: Home, record: PidRecord) -> str | None:
    """None as soon as the server answers; why it does not if it ends or the time is over."""
    deadline = time.monotonic() + kind.start_seconds
    while True:
        if not record.alive:
            return "it ended by itself"
        reason = kind.ailment(home) if port_table.is_listening(home.port) else "its port is not open"
        if reason is None or time.monotonic() > deadline:
            return reason
        time.sleep(HEALTH_POLL_SECONDS)


def rotate(log: Path) -> None:
    """Rename a log that has become large; :data:`LOGS_KEPT` old logs are kept."""
    if not log.is_file() or log.stat().st_size < LOG_BYTES:
        return
    for number in range(LOGS_KEPT - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.is_file():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    log.replace(log.with_name(f"{log.name}.1"))
