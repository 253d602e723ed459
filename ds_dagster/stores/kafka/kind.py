"""Kafka: native Spark source, transactional sink, control through librdkafka (``admin.py``)."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import Envelope, ReadSpec, RefreshMode, Resolver, TimeAuthority, WriteSpec
from ds_dagster.catalog.name_rules import NameRule
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.properties.table import RECORDS, specs
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.stores.kafka.msk import MskSigner
from ds_dagster.stores.kafka.profiles import PROFILE, profiled
from ds_dagster.stores.kafka.security import (
    HASH_FUNCTION,
    LOGIN_PROPERTIES,
    PROTOCOL,
    TLS_PROPERTIES,
    check_security,
    client_connection,
    java_connection,
    msk_region,
)
from ds_dagster.stores.options import make_options, missing, schema_spec, word
from ds_dagster.stores.row_metadata import TOPIC_METADATA

COUNTS = ("topic.partitions", "topic.replicas")
SETTINGS_PREFIX = "kafka.topic."
ENVELOPE = Envelope(
    key="key",
    value="value",
    timestamp="timestamp",
    partition="CAST(partition AS STRING)",
    order="LPAD(CAST(offset AS STRING), 19, '0')",
    position="CAST(offset AS STRING)",
    metadata=(
        "named_struct('topic', topic, 'partition', partition, 'offset', offset, 'timestamp_type', "
        "CASE timestampType WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' END, 'headers', "
        "map_from_entries(filter(COALESCE(headers, array()), (h, i) -> h.key IS NOT NULL AND "
        "NOT exists(slice(headers, i + 2, size(headers)), x -> x.key = h.key))))"
    ),
)
NOT_INHERITED = (f"{SETTINGS_PREFIX}message.timestamp.type", f"{SETTINGS_PREFIX}cleanup.policy")
"""Settings that depend on the query that writes a topic: they are not copied from its source."""
FETCH_WAIT_MILLIS = 50
"""How long a fetch waits for more data: Spark only requests offsets that exist, so waiting only adds latency."""

OLDEST = -2
"""Spark's offset for "from the oldest record"."""
ENTITY_RULE = NameRule(
    "topic names are up to 249 letters, digits, dots, underscores and hyphens",
    r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}",
)
"""Names of topics that brokers accept."""


