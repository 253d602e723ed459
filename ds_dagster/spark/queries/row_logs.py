"""Row logs of a job: topics with the rows that its plan drops (bad records, failing rows, late rows).

The operators in our jar collect the rows while a batch is computed. After that, and before Spark commits the batch, the
rows are written in one transaction with the batch's number: a replayed batch computes the same rows, and the log's
marker shows whether they are already written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.catalog.io_spec import Envelope, SinkIdentity
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import COLUMNS, log_name
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.window import LateRows, Window
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import AS_JSON, field
from ds_dagster.spark.records.json_output import json_row

LogCapture = Callable[[str, list[bytes], int], None]
"""Gets the records of a log (its name, values, number of the batch) in place of its store (tests)."""
JOB_OPTION = "row.log.job"


@dataclass(frozen=True, slots=True)
class RowLogs:
    """The logs of one run of one job.

    Attributes:
        spark: the job's session.
        job: unique among running jobs.
        query: name of the query, as the log shows it.
        names: names of the logs.
        capture: see :data:`LogCapture`.
    """

    spark: SparkSession
    job: str
    query: str
    names: tuple[str, ...]
    capture: LogCapture | None = None

    def put(self, log: Relation, row: Mapping[str, Column]) -> Column:
        """A condition that is never true; when it is evaluated, it puts a row into the log."""
        values = {"query": sf.lit(self.query), **row}
        text = json_row([(c.name, values[c.name], c.type) for c in COLUMNS], "sql")
        return operators(self.spark).log_row(self.job, log_name(log), text)

    def keep_late(self, late: LateRows, end: Column, values: Mapping[str, Column]) -> Column:
        """A filter that keeps every row and records the possibly late ones.

        Args:
            late: the log for late rows.
            end: end of the window.
            values: columns of the log's relation, without the lateness and the name of the query.
        """
        values = {**values, **{column: sf.lit(self.query) for column, name in late.record if name == "query"}}
        fields = [(c.name, values[c.name], c.type) for c in late.relation.columns if c.name in values]
        text = json_row(fields, late.relation.event_time.format)
        return operators(self.spark).late_row(self.job, log_name(late.relation), end, text)

    def begin(self, checkpoint: str, replay: int) -> None:
        """Call it before the query starts: logs may already have the checkpoint's unfinished batch, ``replay``."""
        operators(self.spark).begin_row_logs(self.job, checkpoint, replay)

    def write(self, epoch: int) -> None:
        """Write the rows that the batch, which has just been computed, has put into the logs."""
        if self.capture is None:
            operators(self.spark).flush_row_logs(self.job, epoch)
            return
        for name in self.names:
            rows = operators(self.spark).take_logged_rows(self.job, name, epoch)
            if rows:
                self.capture(name, rows, epoch)

    def close(self) -> None:
        """Remove the logs and close their producers."""
        operators(self.spark).remove_row_logs(self.job)


def open_logs(
    spark: SparkSession,
    job: str,
    query: str,
    options: Mapping[str, Mapping[str, str]],
    identity: SinkIdentity,
    capture: LogCapture | None,
    late: Sequence[LateRows],
) -> RowLogs | None:
    """Open the logs of a job, before its frames are built; None if its query has no logs.

    Args:
        spark: the job's session.
        job: unique among running jobs.
        query: name of the query.
        options: sink options of each log with resolved references, by :func:`~ds_dagster.catalog.row_log.log_name`.
        identity: identity of the job; each log derives its own transactional id from it.
        capture: see :data:`LogCapture`.
        late: the logs for rows that are too late for their window.
    """
    if not options:
        return None
    tells = {log_name(rows.relation): rows.tells for rows in late}
    for name, of_sink in options.items():
        settings = {**of_sink, **log_identity(name, identity)}
        if name in tells:
            operators(spark).register_late_rows(job, name, settings, tells=tells[name])
        else:
            operators(spark).register_row_log(job, name, settings)
    return RowLogs(spark, job, query, tuple(options), capture)


def log_identity(name: str, identity: SinkIdentity) -> Mapping[str, str]:
    """Transactional id and marker of a log; after the job's death it is fenced like the job's sink."""
    return {"transactional.id": f"{identity.job}~{name}", "marker.group": f"{identity.ledger}~{name}"}


PLACE = ("store", "entity", "partition", "offset", "record_time", "key")
"""Columns of a log that identify the record of a row."""


def row_text(columns: Mapping[str, str]) -> Column:
    """A row as a JSON object; ``columns``: name in the object → field."""
    row = sf.struct(*[field(name).alias(column) for column, name in columns.items()])
    return sf.to_json(row, dict(AS_JSON))


def bad_record(scan: Scan, envelope: Envelope, reason: Column) -> Mapping[str, Column]:
    """The log's row of a record that cannot be read."""
    place = record_place(scan, envelope, sf.expr(envelope.key))
    relation = sf.lit(str(scan.relation.name))
    return {"relation": relation, **place, "value": sf.expr(envelope.value), "reason": reason}


def record_place(scan: Scan, envelope: Envelope, key: Column) -> Mapping[str, Column]:
    """The columns of :data:`PLACE` for a record."""
    values = (
        sf.lit(scan.relation.store),
        sf.lit(scan.relation.entity),
        sf.expr(envelope.partition),
        sf.expr(envelope.shown_position),
        sf.expr(envelope.timestamp),
        key,
    )
    return dict(zip(PLACE, values, strict=True))


def place_column(scan: Scan, envelope: Envelope, key: Column) -> Column:
    """The columns of :data:`PLACE` as one STRUCT, see ``records.columns.RECORD``."""
    return sf.struct(*[value.alias(name) for name, value in record_place(scan, envelope, key).items()])


def late_place(window: Window) -> frozenset[str]:
    """The technical column that a log of late rows needs from a window's rows."""
    return frozenset({names.RECORD}) if window.late is not None and window.late.record else frozenset()


def late_values(late: LateRows, columns: Sequence[str]) -> tuple[Column, Mapping[str, Column]]:
    """The end of a row's window, and the values of the row for a log of late rows, by the log's column.

    Args:
        late: the log.
        columns: columns of the rows.
    """
    start, end = (sf.col(names.WINDOW).getField(bound) for bound in ("start", "end"))
    window_values = {"event_time": sf.col(names.EVENT_TIME), "window_start": start, "window_end": end}
    record = {
        column: sf.col(names.RECORD).getField(name) if names.RECORD in columns else sf.lit(None)
        for column, name in late.record
        if name in PLACE
    }
    return end, {**window_values, **record, **{column: field(name) for column, name in late.fields}}
