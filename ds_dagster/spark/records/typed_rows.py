"""Rows of a source that returns the relation's columns: the counterpart of
:func:`ds_dagster.spark.records.formats.decode`, without decoding."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ds_dagster.catalog.reading.row_source import RowSource
from ds_dagster.catalog.relation import Column
from ds_dagster.errors import error
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.spark.queries.row_logs import place_column
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.bad_records import judged, no_event_time, time_column
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.spark.records.record_fields import record_field


def typed_rows(source: SourceFrame, scan: Scan, wants: frozenset[str]) -> DataFrame:
    """The scan's fields, and the technical columns among ``wants`` (``DELETED`` always on a changelog)."""
    if source.rows is None:
        raise error("INTERNAL", where=f"the source of {scan.source_name} gives records")
    frame = judged(source.frame, source, scan, _reason(source.rows, scan, wants))
    fields = [_column(source.rows, column).alias(scan.field_name(column.name)) for column in scan.read_columns]
    if scan.rowtime:
        fields.append(sf.unix_millis(sf.expr(source.envelope.timestamp)).alias(scan.rowtime_field))
    time = _event_time_or_arrival(source, source.rows, scan)
    fields += [record_field(source, scan, beside, time).alias(beside.name) for beside in scan.record_fields]
    return frame.select(*fields, *_technical(source, source.rows, scan, wants))


def _column(rows: RowSource, column: Column) -> SparkColumn:
    return sf.expr(rows.row).getField(column.name)


def _reason(rows: RowSource, scan: Scan, wants: frozenset[str]) -> SparkColumn:
    """Reason to refuse a row: the source's own reason, NULL in a NOT NULL column, or no event time."""
    is_live = ~sf.expr(rows.deleted)
    reasons = [sf.expr(rows.bad)]
    for column in scan.read_columns:
        if not column.nullable:
            text = sf.lit(f"column {column.name} is NULL")
            reasons.append(sf.when(is_live & _column(rows, column).isNull(), text))
    if names.EVENT_TIME in wants and scan.time.column is not None:
        reasons.append(sf.when(is_live & _event_time(rows, scan).isNull(), sf.lit(no_event_time(scan))))
    return sf.coalesce(*reasons)


def _technical(source: SourceFrame, rows: RowSource, scan: Scan, wants: frozenset[str]) -> list[SparkColumn]:
    envelope = source.envelope
    available = {
        names.EVENT_TIME: _event_time_or_arrival(source, rows, scan),
        names.PARTITION: sf.expr(envelope.partition),
        names.ORDER: sf.expr(envelope.order),
    }
    if names.RECORD in wants:
        available[names.RECORD] = place_column(scan, envelope, sf.lit(None).cast("binary"))
    columns = [column.alias(name) for name, column in available.items() if name in wants]
    deleted = [sf.expr(rows.deleted).alias(names.DELETED)] if scan.relation.is_changelog else []
    return [*columns, *deleted]


def _event_time_or_arrival(source: SourceFrame, rows: RowSource, scan: Scan) -> SparkColumn:
    arrival = sf.expr(source.envelope.timestamp)
    if scan.time.column is None:
        return arrival
    return sf.when(sf.expr(rows.deleted), arrival).otherwise(_event_time(rows, scan))


def _event_time(rows: RowSource, scan: Scan) -> SparkColumn:
    column = time_column(scan)
    return names.event_time(_column(rows, column), column.type)
