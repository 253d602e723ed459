"""Where a checkpoint ends: its batches as sinks' ledgers know them, by number and digest of their end offsets.

Spark's offset log and commit log are read on any file system Hadoop knows, see ``dsdagster.checkpoint.BatchLog``.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.jvm import operators


def checkpoint_tip(session: SparkSession, checkpoint: str) -> CheckpointTip:
    """The last finished batch of a checkpoint and the one that was begun behind it.

    Args:
        session: with the settings of the checkpoint's file system.
        checkpoint: a local path or any URL Hadoop knows; one that is not there yet has no batches.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    try:
        found = operators(session).checkpoint_tip(checkpoint)
    except SPARK_ERRORS as problem:
        raise classify(problem) from problem
    committed, planned = found["committed"], found["planned"]
    return CheckpointTip(Tip(**committed) if committed else None, Tip(**planned) if planned else None)


def batch_tip(session: SparkSession, checkpoint: str, epoch: int) -> Tip:
    """A batch that runs or has run.

    Args:
        session, checkpoint: as above.
        epoch: number of the batch; Spark has planned it.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    try:
        return Tip(**operators(session).batch_tip(checkpoint, epoch))
    except SPARK_ERRORS as problem:
        raise classify(problem) from problem
