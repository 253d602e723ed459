"""The changes of one query out of a chunk that has those of all queries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ds_dagster.spark.postgres_cdc.pgoutput import Changes
from ds_dagster.spark.postgres_cdc.tuples import Index, Tuples


def changes_of(changes: Sequence[Changes], oids: Collection[int], start: int, end: int) -> list[Changes]:
    """The changes of some tables whose commit records begin in ``[start, end)``. They are numbered as if the session
    had no other tables: a batch that is repeated from the query's own slot has the same rows."""
    return _numbered([part for change in changes if change.table.oid in oids for part in _within(change, start, end)])


def _within(changes: Changes, start: int, end: int) -> list[Changes]:
    inside = (changes.commit >= start) & (changes.commit < end)
    if inside.all():
        return [changes]
    return [_taken(changes, np.flatnonzero(inside))] if inside.any() else []


def _taken(changes: Changes, which: Index) -> Changes:
    """Some of the changes."""
    return Changes(
        changes.table,
        changes.op[which],
        changes.position[which],
        changes.commit[which],
        changes.sequence[which],
        changes.time[which],
        changes.transaction[which],
        _rows(changes.new, which),
        _rows(changes.old, which),
        changes.old_is_key[which],
    )


def _rows(tuples: Tuples, which: Index) -> Tuples:
    places = pa.array(which)
    unchanged = tuple(None if mask is None else mask[which] for mask in tuples.unchanged)
    return Tuples(tuples.present[which], tuple(values.take(places) for values in tuples.values), unchanged)


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
