"""Defaults of a CREATE … AS: store, entity, format, key, sizes. Also the settings of WITH after a source and of QUERY
WITH.

Rules: the store is the current one; the entity is called like the relation; format and sizes come from the left-most
source, sizes only where it is on the same kind of store; the key of a changelog is the key of its query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ds_dagster.catalog.capabilities import Delivery
from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.declaring.declared import KIND_WORDS, qualify
from ds_dagster.catalog.declaring.relations import (
    check_holds,
    check_names,
    check_parts,
    check_upsert_mode,
    entity_of,
    pull_for_store,
    relation_problems,
)
from ds_dagster.catalog.name_rules import QUERY_NAMES
from ds_dagster.catalog.properties.spec import property_index
from ds_dagster.catalog.properties.tables import check_table_properties
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.reading.starting import LOSS, DataLoss, StartingPoint, starting_point
from ds_dagster.catalog.records import (
    NULLABLE_KEY,
    Draft,
    Findings,
    check_columns,
    check_timestamp_format,
    event_time,
    record_key,
    value_format,
)
from ds_dagster.catalog.relation import Column, EventTime, RecordKey, Relation, ValueFormat
from ds_dagster.catalog.row_log import HANDLING, log_relation
from ds_dagster.catalog.schemas.file_formats import check_files, inherited_format
from ds_dagster.catalog.schemas.relations import check_schemas, default_format, descriptors
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.datatypes import is_primitive
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import CreateAsSelect, Property, RelationKind

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind

Changelog = Literal["append", "upsert"]
DEFAULT_IDLE_MILLIS = 10_000
SLOT = "postgresql.slot.name"

YIELDS: Mapping[tuple[RelationKind, Changelog], tuple[RelationKind, str] | None] = MappingProxyType(
    {
        ("stream", "append"): None,
        ("changelog", "upsert"): None,
        ("table", "append"): None,
        ("table", "upsert"): None,
        ("materialized_view", "append"): None,
        ("materialized_view", "upsert"): None,
        ("stream", "upsert"): ("changelog", "rows of an aggregate or of a changelog replace one another by key"),
        ("changelog", "append"): ("stream", "its rows have no key by which they could replace one another"),
    }
)
"""(kind the statement names, changelog kind of its SELECT) → None where they agree, else (the right kind, reason)."""


@dataclass(frozen=True, slots=True)
class ReadChoices:
    """How a query reads one source: the relation's own defaults, overridden by WITH after the source.

    Attributes:
        start: where a new query begins.
        event_time: column (of the relation) or the record's own timestamp.
        lateness_millis: None = default of the time authority.
        idle_millis: default 10,000.
        bad_records: terminate (default) or ignore.
        log: row log for bad records, None for no log.
        max_records_per_batch: bound of one batch, or None.
        data_loss: effect of records that are gone: fail (default) or skip.
        slot: replication slot; empty: the job's own.
        temporal_mode, temporal_retention_millis: of a temporal join with this source on the right; None = not written.
    """

    start: StartingPoint = field(default_factory=StartingPoint)
    event_time: EventTime = field(default_factory=EventTime)
    lateness_millis: int | None = None
    idle_millis: int = DEFAULT_IDLE_MILLIS
    bad_records: Literal["terminate", "ignore"] = "terminate"
    log: Relation | None = None
    max_records_per_batch: int | None = None
    data_loss: DataLoss = "fail"
    slot: str = ""
    temporal_mode: Literal["event_time", "immediate"] | None = None
    temporal_retention_millis: int | None = None


@dataclass(frozen=True, slots=True)
class QueryChoices:
    """Settings of QUERY WITH. ``name`` None: the relation's name; ``values``: converted properties by name;
    ``written``: these properties with their places."""

    name: str | None = None
    updates: bool = False
    temporal_mode: Literal["event_time", "immediate"] | None = None
    temporal_retention_millis: int | None = None
    values: Mapping[str, str | int | bool] = field(default_factory=lambda: MappingProxyType({}))
    written: Mapping[str, PropertyValue] = field(default_factory=lambda: MappingProxyType({}))


def infer_sink(
    statement: CreateAsSelect,
    output: Sequence[Column],
    changelog: Changelog,
    key: Sequence[str],
    left_most: Relation,
    catalog: Catalog,
    settings: Settings,
    kinds: Mapping[str, StoreKind],
) -> tuple[Relation | None, Sequence[Diagnostic]]:
    """The relation a CREATE … AS SELECT makes.

    Args:
        statement: with its WITH and PARTITION BY.
        output: columns of the SELECT, in order.
        changelog: whether its rows are appended or replace one another by key.
        key: names of the key columns (empty for append), also of a key column that is not selected.
        left_most: first relation in FROM.
        catalog: stores and relations known so far.
        settings: of the project.
        kinds: store kinds by name.

    Returns:
        The relation, or None with the errors; warnings may come with a relation.
    """
    findings = Findings()
    name = findings.collect(lambda: qualify(statement.name, statement.origin.context, settings))
    if name is None:
        return None, findings.diagnostics
    store, values = pull_for_store(statement, "sink", name, settings, catalog, property_index(kinds), findings)
    check_kind(statement, changelog, findings)
    draft = Draft(
        str(name),
        statement.kind,
        tuple(output),
        tuple(key) if changelog == "upsert" else (),
        values,
        statement.name.span,
        statement.body.partition_by,
        written=True,
    )
    check_columns(draft, findings)
    check_upsert_mode(draft, findings)
    _check_key(draft, findings)
    _check_partition_by(draft, findings)
    check_table_properties(draft, KIND_WORDS[draft.kind], findings)
    if store is None:
        return None, findings.diagnostics
    kind = kinds[store.kind]
    _check_store(draft, kind, store, statement, findings)
    values, like = inferred_sizes(draft, kind, left_most, catalog, kinds, findings)
    if findings.failed:
        return None, findings.diagnostics
    format_, key_, time = _record_facts(draft, kind, left_most, findings)
    sink = Relation(
        name=name,
        kind=statement.kind,
        store=store.name,
        entity=entity_of(kind, name, values),
        columns=tuple(draft.columns),
        span=statement.name.span,
        origin=statement.origin,
        primary_key=draft.primary_key,
        value_format=format_,
        key=key_,
        event_time=time,
        properties=MappingProxyType({**values, **_null_keys(statement, draft)}),
        declared=False,
        like=like,
        constraints=statement.constraints,
    )
    sink = _with_schemas(sink, draft, kind, store, catalog, findings)
    _check_sink(sink, draft, kind, findings)
    refused = any(diagnostic.severity == "error" for diagnostic in findings.diagnostics)
    return (None if refused else sink), findings.diagnostics


def _check_sink(sink: Relation, draft: Draft, kind: StoreKind, findings: Findings) -> None:
    findings.collect(lambda: check_files(sink, kind, draft.span_of("value.format")))
    findings.collect(lambda: check_timestamp_format(sink, draft.values))
    check_names(kind, sink, findings)
    findings.extend(relation_problems(kind, sink))


def _with_schemas(
    sink: Relation, draft: Draft, kind: StoreKind, store: StoreDefinition, catalog: Catalog, findings: Findings
) -> Relation:
    """The sink with the Protobuf messages its properties name. Columns that do not fit its formats are reported."""
    values = sink.properties
    pair = findings.collect(lambda: descriptors(values, sink.value_format, sink.key.format, catalog.descriptors))
    value, key = pair or (None, None)
    described = replace(sink, value_descriptor=value, key_descriptor=key)
    if not findings.failed:
        findings.collect(lambda: check_schemas(described, kind, store, draft))
    return described


def _check_store(
    draft: Draft, kind: StoreKind, store: StoreDefinition, statement: CreateAsSelect, findings: Findings
) -> None:
    """Report a store that cannot hold the relation, a missing name of its entity, and a guarantee the store lacks."""
    span = draft.span_of("store") or statement.name.span
    findings.collect(lambda: check_holds(kind, statement.kind, store, span, written=True))
    findings.collect(lambda: check_parts(kind, draft))
    findings.collect(lambda: check_delivery(draft, kind))


def _null_keys(statement: CreateAsSelect, draft: Draft) -> Mapping[str, PropertyValue]:
    """``primary.key.nullable`` for a changelog with a nullable key column: a NULL key is a group, too."""
    by_name = {column.name: column for column in draft.columns}
    if statement.kind == "changelog" and any(by_name[name].nullable for name in draft.primary_key):
        return {NULLABLE_KEY: PropertyValue(True)}
    return {}


def _record_facts(
    draft: Draft, kind: StoreKind, left_most: Relation, findings: Findings
) -> tuple[ValueFormat, RecordKey, EventTime]:
    """Format, key and event time; tables and views have columns instead."""
    if not kind.capabilities.record_keys:
        return "json", RecordKey(), EventTime()
    default = default_format(draft.values, inherited_format(left_most.value_format, kind))
    format_ = findings.collect(lambda: value_format(draft, default)) or "json"
    key = findings.collect(lambda: record_key(draft, format_)) or RecordKey()
    time = findings.collect(lambda: event_time(draft)) or EventTime()
    return format_, key, time


def check_kind(statement: CreateAsSelect, changelog: Changelog, findings: Findings) -> None:
    """Refuse a SELECT that yields another kind of relation than CREATE names (RELATION_KIND_MISMATCH)."""
    mismatch = YIELDS[statement.kind, changelog]
    if mismatch is not None:
        yields, reason = mismatch
        word = KIND_WORDS[yields]
        problem = error(
            "RELATION_KIND_MISMATCH",
            span=statement.name.span,
            yields=word,
            kind=KIND_WORDS[statement.kind],
            reason=reason,
            fix=f"{word} {statement.name} AS …",
        )
        findings.add(problem)


def check_insert_kind(target: Relation, changelog: Changelog, findings: Findings) -> None:
    """Refuse an INSERT INTO whose SELECT yields another kind of rows than its target has (INSERT_KIND_MISMATCH)."""
    mismatch = YIELDS[target.kind, changelog]
    if mismatch is not None:
        yields, reason = mismatch
        kind = KIND_WORDS[target.kind]
        findings.add(
            error("INSERT_KIND_MISMATCH", yields=KIND_WORDS[yields], target=str(target.name), kind=kind, reason=reason)
        )


def _check_key(draft: Draft, findings: Findings) -> None:
    """Report columns of the primary key that are not selected or, in changelogs and tables, not scalars: stores find
    rows by them."""
    names = {column.name for column in draft.columns}
    for column in draft.columns if draft.kind in ("changelog", "table") else ():
        if column.name in draft.primary_key and not is_primitive(column.type):
            span = column.span or draft.span
            findings.add(error("KEY_COLUMN_TYPE", span=span, name=column.name, type=column.type, relation=draft.name))
    missing = [name for name in draft.primary_key if name not in names]
    if missing:
        findings.add(
            error(
                "PRIMARY_KEY_NOT_SELECTED",
                span=draft.span,
                relation=draft.name,
                key=", ".join(draft.primary_key),
                missing=", ".join(missing),
            )
        )


def _check_partition_by(draft: Draft, findings: Findings) -> None:
    if draft.partition_by and draft.kind != "stream":
        kind = KIND_WORDS[draft.kind]
        span = draft.partition_by[0].span
        findings.add(error("PROPERTY_OF_OTHER_KIND", span=span, name="PARTITION BY", kind=kind, kinds="STREAM"))


def inferred_sizes(
    draft: Draft,
    kind: StoreKind,
    left_most: Relation,
    catalog: Catalog,
    kinds: Mapping[str, StoreKind],
    findings: Findings,
) -> tuple[Mapping[str, PropertyValue], tuple[str, str] | None]:
    """Counts and settings of the new entity: written, else copied from a left-most source on the same kind of store.

    Only the store knows sizes that such a source does not write, so its (store, entity) is returned for the look-up.
    """
    able = kind.capabilities
    if not able.count_properties and not able.entity_settings_prefix:
        return draft.values, None
    source = catalog.store(left_most.store)
    if kinds[source.kind] is kind:
        inherited = {
            name: replace(value, span=None)
            for name, value in left_most.properties.items()
            if name in able.count_properties or _is_setting(name, able.entity_settings_prefix)
        }
        return {**inherited, **draft.values}, (left_most.store, left_most.entity)
    reason = f"the left-most source {left_most.name.name} stands on {source.kind}, the sink on {kind.name}"
    if able.counts_unless and draft.text(able.counts_unless[0]) == able.counts_unless[1]:
        return draft.values, None
    for name in able.count_properties:
        if name not in draft.values and name in able.required_counts:
            findings.add(error("COUNT_NOT_INFERRED", span=draft.span, name=name, relation=draft.name, reason=reason))
    return draft.values, None


def _is_setting(name: str, prefix: str) -> bool:
    return bool(prefix) and name.startswith(prefix)


def check_delivery(draft: Draft, kind: StoreKind) -> None:
    """Refuse ``'delivery' = exactly_once`` where the store cannot give it.

    Raises:
        UserError: DELIVERY_NOT_AVAILABLE.
    """
    best = delivery(draft.kind, draft.values, kind)
    if draft.text("delivery") == "exactly_once" and best == "at_least_once":
        reason = f"stores of type {kind.name} have no transactions for a {KIND_WORDS[draft.kind]}"
        raise error("DELIVERY_NOT_AVAILABLE", span=draft.span_of("delivery"), relation=draft.name, reason=reason)


def delivery(relation: RelationKind, values: Mapping[str, PropertyValue], kind: StoreKind) -> Delivery:
    """The guarantee a sink has: the store's best, or less where ``'delivery' = at_least_once`` says so."""
    able = kind.capabilities
    best: Mapping[RelationKind, Delivery] = {
        "stream": able.stream_delivery,
        "changelog": able.changelog_delivery,
        "table": able.table_delivery,
        "materialized_view": able.table_delivery,
    }
    written = values.get("delivery")
    if written is not None and written.value == "at_least_once" and best[relation] == "exactly_once":
        return "at_least_once"
    return best[relation]


