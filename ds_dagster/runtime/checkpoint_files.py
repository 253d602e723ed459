"""Writes a checkpoint instead of Spark, for a query without state: such a query needs only the offsets of its last
batch. The checkpoint ends at a batch that a sink's ledger has, and the query continues after that batch.

The files are Spark's offset log, commit log and metadata (format ``v1``, or ``v2`` where sources have names in the
log), and our own files next to them. The start compares such a checkpoint with its sink, like any other.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from ds_dagster.catalog.ledger import Tip
from ds_dagster.durable import force_names
from ds_dagster.errors import error
from ds_dagster.places.bucket import NEW
from ds_dagster.places.bucket_path import BucketPath
from ds_dagster.places.trees import (
    Place,
    copy_file,
    copy_tree,
    make_folder,
    names_in,
    read_if_any,
    remove_tree,
    write_whole,
)

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
HEAD = 1
"""Line of an entry of the offset log with its time and settings."""
VOID = "-"
CURRENT = ".current"
"""End of the name of an object that says which folder of a bucket is the checkpoint of a version. A version without one
uses the folder of its first start. S3 replaces the object in one step, and renames nothing."""
_VERSION = re.compile(r"v\d+")


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


def put_checkpoint(place: Place, tip: Tip, following: Tip | None = None, *, named: bool) -> None:
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
    _write(folder / METADATA, read_if_any(place / METADATA) or json.dumps({"id": str(uuid.uuid4())}))
    _write(folder / SOURCES, json.dumps(ends["sources"], indent=1, sort_keys=True) + "\n")
    conf = {EVOLUTION: json.dumps(named), PARTITIONS: _partitions(place)}
    entry = entry_of(ends["offsets"], conf)
    for batch in range(max(tip.batch - 1, 0), tip.batch + 1):  # Spark reads the entry before the last one too
        _write(folder / OFFSETS / str(batch), entry)
    _write(folder / COMMITS / str(tip.batch), COMMIT)
    if following is not None:
        _write(folder / OFFSETS / str(following.batch), entry_of(json.loads(following.ends)["offsets"], conf))
    exchange(place, folder)


def grown_folder(place: Place) -> Place:
    """The path ``…-growing`` where a checkpoint is prepared whose groups get more results; in a bucket a new name."""
    return place.with_name(f"{place.name}-growing") if isinstance(place, Path) else _unused(place)


def exchange_grown(place: Place, folder: Place) -> Place:
    """:func:`exchange` with a :func:`grown_folder` that is complete. It is called ``…-grown`` before, so that
    :func:`finish_growth` never takes one that is not complete."""
    if isinstance(place, Path) and isinstance(folder, Path):
        complete = _complete(place)
        remove_tree(complete)
        folder = folder.rename(complete)
    return exchange(place, folder)


def finish_growth(place: Place) -> None:
    """Finish an :func:`exchange_grown` that was killed when ``place`` was gone."""
    if isinstance(place, Path):
        _finish(place, _complete(place))


def new_folder(place: Place) -> Place:
    """The path ``…-new`` where a checkpoint is prepared before :func:`exchange`; what was there is deleted. In a bucket
    a name that was never used."""
    folder = _new(place) if isinstance(place, Path) else _unused(place)
    remove_tree(folder)
    return folder


def finish_exchange(place: Place) -> None:
    """Finish an :func:`exchange` with a complete :func:`new_folder` that was killed between its two renames."""
    if isinstance(place, Path):
        _finish(place, _new(place))


def exchange(place: Place, folder: Place) -> Place:
    """Make a prepared folder the checkpoint. On disk it moves to ``place``, whose former content moves to
    ``…-replaced-N``. In a bucket nothing moves: the object ``….current`` names the folder, which
    :func:`current_folder` returns from then on.

    Returns:
        Where the former content is; the path is free if there was none.

    Raises:
        ExternalError: CHECKPOINT_EXCHANGED: another process was faster, in a bucket.
    """
    if isinstance(place, BucketPath):
        _point(place, folder.name)
        return place
    assert isinstance(folder, Path)
    replaced = _replaced(place)
    if place.exists():
        place.rename(replaced)
    folder.rename(place)
    force_names(place.parent)
    return replaced


def current_folder(first: Place) -> Place:
    """The folder that is the checkpoint of a version.

    Args:
        first: the folder of its first start, ``…/v1``.
    """
    if isinstance(first, Path):
        return first
    name = read_if_any(_pointer(first))
    return first.with_name(name) if name else first


def _point(place: BucketPath, name: str) -> None:
    pointer = _pointer(place)
    before = pointer.bucket.read(pointer.key)
    current, mark = (before[0].decode(), before[1]) if before else (_version(place), NEW)
    if current != place.name or not pointer.bucket.write(pointer.key, name.encode(), mark):
        raise error("CHECKPOINT_EXCHANGED", path=str(place))


def _pointer(place: BucketPath) -> BucketPath:
    return place.with_name(f"{_version(place)}{CURRENT}")


def _version(place: BucketPath) -> str:
    """The part ``v1`` of the name of a folder, as in ``v1-3f9c2a71``."""
    match = _VERSION.match(place.name)
    assert match is not None
    return match[0]


def _unused(place: BucketPath) -> BucketPath:
    return place.with_name(f"{_version(place)}-{uuid.uuid4().hex[:8]}")


def _finish(place: Path, folder: Path) -> None:
    """Move a prepared folder to ``place`` if that is gone."""
    if folder.is_dir() and not place.exists():
        folder.rename(place)
        force_names(place.parent)


def _new(place: Path) -> Path:
    return place.with_name(f"{place.name}-new")


def _complete(place: Path) -> Path:
    return place.with_name(f"{place.name}-grown")


def _partitions(place: Place) -> str:
    """The number of shuffle partitions in the offset log of the present checkpoint; 1 if it has none."""
    return logged_setting(place, PARTITIONS) or "1"


def logged_setting(place: Place, name: str) -> str:
    """A setting of Spark in the newest entry of the offset log, with which the query goes on; empty if it has none."""
    newest = max((int(name) for name in names_in(place / OFFSETS) if name.isdecimal()), default=None)
    if newest is None:
        return ""
    try:
        return str(json.loads(read_if_any(place / OFFSETS / str(newest)).splitlines()[HEAD])["conf"][name])
    except (ValueError, LookupError, TypeError):
        return ""


def log_setting(folder: Place, name: str, value: str) -> None:
    """Change a setting in every entry of the offset log of a checkpoint that nobody uses yet."""
    for entry in (folder / OFFSETS / number for number in names_in(folder / OFFSETS) if number.isdecimal()):
        version, head, *offsets = read_if_any(entry).split("\n")
        values = json.loads(head)
        values["conf"] = {**values.get("conf", {}), name: value}
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum, of the former content
        _write(entry, "\n".join([version, json.dumps(values, separators=(",", ":")), *offsets]))


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


def _copy(source: Place, target: Place) -> None:
    if source.is_dir():
        copy_tree(source, target)
    elif source.is_file():
        copy_file(source, target)


def _write(path: Place, text: str) -> None:
    write_whole(path, text.encode())
