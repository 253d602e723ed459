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
        files, older = [], 0
        for file in listing:
            if file.modified < self.horizon:
                older += 1
            elif hash_of(file.path) not in self.seen:
                files.append(file)
        if older > self.older:
            raise error("FILE_TOO_LATE", entity=entity, count=older - self.older)
        return sorted(files)

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
        fields["batch"] = [[file.path, file.size, file.modified] for file in self.batch]
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
                batch=tuple(FileFacts(int(time), str(path), int(size)) for path, size, time in file_offset["batch"]),
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
