"""The bridge to the operators in our jar: a typed function for each of them.

Everything here needs a classic session whose JVM was started with the jar on its class path
(``spark.driver.extraClassPath``; a jar added later has no effect). :func:`operators` checks that once.

The text of a failure inside the JVM contains ``[ds:CONDITION]``, however deep Spark wraps it; :func:`operator_error`
turns such an exception into ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DataType

from ds_dagster.envelope import from_wire
from ds_dagster.errors import DsError, error
from ds_dagster.spark.clocks.config import ClockConfig
from ds_dagster.spark.gateway import has_operators, package

KAFKA_SINK = "ds-kafka"
TICK_SOURCE = "ds-ticks"
TIMED_SOURCE = "ds-timed"
RETENTION_MICROS = 3_600_000_000
NO_REPLAY = -1
SHARED_MARK = "__shared:"
"""Prefix of the names of columns that mark a shared exchange, see :meth:`Operators.plan_with_rules`."""


@dataclass(frozen=True, slots=True)
class Operators:
    """Typed functions over the jar; made by :func:`operators`."""

    spark: SparkSession

    @property
    def _jvm(self) -> Any:
        return package(self.spark, "dsdagster")

    def temporal_join(
        self,
        frame: DataFrame,
        *,
        outer: bool,
        immediate: bool = False,
        retention_micros: int = RETENTION_MICROS,
        edge_millis: int = 0,
        late_rows: bool = True,
        job: str | None = None,
    ) -> DataFrame:
        """Join stream rows to the version valid at their time.

        Args:
            frame: columns ``k`` struct, ``side`` int (0 stream, 1 changelog), ``ts`` bigint microseconds, ``ord``
                string that sorts by source position, ``deleted`` boolean, ``l`` struct, ``r`` struct; unless
                ``immediate`` built by :func:`ds_dagster.spark.clocks.ticks.temporal_input`.
            outer: LEFT instead of INNER.
            immediate: join to the versions read so far, without waiting for event time; needs no ticks.
            retention_micros: how long ended versions are kept for late stream rows.
            edge_millis: how far the ticks trail event time.
            late_rows: stream rows older than event time are late; false for rows that a join below has delayed.
            job: name of the job whose clock snapshot counts late rows and versions.

        Returns:
            Columns ``l`` and ``r`` (null if no version was valid).
        """
        apply = self._jvm.join.TemporalJoin.apply
        joined = apply(_java(frame), outer, immediate, retention_micros, edge_millis, late_rows, job)
        return DataFrame(joined, self.spark)

    def match_recognize(self, frame: DataFrame, keys: int, conditions: DataFrame | None, settings: str) -> DataFrame:
        """MATCH_RECOGNIZE: patterns in the rows of a key.

        Args:
            frame: ``keys`` key columns, then ``ts`` bigint microseconds, ``ord`` string that sorts by source position,
                ``row`` struct, ``et`` timestamp with the watermark on it.
            conditions: a projection over the fields of ``row`` and the values of a match, never run; or None.
            settings: JSON, see ``dsdagster.match.MatchSettings``.

        Returns:
            The key columns, ``m`` struct of the values ``v0`` …, ``ts`` of the last row.
        """
        over = None if conditions is None else _java(conditions)
        rows = self._jvm.match.MatchRecognize.apply(_java(frame), keys, over, settings)
        return DataFrame(rows, self.spark)

    def upsert_to_delta(self, frame: DataFrame, keys: int, *, ttl_millis: int = 0) -> DataFrame:
        """Upserts and deletes as rows with weights.

        Args:
            frame: ``keys`` key columns, then ``ord`` binary (the greatest of a batch counts), ``deleted`` boolean,
                ``row`` struct.
            ttl_millis: a key without an upsert for so long is dropped from state; 0: never.

        Returns:
            Columns ``row`` and ``w``.
        """
        return DataFrame(self._jvm.delta.UpsertToDelta.apply(_java(frame), keys, ttl_millis), self.spark)

    def delta_aggregate(
        self, frame: DataFrame, keys: int, calls: str, *, appends_only: bool, weighted: bool, ttl_millis: int = 0
    ) -> DataFrame:
        """GROUP BY over rows with weights.

        Args:
            frame: ``keys`` group columns, then the arguments, then ``w`` bigint.
            calls: JSON of ``[{"function", "argument", "distinct", "type"}]``; argument: its index, negative for
                ``COUNT(*)``.
            appends_only: no weight is below zero.
            weighted: results are added and retracted by ``w``; else the last column is ``deleted``.
            ttl_millis: groups, and values that are stored separately, are dropped from state after so long without a
                change; 0: never.

        Returns:
            The group columns, ``c0`` … per call, then ``w`` or ``deleted``.
        """
        rows = self._jvm.delta.aggregate.DeltaAggregate.apply(
            _java(frame), keys, calls, appends_only, weighted, ttl_millis
        )
        return DataFrame(rows, self.spark)

    def delta_join(self, frame: DataFrame, keys: int, kind: str, *, ttl_millis: int = 0) -> DataFrame:
        """Join of rows with weights.

        Args:
            frame: ``keys`` key columns, then ``side`` int (0 left, 1 right), ``l`` struct, ``r`` struct, ``w`` bigint.
            kind: inner, left, full, semi or anti; left_own and full_own: all pairs, and also every row of the left side
                (left_own) or of both sides (full_own) by itself, whether it has a partner or not.
            ttl_millis: a row is dropped from state after so long without a change; 0: never.

        Returns:
            Columns ``l``, ``r`` (null if a row has no partner) and ``w``.
        """
        return DataFrame(self._jvm.delta.join.DeltaJoin.apply(_java(frame), keys, kind, ttl_millis), self.spark)

    def distinct(self, frame: DataFrame, *, appends_only: bool, ttl_millis: int = 0) -> DataFrame:
        """DISTINCT over rows with weights: each row once.

        Args:
            frame: columns of the row, then ``w`` bigint.
            appends_only: no weight is below zero.
            ttl_millis: a row is dropped from state after so long without a change; 0: never.

        Returns:
            The same columns; ``w`` is 1 for the first copy of a row, -1 when its last copy is retracted.
        """
        return DataFrame(self._jvm.delta.Distinct.apply(_java(frame), appends_only, ttl_millis), self.spark)

    def top_n(
        self,
        frame: DataFrame,
        keys: int,
        ranking: str,
        *,
        appends_only: bool,
        whole: bool,
        ranked: bool,
        ttl_millis: int = 0,
        place: str = "ANYWHERE",
    ) -> DataFrame:
        """The first rows of each partition of rows with weights.

        Args:
            frame: ``keys`` columns of the partition, then those of ORDER BY, ``row`` struct, ``w`` bigint.
            ranking: JSON of ``{"function", "limit", "order": [{"descending", "nulls_first"}]}``.
            appends_only: no weight is below zero.
            whole: all rows of a partition are in one batch.
            ranked: the rank is needed; otherwise a row whose rank only changes is not a change.
            ttl_millis: a partition is dropped from state after so long without a change; 0: never.
            place: see :data:`ds_dagster.spark.operators.key_places.KeyPlace`.

        Returns:
            Columns ``row``, ``rank`` bigint (0 unless ``ranked``), ``w``.
        """
        settings = (keys, ranking, appends_only, whole, ranked, ttl_millis, place)
        return DataFrame(self._jvm.delta.rank.TopN.apply(_java(frame), *settings), self.spark)

    def lonely(self, frame: DataFrame, *, is_left: bool) -> DataFrame:
        """Outer join rows: rows of one side are emitted without a partner only while no pair contains them.

        Args:
            frame: ``l`` struct, ``r`` struct, ``w`` bigint: the pairs that satisfy the join condition, and every row of
                the side by itself (null for the other side).
            is_left: the side is the left one.

        Returns:
            The same columns.
        """
        return DataFrame(self._jvm.delta.Lonely.apply(_java(frame), is_left), self.spark)

    def interval_join(self, frame: DataFrame, keys: int, kind: str, within_micros: int) -> DataFrame:
        """Join of two streams whose rows are at most ``within_micros`` apart.

        Args:
            frame: ``keys`` key columns, then ``side`` int (0 left, 1 right), ``l`` struct, ``r`` struct, ``et``: the
                row's time, which carries the watermark.
            kind: inner, left or full.

        Returns:
            Columns ``l`` and ``r`` (null if a row has no partner).
        """
        return DataFrame(self._jvm.join.IntervalJoin.apply(_java(frame), keys, kind, within_micros), self.spark)

    def window_join(self, frame: DataFrame, keys: int, kind: str) -> DataFrame:
        """Join of rows in the same window; results are emitted when event time passes its end.

        Args:
            frame: ``keys`` key columns, the first of them ``end`` timestamp, then ``side`` int (0 left, 1 right), ``l``
                struct, ``r`` struct, ``et``: the end again, which carries the watermark.
            kind: inner, left or full.

        Returns:
            Columns ``end``, ``l`` and ``r`` (null if a row has no partner).
        """
        return DataFrame(self._jvm.join.WindowJoin.apply(_java(frame), keys, kind), self.spark)

    def window_extreme(self, frame: DataFrame, keys: int) -> DataFrame:
        """The rows with the greatest value of each window, emitted when event time passes its end.

        Args:
            frame: ``keys`` key columns, the first of them ``end`` timestamp, then ``value`` bigint, ``row`` struct,
                ``et``: the end again, which carries the watermark.

        Returns:
            Columns ``end`` and ``row``.
        """
        return DataFrame(self._jvm.join.WindowExtreme.apply(_java(frame), keys), self.spark)

    def event_over(
        self, frame: DataFrame, keys: int, calls: str, *, by_time: bool, before: int, ttl_millis: int = 0
    ) -> DataFrame:
        """OVER: for each appended row, results over the rows before it in event time.

        Args:
            frame: ``keys`` columns of the partition, then ``et`` timestamp with the watermark, one argument per call,
                ``row`` struct.
            calls: JSON of ``[{"function", "argument", "type"}]``.
            by_time: the window frame is measured in microseconds; else in rows.
            before: how far the window frame reaches back; negative: to the beginning.
            ttl_millis: a partition starts over after so long in event time without a row; 0: never.

        Returns:
            Column ``row``, then ``c0`` … per call.
        """
        rows = self._jvm.delta.over.EventOver.apply(_java(frame), keys, calls, by_time, before, 1000 * ttl_millis)
        return DataFrame(rows, self.spark)

    def fold(self, frame: DataFrame, keys: int, place: str = "ANYWHERE") -> DataFrame:
        """At most one upsert or delete per key and batch.

        Args:
            frame: ``keys`` key columns, then ``row`` struct, ``w`` bigint.
            place: see :data:`ds_dagster.spark.operators.key_places.KeyPlace`.

        Returns:
            Columns ``row`` and ``deleted``.
        """
        return DataFrame(self._jvm.delta.Fold.apply(_java(frame), keys, place), self.spark)

    def seen(self, job: str, input_name: str, time: Column, partition: Column) -> Column:
        """``time`` (timestamp) unchanged, reported to the job's clock for its ``partition`` (int or string)."""
        column = self._jvm.time.Seen.column(self.spark._jsparkSession, job, input_name, _java(time), _java(partition))
        return cast(Column, ClassicColumn(column))

    def opaque_null(self, data_type: DataType) -> Column:
        """A null of the type that the optimizer does not recognize as null and pushes no predicate past."""
        return cast(Column, ClassicColumn(self._jvm.Expressions.opaqueNull(data_type.json())))

    def avro_columns(
        self,
        part: Column,
        headers: Column,
        *,
        settings: str,
        schema_id: int,
        columns: DataType,
        reason: str,
        kind: Literal["value", "key"],
    ) -> Column:
        """A struct of decoded Avro columns; the last field is the reason why the record cannot be read, or null.

        Args:
            part: value or key in Confluent's wire format; null gives null.
            headers: of the record, ``array<struct<key:string,value:binary>>``, or a null of that type.
            settings: JSON of the registry (:func:`ds_dagster.spark.records.schemas.registry_settings`), holds secrets.
            schema_id: id of the schema that gives defaults and names; negative if there is none.
            columns: struct type; a field that is not nullable is required.
            reason: name of the last field.
            kind: name of the part in reasons.
        """
        make = self._jvm.avro.AvroDecoder.column
        java_column = make(_java(part), _java(headers), settings, schema_id, columns.json(), reason, kind)
        return cast(Column, ClassicColumn(java_column))

    def protobuf_columns(
        self,
        part: Column,
        headers: Column,
        *,
        settings: str,
        schema_id: int,
        columns: DataType,
        reason: str,
        kind: Literal["value", "key"],
    ) -> Column:
        """A struct of decoded Protobuf columns; arguments as for :meth:`avro_columns`."""
        make = self._jvm.protobuf.ProtobufDecoder.column
        java_column = make(_java(part), _java(headers), settings, schema_id, columns.json(), reason, kind)
        return cast(Column, ClassicColumn(java_column))

    def protobuf_message(
        self,
        part: Column,
        headers: Column,
        *,
        descriptors: str,
        message: str,
        columns: DataType,
        reason: str,
        kind: Literal["value", "key"],
    ) -> Column:
        """A struct of decoded columns of bare Protobuf messages, without a schema registry.

        Args:
            part, headers, columns, reason, kind: as for :meth:`avro_columns`.
            descriptors: a set of file descriptors, in base64.
            message: full name of the message in the descriptors.
        """
        make = self._jvm.protobuf.ProtobufDecoder.bare
        java_column = make(_java(part), _java(headers), descriptors, message, columns.json(), reason, kind)
        return cast(Column, ClassicColumn(java_column))

    def protobuf_bytes(
        self, struct: Column, *, descriptors: str, message: str, id_: int, type_: DataType, subject: str
    ) -> Column:
        """A struct as a Protobuf message, in Confluent's wire format unless ``id_`` is negative."""
        make = self._jvm.protobuf.ProtobufEncoder.column
        return cast(Column, ClassicColumn(make(_java(struct), descriptors, message, id_, type_.json(), subject)))

    def payload(self, part: Column, headers: Column, *, kind: Literal["value", "key"]) -> Column:
        """A struct of ``payload``, the part without its schema id, and ``reason``, why there is no payload, or null."""
        java_column = self._jvm.registry.Payload.column(_java(part), _java(headers), kind)
        return cast(Column, ClassicColumn(java_column))

    def avro_bytes(self, struct: Column, *, schema: str, id_: int, type_: DataType, subject: str) -> Column:
        """A struct as Avro in Confluent's wire format; ``subject`` is shown in messages."""
        make = self._jvm.avro.AvroEncoder.column
        return cast(Column, ClassicColumn(make(_java(struct), schema, id_, type_.json(), subject)))

    def batch_parts(self, batch: DataFrame, key: str, value: str) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values of the records of a batch, without a second plan over it.

        Args:
            batch: the frame that Spark passes to a foreachBatch function.
            key, value: names of its columns, BINARY or STRING; ``key`` is empty if records have no key.
        """
        columns = batch.columns
        places = [columns.index(name) if name else -1 for name in (key, value)]
        framed = bytes(self._jvm.record.BatchParts.collect(_java(batch), *places))
        return _unframed(framed)

    @contextmanager
    def rows_of_sinks(self, batch: DataFrame) -> Iterator[Callable[[int], DataFrame]]:
        """Rows by the number of a sink; ``batch`` has this number and a struct for each sink, and is computed once."""
        rows = self._jvm.record.SinkRows.of(_java(batch))
        try:
            yield lambda number: DataFrame(rows.sink(number), batch.sparkSession)
        finally:
            rows.release()

    def read_float(self, part: Column, *, wide: bool) -> Column:
        """Eight (``wide``) or four big-endian bytes as DOUBLE or FLOAT; null stays null."""
        return cast(Column, ClassicColumn(self._jvm.record.Floats.read(_java(part), wide)))

    def write_float(self, value: Column, *, wide: bool) -> Column:
        """DOUBLE (``wide``) or FLOAT as eight or four big-endian bytes; null stays null."""
        return cast(Column, ClassicColumn(self._jvm.record.Floats.write(_java(value), wide)))

    def bad_record(self, entity: str, relation: str, partition: Column, position: Column, reason: Column) -> Column:
        """A condition that fails the batch with ``BAD_RECORD`` when it is evaluated."""
        parts = [_java(part.cast("string")) for part in (partition, position, reason)]
        return cast(Column, ClassicColumn(self._jvm.record.BadRecord.column(entity, relation, *parts)))

    def guard(self, row: Column, rows: DataType, columns: Sequence[Column]) -> Column:
        """A struct of ``result``, a struct of these columns, and ``reason``, why they failed for a row, or null.

        Args:
            row: struct of the fields that the columns read.
            rows: type of ``row``.
            columns: with distinct names; no expressions that only a plan can compute.
        """
        java_columns = [_java(column) for column in columns]
        schema = self.spark._jsparkSession.parseDataType(rows.json())
        guarded = self._jvm.rowlog.Guard.column(self.spark._jsparkSession, _java(row), schema, java_columns)
        return cast(Column, ClassicColumn(guarded))

    def java_function(
        self, function: str, *, jar: str, digest: str, entry: str, types: DataType, result: DataType, arguments: Column
    ) -> Column:
        """A call of a user-defined function in Java.

        Args:
            function: name of the function in messages.
            jar, digest: path and hash of the jar with the class; a jar with a new hash is loaded again.
            entry: full name of the class.
            types: struct of the arguments' types.
            result: type of the result.
            arguments: struct of the arguments.
        """
        make = self._jvm.udf.JavaFunction.column
        java_column = make(function, jar, digest, entry, types.json(), result.json(), _java(arguments))
        return cast(Column, ClassicColumn(java_column))

    def register_row_log(self, job: str, log: str, options: Mapping[str, str]) -> None:
        """Give the next run of a job a log; call it before its frames are built.

        Args:
            job: unique among running jobs.
            log: name of the log in the job.
            options: of :data:`KAFKA_SINK`; empty for a log whose rows are read with :meth:`take_logged_rows`.
        """
        context = self.spark.sparkContext._jsc.sc()
        self._jvm.rowlog.RowLogs.register(context, job, log, dict(options))

    def log_row(self, job: str, log: str, row: Column) -> Column:
        """A condition that is never true; when it is evaluated, ``row`` (text) goes to the log."""
        java_column = self._jvm.rowlog.LogRow.column(self.spark._jsparkSession, job, log, _java(row))
        return cast(Column, ClassicColumn(java_column))

    def register_late_rows(self, job: str, log: str, options: Mapping[str, str], *, tells: bool) -> None:
        """Like :meth:`register_row_log`, for rows too late for their window; ``tells``: records have their lateness."""
        context = self.spark.sparkContext._jsc.sc()
        self._jvm.rowlog.RowLogs.registerLate(context, job, log, dict(options), tells)

    def begin_row_logs(self, job: str, checkpoint: str, replay: int) -> None:
        """Before the query starts: give a job's logs its checkpoint and unfinished batch (:data:`NO_REPLAY`: none)."""
        self._jvm.rowlog.RowLogs.begin(self.spark._jsparkSession, job, checkpoint, replay)

    def late_row(self, job: str, log: str, end: Column, row: Column) -> Column:
        """A filter that keeps every row and records those whose window (``end``: timestamp) may be closed."""
        late = self._jvm.rowlog.LateRow
        candidate = cast(Column, ClassicColumn(late.candidate(job, _java(end))))
        logged = cast(Column, ClassicColumn(late.column(self.spark._jsparkSession, job, log, _java(end), _java(row))))
        return sf.when(~candidate, sf.lit(True)).otherwise(logged)

    def take_logged_rows(self, job: str, log: str, epoch: int) -> list[bytes]:
        """Remove and return the log's rows of the batch that has just been computed."""
        return [bytes(row) for row in self._jvm.rowlog.RowLogs.take(job, log, epoch)]

    def flush_row_logs(self, job: str, epoch: int) -> None:
        """Write the logged rows of a batch to their topics; does nothing for a batch that is already written."""
        self._jvm.rowlog.RowLogs.flush(job, epoch)

    def remove_row_logs(self, job: str) -> None:
        """Remove the logs of a job that has ended, and close their producers."""
        self._jvm.rowlog.RowLogs.remove(job)

    def register_clock(self, job: str, config: ClockConfig) -> None:
        """Give the next run of a job its clock; call it before its frames are built."""
        self._jvm.time.Clocks.register(job, config.json())

    def remove_clock(self, job: str) -> None:
        """Remove the clock of a job that has ended."""
        self._jvm.time.Clocks.remove(job)

    def advance_clock(self, job: str, micros: int) -> None:
        """Report that all rows before ``micros`` (since 1970) have been sent; never moves time back."""
        self._jvm.time.Clocks.advance(job, micros)

    def clock_snapshot(self, job: str) -> dict[str, Any] | None:
        """State of a job's clock, None if it has no clock.

        ``{"time_micros", "pending", "inputs": {name: {"state": active|idle|waiting|unreachable, "time_micros",
        "newest_micros", "look_age_micros", "lag_records", "open_transaction", "partitions"}},
        "late": {"late_rows", "late_versions"}}``; unknown values are null.
        """
        return cast("dict[str, Any] | None", json.loads(self._jvm.time.Clocks.snapshot(job)))

    def release_transaction(self, transactional_id: str) -> None:
        """Close the producer of a job whose query has ended; does nothing if it has none."""
        self._jvm.kafka.JobTransactions.release(transactional_id)

    def fence_transaction(self, options: Mapping[str, str]) -> None:
        """Fence the producers of a dead job and abort what they left open; a batch that is decided, whose tasks'
        transactions are not all committed, is finished first.

        Args:
            options: options of the transactional sink.
        """
        self._jvm.kafka.JobTransactions.fence(dict(options))

    def plan_with_rules(self) -> None:
        """Sessions made from this one from now on plan with the rules of ``dsdagster.planning``."""
        self._jvm.planning.PlanningRules.enable(self.spark._jsparkSession)

    def set_fault(self, fault: str) -> None:
        """Tests: fail once at a point of ``dsdagster.kafka.Faults``, with ``halt:`` by ending the JVM; empty: never."""
        self._jvm.kafka.Faults.set(fault)

    def set_now(self, micros: int | None) -> None:
        """Tests: stop the clocks of this JVM at ``micros`` since 1970; None lets them run."""
        if micros is None:
            self._jvm.time.Clocks.useRealTime()
        else:
            self._jvm.time.Clocks.setNow(micros)