class Kafka:
    """Kafka, and services that speak its protocol."""

    name = "KAFKA"
    aliases: tuple[str, ...] = ("CONFLUENT_KAFKA",)
    capabilities = Capabilities(
        reads_streams=True,
        writes_streams=True,
        record_keys=True,
        entity_rule=ENTITY_RULE,
        avro="registry",
        count_properties=COUNTS,
        required_counts=COUNTS,
        entity_settings_prefix=SETTINGS_PREFIX,
        stream_delivery="exactly_once",
        changelog_delivery="exactly_once",
        record_time="by_entity",
        starting_positions=("earliest", "latest", "timestamp", "offsets"),
        skips_lost_records=True,
        runs_in_realtime=True,
        looks_at_lag=True,
        keeps_row_logs=True,
        empties_entities=True,
        dagster_kinds=("kafka",),
        row_metadata=TOPIC_METADATA,
        alias_defaults=(("CONFLUENT_KAFKA", ((PROFILE, "confluent_cloud"),)),),
        compares_positions=True,
        no_past="",
        storage_kind="kafka",
    )
    store_properties: tuple[PropertySpec, ...] = specs(
        "uris", "access_region", "config_file", "description", "tls.disabled", PROFILE, HASH_FUNCTION,
        PROTOCOL, "sasl.jaas.config",
        *LOGIN_PROPERTIES, *TLS_PROPERTIES, "schema_registry.name",
    )  # fmt: skip
    relation_properties: tuple[PropertySpec, ...] = specs(
        *RECORDS, *COUNTS, "starting.offsets", "kafka.topic.*", "key.descriptor.name", "value.descriptor.name"
    )

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Check that addresses are given, the login is complete, and TLS is not contradictory."""
        problems: list[Diagnostic] = []
        if "uris" not in store.properties:
            problems.append(missing(store, "uris", "the brokers to begin with", "'host:9092,host:9092'"))
        problems.extend(check_security(profiled(store)))
        return problems

    def native_type(self, type_: DataType) -> str | None:
        """Topics have no column types."""
        return None

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """Spark's Kafka source with our readers; committed records only. A gap in the data fails the query, or is
        counted (skip). Headers are read if a query uses them, or if a header may name the schema of its record."""
        store = profiled(store)
        schemas = schema_spec(store, relation)
        may_name_schemas = schemas is not None and schemas.registry is not None
        skips = options.data_loss == "skip"
        return ReadSpec(
            format="ds-kafka-skipping" if skips else "ds-kafka-records",
            realtime_format="kafka",
            envelope=replace(ENVELOPE, headers="headers") if may_name_schemas else ENVELOPE,
            entity=f"{store.name}.{relation.entity}",
            options=make_options(
                {
                    **java_connection(store),
                    "subscribe": relation.entity,
                    **_start(relation.entity, options, facts),
                    "kafka.isolation.level": "read_committed",
                    "kafka.fetch.max.wait.ms": FETCH_WAIT_MILLIS,
                    "failOnDataLoss": not skips,
                    "includeHeaders": options.has_metadata or may_name_schemas,
                    "groupIdPrefix": "ds-dagster",
                    "maxOffsetsPerTrigger": options.max_records_per_batch,
                }
            ),
            time_authority=_time_authority(relation, facts),
            limit_option="maxOffsetsPerTrigger",
            task_limit_option="maxRecordsPerTask",
            clock_guard="kafka",
            identity=facts.identity if facts is not None else "",
            schemas=schemas,
            partitions=facts.counts["topic.partitions"] if facts is not None else None,
        )

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """One transaction per batch; Spark's own sink for at_least_once."""
        guarantee = delivery(relation.kind, relation.properties, self)
        store = profiled(store)
        exactly_once = guarantee == "exactly_once"
        return WriteSpec(
            kind="stream",
            entity=f"{store.name}.{relation.entity}",
            delivery=guarantee,
            format="ds-kafka" if exactly_once else "kafka",
            options=make_options(
                {
                    **java_connection(store),
                    "topic": relation.entity,
                    "kafka.compression.type": "lz4",
                    "kafka.linger.ms": 5,
                    "kafka.acks": "all",
                }
            ),
            record=(("key", "key_bytes"), ("value", "value_bytes")),
            transactional=exactly_once,
            schemas=schema_spec(store, relation),
        )

    def version_entity(self, entity: str, version: int) -> str:
        """The topic of a version, next to the public one: ``<topic>-ds-v<version>``."""
        return f"{entity}-ds-v{version}"

    def at_entity(self, write: WriteSpec, store: str, entity: str) -> WriteSpec:
        """A write spec for another topic, with the schemas of the public topic."""
        return replace(write, entity=f"{store}.{entity}", options={**write.options, "topic": PropertyValue(entity)})

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Plan of a topic. The broker stamps records of topics that we create, and compacts topics of changelogs,
        unless the declaration sets this otherwise."""
        written = {
            name.removeprefix(SETTINGS_PREFIX): str(value.value)
            for name, value in relation.properties.items()
            if name.startswith(SETTINGS_PREFIX) and (value.span is not None or name not in NOT_INHERITED)
        }
        cleanup = "compact" if relation.kind == "changelog" else "delete"
        ours = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": cleanup}
        counts = {name: int(relation.properties[name].value) for name in COUNTS if name in relation.properties}
        return EntityPlan(
            name=relation.entity,
            counts=MappingProxyType(counts),
            settings=MappingProxyType({**ours, **written}),
            used_by=str(relation.name),
            stated=frozenset(name for name in counts if relation.properties[name].span is not None),
            like=relation.like,
        )

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """``kafka://brokers/topic``."""
        return f"kafka://{word(store, 'uris')}/{relation.entity}"

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Connect with librdkafka."""
        from ds_dagster.stores.kafka.admin import KafkaAdmin

        return KafkaAdmin(store.name, self.client_settings(store, resolve))

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, Any]:
        """Configuration of librdkafka, for confluent-kafka's producers, consumers and admin clients; with AWS_MSK_IAM
        the callback that signs tokens is in it."""
        store = profiled(store)
        settings = {name: resolve(value) for name, value in client_connection(store).items()}
        if word(store, HASH_FUNCTION) != "aws_msk_iam":
            return settings
        role = store.properties.get("kafka.msk.iam_role_arn")
        signer = MskSigner(
            store.name, resolve(PropertyValue(msk_region(store))), resolve(role) if role is not None else ""
        )
        return {**settings, "oauth_cb": signer}


def _start(topic: str, options: ReadOptions, facts: EntityFacts | None) -> Mapping[str, str | int]:
    """Options for the start of Spark's source. With a timestamp, partitions without a record since then are read from
    their end. With offsets, Spark requires an offset for each partition: others begin at the oldest record."""
    if options.starting_offsets:
        partitions = 0 if facts is None else facts.counts["topic.partitions"]
        offsets = {**dict.fromkeys(range(partitions), OLDEST), **dict(options.starting_offsets)}
        return {"startingOffsets": json.dumps({topic: offsets})}
    if options.starting_timestamp is None:
        return {"startingOffsets": options.starting_position}
    return {"startingTimestamp": options.starting_timestamp, "startingOffsetsByTimestampStrategy": "latest"}


def _time_authority(relation: Relation, facts: EntityFacts | None) -> TimeAuthority:
    """Who stamps records: the topic's setting; without a connection, the declared setting, else the broker for topics
    of our queries and the producer for declared ones."""
    if facts is not None and facts.record_time is not None:
        return facts.record_time
    written = relation.properties.get(f"{SETTINGS_PREFIX}message.timestamp.type")
    if written is not None and written.span is not None:
        return "broker" if written.value == "LogAppendTime" else "producer"
    return "producer" if relation.declared else "broker"
