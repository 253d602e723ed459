"""Writers for the batches of one sink: Spark's own writer of a format, the loader of a table or view, or a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.catalog.io_spec import (
    BatchLoader,
    LoadResult,
    Resolver,
    RowText,
    SinkIdentity,
    TableTarget,
    WriteSpec,
    open_loader,
)
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.reading.row_stream import StreamLoader
from ds_dagster.catalog.relation import TimestampFormat
from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import Part
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.queries.arrow_rows import arrow_rows
from ds_dagster.spark.queries.checkpoint_tip import batch_tip
from ds_dagster.spark.queries.progress import counted
from ds_dagster.spark.queries.sink_account import Account
from ds_dagster.spark.queries.sources import register_provider, resolved
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import field
from ds_dagster.spark.records.json_output import json_row, json_value
from ds_dagster.spark.session import active

if TYPE_CHECKING:
    import pyarrow

Capture = Callable[[DataFrame, int], None]
_ROW = "__row"


class SinkWriter(Protocol):
    """Writes the batches of one sink.

    Attributes:
        failure: error of the last batch, or None; Spark keeps only its text.
    """

    failure: DsError | None

    def settle(self, account: Account) -> None:
        """Compare the sink with the checkpoint; called before the first batch.

        Raises:
            DsError: the sink fails, or does not fit the checkpoint.
        """

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Write one batch exactly once."""


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One sink of a query.

    Attributes:
        part: the query's part that fills the sink.
        write: write spec of its entity.
        identity: identity of the writing job.
        writer: writes its batches.
        frame: the rows to write.
    """

    part: Part
    write: WriteSpec
    identity: SinkIdentity
    writer: SinkWriter
    frame: DataFrame

    def rows(self) -> DataFrame:
        """Its rows for ``foreachBatch``; rows of a stream are counted, loaders of tables count by themselves."""
        return counted(self.frame, self.part.name) if isinstance(self.writer, StreamWriter) else self.frame


class StreamWriter:
    """Writes records with Spark's own writer of the format. Spark calls that writer itself (see
    :attr:`PreparedQuery.native`), or this object does so for every batch.

    Attributes:
        options: options of the sink with resolved references; they hold secrets and are never shown.
        entities: sources and sinks of the query, for messages.
    """

    def __init__(self, write: WriteSpec, identity: SinkIdentity, options: Mapping[str, str], entities: str) -> None:
        self.write = write
        self.identity = identity
        self.options = options
        self.entities = entities
        self.failure: DsError | None = None

    def settle(self, account: Account) -> None:
        """See :class:`SinkWriter`; raises as :meth:`Account.settle`."""
        self.options = account.settle(self.write, self.identity, self.options)

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Write one batch; a transactional format gets its number."""
        options = {**self.options, "epoch": str(epoch)} if self.write.transactional else dict(self.options)
        session = batch.sparkSession
        try:
            with active(session):
                register_provider(session, self.write.provider)
                batch.write.format(self.write.format).options(**options).mode("append").save()
        except SPARK_ERRORS as problem:
            self.failure = classify(problem, self.entities)
            raise


class CaptureWriter:
    """Passes batches to a test."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.failure: DsError | None = None

    def settle(self, account: Account) -> None:
        """Does nothing: a test has no ledger."""

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Pass one batch to the test."""
        self.capture(batch, epoch)


class BatchWriter:
    """Collects every micro-batch and passes it to its loader, which applies it exactly once.

    There is one action per batch: a second one would run the stateful plan twice. An empty batch is computed too, since
    its state must be committed.

    Attributes:
        streams: the loader takes the rows of a large batch while others are computed.
        last: result of the last batch, None before the first.
        written: rows that all batches have loaded, without repeated batches.
    """

    def __init__(
        self,
        loader: BatchLoader,
        target: TableTarget,
        timestamp_format: TimestampFormat = "sql",
        *,
        streams: bool = False,
    ) -> None:
        self.loader = loader
        self.target = target
        self.timestamp_format = timestamp_format
        self.streams = streams
        self._is_planned = False
        self._tip_of: Callable[[int], Tip] = Tip
        self.failure: DsError | None = None
        self.last: LoadResult | None = None
        self.written = 0

    def settle(self, account: Account) -> None:
        """See :class:`SinkWriter`; raises as the loader."""
        self._tip_of = partial(batch_tip, account.session, account.checkpoint, account.sources)
        self.loader.prepare(account.tip)

    def planned(self, stream: DataFrame) -> DataFrame:
        """The stream in the form that the loader needs, converted in the stream's plan: a conversion of each batch
        would be analysed and planned every time. Unchanged if the last row of each key has to be found per batch."""
        if names.ORDER in stream.columns:
            return stream
        self._is_planned = True
        return table_rows(stream, self.target, self.timestamp_format)

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Load one batch.

        Raises:
            DsError: the loader fails; the batch fails, and the next start repeats it.
        """
        try:
            self.last = self._loaded(batch, self._tip_of(epoch))
            self.written += 0 if self.last.replayed else self.last.rows
        except (DsError, OSError, *SPARK_ERRORS) as problem:
            self.failure = classify(problem)
            raise

    def rows(self, batch: DataFrame) -> pyarrow.Table:
        """The target's columns in its order; for upserts also ``__deleted``, with at most one row per key."""
        return self._frame(batch).toArrow()

    def _frame(self, batch: DataFrame) -> DataFrame:
        return batch if self._is_planned else table_rows(batch, self.target, self.timestamp_format)

    def _loaded(self, batch: DataFrame, tip: Tip) -> LoadResult:
        if not (self.streams and isinstance(self.loader, StreamLoader)):
            return self.loader.load(self.rows(batch), tip)
        with arrow_rows(self._frame(batch)) as rows:
            few = rows.few()
            return self.loader.load_stream(rows, tip) if few is None else self.loader.load(few, tip)


