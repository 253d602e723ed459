"""The face of this package: a bound query and its stores' specs → a running streaming query.

``prepare`` builds the plan in a session of the job's own and gives the job its clock; ``start`` starts it once. After a
query has ended, ``close`` gives back what it held; a restart prepares anew. Nothing here knows a store by name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ds_dagster.catalog.io_spec import BatchLoader, ReadSpec, Resolver, SinkIdentity, TableRead, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.errors import DsError
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.spark.clocks.clock import ClockMode, batch_settings, clock_config
from ds_dagster.spark.compiler import NOTHING, POSITION, OutputMode, PlanCompiler, Wants, output_mode, state_store
from ds_dagster.spark.crossing import crossing
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.jvm import NO_REPLAY, operators
from ds_dagster.spark.queries.application import ApplicationWriter, Capture, stream_options, table_writer
from ds_dagster.spark.queries.batch_writers import BatchWriter
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from ds_dagster.spark.queries.inputs import log_writers, logged_source, source_reader, table_reader
from ds_dagster.spark.queries.progress import BatchProgress, counted, read_progress
from ds_dagster.spark.queries.row_errors import row_errors
from ds_dagster.spark.queries.row_logs import JOB_OPTION, LogCapture, RowLogs
from ds_dagster.spark.queries.shared_rows import SharedRows
from ds_dagster.spark.queries.sink_account import Account
from ds_dagster.spark.queries.source_identity import check_identities, identities
from ds_dagster.spark.queries.sources import SourceProvider, register_provider
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.spark.records.sinks import encode_records
from ds_dagster.spark.session import active, in_pool, job_session

Trigger = Literal["continuous", "available_now"]
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query ready to start, once.

    Attributes:
        query, write, identity: as given.
        job_name: name of the Spark query, its clock and its scheduler pool.
        session: the job's own.
        frame: what the sink gets.
        output_mode: append or update.
        options: of the sink, references resolved: secrets, never shown.
        clock: whether the engine moves its event time.
        writer: of a table or view sink.
        capture: see :func:`prepare`.
        unnamed: its sources have no names in the checkpoint (tests).
        reads: as given.
        logs: of rows it leaves out, or None.
        application: takes the batches of a query with several sinks.
        targets: what tells the entities it writes from later ones of the same name, by ``store.entity``.
    """

    query: BoundQuery
    write: WriteSpec
    identity: SinkIdentity
    job_name: str
    session: SparkSession
    frame: DataFrame
    output_mode: OutputMode
    options: Mapping[str, str] = field(repr=False)
    clock: bool = False
    writer: BatchWriter | None = None
    capture: Capture | None = None
    unnamed: bool = False
    reads: Mapping[str, ReadSpec] = field(default_factory=dict, repr=False)
    logs: RowLogs | None = None
    application: ApplicationWriter | None = None
    targets: Mapping[str, str] = field(default_factory=dict)

    @property
    def loader(self) -> BatchLoader | None:
        """Of a table or view sink: ``finish`` it after a finite run."""
        return self.writer.loader if self.writer else None

    @property
    def rows_loaded(self) -> int | None:
        """Rows that its tables and views have got since the start, None without any; rows of streams are in the
        progress of its batches."""
        if self.application is not None:
            return self.application.loaded if self.application.loaders else None
        return self.writer.written if self.writer else None


