"""The one table of all WITH properties, the dialect's and our own: where each may be, type, choices, older spellings.

Older names of the dialect are accepted as well (``aliases``). A store kind lists in its own folder which of the
properties below belong to it (:func:`specs`); a property that some kinds list is refused on the others.
"""

from __future__ import annotations

from ds_dagster.catalog.properties.compute_pools import COMPUTE_POOL
from ds_dagster.catalog.properties.kafka import KAFKA
from ds_dagster.catalog.properties.latency import LATENCY
from ds_dagster.catalog.properties.secret_types import SECRET
from ds_dagster.catalog.properties.spec import Place, PropertySpec
from ds_dagster.catalog.properties.state_store import STATE_STORE
from ds_dagster.catalog.properties.topic_settings import OTHERS, TOPIC_SETTINGS

_ENTITY: tuple[Place, ...] = ("relation", "sink", "entity")
_WRITTEN: tuple[Place, ...] = ("relation", "sink")
_ANY_RELATION: tuple[Place, ...] = ("relation", "sink", "source")
_CONNECTION: tuple[Place, ...] = ("store", "registry")
_CLOUD: tuple[Place, ...] = ("store", "secret")
RECORD_FORMATS = ("json", "primitive", "avro", "protobuf", "json_schema")
"""Formats of single records, not of whole files."""

