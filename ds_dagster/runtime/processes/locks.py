"""The two operating-system locks that say whether an engine lives.

One is held by the engine's Python, one by its JVM. The JVM outlives a killed Python by up to some seconds and may still
be writing a batch, so a new engine starts only when both are free. The system releases a lock when its holder dies,
however it dies; no file has to be cleaned up. POSIX record locks are used because that is what Java takes; the engine's
own Python never opens its lock file a second time (closing it would release the lock).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

_LOOKED_AT = (1, 0)
_REST = (0, 1)
"""Length and start of the two parts of a lock (length 0: to the end). A reader takes the first one for a moment, and
shares it, so that two readers never take each other for a holder. A holder takes the second one, writes its text, and
only then takes the first: whoever finds the lock held never reads the text of a dead holder."""

_HELD: set[str] = set()
_GUARD = threading.RLock()
"""The system takes all threads of a process for one holder; between them this one decides."""


@dataclass(slots=True)
class FileLock:
    """An exclusive lock on a file; the file's text names the holder, for people and starters."""

    path: Path
    _descriptor: int | None = field(default=None, init=False)

    def acquire(self, holder: Mapping[str, object]) -> bool:
        """Take it without waiting; False when someone else has it."""
        with _GUARD:
            if str(self.path) in _HELD:
                return False
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if not _try(descriptor, fcntl.LOCK_EX, _REST):
                os.close(descriptor)
                return False
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(dict(holder)).encode(), 0)
            if not _try(descriptor, fcntl.LOCK_EX, _LOOKED_AT):
                os.close(descriptor)
                return False
            self._descriptor = descriptor
            _HELD.add(str(self.path))
            return True

    def is_intact(self) -> bool:
        """Whether the path still leads to the file we hold (its folder was not deleted)."""
        if self._descriptor is None:
            return False
        try:
            stat = self.path.stat()
        except OSError:
            return False
        held = os.fstat(self._descriptor)
        return (stat.st_dev, stat.st_ino) == (held.st_dev, held.st_ino)

    def release(self) -> None:
        """Give it back; does nothing when it is not held here."""
        with _GUARD:
            if self._descriptor is not None:
                os.ftruncate(self._descriptor, 0)
                _HELD.discard(str(self.path))
                os.close(self._descriptor)
                self._descriptor = None


def is_held(path: Path) -> bool:
    """Whether any process (this one included) holds the lock."""
    with _GUARD:
        if str(path) in _HELD:
            return True
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not _try(descriptor, fcntl.LOCK_SH, _LOOKED_AT)
        finally:
            os.close(descriptor)


def holder(path: Path) -> Mapping[str, object]:
    """The holder's facts about itself; empty without a holder, or if the text is half written."""
    if str(path) in _HELD:
        return MappingProxyType({"pid": os.getpid()})
    try:
        data = json.loads(path.read_text(encoding="utf-8") or "{}")
    except (OSError, ValueError):
        return MappingProxyType({})
    return MappingProxyType(data if isinstance(data, dict) else {})


def _try(descriptor: int, kind: int, part: tuple[int, int]) -> bool:
    length, start = part
    try:
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, length, start)
    except OSError as problem:
        if problem.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True
