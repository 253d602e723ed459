"""Writes a checkpoint instead of Spark, for a query without state: such a query needs only the offsets of its last
batch. The checkpoint ends at a batch that a sink's ledger has, and the query continues after that batch.

The files are Spark's offset log, commit log and metadata (format ``v1``, or ``v2`` where sources have names in the
log), and our own files next to them. The start compares such a checkpoint with its sink, like any other.
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
ORIGIN = "ds-origin.json"
"""In checkpoints that were made from a savepoint: the checkpoint version in which their history began."""
KEPT = ("sources", TARGETS, ORIGIN)
"""Parts of the former checkpoint that are the same for every batch."""
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
"""The setting that the offset log must contain. Other settings concern state; Spark takes the session's values."""
PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting that Spark compares between a planned batch and the batch before; it has no effect without state."""
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
VOID = "-"


def unusable(tip: Tip) -> str:
    """Why no checkpoint can be made that ends at a batch; empty if it can be made."""
    if not tip.ends:
        return "keeps no offsets"
    try:
        offsets = json.loads(tip.ends)["offsets"]
    except (ValueError, KeyError, TypeError):
        return "keeps offsets that this version does not read"
    values = list(offsets.values()) if isinstance(offsets, dict) else offsets
    if any(isinstance(offset, str) for offset in values):  # the ledger does not say whether it was in quotes
        return "keeps offsets that cannot be written as their source wrote them"
    is_same = Tip(tip.batch, digest_of(offsets)).is_same(tip)
    return "" if is_same else "keeps offsets that do not match its batch"


def digest_of(offsets: Any) -> str:
    """Digest of offsets as ledgers store it, hexadecimal. Java has the same rule:
    ``dsdagster.checkpoint.EndOffsets``."""
    text = json.dumps(offsets, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def put_checkpoint(place: Path, tip: Tip, following: Tip | None = None, *, named: bool) -> None:
    """Put a checkpoint that ends at a batch into a folder. Its former content is moved to ``…-replaced-N``.

    Args:
        place: checkpoint folder of the job and its version; may be missing.
        tip: the last finished batch; :func:`unusable` returns an empty text for it.
        following: the batch after ``tip``, planned and not finished; None if all sinks end at ``tip``.
        named: whether the query's sources have names in its checkpoint; sources of applications have none.
    """
    folder = new_folder(place)
    make_folder(folder)
    for name in KEPT:
        _copy(place / name, folder / name)
    ends = json.loads(tip.ends)
    _write(folder / METADATA, _read(place / METADATA) or json.dumps({"id": str(uuid.uuid4())}))
    _write(folder / SOURCES, json.dumps(ends["sources"], indent=1, sort_keys=True) + "\n")
    conf = {EVOLUTION: json.dumps(named), PARTITIONS: _partitions(place)}
    entry = entry_of(ends["offsets"], conf)
    for batch in range(max(tip.batch - 1, 0), tip.batch + 1):  # Spark reads the entry before the last one too
        _write(folder / OFFSETS / str(batch), entry)
    _write(folder / COMMITS / str(tip.batch), COMMIT)
    if following is not None:
        _write(folder / OFFSETS / str(following.batch), entry_of(json.loads(following.ends)["offsets"], conf))
    exchange(place, folder)


def grown_folder(place: Path) -> Path:
    """The path ``…-growing`` where a checkpoint is prepared whose groups get more results."""
    return place.with_name(f"{place.name}-growing")


def exchange_grown(place: Path) -> Path:
    """:func:`exchange` with :func:`grown_folder`, which is complete. It is called ``…-grown`` before, so that
    :func:`finish_growth` never takes one that is not complete."""
    folder = _complete(place)
    shutil.rmtree(folder, ignore_errors=True)
    grown_folder(place).rename(folder)
    return exchange(place, folder)


def finish_growth(place: Path) -> None:
    """Finish an :func:`exchange_grown` that was killed when ``place`` was gone."""
    _finish(place, _complete(place))


def new_folder(place: Path) -> Path:
    """The path ``…-new`` where a checkpoint is prepared before :func:`exchange`; what was there is deleted."""
    folder = _new(place)
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def finish_exchange(place: Path) -> None:
    """Finish an :func:`exchange` with a complete :func:`new_folder` that was killed between its two renames."""
    _finish(place, _new(place))


def exchange(place: Path, folder: Path) -> Path:
    """Move a prepared folder to ``place``. The former content of ``place`` moves to ``…-replaced-N``; returns that
    path, also if there was none."""
    replaced = _replaced(place)
    if place.exists():
        place.rename(replaced)
    folder.rename(place)
    force_names(place.parent)
    return replaced


def _finish(place: Path, folder: Path) -> None:
    """Move a prepared folder to ``place`` if that is gone."""
    if folder.is_dir() and not place.exists():
        folder.rename(place)
        force_names(place.parent)


def _new(place: Path) -> Path:
    return place.with_name(f"{place.name}-new")


def _complete(place: Path) -> Path:
    return place.with_name(f"{place.name}-grown")


def _partitions(place: Path) -> str:
    """The number of shuffle partitions in the offset log of the present checkpoint; 1 if it has none."""
    entries = [path for path in (place / OFFSETS).glob("*") if path.name.isdecimal()]
    newest = max(entries, key=lambda path: int(path.name), default=None)
    try:
        return str(json.loads(_read(newest).splitlines()[1])["conf"][PARTITIONS]) if newest else "1"
    except (ValueError, LookupError, TypeError):
        return "1"


def entry_of(offsets: Any, conf: Mapping[str, str]) -> str:
    """An entry of the offset log. ``offsets``: a list in the order of the sources, or by their names; the watermark
    is 0."""
    version = "v2" if isinstance(offsets, dict) else "v1"
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