def prepare(
    spark: SparkSession,
    query: BoundQuery,
    *,
    reads: Mapping[str, ReadSpec],
    write: WriteSpec,
    identity: SinkIdentity,
    resolve: Resolver,
    job_name: str,
    clock: ClockMode = "auto",
    provider: SourceProvider | None = None,
    loader: BatchLoader | None = None,
    capture: Capture | None = None,
    logs: Mapping[str, WriteSpec] = MappingProxyType({}),
    log_capture: LogCapture | None = None,
    tables: Mapping[str, TableRead] | None = None,
    skips: Sequence[SkippedRecord] = (),
) -> PreparedQuery:
    """Compile a query in a session of its own; no data is read.

    Args:
        spark: the engine's session.
        query: bound plan.
        reads: read spec of every source, by the scan's ``source_name``.
        write: spec of the sink.
        identity: who writes.
        resolve: gives option values.
        job_name: unique among running jobs.
        clock: ``manual`` where a test moves time by ``operators(spark).advance_clock(job_name, …)``.
        provider: gives the sources' records instead of their stores (tests); such sources have no names in
        the checkpoint.
        loader: takes the batches of a table sink instead of the one ``write.loader`` names (tests).
        capture: takes the records of a stream sink, batch by batch, instead of its store (tests).
        logs: specs of the query's row logs, by name.
        log_capture: takes their records instead of their stores (tests).
        tables: how tables that are looked up are read, by the ``source_name`` of their scan.
        skips: records that are passed, of whichever source.

    Raises:
        DsError: what the loader's factory, the resolver and the compiler raise; a failure of Spark is classified.
    """
    session = job_session(spark, batch_settings(query.root), state_store(query.root))
    config = clock_config(query.root, reads, mode=clock, looks=provider is None)
    if config:
        operators(session).register_clock(job_name, config)
    kept = log_writers(session, job_name, query, logs, identity, resolve, log_capture)
    read = source_reader(session, query, reads, resolve, job_name, provider, [write])
    look_up = table_reader(session, tables, resolve)
    with active(session), ExitStack() as undo:
        if config:
            undo.callback(operators(session).remove_clock, job_name)
        if kept:
            undo.callback(kept.close)
        logged = partial(logged_source, read, kept, skips)
        frame = plan_frame(session, query, write, job_name, logged, look_up, logs=kept)
        options = stream_options(write, identity, resolve)
        writer = table_writer(write, query, identity, resolve, loader) if write.kind == "batch" else None
        frame = writer.planned(frame) if writer else frame
        undo.pop_all()
    return PreparedQuery(
        query=query,
        write=write,
        identity=identity,
        job_name=job_name,
        session=session,
        frame=frame,
        output_mode=output_mode(query.root),
        options=options,
        clock=config is not None,
        writer=writer,
        capture=capture,
        unnamed=provider is not None,
        reads=reads,
        logs=kept,
    )


def plan_frame(
    session: SparkSession,
    query: BoundQuery,
    write: WriteSpec,
    job_name: str,
    read: Callable[[Scan], SourceFrame],
    look_up: Callable[[StaticScan], DataFrame],
    *,
    shared: SharedRows | None = None,
    logs: RowLogs | None = None,
) -> DataFrame:
    """What the sink gets."""
    try:
        compiler = PlanCompiler(session, job_name, read, shared, row_errors(query, logs), look_up, logs)
        frame = compiler.compile(query.root, _wants(query, write))
        if write.kind == "stream":
            frame = encode_records(frame, query.sink, write)
            register_provider(session, write.provider)
    except SPARK_ERRORS as problem:
        raise classify(problem) from problem
    return frame


def start(prepared: PreparedQuery, checkpoint: str, trigger: Trigger = "continuous") -> StreamingQuery:
    """Start a prepared query on a checkpoint; one that does not start is closed.

    Args:
        prepared: not started before.
        checkpoint: its location; a local path or any URL Hadoop knows.
        trigger: ``available_now`` ends by itself when what exists now has been processed.

    Raises:
        DsError: INPUT_RECREATED, what sinks and loaders refuse, or Spark refused to start it.
    """
    with ExitStack() as undo:
        undo.callback(close, prepared)
        if not prepared.unnamed or prepared.application is not None:
            check_identities(prepared.session, checkpoint, prepared.reads)
        tip = checkpoint_tip(prepared.session, checkpoint)
        query = _started(_settled(prepared, checkpoint, tip), checkpoint, tip, trigger)
        undo.pop_all()
    return query


def _settled(prepared: PreparedQuery, checkpoint: str, tip: CheckpointTip) -> PreparedQuery:
    """The same with its sinks held against the checkpoint."""
    entities = entities_of(prepared.query, prepared.write)
    sources = identities(prepared.reads)
    account = Account.of(prepared.session, checkpoint, tip, prepared.targets, entities, sources)
    with active(prepared.session):
        if prepared.application is not None:
            prepared.application.settle(account)
        elif prepared.writer is not None:
            prepared.writer.settle(account)
        elif prepared.write.kind == "stream" and prepared.capture is None:
            options = account.settle(prepared.write, prepared.identity, prepared.options)
            prepared = replace(prepared, options=options)
    account.close()
    return prepared


def _started(prepared: PreparedQuery, checkpoint: str, tip: CheckpointTip, trigger: Trigger) -> StreamingQuery:
    batches = prepared.application or prepared.writer or prepared.capture
    frame, written = prepared.frame, None if batches is not None else _by_batches(prepared)
    if written is not None:
        frame, batches = counted(frame, prepared.query.name), written
    writer = frame.writeStream.queryName(prepared.job_name).outputMode(prepared.output_mode)
    writer = _to_sink(writer, prepared, batches).option("checkpointLocation", checkpoint)
    if trigger == "available_now":
        writer = writer.trigger(availableNow=True)
    elif prepared.write.interval_millis:
        writer = writer.trigger(processingTime=f"{prepared.write.interval_millis} milliseconds")
    if prepared.unnamed:
        prepared.session.conf.set(EVOLUTION, "false")
    try:
        if prepared.logs is not None:
            prepared.logs.begin(checkpoint, tip.planned.batch if tip.planned else NO_REPLAY)
        with active(prepared.session), in_pool(prepared.session, prepared.job_name):
            return writer.start()
    except SPARK_ERRORS as problem:
        raise classify(problem) from problem


