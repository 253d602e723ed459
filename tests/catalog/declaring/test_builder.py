"""Pass one: what is declared, and everything that can be wrong with it."""

# ruff: noqa: E501 - SQL in tables reads better on one line

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.catalog.declaring.builder import declare
from ds_dagster.catalog.declaring.declared import Declared
from ds_dagster.catalog.properties.values import resolve
from ds_dagster.names import QualifiedName
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.sql.script import parse_file
from ds_dagster.stores.registry import KINDS

Run = Callable[..., Declared]
COLUMNS = "(event_time BIGINT, url VARCHAR, uid VARCHAR, tags ARRAY<VARCHAR>)"

REFUSED = [
    (f"CREATE STREAM s {COLUMNS} WITH ('topik'='x');", "UNKNOWN_PROPERTY", "did you mean topic"),
    (f"CREATE STREAM s {COLUMNS} WITH ('topic.partitions'=0);", "PROPERTY_INVALID", "a whole number ≥ 1"),
    (f"CREATE STREAM s {COLUMNS} WITH ('topic.partitions'='many');", "PROPERTY_INVALID", "a whole number ≥ 1"),
    (f"CREATE STREAM s {COLUMNS} WITH ('value.format'='protobuf');", "PROTOBUF_NEEDS_SCHEMA", "CREATE DESCRIPTOR_SOURCE"),
    (f"CREATE STREAM s {COLUMNS} WITH ('value.format'='json_schema');", "JSON_SCHEMA_NEEDS_REGISTRY", "'json'"),
    (f"CREATE STREAM s {COLUMNS} WITH ('value.format'='avro');", "AVRO_NEEDS_REGISTRY", "schema_registry.name"),
    (f"CREATE STREAM s {COLUMNS} WITH ('key.columns'='url', 'key.format'='avro');", "AVRO_NEEDS_REGISTRY", "json"),
    ("CREATE STORE i WITH ('type'=KINESIS,'access_region'='x'); CREATE STREAM s (a BIGINT) WITH ('store'='i','value.format'='avro');", "FORMAT_STORE_NOT_YET", "json"),
    (f"CREATE STREAM s {COLUMNS} WITH ('value.format'='xml');", "PROPERTY_INVALID", "json, primitive, avro"),
    (f"CREATE STREAM s {COLUMNS} WITH ('source.idle.timeout.millis'=1);", "PROPERTY_MISPLACED", "after a source"),
    (f"CREATE STREAM s {COLUMNS} WITH ('topic.shards'=1);", "PROPERTY_OF_OTHER_STORE", "KINESIS"),
    (f"CREATE STREAM s {COLUMNS} WITH ('value.descriptor.name'='x');", "UNKNOWN_DESCRIPTOR", "CREATE DESCRIPTOR_SOURCE"),
    (f"CREATE STREAM s {COLUMNS} WITH ('topic'='a', 'entity'='b');", "PROPERTY_TWICE", "one of the two"),
    (f"CREATE STREAM s {COLUMNS} WITH ('topic'='${{T}}');", "REFERENCE_NOT_HERE", "write the value"),
    (f"CREATE STREAM s {COLUMNS} WITH ('store'='kk');", "UNKNOWN_STORE", "did you mean k"),
    (f"CREATE STORE d WITH ('type'=DELTA,'uris'='file:///x'); CREATE STREAM s {COLUMNS} WITH ('store'='d');", "STORE_CANNOT_HOLD", "streaming store"),
    (f"CREATE TABLE s {COLUMNS};", "STORE_CANNOT_HOLD", "table store"),
    (f"CREATE STREAM s {COLUMNS} WITH ('timestamp'='event_tim');", "TIMESTAMP_COLUMN_UNKNOWN", "event_time"),
    (f"CREATE STREAM s {COLUMNS} WITH ('timestamp'='url');", "TIMESTAMP_COLUMN_TYPE", "BIGINT"),
    (f"CREATE STREAM s {COLUMNS} WITH ('key.columns'='ur');", "KEY_COLUMN_UNKNOWN", "url"),
    (f"CREATE STREAM s {COLUMNS} WITH ('key.columns'='tags');", "KEY_COLUMN_TYPE", "scalar"),
    (f"CREATE STREAM s {COLUMNS} WITH ('key.columns'='url,uid','key.format'='primitive');", "KEY_PRIMITIVE", "json"),
    (f"CREATE STREAM s {COLUMNS} WITH ('key.columns'='url','key.type'='VARCHAR');", "KEY_CONTRADICTS", "leave out key.type"),
    (f"CREATE STREAM s {COLUMNS} WITH ('key.format'='json','key.type'='VARCHAR');", "KEY_TYPE_INVALID", "STRUCT"),
    (f"CREATE STREAM s {COLUMNS} WITH ('value.columns.exclude'='url');", "KEY_CONTRADICTS", "key.columns"),
    (f"CREATE STREAM s {COLUMNS} WITH ('value.format'='primitive');", "VALUE_PRIMITIVE", "json"),
    (f"CREATE STREAM s {COLUMNS} WITH ('enable.upsert.mode'=TRUE);", "PROPERTY_OF_OTHER_KIND", "CHANGELOG"),
    ("CREATE CHANGELOG s (a BIGINT, PRIMARY KEY (b));", "KEY_COLUMN_UNKNOWN", "did you mean a"),
    ("CREATE CHANGELOG s (a ARRAY<INT>, PRIMARY KEY (a));", "KEY_COLUMN_TYPE", "scalar"),
    ("CREATE CHANGELOG s (a BIGINT, PRIMARY KEY (a)) WITH ('enable.upsert.mode'=FALSE);", "PROPERTY_VALUE_NOT_YET", "STREAM"),
    ("CREATE STREAM dbb.public.s (a BIGINT);", "UNKNOWN_DATABASE", "did you mean db"),
    ("CREATE STREAM db.publik.s (a BIGINT);", "UNKNOWN_SCHEMA", "db.public"),
    ("CREATE STORE s WITH ('type'=KAFKAA, 'uris'='x');", "STORE_TYPE_UNKNOWN", "KAFKA"),
    ("CREATE STORE s WITH ('uris'='x');", "STORE_TYPE_MISSING", "KAFKA"),
    ("CREATE STORE s WITH ('type'=ICEBERG_GLUE, 'uris'='x');", "STORE_TYPE_NOT_YET", "DELTA"),
    ("CREATE STORE s WITH ('type'=KAFKA);", "STORE_PROPERTY_MISSING", "uris"),
    ("CREATE COMPUTE_POOL default;", "COMPUTE_POOL_NAME", "project's own engine"),
    (f"CREATE COMPUTE_POOL {'p' * 49};", "COMPUTE_POOL_NAME", "48 characters"),
    ("CREATE COMPUTE_POOL p WITH ('compute_pool.size'='small');", "COMPUTE_POOL_PROPERTY", "'compute_pool.cores' = 2"),
    ("CREATE COMPUTE_POOL p WITH ('compute_pool.timeout_min'=5);", "COMPUTE_POOL_PROPERTY", "remove it"),
    ("CREATE COMPUTE_POOL p WITH ('compute_pool.cores'=0);", "PROPERTY_INVALID", "a whole number ≥ 1"),
    ("CREATE COMPUTE_POOL p WITH ('compute_pool.memory'='2.5g');", "PROPERTY_INVALID", "512m or 2g"),
    ("CREATE COMPUTE_POOL p WITH ('topic'='x');", "PROPERTY_MISPLACED", "WITH"),
    ("CREATE STORE s WITH ('type'=KAFKA,'uris'='x','kafka.sasl.hash_function'=SHA512);", "STORE_PROPERTY_MISSING", "${NAME}"),
    ("CREATE STORE s WITH ('type'=KAFKA,'uris'='x','kafka.sasl.hash_function'=AWS_MSK_IAM);", "STORE_PROPERTY_MISSING", "us-east-1"),
    ("CREATE STORE s WITH ('type'=KAFKA,'uris'='x','postgres.username'='y');", "PROPERTY_OF_OTHER_STORE", "POSTGRESQL"),
    ("CREATE STORE s WITH ('type'=KAFKA,'uris'='x','schema_registry.name'=r);", "UNKNOWN_SCHEMA_REGISTRY", "CREATE SCHEMA_REGISTRY"),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=KARAPACE,'uris'='http://x');", "REGISTRY_TYPE_UNKNOWN", "CONFLUENT or"),
    ("CREATE SCHEMA_REGISTRY r WITH ('uris'='http://x');", "REGISTRY_TYPE_UNKNOWN", "CONFLUENT or"),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT);", "REGISTRY_PROPERTY_MISSING", "uris"),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='x:8081');", "PROPERTY_INVALID", "http://"),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://u:s3cret@x');", "PROPERTY_INVALID", "without user"),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://x','confluent.username'='u');", "REGISTRY_PROPERTY_MISSING", "'confluent.password' = '${NAME}'"),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://x','confluent_cloud.key'='u');", "REGISTRY_PROPERTY_OF_OTHER_TYPE", "CONFLUENT_CLOUD"),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://x','tls.client.cert_file'='u');", "REGISTRY_PROPERTY_MISSING", "'tls.client.key_file' = "),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://x','ssl.key.location'='u');", "REGISTRY_PROPERTY_MISSING", "'tls.client.cert_file' = "),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://x','tls.client.key_password'='u');", "REGISTRY_PROPERTY_MISSING", "'tls.client.key_file' = "),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://x','tls.client.cert'='u');", "PROPERTY_MISPLACED", "CREATE STORE"),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://x','kafka.sasl.username'='u');", "PROPERTY_MISPLACED", "CREATE STORE"),
    ("CREATE STORE s WITH ('type'=KAFKA,'uris'='x','confluent.username'='u');", "PROPERTY_MISPLACED", "CREATE SCHEMA_REGISTRY"),
    ("CREATE SCHEMA_REGISTRY r WITH ('type'=X); CREATE STORE s WITH ('type'=KAFKA,'uris'='x','schema_registry.name'=r);", "SCHEMA_REGISTRY_REFUSED", "correct"),
    ("CREATE STORE s WITH ('type'=KINESIS);", "STORE_PROPERTY_MISSING", "region"),
    ("CREATE STORE s WITH ('type'=KINESIS,'access_region'='x','config_file'='none');", "CONFIG_FILE_INVALID", "relative"),
    ("CREATE STORE s WITH ('type'=POSTGRESQL,'uris'='h:5432','postgres.username'='u');", "PROPERTY_INVALID", "postgresql://"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "condition", "hint"), REFUSED)
