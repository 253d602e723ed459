"""The batches that a checkpoint keeps, and how to take a checkpoint back to an earlier batch.

Spark keeps the offsets, the commit and the state of the last 100 batches. Without the files of later batches, a
checkpoint is as it was when the earlier batch had finished.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.ledger import Tip
from ds_dagster.places.trees import Parts, Place, copy_tree, files_below, names_in, remove_tree
from ds_dagster.runtime.checkpoint_files import COMMITS, OFFSETS, VOID, digest_of, exchange, new_folder
from ds_dagster.runtime.deciding.from_sink import CheckpointLog

STATE = "state"
STATE_FILE = re.compile(r"\.?(\d+)(?:_[\w-]+)?\.(?:delta|snapshot|changelog|zip)(?:\.crc)?")
"""Name of a file that holds one version of a state store. Version = number of the batch that wrote it + 1. Files with
other names are shared by several versions."""
BATCH_FILE = re.compile(r"\.?(\d+)(?:\.crc)?")
PATTERNS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {OFFSETS: BATCH_FILE, COMMITS: BATCH_FILE, STATE: STATE_FILE}
)
"""Folder of a checkpoint → names of its files that belong to one batch."""
HEADER_LINES = 2
PARTITION = 2
"""Number of folders above that of a partition of a state store."""
CHECKSUM = ".crc"
UNFINISHED = ".tmp"
"""Part of the names of files that Spark is still writing; it renames them when they are complete."""


def kept_batches(place: Place) -> CheckpointLog:
    """Batches and state versions of a checkpoint; empty if it does not exist.

    Raises:
        OSError: a file cannot be read.
    """
    finished, planned = (_numbers(place / name) for name in (COMMITS, OFFSETS))
    tips = {batch: tip for batch in planned if (tip := _planned(place, batch)) is not None}
    return CheckpointLog(max(finished, default=None), tips, frozenset(finished & _states(place / STATE)))


def first_offset(place: Place, source: str) -> Mapping[str, Any] | None:
    """Where a query with this checkpoint began to read a source of Spark's own (topic → partition → offset).
    Partitions that the topic got later are missing. None if the checkpoint does not say.

    Args:
        place: checkpoint folder; Spark writes the first offsets of such a source once and keeps them.
        source: name of the source in the checkpoint.
    """
    for name in (source, "0"):  # sources without names are in their order
        try:
            text = (place / "sources" / name / "0").read_text(encoding="utf-8")
            offset = json.loads(text[text.index("{") :])
        except (OSError, ValueError):
            continue
        if isinstance(offset, dict):
            return offset
    return None


def rewind_checkpoint(place: Place, tip: Tip, following: Tip | None = None) -> Place:
    """Take a checkpoint back to one of its earlier batches. The whole checkpoint is kept as ``…-replaced-N``; returns
    that path.

    Args:
        place: checkpoint folder; it has these batches, and the state after ``tip`` if the query keeps state.
        tip: the batch that becomes the last finished one.
        following: the batch after it, which becomes planned and not finished; None if all sinks end at ``tip``.
    """
    planned = tip.batch if following is None else following.batch
    folder = new_folder(place)
    copy_batches(place, folder, tip.batch, planned)
    return exchange(place, folder)


def copy_batches(place: Place, folder: Place, finished: int, planned: int) -> None:
    """Copy a checkpoint without the files of later batches; the copy is on disk when the call returns.

    Args:
        place: checkpoint folder; its query may run, since files of finished batches do not change.
        folder: target, which does not exist.
        finished: number of the last finished batch of the copy.
        planned: number of its last planned batch.

    Raises:
        OSError: a file cannot be read, or was removed during the copy.
    """
    ends = {OFFSETS: planned, COMMITS: finished, STATE: finished + 1}

    def is_later(parts: Parts) -> bool:
        """Whether a file belongs to a batch after the end, or is still being written."""
        (part, *_, name) = ("", *parts) if len(parts) == 1 else parts
        match = PATTERNS[part].fullmatch(name) if part in PATTERNS else None
        return UNFINISHED in name or (match is not None and int(match[1]) > ends[part])

    copy_tree(place, folder, is_later)


def copy_without_state(place: Place, folder: Place) -> None:
    """Copy a checkpoint with its logs and without the content of its state stores. What was in the target is deleted.

    Raises:
        OSError: a file cannot be read.
    """

    def is_of_store(parts: Parts) -> bool:
        """Whether a file belongs to a partition of an operator, or is still being written."""
        is_partition = len(parts) > PARTITION and parts[0] == STATE and parts[PARTITION].isdecimal()
        return UNFINISHED in parts[-1] or is_partition

    remove_tree(folder)
    copy_tree(place, folder, is_of_store)


def _numbers(folder: Place) -> set[int]:
    return {int(name) for name in names_in(folder) if name.isdecimal()}


def _planned(place: Place, batch: int) -> Tip | None:
    """A batch as ledgers store it; None if its offsets cannot be read as JSON."""
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


def _states(folder: Place) -> set[int]:
    """Batches after which every state store has a version. An empty file only stands for a version, see
    ``dsdagster.checkpoint.GrownState``."""
    stores: dict[Parts, set[int]] = {}
    for (*store, name), size in files_below(folder):
        match = STATE_FILE.fullmatch(name)
        if match and not name.endswith(CHECKSUM) and size:
            stores.setdefault(tuple(store), set()).add(int(match[1]) - 1)
    return set.intersection(*stores.values()) if stores else set()
