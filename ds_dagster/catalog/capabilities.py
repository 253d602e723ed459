"""Capabilities of a store kind: one flat record. Code outside a store's own folder reads these instead of the kind's
name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ds_dagster.catalog.name_rules import ANY_NAME, NameRule
from ds_dagster.catalog.reading.starting import StartingPosition
from ds_dagster.datatypes import StructType

WAREHOUSE_LOOKUP_MILLIS = 60_000
"""Default age of looked-up rows in a warehouse: each look-up wakes it, and its time is paid by the second."""
Delivery = Literal["exactly_once", "idempotent_by_key", "at_least_once"]
RecordTime = Literal["broker", "producer", "by_entity", "none"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Facts of a store kind.

    Attributes:
        reads_streams: a declared STREAM or CHANGELOG can read it.
        writes_streams: may be the sink of CSAS, CCAS, INSERT INTO a stream.
        writes_tables: may be the sink of CTAS.
        table_reader: import path ``module:function`` of ``catalog.io_spec.TableReader``: its tables can be looked up by
            a query that never ends; empty: they cannot.
        lookup_millis: default for the greatest age of looked-up rows; long where each look-up costs money.
        serves_views: may hold materialized views and answer pull queries.
        record_keys: records have keys of their own (``key.*`` properties, PARTITION BY).
        count_properties: WITH properties that size a new entity (``topic.partitions``, …); copied from a left-most
            source on the same kind of store.
        required_counts: those of ``count_properties`` that must be written where they cannot be copied.
        entity_settings_prefix: prefix of pass-through settings copied with them (``kafka.topic.``), empty without one.
        counts_unless: (setting, value) with which ``required_counts`` need not be written; None: always required.
        stream_delivery, changelog_delivery, table_delivery: guarantee of its sinks.
        supports_delete, supports_upsert: of its table or view sinks.
        replaces_ranges: its loader is a ``catalog.reading.ranges.ReplacesRanges``.
        record_time: who sets a record's timestamp.
        starting_positions: values of ``'starting.position'`` that its sources have. With ``offsets``, its operations on
            entities are a ``catalog.reading.extent.TellsExtents`` or ``FindsOffsets``.
        last_offset: greatest number of a record.
        skips_lost_records: honours ``'source.data.loss' = skip`` and counts the skipped records.
        runs_in_realtime: Spark's real-time mode reads and writes it.
        compares_positions: records have a place in their partition by which two readers are compared.
        no_past: why no range of records that a query has read can be read again, for backfills; empty if it can: then
            its operations on entities are a ``catalog.reading.past.ReadsPast``.
        keeps_slot: the store remembers what a reader has received (replication slot) and gives each change once.
        forgets: reason why records that were read once may be gone before their retention ends; empty if they are not.
        keeps_row_logs: may hold row logs (rows that queries leave out), each batch of them once.
        empties_entities: all records of an entity can be deleted at once, and the entity stays.
        looks_at_lag: its connection for control is a ``catalog.reading.lag.LagProbe``, which looks up the lag apart
            from the query.
        avro: how Avro records are read and written: ``registry`` (wire format with the schemas of the store's
            registry), ``as_json`` (test rows stand for them) or empty (not at all).
        file_formats: formats of files it can hold (``json``, ``csv``, ``parquet``), empty where it holds records.
        rows_only: holds nothing but rows in files: no changelogs, no formats of record bytes.
        max_key_characters: limit of a record key, or None.
        dagster_kinds: chips on the asset, most specific first.
        storage_kind: ``dagster/storage_kind``.
        entity_parts: WITH properties that name the entity, in order, each with its default (empty = the relation's own
            name); no parts at all: the qualified name of the relation.
        entity_rule: rule for names of entities; where several properties name an entity, for each of its parts.
        column_rule: rule for names of the columns of its tables and views.
        entity_list: WITH property that names several entities at once, instead of ``entity_parts``.
        required_parts: properties of ``entity_parts`` that have to be written, each with an example.
        row_metadata: type of ``rowmetadata()``; None where records have no metadata.
        alias_defaults: other names of the kind, each with the properties it implies: (name, ((property, value), …)).
        embedded: exists without CREATE STORE, under its own name in lower case.
        not_yet: reason why the kind as a whole is refused for now; empty when it is built.
        not_built: abilities of the dialect this kind lacks here, name → reason (the matrix in the docs shows them).
    """

    reads_streams: bool = False
    writes_streams: bool = False
    writes_tables: bool = False
    serves_views: bool = False
    table_reader: str = ""
    lookup_millis: int = 1000
    record_keys: bool = False
    count_properties: tuple[str, ...] = ()
    required_counts: tuple[str, ...] = ()
    entity_settings_prefix: str = ""
    counts_unless: tuple[str, str] | None = None
    entity_rule: NameRule = ANY_NAME
    column_rule: NameRule = ANY_NAME
    stream_delivery: Delivery = "at_least_once"
    changelog_delivery: Delivery = "at_least_once"
    table_delivery: Delivery = "at_least_once"
    supports_delete: bool = False
    supports_upsert: bool = False
    replaces_ranges: bool = False
    record_time: RecordTime = "none"
    starting_positions: tuple[StartingPosition, ...] = ("earliest", "latest")
    last_offset: int = 2**63 - 1
    skips_lost_records: bool = False
    looks_at_lag: bool = False
    runs_in_realtime: bool = False
    compares_positions: bool = False
    no_past: str = "stores of this kind do not read them again"
    keeps_slot: bool = False
    forgets: str = ""
    keeps_row_logs: bool = False
    empties_entities: bool = False
    avro: Literal["", "registry", "as_json"] = ""
    file_formats: tuple[str, ...] = ()
    rows_only: bool = False
    max_key_characters: int | None = None
    dagster_kinds: tuple[str, ...] = ()
    storage_kind: str = ""
    entity_parts: tuple[tuple[str, str], ...] = (("topic", ""),)
    entity_list: str = ""
    required_parts: tuple[tuple[str, str], ...] = ()
    row_metadata: StructType | None = None
    alias_defaults: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    embedded: bool = False
    not_yet: str = ""
    not_built: tuple[tuple[str, str], ...] = ()
