"""The changes of one query out of a chunk that has those of all queries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ds_dagster.spark.postgres_cdc.pgoutput import Changes


def changes_of(changes: Sequence[Changes], oids: Collection[int], start: int, end: int) -> list[Changes]:
    """The changes of some tables whose commit records begin in ``[start, end)``. They are numbered as if the session
    had no other tables: a batch that is repeated from the query's own slot has the same rows."""
    return _numbered([part for change in changes if change.table.oid in oids for part in _within(change, start, end)])


def _within(changes: Changes, start: int, end: int) -> list[Changes]:
    inside = (changes.commit >= start) & (changes.commit < end)
    if inside.all():
        return [changes]
    if not inside.any():
        return []
    which = np.flatnonzero(inside)
    return [changes.picked(which, changes.new.picked(which), changes.old.picked(which))]


def _numbered(changes: list[Changes]) -> list[Changes]:
    """The changes with their number in their transaction. Changes of one message (a TRUNCATE) have one number."""
    if not changes:
        return changes
    messages, first, of = np.unique(
        np.concatenate([change.position for change in changes]), return_index=True, return_inverse=True
    )
    commit = np.concatenate([change.commit for change in changes])[first]
    _, begin, transaction = np.unique(commit, return_index=True, return_inverse=True)
    number = (np.arange(len(messages)) - begin[transaction])[of]
    edges = np.cumsum([len(change) for change in changes])[:-1]
    return [replace(change, sequence=part) for change, part in zip(changes, np.split(number, edges), strict=True)]
