"""Read specs → streams of records. Sources have names, so that a changed query finds its offsets again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from types import MappingProxyType

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from ds_dagster.catalog.io_spec import Envelope, Options, ReadSpec, Resolver
from ds_dagster.catalog.reading.row_source import RowSource
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.settings import is_local
from ds_dagster.spark.clocks.clock import clocked_sources
from ds_dagster.spark.clocks.ticks import timed_reader
from ds_dagster.spark.planner.shared import share_planner
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.spark.records.schemas import resolved_schemas
from ds_dagster.spark.records.typemap import to_spark
from ds_dagster.spark.session import in_session

SourceProvider = Callable[[Scan, ReadSpec | None], DataFrame]
"""Returns a scan's records in place of its store: columns ``key`` and ``value`` BINARY, ``timestamp`` TIMESTAMP,
``partition`` and ``order`` STRING, and ``headers`` if records have them. For tests and backfills; such sources have no
names in the checkpoint."""

PROVIDED = Envelope("`key`", "`value`", "`timestamp`", "`partition`", "`order`")
"""Columns of a provided frame with the parts of a record."""

SHARED_SESSIONS = "spark.dsdagster.sharedReplication"
"""Spark property; ``false``: each query over changes of Postgres reads its own slot only."""
WAITING: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.streaming.pollingDelay": "10ms",
        "spark.sql.streaming.noDataProgressEventInterval": "1s",
    }
)
"""Properties of a query whose source waits for changes. Spark asks again soon, and reports often that there was nothing
to read: while a source waits, no other sign tells that a query has caught up."""
STREAM_BATCH_ROWS = 1_000_000
"""Most records of one source in a batch, unless the query or the relation sets a number: a backlog is read in steps
that can be replayed."""
TABLE_BATCH_ROWS = 200_000
"""Like :data:`STREAM_BATCH_ROWS`, if a batch is collected on the driver: for a table, or for Kafka on a cluster."""
TASK_ROWS = 100_000
"""Most records of a task whose rows are loaded while other tasks run: half of that, or twice, loads no faster. Sources
read fewer if records are large."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Most records of one source in a batch, unless the query or the relation sets a number, and in a task; 0: any."""

    batch: int = 0
    task: int = 0


def read_records(
    spark: SparkSession,
    scan: Scan,
    spec: ReadSpec,
    resolve: Resolver,
    limits: ReadLimits,
    *,
    clock_job: str = "",
    named: bool = True,
    waits: bool = False,
) -> SourceFrame:
    """The stream of a scan's undecoded records from its store.

    Args:
        spark: the job's session.
        scan: names the source.
        spec: read spec from the store.
        resolve: gives option values; called only here.
        limits: real-time mode allows none.
        clock_job: name of the job whose clock gets a report of every poll for new records; empty for queries without
            event time.
        named: the checkpoint identifies the source by its name, not by its place in the plan.
        waits: see :func:`waiting_source`.
    """
    if spec.provider:
        share_planner(spark, spec.provider.partition(":")[0])
    register_provider(spark, spec.provider)
    options = dict(resolved(spec.options, resolve))
    if not is_local(spark.sparkContext.master or "local"):
        options |= resolved(spec.cluster_options, resolve)
    most = scan.max_records_per_batch or limits.batch
    for option, number in ((spec.limit_option, most), (spec.task_limit_option, limits.task)):
        if option and number:
            options[option] = str(number)
    if spec.rows is not None:
        options |= row_options(spark, scan, spec.rows, waits=waits)
    if clock_job:
        frame = timed_reader(
            spark,
            clock_job,
            scan.source_name,
            inner=spec.format,
            options=options,
            source_name=scan.source_name if named else "",
            guard=spec.clock_guard == "kafka" and scan.time.column is None and spec.time_authority == "broker",
        )
    else:
        reader = spark.readStream.format(spec.format).options(**options)
        frame = (reader.name(scan.source_name) if named else reader).load()
    schemas = resolved_schemas(spec.schemas, resolve)
    return SourceFrame(
        frame, spec.envelope, spec.entity, spec.empty_is_delete, schemas, spec.rows, text_keys=spec.text_keys
    )


def waiting_source(query: BoundQuery, reads: Mapping[str, ReadSpec]) -> bool:
    """Whether a query has one source, which waits for changes by itself. Its session has :data:`WAITING`."""
    names = {scan.source_name for scan in query.scans}
    if len(names) != 1 or clocked_sources(query.plan):
        return False
    spec = reads.get(*names)
    return spec is not None and spec.rows is not None and bool(spec.rows.wait_option)


def row_options(spark: SparkSession, scan: Scan, rows: RowSource, *, waits: bool) -> Mapping[str, str]:
    """Options of a source of rows that depend on the query and the session; arguments as for :func:`read_records`."""
    options = {
        rows.columns_option: struct_json(scan),
        rows.shared_option: str(spark.conf.get(SHARED_SESSIONS, "true")),
        rows.wait_option: str(waits).lower(),
    }
    return {name: value for name, value in options.items() if name}


def struct_json(scan: Scan) -> str:
    """The columns that a scan reads, as the JSON of a Spark struct type."""
    return StructType([StructField(c.name, to_spark(c.type)) for c in scan.read_columns]).json()


def provided_records(
    session: SparkSession, provider: SourceProvider, scan: Scan, spec: ReadSpec | None, resolve: Resolver
) -> SourceFrame:
    """The stream of a scan's records from a provider (tests, backfills), in the job's session."""
    entity = spec.entity if spec else f"{scan.relation.store}.{scan.relation.entity}"
    frame = in_session(provider(scan, spec), session)
    schemas = resolved_schemas(spec.schemas, resolve) if spec else None
    envelope = replace(PROVIDED, headers="`headers`") if "headers" in frame.columns else PROVIDED
    empty_is_delete, text_keys = (spec.empty_is_delete, spec.text_keys) if spec else (False, False)
    return SourceFrame(frame, envelope, entity, empty_is_delete, schemas, text_keys=text_keys)


def resolved(options: Options, resolve: Resolver) -> Mapping[str, str]:
    """Options as plain text; they may hold secrets, so they are never printed or stored."""
    return MappingProxyType({name: resolve(value) for name, value in options.items()})


def register_provider(spark: SparkSession, provider: str) -> None:
    """Register a Python data source (``module:Class``) with a session, unless it is registered or ``provider`` is
    empty."""
    if not provider:
        return
    module, _, name = provider.partition(":")
    try:
        spark.dataSource.register(getattr(import_module(module), name))
    except AnalysisException as problem:
        if problem.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