def test_refused(declared: Run, text: str, condition: str, hint: str) -> None:
    found = declared(text)
    errors = [d for d in found.diagnostics if d.severity == "error"]
    assert condition in [d.condition for d in errors], [d.text() for d in errors]
    first = next(d for d in errors if d.condition == condition)
    assert hint in f"{first.message} {first.hint}"
    assert first.span is not None and (first.span.file, first.span.line) == ("a.sql", 1)
    assert QualifiedName("db", "public", "s") not in found.relations
    assert len(found.relations) == 2, "what is right stays usable"


def test_order_of_files_does_not_matter(settings: Settings) -> None:
    relation = parse_file("b.sql", "CREATE STREAM s (a BIGINT) WITH ('store'='k');")
    store = parse_file("a.sql", "CREATE STORE k WITH ('type'=KAFKA,'uris'='x');")
    one, other = declare([relation, store], settings, KINDS), declare([store, relation], settings, KINDS)
    assert one == other
    assert not one.diagnostics


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("CREATE STREAM s (a BIGINT);\nCREATE STREAM S (a BIGINT);", "DUPLICATE_RELATION"),
        ("CREATE STREAM s (a BIGINT);\nCREATE STREAM s AS SELECT * FROM clicks;", "DUPLICATE_RELATION"),
        ("CREATE STORE s WITH ('type'=KAFKA,'uris'='x');\nCREATE STORE s WITH ('type'=KAFKA,'uris'='x');", "DUPLICATE_STORE"),
        ("CREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://x');\nCREATE SCHEMA_REGISTRY r WITH ('type'=CONFLUENT,'uris'='http://x');", "DUPLICATE_SCHEMA_REGISTRY"),
        ("CREATE COMPUTE_POOL p;\nCREATE COMPUTE_POOL p;", "DUPLICATE_COMPUTE_POOL"),
        ("CREATE DATABASE d;\nCREATE DATABASE d;", "DUPLICATE_DATABASE"),
        ("CREATE SCHEMA x IN DATABASE db;\nCREATE SCHEMA x IN DATABASE db;", "DUPLICATE_SCHEMA"),
    ],
)  # fmt: skip
def test_duplicates_name_both_places(declared: Run, text: str, condition: str) -> None:
    (found,) = declared(text).diagnostics
    assert found.condition == condition
    assert found.span is not None and found.span.line == 2
    assert [span.line for span in found.related] == [1]


