"""One Dagster resource per declared store: the vendor's own client, administration, and raw records."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from ds_dagster.aws_session import aws_client
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.store_resource import SECRET, StoreResource, of_kind, plugin_class
from ds_dagster.project.load import storage_kind


@of_kind("kafka")
class KafkaStoreResource(StoreResource):
    """A Kafka store. ``producer()``, ``consumer(group)`` and ``admin_client()`` are confluent-kafka's own."""

    property_names: ClassVar[Mapping[str, str]] = {
        "uris": "uris",
        "username": "kafka.sasl.username",
        "password": "kafka.sasl.password",
        "hash_function": "kafka.sasl.hash_function",
        "token_endpoint_url": "kafka.sasl.oauth.token_endpoint_url",
        "client_id": "kafka.sasl.oauth.client_id",
        "client_secret": "kafka.sasl.oauth.client_secret",
        "ca_cert_file": "tls.ca_cert_file",
        "client_cert_file": "tls.client.cert_file",
        "client_key_file": "tls.client.key_file",
        "client_key_password": "tls.client.key_password",
    }

    username: str | None = Field(default=None, description="SASL user")
    password: str | None = Field(default=None, json_schema_extra=SECRET, description="SASL password: dg.EnvVar only")

    hash_function: str | None = Field(
        default=None, description="how to log in: PLAIN, SHA256, SHA512, OAUTHBEARER, AWS_MSK_IAM or NONE"
    )
    token_endpoint_url: str | None = Field(default=None, description="where OAUTHBEARER gets its tokens")
    client_id: str | None = Field(default=None, description="OAuth client that requests tokens")
    client_secret: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")
    ca_cert_file: str | None = Field(default=None, description="PEM file of the brokers' authority")
    client_cert_file: str | None = Field(default=None, description="PEM file of the client's certificate")
    client_key_file: str | None = Field(default=None, description="PEM file of the client's key")
    client_key_password: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")

    def producer(self, **settings: Any) -> Any:
        """``confluent_kafka.Producer``; settings win over the store's."""
        from confluent_kafka import Producer

        return Producer({**self.client_settings(), **settings})

    def consumer(self, group: str, **settings: Any) -> Any:
        """``confluent_kafka.Consumer`` that reads committed records only, a new group from the earliest offset;
        settings win over these and the store's."""
        from confluent_kafka import Consumer

        defaults = {"group.id": group, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        return Consumer({**self.client_settings(), **defaults, **settings})

    def admin_client(self) -> Any:
        """``confluent_kafka.admin.AdminClient``."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.client_settings())


@of_kind("kinesis")
class KinesisStoreResource(StoreResource):
    """A Kinesis store. ``client()`` is boto3's own."""

    property_names: ClassVar[Mapping[str, str]] = {
        "uris": "uris",
        "access_key_id": "kinesis.access_key_id",
        "secret_access_key": "kinesis.secret_access_key",
        "profile": "aws.profile",
        "role_arn": "kinesis.iam_role_arn",
        "external_id": "kinesis.external_id",
    }

    access_key_id: str | None = Field(default=None, description="AWS access key id")
    secret_access_key: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")
    profile: str | None = Field(default=None, description="profile of the machine's AWS configuration")
    role_arn: str | None = Field(default=None, description="role to assume; its credentials renew themselves")
    external_id: str | None = Field(default=None, description="external id that the role's trust policy asks for")

    def client(self, **settings: Any) -> Any:
        """A boto3 Kinesis client, as the store's role if it has one; settings win over the store's."""
        return aws_client("kinesis", {**self.client_settings(), **settings})


@of_kind("postgresql")
class PostgresStoreResource(StoreResource):
    """A Postgres store. ``connection()`` is psycopg2's own; you commit and close it."""

    property_names: ClassVar[Mapping[str, str]] = {
        "uris": "uris",
        "username": "postgres.username",
        "password": "postgres.password",
    }

    username: str | None = Field(default=None, description="user")
    password: str | None = Field(default=None, json_schema_extra=SECRET, description="password: dg.EnvVar only")

    def connection(self, **settings: Any) -> Any:
        """A new psycopg2 connection; settings win over the store's."""
        import psycopg2

        return psycopg2.connect(**{**self.client_settings(), **settings})

    def arrow(self, query: str, **settings: Any) -> Any:
        """The rows of a query as a ``pyarrow.Table``, through ADBC on a connection of its own."""
        import adbc_driver_postgresql.dbapi as adbc
        from psycopg2.extensions import make_dsn

        address = make_dsn(**{**self.client_settings(), **settings})
        with adbc.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_arrow_table()


@of_kind("snowflake")
class SnowflakeStoreResource(StoreResource):
    """A Snowflake store. ``connection()`` is snowflake-connector-python's own; you close it."""

    property_names: ClassVar[Mapping[str, str]] = {
        "uris": "uris",
        "account_id": "snowflake.account_id",
        "region": "snowflake.cloud.region",
        "warehouse": "snowflake.warehouse_name",
        "role": "snowflake.role_name",
        "username": "snowflake.username",
        "key_file": "snowflake.client.key_file",
        "key_passphrase": "snowflake.client.key_passphrase",
        "password": "snowflake.password",
        "oauth_token": "snowflake.oauth_token",
        "access_token": "snowflake.access_token",
    }

    account_id: str | None = Field(default=None, description="organization-account, or a locator")
    region: str | None = Field(default=None, description="cloud region of a locator")
    warehouse: str | None = Field(default=None, description="warehouse of the session")
    role: str | None = Field(default=None, description="role of the session")
    username: str | None = Field(default=None, description="user")
    key_file: str | None = Field(default=None, description="PEM file of the user's private key")
    key_passphrase: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")
    password: str | None = Field(default=None, json_schema_extra=SECRET, description="password: dg.EnvVar only")
    oauth_token: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")
    access_token: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")

    def connection(self, **settings: Any) -> Any:
        """A new snowflake-connector-python connection; settings win over the store's (``database``, ``schema``)."""
        import snowflake.connector

        return snowflake.connector.connect(**{**self.client_settings(), **settings})

    def arrow(self, query: str, **settings: Any) -> Any:
        """The rows of a query as a ``pyarrow.Table``, on a connection of its own; None without rows."""
        with self.connection(**settings) as connection, connection.cursor() as cursor:
            return cursor.execute(query).fetch_arrow_all()


class BucketStoreResource(StoreResource):
    """Base of stores in a folder or a bucket."""

    property_names: ClassVar[Mapping[str, str]] = {
        "uris": "uris",
        "access_key_id": "aws.access_key_id",
        "secret_access_key": "aws.secret_access_key",
        "session_token": "aws.session_token",
        "endpoint_url": "aws.endpoint_url",
    }

    access_key_id: str | None = Field(default=None, description="AWS access key id")
    secret_access_key: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")
    session_token: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")
    endpoint_url: str | None = Field(default=None, description="address of an S3 service other than Amazon's")


@of_kind("delta")
class DeltaStoreResource(BucketStoreResource):
    """A folder or bucket of Delta tables. ``table(name)`` is deltalake's own: read with Arrow, compact, vacuum."""

    def storage_options(self) -> dict[str, str]:
        """Settings of deltalake's object store, keys in them; empty for a folder."""
        return dict(self.client_settings()["storage_options"])

    def table(self, name: str) -> Any:
        """``deltalake.DeltaTable`` of a table by its folder below the store's."""
        from deltalake import DeltaTable

        settings = self.client_settings()
        return DeltaTable(f"{settings['root']}/{name}", storage_options=settings["storage_options"])


@of_kind("databricks")
class DatabricksStoreResource(StoreResource):
    """A Databricks workspace. ``connection()`` is databricks-sql-connector's, to the SQL warehouse; you close it."""

    property_names: ClassVar[Mapping[str, str]] = {
        "uris": "uris",
        "warehouse_id": "databricks.warehouse_id",
        "app_token": "databricks.app_token",
        "client_id": "databricks.client_id",
        "client_secret": "databricks.client_secret",
        "access_key_id": "aws.access_key_id",
        "secret_access_key": "aws.secret_access_key",
    }

    warehouse_id: str | None = Field(default=None, description="SQL warehouse")
    app_token: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")
    client_id: str | None = Field(default=None, description="service principal that logs in by OAuth")
    client_secret: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")
    access_key_id: str | None = Field(default=None, description="AWS access key id of the bucket")
    secret_access_key: str | None = Field(default=None, json_schema_extra=SECRET, description="dg.EnvVar only")

    def connection(self, **settings: Any) -> Any:
        """A new ``databricks.sql`` connection; settings win over the store's."""
        from databricks import sql

        return sql.connect(**{**self.client_settings(), **settings})

    def arrow(self, query: str, **settings: Any) -> Any:
        """The rows of a query as a ``pyarrow.Table``, on a connection of its own."""
        with self.connection(**settings) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall_arrow()


@of_kind("s3")
class FilesStoreResource(BucketStoreResource):
    """Files in a folder or a bucket. ``filesystem()`` is pyarrow's, logged in: read with Arrow, copy, delete."""

    def filesystem(self) -> Any:
        """``pyarrow.fs.FileSystem`` of the store."""
        return self.client_settings()["filesystem"]

    def folder(self, name: str) -> str:
        """Path of an entity in that file system."""
        return f"{self.client_settings()['root']}/{name}"


RESOURCE_CLASSES: Mapping[str, type[StoreResource]] = {
    "kafka": KafkaStoreResource,
    "kinesis": KinesisStoreResource,
    "postgres": PostgresStoreResource,
    "snowflake": SnowflakeStoreResource,
    "deltalake": DeltaStoreResource,
    "databricks": DatabricksStoreResource,
    "s3": FilesStoreResource,
}
"""``storage_kind`` of a store's capabilities → resource."""


def store_values(resources: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Store → property → replacing text, of the resources a user gave; travels in job specs.

    Raises:
        UserError: RESOURCE_LITERAL_SECRET.
    """
    stores = {name: resource for name, resource in resources.items() if isinstance(resource, StoreResource)}
    return {name: values for name, resource in stores.items() if (values := resource.store_values())}


def resources_of(project: DsProject, values: Mapping[str, Mapping[str, str]]) -> dict[str, StoreResource]:
    """Resources of stores from texts in YAML.

    Args:
        project: declares the stores.
        values: store → field of its resource → text; ``${NAME}`` is an environment variable, looked up where the store
            is used.

    Raises:
        UserError: RESOURCE_UNKNOWN_STORE, RESOURCE_UNKNOWN_FIELD.
    """
    resources: dict[str, StoreResource] = {}
    for name, fields in values.items():
        chosen = _class_of(project, name)
        for field in fields:
            if field not in chosen.property_names:
                nearest = did_you_mean(field, chosen.property_names)
                raise error("RESOURCE_UNKNOWN_FIELD", store=name, field=field, nearest=nearest)
        resources[name] = chosen(**fields)
    return resources


def _class_of(project: DsProject, name: str) -> type[StoreResource]:
    stores = project.project.catalog.stores
    if name not in stores:
        raise error("RESOURCE_UNKNOWN_STORE", store=name, nearest=did_you_mean(name, stores))
    return RESOURCE_CLASSES.get(storage_kind(project.project, name)) or plugin_class(stores[name].kind)


def build_store_resources(project: DsProject, resources_given: Mapping[str, Any]) -> dict[str, Any]:
    """One resource per declared store, by folded name; a given resource of that name is bound to the store.

    Raises:
        UserError: RESOURCE_UNKNOWN_STORE.
    """
    stores = {name: store for name, store in project.project.catalog.stores.items() if store.origin.text}
    for name, resource in resources_given.items():
        if isinstance(resource, StoreResource) and name not in stores:
            raise error("RESOURCE_UNKNOWN_STORE", store=name, nearest=did_you_mean(name, stores))
    resources: dict[str, Any] = {}
    for name in stores:
        entry = resources_given.get(name) or _class_of(project, name)()
        resources[name] = entry.bind(project, name) if isinstance(entry, StoreResource) else entry
    return resources
