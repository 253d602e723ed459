"""Values of declared secrets where they are read; AWS by its API on a server of this process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ds_dagster.catalog.properties.secret_types import SecretType
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.secret import SecretDefinition
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, ExternalError, UserError
from ds_dagster.sql.statements import Origin
from ds_dagster.stores import secret_values
from ds_dagster.stores.secret_values import SecretBook, forget

HERE = Span("a.sql", 1)
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


def secret(type_: SecretType, **values: str) -> Mapping[str, SecretDefinition]:
    properties = {name.replace("__", "."): PropertyValue(value) for name, value in values.items()}
    return {"s": SecretDefinition("s", type_, HERE, Origin(HERE, ""), MappingProxyType(properties))}


def refused(book: SecretBook) -> DsError:
    with pytest.raises(DsError) as problem:
        book("s", "store pg")
    return problem.value


def test_environment() -> None:
    secrets = secret("environment", variable="PW")
    assert SecretBook(secrets, {"PW": "x"})("s", "store pg") == "x"
    for environment in ({}, {"PW": ""}):
        problem = refused(SecretBook(secrets, environment))
        assert problem.condition == "SECRET_MISSING"
        assert isinstance(problem, UserError)
        assert {"s", "PW", "store pg"} <= {*problem.message.replace("(", " ").replace(")", " ").split(), "store pg"}


def test_a_file_without_its_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "password"
    book = SecretBook(secret("file", secret_file=str(path)), {})
    assert refused(book).condition == "VALUE_FILE_UNREADABLE"
    path.write_text("\n")
    assert refused(book).condition == "SECRET_MISSING"
    path.write_text(" pass word \r\n")
    assert book("s", "store pg") == " pass word "


def test_a_rotated_value_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("one\n")
    book = SecretBook(secret("file", secret_file=str(path)), {})
    assert book("s", "store pg") == "one"
    assert book.changed({}) == ()
    path.write_text("two\n")
    assert book.changed({}) == ("s",)
    assert book("s", "store pg") == "two"
    assert book.changed({}) == ("s",), "what was read first is still used"
    path.unlink()
    assert book.changed({}) == (), "the next start says what is wrong"


def test_a_literal_and_an_unknown_name() -> None:
    assert SecretBook(secret("generic_string", secret_string="${A:-x}y"), {})("s", "store pg") == "xy"
    assert refused(SecretBook({}, {})).condition == "UNKNOWN_SECRET"


def test_the_book_shows_names_only() -> None:
    book = SecretBook(secret("environment", variable="PW"), {"PW": "marked-value"})
    book("s", "store pg")
    assert "marked-value" not in repr(book)


# AWS Secrets Manager


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def manager(endpoint: str) -> Iterator[Any]:
    import boto3

    forget()
    client = boto3.client(
        "secretsmanager",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    yield client
    for found in client.list_secrets()["SecretList"]:
        client.delete_secret(SecretId=found["ARN"], ForceDeleteWithoutRecovery=True)
    client.close()


def book_of(endpoint: str, environment: Mapping[str, str] = KEYS, **more: str) -> SecretBook:
    values = {"secret_id": "prod/db", "access_region": "us-east-1", "aws__endpoint_url": endpoint, **more}
    return SecretBook(secret("aws_secrets_manager", **values), environment)


def test_aws_text_field_and_version(endpoint: str, manager: Any) -> None:
    arn = manager.create_secret(Name="prod/db", SecretString=json.dumps({"password": "one", "port": 5432}))["ARN"]
    assert json.loads(book_of(endpoint)("s", "store pg")) == {"password": "one", "port": 5432}
    assert book_of(endpoint, json_key="password")("s", "store pg") == "one"
    assert book_of(endpoint, json_key="port")("s", "store pg") == "5432"
    manager.put_secret_value(SecretId="prod/db", SecretString=json.dumps({"password": "two"}))
    assert book_of(endpoint, json_key="password", version_stage="AWSPREVIOUS")("s", "store pg") == "one"
    assert book_of(endpoint, secret_id=arn, json_key="password")("s", "store pg") == "two"


def test_aws_is_asked_again_after_a_while_or_a_refused_login(
    endpoint: str, manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.create_secret(Name="prod/db", SecretString="one")
    book = book_of(endpoint)
    assert book("s", "store pg") == "one"
    manager.put_secret_value(SecretId="prod/db", SecretString="two")
    assert book("s", "store pg") == "one", "kept"
    assert book.changed(KEYS) == ("s",)
    assert book("s", "store pg") == "two"
    manager.put_secret_value(SecretId="prod/db", SecretString="three")
    now = secret_values.time.monotonic()
    monkeypatch.setattr(secret_values.time, "monotonic", lambda: now + secret_values.KEEP_SECONDS + 1)
    assert book("s", "store pg") == "three"


def test_aws_binary(endpoint: str, manager: Any) -> None:
    manager.create_secret(Name="prod/db", SecretBinary="grün".encode())
    assert book_of(endpoint)("s", "store pg") == "grün"
    forget()
    manager.put_secret_value(SecretId="prod/db", SecretBinary=b"\xff\xfe")
    assert refused(book_of(endpoint)).condition == "SECRET_MISSING"


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("plain", "password", "not a valid JSON object"),
        ("[1]", "password", "not a valid JSON object"),
        ("{}", "password", "no field"),
    ],
)
def test_aws_without_the_field(endpoint: str, manager: Any, text: str, key: str, reason: str) -> None:
    manager.create_secret(Name="prod/db", SecretString=text)
    problem = refused(book_of(endpoint, json_key=key))
    assert problem.condition == "SECRET_MISSING"
    assert reason in problem.message


def test_aws_says_who_is_at_fault(endpoint: str, manager: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "nowhere")
    missing = refused(book_of(endpoint))
    assert (missing.condition, isinstance(missing, UserError)) == ("SECRET_MISSING", True)
    assert "prod/db" in missing.message
    for environment in ({}, {"AWS_PROFILE": "nobody"}):
        denied = refused(book_of(endpoint, environment))
        assert (denied.condition, isinstance(denied, UserError)) == ("SECRET_DENIED", True)
    gone = refused(book_of("http://127.0.0.1:9"))
    assert (gone.condition, isinstance(gone, ExternalError)) == ("SECRET_UNREACHABLE", True)


@pytest.mark.parametrize(
    ("code", "condition"), [("AccessDeniedException", "SECRET_DENIED"), ("ThrottlingException", "SECRET_UNREACHABLE")]
)
def test_aws_codes_a_local_server_does_not_give(
    endpoint: str, manager: Any, monkeypatch: pytest.MonkeyPatch, code: str, condition: str
) -> None:
    from botocore.client import BaseClient
    from botocore.exceptions import ClientError

    def refuse(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "GetSecretValue")

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)
    assert refused(book_of(endpoint)).condition == condition
