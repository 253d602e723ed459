"""Every property the dialect documents for Kafka, line by line: written as documented, and what it then means.

Store properties (both spellings), relation properties and source properties, in the order of the reference.
"""

# ruff: noqa: E501 - a row of a table stays on one line

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.properties.values import resolve
from ds_dagster.catalog.relation import RecordKey, Relation
from ds_dagster.catalog.store import ReadOptions, StoreDefinition
from ds_dagster.datatypes import BIGINT, INTEGER, VARCHAR, StructType
from ds_dagster.plan.nodes.scan import Scan, start_text
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Overlay, Settings
from ds_dagster.stores.registry import KINDS

KAFKA: Any = KINDS["KAFKA"]
ENVIRONMENT = {"USER": "ana", "SECRET": "hidden"}
LOGIN = "'kafka.sasl.username'='${USER}','kafka.sasl.password'='${SECRET}'"
REGISTRY = "CREATE SCHEMA_REGISTRY reg WITH ('type'=CONFLUENT,'uris'='https://r');"


def compiled(tmp_path: Path, sql: str, overlay: Overlay | None = None) -> LoadedProject:
    settings = Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="k")
    settings = settings if overlay is None else Settings(tmp_path, tmp_path, tmp_path, store="k", overlay=overlay)
    return compile_texts([("a.sql", sql)], settings)