def table_rows(batch: DataFrame, target: TableTarget, timestamp_format: TimestampFormat) -> DataFrame:
    """A batch in the form that its loader needs, still in Spark."""
    deletes = names.DELETED in batch.columns
    if target.mode == "append":
        live = batch.where(~sf.col(names.DELETED)) if deletes else batch
        return live.select(*_columns(target, timestamp_format))
    last = _last_of_each_key(batch, target) if names.ORDER in batch.columns else batch
    deleted = sf.col(names.DELETED) if deletes else sf.lit(False)
    return last.select(*_columns(target, timestamp_format), deleted.alias(names.DELETED))


def _columns(target: TableTarget, timestamp_format: TimestampFormat) -> list[Column]:
    """The target's columns; STRUCT, MAP and ARRAY as JSON text if the store has no such type."""
    if target.text is not None:
        return _row_text(target, target.text, timestamp_format)
    columns = []
    for column in target.columns:
        value = field(column.name)
        shown = json_value(value, column.type, timestamp_format) if column.as_json else value
        columns.append(shown.alias(column.name))
    return columns


def _row_text(target: TableTarget, text: RowText, timestamp_format: TimestampFormat) -> list[Column]:
    """The row as the text of a record, and the columns that are stored next to it."""
    inside = [column for column in target.columns if column.name not in text.beside]
    document = json_row([(column.name, field(column.name), column.type) for column in inside], timestamp_format)
    return [*[field(name) for name in text.beside], document.alias(text.name)]


def _last_of_each_key(batch: DataFrame, target: TableTarget) -> DataFrame:
    """The last row of each key by source position: rows of a key are in one partition, and ordered there."""
    carried = [name for name in batch.columns if name not in (names.PARTITION, names.ORDER)]
    newest = sf.max_by(sf.struct(*[field(name) for name in carried]), sf.struct(names.PARTITION, names.ORDER))
    grouped = batch.groupBy(*[field(name) for name in target.primary_key]).agg(newest.alias(_ROW))
    return grouped.select(*[sf.col(_ROW).getField(name).alias(name) for name in carried])


def sink_writer(
    part: Part,
    write: WriteSpec,
    identity: SinkIdentity,
    resolve: Resolver,
    loader: BatchLoader | None,
    capture: Capture | None,
    entities: str,
) -> SinkWriter:
    """The writer for the batches of a sink.

    Args:
        part, write, identity: of the sink.
        resolve: gives option values.
        loader: loader of a table in place of the store's loader (tests).
        capture: gets the records of a stream in place of its store (tests).
        entities: sources and sinks of the query, for messages.

    Raises:
        DsError: the loader's factory or the resolver fails.
    """
    if write.kind == "batch":
        if write.table is None:
            raise error("INTERNAL", where=f"a table sink without table: {write.entity}")
        into = loader or open_loader(write, identity, resolve)
        return BatchWriter(into, write.table, part.sink.event_time.format, streams=write.streams)
    if capture is not None:
        return CaptureWriter(capture)
    return StreamWriter(write, identity, sink_options(write, identity, resolve), entities)


def sink_options(write: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> Mapping[str, str]:
    """Options of a stream sink with resolved references; they may hold secrets.

    Raises:
        DsError: the resolver fails.
    """
    options = dict(resolved(write.options, resolve))
    if write.transactional:
        options |= {"transactional.id": identity.job, "marker.group": identity.ledger}
    return options
