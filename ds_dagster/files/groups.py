"""Divides files into groups of a bounded size, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ds_dagster.files.address import FileFacts

BATCH_BYTES = 128 * 1024 * 1024
"""Most bytes of files that are read at once; a larger file is read alone."""


def groups_of(files: Iterable[FileFacts], most_bytes: int, most_files: int) -> Iterator[tuple[FileFacts, ...]]:
    """Groups of files that follow one another; a file with more bytes is a group of its own."""
    group: list[FileFacts] = []
    size = 0
    for file in files:
        if group and (size + file.size > most_bytes or len(group) == most_files):
            yield tuple(group)
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield tuple(group)
