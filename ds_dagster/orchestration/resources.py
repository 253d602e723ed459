"""Dagster resources: the way to the journal, one resource per declared store, the project's Spark session."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, PrivateAttr

from ds_dagster.catalog.entity import ProbeResult, RawRecord
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.catalog.values import PropertyValue, resolve
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.project import client_settings, spark_properties, store_admin
from ds_dagster.runtime.control import Control

if TYPE_CHECKING:
    from dagster_pyspark import LazyPySparkResource

SECRET = {"dagster__is_secret": True}


class DsControlResource(dg.ConfigurableResource):
    """The journal of the project: ask for jobs, look at them, stop them. No server behind it, nothing to connect to."""

    requested_by: str = Field(default="dagster", description="who the journal says asked for a change")
    start_timeout_seconds: int = Field(default=120, description="how long a launch may take before the asset fails")

    def control(self, project: DsProject) -> Control:
        """The runtime's API over the project's state folder."""
        return Control.open(project.settings)


class StoreResource(dg.ConfigurableResource):
    """A declared store for a user's own assets: the vendor's client, control calls, records to look at.

    One class per kind gives the vendor's own clients. Values that are not given are those of ``CREATE STORE`` (overlay of local
    servers included). A resource in ``Definitions(resources={"<store>": …})`` replaces values; secrets only by ``dg.EnvVar``.
    """

    uris: str | None = Field(default=None, description="address; replaces that of CREATE STORE")

    _project: DsProject | None = PrivateAttr(default=None)
    _store: str = PrivateAttr(default="")

    def bind(self, project: DsProject, store: str) -> "StoreResource":
        """Tie the resource to a declared store; done by ``build_ds_definitions``."""
        self._project, self._store = project, store
        return self

    def property_overrides(self) -> Mapping[str, str]:
        """Property name → replacing text of the fields that were given."""
        names = self.property_names()
        return {names[field]: value for field, value in self._given().items()}

    @classmethod
    def property_names(cls) -> Mapping[str, str]:
        """Field name → WITH property."""
        return {"uris": "uris"}

    def probe(self) -> ProbeResult:
        """Does it answer, may we log in."""
        with self.admin() as admin:
            return admin.probe()

    @contextmanager
    def admin(self) -> Iterator[StoreAdmin]:
        """Look at, create and list entities; closed at the end of the ``with``."""
        project, name = self._bound()
        admin = store_admin(project.project, name, self._resolve, self.property_overrides())
        try:
            yield admin
        finally:
            admin.close()

    def records(self, entity: str, *, limit: int = 10, from_beginning: bool = True) -> list[RawRecord]:
        """The first (or next) records of an entity, raw."""
        with self.admin() as admin:
            return list(admin.records(entity, from_beginning=from_beginning, limit=limit, stopped=lambda: False))

    def client_settings(self) -> dict[str, Any]:
        """Settings of the vendor's client, secrets resolved: keep them out of logs."""
        project, name = self._bound()
        return dict(client_settings(project.project, name, self._resolve, self.property_overrides()))

    def _given(self) -> dict[str, str]:
        values = {field: getattr(self, field) for field in self.property_names()}
        return {field: str(value) for field, value in values.items() if value is not None}

    def _bound(self) -> tuple[DsProject, str]:
        if self._project is None:
            raise error("RESOURCE_UNKNOWN_STORE", store=type(self).__name__, nearest="build_ds_definitions(…, resources=…)")
        return self._project, self._store

    def _resolve(self, value: PropertyValue) -> str:
        return resolve(value, os.environ, used_by=f"store {self._store}")


