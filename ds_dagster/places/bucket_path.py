"""Paths in a bucket, with the methods of ``pathlib.Path`` that checkpoints need.

A folder exists while an object is below it. Nothing can be renamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ds_dagster.places.bucket import Bucket


@dataclass(frozen=True, slots=True)
class BucketPath:
    """An object or a folder. ``key``: without a slash at its ends; empty for the bucket itself."""

    bucket: Bucket
    key: str

    def __truediv__(self, name: str) -> BucketPath:
        return BucketPath(self.bucket, f"{self.key}/{name}" if self.key else name)

    def __str__(self) -> str:
        """The address as Hadoop reads it."""
        return f"s3a://{self.bucket.address.name}/{self.key}"

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> BucketPath:
        """The folder around it."""
        return BucketPath(self.bucket, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> BucketPath:
        """Another path in the same folder."""
        return self.parent / name

    def iterdir(self) -> Iterator[BucketPath]:
        """Objects and folders directly below."""
        return (self / name for name in self.bucket.names(self._below))

    def is_dir(self) -> bool:
        """Whether anything is below."""
        return next(iter(self.bucket.listed(self._below)), None) is not None

    def is_file(self) -> bool:
        """Whether it is an object."""
        return next((key for key, _ in self.bucket.listed(self.key)), None) == self.key

    def exists(self) -> bool:
        """Whether it is an object or a folder."""
        return self.is_file() or self.is_dir()

    def read_bytes(self) -> bytes:
        """The content.

        Raises:
            FileNotFoundError: there is no such object.
        """
        answer = self.bucket.read(self.key)
        if answer is None:
            raise FileNotFoundError(str(self))
        return answer[0]

    def read_text(self, encoding: str = "utf-8") -> str:
        """The content as text. Raises: as :meth:`read_bytes`."""
        return self.read_bytes().decode(encoding)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the object.

        Raises:
            FileNotFoundError: there is no such object, without ``missing_ok``.
        """
        if not missing_ok and not self.is_file():
            raise FileNotFoundError(str(self))
        self.bucket.delete([self.key])

    def files(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Parts of the path below this one, and size, of each object at any depth."""
        start = len(self._below)
        for key, size in self.bucket.listed(self._below):
            if key[start:] and not key.endswith("/"):  # a key with a slash is the marker of a folder
                yield tuple(key[start:].split("/")), size

    def delete_all(self) -> None:
        """Remove everything below."""
        self.bucket.delete([key for key, _ in self.bucket.listed(self._below)])

    @property
    def _below(self) -> str:
        return f"{self.key}/" if self.key else ""
