"""Companions: forks of the planner that serve other forks, one for each key, such as one for each database.

A companion gets a listening socket in the planner's folder and ends by itself. Only forks of a planner have one: a
source that Spark planned in a process of its own works alone.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from ds_dagster.spark.planner.hand_over import COMPANION, SOCKET_FILE, hand_over

BACKLOG = 256


@dataclass(slots=True)
class Place:
    """The planner's folder; None in a process that is no fork of a planner."""

    folder: Path | None = None


PLACE = Place()
"""Of this process. Set by the planner's server; forks inherit it."""


def is_possible() -> bool:
    """Whether this process can have companions."""
    return PLACE.folder is not None


def companion(module: str, key: str) -> str | None:
    """Path of the socket of a companion, which is started if it does not run; None if there can be none.

    Args:
        module: has a function ``serve(listener, lifeline)``; ``lifeline`` is a descriptor that ends with the engine.
        key: name of the socket; it contains no secrets.
    """
    if PLACE.folder is None:
        return None
    path = PLACE.folder / key
    request = {COMPANION.encode(): f"{module}\n{key}".encode()}
    is_running = is_served(path) or hand_over(str(PLACE.folder / SOCKET_FILE), request)
    return str(path) if is_running else None


@dataclass(frozen=True, slots=True)
class Companion:
    """A companion that is being started; ``listener``: its socket."""

    module: str
    path: Path
    listener: socket.socket
    lifeline: int

    def run(self) -> NoReturn:
        """Serve in this process until the companion ends."""
        try:
            import_module(self.module).serve(self.listener, self.lifeline)
        finally:
            with suppress(OSError):
                self.path.unlink()
            os._exit(0)


def start(request: str, lifeline: int) -> Companion | None:
    """Prepare a companion that was requested; None if it runs already. Raises OSError."""
    module, _, key = request.partition("\n")
    assert PLACE.folder is not None
    path = PLACE.folder / key
    if is_served(path):
        return None
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(BACKLOG)
    return Companion(module, path, listener, lifeline)


def is_served(path: Path) -> bool:
    """Whether a process listens at a socket."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.connect(str(path))
        return True
    return False
