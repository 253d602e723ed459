"""What the processes of an engine send each other through the hub's socket, which only their user can open.

A connection begins with one pickled request. After :class:`Membership` the hub answers with the name of the membership,
then sends a :class:`Standing` whenever it changes; the query sends the positions that its checkpoint has committed.
After :class:`Fetch` the hub answers with lists of changes, then None; or with False if it does not have them all.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ds_dagster.spark.postgres_cdc.pgoutput import Changes

FETCH_SECONDS = 10.0
"""Without an answer for so long a task reads its query's own slot."""
BROKEN = (OSError, EOFError, struct.error, pickle.UnpicklingError)
"""What :func:`send` and :func:`receive` raise if the connection ends, also in the middle of a message."""
_LENGTH = struct.Struct(">Q")
_STANDING = struct.Struct(">QQQQd")


@dataclass(frozen=True, slots=True)
class Membership:
    """A query joins.

    Attributes:
        connector, store, settings: of the connection, see ``CdcOptions``; secrets.
        slot: name of its slot and publication.
        oids: tables of its publication.
    """

    connector: str
    store: str
    settings: Mapping[str, str]
    slot: str
    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """A task asks for the changes of a membership whose commit records begin in ``[start, end)``."""

    member: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What the session has for a query.

    Attributes:
        since: position from which on it has all transactions of the query's tables.
        head: position up to which it has received all transactions.
        last: end of the last transaction of the query's tables.
        complete_until: everything committed before this time (epoch ms) is before ``head``; 0: unknown.
        as_of: when that time was read, by the machine's monotonic clock in seconds.
    """

    since: int
    head: int
    last: int
    complete_until: int
    as_of: float

    def packed(self) -> bytes:
        """The form on the wire."""
        return _STANDING.pack(self.since, self.head, self.last, self.complete_until, self.as_of)

    @classmethod
    def newest(cls, frames: bytes) -> tuple[Standing | None, bytes]:
        """The last complete one of several, and the incomplete rest."""
        whole = len(frames) // _STANDING.size * _STANDING.size
        if not whole:
            return None, frames
        return cls(*_STANDING.unpack_from(frames, whole - _STANDING.size)), frames[whole:]


def send(connection: socket.socket, message: object) -> None:
    """Send one message. Raises :data:`BROKEN`."""
    data = pickle.dumps(message, protocol=5)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket) -> Any:
    """The next message. Raises :data:`BROKEN`."""
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return pickle.loads(_exactly(connection, length))


def fetch(address: str, request: Fetch) -> list[list[Changes]] | None:
    """The changes of a range, by chunk; None if the hub does not have them or does not answer."""
    changes: list[list[Changes]] = []
    try:
        with connected(address) as connection:
            connection.settimeout(FETCH_SECONDS)
            send(connection, request)
            while (part := receive(connection)) is not None:
                if part is False:
                    return None
                changes.append(part)
    except BROKEN:
        return None
    return changes


def connected(address: str) -> socket.socket:
    """A connection to the hub. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def _exactly(connection: socket.socket, length: int) -> memoryview:
    """So many bytes; fewer if the connection ends."""
    view, at = memoryview(bytearray(length)), 0
    while at < length and (count := connection.recv_into(view[at:])):
        at += count
    return view[:at]
