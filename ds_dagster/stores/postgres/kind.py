"""Postgres: sink of CREATE TABLE … AS, store of materialized views, source of its tables' changes (``cdc.py``). Loads
through ``loader.py``, control through ``admin.py``."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from urllib.parse import urlsplit

from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import Options, ReadSpec, RefreshMode, Resolver, WriteSpec
from ds_dagster.catalog.name_rules import NameRule
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.properties.table import specs
from ds_dagster.catalog.reading.slots import Slot
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import ArrayType, DataType, Scalar
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.stores.options import (
    flag,
    host_part,
    invalid_address,
    is_literal,
    make_options,
    missing,
    target_table,
    word,
)
from ds_dagster.stores.postgres import cdc as postgres_cdc
from ds_dagster.stores.postgres import slots as postgres_slots

LOADER = "ds_dagster.stores.postgres.loader:open_loader"
JSON_TYPE = "jsonb"
DEFAULT_SCHEMA = "public"
NATIVE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "BOOLEAN": "boolean",
        "TINYINT": "smallint",
        "SMALLINT": "smallint",
        "INTEGER": "integer",
        "BIGINT": "bigint",
        "FLOAT": "real",
        "DOUBLE": "double precision",
        "DATE": "date",
        "TIME": "time without time zone",
        "TIMESTAMP": "timestamp without time zone",
        "TIMESTAMP_LTZ": "timestamp with time zone",
        "VARBINARY": "bytea",
    }
)
"""Names as Postgres' ``format_type`` prints them, so that an existing table can be compared as text."""

CLIENT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "url": "dsn",
        "username": "user",
        "password": "password",
        "sslmode": "sslmode",
        "sslrootcert": "sslrootcert",
    }
)
"""Connection option → argument of psycopg2."""


NAME_RULE = NameRule("names in PostgreSQL are up to 63 bytes, longer ones would be cut off", bytes=63)
"""NAMEDATALEN of PostgreSQL's own builds (64) less the byte that ends a name."""
COLUMN_RULE = replace(
    NAME_RULE,
    words="names in PostgreSQL are up to 63 bytes, and not one of its system columns (ctid, xmin, tableoid, …)",
    reserved=("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"),
)


