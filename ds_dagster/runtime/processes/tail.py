"""The end of a log file, read from the end."""

from __future__ import annotations

from pathlib import Path

CHUNK = 65536


def tail_lines(path: Path, count: int) -> list[str]:
    """The last ``count`` lines of a file; none if it does not exist. Reads from the end, so a large file is fast."""
    if not path.is_file() or count <= 0:
        return []
    with path.open("rb") as handle:
        end = handle.seek(0, 2)
        data = b""
        while end > 0 and data.count(b"\n") <= count:
            start = max(0, end - CHUNK)
            handle.seek(start)
            data = handle.read(end - start) + data
            end = start
    return data.decode("utf-8", "replace").splitlines()[-count:]
