"""The checkpoint of a query whose definition adds results to an aggregate: its groups get these results before the
query starts, see :mod:`ds_dagster.plan.identity.grown`.

The new state is written into a folder next to the checkpoint, which takes its place when it is complete. A start that
was killed before repeats this; the former checkpoint stays as ``…-replaced-N``.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from ds_dagster.places.trees import Place, remove_tree
from ds_dagster.runtime.checkpoint_files import exchange_grown, grown_folder
from ds_dagster.runtime.checkpoint_log import STATE, copy_without_state
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from ds_dagster.spark.queries.grown_state import add_results, lacks_results
from ds_dagster.spark.queries.prepared import PreparedQuery
from ds_dagster.spark.queries.query import close


def add_missing_results(query: PreparedQuery, place: Place) -> int | None:
    """Add results to the groups of a checkpoint that lack them; if that fails, the query is closed. Idempotent.

    Args:
        query: the query that is about to start.
        place: its checkpoint, which no query uses; may be missing.

    Returns:
        The number of groups that lacked results; None if none did.

    Raises:
        DsError: CHECKPOINT_OTHER_GROUPS, CHECKPOINT_UNREADABLE; failures of Spark are classified.
        OSError: a file cannot be copied.
    """
    groups = None
    with ExitStack() as undo:
        undo.callback(close, query)
        batch = checkpoint_tip(query.session, str(place)).committed
        if batch is None:
            remove_tree(place / STATE)  # left by a batch that has not finished
        elif lacks_results(query, str(place)):
            groups = _exchange_state(query, place, batch.batch)
        undo.pop_all()
    return groups


def _exchange_state(query: PreparedQuery, place: Place, batch: int) -> int:
    """Put a checkpoint with more results in the place of one that ends at a batch; returns the number of groups."""
    folder = grown_folder(place)
    copy_without_state(place, folder)
    groups = add_results(query, str(place), str(folder), batch)
    os.sync()
    exchange_grown(place, folder)
    return groups