def test_compute_pools(declared: Run) -> None:
    found = declared(
        "CREATE COMPUTE_POOL Heavy WITH ('compute_pool.cores' = 3, 'compute_pool.memory' = '2g', 'description' = 'x');"
        "CREATE COMPUTE_POOL IF NOT EXISTS heavy WITH ('description' = 'x', 'compute_pool.memory' = '2g', "
        "'compute_pool.cores' = 3); CREATE COMPUTE_POOL light;"
    )
    assert not found.diagnostics
    pools = {name: (pool.cores, pool.memory) for name, pool in (found.pools or {}).items() if pool is not None}
    assert pools == {"heavy": (3, "2g"), "light": (2, "1g")}


@pytest.mark.parametrize(
    ("master", "spark", "text", "wanted"),
    [
        ("spark://h:7077", {}, "CREATE COMPUTE_POOL p", "COMPUTE_POOL_WITHOUT_CORES"),
        ("spark://h:7077", {"spark.cores.max": "6"}, "CREATE COMPUTE_POOL p", 6),
        ("yarn", {"spark.executor.cores": "4"}, "CREATE COMPUTE_POOL p", 8),
        ("yarn", {"spark.executor.cores": "4"}, "CREATE COMPUTE_POOL p WITH ('compute_pool.cores' = 12)", 12),
        ("yarn", {"spark.executor.cores": "4"}, "CREATE COMPUTE_POOL p WITH ('compute_pool.cores' = 6)", "PROPERTY_INVALID"),
        ("local-cluster[2, 3, 512]", {}, "CREATE COMPUTE_POOL p", 6),
    ],
)  # fmt: skip
def test_compute_pools_have_executors_of_a_cluster(
    settings: Settings, master: str, spark: dict[str, str], text: str, wanted: str | int
) -> None:
    """Their cores, or why they can have none."""
    on_cluster = replace(settings, engine=EngineSettings(master=master), spark=spark)
    declared = declare([parse_file("a.sql", f"{text};")], on_cluster, KINDS)
    found: list[str | int] = [problem.condition for problem in declared.diagnostics]
    assert (found or [pool and pool.cores for pool in (declared.pools or {}).values()]) == [wanted]


