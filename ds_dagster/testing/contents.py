"""Rows of a relation, from the records of its topic: every change, or folded by key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ds_dagster.catalog.relation import Relation
from ds_dagster.testing.case import Row
from ds_dagster.testing.topics import Topic
from ds_dagster.testing.values import record_key, record_row

DELETED = "__deleted"
"""Column that marks a delete in a history."""


def without_values(row: Row, relation: Relation) -> Row:
    """The row; a delete in the history of a table only with its key and ``__deleted``."""
    return row if not row.get(DELETED) else {**{name: row[name] for name in relation.primary_key}, DELETED: True}


def changes_of(relation: Relation, topic: Topic) -> Iterator[Row]:
    """Every record of a topic as a row of its relation; a delete is its key and ``__deleted``.

    Raises:
        UserError: CASE_RECORD_UNREADABLE.
    """
    for record in topic.records:
        row = record_row(relation, record.key, record.value)
        if row is not None:
            yield row
        elif relation.is_changelog:
            yield {**record_key(relation, record.key), DELETED: True}


def folded(changes: Sequence[Row], key: Sequence[str]) -> list[Row]:
    """The last row of every key, deletes applied; ordered by the first change of the key."""
    rows: dict[str, Row] = {}
    for change in changes:
        at = json.dumps([change.get(name) for name in key])
        if change.get(DELETED):
            rows.pop(at, None)
        else:
            rows[at] = change
    return list(rows.values())
