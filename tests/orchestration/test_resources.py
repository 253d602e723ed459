"""Store resources: values of CREATE STORE, replaced by a user's, secrets as references only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from ds_dagster.errors import DsError
from ds_dagster.orchestration import (
    DatabricksStoreResource,
    DeltaStoreResource,
    DsProject,
    FilesStoreResource,
    KafkaStoreResource,
    KinesisStoreResource,
    PostgresStoreResource,
    SnowflakeStoreResource,
    StoreResource,
    build_ds_definitions,
)
from ds_dagster.orchestration.store_resource import ELSEWHERE, plugin_class
from ds_dagster.orchestration.store_resources import RESOURCE_CLASSES
from ds_dagster.project.load import properties_of_stores
from ds_dagster.runtime.deciding.changes import recompiled
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from ds_dagster.settings import load_settings
from tests.orchestration.conftest import STORES, STREAMS, write_project

SECRET = "marked-secret-of-a-resource"
LOGIN = {
    "kafka.sasl.hash_function": "SHA512",
    "kafka.sasl.username": "u",
    "kafka.sasl.password": "${KAFKA_PASSWORD}",
}
OTHER_STORES = """
CREATE STORE events WITH ('type' = KINESIS, 'access_region' = 'us-west-2', 'uris' = 'http://127.0.0.1:4567',
  'kinesis.access_key_id' = 'me', 'kinesis.secret_access_key' = '${KINESIS_SECRET}');
CREATE STORE snow WITH ('type' = SNOWFLAKE, 'snowflake.account_id' = 'myorg-acme', 'snowflake.warehouse_name' = 'WH',
  'snowflake.username' = 'loader', 'snowflake.password' = '${WAREHOUSE_PASSWORD}');
CREATE STORE lake WITH ('type' = DELTA, 'uris' = '${LAKE}');
CREATE STORE dbx WITH ('type' = DATABRICKS, 'uris' = 'https://dbc-1.cloud.databricks.com',
  'databricks.warehouse_id' = 'abc', 'databricks.app_token' = '${KINESIS_SECRET}');
CREATE STORE bucket WITH ('type' = DELTA, 'uris' = 's3://shop/lake', 'access_region' = 'eu-west-1',
  'aws.access_key_id' = 'me', 'aws.secret_access_key' = '${KINESIS_SECRET}');
"""


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WAREHOUSE_PASSWORD", SECRET)
    monkeypatch.setenv("KINESIS_SECRET", SECRET)
    monkeypatch.setenv("KAFKA_ADDRESS", "broker.example:9092")
    monkeypatch.setenv("LAKE", (tmp_path / "lake").as_uri())
    return write_project(tmp_path / "project", stores=STORES, more=OTHER_STORES, streams=STREAMS)


def in_an_asset(folder: Path, store: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The client's settings as a user's own asset sees them."""
    definitions = build_ds_definitions(DsProject(folder), resources=given)
    seen = SimpleNamespace(settings={})

    @dg.asset(required_resource_keys={store})
    def mine(context) -> None:  # type: ignore[no-untyped-def]  # Dagster reads annotations, here they are texts
        resource = getattr(context.resources, store)
        assert isinstance(resource, StoreResource)
        seen.settings = resource.client_settings()

    both = dg.Definitions.merge(definitions, dg.Definitions(assets=[mine]))
    both.resolve_implicit_global_asset_job_def().execute_in_process(asset_selection=[mine.key])
    return dict(seen.settings)


def test_one_resource_per_store_of_its_kind(stores: Path) -> None:
    resources = build_ds_definitions(DsProject(stores)).resources or {}
    kinds = {name: type(found) for name, found in resources.items()}
    assert kinds["prod_kafka"] is KafkaStoreResource
    assert kinds["warehouse"] is PostgresStoreResource
    assert kinds["events"] is KinesisStoreResource
    assert kinds["snow"] is SnowflakeStoreResource
    assert kinds["lake"] is DeltaStoreResource
    assert kinds["dbx"] is DatabricksStoreResource
    assert "sqlite" not in kinds, "not declared by anyone"


