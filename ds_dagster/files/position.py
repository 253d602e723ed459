"""Which files a query has read, in the form of Spark's offset log: ``{"files": {"0": {…}}}``.

A modification time does not show when a file appeared: a copy keeps the old time, a large upload has the time of its
beginning. So the files themselves are remembered, by a hash of 8 bytes. Beyond :data:`REMEMBERED` files, older ones are
replaced by a ``horizon``, a time before which all files count as read, and their number: if there are more files later,
a file arrived too late, which is an error.

The JSON has ``n`` (number of the position, to check that one follows another), ``seen``, ``horizon`` and ``older``, and
``batch``, the files between the previous position and this one. Two positions are equal exactly if their JSON is equal.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds_dagster.errors import error
from ds_dagster.files.address import FileFacts

REMEMBERED = 10_000
"""Most files that are remembered by hash; beyond it, the older half is replaced by the horizon."""
HASH_BYTES = 8
JsonOffset = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A place in the files of an entity.

    Attributes:
        number: number of the position, 0 at the beginning.
        seen: hashes of the paths of files that were read.
        horizon: nanoseconds since 1970; files modified before it count as read.
        older: number of files before the horizon when it was set.
        batch: files read since the previous position.
        at_end: begin with files that arrive from now on; only in the first position.
    """

    number: int = 0
    seen: frozenset[bytes] = frozenset()
    horizon: int = 0
    older: int = 0
    batch: tuple[FileFacts, ...] = ()
    at_end: bool = False

    def unread(self, listing: Iterable[FileFacts], entity: str) -> list[FileFacts]:
        """Files that are not read yet, oldest first.

        Raises:
            UserError: FILE_TOO_LATE.
        """
        files = list(listing)
        self._check_late(files, entity)
        return sorted(file for file in files if not self.has(file))

    def read(self, listing: Iterable[FileFacts], entity: str) -> list[FileFacts]:
        """Files that are read, oldest first.

        Raises:
            UserError: FILE_TOO_LATE.
        """
        files = list(listing)
        self._check_late(files, entity)
        return sorted(file for file in files if self.has(file))

    def has(self, file: FileFacts) -> bool:
        """Whether a file is read; a file that arrived too late counts as read."""
        return file.modified < self.horizon or hash_of(file.path) in self.seen

    def before_batch(self) -> FilePosition | None:
        """The position before the files of ``batch``, as far as files are remembered one by one; None if some of the
        batch are not."""
        hashes = {hash_of(file.path) for file in self.batch}
        if not hashes <= self.seen:
            return None
        return FilePosition(self.number - 1, self.seen - hashes, self.horizon, self.older)

    def _check_late(self, listing: Iterable[FileFacts], entity: str) -> None:
        older = sum(file.modified < self.horizon for file in listing)
        if older > self.older:
            raise error("FILE_TOO_LATE", entity=entity, count=older - self.older)

    def after(self, batch: Sequence[FileFacts], listing: Sequence[FileFacts]) -> FilePosition:
        """The position after further files; ``listing``: all files of the last listing."""
        read_hashes = self.seen | {hash_of(file.path) for file in batch}
        if len(read_hashes) <= REMEMBERED:
            return FilePosition(self.number + 1, read_hashes, self.horizon, self.older, tuple(batch))
        return self._shortened(read_hashes, tuple(batch), listing)

    def at_end_of(self, listing: Sequence[FileFacts]) -> FilePosition:
        """The position after all existing files, without reading them."""
        hashes = frozenset(hash_of(file.path) for file in listing)
        if len(hashes) <= REMEMBERED:
            return FilePosition(self.number + 1, hashes)
        return self._shortened(hashes, (), listing)

    def _shortened(
        self, hashes: frozenset[bytes], batch: tuple[FileFacts, ...], listing: Sequence[FileFacts]
    ) -> FilePosition:
        """A position that remembers only the newer half by hash; the horizon is before all unread files."""
        near = [file for file in listing if file.modified >= self.horizon]
        read = sorted(file.modified for file in near if hash_of(file.path) in hashes)
        waiting = [file.modified for file in near if hash_of(file.path) not in hashes]
        drawn = read[-REMEMBERED // 2] if len(read) > REMEMBERED // 2 else self.horizon
        horizon = min([drawn, *waiting])
        recent = {hash_of(file.path) for file in listing if file.modified >= horizon} & hashes
        older = sum(1 for file in listing if file.modified < horizon)
        return FilePosition(self.number + 1, frozenset(recent), horizon, older, batch)

    def json(self) -> JsonOffset:
        """The form in Spark's offset log."""
        fields: dict[str, Any] = {"n": self.number}
        if self.at_end:
            fields["at_end"] = True
        if self.horizon:
            fields |= {"horizon": self.horizon, "older": self.older}
        fields["seen"] = base64.b64encode(b"".join(sorted(self.seen))).decode()
        fields["batch"] = _rows(self.batch)
        return {"files": {"0": fields}}

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> FilePosition:
        """The position from the result of :meth:`json`.

        Raises:
            InternalError: FILES_OFFSET_INVALID.
        """
        try:
            file_offset = offset["files"]["0"]
            packed = base64.b64decode(file_offset["seen"])
            return cls(
                number=int(file_offset["n"]),
                seen=frozenset(packed[at : at + HASH_BYTES] for at in range(0, len(packed), HASH_BYTES)),
                horizon=int(file_offset.get("horizon", 0)),
                older=int(file_offset.get("older", 0)),
                batch=_files(file_offset["batch"]),
                at_end=bool(file_offset.get("at_end", False)),
            )
        except (KeyError, TypeError, ValueError) as mismatch:
            raise error("FILES_OFFSET_INVALID", offset=str(offset)[:200]) from mismatch


def number_of(offset: Mapping[str, Any]) -> int:
    """The number of a position in Spark's offset log, without parsing the rest.

    Raises:
        InternalError: FILES_OFFSET_INVALID.
    """
    try:
        return int(offset["files"]["0"]["n"])
    except (KeyError, TypeError, ValueError) as mismatch:
        raise error("FILES_OFFSET_INVALID", offset=str(offset)[:200]) from mismatch


def hash_of(path: str) -> bytes:
    """Hash of a file's path, :data:`HASH_BYTES` long."""
    return hashlib.blake2b(path.encode(), digest_size=HASH_BYTES).digest()


def files_json(files: Iterable[FileFacts]) -> str:
    """JSON of files, for an option of a source."""
    return json.dumps(_rows(files), separators=(",", ":"))


def files_of_json(text: str) -> tuple[FileFacts, ...]:
    """The inverse of :func:`files_json`."""
    return _files(json.loads(text))


def _rows(files: Iterable[FileFacts]) -> list[list[Any]]:
    return [[file.path, file.size, file.modified] for file in files]


def _files(rows: Iterable[Sequence[Any]]) -> tuple[FileFacts, ...]:
    return tuple(FileFacts(int(time), str(path), int(size)) for path, size, time in rows)
