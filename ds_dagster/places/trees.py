"""Folders with everything in them, on disk and in buckets: look through, write, copy, delete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ds_dagster import durable
from ds_dagster.places.bucket_path import BucketPath

Place = Path | BucketPath
"""A file or a folder on disk or in a bucket."""
Parts = tuple[str, ...]
"""Parts of a path below a folder."""
REQUESTS = 8
"""Objects that are copied at the same time."""


def names_in(folder: Place) -> list[str]:
    """Names directly below a folder; empty if it does not exist."""
    if isinstance(folder, Path) and not folder.is_dir():
        return []
    return [path.name for path in folder.iterdir()]


def files_below(folder: Place) -> Iterator[tuple[Parts, int]]:
    """Path below the folder and size of each file at any depth; empty if the folder does not exist."""
    if isinstance(folder, BucketPath):
        yield from folder.files()
        return
    for path in folder.rglob("*") if folder.is_dir() else ():
        if path.is_file():
            yield path.relative_to(folder).parts, path.stat().st_size


def size_of(folder: Place) -> int:
    """Bytes of all files below a folder."""
    return sum(size for _, size in files_below(folder))


def read_if_any(path: Place) -> str:
    """The text of a file; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def write_whole(path: Place, content: bytes | memoryview) -> None:
    """Make a file or replace it; it appears as a whole or not at all, and is durable when the call returns.

    Raises:
        OSError: as the operating system says. DsError: the bucket fails.
    """
    if isinstance(path, BucketPath):
        path.bucket.write(path.key, content)
    else:
        durable.write_whole(path, content)


def make_folder(folder: Place) -> None:
    """Make a folder and those above it, where they are missing; a bucket needs none."""
    if isinstance(folder, Path):
        durable.make_folder(folder)


def copy_file(source: Place, target: Place) -> None:
    """Copy one file. Raises: FileNotFoundError."""
    if (
        isinstance(source, BucketPath)
        and isinstance(target, BucketPath)
        and source.bucket.address == target.bucket.address
    ):
        source.bucket.copy(source.key, target.key)
    elif isinstance(source, Path) and isinstance(target, Path):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    elif isinstance(target, Path):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    else:
        write_whole(target, source.read_bytes())


def copy_tree(source: Place, target: Place, skips: Callable[[Parts], bool] = lambda _: False) -> None:
    """Copy the files below a folder; all are on disk or in the bucket when the call returns. Empty folders are left
    out.

    Args:
        source: a folder; files that are not skipped may not change.
        target: has nothing of the same names.
        skips: whether a file is left out, by its path below ``source``.

    Raises:
        FileNotFoundError: the folder does not exist, or a file was removed during the copy.
        OSError: a file cannot be read or written.
    """
    parts = [parts for parts, _ in files_below(source) if not skips(parts)]
    if not parts and not source.is_dir():
        raise FileNotFoundError(str(source))
    make_folder(target)

    def copy(part: Parts) -> None:
        copy_file(below(source, part), below(target, part))

    in_bucket = isinstance(source, BucketPath) or isinstance(target, BucketPath)
    with ThreadPoolExecutor(REQUESTS if in_bucket else 1) as pool:
        list(pool.map(copy, parts))
    if isinstance(target, Path):
        os.sync()


def below(folder: Place, parts: Parts) -> Place:
    """The path below a folder."""
    for part in parts:
        folder = folder / part
    return folder


def remove_tree(folder: Place) -> None:
    """Remove a folder with everything in it; does nothing if it does not exist.

    Raises:
        OSError: a file cannot be removed. DsError: the bucket fails.
    """
    if isinstance(folder, BucketPath):
        folder.delete_all()
    elif folder.exists():
        shutil.rmtree(folder)
