"""Files that are on disk when the call returns: content and name. If only the file is forced (fsync) and not its
folder, a power failure may lose the name."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Make a file or replace it; it appears as a whole or not at all. Folders above it are made. A write that
    fails leaves no other file.

    Raises:
        OSError: as the operating system says.
    """
    make_folder(path.parent)
    staged = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with staged.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)  # it is still there if something failed
    force_names(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for new_folder in missing:
        force_names(new_folder.parent)


def force_names(folder: Path) -> None:
    """Force the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
