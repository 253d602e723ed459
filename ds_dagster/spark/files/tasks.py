"""Files of a task and their rows, as Spark gets them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from ds_dagster.errors import error
from ds_dagster.files.address import FileFacts, FileStore
from ds_dagster.files.groups import groups_of
from ds_dagster.files.rows import read_rows
from ds_dagster.spark.files.options import FilesOptions

ROW_DDL = "value BINARY, timestamp TIMESTAMP, file STRING, row BIGINT"
SCHEMA = pa.schema(
    [
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("file", pa.string()),
        pa.field("row", pa.int64()),
    ]
)
TASK_BYTES = 16 * 1024 * 1024
"""Most bytes of files in one task; a larger file is a task of its own."""
TASK_FILES = 200
BATCH_ROWS = 20_000
"""Most rows that Spark gets at once."""


def tasks_of(files: Sequence[FileFacts]) -> list[tuple[FileFacts, ...]]:
    """Fill tasks in order until each has about :data:`TASK_BYTES`."""
    return list(groups_of(files, TASK_BYTES, TASK_FILES))


def rows_of(
    options: FilesOptions, store: FileStore, files: Iterable[FileFacts], most: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """The rows of some files.

    Args:
        options: of the source.
        store: of the files.
        files: below the folder of the source.
        most: most rows of one batch.

    Raises:
        UserError: FILE_GONE, FILE_CHANGED, FILE_UNREADABLE, or an error of the store.
    """
    for file in files:
        yield from _rows(options, store, file, most)


def _rows(options: FilesOptions, store: FileStore, file: FileFacts, most: int) -> Iterator[pa.RecordBatch]:
    place = f"{options.place}/{file.path}"
    size = store.size(place)
    if size is None:
        raise error("FILE_GONE", entity=options.entity, file=file.path)
    if size != file.size:
        raise error("FILE_CHANGED", entity=options.entity, file=file.path, before=file.size, now=size)
    modified = pa.scalar(file.modified // 1000, pa.timestamp("us", "UTC"))
    with store.guarded("read a file", place), _opened(options, store, place) as source:
        for first, texts in read_rows(source, file.path, options.format):
            count = len(texts)
            columns = [
                pa.array(texts, pa.binary()),
                pa.repeat(modified, count),
                pa.repeat(pa.scalar(file.path), count),
                pa.array(range(first, first + count), pa.int64()),
            ]
            yield from pa.Table.from_arrays(columns, schema=SCHEMA).to_batches(most)


def _opened(options: FilesOptions, store: FileStore, place: str) -> Any:
    system = store.system()
    if options.format.name == "parquet":
        return system.open_input_file(place)
    return system.open_input_stream(place, compression="detect")
