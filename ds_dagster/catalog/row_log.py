"""Row logs: topics that keep the records and rows a query leaves out, with the reason.

A log is a stream of JSON in a store of records. Its columns are fixed, so that one topic can serve many queries; a
relation that declares the topic again reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ds_dagster.catalog.name_rules import refused_entity
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.datatypes import TIMESTAMP_LTZ, VARBINARY, VARCHAR, DataType, Scalar
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName, fold, safe_name
from ds_dagster.sql.statements import Origin

if TYPE_CHECKING:
    from ds_dagster.catalog.catalog import Catalog
    from ds_dagster.catalog.store import StoreKind

HANDLING = "source.deserialization.error.handling"
ERROR_HANDLING, ERROR_TOPIC, ERROR_STORE = "row.error.handling", "row.error.log.topic", "row.error.log.store"
TOPIC, STORE = "source.deserialization.error.log.topic", "source.deserialization.error.log.store"
COLUMNS: tuple[Column, ...] = (
    Column("query", VARCHAR),
    Column("relation", VARCHAR),
    Column("store", VARCHAR),
    Column("entity", VARCHAR),
    Column("partition", VARCHAR),
    Column("offset", VARCHAR),
    Column("record_time", TIMESTAMP_LTZ),
    Column("key", VARBINARY),
    Column("value", VARBINARY),
    Column("reason", VARCHAR),
)
"""Columns of a log. ``partition`` and ``offset`` (shard and sequence number) say where the record is,
``record_time`` is its own timestamp; in JSON ``key`` and ``value`` are base64 of its bytes."""
DEFAULT_SUFFIX, ERROR_SUFFIX, QUARANTINE_SUFFIX = "_bad_records", "_row_errors", "_quarantine"
QUARANTINE_TOPIC, QUARANTINE_STORE = "quarantine.topic", "quarantine.store"


def log_relation(source: Relation, values: Mapping[str, PropertyValue]) -> Relation | None:
    """The log that WITH after a source configures, or None.

    Args:
        source: what is read; the log is in its store, called ``<entity>_bad_records``, where nothing else is written.
        values: converted properties of the WITH.

    Raises:
        UserError: ROW_LOG_UNUSED.
    """
    return _log(source, values, (HANDLING, TOPIC, STORE), source.entity + DEFAULT_SUFFIX)


def error_log(source: Relation, sink: Relation, values: Mapping[str, PropertyValue]) -> Relation | None:
    """The error log that QUERY WITH configures, or None.

    Args:
        source: the left-most one; the log is in its store where nothing else is written.
        sink: the log's topic is called ``<its entity>_row_errors`` where nothing else is written.
        values: converted properties of QUERY WITH.

    Raises:
        UserError: ROW_LOG_UNUSED.
    """
    return _log(source, values, (ERROR_HANDLING, ERROR_TOPIC, ERROR_STORE), sink.entity + ERROR_SUFFIX)


def quarantine(relation: Relation) -> Relation | None:
    """The log of rows that a relation's constraints put aside, or None without such a constraint.

    Args:
        relation: the log is in its store, called ``<its entity>_quarantine``, where nothing else is written.

    Raises:
        UserError: QUARANTINE_UNUSED.
    """
    first = next((c for c in relation.constraints if c.on_violation == "quarantine"), None)
    topic, store = (relation.properties.get(name) for name in (QUARANTINE_TOPIC, QUARANTINE_STORE))
    if first is None:
        for value, name in ((topic, QUARANTINE_TOPIC), (store, QUARANTINE_STORE)):
            if value is not None:
                raise error("QUARANTINE_UNUSED", span=value.span or relation.span, name=name)
        return None
    log = make_log(
        relation,
        store=fold(str(store.value)) if store is not None else relation.store,
        entity=str(topic.value) if topic is not None else relation.entity + QUARANTINE_SUFFIX,
        span=first.span,
    )
    return replace(log, name=replace(relation.name, name=relation.name.name + QUARANTINE_SUFFIX))


def _log(
    source: Relation, values: Mapping[str, PropertyValue], names: tuple[str, str, str], entity: str
) -> Relation | None:
    handling, topic, store = (values.get(name) for name in names)
    if handling is None or handling.value != "ignore_and_log":
        for value, name in ((topic, names[1]), (store, names[2])):
            if value is not None:
                raise error("ROW_LOG_UNUSED", span=value.span or source.span, name=name, handling=names[0])
        return None
    return make_log(
        source,
        store=fold(str(store.value)) if store is not None else source.store,
        entity=str(topic.value) if topic is not None else entity,
        span=handling.span or source.span,
    )


def make_log(source: Relation, *, store: str, entity: str, span: Span) -> Relation:
    """The relation that a log is; a new topic is sized like the source's, where that is in a store of the same
    kind."""
    return Relation(
        name=QualifiedName(source.name.database, source.name.schema, safe_name(entity)),
        kind="stream",
        store=store,
        entity=entity,
        columns=COLUMNS,
        span=span,
        origin=Origin(span, ""),
        declared=False,
        like=(source.store, source.entity),
    )


def is_log(relation: Relation) -> bool:
    """Whether a relation is a log that no statement declares."""
    return relation.columns == COLUMNS and not relation.declared and not relation.origin.text


def log_name(log: Relation) -> str:
    """``store.entity``: a log's name in messages and jobs."""
    return f"{log.store}.{log.entity}"


