"""The Spark side of the file source: which files make a batch, and their rows."""
# ruff: noqa: N802, ARG002 -- names and arguments of these methods are Spark's

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ds_dagster.errors import error
from ds_dagster.files.address import FileFacts, FileStore
from ds_dagster.files.groups import BATCH_BYTES, groups_of
from ds_dagster.files.position import FilePosition, JsonOffset, number_of
from ds_dagster.spark.crossing import crosses
from ds_dagster.spark.files.once import FilesBatchReader
from ds_dagster.spark.files.options import FilesOptions
from ds_dagster.spark.files.tasks import ROW_DDL, rows_of, tasks_of


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

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads given files once; raises PROPERTY_INVALID."""
        return FilesBatchReader(FilesOptions.parse(self.options))

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
        return [InputPartition(files) for files in tasks_of(after.batch)]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Does nothing: files are not moved or deleted after they are read."""

    # -- in a task ------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files.

        Raises:
            UserError: FILE_GONE, FILE_CHANGED, FILE_UNREADABLE, or an error of the store.
        """
        yield from rows_of(self._options, self._store, partition.value)

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

    def _next_batch(self) -> tuple[FileFacts, ...]:
        batch = next(groups_of(self._waiting, BATCH_BYTES, self._options.files_per_batch))
        self._waiting = self._waiting[len(batch) :]
        return batch

    def _give(self, position: FilePosition) -> JsonOffset:
        self._position = position
        return position.json()