def test_clients_get_what_create_store_says(stores: Path) -> None:
    assert in_an_asset(stores, "prod_kafka") == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "plaintext",
    }
    assert in_an_asset(stores, "warehouse") == {
        "dsn": "postgresql://localhost:5432/w",
        "user": "someone",
        "password": SECRET,
    }
    assert in_an_asset(stores, "events") == {
        "region_name": "us-west-2",
        "endpoint_url": "http://127.0.0.1:4567",
        "aws_access_key_id": "me",
        "aws_secret_access_key": SECRET,
    }
    assert in_an_asset(stores, "snow") == {
        "account": "myorg-acme",
        "application": "ds_dagster",
        "user": "loader",
        "password": SECRET,
        "warehouse": "WH",
    }
    role = SnowflakeStoreResource(role="ANALYST", warehouse="OTHER_WH")
    found = in_an_asset(stores, "snow", {"snow": role})
    assert (found["role"], found["warehouse"], found["password"]) == ("ANALYST", "OTHER_WH", SECRET)
    bucket = in_an_asset(stores, "bucket")
    assert bucket["root"] == "s3://shop/lake"
    assert bucket["storage_options"]["AWS_SECRET_ACCESS_KEY"] == SECRET
    assert in_an_asset(stores, "lake")["storage_options"] == {}
    dbx = in_an_asset(stores, "dbx")
    assert (dbx["server_hostname"], dbx["http_path"]) == ("dbc-1.cloud.databricks.com", "/sql/1.0/warehouses/abc")
    assert (dbx["access_token"], dbx["enable_telemetry"]) == (SECRET, False)
    principal = DatabricksStoreResource(client_id="me", client_secret=dg.EnvVar("S")).store_values()
    assert principal == {"databricks.client_id": "me", "databricks.client_secret": "${S}"}


def test_a_lakes_tables_are_read_by_name(stores: Path, tmp_path: Path) -> None:
    import deltalake
    import pyarrow

    folder = tmp_path / "lake" / "shop" / "visits"
    folder.mkdir(parents=True)
    deltalake.write_deltalake(folder, pyarrow.table({"n": [1, 2]}))
    resource = DeltaStoreResource().bind(DsProject(stores), "lake")
    assert resource.table("shop/visits").to_pyarrow_table().to_pydict() == {"n": [1, 2]}
    assert resource.storage_options() == {}
    assert resource.probe().ok
    with resource.admin() as admin:
        assert [facts.name for facts in admin.entities()] == ["shop/visits"]


def test_files_of_a_store_in_an_asset(tmp_path: Path) -> None:
    write_project(tmp_path, stores=f"CREATE STORE landing WITH ('type' = S3, 'uris' = '{tmp_path.as_uri()}/raw');")
    folder = tmp_path / "raw" / "orders"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("id\n1\n")
    resource = FilesStoreResource().bind(DsProject(tmp_path), "landing")
    with resource.filesystem().open_input_stream(f"{resource.folder('orders')}/a.csv") as stream:
        assert stream.read() == b"id\n1\n"
    assert RESOURCE_CLASSES["s3"] is FilesStoreResource


def test_a_users_resource_replaces_values(stores: Path) -> None:
    given = {"prod_kafka": KafkaStoreResource(uris=dg.EnvVar("KAFKA_ADDRESS"))}
    assert in_an_asset(stores, "prod_kafka", given)["bootstrap.servers"] == "broker.example:9092"
    literal = {"warehouse": PostgresStoreResource(uris="postgresql://other:5432/x")}
    found = in_an_asset(stores, "warehouse", literal)
    assert (found["dsn"], found["user"]) == ("postgresql://other:5432/x", "someone")


def test_the_overlay_of_local_servers_comes_last(stores: Path) -> None:
    (stores / ".ds").mkdir()
    (stores / ".ds" / "local.toml").write_text('[kinds.kafka]\nuris = "127.0.0.1:7777"\n', encoding="utf-8")
    given = {"prod_kafka": KafkaStoreResource(uris=dg.EnvVar("KAFKA_ADDRESS"))}
    assert in_an_asset(stores, "prod_kafka", given)["bootstrap.servers"] == "127.0.0.1:7777"


