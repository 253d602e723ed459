"""Tables of test cases for lookups: rows that the runner has written into a file before it feeds a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ds_dagster.catalog.reading.wanted import EVERYTHING, Wanted

if TYPE_CHECKING:
    import pyarrow


def read_table(
    options: Mapping[str, str],
    path: tuple[str, ...],
    columns: tuple[tuple[str, str], ...],
    wanted: Wanted = EVERYTHING,
) -> Iterator[pyarrow.RecordBatch]:
    """See ``catalog.io_spec.TableReader``. Options: ``file``, an Arrow file of all columns."""
    import pyarrow as pa

    del path, wanted  # few rows: the caller compares them again
    if not Path(options["file"]).is_file():
        return
    with pa.ipc.open_file(options["file"]) as reader:
        yield from reader.read_all().select([name for name, _ in columns]).to_batches()


def count_rows(options: Mapping[str, str], path: tuple[str, ...], wanted: Wanted) -> int:
    """Number of rows; ``wanted`` is ignored."""
    return sum(batch.num_rows for batch in read_table(options, path, (), wanted))
