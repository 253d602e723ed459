"""Given files as a Spark source that ends, for backfills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ds_dagster.catalog.reading.past import PACE_SECONDS
from ds_dagster.clock import Clock, SystemClock
from ds_dagster.files.address import FileFacts, FileStore
from ds_dagster.spark.crossing import crosses
from ds_dagster.spark.files.options import FilesOptions
from ds_dagster.spark.files.tasks import BATCH_ROWS, rows_of, tasks_of


@crosses
class FilesBatchReader(DataSourceReader):
    """Reads the files of ``options.files``. With a rate, one task reads all of them and pauses between rows."""

    def __init__(self, options: FilesOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock: Clock = clock or SystemClock()

    def __reduce__(self) -> tuple[object, ...]:
        return (FilesBatchReader, (self._options,))

    def partitions(self) -> Sequence[InputPartition]:
        """The files, grouped into tasks."""
        files = self._options.files
        groups = tasks_of(files) if self._options.rows_per_second is None else [files]
        return [InputPartition(group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files.

        Raises:
            UserError: FILE_GONE, FILE_CHANGED, FILE_UNREADABLE, or an error of the store.
        """
        files: Sequence[FileFacts] = partition.value
        store, rate = FileStore(self._options.address), self._options.rows_per_second
        if rate is None:
            yield from rows_of(self._options, store, files)
            return
        began, rows = self._clock.monotonic(), 0
        for batch in rows_of(self._options, store, files, max(1, min(BATCH_ROWS, round(rate * PACE_SECONDS)))):
            yield batch
            rows += batch.num_rows
            self._clock.sleep(max(0.0, began + rows / rate - self._clock.monotonic()))