class Postgres:
    """A Postgres database."""

    name = "POSTGRESQL"
    aliases: tuple[str, ...] = ("POSTGRES",)
    capabilities = Capabilities(
        reads_streams=True,
        replaces_ranges=True,
        record_time="broker",
        entity_list=postgres_cdc.LIST,
        forgets="a replication slot drops changes that were read",
        no_past="a replication slot keeps no changes that were read; `ds reset` begins again with a snapshot of what "
        "the tables hold",
        writes_tables=True,
        table_reader="ds_dagster.stores.postgres.lookup:read_table",
        serves_views=True,
        table_delivery="exactly_once",
        supports_delete=True,
        supports_upsert=True,
        dagster_kinds=("postgres", "table"),
        keeps_slot=True,
        storage_kind="postgres",
        entity_parts=(("postgresql.schema.name", DEFAULT_SCHEMA), ("postgresql.table.name", "")),
        entity_rule=NAME_RULE,
        column_rule=COLUMN_RULE,
    )
    store_properties: tuple[PropertySpec, ...] = specs(
        "uris", "access_region", "description", "config_file", "postgres.username", "postgres.password",
        "postgres.sslmode",
        "tls.disabled", "tls.ca_cert_file", "tls.verify_server_hostname",
    )  # fmt: skip
    relation_properties: tuple[PropertySpec, ...] = specs(
        "postgresql.db.name", "postgresql.schema.name", "postgresql.table.name", "postgresql.cdc.table.list",
        "postgresql.slot.name", "value.format", "timestamp", "starting.position", "enable.upsert.mode",
        "primary.key.nullable",
    )  # fmt: skip

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Check that the address has no password, a user is given, and TLS is not contradictory."""
        problems: list[Diagnostic] = []
        if "uris" not in store.properties:
            problems.append(missing(store, "uris", "the database", "'postgresql://host:5432/database'"))
        elif is_literal(store.properties["uris"]):
            address = urlsplit(word(store, "uris"))
            if address.scheme not in ("postgresql", "postgres") or not address.hostname or address.password:
                problems.append(invalid_address(store, "postgresql://host:port/database, without a password"))
        if "postgres.username" not in store.properties:
            problems.append(missing(store, "postgres.username", "the user to log in as", "'${NAME}'"))
        mode = word(store, "postgres.sslmode")
        if flag(store, "tls.disabled") and mode not in ("", "disable"):
            problems.append(
                error(
                    "STORE_PROPERTIES_CONTRADICT",
                    span=store.properties["postgres.sslmode"].span or store.span,
                    store=store.name,
                    first="postgres.sslmode",
                    second="tls.disabled",
                    reason="TLS is off",
                    fix="remove one of the two",
                ).diagnostic()
            )
        return problems

    def native_type(self, type_: DataType) -> str | None:
        """The column type; None for STRUCT, MAP and arrays of them, which are stored as ``jsonb``."""
        if isinstance(type_, ArrayType):
            element = self.native_type(type_.element) if isinstance(type_.element, Scalar) else None
            return f"{element}[]" if element else None
        if not isinstance(type_, Scalar):
            return None
        if type_.name == "VARCHAR":
            return "text" if type_.length is None else f"character varying({type_.length})"
        if type_.name == "DECIMAL":
            return f"numeric({type_.precision},{type_.scale})"
        return NATIVE_TYPES[type_.name]

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """Changes of tables."""
        return postgres_cdc.read_spec(store, connection(store), relation, options)

    def check_relation(self, relation: Relation) -> Sequence[Diagnostic]:
        """Check the columns and properties of a relation that reads changes; other relations may not have these
        properties."""
        return postgres_cdc.problems(relation)

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """Write spec of the loader: each batch in one transaction with its ledger row."""
        path = self._path(relation)
        target = target_table(self, relation, refresh, path, JSON_TYPE)
        return WriteSpec(
            kind="batch",
            entity=f"{store.name}.{'.'.join(path)}",
            delivery=delivery(relation.kind, relation.properties, self),
            options=make_options(
                {
                    **connection(store),
                    "database": relation.properties.get("postgresql.db.name"),
                    "shared": relation.declared,
                    "store": store.name,
                }
            ),
            loader=LOADER,
            streams=target.mode == "append",
            table=target,
        )

    def version_path(self, path: tuple[str, ...], version: int) -> tuple[str, ...]:
        """The table of a version, next to the view's."""
        from ds_dagster.stores.postgres.versions import version_table

        return (*path[:-1], version_table(path[-1], version))

    def count_version(self, write: WriteSpec, resolve: Resolver, version: int) -> int:
        """Number of rows in the version's table."""
        from ds_dagster.stores.postgres.versions import count

        return count(write, resolve, version)

    def serve_version(self, write: WriteSpec, resolve: Resolver, former: int, version: int) -> None:
        """Rename both tables in one transaction."""
        from ds_dagster.stores.postgres.versions import serve

        serve(write, resolve, former, version)

    def drop_version(self, write: WriteSpec, resolve: Resolver, version: int) -> None:
        """Drop the version's table and delete its rows in the ledger."""
        from ds_dagster.stores.postgres.versions import drop

        drop(write, resolve, version)

    def why_not_renamed(self, old: WriteSpec, new: WriteSpec) -> str:
        """A table can be renamed only within its schema, whose ledger has its batches."""
        assert old.table is not None and new.table is not None
        is_near = old.options == new.options and old.table.path[:-1] == new.table.path[:-1]
        return "" if is_near else "its table would be in another database or schema"

    def rename_table(self, old: WriteSpec, new: WriteSpec, resolve: Resolver) -> None:
        """Rename the table, and the table in its rows of the ledger, in one transaction."""
        from ds_dagster.stores.postgres.versions import rename

        rename(old, new, resolve)

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Only the name: the loader creates the table."""
        return EntityPlan(name=".".join(self._path(relation)), used_by=str(relation.name))

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """``postgresql://host:port/database/schema.table``."""
        address = word(store, "uris")
        database = urlsplit(address).path.strip("/") if is_literal(store.properties.get("uris")) else ""
        written = relation.option("postgresql.db.name")
        place = host_part(address)
        return "/".join(
            ["postgresql:/", place, *filter(None, [str(written or database)]), ".".join(self._path(relation))]
        )

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Connect with psycopg2."""
        from ds_dagster.stores.postgres.admin import PostgresAdmin

        return PostgresAdmin(store.name, {name: resolve(value) for name, value in connection(store).items()})

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, str]:
        """Arguments of ``psycopg2.connect``."""
        return {CLIENT_NAMES[name]: resolve(value) for name, value in connection(store).items()}

    def find_slots(self, store: StoreDefinition, resolve: Resolver, prefix: str) -> Sequence[Slot]:
        """Replication slots whose names have a prefix."""
        settings = {name: resolve(value) for name, value in connection(store).items()}
        return postgres_slots.find_slots(store.name, settings, prefix)

    def drop_slot(self, store: StoreDefinition, resolve: Resolver, slot: Slot) -> None:
        """Drop a slot of :meth:`find_slots` and its publication."""
        postgres_slots.drop_slot(slot, {name: resolve(value) for name, value in connection(store).items()})

    def _path(self, relation: Relation) -> tuple[str, str]:
        """Schema and table."""
        schema = relation.option("postgresql.schema.name") or DEFAULT_SCHEMA
        table = relation.option("postgresql.table.name") or relation.name.name
        return str(schema), str(table)


def connection(store: StoreDefinition) -> Options:
    """Connection options: address, user, password, TLS."""
    mode = word(store, "postgres.sslmode") or None
    if flag(store, "tls.disabled"):
        mode = "disable"
    elif mode is None and "tls.ca_cert_file" in store.properties:
        mode = "verify-ca" if flag(store, "tls.verify_server_hostname") is False else "verify-full"
    return make_options(
        {
            "url": store.properties["uris"],
            "username": store.properties.get("postgres.username"),
            "password": store.properties.get("postgres.password"),
            "sslmode": mode,
            "sslrootcert": store.properties.get("tls.ca_cert_file"),
        }
    )
