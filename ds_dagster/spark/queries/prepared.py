"""A bound query and its stores' specs → a query that is ready to start, with a writer for each sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from ds_dagster.catalog.io_spec import BatchLoader, ReadSpec, Resolver, SinkIdentity, TableRead, WriteSpec
from ds_dagster.catalog.properties.latency import realtime_millis
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.plan.state_store import state_store
from ds_dagster.spark.clocks.clock import ClockMode, clock_config, tick_source_name
from ds_dagster.spark.compiler import NOTHING, POSITION, PlanCompiler, Wants
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.flow import OutputMode, output_mode
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries.application import combined
from ds_dagster.spark.queries.batch_writers import (
    BatchWriter,
    Capture,
    SinkPlan,
    StreamWriter,
    sink_writer,
)
from ds_dagster.spark.queries.inputs import log_writers, logged_source, source_reader, table_reader
from ds_dagster.spark.queries.row_errors import row_errors
from ds_dagster.spark.queries.row_logs import LogCapture, RowLogs
from ds_dagster.spark.queries.shared_rows import SharedRows
from ds_dagster.spark.queries.sources import WAITING, SourceProvider, register_provider, waiting_source
from ds_dagster.spark.records.columns import RECORD, never
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.spark.records.sinks import encode_records
from ds_dagster.spark.session import active, job_session

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query ready to start, once.

    Attributes:
        query: the bound query.
        job_name: name of the Spark query, its clock and its scheduler pool.
        session: the job's own session.
        sinks: one per part of the query.
        frame: rows of the sink; for an application the rows of all sinks.
        clock: whether the engine moves its event time.
        reads: read spec of every source, by name.
        logs: logs of rows that the query drops, or None.
        targets: identities of the entities it writes, by ``store.entity``; a later entity of the same name has another.
        is_muted: no rows are written to streams.
    """

    query: BoundQuery
    job_name: str
    session: SparkSession
    sinks: tuple[SinkPlan, ...]
    frame: DataFrame
    clock: bool
    reads: Mapping[str, ReadSpec] = field(repr=False)
    logs: RowLogs | None
    targets: Mapping[str, str] = field(default_factory=dict)
    is_muted: bool = False

    @property
    def loaders(self) -> tuple[BatchLoader, ...]:
        """Loaders of its table and view sinks; call their ``finish`` after a finite run."""
        return tuple(sink.writer.loader for sink in self.sinks if isinstance(sink.writer, BatchWriter))

    @property
    def rows_loaded(self) -> int | None:
        """Rows loaded into its tables and views since the start, None if it has none; rows of streams are in the
        progress of its batches."""
        written = [sink.writer.written for sink in self.sinks if isinstance(sink.writer, BatchWriter)]
        return sum(written) if written else None

    @property
    def output_mode(self) -> OutputMode:
        """``update`` if groups of any part are refined, else ``append``."""
        modes = {output_mode(part.root) for part in self.query.parts}
        return "update" if "update" in modes else "append"

    @property
    def realtime_millis(self) -> int | None:
        """Milliseconds between two checkpoints in real-time mode; None: the query runs in batches, as always without
        a writer of Spark's own (tests)."""
        return None if self.native is None else realtime_millis(self.query.sink)

    @property
    def native(self) -> StreamWriter | None:
        """The writer of the sink that Spark writes by itself, without a call into Python for every batch; None if this
        process writes the batches. It does so for tables, for applications, for refined groups (update mode) into a
        Python stream sink, which Spark refuses, and for row logs that the sink does not write itself."""
        (sink, *others) = self.sinks
        is_refined = self.output_mode == "update" and bool(sink.write.provider)
        has_logs = self.logs is not None and not sink.write.transactional
        if self.query.is_application or others or is_refined or has_logs:
            return None
        return sink.writer if isinstance(sink.writer, StreamWriter) else None


@dataclass(frozen=True, slots=True)
class Plans:
    """Compiles the plans of one query.

    Attributes:
        session: the job's own session.
        job_name: see :class:`PreparedQuery`.
        read: returns the records of a scan.
        look_up: returns the rows of a lookup table.
        shared: rows that several sinks of an application read; None if the query is not an application.
        logs: logs of rows that the query drops, or None.
        names_sources: sources, also tick sources, have names in the checkpoint.
        is_muted: no rows are written to streams.
        panes: see :func:`prepare`.
    """

    session: SparkSession
    job_name: str
    read: Callable[[Scan], SourceFrame]
    look_up: Callable[[StaticScan], DataFrame]
    shared: SharedRows | None
    logs: RowLogs | None
    names_sources: bool
    is_muted: bool = False
    panes: bool = True

    def frame(self, part: Part, write: WriteSpec) -> DataFrame:
        """The rows of a sink: records for a stream, columns for a table.

        Raises:
            DsError: also for failures of Spark, which are classified.
        """
        try:
            compiler = PlanCompiler(
                self.session,
                self.job_name,
                self.read,
                self.shared,
                row_errors(part, self.logs),
                self.look_up,
                self.logs,
                tick_source_name if self.names_sources else _unnamed,
                part.name,
                self.panes,
            )
            frame = compiler.compile(part.root, _wants(part, write))
            if write.kind == "stream":
                frame = encode_records(frame, part.sink, write)
                register_provider(self.session, write.provider)
                frame = frame.where(never()) if self.is_muted else frame
        except SPARK_ERRORS as problem:
            raise classify(problem) from problem
        return frame


