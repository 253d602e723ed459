"""Detects entities that were deleted and created again. A new topic of the same name starts with small offsets: the
checkpoint's positions mean nothing in it, and Spark does not notice once the new topic is longer than the old one was.
Rows that were written to the old topic are not in the new one.

The checkpoint remembers the identities of its sources and targets next to Spark's own files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import ReadSpec
from ds_dagster.errors import error
from ds_dagster.spark.queries.checkpoint_tip import read_text, write_text

SOURCES = "ds-sources.json"
TARGETS = "ds-targets.json"


def check_identities(session: SparkSession, checkpoint: str, reads: Mapping[str, ReadSpec]) -> None:
    """Compare the sources with those that the checkpoint remembers, and remember new ones.

    Args:
        session: with the settings of the checkpoint's file system.
        checkpoint: location of the checkpoint; a local path or any URL that Hadoop supports.
        reads: read spec of every source, by its name.

    Raises:
        DsError: INPUT_RECREATED, CHECKPOINT_UNREADABLE.
    """
    now = identities(reads)
    before = remembered(session, checkpoint, SOURCES) if now else {}
    for name, identity in now.items():
        if before.get(name, identity) != identity:
            raise error("INPUT_RECREATED", entity=reads[name].entity)
    remember(session, checkpoint, SOURCES, before, now)


def identities(reads: Mapping[str, ReadSpec]) -> Mapping[str, str]:
    """Identities of the sources by name, without unknown ones. A later source of the same name has another identity."""
    return {name: spec.identity for name, spec in reads.items() if spec.identity}


def remembered(session: SparkSession, checkpoint: str, file: str) -> Mapping[str, str]:
    """Identities by name; empty for a checkpoint that is new or from an earlier version of the package.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    text = read_text(session, checkpoint, file)
    if text is None:
        return {}
    try:
        return {str(name): str(identity) for name, identity in json.loads(text).items()}
    except (ValueError, AttributeError) as problem:
        raise error("CHECKPOINT_UNREADABLE", detail=f"{checkpoint}/{file}: {problem}") from problem


def remember(
    session: SparkSession, checkpoint: str, file: str, before: Mapping[str, str], now: Mapping[str, str]
) -> None:
    """Write identities that are new or have changed.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    if now.items() - before.items():
        write_text(session, checkpoint, file, json.dumps({**before, **now}, indent=1, sort_keys=True) + "\n")
