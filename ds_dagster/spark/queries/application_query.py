"""An application as a query ready to start: every source read once, one frame, all sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from ds_dagster.catalog.io_spec import BatchLoader, ReadSpec, Resolver, SinkIdentity, TableRead, WriteSpec
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.plan.nodes.application import shares_state
from ds_dagster.plan.query import BoundQuery
from ds_dagster.spark.clocks.clock import ClockMode, batch_settings, clock_config
from ds_dagster.spark.compiler import output_mode, state_store
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries.application import (
    ApplicationWriter,
    Capture,
    CaptureWriter,
    SinkPlan,
    StreamWriter,
    combined,
    stream_options,
    table_writer,
)
from ds_dagster.spark.queries.inputs import log_writers, logged_source, source_reader, table_reader
from ds_dagster.spark.queries.query import EVOLUTION, PreparedQuery, plan_frame
from ds_dagster.spark.queries.row_logs import LogCapture
from ds_dagster.spark.queries.shared_rows import SharedRows
from ds_dagster.spark.queries.sources import SourceProvider
from ds_dagster.spark.session import active, job_session


def prepare_application(
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
    loaders: Mapping[str, BatchLoader] | None = None,
    captures: Mapping[str, Capture] | None = None,
    tables: Mapping[str, TableRead] | None = None,
    logs: Mapping[str, WriteSpec] = MappingProxyType({}),
    log_capture: LogCapture | None = None,
    skips: Sequence[SkippedRecord] = (),
) -> PreparedQuery:
    """Compile an application: one query over one read of each source, whose batches go to all sinks, and whose bad
    records go to the logs of its sources once.

    Args:
        query: with members.
        writes: spec of each sink, by the member's name.
        loaders, captures: by the member's name; for the rest see :func:`prepare`.

    Raises:
        DsError: as :func:`prepare`.
    """
    assert query.bundle is not None
    if shares_state(query.bundle):
        operators(spark).share_steps()
    session = job_session(spark, {EVOLUTION: "false", **batch_settings(query.plan)}, state_store(query.plan))
    config = clock_config(query.plan, reads, mode=clock, looks=provider is None)
    if config:
        operators(session).register_clock(job_name, config)
    shared = SharedRows(query.bundle, session.sparkContext.defaultParallelism)
    read = source_reader(session, query, reads, resolve, job_name, provider, list(writes.values()))
    look_up = table_reader(session, tables, resolve)
    kept = log_writers(session, job_name, query, logs, identity, resolve, log_capture)
    logged = partial(logged_source, read, kept, skips)
    with active(session), ExitStack() as undo:
        if config:
            undo.callback(operators(session).remove_clock, job_name)
        if kept:
            undo.callback(kept.close)
        sinks = []
        for part in query.members:
            write, own = writes[part.name], identity.of_member(part.name)
            frame = plan_frame(session, part, write, job_name, logged, look_up, shared=shared, logs=kept)
            loader, capture = (loaders or {}).get(part.name), (captures or {}).get(part.name)
            sinks.append(_sink(part, write, own, resolve, frame, loader, capture, undo))
        frame = combined(sinks)
        undo.pop_all()
    modes = {output_mode(part.root) for part in query.members}
    interval = max(write.interval_millis for write in writes.values())
    return PreparedQuery(
        query=query,
        write=replace(sinks[0].write, transactional=False, interval_millis=interval),
        identity=identity,
        job_name=job_name,
        session=session,
        frame=frame,
        output_mode="update" if "update" in modes else "append",
        options={},
        clock=config is not None,
        unnamed=True,
        reads=reads,
        application=ApplicationWriter(sinks),
        logs=kept,
    )


def _sink(
    part: BoundQuery,
    write: WriteSpec,
    own: SinkIdentity,
    resolve: Resolver,
    frame: DataFrame,
    loader: BatchLoader | None,
    capture: Capture | None,
    undo: ExitStack,
) -> SinkPlan:
    """One sink of an application; ``undo`` gives back what it holds if a later one is refused."""
    if write.kind == "batch":
        table = table_writer(write, part, own, resolve, loader)
        undo.callback(table.loader.close)
        return SinkPlan(part, write, own, table, table.planned(frame))
    stream = StreamWriter(write, stream_options(write, own, resolve))
    return SinkPlan(part, write, own, CaptureWriter(capture) if capture else stream, frame)
