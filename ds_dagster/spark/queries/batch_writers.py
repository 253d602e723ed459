"""What takes the batches of one sink: Spark's own writer of a format, the loader of a table or view, or a test."""

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
from ds_dagster.catalog.relation import TimestampFormat
from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import Part
from ds_dagster.spark.faults import SPARK_ERRORS, classify
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
    """Takes the batches of one sink.

    Attributes:
        failure: error of the last batch; Spark keeps only its text.
    """

    failure: DsError | None

    def settle(self, account: Account) -> None:
        """Before the first batch: hold the sink against the checkpoint.

        Raises:
            DsError: of the sink.
        """

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Write one batch, once."""


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One sink of a query.

    Attributes:
        part: that fills it.
        write: spec of its entity.
        identity: who writes it.
        writer: takes its batches.
        frame: the rows it writes.
    """

    part: Part
    write: WriteSpec
    identity: SinkIdentity
    writer: SinkWriter
    frame: DataFrame

    def rows(self) -> DataFrame:
        """What it gets by ``foreachBatch``, counted on its way into a stream; loaders of tables count by themselves."""
        return counted(self.frame, self.part.name) if isinstance(self.writer, StreamWriter) else self.frame


class StreamWriter:
    """Writes records by Spark's own writer of the format, which this calls with every batch unless Spark does itself.

    Attributes:
        options: of the sink, references resolved: secrets, never shown.
    """

    def __init__(self, write: WriteSpec, identity: SinkIdentity, options: Mapping[str, str], entities: str) -> None:
        self.write = write
        self.identity = identity
        self.options = options
        self.entities = entities
        self.failure: DsError | None = None

    def settle(self, account: Account) -> None:
        """See :class:`SinkWriter`; what :meth:`Account.settle` raises."""
        self.options = account.settle(self.write, self.identity, self.options)

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Write one batch; the format gets its number."""
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
    """Hands a batch to a test."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.failure: DsError | None = None

    def settle(self, account: Account) -> None:
        """A test has no ledger."""

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """One batch."""
        self.capture(batch, epoch)


class BatchWriter:
    """Collects every micro-batch once and hands it to its loader, which applies it exactly once.

    One action per batch: a second one would run the stateful plan twice. An empty batch is computed too, since state
    has to be committed.

    Attributes:
        last: outcome of the last batch.
        written: rows loaded by all batches.
    """

    def __init__(self, loader: BatchLoader, target: TableTarget, timestamp_format: TimestampFormat = "sql") -> None:
        self.loader = loader
        self.target = target
        self.timestamp_format = timestamp_format
        self._is_planned = False
        self._tip_of: Callable[[int], Tip] = Tip
        self.failure: DsError | None = None
        self.last: LoadResult | None = None
        self.written = 0

    def settle(self, account: Account) -> None:
        """See :class:`SinkWriter`; what the loader raises."""
        self._tip_of = partial(batch_tip, account.session, account.checkpoint, account.sources)
        self.loader.prepare(account.tip)

    def planned(self, stream: DataFrame) -> DataFrame:
        """The stream of what batches are loaded as, where that can stand in its plan: a query on top of every batch
        would be analysed and planned anew each time. The last row of a key is one of a batch, so it has to wait."""
        if names.ORDER in stream.columns:
            return stream
        self._is_planned = True
        return table_rows(stream, self.target, self.timestamp_format)

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Load one batch.

        Raises:
            DsError: of the loader; the batch fails and is run again by the next start.
        """
        try:
            self.last = self.loader.load(self.rows(batch), self._tip_of(epoch))
            self.written += 0 if self.last.replayed else self.last.rows
        except (DsError, *SPARK_ERRORS) as problem:
            self.failure = classify(problem)
            raise

    def rows(self, batch: DataFrame) -> pyarrow.Table:
        """The target's columns in its order, ``__deleted`` when rows are upserted by key, at most one row per key."""
        rows = batch if self._is_planned else table_rows(batch, self.target, self.timestamp_format)
        return rows.toArrow()


def table_rows(batch: DataFrame, target: TableTarget, timestamp_format: TimestampFormat) -> DataFrame:
    """A batch as its loader takes it, still in Spark."""
    deletes = names.DELETED in batch.columns
    if target.mode == "append":
        live = batch.where(~sf.col(names.DELETED)) if deletes else batch
        return live.select(*_columns(target, timestamp_format))
    last = _last_of_each_key(batch, target) if names.ORDER in batch.columns else batch
    deleted = sf.col(names.DELETED) if deletes else sf.lit(False)
    return last.select(*_columns(target, timestamp_format), deleted.alias(names.DELETED))


def _columns(target: TableTarget, timestamp_format: TimestampFormat) -> list[Column]:
    """STRUCT, MAP and ARRAY travel as JSON text where the store has no such type."""
    if target.text is not None:
        return _row_text(target, target.text, timestamp_format)
    columns = []
    for column in target.columns:
        value = field(column.name)
        shown = json_value(value, column.type, timestamp_format) if column.as_json else value
        columns.append(shown.alias(column.name))
    return columns


def _row_text(target: TableTarget, text: RowText, timestamp_format: TimestampFormat) -> list[Column]:
    """The row as the text of a record, and the columns beside it."""
    inside = [column for column in target.columns if column.name not in text.beside]
    document = json_row([(column.name, field(column.name), column.type) for column in inside], timestamp_format)
    return [*[field(name) for name in text.beside], document.alias(text.name)]


def _last_of_each_key(batch: DataFrame, target: TableTarget) -> DataFrame:
    """Of several rows of one key the last by source position: rows of a key share a partition and are ordered in it."""
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
    """What takes the batches of a sink.

    Args:
        part, write, identity: of the sink.
        resolve: gives option values.
        loader: of a table instead of its store's (tests).
        capture: takes the records of a stream instead of its store (tests).
        entities: sources and sinks of the query, for messages.

    Raises:
        DsError: of the loader's factory and of the resolver.
    """
    if write.kind == "batch":
        if write.table is None:
            raise error("INTERNAL", where=f"a table sink without table: {write.entity}")
        return BatchWriter(loader or open_loader(write, identity, resolve), write.table, part.sink.event_time.format)
    if capture is not None:
        return CaptureWriter(capture)
    return StreamWriter(write, identity, sink_options(write, identity, resolve), entities)


def sink_options(write: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> Mapping[str, str]:
    """Options of a stream sink, references resolved.

    Raises:
        DsError: of the resolver.
    """
    options = dict(resolved(write.options, resolve))
    if write.transactional:
        options |= {"transactional.id": identity.job, "marker.group": identity.ledger}
    return options
