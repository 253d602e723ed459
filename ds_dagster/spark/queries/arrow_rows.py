"""The rows of a batch as Arrow while the batch is computed, from the stream that ``DataFrame.toArrow`` collects.

Spark sends the rows of each task when it ends, in a thread that plans tasks for all queries. So that thread must not
wait for a slow table: a thread of ours takes the rows at once, and keeps them in a :class:`Backlog`.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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
        self._is_read = self._is_dropped = self._is_ended = False
        self._taken = 0
        self._sent: int | None = None
        port, secret, self._server = frame._jdf.collectAsArrowToPython()
        serializer = ArrowCollectSerializer()  # type: ignore[no-untyped-call]
        self._connection = ExitStack()
        self._incoming = self._connection.enter_context(_load_from_socket((port, secret), serializer))

    def few(self) -> pyarrow.Table | None:
        """All rows, in the order of the batch, if they are few; None: :meth:`parts` gives them.

        Raises:
            Exception: Spark's, if the batch fails.
        """
        size = 0
        try:
            for part in self._incoming:
                if not isinstance(part, pyarrow.RecordBatch):
                    self._sent = len(part)
                    self._ended()
                    ordered = [self._head[place].cast(self.schema) for place in part]
                    return pyarrow.Table.from_batches(ordered, self.schema)
                self._taken += 1
                self._head.append(part)
                size += part.nbytes
                if size > FEW_BYTES:
                    break
        except BROKEN as problem:
            self._fail(problem)
        self._backlog = Backlog(self._head[0].schema, BACKLOG_BYTES)
        self._taker = threading.Thread(target=self._take, args=(self._backlog,), name="ds-arrow-rows", daemon=True)
        self._taker.start()
        return None

    def parts(self) -> Iterator[pyarrow.RecordBatch]:
        """See ``catalog.reading.row_stream.RowStream``."""
        if self._is_read or self._backlog is None:
            raise error("INTERNAL", where="the rows of a batch were read twice")
        self._is_read = True
        for part in chain(self._head, self._backlog.parts()):
            self.num_rows += part.num_rows
            yield part.cast(self.schema)
        if self.failure is not None or self._taken != self._sent:
            self._fail(self.failure or error("INTERNAL", where="the rows of a batch were not read to their end"))
        self._ended()

    def finish(self) -> None:
        """Wait until the batch was computed; rows that were not read are dropped.

        Raises:
            Exception: Spark's, if the batch failed.
        """
        self._is_dropped = True
        if self._taker is not None:
            self._taker.join()
        if not self._is_ended:
            self._ended()

    def close(self) -> None:
        """As :meth:`finish`, but raises nothing; gives back memory, file and connection."""
        with suppress(*SPARK_ERRORS):
            self.finish()
        if self._backlog is not None:
            self._backlog.close()
        self._connection.close()

    def _take(self, backlog: Backlog) -> None:
        """Take the rows from Spark until it has sent all, also those that nobody reads."""
        try:
            for part in self._incoming:
                if not isinstance(part, pyarrow.RecordBatch):
                    self._sent = len(part)
                elif not self._is_dropped and self.failure is None:
                    self._keep(backlog, part)
        except BROKEN as problem:
            self.failure = self.failure or problem
        finally:
            backlog.end()

    def _keep(self, backlog: Backlog, part: pyarrow.RecordBatch) -> None:
        try:
            backlog.put(part)
            self._taken += 1
        except OSError as problem:
            self.failure = problem

    def _ended(self) -> None:
        """Spark's answer to the whole batch: what its tasks have sent is complete only if there is no failure."""
        self._is_ended = True
        try:
            with unwrap_spark_exception():
                self._server.getResult()
        except SPARK_ERRORS as problem:
            self.failure = problem
            raise

    def _fail(self, problem: Exception) -> None:
        """Raise Spark's failure, which explains that of the connection, or else ``problem``."""
        self._ended()
        self.failure = problem
        raise problem


@contextmanager
def arrow_rows(frame: DataFrame) -> Iterator[ArrowRows]:
    """The rows of a batch. Leaving waits for the end of the batch: its state must be complete.

    Raises:
        Exception: Spark's, if the batch fails, whatever a loader makes of it.
    """
    rows = ArrowRows(frame)
    try:
        yield rows
        rows.finish()
    finally:
        rows.close()
        if rows.failure is not None:
            raise rows.failure from None
