"""The in-memory store of SQL test cases: topics and tables in a registry of this process.

The test runner provides its read format ``memory``; ``loader.py`` holds the rows of tables and views.
"""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import Envelope, ReadSpec, RecordPart, RefreshMode, Resolver, WriteSpec
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.properties.table import RECORDS, specs
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.stores.options import make_options, target_table
from ds_dagster.stores.row_metadata import TOPIC_METADATA

FORMAT = "memory"
LOADER = "ds_dagster.stores.memory.loader:open_loader"
READER = "ds_dagster.stores.memory.lookup:read_table"
ENVELOPE = Envelope(key="key", value="value", timestamp="timestamp", partition="partition", order="`order`")


class Memory:
    """Store in memory; for test cases only."""

    name = "MEMORY"
    aliases: tuple[str, ...] = ()
    capabilities = Capabilities(
        reads_streams=True,
        writes_streams=True,
        writes_tables=True,
        table_reader=READER,
        serves_views=True,
        record_keys=True,
        avro="as_json",
        file_formats=("json", "csv", "parquet"),
        count_properties=("topic.partitions", "topic.replicas", "topic.shards"),
        entity_settings_prefix="kafka.topic.",
        stream_delivery="exactly_once",
        changelog_delivery="exactly_once",
        table_delivery="exactly_once",
        supports_delete=True,
        supports_upsert=True,
        record_time="producer",
        starting_positions=("earliest", "latest", "timestamp", "offsets"),
        last_offset=10**129 - 1,
        skips_lost_records=True,
        runs_in_realtime=True,
        keeps_row_logs=True,
        row_metadata=TOPIC_METADATA,
        dagster_kinds=("memory",),
        storage_kind="memory",
    )
    store_properties: tuple[PropertySpec, ...] = ()
    relation_properties: tuple[PropertySpec, ...] = specs(
        *RECORDS, "starting.offsets", "topic.partitions", "topic.replicas", "topic.shards", "kafka.topic.*",
        "kinesis.read.mode", "postgresql.db.name",
        "postgresql.schema.name", "postgresql.table.name", "postgresql.cdc.table.list", "postgresql.slot.name",
        "snowflake.db.name", "snowflake.schema.name",
        "snowflake.table.name", "snowflake.buffer.millis", "delta.table.name", "databricks.catalog.name",
        "databricks.schema.name", "databricks.table.name", "table.data.file.location", "csv.header", "csv.delimiter",
        "files.compression", "files.per.batch", "files.discovery.millis",
    )  # fmt: skip

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Nothing to configure."""
        return ()

    def native_type(self, type_: DataType) -> str | None:
        """Our own type, as text."""
        return str(type_)

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """``topic`` and ``starting.position``; rows carry key, value, timestamp, partition, order."""
        return ReadSpec(
            format=FORMAT,
            envelope=ENVELOPE,
            entity=f"{store.name}.{relation.entity}",
            options=make_options(
                {"topic": relation.entity, "store": store.name, "starting.position": options.starting_position}
            ),
        )

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """Write streams and changelogs as records of a topic, tables and views by the loader."""
        guarantee = delivery(relation.kind, relation.properties, self)
        entity = f"{store.name}.{relation.entity}"
        chosen = make_options({"topic": relation.entity, "store": store.name})
        if relation.kind in ("stream", "changelog"):
            record: tuple[tuple[str, RecordPart], ...] = (("key", "key_bytes"), ("value", "value_bytes"))
            return WriteSpec("stream", entity, guarantee, FORMAT, options=chosen, record=record)
        table = target_table(self, relation, refresh, (store.name, relation.entity), "VARCHAR")
        return WriteSpec("batch", entity, guarantee, options=chosen, loader=LOADER, table=table)

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Only the name: a topic exists as soon as it is used."""
        return EntityPlan(name=relation.entity, counts=MappingProxyType({}), used_by=str(relation.name))

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """``memory://store/topic``."""
        return f"memory://{store.name}/{relation.entity}"

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Look into the registry."""
        from ds_dagster.stores.memory.loader import MemoryAdmin

        return MemoryAdmin(store.name)

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, str]:
        """Empty: there is no client."""
        return {}
