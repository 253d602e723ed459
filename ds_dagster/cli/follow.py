"""Follow a log file that may be rotated under the reader."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

POLL_SECONDS = 0.25


def follow_file(path: Path, show: Callable[[str], object]) -> None:
    """Show whole lines as they are appended, until interrupted; starts over when the file is replaced or cut."""
    position = path.stat().st_size if path.exists() else 0
    inode = path.stat().st_ino if path.exists() else None
    rest = ""
    while True:
        if path.exists():
            now = path.stat()
            if now.st_ino != inode or now.st_size < position:
                position, inode, rest = 0, now.st_ino, ""
            if now.st_size > position:
                with path.open("r", encoding="utf-8", errors="replace") as handle:
                    handle.seek(position)
                    rest += handle.read()
                    position = handle.tell()
                *lines, rest = rest.split("\n")
                for line in lines:
                    show(line)
        time.sleep(POLL_SECONDS)
