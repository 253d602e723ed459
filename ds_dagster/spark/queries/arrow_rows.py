"""The rows of a batch as Arrow while the batch is computed, from the stream that ``DataFrame.toArrow`` collects.

Spark sends the rows of each task when it ends, in a thread that plans tasks for all queries. So that thread must not
wait for a slow table: a thread of ours takes the rows at once, and keeps them in a :class:`Backlog`.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.util import _load_from_socket

from ds_dagster.errors import error
from ds_dagster.spark.faults import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW_BYTES = 4_000_000
"""Batches up to this size are collected before they are loaded, in a transaction that is as short as can be."""
BACKLOG_BYTES = 256_000_000
"""Most bytes of a batch that wait in memory for its loader; others wait in a file."""
BROKEN = (OSError, EOFError, pyarrow.ArrowException, *SPARK_ERRORS)
"""Exceptions of a connection to Spark that ends too early. An end without one is noticed too: Spark says at last how
many parts it has sent."""
LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"


class Backlog:
    """Rows between the thread that takes them from Spark and the thread that loads them.

    Attributes:
        limit: bytes in memory from which rows are kept in a file.
    """

    def __init__(self, schema: pyarrow.Schema, limit: int) -> None:
        self.schema = schema
        self.limit = limit
        self._waiting: SimpleQueue[pyarrow.RecordBatch | tuple[int, int] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._bytes = 0
        self._file: Any = None

    def put(self, part: pyarrow.RecordBatch) -> None:
        """Add rows; never waits.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            is_kept = self._bytes + part.nbytes <= self.limit
            self._bytes += part.nbytes if is_kept else 0
        self._waiting.put(part if is_kept else self._written(part))

    def end(self) -> None:
        """Add the end."""
        self._waiting.put(None)

    def parts(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows in the order of :meth:`put`, up to the end.

        Raises:
            OSError: the file cannot be read.
        """
        while (waiting := self._waiting.get()) is not None:
            if isinstance(waiting, tuple):
                yield self._read(*waiting)
                continue
            yield waiting
            with self._lock:
                self._bytes -= waiting.nbytes

    def close(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()

    def _written(self, part: pyarrow.RecordBatch) -> tuple[int, int]:
        """Place and length in the file."""
        message = part.serialize()
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="ds-batch-")  # noqa: SIM115, closed with the backlog
            place = self._file.seek(0, 2)
            self._file.write(message)
        return place, message.size

    def _read(self, place: int, length: int) -> pyarrow.RecordBatch:
        with self._lock:
            self._file.seek(place)
            message = self._file.read(length)
        return pyarrow.ipc.read_record_batch(pyarrow.py_buffer(message), self.schema)


class ArrowRows:
    """See ``catalog.reading.row_stream.RowStream``; made by :func:`arrow_rows`.

    Attributes:
        schema: as of ``DataFrame.toArrow``.
        num_rows: number of rows that :meth:`parts` has given.
        failure: why the batch failed; None if it did not.
    """

    def __init__(self, frame: DataFrame) -> None:
        self.schema = to_arrow_schema(
            frame.schema,
            error_on_duplicated_field_names_in_struct=True,
            timezone="UTC",
            prefers_large_types=frame.sparkSession.conf.get(LARGE_TYPES) == "true",
        )
        self.num_rows = 0
        self.failure: Exception | None = None
        self._head: list[pyarrow.RecordBatch] = []
        self._backlog: Backlog | None = None
        self._taker: threading.Thread | None = None
        self._order: list[int] | None = None
        self._is_read = self._is_dropped = self._is_ended = False
        port, secret, self._server = frame._jdf.collectAsArrowToPython()
        serializer = ArrowCollectSerializer()  # type: ignore[no-untyped-call]
        self._connection = ExitStack()
        self._arriving = self._received(self._connection.enter_context(_load_from_socket((port, secret), serializer)))

    def few(self) -> pyarrow.Table | None:
        """All rows, in the order of the batch, if they are few; None: :meth:`parts` gives them.

        Raises:
            Exception: Spark's, if the batch fails.
        """
        size = 0
        try:
            for part in self._arriving:
                self._head.append(part)
                size += part.nbytes
                if size > FEW_BYTES:
                    self._begin_taking()
                    return None
        except BROKEN as problem:
            self.failure = problem
        self._check()
        ordered = [self._head[place].cast(self.schema) for place in self._order or ()]
        return pyarrow.Table.from_batches(ordered, self.schema)

    def parts(self) -> Iterator[pyarrow.RecordBatch]:
        """See ``catalog.reading.row_stream.RowStream``."""
        if self._is_read or self._backlog is None:
            raise error("INTERNAL", where="the rows of a batch were read twice")
        self._is_read = True
        number = 0
        for part in chain(self._head, self._backlog.parts()):
            number += 1
            self.num_rows += part.num_rows
            yield part.cast(self.schema)
        if self.failure is None and (self._order is None or number != len(self._order)):
            self.failure = error("INTERNAL", where="the rows of a batch were not read to their end")
        self._check()

    def close(self) -> None:
        """Wait until the batch was computed, without the rows that were not read; :attr:`failure` says how it ended.
        Gives back memory, file and connection."""
        self._is_dropped = True
        if self._taker is not None:
            self._taker.join()
        self._ask()
        if self._backlog is not None:
            self._backlog.close()
        self._connection.close()

    def _received(self, incoming: Iterator[Any]) -> Iterator[pyarrow.RecordBatch]:
        """The parts as Spark sends them; behind the last one it sends their order."""
        for part in incoming:
            if isinstance(part, pyarrow.RecordBatch):
                yield part
            else:
                self._order = part

    def _begin_taking(self) -> None:
        self._backlog = Backlog(self._head[0].schema, BACKLOG_BYTES)
        self._taker = threading.Thread(target=self._take, args=(self._backlog,), name="ds-arrow-rows", daemon=True)
        self._taker.start()

    def _take(self, backlog: Backlog) -> None:
        """Take the rows from Spark until it has sent all, also those that nobody reads."""
        try:
            for part in self._arriving:
                if not self._is_dropped and self.failure is None:
                    self._keep(backlog, part)
        except BROKEN as problem:
            self.failure = self.failure or problem
        finally:
            backlog.end()

    def _keep(self, backlog: Backlog, part: pyarrow.RecordBatch) -> None:
        """Keep a part; a disk without space ends the batch, not the taking."""
        try:
            backlog.put(part)
        except OSError as problem:
            self.failure = problem

    def _ask(self) -> None:
        """Ask Spark once how the batch ended: its failure explains that of the connection."""
        if self._is_ended:
            return
        self._is_ended = True
        try:
            with unwrap_spark_exception():
                self._server.getResult()
        except SPARK_ERRORS as problem:
            self.failure = problem

    def _check(self) -> None:
        """Raise the failure of the batch: what its tasks have sent is complete only without one."""
        self._ask()
        if self.failure is not None:
            raise self.failure


@contextmanager
def arrow_rows(frame: DataFrame) -> Iterator[ArrowRows]:
    """The rows of a batch. Leaving waits for the end of the batch, whose state must be complete.

    Raises:
        Exception: Spark's, if the batch fails, whatever a loader makes of it.
    """
    rows = ArrowRows(frame)
    try:
        yield rows
    finally:
        rows.close()
        if rows.failure is not None:
            raise rows.failure from None
