"""Databricks: sink of CREATE TABLE … AS. In the mode ``delta``, a table's files are written directly into a bucket and
registered in Unity Catalog; in the mode ``warehouse``, the SQL warehouse loads them. Loads through ``loader.py`` and
``warehouse.py``, control through ``admin.py``."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.files.address import is_lake_url
from ds_dagster.stores.databricks.connection import ALLOWED_URIS, WorkspaceAddress, is_workspace_url
from ds_dagster.stores.delta.kind import ENDPOINT, KEY, SECRET, TOKEN, check_keys
from ds_dagster.stores.delta.tables import COLUMN_RULE, native_type
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

LOADERS: Mapping[str, str] = MappingProxyType(
    {
        "delta": "ds_dagster.stores.databricks.loader:open_loader",
        "warehouse": "ds_dagster.stores.databricks.loader:open_warehouse_loader",
    }
)
APP_TOKEN, CLIENT, CLIENT_SECRET = "databricks.app_token", "databricks.client_id", "databricks.client_secret"
WAREHOUSE, BUCKET, LOCATION = "databricks.warehouse_id", "databricks.cloud.s3.bucket", "table.data.file.location"
NAMES = ("databricks.catalog.name", "databricks.schema.name", "databricks.table.name")
OF_A_BUCKET = (BUCKET, "databricks.cloud.region", KEY, SECRET, TOKEN, ENDPOINT)
"""Properties of the bucket, which the mode ``warehouse`` refuses."""
DEFAULT_CATALOG, DEFAULT_SCHEMA = "main", "default"
ALLOWED_LOCATION = "'s3://bucket/folder'"


NAME_RULE = NameRule(
    "names of objects in Databricks are up to 255 characters, without dots, blanks, slashes and control characters",
    r"[^. /\x00-\x1f\x7f]+",
    characters=255,
)
"""Unity Catalog's rule for catalogs, schemas and tables."""


