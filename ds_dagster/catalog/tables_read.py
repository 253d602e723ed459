"""How a table that is looked up is read: the write side of its store knows where it stands."""

from __future__ import annotations

from ds_dagster.catalog.io_spec import TableRead
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import StoreDefinition, StoreKind
from ds_dagster.errors import error


def table_read(kind: StoreKind, store: StoreDefinition, relation: Relation) -> TableRead:
    """The read spec of a table."""
    spec = kind.write_spec(store, relation, "incremental")
    if spec.table is None or not kind.capabilities.table_reader:
        raise error("INTERNAL", where=f"a lookup of {relation.name}, which is no table")
    return TableRead(kind.capabilities.table_reader, spec.options, spec.table.path, spec.entity)
