"""What a query may ask of a record beside its columns: ``rowkey()`` and ``rowmetadata()`` are fields of its scan, and
so is its place in time, by which FIRST_VALUE and LAST_VALUE go.

``rowtime()`` is one as well; a scan has had it from the beginning and keeps it under its own flag.
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
"""Event time in microseconds, then the record's position in its entity; sorts as it is."""
FIELDS: Mapping[str, str] = MappingProxyType({"ROWKEY": KEY_FIELD, "ROWMETADATA": METADATA_FIELD})
"""Function → second part of the internal name of its field."""


def record_fields(alias: str, relation: Relation, kind: StoreKind) -> tuple[Field, ...]:
    """Fields a scan of a relation can give.

    Args:
        alias: internal alias of the scan.
        relation: that is read; keys in Avro are no text, so they are left out.
        kind: of its store, which says what it knows of a record.
    """
    metadata_fields = [Field(record_field(alias, ORDER_FIELD), ORDER, False)]
    if relation.key.format != "avro":
        metadata_fields.append(Field(record_field(alias, KEY_FIELD), VARCHAR))
    if kind.capabilities.row_metadata is not None:
        metadata_fields.append(Field(record_field(alias, METADATA_FIELD), kind.capabilities.row_metadata, False))
    return tuple(metadata_fields)
