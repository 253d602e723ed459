"""Which of the entities that had a name a checkpoint belongs to. A topic that was deleted and created again carries on
with small numbers under the old name; positions of the first mean nothing in the second, and Spark does not notice
when the second has grown longer than the first was. Rows that were written into the first are not in the second.

What was read and written is remembered beside Spark's own files in the checkpoint.
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
    """Compare the sources with those the checkpoint was begun with, and remember new ones.

    Args:
        session: with the settings of the checkpoint's file system.
        checkpoint: its location; a local path or any URL Hadoop knows.
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
    """Identities of the sources, which a later source of the same name does not share; without the unknown ones."""
    return {name: spec.identity for name, spec in reads.items() if spec.identity}


def remembered(session: SparkSession, checkpoint: str, file: str) -> Mapping[str, str]:
    """Identities by name; none for a checkpoint that is new, or of an earlier version of the package.

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
    """Write down what is not there yet, or has changed.

    Raises:
        ExternalError: CHECKPOINT_UNREADABLE.
    """
    if now.items() - before.items():
        write_text(session, checkpoint, file, json.dumps({**before, **now}, indent=1, sort_keys=True) + "\n")
