"""The checkpoint of a query whose groups are kept in another way since it ran: with more results of an aggregate, see
:mod:`ds_dagster.plan.identity.grown`, or in another kind of state store, see :mod:`ds_dagster.plan.state_store`. The
state is rewritten before the query starts.

The new state is written into a folder next to the checkpoint, which takes its place when it is complete. A start that
was killed before repeats this; the former checkpoint stays as ``…-replaced-N``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from ds_dagster.places.trees import Place, remove_tree
from ds_dagster.plan.state_store import PLACES, may_move, state_store
from ds_dagster.runtime.checkpoint_files import (
    current_folder,
    exchange_grown,
    grown_folder,
    log_setting,
    logged_setting,
)
from ds_dagster.runtime.checkpoint_log import STATE, copy_without_state
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from ds_dagster.spark.queries.grown_state import add_results, lacks_results, move_groups, store_class
from ds_dagster.spark.queries.prepared import PreparedQuery
from ds_dagster.spark.queries.query import close
from ds_dagster.spark.session import STATE_STORE_CLASS


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What was done to the state of a checkpoint.

    Attributes:
        groups: number of groups.
        has_grown: they have got results that they lacked.
        moved_to: where they are now, in words; empty if they have stayed.
    """

    groups: int
    has_grown: bool
    moved_to: str = ""

    def texts(self) -> list[str]:
        """Lines for the job's log."""
        lines = []
        if self.has_grown:
            lines.append(f"results are added to {self.groups} groups, and are computed from the rows since now")
        if self.moved_to:
            lines.append(f"{self.groups} groups have moved, and are kept {self.moved_to}")
        return lines


def rewritten(query: PreparedQuery, place: Place, log: Callable[[str], object], *, grows: bool = False) -> Place:
    """The checkpoint with the state in the form that a query needs, see :func:`rewrite_state`. ``log``: receives a line
    for each thing that was done."""
    done = rewrite_state(query, place, grows=grows)
    if done is None:
        return place
    for text in done.texts():
        log(text)
    return current_folder(place)


def rewrite_state(query: PreparedQuery, place: Place, *, grows: bool = False) -> Rewritten | None:
    """Give a checkpoint's groups the results that they lack, and move them into the kind of store that the query asks
    for; if that fails, the query is closed. Idempotent.

    Args:
        query: the query that is about to start.
        place: its checkpoint, which no query uses; may be missing.
        grows: whether results may have been added to the groups.

    Returns:
        None if the state is as the query needs it.

    Raises:
        DsError: CHECKPOINT_OTHER_GROUPS, CHECKPOINT_UNREADABLE; failures of Spark are classified.
        OSError: a file cannot be copied.
    """
    done = None
    moved_to = _moved_to(query, place)
    if not grows and not moved_to:
        return None
    with ExitStack() as undo:
        undo.callback(close, query)
        tip = checkpoint_tip(query.session, str(place)).committed
        batch = None if tip is None else tip.batch
        if batch is None and grows:
            remove_tree(place / STATE)  # left by a batch that has not finished
        has_grown = batch is not None and grows and lacks_results(query, str(place))
        if has_grown or moved_to:
            done = Rewritten(_exchange_state(query, place, batch, has_grown=has_grown), has_grown, moved_to)
        undo.pop_all()
    return done


def _moved_to(query: PreparedQuery, place: Place) -> str:
    """Where the groups have to move, in words; empty if they are there, or if there is no checkpoint."""
    if not may_move(query.query.plan):
        return ""
    held = logged_setting(place, STATE_STORE_CLASS)
    store = state_store(query.query)
    return PLACES[store] if store and held and held != store_class(query) else ""


def _exchange_state(query: PreparedQuery, place: Place, batch: int | None, *, has_grown: bool) -> int:
    """Put a checkpoint with the new state in the place of one that ends at a batch (None: no batch has finished);
    returns the number of groups."""
    folder, groups = grown_folder(place), 0
    copy_without_state(place, folder)
    log_setting(folder, STATE_STORE_CLASS, store_class(query))
    if batch is not None:
        write = add_results if has_grown else move_groups
        groups = write(query, str(place), str(folder), batch)
    os.sync()
    exchange_grown(place, folder)
    return groups
