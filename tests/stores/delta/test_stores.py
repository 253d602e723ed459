"""Declaring and looking at folders and buckets of Delta tables: what is refused, who failed, what is seen."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.datatypes import BIGINT
from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, compile_texts, store_admin
from ds_dagster.settings import Settings
from ds_dagster.stores.delta.admin import DeltaAdmin
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.loader import DeltaLoader
from ds_dagster.stores.registry import KINDS
from tests.driven import Driven
from tests.fixtures.lake import read_lake, s3_bucket

TARGET = TableTarget(("t",), (TableColumn("n", BIGINT, "bigint"),), (), "append", "incremental")
ROWS = pyarrow.table({"n": [1, 2]})
STREAM = "CREATE STREAM events (k VARCHAR, n BIGINT) WITH ('store' = 'm', 'topic' = 'e', 'value.format' = 'json');"
TABLE = "CREATE TABLE visits WITH ('store' = 'lake'{more}) AS SELECT {columns} FROM events;"


def loader_at(address: LakeAddress, *path: str) -> Driven:
    return Driven(DeltaLoader(address, address.place(*path), TARGET, SinkIdentity("j", 1)))


def loaded(address: LakeAddress, *path: str) -> None:
    loader = loader_at(address, *path)
    loader.prepare()
    loader.load(ROWS, 0)


def refused(step: Any) -> DsError:
    with pytest.raises(DsError) as problem:
        step()
    return problem.value


# --- declared ---------------------------------------------------------------------------------------------------------


def compiled(tmp_path: Path, lake: str, more: str = "", columns: str = "k, n") -> LoadedProject:
    text = f"CREATE STORE m WITH ('type' = MEMORY);\nCREATE STORE lake WITH ('type' = DELTA{lake});\n{STREAM}\n"
    text += TABLE.format(more=more, columns=columns)
    return compile_texts([("lake.sql", text)], Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="m"))


def write_spec(project: LoadedProject) -> Any:
    query = project.queries["visits"]
    store = project.catalog.store("lake")
    return KINDS["DELTA"].write_spec(store, query.sink, query.refresh)


S3 = (
    ", 'uris' = 's3://shop/lake', 'aws.access_key_id' = '${KEY}', 'aws.secret_access_key' = '${SECRET}', "
    "'access_region' = 'AWS eu-west-1'"
)


def test_a_table_in_a_bucket(tmp_path: Path) -> None:
    project = compiled(tmp_path, S3, ", 'delta.table.name' = 'web/visits'")
    assert not project.errors
    spec = write_spec(project)
    assert (spec.delivery, spec.table.path, spec.entity) == ("exactly_once", ("web", "visits"), "lake.web/visits")
    store = project.catalog.store("lake")
    assert KINDS["DELTA"].uri(store, project.queries["visits"].sink) == "s3://shop/lake/web/visits"
    settings = KINDS["DELTA"].client_settings(store, lambda value: str(value.value).replace("${SECRET}", "s3cret"))
    assert settings["root"] == "s3://shop/lake"
    assert settings["storage_options"]["AWS_REGION"] == "eu-west-1"
    assert settings["storage_options"]["AWS_SECRET_ACCESS_KEY"] == "s3cret"
    assert "s3cret" not in repr(LakeAddress("lake", "s3://shop", secret_access_key="s3cret", session_token="s3cret"))


@pytest.mark.parametrize(
    ("lake", "condition", "part"),
    [
        ("", "STORE_PROPERTY_MISSING", "uris"),
        (", 'uris' = '/tmp/lake'", "PROPERTY_INVALID", "file:///absolute/folder"),
        (", 'uris' = 'file://lake'", "PROPERTY_INVALID", "file:///absolute/folder"),
        (", 'uris' = 'gs://bucket/lake'", "PROPERTY_INVALID", "s3://bucket/prefix"),
        (", 'uris' = 's3://me:pass@bucket/lake'", "PROPERTY_INVALID", "s3://bucket/lake"),
        (", 'uris' = 's3://b/l', 'aws.access_key_id' = 'k'", "STORE_PROPERTY_MISSING", "aws.secret_access_key"),
        (", 'uris' = 's3://b/l', 'aws.endpoint_url' = 'minio:9000'", "PROPERTY_INVALID", "http(s)://host:port"),
        (", 'uris' = 's3://b/l', 'postgres.username' = 'me'", "PROPERTY_OF_OTHER_STORE", "postgres.username"),
    ],
)
def test_stores_that_cannot_be(tmp_path: Path, lake: str, condition: str, part: str) -> None:
    errors = compiled(tmp_path, lake).errors
    assert errors[0].condition == condition
    assert part in errors[0].text()
    assert ":pass@" not in errors[0].message + errors[0].hint, "the fragment beside it is the user's own line"


@pytest.mark.parametrize("name", ["a//b", "_delta", "../up", ".hidden", "a/"])
def test_table_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    (problem,) = compiled(tmp_path, S3, f", 'delta.table.name' = '{name}'").errors
    assert problem.condition == "ENTITY_NAME_INVALID"
    assert problem.span is not None


def test_column_names_that_cannot_be(tmp_path: Path) -> None:
    (problem,) = compiled(tmp_path, S3, columns='k AS "two words", n, n AS "N"').errors
    assert problem.condition == "TARGET_COLUMN_NAME_INVALID"
    assert "two words, n, N" in problem.message


@pytest.mark.parametrize(
    "written", ["'delta.table.name' = 'a/b'", "'databricks.schema.name' = 's', 'table.data.file.location' = 's3://b/t'"]
)
def test_cases_keep_such_tables_in_memory(tmp_path: Path, written: str) -> None:
    text = f"CREATE STORE m WITH ('type' = MEMORY); CREATE STORE lake WITH ('type' = MEMORY); {STREAM}"
    text += TABLE.format(more=f", {written}", columns="k, n")
    project = compile_texts([("case.sql", text)], Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="m"))
    assert not project.errors


def test_a_table_is_no_stream(tmp_path: Path) -> None:
    project = compiled(tmp_path, S3)
    store, sink = project.catalog.store("lake"), project.queries["visits"].sink
    problem = refused(lambda: KINDS["DELTA"].read_spec(store, sink, None, None))  # type: ignore[arg-type]
    assert problem.condition == "STORE_NOT_A_SOURCE"


def test_a_reference_is_looked_into_where_it_is_resolved(tmp_path: Path) -> None:
    project = compiled(tmp_path, ", 'uris' = '${LAKE}'")
    assert not project.errors
    assert refused(lambda: store_admin(project, "lake", lambda value: "gs://b/c")).condition == "PROPERTY_INVALID"
    admin = store_admin(project, "lake", lambda value: tmp_path.as_uri())
    assert admin.probe().ok


def test_a_missing_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    problem = refused(loader_at(LakeAddress("lake", tmp_path.as_uri()), "t").prepare)
    assert problem.condition == "STORE_DRIVER_MISSING"
    assert "pip install deltalake" in problem.hint


# --- a folder ---------------------------------------------------------------------------------------------------------


def test_tables_of_a_folder(tmp_path: Path) -> None:
    address = LakeAddress("lake", (tmp_path / "lake").as_uri())
    admin = DeltaAdmin("lake", {"url": address.url})
    assert admin.probe().ok, "it is made by the first load"
    assert (admin.entities(), admin.describe("shop/t")) == ([], None)
    loaded(address, "shop", "t")
    loaded(address, "u")
    assert [facts.name for facts in admin.entities()] == ["shop/t", "u"]
    facts = admin.describe("shop/t")
    assert facts is not None
    assert facts.size == 2
    assert admin.ensure(EntityPlan("later")).size == 0
    assert admin.end_reached("u", {}) == 0
    problem = refused(lambda: admin.records("u", from_beginning=True, limit=1, stopped=lambda: True))
    assert problem.condition == "STORE_NOT_A_SOURCE"
    admin.close()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    address = LakeAddress("lake", (tmp_path / "file").as_uri())
    assert refused(loader_at(address, "t").prepare).condition == "STORE_FOLDER_INVALID"
    answer = DeltaAdmin("lake", {"url": address.url}).probe()
    assert not answer.ok
    assert answer.hint


@pytest.mark.parametrize(
    ("problem", "condition", "domain"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "DISK_FULL", "external"),
        (OSError(errno.EACCES, "Permission denied"), "STORE_PERMISSION_DENIED", "user"),
        (OSError("Generic S3 error … 503 Service Unavailable"), "STORE_UNREACHABLE", "external"),
        (OSError("… PUT http://169.254.169.254/latest/api/token …"), "STORE_LOGIN_REFUSED", "user"),
        (OSError("something new"), "STORE_CALL_FAILED", "external"),
    ],
)
def test_failures_that_are_hard_to_bring_about(problem: OSError, condition: str, domain: str) -> None:
    found = LakeAddress("lake", "s3://b/l", secret_access_key="s3cret").failure(problem, "load a batch", "t", 3)
    assert (found.condition, found.fault.domain) == (condition, domain)
    assert "{" not in found.message + found.hint


# --- a bucket ---------------------------------------------------------------------------------------------------------

BUCKET = "shop-lake"
SETUP_CALLS = 7
"""Of :func:`made_users`; the server checks all that come after."""


@pytest.fixture
def grants() -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Settings of a user who may do everything, of one who may read, and of nobody, on an S3 that checks them."""
    from moto import settings
    from moto.core.responses import ActionAuthenticatorMixin
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(settings, "INITIAL_NO_AUTH_ACTION_COUNT", SETUP_CALLS)
            patched.setattr(ActionAuthenticatorMixin, "request_count", 0)
            yield made_users("http://{}:{}".format(*server.get_host_and_port()))
    finally:
        server.stop()


