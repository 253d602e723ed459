"""Fetched records on the driver's disk until their batch is finished, and notes that outlive the process.

Layout: ``<folder>/seen-<stream>.json`` (when each shard was last read to its end; survives restarts, may be deleted),
and one folder per process, locked while the process lives, so that the next start removes folders of dead processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa

from ds_dagster.errors import error
from ds_dagster.names import safe_name
from ds_dagster.spark.kinesis.decode import RECORD_SCHEMA

READ_ROWS = 20_000
"""Most rows of one record batch for Spark."""
LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Sighting:
    """At ``until`` (epoch ms), the record ``after`` was the last one of its shard."""

    after: str
    until: int


class Spool:
    """Files of one reader; ``close`` removes them. Since Spark usually kills the process without closing, a start also
    removes files of dead processes.

    Args:
        folder: folder for the files; empty for a folder of this user among the machine's temporary files.
        stream: name of the stream, part of the name of the notes' file.

    Raises:
        ExternalError: KINESIS_SPOOL_FAILED.
    """

    def __init__(self, folder: str, stream: str) -> None:
        try:
            self._base = Path(folder) if folder else _shared_folder()
            self._base.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sweep()
            self._own, self._lock = self._claim()
        except OSError as failure:
            raise error("KINESIS_SPOOL_FAILED", folder=folder, detail=str(failure)) from failure
        self._seen = self._base / f"seen-{safe_name(stream)}.json"
        self._files: dict[str, list[tuple[int, int, Path]]] = {}

    def _claim(self) -> tuple[Path, int]:
        """A new locked folder, and the lock's file descriptor."""
        unlocked = self._base / f"new-{uuid.uuid4().hex}"
        unlocked.mkdir(mode=0o700)
        lock = os.open(unlocked / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # renamed after locking: other processes remove an unlocked "run-" folder
        return unlocked.rename(self._base / unlocked.name.replace("new-", "run-")), lock

    def write(self, shard: str, start_count: int, end_count: int, batches: Sequence[pa.RecordBatch]) -> str:
        """Store the records (start_count, end_count] of a shard. Returns the file's path.

        Raises:
            ExternalError: KINESIS_SPOOL_FAILED, usually a full disk.
        """
        path = self._own / f"{safe_name(shard)}-{end_count}.arrow"
        partial = path.with_suffix(".partial")
        try:
            with pa.OSFile(str(partial), "wb") as sink, pa.ipc.new_file(sink, RECORD_SCHEMA) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            partial.rename(path)
        except OSError as failure:
            raise error("KINESIS_SPOOL_FAILED", folder=str(self._own), detail=str(failure)) from failure
        self._files.setdefault(shard, []).append((start_count, end_count, path))
        return str(path)

    def find(self, shard: str, start_count: int, end_count: int) -> str:
        """Path of the file with exactly the records (start_count, end_count], or empty."""
        for start, end, path in self._files.get(shard, ()):
            if (start, end) == (start_count, end_count):
                return str(path)
        return ""

    def forget(self, shard: str, count: int) -> None:
        """Remove files up to record ``count`` of a shard: their batches are finished."""
        files = self._files.get(shard, [])
        for _, end, path in files:
            if end <= count:
                path.unlink(missing_ok=True)
        self._files[shard] = [entry for entry in files if entry[1] > count]

    def note_seen(self, sightings: Mapping[str, Sighting]) -> None:
        """Write the notes of when each shard was last read to its end; a failure to write them is ignored."""
        partial = self._own / "seen.partial"
        notes = {shard: [sighting.after, sighting.until] for shard, sighting in sightings.items()}
        with contextlib.suppress(OSError):
            partial.write_bytes(orjson.dumps(notes))
            partial.replace(self._seen)

    def seen(self) -> dict[str, Sighting]:
        """The notes of the last process, by shard; empty if there are none or they cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            notes = orjson.loads(self._seen.read_bytes())
            return {shard: Sighting(str(after), int(until)) for shard, (after, until) in notes.items()}
        return {}

    def close(self) -> None:
        """Remove this process's files, but not the notes."""
        shutil.rmtree(self._own, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _sweep(self) -> None:
        for run in self._base.glob("run-*"):
            if (run / LOCK).is_file() and _is_unlocked(run / LOCK):
                shutil.rmtree(run, ignore_errors=True)


def _shared_folder() -> Path:
    """The folder of all readers without a folder of their own; shared, so that a start can remove files of dead
    processes."""
    folder = Path(tempfile.gettempdir(), f"ds_kinesis_{os.getuid()}")
    folder.mkdir(exist_ok=True, mode=0o700)
    ours = not folder.is_symlink() and folder.stat().st_uid == os.getuid()
    return folder if ours else Path(tempfile.mkdtemp(prefix="ds_kinesis_"))


def _is_unlocked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def read_spooled(path: str) -> Iterator[pa.RecordBatch]:
    """The batches of a spool file, in slices of at most :data:`READ_ROWS` rows."""
    with pa.memory_map(path) as source:
        yield from _slices(source)


def read_shipped(payload: bytes) -> Iterator[pa.RecordBatch]:
    """The batches of a spool file's content, like :func:`read_spooled`."""
    yield from _slices(pa.BufferReader(payload))


def _slices(source: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    reader = pa.ipc.open_file(source)
    for index in range(reader.num_record_batches):
        batch = reader.get_batch(index)
        for begin in range(0, batch.num_rows, READ_ROWS):
            yield batch.slice(begin, READ_ROWS)


def shipped(path: str, most_bytes: int) -> bytes:
    """A spool file's content; empty if the file is larger than ``most_bytes`` or does not exist."""
    file = Path(path)
    try:
        return file.read_bytes() if path and file.stat().st_size <= most_bytes else b""
    except OSError:
        return b""
