"""Metadata of a record that a query may read: ``rowkey()`` and ``rowmetadata()`` are fields of its scan, and so is the
record's position in time, which orders FIRST_VALUE and LAST_VALUE.

``rowtime()`` is a field too, with a flag of its own in the scan (``Scan.rowtime``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import StoreKind
from ds_dagster.datatypes import BIGINT, VARCHAR, StructField, StructType
from ds_dagster.plan.expressions.field_names import record_field
from ds_dagster.plan.nodes.node import Field
from ds_dagster.plan.nodes.scan import METADATA_FIELD

KEY_FIELD = "rowkey()"
ORDER_FIELD = "order()"
ORDER = StructType((StructField("time", BIGINT), StructField("position", VARCHAR)))
"""Event time in microseconds, then the record's position in its entity; rows sort by it directly."""
FIELDS: Mapping[str, str] = MappingProxyType({"ROWKEY": KEY_FIELD, "ROWMETADATA": METADATA_FIELD})
"""Function → second part of the internal name of its field."""


def record_fields(alias: str, relation: Relation, kind: StoreKind) -> tuple[Field, ...]:
    """Fields a scan of a relation can give.

    Args:
        alias: internal alias of the scan.
        relation: that is read; keys in Avro are not texts, so they have no field.
        kind: of its store, which defines the metadata of a record.
    """
    metadata_fields = [Field(record_field(alias, ORDER_FIELD), ORDER, False)]
    if relation.key.format != "avro":
        metadata_fields.append(Field(record_field(alias, KEY_FIELD), VARCHAR))
    if kind.capabilities.row_metadata is not None:
        metadata_fields.append(Field(record_field(alias, METADATA_FIELD), kind.capabilities.row_metadata, False))
    return tuple(metadata_fields)
