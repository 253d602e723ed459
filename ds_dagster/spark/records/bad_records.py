"""Records that do not fit their relation: counted, left out, logged, or the end of their batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ds_dagster.catalog.relation import Column
from ds_dagster.catalog.row_log import log_name
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries.row_logs import bad_record
from ds_dagster.spark.records.columns import opaque_condition, required

if TYPE_CHECKING:
    from ds_dagster.spark.records.formats import SourceFrame


@dataclass(frozen=True, slots=True)
class Reader:
    """A source that counts and logs bad records for others that read them too.

    Attributes:
        scan: what it decodes.
        wants: technical columns it needs.
    """

    scan: Scan
    wants: frozenset[str]


class Readers:
    """The sources of one plan. What two of them read from the same position on into the same log, as in a join of a
    relation with itself, the first one counts and logs.

    Args:
        read: gives the records of a scan.
    """

    def __init__(self, read: Callable[[Scan], SourceFrame]) -> None:
        self._read = read
        self._first: dict[str, Reader] = {}

    def source(self, scan: Scan, wants: frozenset[str]) -> SourceFrame:
        """The records of a scan; ``wants``: technical columns it needs."""
        if scan.log is None:
            return self._read(scan)
        key = repr((*scan.way, log_name(scan.log)))
        first = self._first.get(key)
        if first is None:
            self._first[key] = Reader(scan, wants)
            return self._read(scan)
        return replace(self._read(replace(scan, log=None)), first=first)


def judged(
    frame: DataFrame, source: SourceFrame, scan: Scan, reason: SparkColumn, is_first: SparkColumn | None = None
) -> DataFrame:
    """Rows without a reason against them; the others fail the batch, or are dropped and counted.

    Args:
        frame: rows of the source.
        source: they are of.
        scan: what they are decoded to.
        reason: what is wrong with a row, or NULL.
        is_first: whether a bad row is counted and logged here; None: each.
    """
    if scan.bad_records == "ignore":
        of_bad = sf.lit(1) if is_first is None else sf.when(is_first, sf.lit(1))
        bad = sf.count(sf.when(reason.isNotNull(), of_bad))
        counted = frame.observe(bad_records_metric(scan.source_name), bad.alias("rows"))
        if scan.log is None or source.logs is None:
            return counted.where(reason.isNull())
        logged = source.logs.put(scan.log, bad_record(scan, source.envelope, reason))
        logged = logged if is_first is None else sf.when(is_first, logged).otherwise(sf.lit(False))
        return counted.where(opaque_condition(sf.when(reason.isNull(), sf.lit(True)).otherwise(logged)))
    partition = sf.expr(source.envelope.partition)
    position = sf.expr(source.envelope.shown_position)
    fails = operators(frame.sparkSession).bad_record(
        source.entity, str(scan.relation.name), partition, position, reason
    )
    return frame.where(opaque_condition(required(reason.isNull(), fails)))


def bad_records_metric(source_name: str) -> str:
    """Name of the observation that counts a source's dropped records."""
    return f"bad_records_{source_name}"


def time_column(scan: Scan) -> Column:
    """The column that carries event time, of a scan that has one."""
    return next(c for c in scan.relation.columns if scan.field_name(c.name) == scan.time.column)


def no_event_time(scan: Scan) -> str:
    """What is wrong with a record without event time."""
    return f"the event time is NULL: the column {time_column(scan).name} has no value here, or one that is not a time"