def operators(spark: SparkSession) -> Operators:
    """The jar's operators in this session.

    Raises:
        UserError: ``OPERATOR_JAR_MISSING`` if the JVM was started without the jar.
    """
    if not has_operators(spark):
        raise error("OPERATOR_JAR_MISSING")
    return Operators(spark)


def operator_error(failure: BaseException | str) -> DsError | None:
    """The condition that an operator put into an exception's text, or None if no operator raised it."""
    return from_wire(str(failure))


def _unframed(framed: bytes) -> list[tuple[bytes | None, bytes | None]]:
    """Pairs of parts. Before each part is its length in four bytes, -1 for None."""
    parts: list[bytes | None] = []
    at = 0
    while at < len(framed):
        size = int.from_bytes(framed[at : at + 4], "big", signed=True)
        at += 4
        parts.append(None if size < 0 else framed[at : at + size])
        at += max(size, 0)
    return list(zip(parts[::2], parts[1::2], strict=True))


def _java(wrapped: DataFrame | Column) -> Any:
    return cast(Any, wrapped)._jdf if isinstance(wrapped, DataFrame) else cast(Any, wrapped)._jc


def recent_progress(query: StreamingQuery, after: str = "") -> list[str]:
    """JSON of a query's progress reports after a time (``timestamp`` of the last one that was read), oldest first.

    Not after a batch number: a report without a batch has the number of the next batch. PySpark's own
    ``recentProgress`` makes about fifty calls per report, this function three.
    """
    progress = cast(Any, query)._jsq.recentProgress()
    reports: list[str] = []
    for index in range(len(progress) - 1, -1, -1):
        if str(progress[index].timestamp()) <= after:
            break
        reports.append(str(progress[index].json()))
    return reports[::-1]
