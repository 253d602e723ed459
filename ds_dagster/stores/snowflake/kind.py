"""Snowflake: sink of CREATE TABLE … AS and of INSERT INTO a table. Loads through ``loader.py``, control through
``admin.py``."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from ds_dagster.catalog.capabilities import WAREHOUSE_LOOKUP_MILLIS, Capabilities
from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import Options, ReadSpec, RefreshMode, Resolver, WriteSpec
from ds_dagster.catalog.name_rules import NameRule
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.properties.table import specs
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.stores.options import flag, invalid_address, is_literal, make_options, missing, target_table, word
from ds_dagster.stores.snowflake.connection import SnowflakeAddress
from ds_dagster.stores.snowflake.names import check_columns, shown_path, stored_name

LOADER = "ds_dagster.stores.snowflake.loader:open_loader"
JSON_TYPE = "VARIANT"
DEFAULT_SCHEMA = "PUBLIC"
NATIVE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "BOOLEAN": "BOOLEAN",
        "TINYINT": "NUMBER(38,0)",
        "SMALLINT": "NUMBER(38,0)",
        "INTEGER": "NUMBER(38,0)",
        "BIGINT": "NUMBER(38,0)",
        "FLOAT": "FLOAT",
        "DOUBLE": "FLOAT",
        "DATE": "DATE",
        "TIME": "TIME(9)",
        "TIMESTAMP": "TIMESTAMP_NTZ(9)",
        "TIMESTAMP_LTZ": "TIMESTAMP_LTZ(9)",
        "VARBINARY": "BINARY",
    }
)
"""Scalar → type that Snowflake itself makes of this name
(https://docs.snowflake.com/en/sql-reference/intro-summary-data-types), so that a table made by hand has the same
columns."""

LOGINS: Mapping[str, str] = MappingProxyType(
    {
        "snowflake.client.key_file": "key_file",
        "snowflake.password": "password",
        "snowflake.oauth_token": "oauth_token",
        "snowflake.access_token": "access_token",
    }
)
"""Property of a way to log in → connection option; exactly one of them is written."""

BUFFER_MILLIS = 10_000
"""How long rows of a continuous load wait for the next batch: every batch wakes the warehouse."""


NAME_RULE = NameRule("names in Snowflake are up to 255 characters", characters=255)


class Snowflake:
    """A Snowflake account, used through one warehouse and one role."""

    name = "SNOWFLAKE"
    aliases: tuple[str, ...] = ()
    capabilities = Capabilities(
        writes_tables=True,
        table_reader="ds_dagster.stores.snowflake.lookup:read_table",
        lookup_millis=WAREHOUSE_LOOKUP_MILLIS,
        table_delivery="exactly_once",
        supports_delete=True,
        supports_upsert=True,
        dagster_kinds=("snowflake", "table"),
        storage_kind="snowflake",
        entity_parts=(
            ("snowflake.db.name", ""),
            ("snowflake.schema.name", DEFAULT_SCHEMA),
            ("snowflake.table.name", ""),
        ),
        required_parts=(("snowflake.db.name", "'ANALYTICS'"),),
        entity_rule=NAME_RULE,
        column_rule=NAME_RULE,
        not_built=(
            ("materialized views", "keep them in the embedded store or in a POSTGRESQL store"),
            ("login in a browser, MFA", "an engine cannot prompt; use a key pair or a token"),
        ),
    )
    store_properties: tuple[PropertySpec, ...] = specs(
        "uris", "access_region", "description", "config_file", "snowflake.account_id", "snowflake.cloud.region",
        "snowflake.warehouse_name", "snowflake.role_name", "snowflake.username", "snowflake.client.key_file",
        "snowflake.client.key_passphrase", "snowflake.password", "snowflake.oauth_token", "snowflake.access_token",
        "tls.disabled",
    )  # fmt: skip
    relation_properties: tuple[PropertySpec, ...] = specs(
        "snowflake.db.name", "snowflake.schema.name", "snowflake.table.name", "snowflake.buffer.millis"
    )

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Check that account, warehouse and user are given, with exactly one way to log in, and that TLS is off only
        with ``tls.disabled``."""
        problems = [
            missing(store, name, reason, example)
            for name, reason, example in (
                ("snowflake.account_id", "the account", "'myorg-myaccount'"),
                ("snowflake.warehouse_name", "the warehouse that loads", "'LOAD_WH'"),
                ("snowflake.username", "the user to log in as", "'${NAME}'"),
            )
            if name not in store.properties and not (name == "snowflake.username" and _has_oauth(store))
        ]
        return [*problems, *_check_login(store), *_check_address(store)]

    def native_type(self, type_: DataType) -> str | None:
        """The column type; None for ARRAY, MAP and STRUCT, which are stored as ``VARIANT``."""
        if not isinstance(type_, Scalar):
            return None
        if type_.name == "VARCHAR":
            return "VARCHAR" if type_.length is None else f"VARCHAR({type_.length})"
        if type_.name == "DECIMAL":
            return f"NUMBER({type_.precision},{type_.scale})"
        return NATIVE_TYPES[type_.name]

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """Refused: a Snowflake table is not a stream."""
        raise error("STORE_NOT_A_SOURCE", span=relation.span, relation=str(relation.name), type=self.name)

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """Write spec of the loader: each batch in one transaction with its ledger row.

        Raises:
            UserError: TARGET_COLUMNS_CLASH.
        """
        check_columns(relation, store.name)
        path = self._path(relation)
        return WriteSpec(
            kind="batch",
            entity=f"{store.name}.{'.'.join(path)}",
            delivery=delivery(relation.kind, relation.properties, self),
            options=make_options({**connection(store), "shared": relation.declared, "store": store.name}),
            loader=LOADER,
            table=target_table(self, relation, refresh, path, JSON_TYPE),
            interval_millis=_interval(relation) if refresh == "continuous" else 0,
        )

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Only the name: the loader creates the table."""
        return EntityPlan(name=shown_path(self._path(relation)), used_by=str(relation.name))

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """``snowflake://account/DATABASE/SCHEMA/TABLE``."""
        return "/".join(["snowflake:/", word(store, "snowflake.account_id"), *self._path(relation)])

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Connect with snowflake-connector-python."""
        from ds_dagster.stores.snowflake.admin import SnowflakeAdmin

        return SnowflakeAdmin(store.name, {name: resolve(value) for name, value in connection(store).items()})

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, Any]:
        """Arguments of ``snowflake.connector.connect``."""
        settings = {name: resolve(value) for name, value in connection(store).items()}
        return SnowflakeAddress.of(store.name, settings).client_arguments()

    def _path(self, relation: Relation) -> tuple[str, str, str]:
        """Database, schema and table, as Snowflake stores their names."""
        database = relation.option("snowflake.db.name") or relation.name.database
        schema = relation.option("snowflake.schema.name") or DEFAULT_SCHEMA
        table = relation.option("snowflake.table.name") or relation.name.name
        return stored_name(str(database)), stored_name(str(schema)), stored_name(str(table))


def connection(store: StoreDefinition) -> Options:
    """Connection options: account, address, user, warehouse, role, login."""
    properties = store.properties
    return make_options(
        {
            "account_id": properties["snowflake.account_id"],
            "region": properties.get("snowflake.cloud.region"),
            "url": properties.get("uris"),
            "username": properties.get("snowflake.username"),
            "warehouse": properties["snowflake.warehouse_name"],
            "role": properties.get("snowflake.role_name"),
            "key_passphrase": properties.get("snowflake.client.key_passphrase"),
            **{option: properties.get(name) for name, option in LOGINS.items()},
        }
    )


def _has_oauth(store: StoreDefinition) -> bool:
    return "snowflake.oauth_token" in store.properties


def _check_login(store: StoreDefinition) -> list[Diagnostic]:
    """Check that there is one way to log in, and a passphrase only with a key file."""
    written = [name for name in LOGINS if name in store.properties]
    if not written:
        others = ", ".join(name for name in LOGINS if name != "snowflake.client.key_file")
        return [missing(store, "snowflake.client.key_file", f"a way to log in (or {others})", "'@keys/loader.p8'")]
    problems = [_contradiction(store, written[0], other, "a store has one login") for other in written[1:]]
    if "snowflake.client.key_passphrase" in store.properties and "snowflake.client.key_file" not in written:
        reason = "a passphrase needs a key file"
        problems.append(_contradiction(store, "snowflake.client.key_passphrase", written[0], reason))
    return problems


def _check_address(store: StoreDefinition) -> list[Diagnostic]:
    """Check that ``uris`` is a URL without a login, and without TLS only if ``tls.disabled`` is set."""
    if not is_literal(store.properties.get("uris")):
        return []
    try:
        address = urlsplit(word(store, "uris"))
        valid = address.scheme in ("https", "http") and address.hostname and not address.username
        valid = valid and (address.port is None or address.port > 0)
    except ValueError:
        valid = False
    if not valid:
        return [invalid_address(store, "https://host or https://host:port, without a login")]
    if address.scheme == "http" and not flag(store, "tls.disabled"):
        return [invalid_address(store, "https://…, or write 'tls.disabled' = TRUE for a local server")]
    return []


def _contradiction(store: StoreDefinition, first: str, second: str, reason: str) -> Diagnostic:
    return error(
        "STORE_PROPERTIES_CONTRADICT",
        span=store.properties[second].span or store.span,
        store=store.name,
        first=first,
        second=second,
        reason=reason,
        fix="remove one of the two",
    ).diagnostic()


def _interval(relation: Relation) -> int:
    written = relation.option("snowflake.buffer.millis")
    return BUFFER_MILLIS if written is None else int(written)
