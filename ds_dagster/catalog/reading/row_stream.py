"""Batches whose rows arrive while they are computed, and loaders that take them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ds_dagster.catalog.io_spec import LoadResult
from ds_dagster.catalog.ledger import Tip

if TYPE_CHECKING:
    import pyarrow


class RowStream(Protocol):
    """Rows of one batch, as its tasks end; in no order."""

    @property
    def schema(self) -> pyarrow.Schema:
        """Columns of every part."""

    @property
    def num_rows(self) -> int:
        """Number of rows given so far; all of them when :meth:`parts` has ended."""

    def parts(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows, once. Ends only after the whole batch was computed.

        Raises:
            Exception: the batch fails, or was read before.
        """


@runtime_checkable
class StreamLoader(Protocol):
    """A loader that writes the rows of a large batch while others are computed (``WriteSpec.streams``)."""

    def load_stream(self, rows: RowStream, batch: Tip) -> LoadResult:
        """As ``BatchLoader.load``, but the transaction is open while rows are computed, and conflicts with other
        sessions are not retried: rows that were written are gone. Rows that were not read need not be read.

        Raises:
            UserError, ExternalError: as ``BatchLoader.load``; those of the batch if it fails.
        """