class KafkaStoreResource(StoreResource):
    """A Kafka store. ``producer()``, ``consumer(group)`` and ``admin_client()`` are confluent-kafka's own."""

    username: str | None = Field(default=None, description="SASL user")
    password: str | None = Field(default=None, json_schema_extra=SECRET, description="SASL password: dg.EnvVar only")

    @classmethod
    def property_names(cls) -> Mapping[str, str]:
        return {"uris": "uris", "username": "kafka.sasl.username", "password": "kafka.sasl.password"}

    def producer(self, **settings: Any) -> Any:
        """``confluent_kafka.Producer``; settings win over the store's."""
        from confluent_kafka import Producer

        return Producer({**self.client_settings(), **settings})

    def consumer(self, group: str, **settings: Any) -> Any:
        """``confluent_kafka.Consumer`` that reads committed records only, from the earliest."""
        from confluent_kafka import Consumer

        defaults = {"group.id": group, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        return Consumer({**self.client_settings(), **defaults, **settings})

    def admin_client(self) -> Any:
        """``confluent_kafka.admin.AdminClient``."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.client_settings())


class KinesisStoreResource(StoreResource):
    """A Kinesis store. ``client()`` is boto3's own."""

    access_key_id: str | None = Field(default=None, description="AWS access key id")
    secret_access_key: str | None = Field(default=None, json_schema_extra=SECRET, description="AWS secret: dg.EnvVar only")

    @classmethod
    def property_names(cls) -> Mapping[str, str]:
        keys = {"access_key_id": "kinesis.access_key_id", "secret_access_key": "kinesis.secret_access_key"}
        return {"uris": "uris", **keys}

    def client(self) -> Any:
        """A boto3 Kinesis client."""
        import boto3

        return boto3.client("kinesis", **self.client_settings())


class PostgresStoreResource(StoreResource):
    """A Postgres store. ``connection()`` is psycopg2's own; commit and close are yours."""

    username: str | None = Field(default=None, description="user")
    password: str | None = Field(default=None, json_schema_extra=SECRET, description="password: dg.EnvVar only")

    @classmethod
    def property_names(cls) -> Mapping[str, str]:
        return {"uris": "uris", "username": "postgres.username", "password": "postgres.password"}

    def connection(self, **settings: Any) -> Any:
        """A new psycopg2 connection."""
        import psycopg2

        return psycopg2.connect(**{**self.client_settings(), **settings})


RESOURCE_CLASSES: Mapping[str, type[StoreResource]] = {
    "KAFKA": KafkaStoreResource,
    "KINESIS": KinesisStoreResource,
    "POSTGRESQL": PostgresStoreResource,
}


def build_store_resources(project: DsProject, given: Mapping[str, Any]) -> dict[str, Any]:
    """One resource per declared store, by folded name; a user's resource of that name is bound instead.

    Raises:
        UserError: RESOURCE_UNKNOWN_STORE, RESOURCE_LITERAL_SECRET.
    """
    stores = project.project.catalog.stores
    resources: dict[str, Any] = {}
    for name, store in stores.items():
        found = given.get(name)
        resource = found if isinstance(found, StoreResource) else RESOURCE_CLASSES.get(store.kind, StoreResource)()
        resources[name] = resource.bind(project, name)
    for name, resource in given.items():
        if isinstance(resource, StoreResource):
            if name not in stores:
                raise error("RESOURCE_UNKNOWN_STORE", store=name, nearest=did_you_mean(name, stores))
            _refuse_literal_secrets(name, resource)
    return resources


def store_overrides(resources: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Store → property → ``${NAME}`` reference or literal non-secret of the users' resources: travels in job specs."""
    found: dict[str, dict[str, str]] = {}
    for store, resource in resources.items():
        if not isinstance(resource, StoreResource):
            continue
        values = {}
        for field, name in resource.property_names().items():
            value = getattr(resource, field)
            if isinstance(value, dg.EnvVar):
                values[name] = "${" + value.env_var_name + "}"
            elif value is not None:
                values[name] = str(value)
        if values:
            found[store] = values
    return found


def _refuse_literal_secrets(store: str, resource: StoreResource) -> None:
    for field, info in type(resource).model_fields.items():
        extra = info.json_schema_extra
        value = getattr(resource, field)
        if isinstance(extra, dict) and extra.get("dagster__is_secret") and value is not None and not isinstance(value, dg.EnvVar):
            raise error("RESOURCE_LITERAL_SECRET", store=store, field=field)


def build_pyspark_resource(project: DsProject) -> "LazyPySparkResource":
    """dagster-pyspark's lazy session with the project's Spark settings and jars: finite loads that run in the step
    (``'execution'='step'``), and users' own batch assets. Imports pyspark; the session starts when first used."""
    from dagster_pyspark import LazyPySparkResource

    return LazyPySparkResource(spark_config=dict(spark_properties(project.settings)))
