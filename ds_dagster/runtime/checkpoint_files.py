"""A checkpoint made by us instead of Spark: of a query without state, where the offsets of its last batch are all it
needs. It ends at a batch that a sink's ledger keeps, so that the query goes on after it.

The files are those of Spark's offset log, its commit log and its metadata (format ``v1``, and ``v2`` where sources have
names in the log); beside them those of ours. A made checkpoint is compared with its sink like any other at the start.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import uuid
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from ds_dagster.catalog.ledger import Tip
from ds_dagster.durable import force_names, make_folder, write_whole

OFFSETS, COMMITS, METADATA = "offsets", "commits", "metadata"
SOURCES, TARGETS = "ds-sources.json", "ds-targets.json"
KEPT = ("sources", TARGETS)
"""Of the checkpoint before, what holds for any batch."""
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
"""The setting that the offset log has to hold; Spark takes the session's for others, which are about state."""
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
VOID = "-"


def unusable(tip: Tip) -> str:
    """Why no checkpoint can be made that ends at a batch; empty where one can."""
    if not tip.ends:
        return "keeps no offsets"
    try:
        offsets = json.loads(tip.ends)["offsets"]
    except (ValueError, KeyError, TypeError):
        return "keeps offsets that this version does not read"
    values = list(offsets.values()) if isinstance(offsets, dict) else offsets
    if any(isinstance(offset, str) for offset in values):  # nobody knows any more whether it stood in quotes
        return "keeps offsets that cannot be written as their source wrote them"
    text = json.dumps(offsets, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "" if Tip(tip.batch, digest).is_same(tip) else "keeps offsets that are not those of its batch"


def put_checkpoint(place: Path, tip: Tip, *, named: bool) -> None:
    """Put a checkpoint that ends at a batch into a folder. What is in it is moved beside it (``…-replaced-N``).

    Args:
        place: of the job and its version; may be missing.
        tip: :func:`unusable` is empty.
        named: the query's sources have names in its checkpoint; those of applications have none.
    """
    new_folder = place.with_name(f"{place.name}-new")
    shutil.rmtree(new_folder, ignore_errors=True)
    make_folder(new_folder)
    for name in KEPT:
        _copy(place / name, new_folder / name)
    ends = json.loads(tip.ends)
    _write(new_folder / METADATA, _read(place / METADATA) or json.dumps({"id": str(uuid.uuid4())}))
    _write(new_folder / SOURCES, json.dumps(ends["sources"], indent=1, sort_keys=True) + "\n")
    entry = _entry(ends["offsets"], named)
    for batch in range(max(tip.batch - 1, 0), tip.batch + 1):  # Spark reads the entry before the last one too
        _write(new_folder / OFFSETS / str(batch), entry)
    _write(new_folder / COMMITS / str(tip.batch), COMMIT)
    if place.exists():
        place.rename(_replaced(place))
    new_folder.rename(place)
    force_names(place.parent)


def _entry(offsets: Any, named: bool) -> str:
    """An entry of the offset log."""
    version = "v2" if isinstance(offsets, dict) else "v1"
    conf = {EVOLUTION: json.dumps(named)}
    head = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": conf}
    return "\n".join([version, json.dumps(head, separators=(",", ":")), *_lines(offsets)])


def _lines(offsets: Any) -> list[str]:
    """A line for each source."""
    if isinstance(offsets, Mapping):
        return [f"{name}:{_offset(value)}" for name, value in offsets.items()]
    return [_offset(value) for value in offsets]


def _offset(value: Any) -> str:
    return VOID if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _replaced(place: Path) -> Path:
    names = (place.with_name(f"{place.name}-replaced-{number}") for number in count(1))
    return next(name for name in names if not name.exists())


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.is_file():
        shutil.copy2(source, target)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode())