def test_databases_and_schemas(declared: Run) -> None:
    found = declared(
        "CREATE DATABASE other; CREATE SCHEMA x IN DATABASE other; USE DATABASE other; CREATE STREAM s (a BIGINT);"
        "USE SCHEMA x; CREATE STREAM s (a BIGINT); CREATE STREAM db.public.s (a BIGINT);"
    )
    assert not found.diagnostics
    names = {str(name) for name in found.relations} - {"db.public.clicks", "db.public.views"}
    assert names == {"other.public.s", "other.x.s", "db.public.s"}


def test_a_changelog_is_keyed_by_its_primary_key(declared: Run) -> None:
    found = declared(
        "CREATE CHANGELOG u (uid VARCHAR, name VARCHAR, PRIMARY KEY (uid)) WITH ('store'='kin','topic'='users');"
    )
    users = found.relations[QualifiedName("db", "public", "u")]
    assert (users.primary_key, users.key.format, users.key.columns, users.entity) == (
        ("uid",),
        "json",
        ("uid",),
        "users",
    )
    assert [column.nullable for column in users.columns] == [False, True]


def test_a_topic_may_be_declared_twice(declared: Run) -> None:
    found = declared("CREATE CHANGELOG c (uid VARCHAR, PRIMARY KEY (uid)) WITH ('topic'='clicks');")
    assert not found.diagnostics


def test_create_entity_gives_sizes(declared: Run) -> None:
    found = declared(
        "CREATE ENTITY t IN STORE k WITH ('kafka.partitions'=5); CREATE STREAM s (a BIGINT) WITH ('topic'='t');"
    )
    assert not found.diagnostics
    assert found.relations[QualifiedName("db", "public", "s")].option("topic.partitions") == 5


