"""The two operating-system locks that show whether an engine lives.

One is held by the engine's Python, one by its JVM. The JVM may outlive a killed Python by some seconds and may still
write a batch, so a new engine starts only when both are free. The system releases a lock when its holder dies in any
way; no file has to be cleaned up. These are POSIX record locks, because Java uses them; the engine's own Python never
opens its lock file a second time (closing it would release the lock).
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
"""Length and start of the two parts of a lock file (length 0: to the end). A reader takes a shared lock on the first
part for a moment, so that two readers never mistake each other for a holder. A holder locks the second part, writes its
text, and only then locks the first part: a reader that finds the lock held never reads the text of a dead holder."""

_HELD: set[str] = set()
_GUARD = threading.RLock()
"""For the system, all threads of a process are one holder; this lock separates them."""


@dataclass(slots=True)
class FileLock:
    """An exclusive lock on a file; the file's text names the holder, for people and starters."""

    path: Path
    _descriptor: int | None = field(default=None, init=False)

    def acquire(self, holder: Mapping[str, object]) -> bool:
        """Take the lock without waiting; False if it is held. ``holder``: facts for :func:`holder`, stored as JSON."""
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
        """Whether the path still leads to the file that we hold (its folder was not deleted)."""
        if self._descriptor is None:
            return False
        try:
            stat = self.path.stat()
        except OSError:
            return False
        held = os.fstat(self._descriptor)
        return (stat.st_dev, stat.st_ino) == (held.st_dev, held.st_ino)

    def release(self) -> None:
        """Release the lock; does nothing if this object does not hold it."""
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
    """The facts that the holder stored (``pid``, …); empty without a holder, or if the text is half written."""
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