def check_log(
    log: Relation,
    source: Relation,
    catalog: Catalog,
    kinds: Mapping[str, StoreKind],
    *,
    records: bool = True,
    store_property: str = "",
) -> None:
    """Refuse a log whose place cannot hold it, or that could never get an entry.

    Args:
        log: to check.
        source: relation that is read.
        catalog, kinds: of the project.
        records: True: the log holds records of the source; False: rows of the query.
        store_property: property that names the log's store, for messages; empty: the usual one for records or rows.

    Raises:
        UserError: UNKNOWN_STORE, STORE_REFUSED, ENTITY_NAME_INVALID, ROW_LOG_NOT_HERE, ROW_LOG_WITHOUT_RECORDS,
            ROW_LOG_IS_SOURCE, ROW_LOG_COLUMNS.
    """
    kind = kinds[catalog.store(log.store, log.span).kind]
    if not kind.capabilities.keeps_row_logs:
        name = store_property or (STORE if records else ERROR_STORE)
        raise error("ROW_LOG_NOT_HERE", span=log.span, store=log.store, kind=kind.name, property=name)
    wrong = refused_entity(kind.capabilities.entity_rule, log.store, [log.entity], log.span)
    if wrong is not None:
        raise wrong
    read = kinds[catalog.store(source.store).kind]
    if records and not read.capabilities.record_keys:
        raise error("ROW_LOG_WITHOUT_RECORDS", span=log.span, relation=source.name.name, kind=read.name)
    if (log.store, log.entity) == (source.store, source.entity):
        raise error("ROW_LOG_IS_SOURCE", span=log.span, entity=log.entity)
    _check_declared(log, catalog.relations.values())


def _check_declared(log: Relation, relations: Iterable[Relation]) -> None:
    """Refuse a relation over the log's topic that cannot read its entries."""
    types = {column.name: _word(column.type) for column in COLUMNS}
    for relation in relations:
        if (relation.store, relation.entity) != (log.store, log.entity) or is_log(relation):
            continue
        wrong = [c.name for c in relation.columns if types.get(c.name) != _word(c.type)]
        if wrong or relation.kind != "stream" or relation.value_format != "json" or not relation.declared:
            columns = [f"{column.name} {column.type}" for column in COLUMNS]
            shown = relation.name.name
            raise error("ROW_LOG_COLUMNS", span=log.span, entity=log.entity, relation=shown, columns=columns)


def _word(type_: DataType) -> str:
    """A type without its length or precision."""
    return type_.name if isinstance(type_, Scalar) else str(type_)
