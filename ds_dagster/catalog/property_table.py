"""The one table of all WITH properties, the dialect's and our own: where each may stand, type, choices, older
spellings.

Names of both ages of the dialect are accepted (``aliases``). A store kind lists in its own file which of the
properties below
belong to it (:func:`specs`); a property that some kinds list is refused on the others.
"""

from __future__ import annotations

from ds_dagster.catalog.properties import Place, PropertySpec

_ENTITY: tuple[Place, ...] = ("relation", "sink", "entity")
_WRITTEN: tuple[Place, ...] = ("relation", "sink")
_ANY_RELATION: tuple[Place, ...] = ("relation", "sink", "source")
_CONNECTION: tuple[Place, ...] = ("store", "registry")
_DESCRIPTOR = "Protobuf is not built; use 'value.format'='json'"
_FORMAT_LATER = (
    ("protobuf", "Protobuf is not built; use avro or json"),
    ("json_schema", "JSON Schema is not built; use avro, or json without a registry"),
)

STORE: tuple[PropertySpec, ...] = (
    PropertySpec("type", "word", _CONNECTION, "kind of the store or schema registry"),
    PropertySpec(
        "uris",
        "text",
        _CONNECTION,
        "addresses: bootstrap servers, endpoint URL, postgresql://host:port/db, URLs of a schema registry",
        aliases=("url",),
    ),
    PropertySpec(
        "access_region",
        "text",
        ("store",),
        "cloud region of the store",
        aliases=("availability_zone", "kinesis.region"),
    ),
    PropertySpec(
        "config_file", "file", ("store",), "file with further properties of the store, relative to the project"
    ),
    PropertySpec("description", "text", _CONNECTION, "free text"),
    PropertySpec("tls.disabled", "boolean", ("store",), "connect without TLS"),
    PropertySpec("tls.verify_server_hostname", "boolean", ("store",), "compare the server's name with its certificate"),
    PropertySpec(
        "tls.ca_cert_file", "file", _CONNECTION, "PEM file of the authority that signed the server's certificate"
    ),
    PropertySpec("tls.cipher_suites", "text", ("store",), "cipher suites", not_yet="the platform's own list is used"),
    PropertySpec("tls.protocols", "text", ("store",), "TLS versions", not_yet="TLS 1.2 and 1.3 are used"),
    PropertySpec(
        "kafka.sasl.hash_function",
        "word",
        ("store",),
        "how to log in to the brokers",
        choices=("none", "plain", "sha256", "sha512"),
        choices_not_yet=(("aws_msk_iam", "log in to MSK with SHA512 and a user instead"),),
    ),
    PropertySpec("kafka.sasl.username", "text", ("store",), "user of the brokers"),
    PropertySpec("kafka.sasl.password", "text", ("store",), "password of that user", secret=True),
    PropertySpec("kafka.msk.iam_role_arn", "text", ("store",), "role for MSK", not_yet="log in with SHA512 and a user"),
    PropertySpec("kafka.msk.aws_region", "text", ("store",), "region of MSK", not_yet="log in with SHA512 and a user"),
    PropertySpec(
        "schema_registry.name",
        "name",
        ("store",),
        "schema registry of the store",
        aliases=("kafka.schema_registry_name", "schema_registry_name"),
    ),
    PropertySpec(
        "kinesis.access_key_id", "text", ("store",), "access key of the cloud account", aliases=("aws.access_key_id",)
    ),
    PropertySpec(
        "kinesis.secret_access_key",
        "text",
        ("store",),
        "secret of that key",
        secret=True,
        aliases=("aws.secret_access_key",),
    ),
    PropertySpec("kinesis.session_token", "text", ("store",), "token of temporary credentials", secret=True),
    PropertySpec(
        "kinesis.iam_role_arn",
        "text",
        ("store",),
        "role to assume",
        not_yet="give a key, or let the machine's own role be found by writing no credentials",
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
)

REGISTRY: tuple[PropertySpec, ...] = (
    PropertySpec("confluent.username", "text", ("registry",), "user of the schema registry"),
    PropertySpec("confluent.password", "text", ("registry",), "password of that user", secret=True),
    PropertySpec("confluent_cloud.key", "text", ("registry",), "API key of the schema registry"),
    PropertySpec("confluent_cloud.secret", "text", ("registry",), "secret of that key", secret=True),
    PropertySpec(
        "tls.client.cert_file",
        "file",
        ("registry",),
        "PEM file of the client's certificate",
        not_yet="log in with 'confluent.username' and 'confluent.password'",
    ),
    PropertySpec(
        "tls.client.key_file",
        "file",
        ("registry",),
        "PEM file of the key of that certificate",
        not_yet="log in with 'confluent.username' and 'confluent.password'",
    ),
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
    PropertySpec("kafka.topic.*", "text", _ENTITY, "setting of a new topic, passed through"),
    PropertySpec("key.descriptor.name", "text", _ENTITY, "Protobuf message of keys", not_yet=_DESCRIPTOR),
    PropertySpec("value.descriptor.name", "text", _ENTITY, "Protobuf message of values", not_yet=_DESCRIPTOR),
    PropertySpec("postgresql.db.name", "text", _WRITTEN, "database of the table; default: the one in the store's uris"),
    PropertySpec("postgresql.schema.name", "text", _WRITTEN, "schema of the table; default public"),
    PropertySpec("postgresql.table.name", "text", _WRITTEN, "name of the table; default: the relation's name"),
    PropertySpec(
        "postgresql.cdc.table.list",
        "text",
        _WRITTEN,
        "tables whose changes are read",
        not_yet="change data capture is not built",
    ),
    PropertySpec(
        "snowflake.*", "text", _WRITTEN, "Snowflake table", not_yet="Snowflake is not built; load into POSTGRESQL"
    ),
    PropertySpec(
        "databricks.*", "text", _WRITTEN, "Databricks table", not_yet="Databricks is not built; load into POSTGRESQL"
    ),
    PropertySpec(
        "table.data.file.location", "text", _WRITTEN, "data of a lake table", not_yet="lake tables are not built"
    ),
)

RELATION: tuple[PropertySpec, ...] = (
    PropertySpec("store", "name", ("relation", "sink"), "store of the relation; default: the current store"),
    PropertySpec(
        "value.format",
        "word",
        _WRITTEN,
        "format of record values; default json, for CREATE … AS that of the left-most source",
        choices=("json", "primitive", "avro"),
        choices_not_yet=_FORMAT_LATER,
    ),
    PropertySpec(
        "key.format",
        "word",
        _WRITTEN,
        "format of record keys; default that of the value",
        choices=("json", "primitive", "avro"),
        choices_not_yet=_FORMAT_LATER,
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
        choices=("earliest", "latest"),
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
        ("sink",),
        "how CREATE TABLE … AS loads: what is new since the last run, or all of it",
        choices=("incremental", "full"),
        choices_not_yet=(("continuous", "schedule the asset with 'incremental' instead"),),
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
        ("sink",),
        "age at which rows of a view go",
        minimum=1,
        not_yet="views keep all rows; aggregate into fewer keys",
    ),
)

SOURCE: tuple[PropertySpec, ...] = (
    PropertySpec(
        "source.allow.latency.millis",
        "millis",
        ("source",),
        "how late a record may be against the newest one; default 10000, 500 where the broker stamps",
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
        "what a record that cannot be read does; default TERMINATE",
        choices=("terminate", "ignore"),
        choices_not_yet=(("ignore_and_log", "use IGNORE; skipped records are counted"),),
    ),
    PropertySpec(
        "source.deserialization.error.log.topic",
        "text",
        ("source",),
        "topic of bad records",
        not_yet="use IGNORE without a log",
    ),
    PropertySpec(
        "source.deserialization.error.log.store",
        "name",
        ("source",),
        "store of bad records",
        not_yet="use IGNORE without a log",
    ),
    PropertySpec("max.records.per.batch", "integer", ("source",), "bound of one micro-batch", minimum=1),
    PropertySpec(
        "temporal.join.mode",
        "word",
        ("source", "query"),
        "version a stream row meets: valid at its event time, or the latest known at once",
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
        "postgresql.slot.name", "text", ("source",), "replication slot", not_yet="change data capture is not built"
    ),
)

QUERY: tuple[PropertySpec, ...] = (
    PropertySpec(
        "query.name", "name", ("query",), "name of the query; required where two INSERT INTO fill one relation"
    ),
    PropertySpec(
        "state.ttl.millis",
        "millis",
        ("query",),
        "age at which state of a key is forgotten",
        minimum=0,
        not_yet="state is kept for ever; group by a window to bound it",
    ),
    PropertySpec(
        "emit.mode",
        "word",
        ("query",),
        "when a window answers: once, or with every change",
        choices=("final", "updates"),
    ),
    PropertySpec(
        "compute_pool",
        "name",
        ("query",),
        "engine that hosts the query",
        not_yet="all queries run in the project's engine",
    ),
    PropertySpec(
        "resume.from.query.id",
        "text",
        ("query",),
        "query whose state is taken over",
        not_yet="`ds restart` keeps the state",
    ),
)

PROPERTIES: tuple[PropertySpec, ...] = (*STORE, *REGISTRY, *ENTITY, *RELATION, *SOURCE, *QUERY)
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