def made_users(endpoint: str) -> dict[str, dict[str, str]]:
    import boto3

    given = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    given |= {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    boto3.client("s3", **given).create_bucket(Bucket=BUCKET)
    iam = boto3.client("iam", **given)
    found = {}
    for name, actions in (("writer", ["s3:*"]), ("reader", ["s3:GetObject", "s3:ListBucket"])):
        iam.create_user(UserName=name)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
        found[name] = {
            "url": f"s3://{BUCKET}/tables",
            "endpoint_url": endpoint,
            "access_key_id": key["AccessKeyId"],
            "secret_access_key": key["SecretAccessKey"],
        }
    return found


@pytest.mark.servers
def test_grants_and_addresses_of_a_bucket(grants: Mapping[str, Mapping[str, str]]) -> None:
    """In one test: the server counts its calls without checks, then checks all."""
    writer, reader = grants["writer"], grants["reader"]
    wrong: list[tuple[Mapping[str, str], str, str]] = [
        ({**writer, "secret_access_key": "marked-secret"}, "STORE_LOGIN_REFUSED", "user"),
        ({**writer, "access_key_id": "nobody"}, "STORE_LOGIN_REFUSED", "user"),
        (reader, "STORE_PERMISSION_DENIED", "user"),
        ({**writer, "url": "s3://no-such-bucket/x"}, "STORE_BUCKET_MISSING", "user"),
        ({**writer, "endpoint_url": "http://127.0.0.1:1"}, "STORE_UNREACHABLE", "external"),
    ]
    address = LakeAddress.of("lake", writer)
    loaded(address, "t")
    for settings, condition, domain in wrong:
        problem = refused(lambda settings=settings: loaded(LakeAddress.of("lake", settings), "other"))
        assert (problem.condition, problem.fault.domain) == (condition, domain), settings
        assert "marked-secret" not in f"{problem} {problem.detail} {problem.params}"
        if settings is not reader:
            answer = DeltaAdmin("lake", settings).probe()
            assert not answer.ok, settings
            assert answer.hint
    admin = DeltaAdmin("lake", writer)
    assert [facts.name for facts in admin.entities()] == ["t"]
    facts = admin.describe("t")
    assert facts is not None
    assert facts.size == 2
    assert [row["n"] for row in admin.address.table(address.place("t")).to_pyarrow_table().to_pylist()] == [1, 2]
    assert DeltaAdmin("lake", reader).probe().ok


@pytest.mark.servers
def test_a_bucket_that_goes_away_and_comes_back() -> None:
    from moto.server import ThreadedMotoServer

    with s3_bucket("away") as settings:
        address = LakeAddress.of("lake", settings)
        loader = loader_at(address, "t")
        loader.prepare()
        loader.load(ROWS, 0)
    problem = refused(lambda: loader.load(ROWS, 1))
    assert (problem.condition, problem.fault.domain) == ("STORE_UNREACHABLE", "external")
    port = int(address.endpoint_url.rpartition(":")[2])
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)  # what was stored is in this process
    server.start()
    try:
        assert loader.load(ROWS, 0).replayed
        assert not loader.load(ROWS, 1).replayed
        assert len(read_lake(address, address.place("t"))) == 4
    finally:
        server.stop()


@pytest.mark.servers
def test_a_full_refresh_in_a_bucket_leaves_no_folder(s3_settings: Mapping[str, str]) -> None:
    address = LakeAddress.of("lake", s3_settings)
    target = TableTarget(("full",), TARGET.columns, (), "append", "full")
    loader = Driven(DeltaLoader(address, address.place("full"), target, SinkIdentity("j", 1)))
    loader.prepare()
    loader.load(ROWS, 0)
    assert loader.finish() == 2
    assert address.folders(address.place("full")) == ["_delta_log"]
    assert sorted(row["n"] for row in read_lake(address, address.place("full"))) == [1, 2]
