"""Delta tables in a folder or in S3, without a workspace: sink of CREATE TABLE … AS. Loads through ``loader.py``,
control through ``admin.py``."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import Options, ReadSpec, RefreshMode, Resolver, WriteSpec
from ds_dagster.catalog.name_rules import FOLDERS
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.properties.table import specs
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.files.address import ALLOWED_URIS, is_lake_url
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.tables import COLUMN_RULE, native_type
from ds_dagster.stores.options import invalid_address, is_literal, make_options, missing, target_table, word

LOADER = "ds_dagster.stores.delta.loader:open_loader"
KEY, SECRET, TOKEN = "aws.access_key_id", "aws.secret_access_key", "aws.session_token"
ENDPOINT = "aws.endpoint_url"


class Delta:
    """A folder of Delta tables."""

    name = "DELTA"
    aliases: tuple[str, ...] = ("DELTA_LAKE",)
    capabilities = Capabilities(
        writes_tables=True,
        table_reader="ds_dagster.stores.delta.lookup:read_table",
        table_delivery="exactly_once",
        supports_delete=True,
        supports_upsert=True,
        replaces_ranges=True,
        dagster_kinds=("deltalake", "table"),
        storage_kind="deltalake",
        entity_parts=(("delta.table.name", ""),),
        entity_rule=FOLDERS,
        column_rule=COLUMN_RULE,
        not_built=(
            ("source of streams", "read the topic its query reads"),
            ("compaction and VACUUM", "run them as an asset of your own on `DeltaStoreResource.table()`"),
        ),
    )
    store_properties: tuple[PropertySpec, ...] = specs(
        "uris", "access_region", "description", "config_file", KEY, SECRET, TOKEN, ENDPOINT
    )
    relation_properties: tuple[PropertySpec, ...] = specs("delta.table.name")

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Check that the address is a folder or a bucket without a login, and that a key comes with its secret."""
        problems: list[Diagnostic] = []
        if "uris" not in store.properties:
            problems.append(missing(store, "uris", "the folder of its tables", ALLOWED_URIS))
        elif is_literal(store.properties["uris"]) and not is_lake_url(word(store, "uris")):
            problems.append(invalid_address(store, ALLOWED_URIS))
        return [*problems, *check_keys(store)]

    def native_type(self, type_: DataType) -> str | None:
        """The column type, which every type has, also STRUCT, MAP and ARRAY."""
        return native_type(type_)

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """Refused: a table is not a stream."""
        raise error("STORE_NOT_A_SOURCE", span=relation.span, relation=str(relation.name), type=self.name)

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """Write spec of the loader: each batch in one commit with its ledger."""
        path = tuple(relation.entity.split("/"))
        return WriteSpec(
            kind="batch",
            entity=f"{store.name}.{'/'.join(path)}",
            delivery=delivery(relation.kind, relation.properties, self),
            options=make_options({**connection(store), "shared": relation.declared, "store": store.name}),
            loader=LOADER,
            table=target_table(self, relation, refresh, path, "string"),
        )

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Only the name: the loader creates the table."""
        return EntityPlan(name=relation.entity, used_by=str(relation.name))

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """``s3://bucket/prefix/table``."""
        return "/".join([word(store, "uris").rstrip("/"), relation.entity])

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Look at the folder with delta-rs."""
        from ds_dagster.stores.delta.admin import DeltaAdmin

        return DeltaAdmin(store.name, {name: resolve(value) for name, value in connection(store).items()})

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, Any]:
        """``root`` of the tables and ``storage_options`` for deltalake."""
        settings = {name: resolve(value) for name, value in connection(store).items()}
        address = LakeAddress.of(store.name, settings)
        return {"root": address.root, "storage_options": address.storage_options()}


def check_keys(store: StoreDefinition) -> Sequence[Diagnostic]:
    """Check that a key comes with its secret, and that an endpoint has a scheme."""
    problems: list[Diagnostic] = []
    for name, other in ((KEY, SECRET), (SECRET, KEY)):
        if name in store.properties and other not in store.properties:
            problems.append(missing(store, other, f"{name} is not valid without it", "'${NAME}'"))
    endpoint = store.properties.get(ENDPOINT)
    if is_literal(endpoint) and not word(store, ENDPOINT).startswith(("http://", "https://")):
        span = endpoint.span if endpoint else None
        wrong = error(
            "PROPERTY_INVALID",
            span=span or store.span,
            name=ENDPOINT,
            value=word(store, ENDPOINT),
            allowed="http(s)://host:port",
        )
        problems.append(wrong.diagnostic())
    return problems


def connection(store: StoreDefinition) -> Options:
    """Connection options: address, region, keys."""
    return make_options(
        {
            "url": store.properties["uris"],
            "region": store.properties.get("access_region"),
            "endpoint_url": store.properties.get(ENDPOINT),
            "access_key_id": store.properties.get(KEY),
            "secret_access_key": store.properties.get(SECRET),
            "session_token": store.properties.get(TOKEN),
        }
    )
