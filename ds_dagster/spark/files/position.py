"""Which files a query has read, as it is in Spark's offset log: ``{"files": {"0": {…}}}``.

A modification time says nothing about when a file appeared: a copy keeps the old one, a large upload carries the one
of its beginning. So the files themselves are remembered, by a hash of 8 bytes. Of files beyond :data:`REMEMBERED` only
the ``horizon`` is kept, below which everything counts as read, and how many files stood there: one more tells that a
file came too late, which is refused rather than passed over.

Inside: ``n`` (number of the position, to tell that one follows another), ``seen``, ``horizon`` and ``older``, and
``batch``, the files between the position before and this one. Two positions are
the same place exactly if their JSON is.
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
"""Files that are remembered one by one; half of them are forgotten when there are more."""
HASH_BYTES = 8
JsonOffset = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A place in the files of an entity.

    Attributes:
        number: of the position, 0 at the beginning.
        seen: hashes of the names of files that were read.
        horizon: nanoseconds; files modified before are read too.
        older: number of files before the horizon when it was set.
        batch: files read since the position before.
        at_end: begin with files that arrive from now on; only of the first position.
    """

    number: int = 0
    seen: frozenset[bytes] = frozenset()
    horizon: int = 0
    older: int = 0
    batch: tuple[FileFacts, ...] = ()
    at_end: bool = False

    def unread(self, listing: Iterable[FileFacts], entity: str) -> list[FileFacts]:
        """Files that were not read yet, oldest first.

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
        """The position after all present files, without reading them."""
        hashes = frozenset(hash_of(file.path) for file in listing)
        if len(hashes) <= REMEMBERED:
            return FilePosition(self.number + 1, hashes)
        return self._shortened(hashes, (), listing)

    def _shortened(
        self, hashes: frozenset[bytes], batch: tuple[FileFacts, ...], listing: Sequence[FileFacts]
    ) -> FilePosition:
        """Only the newer half is remembered; what is not read yet stays behind the horizon."""
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
        """What :meth:`json` wrote.

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
    """The number of a position, without reading the rest."""
    try:
        return int(offset["files"]["0"]["n"])
    except (KeyError, TypeError, ValueError) as mismatch:
        raise error("FILES_OFFSET_INVALID", offset=str(offset)[:200]) from mismatch


def hash_of(path: str) -> bytes:
    """What is remembered of a name."""
    return hashlib.blake2b(path.encode(), digest_size=HASH_BYTES).digest()
