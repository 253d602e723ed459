"""Tables whose changes a relation reads (CDC), and their columns as the store reports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from ds_dagster.catalog.entity_operations import EntityColumn
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.schemas.evolution import RecordShape


@runtime_checkable
class TellsTables(Protocol):
    """Operations on the entities of a store whose tables are read by their changes."""

    def tables_read(self, relation: Relation) -> Mapping[str, tuple[Column, ...]]:
        """Table → the relation's columns that are read from it; no request is sent. Empty if the relation reads no
        changes."""

    def columns_of(self, relation: Relation, table: str) -> Sequence[EntityColumn]:
        """The columns that one of these tables has now, in order; empty if the table does not exist.

        Raises:
            DsError: of the store.
        """


def shape_of(columns: Sequence[EntityColumn]) -> RecordShape:
    """The columns of a table as the shape of its rows."""
    types = {column.name: column.type for column in columns if column.type is not None}
    return RecordShape({column.name: column.native for column in columns}, types)
