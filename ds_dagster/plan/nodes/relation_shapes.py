"""The parts of a relation that decide which rows a query reads or writes, as nested lists for its fingerprint."""

from __future__ import annotations

from collections.abc import Mapping

from ds_dagster.catalog.relation import Relation

Shape = list[object]
StoreKinds = Mapping[str, str]


def entity_shape(relation: Relation, store_kinds: StoreKinds) -> Shape:
    """The entity, and the kind of its store (folded store name → kind)."""
    return [relation.store, store_kinds.get(relation.store, ""), relation.entity]


def columns_shape(relation: Relation, names: frozenset[str] | None = None) -> Shape:
    """Columns; ``names``: only these."""
    return [[c.name, str(c.type), c.nullable] for c in relation.columns if names is None or c.name in names]


def records_shape(relation: Relation) -> Shape:
    """Formats and keys of the records."""
    key = relation.key
    messages = [
        descriptor.message if descriptor else "" for descriptor in (relation.value_descriptor, relation.key_descriptor)
    ]
    return [
        relation.value_format,
        [key.format, list(key.columns), str(key.type) if key.type else None, list(key.exclude)],
        list(relation.primary_key),
        *(messages if any(messages) else ()),
    ]


_IN_THE_RECORD = frozenset(
    (
        "store",
        "topic",
        "value.format",
        "key.format",
        "key.type",
        "key.columns",
        "value.columns.exclude",
        "timestamp",
        "timestamp.format",
        "starting.position",
        "starting.timestamp",
        "starting.offsets",
        "enable.upsert.mode",
        "description",
    )
)
"""Properties that are in the shape as fields of the relation, written or not, and properties that do not count."""


def sink_shape(relation: Relation, store_kinds: StoreKinds) -> Shape:
    """The relation a query writes."""
    values = sorted(
        (name, value.value)
        for name, value in relation.properties.items()
        if name not in _IN_THE_RECORD and not value.secret
    )
    time = [relation.event_time.column, relation.event_time.format]
    entity = entity_shape(relation, store_kinds)
    return [str(relation.name), relation.kind, entity, columns_shape(relation), records_shape(relation), time, values]