def test_a_reference_reaches_the_engine_as_a_reference(stores: Path) -> None:
    """Through the journal's job spec into what the engine compiles; the value is looked up there."""
    values = {"prod_kafka": {"uris": "${KAFKA_ADDRESS}", **LOGIN}}
    project = DsProject(stores).with_store_values(values)
    query = project.project.queries["desktop"]
    text = job_spec(project.project, query).to_json()
    assert "${KAFKA_ADDRESS}" in text
    assert "broker.example" not in text
    spec = JobSpec.from_json(text)
    there, bound = recompiled(spec, load_settings(stores))
    properties = there.catalog.store("prod_kafka").properties
    assert properties["uris"].value == "${KAFKA_ADDRESS}"
    assert properties["kafka.sasl.password"].secret
    assert bound.fingerprint == query.fingerprint, "an address is no part of a query's meaning"
    assert DsProject(stores).project.queries["desktop"].fingerprint == query.fingerprint


def test_environment_variables_become_references(stores: Path) -> None:
    resource = KafkaStoreResource(
        uris="b:1", username="u", password=dg.EnvVar("KAFKA_PASSWORD"), hash_function="SHA512"
    )
    assert resource.store_values() == {"uris": "b:1", **LOGIN}


@pytest.mark.parametrize(
    "resource",
    [
        KafkaStoreResource(password=SECRET),
        KinesisStoreResource(secret_access_key=SECRET),
        PostgresStoreResource(password=SECRET),
        SnowflakeStoreResource(password=SECRET),
        SnowflakeStoreResource(key_passphrase=SECRET),
        SnowflakeStoreResource(oauth_token=SECRET),
        SnowflakeStoreResource(access_token=SECRET),
        DeltaStoreResource(secret_access_key=SECRET),
        DeltaStoreResource(session_token=SECRET),
        DatabricksStoreResource(app_token=SECRET),
        DatabricksStoreResource(client_secret=SECRET),
    ],
)
def test_literal_secrets_are_refused_without_showing_them(stores: Path, resource: StoreResource) -> None:
    with pytest.raises(DsError) as refused:
        build_ds_definitions(DsProject(stores), resources={"prod_kafka": resource})
    assert refused.value.condition == "RESOURCE_LITERAL_SECRET"
    assert SECRET not in str(refused.value)


def test_every_secret_field_is_masked() -> None:
    """What Dagster reads when it decides whether to show a value."""
    secret = {
        "password", "secret_access_key", "session_token", "key_passphrase", "oauth_token", "access_token", "app_token",
        "client_secret", "client_key_password", "tls_client_key",
        "aws_session_token", "aws_iam_external_id",
    }  # fmt: skip
    for kind in RESOURCE_CLASSES.values():
        fields = kind.to_config_schema().as_field().config_type.fields
        assert {name for name, field in fields.items() if field.is_secret} == secret & set(fields)