class Databricks:
    """A workspace with a SQL warehouse, and in the mode ``delta`` a bucket that is an external location of it."""

    name = "DATABRICKS"
    aliases: tuple[str, ...] = ()
    capabilities = Capabilities(
        writes_tables=True,
        table_reader="ds_dagster.stores.databricks.lookup:read_table",
        lookup_millis=WAREHOUSE_LOOKUP_MILLIS,
        table_delivery="exactly_once",
        supports_delete=True,
        supports_upsert=True,
        dagster_kinds=("databricks", "deltalake", "table"),
        storage_kind="databricks",
        entity_parts=((NAMES[0], DEFAULT_CATALOG), (NAMES[1], DEFAULT_SCHEMA), (NAMES[2], "")),
        entity_rule=NAME_RULE,
        column_rule=replace(COLUMN_RULE, characters=255),
        not_built=(
            ("source of streams", "read the topic its query reads"),
            ("tables managed by Unity Catalog, in mode delta", "write 'databricks.mode' = 'warehouse'"),
        ),
    )
    store_properties: tuple[PropertySpec, ...] = specs(
        "uris", "description", "config_file", "databricks.mode", APP_TOKEN, CLIENT, CLIENT_SECRET, WAREHOUSE,
        "databricks.warehouse_port", BUCKET, "databricks.cloud.region", KEY, SECRET, TOKEN, ENDPOINT, "tls.disabled",
    )  # fmt: skip
    relation_properties: tuple[PropertySpec, ...] = specs(*NAMES, LOCATION)

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Check that workspace, warehouse and one way to log in are given, a key comes with its secret, the bucket is
        valid, and the mode has no other mode's properties."""
        problems = [*self._check_address(store), *_check_login(store), *check_keys(store), *_check_mode(store)]
        if WAREHOUSE not in store.properties:
            problems.append(missing(store, WAREHOUSE, "the warehouse that registers tables", "'1234567890abcdef'"))
        bucket = store.properties.get(BUCKET)
        if bucket is not None and is_literal(bucket) and not is_lake_url(_as_url(str(bucket.value))):
            allowed = "a bucket's name or 's3://bucket/prefix'"
            problem = error(
                "PROPERTY_INVALID", span=bucket.span or store.span, name=BUCKET, value=bucket.value, allowed=allowed
            )
            problems.append(problem.diagnostic())
        return problems

    def _check_address(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        if "uris" not in store.properties:
            return (missing(store, "uris", "the workspace", ALLOWED_URIS),)
        tls = not flag(store, "tls.disabled")
        if is_literal(store.properties["uris"]) and not is_workspace_url(word(store, "uris"), tls=tls):
            return (invalid_address(store, ALLOWED_URIS if tls else "'http://host:port', since TLS is off"),)
        return ()

    def native_type(self, type_: DataType) -> str | None:
        """The column type, which every type has, also STRUCT, MAP and ARRAY."""
        return native_type(type_)

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """Refused: a table is not a stream."""
        raise error("STORE_NOT_A_SOURCE", span=relation.span, relation=str(relation.name), type=self.name)

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """Write spec of the loader of the store's mode."""
        path = _path(relation)
        options = {**connection(store), **_mode(store, relation, path)}
        return WriteSpec(
            kind="batch",
            entity=f"{store.name}.{'.'.join(path)}",
            delivery=delivery(relation.kind, relation.properties, self),
            options=make_options({**options, "shared": relation.declared, "store": store.name}),
            loader=LOADERS[mode_of(store)],
            table=target_table(self, relation, refresh, path, "string"),
        )

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Only the name: the loader creates the table."""
        return EntityPlan(name=".".join(_path(relation)), used_by=str(relation.name))

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """``databricks://host/catalog.schema.table``."""
        return f"databricks://{host_part(word(store, 'uris'))}/{'.'.join(_path(relation))}"

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Connect to the warehouse."""
        from ds_dagster.stores.databricks.admin import DatabricksAdmin

        return DatabricksAdmin(store.name, {name: resolve(value) for name, value in connection(store).items()})

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, Any]:
        """Arguments of ``databricks.sql.connect``."""
        settings = {name: resolve(value) for name, value in connection(store).items()}
        return WorkspaceAddress.of(store.name, {**settings, "url": settings["workspace_url"]}).client_arguments()


def _check_login(store: StoreDefinition) -> Sequence[Diagnostic]:
    """Check that there is a token, or a client id with its secret, and not both."""
    properties = store.properties
    if APP_TOKEN not in properties and CLIENT not in properties and CLIENT_SECRET not in properties:
        return (missing(store, APP_TOKEN, "the login", "'${NAME}'"),)
    problems = [
        missing(store, other, f"{name} is not valid without it", "'${NAME}'")
        for name, other in ((CLIENT, CLIENT_SECRET), (CLIENT_SECRET, CLIENT))
        if name in properties and other not in properties
    ]
    if APP_TOKEN in properties and CLIENT in properties:
        problem = error(
            "STORE_PROPERTIES_CONTRADICT",
            span=properties[CLIENT].span or store.span,
            store=store.name,
            first=CLIENT,
            second=APP_TOKEN,
            reason="each of them is a login",
            fix="remove one of the two",
        )
        problems.append(problem.diagnostic())
    return problems


def _check_mode(store: StoreDefinition) -> Sequence[Diagnostic]:
    """Check that no property of a bucket is given in the mode ``warehouse``, where the workspace stores the files."""
    bucket_values = [store.properties[name] for name in OF_A_BUCKET if name in store.properties]
    if mode_of(store) == "delta" or not bucket_values:
        return ()
    problem = error(
        "STORE_PROPERTIES_CONTRADICT",
        span=bucket_values[0].span or store.span,
        store=store.name,
        first=next(name for name in OF_A_BUCKET if name in store.properties),
        second="'databricks.mode' = 'warehouse'",
        reason="the workspace keeps the files of tables it loads",
        fix="leave it out, or load with 'databricks.mode' = 'delta'",
    )
    return (problem.diagnostic(),)


def _path(relation: Relation) -> tuple[str, str, str]:
    """Catalog, schema and table."""
    catalog = relation.option(NAMES[0]) or DEFAULT_CATALOG
    schema = relation.option(NAMES[1]) or DEFAULT_SCHEMA
    return str(catalog), str(schema), str(relation.option(NAMES[2]) or relation.name.name)


def mode_of(store: StoreDefinition) -> str:
    """``delta`` or ``warehouse``."""
    return word(store, "databricks.mode") or "delta"


def _mode(store: StoreDefinition, relation: Relation, path: tuple[str, ...]) -> Mapping[str, PropertyValue]:
    """Option ``location`` with the place of a table's files; none in the mode ``warehouse``.

    Raises:
        UserError: STORE_PROPERTIES_CONTRADICT, and the errors of :func:`_location`.
    """
    written = relation.properties.get(LOCATION)
    if mode_of(store) == "delta":
        return {"location": _location(store, relation, path)}
    if written is not None:
        raise error(
            "STORE_PROPERTIES_CONTRADICT",
            span=written.span or relation.span,
            store=store.name,
            first=LOCATION,
            second="'databricks.mode' = 'warehouse'",
            reason="the workspace keeps the files of tables it loads",
            fix="leave out the location, or load with 'databricks.mode' = 'delta'",
        )
    return {}


def _location(store: StoreDefinition, relation: Relation, path: tuple[str, ...]) -> PropertyValue:
    """The written place of the table's files, else ``catalog/schema/table`` in the store's bucket.

    Raises:
        UserError: PROPERTY_INVALID, STORE_PROPERTY_MISSING.
    """
    written = relation.properties.get(LOCATION)
    if written is not None:
        place = urlsplit(str(written.value))
        if not is_lake_url(str(written.value)) or place.scheme == "file" or not place.path.strip("/"):
            span = written.span or relation.span
            raise error("PROPERTY_INVALID", span=span, name=LOCATION, value=written.value, allowed=ALLOWED_LOCATION)
        return written
    bucket = store.properties.get(BUCKET)
    if bucket is None:
        raise error(
            "STORE_PROPERTY_MISSING",
            span=relation.span,
            store=store.name,
            name=BUCKET,
            reason=f"{relation.name} has no {LOCATION} of its own",
            example="'my-bucket'",
        )
    return PropertyValue("", parts=(_bucket_url(bucket), PropertyValue("/" + "/".join(path))))


def _bucket_url(bucket: PropertyValue) -> PropertyValue:
    if bucket.is_reference:
        return bucket
    return PropertyValue(_as_url(str(bucket.value)).rstrip("/"))


def _as_url(bucket: str) -> str:
    return bucket if "://" in bucket else f"s3://{bucket}"


def connection(store: StoreDefinition) -> Options:
    """Connection options: workspace, warehouse, login; region and keys of the bucket."""
    return make_options(
        {
            "workspace_url": store.properties["uris"],
            "warehouse_id": store.properties[WAREHOUSE],
            "port": store.properties.get("databricks.warehouse_port"),
            "tls_disabled": bool(flag(store, "tls.disabled")),
            "app_token": store.properties.get(APP_TOKEN),
            "client_id": store.properties.get(CLIENT),
            "client_secret": store.properties.get(CLIENT_SECRET),
            "region": store.properties.get("databricks.cloud.region"),
            "endpoint_url": store.properties.get(ENDPOINT),
            "access_key_id": store.properties.get(KEY),
            "secret_access_key": store.properties.get(SECRET),
            "session_token": store.properties.get(TOKEN),
        }
    )
