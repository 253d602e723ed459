"""Several sinks of one query: an application's plans as one frame, each batch handed to every sink.

Every sink keeps to exactly once by its own means, under an identity of its own: transactions and ledgers know the
batch's number, so that a batch that is repeated because a later sink failed is written only where it was not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.catalog.io_spec import BatchLoader, Resolver, SinkIdentity, WriteSpec, open_loader
from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.queries.batch_writers import BatchWriter
from ds_dagster.spark.queries.progress import counted
from ds_dagster.spark.queries.sink_account import Account
from ds_dagster.spark.queries.sources import register_provider, resolved
from ds_dagster.spark.session import active

Capture = Callable[[DataFrame, int], None]
_SINK = "__sink"


class Prepared(Protocol):
    """Takes the batches of one sink."""

    failure: DsError | None

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Write one batch, once."""


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One sink of an application.

    Attributes:
        query: that fills it.
        write: spec of its entity.
        identity: of the job and this sink.
        writer: takes its batches.
        frame: what it gets.
    """

    query: BoundQuery
    write: WriteSpec
    identity: SinkIdentity
    writer: Prepared
    frame: DataFrame


class StreamWriter:
    """Writes a batch of records by Spark's own writer of the format.

    Attributes:
        failure: what the last batch failed with.
    """

    def __init__(self, write: WriteSpec, options: Mapping[str, str]) -> None:
        self.write = write
        self.options = options
        self.failure: DsError | None = None

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """One batch; the format is told its number."""
        options = {**self.options, "epoch": str(epoch)} if self.write.transactional else dict(self.options)
        session = batch.sparkSession
        try:
            with active(session):
                register_provider(session, self.write.provider)
                batch.write.format(self.write.format).options(**options).mode("append").save()
        except SPARK_ERRORS as problem:
            self.failure = classify(problem)
            raise


class CaptureWriter:
    """Hands a batch to a test."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.failure: DsError | None = None

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """One batch."""
        self.capture(batch, epoch)


class ApplicationWriter:
    """The function Spark calls with every batch of an application.

    The batch is computed once, by what the first sink does with it, and kept until the last one has it: a second
    computation would run the stateful plan twice.
    """

    def __init__(self, sinks: Sequence[SinkPlan]) -> None:
        self.sinks = tuple(sinks)

    @property
    def loaded(self) -> int:
        """Rows that its tables and views have got since the start."""
        return sum(sink.writer.written for sink in self.sinks if isinstance(sink.writer, BatchWriter))

    @property
    def loaders(self) -> tuple[BatchLoader, ...]:
        """Of its tables and views."""
        return tuple(sink.writer.loader for sink in self.sinks if isinstance(sink.writer, BatchWriter))

    def settle(self, account: Account) -> None:
        """Before the first batch: hold every sink against the checkpoint.

        Raises:
            DsError: as :meth:`Account.settle` and :meth:`BatchWriter.settle`.
        """
        for sink in self.sinks:
            if isinstance(sink.writer, BatchWriter):
                sink.writer.settle(account)
            if isinstance(sink.writer, StreamWriter):
                sink.writer.options = account.settle(sink.write, sink.identity, sink.writer.options)

    @property
    def failure(self) -> DsError | None:
        """What a sink failed with; Spark keeps only its text."""
        return next((sink.writer.failure for sink in self.sinks if sink.writer.failure is not None), None)

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Write one batch into every sink, in the order of the statements.

        Raises:
            DsError: what a sink raises; the batch fails as a whole and is run again by the next start.
        """
        batch.persist()
        try:
            for number, sink in enumerate(self.sinks):
                rows = batch.where(sf.col(_SINK) == number)
                sink.writer(rows.select(f"{_payload(number)}.*"), epoch)
        finally:
            batch.unpersist()


def combined(sinks: Sequence[SinkPlan]) -> DataFrame:
    """All sinks' rows as one frame: the sink's number, and its columns as a struct that is NULL for other sinks."""
    frames = [
        _rows_of(sink).select(sf.lit(number).alias(_SINK), *_payloads(sinks, number))
        for number, sink in enumerate(sinks)
    ]
    return reduce(DataFrame.union, frames)


def _rows_of(sink: SinkPlan) -> DataFrame:
    """What a sink gets, counted on its way into a stream; loaders of tables count by themselves."""
    return counted(sink.frame, sink.query.name) if isinstance(sink.writer, StreamWriter) else sink.frame


def _payloads(sinks: Sequence[SinkPlan], own: int) -> list[Column]:
    made = []
    for number, sink in enumerate(sinks):
        value = sf.struct("*") if number == own else sf.lit(None).cast(sink.frame.schema)
        made.append(value.alias(_payload(number)))
    return made


def _payload(number: int) -> str:
    return f"__sink_{number}"


def stream_options(write: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> Mapping[str, str]:
    """Options of a stream sink, references resolved: secrets, never shown."""
    options = dict(resolved(write.options, resolve)) if write.kind == "stream" else {}
    if write.transactional:
        options |= {"transactional.id": identity.job, "marker.group": identity.ledger}
    return options


def table_writer(
    write: WriteSpec, query: BoundQuery, identity: SinkIdentity, resolve: Resolver, loader: BatchLoader | None
) -> BatchWriter:
    """The writer of a table or view sink over its loader."""
    if write.table is None:
        raise error("INTERNAL", where=f"a table sink without table: {write.entity}")
    return BatchWriter(loader or open_loader(write, identity, resolve), write.table, query.sink.event_time.format)