STORE: tuple[PropertySpec, ...] = (
    PropertySpec("type", "word", (*_CONNECTION, "secret"), "kind of the store, schema registry or secret"),
    PropertySpec(
        "uris",
        "text",
        _CONNECTION,
        "addresses: bootstrap servers, endpoint URL, postgresql://host:port/db, folder or s3://bucket/prefix, URLs of "
        "a schema registry",
        aliases=("url", "bootstrap.servers"),
    ),
    PropertySpec(
        "access_region",
        "text",
        _CLOUD,
        "cloud region of the store, or of the service that keeps a secret",
        aliases=("availability_zone", "kinesis.region", "access.region"),
    ),
    PropertySpec(
        "config_file", "file", ("store",), "file with further properties of the store, relative to the project"
    ),
    PropertySpec(
        "description",
        "text",
        (*_CONNECTION, "secret", "descriptor_source", "function_source", "function", "compute_pool"),
        "free text",
    ),
    PropertySpec(
        "file",
        "file",
        ("descriptor_source", "function_source"),
        "compiled Protobuf descriptors (protoc --include_imports --descriptor_set_out), or the jar of functions, "
        "relative to the project",
    ),
    PropertySpec("tls.disabled", "boolean", ("store",), "connect without TLS"),
    PropertySpec("tls.verify_server_hostname", "boolean", ("store",), "compare the server's name with its certificate"),
    PropertySpec(
        "tls.ca_cert_file",
        "file",
        _CONNECTION,
        "PEM file of the authority that signed the server's certificate",
        aliases=("ssl.ca.location",),
    ),
    PropertySpec("tls.ca_cert", "text", ("store",), "the same certificate as PEM text", aliases=("ssl.ca.pem",)),
    PropertySpec(
        "tls.client.cert_file",
        "file",
        _CONNECTION,
        "PEM file of the client's own certificate and its chain",
        aliases=("ssl.certificate.location",),
    ),
    PropertySpec(
        "tls.client.cert", "text", ("store",), "the same certificate as PEM text", aliases=("ssl.certificate.pem",)
    ),
    PropertySpec(
        "tls.client.key_file",
        "file",
        _CONNECTION,
        "PEM file (PKCS #8) of the key of that certificate",
        aliases=("ssl.key.location",),
    ),
    PropertySpec(
        "tls.client.key", "text", ("store",), "the same key as PEM text", secret=True, aliases=("ssl.key.pem",)
    ),
    PropertySpec(
        "tls.client.key_password",
        "text",
        _CONNECTION,
        "password of that key",
        secret=True,
        aliases=("ssl.key.password",),
    ),
    PropertySpec(
        "tls.cipher_suites", "names", ("store",), "cipher suites that may be used, by their registered (IANA) names"
    ),
    PropertySpec(
        "tls.protocols",
        "names",
        ("store",),
        "TLS versions the queries' connections may use: TLSv1.2, TLSv1.3; control connections take the best both know",
        aliases=("ssl.enabled.protocols",),
    ),
    PropertySpec(
        "schema_registry.name",
        "name",
        ("store",),
        "schema registry of the store",
        aliases=("kafka.schema_registry_name", "schema_registry_name"),
    ),
    PropertySpec(
        "aws.access_key_id", "text", ("store",), "access key of the cloud account", aliases=("kinesis.access_key_id",)
    ),
    PropertySpec(
        "aws.secret_access_key",
        "text",
        ("store",),
        "secret of that key",
        secret=True,
        aliases=("kinesis.secret_access_key",),
    ),
    PropertySpec(
        "aws.session_token",
        "text",
        ("store",),
        "token of temporary credentials",
        secret=True,
        aliases=("kinesis.session_token",),
    ),
    PropertySpec(
        "aws.endpoint_url",
        "text",
        _CLOUD,
        "address of an S3 (or secrets) service other than Amazon's: http(s)://host:port",
    ),
    PropertySpec("aws.iam_role_arn", "text", ("store",), "role to assume, with the key or the machine's own login"),
    PropertySpec("aws.iam_external_id", "text", ("store",), "external id that role requires", secret=True),
    PropertySpec(
        "kinesis.iam_role_arn",
        "text",
        ("store",),
        "role to assume, with the key or profile written or else with the machine's own credentials",
    ),
    PropertySpec("kinesis.external_id", "text", ("store",), "external id that the role's trust policy requires"),
    PropertySpec("aws.profile", "text", ("store",), "profile of the engine machine's AWS configuration"),
    PropertySpec(
        "aws.sts_endpoint_url",
        "text",
        ("store",),
        "address of a security token service other than AWS's own: http(s)://host:port",
    ),
    PropertySpec(
        "kinesis.account.id",
        "text",
        ("store",),
        "account of the streams",
        not_yet="streams of the key's own account are used",
    ),
    PropertySpec("postgres.username", "text", ("store",), "user of the database", aliases=("postgresql.username",)),
    PropertySpec(
        "postgres.password", "text", ("store",), "password of that user", secret=True, aliases=("postgresql.password",)
    ),
    PropertySpec(
        "postgres.sslmode",
        "word",
        ("store",),
        "TLS of the connection",
        choices=("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    ),
    PropertySpec(
        "snowflake.account_id", "text", ("store",), "account: organization-account, or a locator with its cloud region"
    ),
    PropertySpec(
        "snowflake.cloud.region",
        "text",
        ("store",),
        "region of a locator: 'AWS us-east-1', or 'us-east-2.aws'; not used for organization-account",
    ),
    PropertySpec("snowflake.warehouse_name", "text", ("store",), "warehouse that loads"),
    PropertySpec("snowflake.role_name", "text", ("store",), "role of the session; default: that of the user"),
    PropertySpec("snowflake.username", "text", ("store",), "user of the account"),
    PropertySpec(
        "snowflake.client.key_file", "file", ("store",), "PEM file of the user's private key (key-pair login)"
    ),
    PropertySpec(
        "snowflake.client.key_passphrase", "text", ("store",), "passphrase of an encrypted key file", secret=True
    ),
    PropertySpec("snowflake.password", "text", ("store",), "password of the user", secret=True),
    PropertySpec("snowflake.oauth_token", "text", ("store",), "OAuth access token, instead of a password", secret=True),
    PropertySpec(
        "snowflake.access_token",
        "text",
        ("store",),
        "programmatic access token of the user, instead of a password",
        secret=True,
    ),
)

DATABRICKS: tuple[PropertySpec, ...] = (
    PropertySpec(
        "databricks.mode",
        "word",
        ("store",),
        "how tables are loaded; default delta: their files are written straight into the bucket; warehouse: through a "
        "volume, by statements of the warehouse",
        choices=("delta", "warehouse"),
    ),
    PropertySpec("databricks.app_token", "text", ("store",), "personal access token", secret=True),
    PropertySpec("databricks.client_id", "text", ("store",), "service principal that logs in by OAuth"),
    PropertySpec("databricks.client_secret", "text", ("store",), "OAuth secret of that principal", secret=True),
    PropertySpec("databricks.warehouse_id", "text", ("store",), "SQL warehouse that registers tables"),
    PropertySpec("databricks.warehouse_port", "integer", ("store",), "port of the workspace; default 443", minimum=1),
    PropertySpec(
        "databricks.cloud.s3.bucket", "text", ("store",), "bucket of the tables' files: a name or s3://bucket/prefix"
    ),
    PropertySpec("databricks.cloud.region", "text", ("store",), "region of that bucket"),
)

REGISTRY: tuple[PropertySpec, ...] = (
    PropertySpec("confluent.username", "text", ("registry",), "user of the schema registry"),
    PropertySpec("confluent.password", "text", ("registry",), "password of that user", secret=True),
    PropertySpec("confluent_cloud.key", "text", ("registry",), "API key of the schema registry"),
    PropertySpec("confluent_cloud.secret", "text", ("registry",), "secret of that key", secret=True),
)

ENTITY: tuple[PropertySpec, ...] = (
    PropertySpec("topic", "text", _WRITTEN, "name of the topic, Kinesis stream or table", aliases=("entity",)),
    PropertySpec(
        "topic.partitions", "integer", _ENTITY, "partitions of the topic", minimum=1, aliases=("kafka.partitions",)
    ),
    PropertySpec("topic.replicas", "integer", _ENTITY, "replicas of the topic", minimum=1, aliases=("kafka.replicas",)),
    PropertySpec(
        "topic.shards", "integer", _ENTITY, "shards of the Kinesis stream", minimum=1, aliases=("kinesis.shards",)
    ),
    PropertySpec(
        "kafka.topic.*",
        "text",
        _ENTITY,
        "setting of a new topic by Kafka's own name, `kafka.topic.retention.ms`; settings that begin with `confluent.` "
        "or `redpanda.` are passed through",
        entries=TOPIC_SETTINGS,
        other_entries=OTHERS,
    ),
    PropertySpec(
        "kinesis.stream.mode",
        "word",
        _ENTITY,
        "capacity of a new Kinesis stream: a number of shards, or what it needs; default that of the left-most source, "
        "else provisioned",
        choices=("provisioned", "on_demand"),
    ),
    PropertySpec(
        "kinesis.stream.retention.hours",
        "integer",
        _ENTITY,
        "how long a new Kinesis stream keeps records, 24 to 8760 hours; default 24",
        minimum=24,
    ),
    PropertySpec(
        "key.descriptor.name", "text", _ENTITY, "Protobuf message of keys: its full name in a descriptor source"
    ),
    PropertySpec(
        "value.descriptor.name", "text", _ENTITY, "Protobuf message of values: its full name in a descriptor source"
    ),
    PropertySpec(
        "delta.table.name",
        "text",
        _WRITTEN,
        "folder of the table below the store's uris, parts with / between them; default: the relation's name",
    ),
    PropertySpec("postgresql.db.name", "text", _WRITTEN, "database of the table; default: the one in the store's uris"),
    PropertySpec("postgresql.schema.name", "text", _WRITTEN, "schema of the table; default public"),
    PropertySpec("postgresql.table.name", "text", _WRITTEN, "name of the table; default: the relation's name"),
    PropertySpec(
        "postgresql.cdc.table.list",
        "names",
        ("relation",),
        "tables whose changes are read, schema.table with commas between them",
    ),
    PropertySpec("snowflake.db.name", "text", _WRITTEN, "database of the table"),
    PropertySpec("snowflake.schema.name", "text", _WRITTEN, "schema of the table; default PUBLIC"),
    PropertySpec("snowflake.table.name", "text", _WRITTEN, "name of the table; default: the relation's name"),
    PropertySpec(
        "snowflake.buffer.millis",
        "millis",
        _WRITTEN,
        "how long rows of a continuous load wait for the next batch; default 10000. A scheduled load writes at once",
        minimum=0,
    ),
    PropertySpec("databricks.catalog.name", "text", _WRITTEN, "catalog of the table; default main"),
    PropertySpec("databricks.schema.name", "text", _WRITTEN, "schema of the table; default default"),
    PropertySpec("databricks.table.name", "text", _WRITTEN, "name of the table; default: the relation's name"),
    PropertySpec(
        "table.data.file.location",
        "text",
        _WRITTEN,
        "where the table's files are: s3://bucket/folder, inside an external location of the workspace; default: "
        "catalog/schema/table in the store's bucket",
    ),
)

FILES: tuple[PropertySpec, ...] = (
    PropertySpec("csv.header", "boolean", _WRITTEN, "the first line of a CSV file names its columns; default TRUE"),
    PropertySpec(
        "csv.delimiter",
        "word",
        _WRITTEN,
        "character between the cells of a CSV file; default a comma",
        choices=(",", ";", "|", "tab"),
    ),
    PropertySpec(
        "files.compression",
        "word",
        _WRITTEN,
        "compression of written files; default none, snappy for Parquet. For files that are read the name decides",
        choices=("none", "gzip", "zstd", "snappy"),
    ),
    PropertySpec("files.per.batch", "integer", ("relation",), "most files one batch reads; default 1000", minimum=1),
    PropertySpec(
        "files.discovery.millis",
        "millis",
        ("relation",),
        "pause between looks for new files; default 1000 in a folder, 10000 in a bucket",
        minimum=100,
    ),
)

RELATION: tuple[PropertySpec, ...] = (
    PropertySpec("store", "name", ("relation", "sink"), "store of the relation; default: the current store"),
    PropertySpec(
        "value.format",
        "word",
        _WRITTEN,
        "format of record values; default json, for CREATE … AS that of the left-most source",
        choices=(*RECORD_FORMATS, "csv", "parquet"),
    ),
    PropertySpec(
        "key.format",
        "word",
        _WRITTEN,
        "format of record keys; default that of the value",
        choices=RECORD_FORMATS,
    ),
    PropertySpec("key.type", "type", ("relation",), "type of keys that are read: a primitive type or STRUCT<…>"),
    PropertySpec("key.columns", "names", _WRITTEN, "value columns the key is built from"),
    PropertySpec("value.columns.exclude", "names", _WRITTEN, "key columns that are left out of the value"),
    PropertySpec(
        "timestamp", "text", _ANY_RELATION, "column of the event time: BIGINT (epoch ms), TIMESTAMP or TIMESTAMP_LTZ"
    ),
    PropertySpec(
        "timestamp.format", "word", _ANY_RELATION, "how timestamps are written in values", choices=("sql", "iso8601")
    ),
    PropertySpec(
        "starting.position",
        "word",
        ("relation", "source"),
        "where a new query begins to read; default earliest",
        choices=("earliest", "latest", "timestamp", "offsets"),
    ),
    PropertySpec(
        "starting.timestamp",
        "moment",
        ("relation", "source"),
        "first record with 'starting.position' = timestamp: ISO 8601 (UTC where no zone is written) or epoch ms",
    ),
    PropertySpec(
        "starting.offsets",
        "offsets",
        ("relation", "source"),
        "`'0:1200,1:1180'`: first record of each partition with 'starting.position' = offsets; default the oldest one. "
        "In Kinesis: number of a shard and sequence number",
    ),
    PropertySpec(
        "enable.upsert.mode", "boolean", _WRITTEN, "records of a changelog replace one another by key; default TRUE"
    ),
    PropertySpec(
        "primary.key.nullable",
        "boolean",
        _WRITTEN,
        "NULL in a changelog's primary key is a key like any other; inferred where a grouped column may be NULL",
    ),
    PropertySpec(
        "delivery",
        "word",
        ("relation", "sink"),
        "guarantee of the sink; default: the best the store has",
        choices=("exactly_once", "at_least_once"),
    ),
    PropertySpec(
        "refresh.mode",
        "word",
        ("sink", "relation"),
        "how a table is loaded: what is new since the last run, all of it, or by a query that never ends; a table "
        "that INSERT INTO fills cannot be loaded in full",
        choices=("incremental", "full", "continuous"),
    ),
    PropertySpec(
        "execution",
        "word",
        ("sink",),
        "where a load runs: in the engine or in the Dagster step",
        choices=("engine", "step"),
    ),
    PropertySpec(
        "retention.millis",
        "millis",
        ("sink", "relation"),
        "age at which rows of a view are deleted, counted from when the view wrote the row last; default: never",
        minimum=1,
    ),
)

SOURCE: tuple[PropertySpec, ...] = (
    PropertySpec(
        "source.allow.latency.millis",
        "millis",
        ("source",),
        "how much older a record may be than the newest one; default 10000, where the broker stamps records 500 "
        "(measured with Kafka: 130 to 500)",
        minimum=1,
    ),
    PropertySpec(
        "source.idle.timeout.millis",
        "millis",
        ("source",),
        "silence after which the source no longer holds event time back; default 10000",
        minimum=1,
    ),
    PropertySpec(
        "source.deserialization.error.handling",
        "word",
        ("source",),
        "effect of a record that cannot be read; default TERMINATE",
        choices=("terminate", "ignore", "ignore_and_log"),
    ),
    PropertySpec(
        "source.deserialization.error.log.topic",
        "text",
        ("source",),
        "topic that IGNORE_AND_LOG writes bad records to; default `<topic>_bad_records`, created if it does not exist",
    ),
    PropertySpec(
        "source.deserialization.error.log.store",
        "name",
        ("source",),
        "store of that topic (KAFKA); default the source's",
    ),
    PropertySpec(
        "quarantine.topic",
        "text",
        ("relation", "sink"),
        "topic of rows that ON VIOLATION QUARANTINE puts aside; default `<topic>_quarantine`",
    ),
    PropertySpec(
        "quarantine.store", "name", ("relation", "sink"), "store of that topic (KAFKA); default the relation's"
    ),
    PropertySpec(
        "source.data.loss",
        "word",
        ("source",),
        "records that are gone before they were read: fail (default) ends the query, skip counts them and continues",
        choices=("fail", "skip"),
    ),
    PropertySpec("max.records.per.batch", "integer", ("source",), "bound of one micro-batch", minimum=1),
    PropertySpec(
        "kinesis.read.mode",
        "word",
        ("source",),
        "how a Kinesis stream is read; default polling",
        choices=("polling",),
        choices_not_yet=(
            (
                "enhanced_fan_out",
                "a job asks its shards itself, and jobs that read the same stream share what a shard gives; "
                "enhanced fan-out is a protocol of its own (HTTP/2) that no local server speaks",
            ),
        ),
    ),
    PropertySpec(
        "temporal.join.mode",
        "word",
        ("source", "query"),
        "version that a stream row is joined with: the version valid at its event time, or at once the latest known",
        choices=("event_time", "immediate"),
    ),
    PropertySpec(
        "temporal.join.retention.millis",
        "millis",
        ("source", "query"),
        "how long old versions are kept for late rows; default one hour",
        minimum=0,
    ),
    PropertySpec(
        "lookup.cache.millis",
        "millis",
        ("source",),
        "greatest age of the rows of a table or view that a stream is joined to; default one second, one minute in "
        "SNOWFLAKE and DATABRICKS, whose warehouses each look-up wakes; 0: every batch reads again",
        minimum=0,
    ),
    PropertySpec(
        "postgresql.slot.name",
        "text",
        ("relation", "source"),
        "replication slot through which changes are read, created if it does not exist; default: the query's own slot",
    ),
)

FUNCTION: tuple[PropertySpec, ...] = (
    PropertySpec("source.name", "name", ("function",), "function source whose jar holds the class (JAVA)"),
    PropertySpec("class.name", "text", ("function",), "full name of the class (JAVA)"),
    PropertySpec("module", "text", ("function",), "module of the project, `functions.text` (PYTHON)"),
    PropertySpec("function", "text", ("function",), "function in the module; default the function's name (PYTHON)"),
    PropertySpec(
        "vectorized",
        "boolean",
        ("function",),
        "the function takes and returns Arrow arrays instead of values; default false (PYTHON)",
    ),
)

QUERY: tuple[PropertySpec, ...] = (
    PropertySpec(
        "query.name", "name", ("query",), "name of the query; required where two INSERT INTO fill one relation"
    ),
    PropertySpec(
        "state.ttl.millis", "millis", ("query",), "how long unchanged state is kept; default 0: for ever", minimum=0
    ),
    *STATE_STORE,
    PropertySpec(
        "emit.mode",
        "word",
        ("query",),
        "when a window emits its result: once, or with every change",
        choices=("final", "updates"),
    ),
    PropertySpec(
        "late.rows.relation",
        "text",
        ("query",),
        "stream for rows that came after their window was closed: columns of the source, event_time, window_start, "
        "window_end, late_millis",
    ),
    PropertySpec(
        "row.error.handling",
        "word",
        ("query",),
        "effect of a row of a stream whose cast, arithmetic or function fails; default TERMINATE",
        choices=("terminate", "ignore", "ignore_and_log"),
    ),
    PropertySpec(
        "row.error.log.topic",
        "text",
        ("query",),
        "topic that IGNORE_AND_LOG writes such rows to; default `<topic of the result>_row_errors`",
    ),
    PropertySpec("row.error.log.store", "name", ("query",), "store of that topic (KAFKA); default the source's"),
    PropertySpec(
        "resume.from.query.id",
        "text",
        ("query",),
        "query whose state is taken over",
        not_yet="`ds restart` keeps the state",
    ),
)

PROPERTIES: tuple[PropertySpec, ...] = (
    *STORE, *KAFKA, *REGISTRY, *SECRET, *DATABRICKS, *ENTITY, *FILES, *RELATION, *LATENCY, *SOURCE, *FUNCTION,
    *COMPUTE_POOL, *QUERY,
)  # fmt: skip
_BY_NAME = {spec.name: spec for spec in PROPERTIES}

RECORDS: tuple[str, ...] = (
    "topic",
    "value.format",
    "key.format",
    "key.type",
    "key.columns",
    "value.columns.exclude",
    "timestamp",
    "timestamp.format",
    "starting.position",
    "starting.timestamp",
    "enable.upsert.mode",
    "primary.key.nullable",
)
"""Properties of relations whose entity holds records (topics, Kinesis streams)."""


def specs(*names: str) -> tuple[PropertySpec, ...]:
    """Specs by name, in order.

    Raises:
        KeyError: no such property (a bug).
    """
    return tuple(_BY_NAME[name] for name in names)