def test_the_overlay_replaces_the_whole_connection(declared: Run, settings: Settings) -> None:
    secrets = settings.state / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "pg").write_text("local-password\n")
    overlay = {
        "kafka": {"uris": "127.0.0.1:1", "tls.disabled": True, "kafka.sasl.hash_function": "NONE"},
        "postgresql": {"uris": "postgresql://127.0.0.1:2/postgres", "postgres.username": "p",
                       "postgres.password": {"file": "secrets/pg"}},
    }  # fmt: skip
    stores = (
        "CREATE STORE k WITH ('type'=KAFKA,'uris'='prod:9092','kafka.sasl.hash_function'=PLAIN,'kafka.sasl.username'='${U}',"
        "'kafka.sasl.password'='${P}','availability_zone'='us-east-2');"
        "CREATE STORE pg WITH ('type'=POSTGRESQL,'uris'='postgresql://h/db','postgres.username'='u','postgres.password'='${P}');"
        "CREATE STORE kin WITH ('type'=KINESIS,'uris'='https://kinesis.us-east-2.amazonaws.com');"
    )
    found = declared("", overlay=overlay, stores=stores)
    assert not found.diagnostics
    assert {name: value.value for name, value in found.stores["k"].properties.items()} == {
        "access_region": "us-east-2", "uris": "127.0.0.1:1", "tls.disabled": True, "kafka.sasl.hash_function": "none",
    }  # fmt: skip
    password = found.stores["pg"].properties["postgres.password"]
    assert "local-password" not in repr(found.stores)
    assert resolve(password, {}, "store pg") == "local-password"
    assert (found.stores["k"].overlaid, found.stores["kin"].overlaid) == (True, False)


def test_a_bad_overlay_is_named(declared: Run) -> None:
    found = declared("", overlay={"kafka": {"uriss": "x"}})
    assert {d.condition for d in found.diagnostics if not d.caused_by} == {"OVERLAY_INVALID"}
    assert [(d.condition, d.caused_by) for d in found.diagnostics if d.caused_by] == [("STORE_REFUSED", "k")]


def test_certificates_of_a_config_file_are_found(declared: Run, settings: Settings) -> None:
    (settings.root / "k.properties").write_text(
        "tls.ca_cert_file = certs/ca.pem\nkafka.sasl.hash_function: SHA512\nkafka.sasl.username=me\nkafka.sasl.password=pw\n"
    )
    found = declared("CREATE STORE s WITH ('type'=KAFKA,'uris'='x','config_file'='k.properties');")
    assert not [d for d in found.diagnostics if d.severity == "error"]
    assert found.stores["s"].properties["tls.ca_cert_file"].value == str(settings.root.resolve() / "certs/ca.pem")


def test_defaults_of_secret_references_are_not_kept_in_the_text(declared: Run) -> None:
    login = "'kafka.sasl.hash_function'=PLAIN,'kafka.sasl.username'='u','kafka.sasl.password'='${P:-given-away}'"
    store = declared(f"CREATE STORE s WITH ('type'=KAFKA,'uris'='x',{login});").stores["s"]
    assert "given-away" not in store.origin.text
    assert "${P:-" in store.origin.text


def test_config_file_with_the_published_quotes(declared: Run, settings: Settings) -> None:
    text = "# keys\n'kinesis.access_key_id='AKIA'\n'kinesis.secret_access_key’=‘the-secret-value'\n"
    (settings.root / "kinesis.properties").write_text(text, encoding="utf-8")
    found = declared(
        "CREATE STORE s WITH ('type'=KINESIS,'availability_zone'='us-east-2','config_file'='./kinesis.properties');"
    )
    assert not found.diagnostics
    values = found.stores["s"].properties
    assert values["aws.access_key_id"].value == "AKIA"
    assert "the-secret-value" not in repr(values) + repr(found)
    assert values["aws.secret_access_key"].value == "", "the secret stays in its file"
    assert resolve(values["aws.secret_access_key"], {}, "store s") == "the-secret-value"


def test_a_literal_secret_is_a_warning(declared: Run) -> None:
    found = declared(
        "CREATE STORE s WITH ('type'=POSTGRESQL,'uris'='postgresql://h/d','postgres.username'='u','postgres.password'='hunter22');"
    )
    (warning,) = found.diagnostics
    assert (warning.condition, warning.severity) == ("LITERAL_SECRET", "warning")
    assert "hunter22" not in warning.text() + repr(found.stores)
    assert "s" in found.stores


def test_thousand_relations_are_declared_once_each(settings: Settings) -> None:
    columns = "(a BIGINT, b VARCHAR, c DOUBLE)"
    text = "CREATE STORE k WITH ('type'=KAFKA,'uris'='x');\n"
    text += "\n".join(f"CREATE STREAM s{i} {columns} WITH ('topic'='t{i}','topic.partitions'=1);" for i in range(1000))
    found = declare([parse_file("a.sql", text)], settings, KINDS)
    assert not found.diagnostics
    assert len(found.relations) == 1000


def test_nothing_is_printed_to_files(settings: Settings, tmp_path: Path, declared: Any) -> None:
    declared("CREATE STREAM s (a BIGINT);")
    assert not settings.state.exists(), "declaring creates nothing"
