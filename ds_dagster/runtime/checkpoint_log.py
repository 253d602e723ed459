"""The batches that a checkpoint keeps, and an earlier one of them as its end.

Spark keeps the offsets, the commit and the state of the last 100 batches. A checkpoint without the files of later
batches is the one that was there when the batch had finished.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from ds_dagster.catalog.ledger import Tip
from ds_dagster.runtime.checkpoint_files import COMMITS, OFFSETS, VOID, digest_of, exchange, new_folder
from ds_dagster.runtime.deciding.from_sink import CheckpointLog

STATE = "state"
STATE_FILE = re.compile(r"\.?(\d+)(?:_[\w-]+)?\.(?:delta|snapshot|changelog|zip)(?:\.crc)?")
"""One version of a state store, which is the batch that made it and 1. Versions share the files beside it."""
BATCH_FILE = re.compile(r"\.?(\d+)(?:\.crc)?")
PATTERNS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {OFFSETS: BATCH_FILE, COMMITS: BATCH_FILE, STATE: STATE_FILE}
)
"""Folder of a checkpoint → names of its files that belong to one batch."""
HEADER_LINES = 2
UNFINISHED = ".tmp"
"""In the names of files that Spark renames when they are whole."""


def kept_batches(place: Path) -> CheckpointLog:
    """Batches and state versions of a checkpoint; empty if it does not exist.

    Raises:
        OSError: a file cannot be read.
    """
    finished, planned = (_numbers(place / name) for name in (COMMITS, OFFSETS))
    tips = {batch: tip for batch in planned if (tip := _planned(place, batch)) is not None}
    return CheckpointLog(max(finished, default=None), tips, frozenset(finished & _states(place / STATE)))


def rewind_checkpoint(place: Path, tip: Tip, following: Tip | None = None) -> Path:
    """Let a checkpoint end at one of its earlier batches. The whole one is kept beside it (``…-replaced-N``); returns
    where.

    Args:
        place: of the job and its version; it has these batches, and the state after ``tip`` where the query keeps some.
        tip: the last finished batch then.
        following: the batch after it, planned then and not finished; None if all sinks end at ``tip``.
    """
    planned = tip.batch if following is None else following.batch
    folder = new_folder(place)
    copy_batches(place, folder, tip.batch, planned)
    return exchange(place, folder)


def copy_batches(place: Path, folder: Path, finished: int, planned: int) -> None:
    """Copy a checkpoint without the files of later batches; the copy is on disk when the call returns.

    Args:
        place: of a checkpoint; batches up to these ends do not change while later ones are written.
        folder: that does not exist.
        finished: number of the last finished batch of the copy.
        planned: number of its last planned batch.

    Raises:
        OSError: a file cannot be read, or was removed meanwhile (``shutil.Error``).
    """
    ends = {OFFSETS: planned, COMMITS: finished, STATE: finished + 1}

    def later(path: str, names: list[str]) -> Collection[str]:
        """The files of a folder that belong to batches after the end, and those that are being written."""
        (part, *_) = (*Path(path).relative_to(place).parts, "")
        pattern = PATTERNS.get(part)
        matches = ((name, pattern.fullmatch(name) if pattern else None) for name in names)
        return [name for name, match in matches if UNFINISHED in name or (match and int(match[1]) > ends[part])]

    shutil.copytree(place, folder, ignore=later)
    os.sync()


def _numbers(folder: Path) -> set[int]:
    return {int(path.name) for path in (folder.iterdir() if folder.is_dir() else ()) if path.name.isdecimal()}


def _planned(place: Path, batch: int) -> Tip | None:
    """A batch as ledgers know it, None where its entry cannot be read as JSON."""
    try:
        version, *lines = (place / OFFSETS / str(batch)).read_text(encoding="utf-8").splitlines()
        sources = lines[HEADER_LINES - 1 :]
        if version == "v1":
            return Tip(batch, digest_of([_offset(line) for line in sources]))
        named = (line.partition(":") for line in sources)
        return Tip(batch, digest_of({name: _offset(text) for name, _, text in named}))
    except ValueError:
        return None


def _offset(text: str) -> object:
    return None if text == VOID else json.loads(text)


def _states(folder: Path) -> set[int]:
    """Batches after which every state store has its version."""
    stores: dict[Path, set[int]] = {}
    for path in folder.rglob("*") if folder.is_dir() else ():
        match = STATE_FILE.fullmatch(path.name)
        if match:
            stores.setdefault(path.parent, set()).add(int(match[1]) - 1)
    return set.intersection(*stores.values()) if stores else set()
