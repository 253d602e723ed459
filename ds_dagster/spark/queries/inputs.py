"""Inputs for the compiler of plans: the records of scans, the rows of lookup tables, and the logs of bad rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.catalog.io_spec import ReadSpec, Resolver, SinkIdentity, TableRead, WriteSpec
from ds_dagster.catalog.properties.latency import realtime_millis
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.errors import error
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.settings import is_local
from ds_dagster.spark.clocks.clock import clocked_sources
from ds_dagster.spark.queries.lookup import lookup_frame
from ds_dagster.spark.queries.row_logs import LogCapture, RowLogs, bad_record, open_logs
from ds_dagster.spark.queries.sources import (
    STREAM_BATCH_ROWS,
    TABLE_BATCH_ROWS,
    TASK_ROWS,
    ReadLimits,
    SourceProvider,
    provided_records,
    read_records,
    resolved,
)
from ds_dagster.spark.records.columns import opaque_condition
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.spark.session import KAFKA_WRITERS


def source_reader(
    session: SparkSession,
    query: BoundQuery,
    reads: Mapping[str, ReadSpec],
    resolve: Resolver,
    job_name: str,
    provider: SourceProvider | None,
    writes: Sequence[WriteSpec],
    *,
    named: bool,
    waits: bool,
) -> Callable[[Scan], SourceFrame]:
    """A function that returns the records of a scan. ``named``: sources have names in the checkpoint; sources of an
    application have none, since several sinks may read one. ``waits``: see ``waiting_source``."""
    clocked = clocked_sources(query.plan)
    limits = read_limits(session, query, writes)
    if realtime_millis(query.sink) is not None:
        reads = {name: replace(spec, format=spec.realtime_format or spec.format) for name, spec in reads.items()}

    def read(scan: Scan) -> SourceFrame:
        if provider is not None:
            return provided_records(session, provider, scan, reads.get(scan.source_name), resolve)
        if scan.source_name not in reads:
            raise error("INTERNAL", where=f"no read spec for the source {scan.source_name}")
        job = job_name if scan.source_name in clocked else ""
        spec = reads[scan.source_name]
        return read_records(session, scan, spec, resolve, limits, clock_job=job, named=named, waits=waits)

    return read


def read_limits(session: SparkSession, query: BoundQuery, writes: Sequence[WriteSpec]) -> ReadLimits:
    """How much one batch of a query reads. Real-time mode allows no limits; a batch that the driver keeps is smaller;
    tasks are small if their rows are loaded while others run, and no step keeps rows of a partition together."""
    if realtime_millis(query.sink) is not None:
        return ReadLimits()
    is_cluster = not is_local(session.sparkContext.master or "local")
    is_sent_by_driver = is_cluster and session.conf.get(KAFKA_WRITERS, "") == "driver"
    streams = not query.is_application and all(write.streams for write in writes)
    collects = (is_cluster and query.is_application) or any(
        (write.kind == "batch" and not streams) or (is_sent_by_driver and write.transactional) for write in writes
    )
    is_split = streams and not any(node.is_stateful for node in query.plan.walk())
    return ReadLimits(TABLE_BATCH_ROWS if collects else STREAM_BATCH_ROWS, TASK_ROWS if is_split else 0)


def log_writers(
    session: SparkSession,
    job_name: str,
    query: BoundQuery,
    logs: Mapping[str, WriteSpec],
    identity: SinkIdentity,
    resolve: Resolver,
    capture: LogCapture | None,
) -> RowLogs | None:
    """The row logs of a query, None if it has none; arguments as for
    :func:`ds_dagster.spark.queries.prepared.prepare`."""
    sinks = {name: resolved(spec.options, resolve) for name, spec in logs.items()}
    return open_logs(session, job_name, query.name, sinks, identity, capture, query.late)


def logged_source(
    read: Callable[[Scan], SourceFrame], logs: RowLogs | None, skips: Sequence[SkippedRecord], scan: Scan
) -> SourceFrame:
    """A source with the job's logs for bad records, without the records that the job skips."""
    source = replace(read(scan), logs=logs)
    mine = [skip for skip in skips if skip.entity == source.entity]
    return source if not mine else replace(source, frame=_without(source, scan, mine))


def _without(source: SourceFrame, scan: Scan, skips: Sequence[SkippedRecord]) -> DataFrame:
    """The source's records without the skipped ones, which are dropped before decoding. If the scan has a log, each
    skipped record is logged with the reason of the skip."""
    partition, position = sf.expr(source.envelope.partition), sf.expr(source.envelope.shown_position)
    frame = source.frame
    for skip in skips:
        is_it = (partition == skip.partition) & (position == skip.position)
        left_out = sf.lit(False)
        if scan.log is not None and source.logs is not None:
            left_out = source.logs.put(scan.log, bad_record(scan, source.envelope, sf.lit(skip.reason)))
        frame = frame.where(opaque_condition(sf.when(is_it, left_out).otherwise(sf.lit(True))))
    return frame


def table_reader(
    session: SparkSession, tables: Mapping[str, TableRead] | None, resolve: Resolver
) -> Callable[[StaticScan], DataFrame]:
    """A function that returns the rows of a lookup table."""

    def look_up(scan: StaticScan) -> DataFrame:
        if scan.source_name not in (tables or {}):
            raise error("INTERNAL", where=f"no read spec for the table {scan.source_name}")
        return lookup_frame(session, scan, (tables or {})[scan.source_name], resolve)

    return look_up
