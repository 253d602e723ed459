"""A bound query and its stores' specs → a query that is ready to start: every source read once, a writer per sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from ds_dagster.catalog.io_spec import BatchLoader, ReadSpec, Resolver, SinkIdentity, TableRead, WriteSpec
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.plan.nodes.application import shares_state
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.spark.clocks.clock import ClockMode, clock_config, tick_source_name
from ds_dagster.spark.compiler import NOTHING, POSITION, PlanCompiler, Wants, state_store
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
from ds_dagster.spark.queries.sources import SourceProvider, register_provider
from ds_dagster.spark.records.columns import RECORD, never
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.spark.records.sinks import encode_records
from ds_dagster.spark.session import active, job_session

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query ready to start, once.

    Attributes:
        query: as given.
        job_name: name of the Spark query, its clock and its scheduler pool.
        session: the job's own.
        sinks: one per part of the query.
        frame: rows of the sink; of an application those of all sinks.
        clock: whether the engine moves its event time.
        reads: as given.
        logs: of rows it leaves out, or None.
        targets: what tells the entities it writes from later ones of the same name, by ``store.entity``.
        is_muted: streams get no row.
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
        """Of its table and view sinks: ``finish`` them after a finite run."""
        return tuple(sink.writer.loader for sink in self.sinks if isinstance(sink.writer, BatchWriter))

    @property
    def rows_loaded(self) -> int | None:
        """Rows that its tables and views have got since the start, None without any; rows of streams are in the
        progress of its batches."""
        written = [sink.writer.written for sink in self.sinks if isinstance(sink.writer, BatchWriter)]
        return sum(written) if written else None

    @property
    def output_mode(self) -> OutputMode:
        """Update where groups of any part are refined, else append."""
        modes = {output_mode(part.root) for part in self.query.parts}
        return "update" if "update" in modes else "append"

    @property
    def native(self) -> StreamWriter | None:
        """The sink that Spark itself writes, without a call into Python for every batch; None where this process hands
        on the batches. So it does for an application, for refined groups (update mode), which Spark refuses to a
        Python stream sink, and for row logs that the sink does not write itself."""
        (sink, *others) = self.sinks
        is_refined = self.output_mode == "update" and bool(sink.write.provider)
        has_logs = self.logs is not None and not sink.write.transactional
        if self.query.is_application or others or is_refined or has_logs:
            return None
        return sink.writer if isinstance(sink.writer, StreamWriter) else None


@dataclass(frozen=True, slots=True)
class Plans:
    """What the plans of one query are compiled with.

    Attributes:
        session: the job's own.
        job_name: see :class:`PreparedQuery`.
        read: gives the records of a scan.
        look_up: gives the rows of a table that is looked up.
        shared: rows that several sinks of an application read, None outside of one.
        logs: of rows that are left out, or None.
        names_sources: the checkpoint knows sources, ticks among them, by their names.
        is_muted: streams get no row.
    """

    session: SparkSession
    job_name: str
    read: Callable[[Scan], SourceFrame]
    look_up: Callable[[StaticScan], DataFrame]
    shared: SharedRows | None
    logs: RowLogs | None
    names_sources: bool
    is_muted: bool = False

    def frame(self, part: Part, write: WriteSpec) -> DataFrame:
        """What a sink gets.

        Raises:
            DsError: a failure of Spark is classified.
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
) -> PreparedQuery:
    """Compile a query in a session of its own; no data is read.

    Args:
        spark: the engine's session.
        query: bound plan.
        reads: read spec of every source, by the scan's ``source_name``.
        writes: spec of every sink, by the name of its part.
        identity: who writes.
        resolve: gives option values.
        job_name: unique among running jobs.
        clock: ``manual`` where a test moves time by ``operators(spark).advance_clock(job_name, …)``.
        provider: gives the sources' records instead of their stores (tests, backfills); such sources have no names in
            the checkpoint.
        loaders: take the batches of table sinks instead of those that their specs name (tests), by part.
        captures: take the records of stream sinks, batch by batch, instead of their stores (tests), by part.
        logs: specs of the query's row logs, by name.
        log_capture: takes their records instead of their stores (tests).
        tables: how tables that are looked up are read, by the ``source_name`` of their scan.
        skips: records that are passed, of whichever source.
        is_muted: state is kept and every batch is noted, but streams get no row.

    Raises:
        DsError: what the loader's factory, the resolver and the compiler raise; a failure of Spark is classified.
    """
    is_named = provider is None and not query.is_application
    if query.is_application and shares_state(query.plan):
        operators(spark).share_steps()
    unnamed = {} if is_named else {EVOLUTION: "false"}
    session = job_session(spark, unnamed, state_store(query.plan))
    with active(session), ExitStack() as undo:
        config = clock_config(query.plan, reads, mode=clock, looks=provider is None)
        if config:
            operators(session).register_clock(job_name, config)
            undo.callback(operators(session).remove_clock, job_name)
        row_logs = log_writers(session, job_name, query, logs, identity, resolve, log_capture)
        if row_logs:
            undo.callback(row_logs.close)
        read = source_reader(session, query, reads, resolve, job_name, provider, list(writes.values()), named=is_named)
        plans = Plans(
            session,
            job_name,
            partial(logged_source, read, row_logs, skips),
            table_reader(session, tables, resolve),
            _shared_rows(session, query) if query.is_application else None,
            row_logs,
            is_named,
            is_muted,
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
    """Of an application; the logs of its failing and late rows and constraints of its results name the records."""
    names_records = query.error_logs or any(part.root.constraints for part in query.parts)
    names_records = names_records or any(late.record for late in query.late)
    beside = frozenset({RECORD}) if names_records else NOTHING
    return SharedRows(query.plan, session.sparkContext.defaultParallelism, beside)


def _unnamed(_node: Node) -> str:
    return ""


def _wants(part: Part, write: WriteSpec) -> Wants:
    """Positions where several rows of a batch may carry one key: a changelog's records, not an aggregate's groups."""
    upserts = write.table is not None and write.table.mode == "upsert"
    grouped = any(node.one_per_key for node in part.root.walk())
    return POSITION if upserts and not grouped else NOTHING