def test_a_declared_secret_may_stand_in_a_secret_field(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (stores / "sql" / "secrets.sql").write_text(
        "CREATE SECRET pw WITH ('type' = environment, 'variable' = 'OTHER_PW');"
    )
    monkeypatch.setenv("OTHER_PW", "another-" + SECRET)
    given = {"warehouse": PostgresStoreResource(password="${secret:pw}")}
    assert in_an_asset(stores, "warehouse", given)["password"] == "another-" + SECRET
    unknown = {"warehouse": PostgresStoreResource(password="${secret:pv}")}
    found = DsProject(stores).with_store_values({"warehouse": unknown["warehouse"].store_values()})
    assert [problem.condition for problem in found.project.errors] == ["UNKNOWN_SECRET"]
    for literal in ("${secret:pw}x", "${PW:-x}"):
        with pytest.raises(DsError, match="RESOURCE_LITERAL_SECRET"):
            PostgresStoreResource(password=literal).store_values()


def test_an_unknown_store_is_refused_with_the_nearest(stores: Path) -> None:
    with pytest.raises(DsError) as refused:
        build_ds_definitions(DsProject(stores), resources={"prod_kafak": KafkaStoreResource()})
    assert refused.value.condition == "RESOURCE_UNKNOWN_STORE"
    assert "prod_kafka" in str(refused.value)


def test_other_resources_are_left_alone(stores: Path) -> None:
    mine = dg.ResourceDefinition.hardcoded_resource(7)
    resources = build_ds_definitions(DsProject(stores), resources={"anything": mine, "events": mine}).resources or {}
    assert resources["anything"] is mine
    assert resources["events"] is mine, "a user's own kind of resource under a store's name"


def test_a_resource_of_its_own_says_what_is_missing() -> None:
    with pytest.raises(DsError) as refused:
        KafkaStoreResource().client_settings()
    assert refused.value.condition == "RESOURCE_NOT_BOUND"


def test_a_login_given_by_a_resource(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    login = KafkaStoreResource(username="u", password=dg.EnvVar("KAFKA_PASSWORD"), hash_function="SHA512")
    found = in_an_asset(stores, "prod_kafka", {"prod_kafka": login})
    assert (found["sasl.username"], found["sasl.password"], found["sasl.mechanisms"]) == ("u", SECRET, "SCRAM-SHA-512")


def test_a_missing_variable_is_named(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WAREHOUSE_PASSWORD")
    resource = (build_ds_definitions(DsProject(stores)).resources or {})["warehouse"]
    with pytest.raises(DsError) as refused:
        resource.client_settings()
    assert refused.value.condition == "ENVIRONMENT_REFERENCE_MISSING"
    assert "WAREHOUSE_PASSWORD" in str(refused.value)
    (stores / ".env").write_text(f"WAREHOUSE_PASSWORD={SECRET}\n", encoding="utf-8")
    assert resource.client_settings()["password"] == SECRET, "the project's .env, as the engine reads it"
    assert "WAREHOUSE_PASSWORD" not in os.environ


def test_every_property_of_a_store_has_a_field() -> None:
    """The fields come from the property table: none can be forgotten, secrets are masked."""
    kinds = properties_of_stores()
    for found in RESOURCE_CLASSES.values():
        specs = {spec.name: spec for spec in kinds[found.store_kind] if spec.name not in ELSEWHERE}
        named = set(found.property_names.values())
        for spec in specs.values():
            has_field = not named.isdisjoint({spec.name, *spec.aliases})
            assert has_field == (not spec.not_yet), f"{spec.name}: a field, unless the property is refused"
        for field, name in found.property_names.items():
            extra = found.model_fields[field].json_schema_extra
            masked = isinstance(extra, dict) and bool(extra.get("dagster__is_secret"))
            assert masked or name not in specs or not specs[name].secret, (found, field)


def test_a_store_without_a_class_of_its_own_has_all_its_fields() -> None:
    made = plugin_class("CLICKHOUSE" if "CLICKHOUSE" in properties_of_stores() else "SQLITE")
    assert made is not StoreResource
    assert made().store_values() == {}


def test_the_address_of_create_store_is_shown(stores: Path) -> None:
    resources = build_ds_definitions(DsProject(stores)).resources or {}
    assert resources["prod_kafka"].uris == "localhost:9092"
    assert resources["lake"].uris == "${LAKE}", "a reference stays one"
    own = build_ds_definitions(DsProject(stores), resources={"prod_kafka": KafkaStoreResource(uris="other:1")})
    assert (own.resources or {})["prod_kafka"].uris == "other:1"


def test_a_resource_without_a_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a unit test of an asset uses it."""
    monkeypatch.setenv("WAREHOUSE_PASSWORD", SECRET)
    seen = SimpleNamespace(settings={}, folder="")

    @dg.asset
    def mine(warehouse: dg.ResourceParam[PostgresStoreResource], files: dg.ResourceParam[FilesStoreResource]) -> None:
        seen.settings, seen.folder = warehouse.client_settings(), files.folder("a")

    warehouse = PostgresStoreResource(
        uris="postgresql://h:1/w", username="me", password=dg.EnvVar("WAREHOUSE_PASSWORD")
    ).standalone()
    files = FilesStoreResource(uris=tmp_path.as_uri()).standalone()
    assert dg.materialize([mine], resources={"warehouse": warehouse, "files": files}).success
    assert seen.settings == {"dsn": "postgresql://h:1/w", "user": "me", "password": SECRET}
    assert seen.folder == f"{tmp_path}/a"
    with pytest.raises(DsError, match="RESOURCE_NOT_BOUND"):
        StoreResource().standalone()
    with pytest.raises(DsError, match="RESOURCE_LITERAL_SECRET"):
        PostgresStoreResource(password="literal").standalone()
