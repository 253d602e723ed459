"""Start and end of a prepared query: ``start`` starts it once; after its end, ``finish`` publishes a finite run, and
``close`` releases resources. A restart prepares the query again.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.catalog.ledger import CheckpointTip
from ds_dagster.errors import DsError
from ds_dagster.spark.cluster import close_ended_stores
from ds_dagster.spark.crossing import called_back
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.jvm import NO_REPLAY, operators
from ds_dagster.spark.queries.application import ApplicationWriter
from ds_dagster.spark.queries.batch_writers import Capture
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from ds_dagster.spark.queries.prepared import PreparedQuery
from ds_dagster.spark.queries.progress import BatchProgress, read_progress
from ds_dagster.spark.queries.row_logs import JOB_OPTION
from ds_dagster.spark.queries.sink_account import Account
from ds_dagster.spark.queries.source_identity import check_identities, identities
from ds_dagster.spark.session import active, in_pool

Trigger = Literal["continuous", "available_now"]
_LOG = logging.getLogger(__name__)


def start(prepared: PreparedQuery, checkpoint: str, trigger: Trigger = "continuous") -> StreamingQuery:
    """Start a prepared query on a checkpoint; if it does not start, it is closed.

    Args:
        prepared: a query that was not started before.
        checkpoint: location of the checkpoint; a local path or any URL that Hadoop supports.
        trigger: with ``available_now`` the query ends when all data that exists now is processed.

    Raises:
        DsError: INPUT_RECREATED; a sink, a loader or Spark refuses the start.
    """
    with ExitStack() as undo:
        undo.callback(close, prepared)
        check_identities(prepared.session, checkpoint, prepared.reads)
        tip = checkpoint_tip(prepared.session, checkpoint)
        _settle(prepared, checkpoint, tip)
        query = _started(prepared, checkpoint, tip, trigger)
        undo.pop_all()
    return query


def _settle(prepared: PreparedQuery, checkpoint: str, tip: CheckpointTip) -> None:
    """Compare the query's sinks with the checkpoint."""
    sources = identities(prepared.reads)
    account = Account.of(
        prepared.session,
        checkpoint,
        tip,
        prepared.targets,
        prepared.query.entities,
        sources,
        is_muted=prepared.is_muted,
    )
    with active(prepared.session):
        for sink in prepared.sinks:
            sink.writer.settle(account)
    account.close()


def _started(prepared: PreparedQuery, checkpoint: str, tip: CheckpointTip, trigger: Trigger) -> StreamingQuery:
    native, interval = prepared.native, max(sink.write.interval_millis for sink in prepared.sinks)
    realtime = prepared.realtime_millis if trigger == "continuous" else None
    rows = prepared.frame if native or prepared.query.is_application else prepared.sinks[0].rows()
    writer = rows.writeStream.queryName(prepared.job_name).outputMode("update" if realtime else prepared.output_mode)
    if native is None:
        writer = writer.foreachBatch(called_back(_batches(prepared)))
    else:
        of_logs = {} if prepared.logs is None else {JOB_OPTION: prepared.job_name}
        writer = writer.format(native.write.format).options(**native.options, **of_logs)
    writer = writer.option("checkpointLocation", checkpoint)
    if trigger == "available_now":
        writer = writer.trigger(availableNow=True)
    elif realtime:
        writer = writer.trigger(realTime=f"{realtime} milliseconds")  # type: ignore[call-overload]  # not in its stub
    elif interval:
        writer = writer.trigger(processingTime=f"{interval} milliseconds")
    try:
        if prepared.logs is not None:
            prepared.logs.begin(checkpoint, tip.planned.batch if tip.planned else NO_REPLAY)
        with active(prepared.session), in_pool(prepared.session, prepared.job_name):
            return writer.start()
    except SPARK_ERRORS as problem:
        raise classify(problem) from problem


def _batches(prepared: PreparedQuery) -> Capture:
    """The function that writes every batch, and then the rows that the batch has logged."""
    sinks, logs = prepared.sinks, prepared.logs
    write: Capture = ApplicationWriter(sinks) if prepared.query.is_application else sinks[0].writer
    if logs is None:
        return write

    def both(batch: DataFrame, epoch: int) -> None:
        write(batch, epoch)
        logs.write(epoch)

    return both


def finish(prepared: PreparedQuery) -> int | None:
    """Publish the rows that a finite run has loaded.

    Returns:
        Rows in its tables; None for a query without tables.
    """
    rows = [loader.finish() for loader in prepared.loaders]
    return sum(rows) if rows else None


def close(prepared: PreparedQuery) -> None:
    """Release the resources of a query that has ended: clock, logs, transactions, state, loaders. Failures of Spark are
    only logged."""
    try:
        if prepared.clock:
            operators(prepared.session).remove_clock(prepared.job_name)
        if prepared.logs is not None:
            prepared.logs.close()
        for sink in prepared.sinks:
            if sink.write.transactional:
                operators(prepared.session).release_transaction(sink.identity.job)
        _, silent = close_ended_stores(prepared.session)
        if silent:
            _LOG.warning("job %s: executors %s may hold its state for a minute", prepared.job_name, ", ".join(silent))
    except SPARK_ERRORS:
        _LOG.warning("job %s: its operators were not released", prepared.job_name, exc_info=True)
    for loader in prepared.loaders:
        loader.close()


def failure(prepared: PreparedQuery, query: StreamingQuery) -> DsError | None:
    """Why a query failed; None if it runs or ended without a failure. Adds the job's name for hints that show it."""
    problem = query.exception()
    if problem is None:
        return None
    of_sinks = (sink.writer.failure for sink in prepared.sinks if sink.writer.failure is not None)
    fault = next(of_sinks, None) or classify(problem, prepared.query.entities)
    if "{job}" in fault.definition.hint:
        fault.params.setdefault("job", prepared.job_name)
    return fault


def progress(query: StreamingQuery) -> BatchProgress | None:
    """The last progress report, with or without rows; None before the first."""
    last = query.lastProgress
    return None if last is None else read_progress(last.json)


def explain(prepared: PreparedQuery) -> str:
    """Spark's optimized plan of a query; options of stores that may be secrets are masked, by the settings of the
    thread's session."""
    with active(prepared.session):
        analyzed = prepared.frame._jdf.queryExecution().analyzed()
        return str(prepared.session._jsparkSession.sessionState().optimizer().execute(analyzed).toString())