def resolve_source(
    relation: Relation,
    properties: Sequence[Property],
    kinds: Mapping[str, StoreKind] | None = None,
    store_kind: str | None = None,
) -> tuple[ReadChoices, Sequence[Diagnostic]]:
    """How a query reads a relation: its own defaults, overridden by WITH after the source.

    Args:
        relation: the source.
        properties: of WITH after it, or after the window around it.
        kinds: store kinds by name, for their own properties; None: only the properties of the table.
        store_kind: of the relation's store, whose properties are valid there; None: properties of any kind.
    """
    findings = Findings()
    pulled = property_index(kinds or {}).pull(properties, "source", store_kind)
    findings.extend(pulled.diagnostics)
    start, kind = None, (kinds or {}).get(store_kind or "")
    if not findings.failed:
        start = findings.collect(lambda: starting_point(pulled.values, relation.start, relation.span, kind))
    draft = Draft(
        str(relation.name), relation.kind, relation.columns, relation.primary_key, pulled.values, relation.span
    )
    time = findings.collect(lambda: event_time(draft, relation.event_time)) or relation.event_time
    findings.collect(lambda: check_timestamp_format(relation, pulled.values))
    choices = ReadChoices(
        start=start or relation.start,
        event_time=time,
        lateness_millis=_whole(pulled.values, "source.allow.latency.millis"),
        idle_millis=_whole(pulled.values, "source.idle.timeout.millis") or DEFAULT_IDLE_MILLIS,
        bad_records="terminate" if draft.text(HANDLING) in (None, "terminate") else "ignore",
        log=findings.collect(lambda: log_relation(relation, pulled.values)),
        max_records_per_batch=_whole(pulled.values, "max.records.per.batch"),
        data_loss="skip" if draft.text(LOSS) == "skip" else "fail",
        slot=draft.text(SLOT) or str(relation.option(SLOT) or ""),
        temporal_mode=_temporal_mode(pulled.values),
        temporal_retention_millis=_whole(pulled.values, "temporal.join.retention.millis"),
    )
    return choices, findings.diagnostics