def options_of(store: StoreDefinition) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Of Java clients and of librdkafka, through the doors queries and control use."""
    facts = {"entity": "t", "properties": {}, "declared": True, "value_format": "json", "key": RecordKey()}
    relation: Any = type("R", (), {**facts, "value_descriptor": None, "key_descriptor": None})
    read = KAFKA.read_spec(store, relation, ReadOptions(), None).options
    java = {name: resolve(value, ENVIRONMENT, "k") for name, value in read.items() if name.startswith("kafka.")}
    return java, KAFKA.client_settings(store, lambda value: resolve(value, ENVIRONMENT, "k"))


# (properties besides type, expected of Java clients, expected of librdkafka)
STORES: tuple[tuple[str, str, Mapping[str, str], Mapping[str, str]], ...] = (
    ("KAFKA", "'uris'='a:1,b:2'", {"kafka.bootstrap.servers": "a:1,b:2"}, {"bootstrap.servers": "a:1,b:2"}),
    ("'KAFKA'", "'url'='a:1'", {"kafka.bootstrap.servers": "a:1"}, {"bootstrap.servers": "a:1"}),
    ("kafka", "'uris'='a:1','access_region'=\"AWS us-east-1\"", {"kafka.security.protocol": "PLAINTEXT"}, {}),
    ("KAFKA", "'uris'='a:1','availability_zone'='us-east-1'", {"kafka.security.protocol": "PLAINTEXT"}, {}),
    ("KAFKA", "'uris'='a:1','description'='of ours'", {"kafka.security.protocol": "PLAINTEXT"}, {}),
    (
        "KAFKA",
        "'uris'='a:1','tls.disabled'=TRUE",
        {"kafka.security.protocol": "PLAINTEXT"},
        {"security.protocol": "plaintext"},
    ),
    ("KAFKA", "'uris'='a:1','tls.disabled'=FALSE", {"kafka.security.protocol": "SSL"}, {"security.protocol": "ssl"}),
    (
        "KAFKA",
        "'uris'='a:1','tls.verify_server_hostname'=FALSE",
        {"kafka.security.protocol": "SSL", "kafka.ssl.endpoint.identification.algorithm": ""},
        {"ssl.endpoint.identification.algorithm": "none"},
    ),
    (
        "KAFKA",
        "'uris'='a:1','tls.ca_cert_file'='@/ca.pem'",
        {"kafka.ssl.truststore.location": "/ca.pem", "kafka.ssl.truststore.type": "PEM"},
        {"ssl.ca.location": "/ca.pem"},
    ),
    (
        "KAFKA",
        "'uris'='a:1','tls.cipher_suites'='TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'",
        {"kafka.ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
        {"ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256"},
    ),
    ("KAFKA", "'uris'='a:1','tls.protocols'='TLSv1.2'", {"kafka.ssl.enabled.protocols": "TLSv1.2"}, {}),
    ("KAFKA", "'uris'='a:1','kafka.sasl.hash_function'=NONE", {"kafka.security.protocol": "PLAINTEXT"}, {}),
    *(
        (
            kind,
            f"'uris'='a:1','kafka.sasl.hash_function'={word},{LOGIN}",
            {"kafka.sasl.mechanism": mechanism, "kafka.security.protocol": "SASL_SSL"},
            {"sasl.mechanisms": mechanism, "sasl.username": "ana", "sasl.password": "hidden"},
        )
        for kind in ("KAFKA", "CONFLUENT_KAFKA")
        for word, mechanism in (("PLAIN", "PLAIN"), ("SHA256", "SCRAM-SHA-256"), ("SHA512", "SCRAM-SHA-512"))
    ),
    (
        "KAFKA",
        "'uris'='a:1','kafka.sasl.hash_function'=AWS_MSK_IAM,'kafka.msk.iam_role_arn'='arn:r',"
        "'kafka.msk.aws_region'='eu-west-1'",
        {
            "kafka.sasl.mechanism": "AWS_MSK_IAM",
            "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required "
            'awsRoleArn="arn:r" awsStsRegion="eu-west-1";',
        },
        {"sasl.mechanisms": "OAUTHBEARER"},
    ),
    # profiles
    (
        "CONFLUENT_KAFKA",
        f"'uris'='pkc-1.aws.confluent.cloud:9092',{LOGIN}",
        {"kafka.sasl.mechanism": "PLAIN", "kafka.security.protocol": "SASL_SSL"},
        {"sasl.mechanisms": "PLAIN", "sasl.username": "ana"},
    ),
    (
        "KAFKA",
        "'bootstrap.servers'='a:1','security.protocol'=SASL_SSL,'sasl.mechanism'='SCRAM-SHA-512',"
        "'sasl.username'='${USER}','sasl.password'='${SECRET}','access.region'='us-east-1'",
        {
            "kafka.bootstrap.servers": "a:1",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.security.protocol": "SASL_SSL",
        },
        {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "ana", "sasl.password": "hidden"},
    ),
    (
        "KAFKA",
        f"'uris'='a:1','security.protocol'='SASL_PLAINTEXT','sasl.mechanisms'=PLAIN,{LOGIN}",
        {"kafka.sasl.mechanism": "PLAIN", "kafka.security.protocol": "SASL_PLAINTEXT"},
        {"security.protocol": "sasl_plaintext"},
    ),
    ("CONFLUENT_KAFKA", "'uris'='a:1'", {"kafka.security.protocol": "SSL"}, {"security.protocol": "ssl"}),
    ("CONFLUENT_KAFKA", "'uris'='a:1','tls.disabled'=TRUE", {"kafka.security.protocol": "PLAINTEXT"}, {}),
    ("CONFLUENT_KAFKA", "'uris'='a:1','kafka.profile'=NONE", {"kafka.security.protocol": "PLAINTEXT"}, {}),
    ("KAFKA", f"'uris'='a:1','kafka.profile'=CONFLUENT_CLOUD,{LOGIN}", {"kafka.sasl.mechanism": "PLAIN"}, {}),
    (
        "KAFKA",
        f"'uris'='seed.cloud.redpanda.com:9092','kafka.profile'=REDPANDA,{LOGIN}",
        {"kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.security.protocol": "SASL_SSL"},
        {"sasl.mechanisms": "SCRAM-SHA-256"},
    ),
    ("KAFKA", "'uris'='a:9092','kafka.profile'=MSK", {"kafka.security.protocol": "PLAINTEXT"}, {}),
    ("KAFKA", "'uris'='a:9094,b:9094','kafka.profile'=MSK", {"kafka.security.protocol": "SSL"}, {}),
    (
        "KAFKA",
        f"'uris'='a:9096','kafka.profile'=MSK,{LOGIN}",
        {"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.security.protocol": "SASL_SSL"},
        {"sasl.mechanisms": "SCRAM-SHA-512"},
    ),
    (
        "KAFKA",
        f"'uris'='a:9096','kafka.profile'=MSK,'kafka.sasl.hash_function'=SHA256,{LOGIN}",
        {"kafka.sasl.mechanism": "SCRAM-SHA-256"},
        {},
    ),
    (
        "KAFKA",
        "'uris'='b-1.demo.abc.c2.kafka.us-east-1.amazonaws.com:9098','kafka.profile'='msk'",
        {"kafka.sasl.mechanism": "AWS_MSK_IAM", "kafka.security.protocol": "SASL_SSL"},
        {"sasl.mechanisms": "OAUTHBEARER"},
    ),
)


@pytest.mark.parametrize(("kind", "properties", "java", "client"), STORES)
def test_store(kind: str, properties: str, java: Mapping[str, str], client: Mapping[str, str], tmp_path: Path) -> None:
    project = compiled(tmp_path, f"CREATE STORE k WITH ('type'={kind},{properties});")
    assert not project.diagnostics, [found.text() for found in project.diagnostics]
    told = options_of(project.catalog.store("k"))
    for expected, found in zip((java, client), told, strict=True):
        assert {name: found.get(name) for name in expected} == dict(expected)


@pytest.mark.parametrize("name", ["schema_registry.name", "kafka.schema_registry_name", "schema_registry_name"])
def test_the_registry_in_all_spellings(name: str, tmp_path: Path) -> None:
    project = compiled(tmp_path, f"{REGISTRY} CREATE STORE k WITH ('type'=KAFKA,'uris'='a:1','{name}'=\"reg\");")
    assert not project.diagnostics, [found.text() for found in project.diagnostics]
    registry = project.catalog.store("k").registry
    assert registry is not None
    assert registry.name == "reg"


def test_local_servers_need_no_login_whatever_the_service(tmp_path: Path) -> None:
    local = {"kafka": {"uris": "l:1", "tls.disabled": True, "kafka.sasl.hash_function": "NONE"}}
    sql = f"CREATE STORE k WITH ('type'=CONFLUENT_KAFKA,'uris'='a:1',{LOGIN});"
    project = compiled(tmp_path, sql, Overlay(kinds=local))
    assert not project.errors, [found.text() for found in project.errors]
    java, client = options_of(project.catalog.store("k"))
    assert (java["kafka.security.protocol"], java["kafka.bootstrap.servers"]) == ("PLAINTEXT", "l:1")
    assert client["security.protocol"] == "plaintext"


WRONG: tuple[tuple[str, str, str], ...] = (
    ("'uris'='a:1','security.protocol'=SASL_SSL", "STORE_PROPERTY_MISSING", "kafka.sasl.hash_function"),
    (f"'uris'='a:1','security.protocol'=SSL,'sasl.mechanism'=PLAIN,{LOGIN}", "STORE_PROPERTIES_CONTRADICT", "SASL_SSL"),
    ("'uris'='a:1','security.protocol'=SSL,'tls.disabled'=TRUE", "STORE_PROPERTIES_CONTRADICT", "tls.disabled"),
    (
        "'uris'='a:1','security.protocol'=PLAINTEXT,'ssl.ca.location'='c.pem'",
        "STORE_PROPERTIES_CONTRADICT",
        "TLS is off",
    ),
    ("'uris'='a:1','sasl.mechanism'='GSSAPI'", "PROPERTY_INVALID", "plain"),
    ("'uris'='a:1','sasl.username'='a','kafka.sasl.username'='b'", "PROPERTY_TWICE", "sasl.username"),
    ("'uris'='a:1','sasl.jaas.config'='${JAAS}'", "PROPERTY_NOT_YET", "sasl.password"),
    ("'uris'='a:1','kafka.sasl.hash_fuction'=PLAIN", "UNKNOWN_PROPERTY", "kafka.sasl.hash_function"),
    ("'uris'='a:1','kafka.sasl.hash_function'=MD5", "PROPERTY_INVALID", "plain"),
    ("'uris'='a:1','kafka.profile'=AIVEN", "PROPERTY_INVALID", "confluent_cloud"),
    ("'uris'='a:1','kafka.sasl.hash_function'=PLAIN", "STORE_PROPERTY_MISSING", "kafka.sasl.username"),
    ("'uris'='a:9098','kafka.profile'=MSK", "STORE_PROPERTY_MISSING", "kafka.msk.aws_region"),
    ("'kafka.sasl.hash_function'=NONE", "STORE_PROPERTY_MISSING", "uris"),
    ("'uris'='a:1','postgres.username'='x'", "PROPERTY_OF_OTHER_STORE", "POSTGRESQL"),
)


@pytest.mark.parametrize(("properties", "condition", "told"), WRONG)
def test_wrong_store(properties: str, condition: str, told: str, tmp_path: Path) -> None:
    found = compiled(tmp_path, f"CREATE STORE k WITH ('type'=KAFKA,{properties});").errors
    assert condition in [one.condition for one in found]
    assert any(told in f"{one.message} {one.hint}" for one in found), [one.text() for one in found]


@pytest.mark.parametrize(
    "names", [("topic.partitions", "kafka.partitions"), ("kafka.partitions", "topic.partitions"), ("entity", "topic")]
)
def test_two_names_of_one_property_are_both_told(names: tuple[str, str], tmp_path: Path) -> None:
    """As they are written; the first one is shown, too, also where its value is wrong."""
    properties = ", ".join(f"'{name}' = '?'" for name in names)
    sql = f"CREATE STORE k WITH ('type'=KAFKA,'uris'='a:1'); CREATE STREAM s (a BIGINT) WITH ({properties});"
    (found,) = [one for one in compiled(tmp_path, sql).errors if one.condition == "PROPERTY_TWICE"]
    assert found.message == f"{names[1]} and {names[0]} are two names of one property"
    (first,) = found.related
    assert sql[first.column - 1 :].startswith(f"'{names[0]}'")


# --- relations --------------------------------------------------------------------------------------------------------

STORE = f"""{REGISTRY} CREATE STORE k WITH ('type'=KAFKA,'uris'='a:1','schema_registry.name'=reg);
CREATE STORE other WITH ('type'=KAFKA,'uris'='b:1');"""
COUNTS = "'topic.partitions'=3,'topic.replicas'=2"


def plan(relation: Relation) -> Any:
    return KAFKA.entity_plan(relation)


def key(format_: str, columns: tuple[str, ...] = (), **more: Any) -> RecordKey:
    return RecordKey(format_, columns, **more)  # type: ignore[arg-type]


Of = Callable[[Relation], object]
RELATIONS: tuple[tuple[str, Of, object], ...] = (
    ("'value.format'='json'", lambda r: (r.entity, r.store), ("r", "k")),
    ("'value.format'='json','topic'='T-1'", lambda r: r.entity, "T-1"),
    ("'value.format'='json','entity'='T-1'", lambda r: r.entity, "T-1"),
    ("'value.format'='json','store'='other'", lambda r: r.store, "other"),
    ("'value.format'=JSON", lambda r: r.value_format, "json"),
    ("'value.format'='Avro'", lambda r: r.value_format, "avro"),
    ("'value.format'='json','timestamp'='at'", lambda r: r.event_time.column, "at"),
    ("'value.format'='json','timestamp'='ts'", lambda r: (r.event_time.column, r.event_time.format), ("ts", "sql")),
    ("'value.format'='json','timestamp'='ltz','timestamp.format'='iso8601'", lambda r: r.event_time.format, "iso8601"),
    (
        "'value.format'='json','topic.partitions'=5",
        lambda r: plan(r).counts,
        {"topic.partitions": 5, "topic.replicas": 2},
    ),
    (
        "'value.format'='json','kafka.partitions'='5','kafka.replicas'=1",
        lambda r: plan(r).counts,
        {"topic.partitions": 5, "topic.replicas": 1},
    ),
    (
        "'value.format'='json','kafka.topic.retention.ms'='604800000','kafka.topic.cleanup.policy'='compact,delete',"
        "'kafka.topic.message.timestamp.type'='CreateTime'",
        lambda r: plan(r).settings,
        {
            "retention.ms": "604800000",
            "cleanup.policy": "compact,delete",
            "message.timestamp.type": "CreateTime",
        },
    ),
    ("'value.format'='json','key.format'='primitive','key.type'='VARCHAR'", lambda r: r.key, key("primitive", type=VARCHAR)),
    ("'value.format'='json','key.format'='primitive','key.type'='BIGINT'", lambda r: r.key, key("primitive", type=BIGINT)),
    ("'value.format'='json','key.format'=JSON,'key.type'='STRUCT<a INTEGER>'", lambda r: str(r.key.type), "STRUCT<a INTEGER>"),
    ("'value.format'='json','key.format'='avro','key.columns'='a,name'", lambda r: r.key, key("avro", ("a", "name"))),
    ("'value.format'='json','key.columns'='a'", lambda r: r.key, key("json", ("a",))),
    (
        "'value.format'='json','key.columns'='a, name','value.columns.exclude'='a'",
        lambda r: r.key,
        key("json", ("a", "name"), exclude=("a",)),
    ),
    ("'value.format'='json','starting.position'='latest'", lambda r: r.properties["starting.position"].value, "latest"),
)  # fmt: skip


@pytest.mark.parametrize(("properties", "of", "expected"), RELATIONS)
def test_relation(properties: str, of: Of, expected: object, tmp_path: Path) -> None:
    counts = COUNTS.split(",") if "replicas" not in properties else []
    more = [count for count in counts if count.partition("=")[0] not in properties]
    columns = "a INTEGER, name VARCHAR, at BIGINT, ts TIMESTAMP, ltz TIMESTAMP_LTZ"
    sql = f"{STORE} CREATE STREAM r ({columns}) WITH ({', '.join([properties, *more])});"
    project = compiled(tmp_path, sql)
    assert not project.errors, [found.text() for found in project.errors]
    (relation,) = project.catalog.relations.values()
    assert of(relation) == expected


def test_a_changelog_is_upserted_and_its_topic_compacted(tmp_path: Path) -> None:
    sql = (
        f"{STORE} CREATE CHANGELOG r (a INTEGER, name VARCHAR, PRIMARY KEY (a)) "
        f"WITH ('value.format'='json','enable.upsert.mode'=TRUE,'key.format'='json',"
        f"'key.type'='STRUCT<a INTEGER>',{COUNTS});"
    )
    project = compiled(tmp_path, sql)
    assert not project.errors, [found.text() for found in project.errors]
    (relation,) = project.catalog.relations.values()
    assert relation.is_changelog
    assert isinstance(relation.key.type, StructType)
    assert relation.key.type.field("a").type == INTEGER  # type: ignore[union-attr]
    assert plan(relation).settings["cleanup.policy"] == "compact"


def test_a_primitive_value(tmp_path: Path) -> None:
    project = compiled(
        tmp_path, f"{STORE} CREATE STREAM r (\"intValue\" INTEGER) WITH ('value.format'='Primitive',{COUNTS});"
    )
    (relation,) = project.catalog.relations.values()
    assert relation.value_format == "primitive"


# --- sources ----------------------------------------------------------------------------------------------------------

MOMENT = 1_767_225_600_000
SOURCES: tuple[tuple[str, Callable[[Scan], object], object], ...] = (
    ("'timestamp'='at'", lambda s: s.time.column, "r$at"),
    ("'timestamp'='ts','timestamp.format'='iso8601'", lambda s: (s.time.column, s.time.format), ("r$ts", "iso8601")),
    ("'source.allow.latency.millis'=1", lambda s: s.time.lateness_millis, 1),
    ("'source.idle.timeout.millis'='1000'", lambda s: s.time.idle_millis, 1000),
    ("'source.deserialization.error.handling'=TERMINATE", lambda s: s.bad_records, "terminate"),
    ("'source.deserialization.error.handling'='IGNORE'", lambda s: s.bad_records, "ignore"),
    ("'starting.position'=earliest", lambda s: s.starting_position, "earliest"),
    ("'starting.position'='latest'", lambda s: s.starting_position, "latest"),
    (
        f"'starting.position'='timestamp','starting.timestamp'={MOMENT}",
        lambda s: (s.starting_position, s.starting_timestamp),
        ("timestamp", MOMENT),
    ),
    (
        "'starting.position'='offsets','starting.offsets'='1:7'",
        lambda s: (s.starting_position, s.starting_offsets, start_text(s)),
        ("offsets", ((1, 7),), "offsets 1:7"),
    ),
    ("'source.data.loss'='skip'", lambda s: s.data_loss, "skip"),
    ("'max.records.per.batch'=7", lambda s: s.max_records_per_batch, 7),
)


@pytest.mark.parametrize(("properties", "of", "expected"), SOURCES)
def test_source(properties: str, of: Callable[[Scan], object], expected: object, tmp_path: Path) -> None:
    sql = (
        f"{STORE} CREATE STREAM r (a INTEGER, at BIGINT, ts TIMESTAMP) WITH ('value.format'='json',{COUNTS});"
        f"CREATE STREAM s AS SELECT a, at, ts FROM r WITH ({properties});"
    )
    project = compiled(tmp_path, sql)
    assert not project.errors, [found.text() for found in project.errors]
    (scan,) = project.queries["s"].scans
    assert of(scan) == expected


FACTS = EntityFacts("r", MappingProxyType({"topic.partitions": 3}))
READS: tuple[tuple[ReadOptions, Mapping[str, object]], ...] = (
    (ReadOptions(), {"startingOffsets": "earliest", "failOnDataLoss": True}),
    (ReadOptions("latest"), {"startingOffsets": "latest"}),
    (
        ReadOptions("timestamp", starting_timestamp=MOMENT),
        {"startingTimestamp": MOMENT, "startingOffsetsByTimestampStrategy": "latest", "startingOffsets": None},
    ),
    (ReadOptions("offsets", starting_offsets=((1, 7),)), {"startingOffsets": '{"r": {"0": -2, "1": 7, "2": -2}}'}),
    (ReadOptions(data_loss="skip"), {"failOnDataLoss": False}),
    (ReadOptions(max_records_per_batch=9), {"maxOffsetsPerTrigger": 9}),
)


@pytest.mark.parametrize(("options", "expected"), READS)
def test_what_sparks_source_is_told(options: ReadOptions, expected: Mapping[str, object], tmp_path: Path) -> None:
    project = compiled(tmp_path, f"{STORE} CREATE STREAM r (a INTEGER) WITH ('value.format'='json',{COUNTS});")
    (relation,) = project.catalog.relations.values()
    spec = KAFKA.read_spec(project.catalog.store("k"), relation, options, FACTS)
    found = {name: value.value for name, value in spec.options.items()}
    assert {name: found.get(name) for name in expected} == dict(expected)
    assert spec.format == ("ds-kafka-skipping" if options.data_loss == "skip" else "ds-kafka-records")
