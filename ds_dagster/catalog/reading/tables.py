"""Read specs of tables and views that are looked up, taken from the write specs of their stores."""

from __future__ import annotations

from types import MappingProxyType

from ds_dagster.catalog.io_spec import Options, TableRead
from ds_dagster.catalog.properties.tables import RETENTION
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import StoreDefinition, StoreKind
from ds_dagster.errors import error

VIEW = "view"
"""Option of a lookup: name of the view (its query creates the view's table); absent for tables."""


def table_read(kind: StoreKind, store: StoreDefinition, relation: Relation) -> TableRead:
    """The read spec of a table or view."""
    spec = kind.write_spec(store, relation, "incremental")
    if spec.table is None or not kind.capabilities.table_reader:
        raise error("INTERNAL", where=f"a lookup of {relation.name}, which is not a table")
    options = MappingProxyType({**spec.options, **_of_view(relation)})
    return TableRead(kind.capabilities.table_reader, options, spec.table.path, spec.entity)


def _of_view(relation: Relation) -> Options:
    if relation.kind != "materialized_view":
        return {}
    retention = relation.properties.get(RETENTION)
    return {VIEW: PropertyValue(str(relation.name)), **({} if retention is None else {RETENTION: retention})}
