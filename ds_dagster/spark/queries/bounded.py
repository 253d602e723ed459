"""Rows of a query for records that it has read: the stream's plan over a bounded read. Each row depends on one record
or one closed window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.catalog.io_spec import ReadSpec, Resolver, SinkIdentity, WriteSpec
from ds_dagster.catalog.reading.past import Portion
from ds_dagster.catalog.reading.ranges import TimeRange
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.errors import error
from ds_dagster.plan.checks.recomputable import closed_windows
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.queries.batch_writers import BatchWriter
from ds_dagster.spark.queries.prepared import prepare
from ds_dagster.spark.queries.query import close
from ds_dagster.spark.queries.sources import register_provider, resolved
from ds_dagster.spark.records.columns import field
from ds_dagster.spark.session import active

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class _Once:
    """How a source is read once: name of its format, and options of its stream that are left out, in lower case."""

    format: str
    without: frozenset[str] = frozenset()


_KAFKA = _Once(
    "kafka",
    frozenset(
        {
            "subscribe",
            "startingoffsets",
            "startingtimestamp",
            "startingoffsetsbytimestampstrategy",
            "maxoffsetspertrigger",
        }
    ),
)
_FORMATS: Mapping[str, _Once] = MappingProxyType(
    {"ds-kafka-records": _KAFKA, "ds-kafka-skipping": _KAFKA, "ds_files": _Once("ds_files")}
)
"""Format of a stream → how the same records are read once."""
MARGIN = timedelta(days=1)
"""More than the difference between a time in Spark and in a table, from rounding and time zones."""


def bounded_rows(
    spark: SparkSession,
    query: BoundQuery,
    read: ReadSpec,
    write: WriteSpec,
    resolve: Resolver,
    portion: Portion,
    span: TimeRange,
    skips: Sequence[SkippedRecord] = (),
    closed: int | None = None,
) -> pyarrow.Table:
    """The rows of one portion of a source.

    Args:
        spark: any session with the connectors.
        query: a query of :mod:`ds_dagster.plan.checks.recomputable` with one part and one source; it fills a table.
        read: read spec of its source.
        write: write spec of its table.
        resolve: gives option values.
        portion: the records to read.
        span: time range; rows up to :data:`MARGIN` outside of it are returned too, and the table decides which are in
            it.
        skips: records that the job skips.
        closed: for aggregates of windows, epoch milliseconds: only windows that end then or earlier.

    Returns:
        The target's columns.

    Raises:
        DsError: also for failures of Spark, which are classified.
    """
    if read.format not in _FORMATS:
        raise error("INTERNAL", where=f"a bounded read of {read.format}")

    def records(_scan: Scan, _spec: ReadSpec | None) -> DataFrame:
        return _read(spark, read, resolve, portion)

    (part,) = query.parts
    (scan,) = query.scans
    prepared = prepare(
        spark,
        query,
        reads={scan.source_name: read},
        writes={part.name: write},
        identity=SinkIdentity(f"backfill.{query.name}", 1),
        resolve=resolve,
        job_name=f"backfill {query.name}",
        provider=records,
        skips=skips,
    )
    try:
        ((frame, writer),) = [(sink.frame, sink.writer) for sink in prepared.sinks]
        if not isinstance(writer, BatchWriter):
            raise error("INTERNAL", where=f"a bounded read of {query.name}, which fills no table")
        with active(prepared.session):
            column, type_ = field(span.column), frame.schema[span.column].dataType
            begin, end = (sf.lit(moment).cast(type_) for moment in _around(span))
            return writer.rows(_of_closed(query, frame, closed).where((column >= begin) & (column <= end)))
    except SPARK_ERRORS as problem:
        raise classify(problem, query.entities) from problem
    finally:
        close(prepared)


def _of_closed(query: BoundQuery, frame: DataFrame, closed: int | None) -> DataFrame:
    bounds = closed_windows(query)
    if bounds is None or closed is None:
        return frame
    moment = datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=closed)
    return frame.where(field(bounds.end) <= sf.lit(moment).cast(frame.schema[bounds.end].dataType))


def _around(span: TimeRange) -> tuple[datetime, datetime]:
    least, most = datetime.min.replace(tzinfo=timezone.utc), datetime.max.replace(tzinfo=timezone.utc)
    begin = span.begin - MARGIN if span.begin - least > MARGIN else least
    return begin, span.end + MARGIN if most - span.end > MARGIN else most


def _read(spark: SparkSession, read: ReadSpec, resolve: Resolver, portion: Portion) -> DataFrame:
    """The records of a portion, with the columns of a provided source (:data:`SourceProvider`)."""
    once = _FORMATS[read.format]
    register_provider(spark, read.provider)
    options = {k: v for k, v in resolved(read.options, resolve).items() if k.lower() not in once.without}
    frame = spark.read.format(once.format).options(**{**options, **portion.options}).load()
    envelope = read.envelope
    parts = {"key": envelope.key, "value": envelope.value, "timestamp": envelope.timestamp}
    parts |= {"partition": envelope.partition, "order": envelope.order}
    parts |= {"headers": envelope.headers} if envelope.headers else {}
    return frame.select(*(sf.expr(text).alias(name) for name, text in parts.items()))