def prepare(
    spark: SparkSession,
    query: BoundQuery,
    *,
    reads: Mapping[str, ReadSpec],
    writes: Mapping[str, WriteSpec],
    identity: SinkIdentity,
    resolve: Resolver,
    job_name: str,
    clock: ClockMode = "auto",
    provider: SourceProvider | None = None,
    loaders: Mapping[str, BatchLoader] = MappingProxyType({}),
    captures: Mapping[str, Capture] = MappingProxyType({}),
    logs: Mapping[str, WriteSpec] = MappingProxyType({}),
    log_capture: LogCapture | None = None,
    tables: Mapping[str, TableRead] | None = None,
    skips: Sequence[SkippedRecord] = (),
    is_muted: bool = False,
    panes: bool = True,
) -> PreparedQuery:
    """Compile a query in its own session; no data is read.

    Args:
        spark: the engine's session.
        query: bound plan.
        reads: read spec of every source, by the scan's ``source_name``.
        writes: write spec of every sink, by the name of its part.
        identity: identity of the job in its sinks.
        resolve: gives option values.
        job_name: unique among running jobs.
        clock: see :data:`ClockMode`; with ``manual``, a test moves time with ``operators(spark).advance_clock``.
        provider: returns the sources' records in place of their stores (tests, backfills); such sources have no names
            in the checkpoint.
        loaders: loaders of table sinks in place of those of their stores (tests), by part.
        captures: get the records of stream sinks, batch by batch, in place of their stores (tests), by part.
        logs: write specs of the query's row logs, by name.
        log_capture: gets the records of row logs in place of their stores (tests).
        tables: how lookup tables are read, by the ``source_name`` of their scan.
        skips: records to skip, from any source.
        is_muted: state is kept and every batch is recorded, but no rows are written to streams.
        panes: the state of overlapping windows is kept by pane; False for a checkpoint that keeps each window, see
            :func:`ds_dagster.spark.queries.checkpoint_tip.keeps_each_window`.

    Raises:
        DsError: from the loader's factory, the resolver or the compiler; failures of Spark are classified.
    """
    is_named = provider is None and not query.is_application
    operators(spark).plan_with_rules()
    waits = provider is None and waiting_source(query, reads)
    session = job_session(spark, _settings(is_named, waits), state_store(query) or "heap")
    with active(session), ExitStack() as undo:
        config = clock_config(query.plan, reads, mode=clock, looks=provider is None)
        if config:
            operators(session).register_clock(job_name, config)
            undo.callback(operators(session).remove_clock, job_name)
        row_logs = log_writers(session, job_name, query, logs, identity, resolve, log_capture)
        if row_logs:
            undo.callback(row_logs.close)
        read = source_reader(
            session, query, reads, resolve, job_name, provider, list(writes.values()), named=is_named, waits=waits
        )
        plans = Plans(
            session,
            job_name,
            partial(logged_source, read, row_logs, skips),
            table_reader(session, tables, resolve),
            _shared_rows(session, query) if query.is_application else None,
            row_logs,
            is_named,
            is_muted,
            panes,
        )
        sinks = []
        for part in query.parts:
            write, own = writes[part.name], query.writer_of(part, identity)
            frame, taken = plans.frame(part, write), (loaders.get(part.name), captures.get(part.name))
            writer = sink_writer(part, write, own, resolve, *taken, query.entities)
            if isinstance(writer, BatchWriter):
                undo.callback(writer.loader.close)
                frame = writer.planned(frame)
            sinks.append(SinkPlan(part, write, own, writer, frame))
        rows = combined(sinks) if query.is_application else sinks[0].frame
        undo.pop_all()
        return PreparedQuery(
            query, job_name, session, tuple(sinks), rows, bool(config), reads, row_logs, is_muted=is_muted
        )


def _shared_rows(session: SparkSession, query: BoundQuery) -> SharedRows:
    """Shared rows of an application. They carry ``RECORD`` if a log of failing or late rows, or a constraint of a
    result, needs it."""
    names_records = query.error_logs or any(part.root.constraints for part in query.parts)
    names_records = names_records or any(late.record for late in query.late)
    beside = frozenset({RECORD}) if names_records else NOTHING
    return SharedRows(query.plan, session.sparkContext.defaultParallelism, beside)


def _settings(is_named: bool, waits: bool) -> dict[str, str]:
    return ({} if is_named else {EVOLUTION: "false"}) | (dict(WAITING) if waits else {})


def _unnamed(_node: Node) -> str:
    return ""


def _wants(part: Part, write: WriteSpec) -> Wants:
    """Positions, if several rows of a batch may have the same key: a changelog's records, not an aggregate's groups."""
    upserts = write.table is not None and write.table.mode == "upsert"
    grouped = any(node.one_per_key for node in part.root.walk())
    return POSITION if upserts and not grouped else NOTHING