def resolve_query_properties(
    properties: Sequence[Property], kinds: Mapping[str, StoreKind] | None = None
) -> tuple[QueryChoices, Sequence[Diagnostic]]:
    """Settings of QUERY WITH."""
    pulled = property_index(kinds or {}).pull(properties, "query")
    name = pulled.values.get("query.name")
    mode = pulled.values.get("emit.mode")
    choices = QueryChoices(
        name=str(name.value) if name is not None else None,
        updates=mode is not None and mode.value == "updates",
        temporal_mode=_temporal_mode(pulled.values),
        temporal_retention_millis=_whole(pulled.values, "temporal.join.retention.millis"),
        values=MappingProxyType({key: value.value for key, value in pulled.values.items()}),
        written=MappingProxyType(dict(pulled.values)),
    )
    if name is None or QUERY_NAMES.takes(str(name.value)):
        return choices, pulled.diagnostics
    allowed, value = QUERY_NAMES.words, str(name.value)
    wrong = error("PROPERTY_INVALID", span=name.span, name="query.name", value=value, allowed=allowed)
    return choices, (*pulled.diagnostics, wrong.diagnostic())


def _whole(values: Mapping[str, PropertyValue], name: str) -> int | None:
    number = values.get(name)
    return number.value if number is not None and isinstance(number.value, int) else None


def _temporal_mode(values: Mapping[str, PropertyValue]) -> Literal["event_time", "immediate"] | None:
    mode = values.get("temporal.join.mode")
    if mode is None:
        return None
    return "immediate" if mode.value == "immediate" else "event_time"
