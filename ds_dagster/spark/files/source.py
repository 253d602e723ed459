"""The Spark side of the file source: which files make a batch, and their rows."""
# ruff: noqa: N802, ARG002 -- names and arguments of these methods are Spark's

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ds_dagster.errors import error
from ds_dagster.files.address import FileFacts, FileStore
from ds_dagster.files.rows import read_rows
from ds_dagster.spark.crossing import crosses
from ds_dagster.spark.files.options import FilesOptions
from ds_dagster.spark.files.position import FilePosition, JsonOffset, number_of

ROW_DDL = "value BINARY, timestamp TIMESTAMP, file STRING, row BIGINT"
SCHEMA = pa.schema(
    [
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("file", pa.string()),
        pa.field("row", pa.int64()),
    ]
)
BATCH_BYTES = 128 * 1024 * 1024
"""Most bytes of files in one batch; a larger file is a batch of its own."""
TASK_BYTES = 16 * 1024 * 1024
"""Most bytes of files in one task; a larger file is a task of its own."""
TASK_FILES = 200


@crosses
class FilesDataSource(DataSource):
    """``ds_files``: rows of the files in one folder, as JSON. Options: ``FilesOptions``."""

    @classmethod
    def name(cls) -> str:
        """Name for ``spark.readStream.format``."""
        return "ds_files"

    def schema(self) -> str:
        """Columns of the source."""
        return ROW_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The streaming source; raises PROPERTY_INVALID."""
        return FilesStreamReader(FilesOptions.parse(self.options))


@crosses
class FilesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader of one folder.

    Spark creates one in the process that plans batches, where it caches the last listing, and sends copies to tasks,
    which only call ``read``.
    """

    def __init__(self, options: FilesOptions) -> None:
        self._options = options
        self._store = FileStore(options.address)
        self._position: FilePosition | None = None
        self._listing: list[FileFacts] = []
        self._waiting: list[FileFacts] = []
        self._listed_at = float("-inf")
        self._is_frozen = False

    def __reduce__(self) -> tuple[object, ...]:
        return (FilesStreamReader, (self._options,))

    # -- planning -------------------------------------------------------------------------------------------------

    def initialOffset(self) -> JsonOffset:
        """Position at which a query without a checkpoint begins."""
        return FilePosition(at_end=self._options.starting_position == "latest").json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """No limit from Spark; the source has its own limits."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """List the files: a finite run reads only files that exist now."""
        self._list()
        self._is_frozen = True

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> JsonOffset:
        """End of the next batch; equal to ``start`` if there are no new files, or it is too early to list again.

        Raises:
            UserError: FILE_TOO_LATE, or an error of the store.
            ExternalError: STORE_UNREACHABLE.
        """
        position = self._standing(start)
        if position.at_end:
            # an empty first batch records the existing files in the checkpoint
            self._list()
            return self._give(position.at_end_of(self._listing))
        if not self._waiting and not self._is_frozen:
            if time.monotonic() - self._listed_at < self._options.discovery_seconds:
                return self._give(position)
            self._list()
            self._waiting = position.unread(self._listing, self._options.entity)
        if not self._waiting:
            return self._give(position)
        batch = self._next_batch()
        return self._give(position.after(batch, self._listing))

    def reportLatestOffset(self) -> JsonOffset | None:
        """The last offset; while files wait, an offset that differs from it. None before the first listing."""
        if self._position is None:
            return None
        return {"files": {"0": {"waiting": len(self._waiting)}}} if self._waiting else self._position.json()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """The files of a batch, grouped into tasks.

        Raises:
            InternalError: FILES_OFFSET_INVALID, if ``end`` does not follow ``start``.
        """
        before, after = number_of(start), FilePosition.parse(end)
        if after.number == before:
            return []
        if after.number != before + 1:
            raise error("FILES_OFFSET_INVALID", offset=f"{before} to {after.number}")
        return [InputPartition(files) for files in _grouped(after.batch)]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Does nothing: files are not moved or deleted after they are read."""

    # -- in a task ------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files.

        Raises:
            UserError: FILE_GONE, FILE_CHANGED, FILE_UNREADABLE, or an error of the store.
        """
        for file in partition.value:
            yield from self._rows(file)

    def _rows(self, file: FileFacts) -> Iterator[pa.RecordBatch]:
        place = f"{self._options.place}/{file.path}"
        size = self._store.size(place)
        if size is None:
            raise error("FILE_GONE", entity=self._options.entity, file=file.path)
        if size != file.size:
            raise error("FILE_CHANGED", entity=self._options.entity, file=file.path, before=file.size, now=size)
        modified = pa.scalar(file.modified // 1000, pa.timestamp("us", "UTC"))
        with self._store.guarded("read a file", place), self._opened(place) as source:
            for first, texts in read_rows(source, file.path, self._options.format):
                count = len(texts)
                columns = [
                    pa.array(texts, pa.binary()),
                    pa.repeat(modified, count),
                    pa.repeat(pa.scalar(file.path), count),
                    pa.array(range(first, first + count), pa.int64()),
                ]
                yield from pa.Table.from_arrays(columns, schema=SCHEMA).to_batches(20_000)

    def _opened(self, place: str) -> Any:
        system = self._store.system()
        if self._options.format.name == "parquet":
            return system.open_input_file(place)
        return system.open_input_stream(place, compression="detect")

    # -- inside ---------------------------------------------------------------------------------------------------

    def _standing(self, start: Mapping[str, Any]) -> FilePosition:
        """The position of an offset; after a restart, waiting files are listed again."""
        if self._position is not None and self._position.number == number_of(start):
            return self._position
        position = FilePosition.parse(start)
        self._waiting = []
        if self._is_frozen and not position.at_end:
            self._waiting = position.unread(self._listing, self._options.entity)
        else:
            self._listed_at = float("-inf")
        return position

    def _list(self) -> None:
        self._listing = list(self._store.listed(self._options.place))
        self._listed_at = time.monotonic()

    def _next_batch(self) -> list[FileFacts]:
        batch: list[FileFacts] = []
        size = 0
        for file in self._waiting[: self._options.files_per_batch]:
            if batch and size + file.size > BATCH_BYTES:
                break
            batch.append(file)
            size += file.size
        self._waiting = self._waiting[len(batch) :]
        return batch

    def _give(self, position: FilePosition) -> JsonOffset:
        self._position = position
        return position.json()


def _grouped(files: Sequence[FileFacts]) -> list[tuple[FileFacts, ...]]:
    """Fill tasks in order until each has about :data:`TASK_BYTES`."""
    groups: list[tuple[FileFacts, ...]] = []
    current: tuple[FileFacts, ...] = ()
    size = 0
    for file in files:
        if current and (size + file.size > TASK_BYTES or len(current) == TASK_FILES):
            groups.append(current)
            current, size = (), 0
        current = (*current, file)
        size += file.size
    return [*groups, current] if current else groups
