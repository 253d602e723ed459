"""Reads a checkpoint: its last batches (number and digest of their end offsets, as in sinks' ledgers), and our small
texts next to Spark's files.

Checkpoints are read and written through Hadoop, so they may be on any file system that Hadoop supports; see
``dsdagster.checkpoint``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ds_dagster.catalog.ledger import CheckpointTip, Tip, ends_text
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.gateway import package

_PACKAGE = "dsdagster.checkpoint"


def checkpoint_tip(session: SparkSession, checkpoint: str) -> CheckpointTip:
    """The last committed batch of a checkpoint, and the batch that was planned after it; each may be None.

    Args:
        session: with the settings of the checkpoint's file system.
        checkpoint: a local path or any URL that Hadoop supports; if it does not exist yet, it has no batches.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    with _classified():
        tips = json.loads(package(session, _PACKAGE).BatchLog.tip(session._jsparkSession, checkpoint))
    committed, planned = (
        Tip(batch["batch"], batch["offsets"]) if (batch := tips[name]) else None for name in ("committed", "planned")
    )
    return CheckpointTip(committed, planned)


def batch_tip(session: SparkSession, checkpoint: str, sources: str, epoch: int) -> Tip:
    """A batch that runs or has run, with its end offsets.

    Args:
        session, checkpoint: as for :func:`checkpoint_tip`.
        sources: JSON object: source → its identity, which a later source of the same name does not share.
        epoch: number of the batch; Spark has planned it.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    with _classified():
        tip = json.loads(package(session, _PACKAGE).BatchLog.batch(session._jsparkSession, checkpoint, epoch))
    return Tip(tip["batch"], tip["offsets"], ends_text(tip["ends"], sources))


def keeps_each_window(session: SparkSession, checkpoint: str) -> bool:
    """Whether a checkpoint keeps a group for each of its overlapping windows, as earlier versions of this package did;
    False if it has no groups of windows.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    with _classified():
        return bool(package(session, _PACKAGE).StateSchemas.keepsEachWindow(session._jsparkSession, checkpoint))


def read_text(session: SparkSession, checkpoint: str, name: str) -> str | None:
    """A text next to Spark's files, None if there is none.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    with _classified():
        text = package(session, _PACKAGE).CheckpointText.read(session._jsparkSession, checkpoint, name)
    return None if text is None else str(text)


def write_text(session: SparkSession, checkpoint: str, name: str, text: str) -> None:
    """Write or replace a text next to Spark's files; creates the checkpoint's folder if needed.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    with _classified():
        package(session, _PACKAGE).CheckpointText.write(session._jsparkSession, checkpoint, name, text)


@contextmanager
def _classified() -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as problem:
        raise classify(problem) from problem