def close(prepared: PreparedQuery) -> None:
    """Give back what a query held that has ended: clock, transaction, loader. Never raises."""
    try:
        if prepared.clock:
            operators(prepared.session).remove_clock(prepared.job_name)
        if prepared.logs is not None:
            prepared.logs.close()
        for job in transactions(prepared):
            operators(prepared.session).release_transaction(job)
    except SPARK_ERRORS:
        _LOG.warning("job %s: its operators were not released", prepared.job_name, exc_info=True)
    for loader in loaders_of(prepared):
        loader.close()


def transactions(prepared: PreparedQuery) -> tuple[str, ...]:
    """Ids of the transactions a query writes by."""
    if prepared.application is not None:
        return tuple(sink.identity.job for sink in prepared.application.sinks if sink.write.transactional)
    return (prepared.identity.job,) if prepared.write.transactional else ()


def loaders_of(prepared: PreparedQuery) -> tuple[BatchLoader, ...]:
    """What loads its tables and views."""
    found = prepared.application.loaders if prepared.application is not None else (prepared.loader,)
    return tuple(loader for loader in found if loader is not None)


def failure(prepared: PreparedQuery, query: StreamingQuery) -> DsError | None:
    """Why a query ended, None when it runs or ended by itself; a hint that names the job has its name."""
    problem = query.exception()
    if problem is None:
        return None
    taken = prepared.application or prepared.writer
    if taken is not None and taken.failure is not None:
        found = taken.failure
    else:
        found = classify(problem, entities_of(prepared.query, prepared.write))
    if "{job}" in found.definition.hint:
        found.params.setdefault("job", prepared.job_name)
    return found


def entities_of(query: BoundQuery, write: WriteSpec) -> str:
    """What a query reads and writes, for messages."""
    read = (f"{relation.store}.{relation.entity}" for relation in query.inputs)
    written = [f"{sink.store}.{sink.entity}" for sink in query.sinks] if query.members else [write.entity]
    return ", ".join(dict.fromkeys((*read, *written)))


def progress(query: StreamingQuery) -> BatchProgress | None:
    """The last batch with or without rows, None before the first."""
    last = query.lastProgress
    return None if last is None else read_progress(last.json)


def explain(prepared: PreparedQuery) -> str:
    """Spark's optimized plan of a query; it holds no option of a store."""
    analyzed = prepared.frame._jdf.queryExecution().analyzed()
    return str(prepared.session._jsparkSession.sessionState().optimizer().execute(analyzed).toString())


def _wants(query: BoundQuery, write: WriteSpec) -> Wants:
    """Positions where several rows of a batch may carry one key: a changelog's records, not an aggregate's groups."""
    upserts = write.table is not None and write.table.mode == "upsert"
    grouped = any(node.one_per_key for node in query.root.walk())
    return POSITION if upserts and not grouped else NOTHING


def _to_sink(writer: DataStreamWriter, prepared: PreparedQuery, batches: Capture | None) -> DataStreamWriter:
    if batches is not None:
        return writer.foreachBatch(crossing(_logged(batches, prepared.logs)))
    options = dict(prepared.options)
    if prepared.logs is not None:
        options[JOB_OPTION] = prepared.job_name
    return writer.format(prepared.write.format).options(**options)


def _logged(batches: Capture, logs: RowLogs | None) -> Capture:
    """The same with what the batch has left out written behind it."""
    if logs is None:
        return batches

    def both(batch: DataFrame, epoch: int) -> None:
        batches(batch, epoch)
        logs.write(epoch)

    return both


def _by_batches(prepared: PreparedQuery) -> Capture | None:
    """Spark refuses refined groups (update mode) to a Python stream sink; it then writes each batch on its own. So
    does a query with row logs whose sink does not write them itself."""
    write, options = prepared.write, dict(prepared.options)
    is_refined = prepared.output_mode == "update" and bool(write.provider)
    if not is_refined and (prepared.logs is None or write.transactional):
        return None

    def put(batch: DataFrame, _epoch: int) -> None:
        session = batch.sparkSession
        with active(session):
            register_provider(session, write.provider)
            batch.write.format(write.format).options(**options).mode("append").save()

    return put
