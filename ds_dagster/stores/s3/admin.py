"""Control of a folder or bucket of files: probe, describe and list entities, print rows."""

# ruff: noqa: ARG002 - every admin takes the arguments of the one protocol

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult, RawRecord
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.files.address import FileFacts, FilesAddress, FileStore
from ds_dagster.files.rows import Family, FileFormat, read_rows
from ds_dagster.stores.probing import probed

LOOK_SECONDS = 1.0
FORMATS: Mapping[str, str] = MappingProxyType(
    {".jsonl": "json", ".json": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}
)
"""Suffix in a file's name → format of its rows; other files are skipped."""


class S3Admin:
    """See ``catalog.store.StoreAdmin``."""

    def __init__(self, address: FilesAddress) -> None:
        self.address = address
        self.store = FileStore(address)

    def __repr__(self) -> str:
        return f"S3Admin({self.address.store}, {self.address.url})"

    def probe(self) -> ProbeResult:
        """Whether the folder or bucket can be reached and listed."""

        def attempt() -> str:
            self.store.check_root()
            return f"{len(self.store.folders(self.address.root))} folders at {self.address.url}"

        return probed(attempt)

    def describe(self, entity: str) -> EntityFacts | None:
        """A folder with files, None if it has none; its settings: number of files, number of bytes, newest modification
        time (epoch ms)."""
        facts = self.ensured(entity)
        return facts if facts.settings else None

    def ensured(self, entity: str) -> EntityFacts:
        """As :meth:`describe`, without settings for a folder without files."""
        files = list(self.store.listed(self.address.place(entity)))
        if not files:
            return EntityFacts(entity, record_time="producer")
        settings = {
            "files": str(len(files)),
            "bytes": str(sum(file.size for file in files)),
            "newest": str(max(file.modified for file in files) // 1_000_000),
        }
        return EntityFacts(entity, settings=MappingProxyType(settings), record_time="producer")

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Check that the place can be reached; create a local folder. A folder in a bucket exists with its first file.

        Raises:
            UserError: STORE_BUCKET_MISSING, STORE_FOLDER_INVALID, STORE_PERMISSION_DENIED.
        """
        self.store.check_root()
        if self.address.is_local:
            self.store.make_folder(self.address.place(plan.name))
        return EntityFacts(plan.name, record_time="producer")

    def entities(self) -> Sequence[EntityFacts]:
        """Folders directly below the store's, by name."""
        return [EntityFacts(name, record_time="producer") for name in self.store.folders(self.address.root)]

    def records(
        self,
        entity: str,
        *,
        from_beginning: bool,
        limit: int | None,
        stopped: Callable[[], bool],
        since: int | None = None,
    ) -> Iterator[RawRecord]:
        """Rows as JSON, oldest file first, then the rows of new files until ``stopped`` or ``limit``; ``since`` is
        ignored."""
        place = self.address.place(entity)
        old_paths = set() if from_beginning else {file.path for file in self.store.listed(place)}
        count = 0
        while not stopped():
            for file in sorted(self.store.listed(place)):
                if file.path in old_paths:
                    continue
                old_paths.add(file.path)
                for record in self.rows(place, file):
                    if limit is not None and count >= limit:
                        return
                    yield record
                    count += 1
            if limit is not None and count >= limit:
                return
            _wait(stopped)

    def end_reached(self, entity: str, positions: Mapping[str, str]) -> int:
        """Always 0: unread rows cannot be counted without reading them."""
        return 0

    def operations(self) -> EntityOperations:
        """Folders and files."""
        from ds_dagster.stores.s3.entities import FilesEntities

        return FilesEntities(self)

    def close(self) -> None:
        """Nothing is open."""

    def rows(self, place: str, file: FileFacts) -> Iterator[RawRecord]:
        """Rows of a file as JSON; no rows of a file whose name has no known format."""
        format_ = format_of(file.path)
        if not format_:
            return
        at = f"{place}/{file.path}"
        with self.store.guarded("read a file", at):
            columns = self._columns(at, format_)
            with self._opened(at, format_) as source:
                for first, texts in read_rows(source, file.path, FileFormat(format_, columns)):
                    for number, text in enumerate(texts, first):
                        yield RawRecord(file.path, str(number), file.modified // 1_000_000, None, text)

    def _opened(self, place: str, format_: str) -> Any:
        system = self.store.system()
        if format_ == "parquet":
            return system.open_input_file(place)
        return system.open_input_stream(place, compression="detect")

    def _columns(self, place: str, format_: str) -> Mapping[str, Family]:
        """The file's own columns, all as text, since the relation is not known here."""
        if format_ == "json":
            return {}
        with self._opened(place, format_) as source:
            if format_ == "parquet":
                from pyarrow import parquet

                return dict.fromkeys(parquet.read_schema(source).names, "text")
            from pyarrow import csv

            return dict.fromkeys(csv.open_csv(source).schema.names, "text")


def format_of(path: str) -> str:
    """The format by the name of a file, empty if unknown."""
    return next((FORMATS[suffix] for suffix in reversed(PurePosixPath(path).suffixes) if suffix in FORMATS), "")


def _wait(stopped: Callable[[], bool]) -> None:
    """Wait until the next listing, in short steps that check ``stopped``."""
    until = time.monotonic() + LOOK_SECONDS
    while not stopped() and time.monotonic() < until:
        time.sleep(0.05)
