# ruff: noqa: E501 - expected options stay on one line
"""One declaration of login and TLS in the spellings of both kinds of client."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.credentials import ReadOnlyCredentials

from ds_dagster.catalog.properties.values import PropertyValue, resolve
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.errors import DsError
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings
from ds_dagster.stores.kafka.kind import Kafka
from ds_dagster.stores.kafka.msk import MskSigner, msk_token
from ds_dagster.stores.kafka.security import client_connection, java_connection

ENVIRONMENT = {
    "P": 'quo"te\\back',
    "S": "the secret",
    "KEY": "line of a key\nand another",
}
USER = "'kafka.sasl.username'='ana','kafka.sasl.password'='${P}'"
OAUTH = (
    "'kafka.sasl.hash_function'=OAUTHBEARER,'kafka.sasl.oauth.token_endpoint_url'='https://login/token',"
    "'kafka.sasl.oauth.client_id'='me','kafka.sasl.oauth.client_secret'='${S}'"
)


@pytest.fixture
def store(tmp_path: Path) -> Callable[[str], StoreDefinition]:
    def made(properties: str) -> StoreDefinition:
        settings = Settings(root=tmp_path, sql=tmp_path, state=tmp_path)
        project = compile_texts([("a.sql", f"CREATE STORE k WITH ('type'=KAFKA,'uris'='b:1',{properties});")], settings)
        assert not project.diagnostics, [found.text() for found in project.diagnostics]
        return project.catalog.store("k")

    return made


def plain(options: Any) -> dict[str, str]:
    return {name: resolve(value, ENVIRONMENT, "store k") for name, value in options.items()}


JAVA = [
    ("'access_region'='x'", {"kafka.security.protocol": "PLAINTEXT"}),
    ("'tls.disabled'=FALSE", {"kafka.security.protocol": "SSL"}),
    (
        f"'kafka.sasl.hash_function'=PLAIN,{USER}",
        {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ana" password="quo\\"te\\\\back";',
        },
    ),
    (
        f"'kafka.sasl.hash_function'=SHA256,'tls.disabled'=TRUE,{USER}",
        {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ana" password="quo\\"te\\\\back";',
        },
    ),
    (
        OAUTH + ",'kafka.sasl.oauth.scope'='all','kafka.sasl.oauth.extensions'='logicalCluster=lkc-1, identityPoolId=p'",
        {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": "https://login/token",
            "kafka.sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'clientId="me" clientSecret="the secret" scope="all" extension_logicalCluster="lkc-1" extension_identityPoolId="p";',
        },
    ),
    (
        "'kafka.sasl.hash_function'=AWS_MSK_IAM,'kafka.msk.aws_region'='eu-west-1','kafka.msk.iam_role_arn'='arn:r'",
        {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "AWS_MSK_IAM",
            "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
            "kafka.sasl.jaas.config": 'software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="arn:r" awsStsRegion="eu-west-1";',
        },
    ),
    (
        "'tls.ca_cert'='PEM','tls.client.cert'='CERT','tls.client.key'='${KEY}','tls.verify_server_hostname'=FALSE,"
        "'tls.protocols'='TLSv1.3, TLSv1.2','tls.cipher_suites'='TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'",
        {
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.certificates": "PEM",
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.certificate.chain": "CERT",
            "kafka.ssl.keystore.key": ENVIRONMENT["KEY"],
            "kafka.ssl.endpoint.identification.algorithm": "",
            "kafka.ssl.enabled.protocols": "TLSv1.3,TLSv1.2",
            "kafka.ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "expected"), JAVA)
def test_java(store: Callable[[str], StoreDefinition], properties: str, expected: dict[str, str]) -> None:
    assert plain(java_connection(store(properties))) == {"kafka.bootstrap.servers": "b:1", **expected}


CLIENT = [
    ("'access_region'='x'", {"security.protocol": "plaintext"}),
    (
        f"'kafka.sasl.hash_function'=SHA512,{USER}",
        {"security.protocol": "sasl_ssl", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "ana", "sasl.password": ENVIRONMENT["P"]},
    ),
    (
        OAUTH,
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": "https://login/token",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "the secret",
        },
    ),
    (
        "'tls.client.cert_file'='c.pem','tls.client.key_file'='${KEY_FILE:-k.pem}','tls.verify_server_hostname'=FALSE,"
        "'tls.cipher_suites'='TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_DHE_RSA_WITH_AES_256_GCM_SHA384'",
        {
            "security.protocol": "ssl",
            "ssl.certificate.location": "{root}/c.pem",
            "ssl.key.location": "k.pem",
            "ssl.endpoint.identification.algorithm": "none",
            "ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384",
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "expected"), CLIENT)
def test_librdkafka(
    store: Callable[[str], StoreDefinition], tmp_path: Path, properties: str, expected: dict[str, str]
) -> None:
    found = plain(client_connection(store(properties)))
    assert found == {"bootstrap.servers": "b:1", **{n: t.replace("{root}", str(tmp_path)) for n, t in expected.items()}}


def test_a_key_file_is_read_where_it_is_used(store: Callable[[str], StoreDefinition], tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("CERT\n")
    (tmp_path / "k.pem").write_text("KEY\n")
    made = store("'tls.client.cert_file'='c.pem','tls.client.key_file'='${FOLDER}/k.pem'")
    options = java_connection(made)
    found = {name: resolve(value, {"FOLDER": str(tmp_path)}, "store k") for name, value in options.items()}
    assert (found["kafka.ssl.keystore.certificate.chain"], found["kafka.ssl.keystore.key"]) == ("CERT", "KEY")
    assert options["kafka.ssl.keystore.key"].secret
    with pytest.raises(DsError) as problem:
        resolve(options["kafka.ssl.keystore.key"], {"FOLDER": "/nowhere"}, "store k")
    assert problem.value.condition == "VALUE_FILE_UNREADABLE"
    assert "/nowhere/k.pem" in str(problem.value)


REFUSED = [
    ("'kafka.sasl.hash_function'=OAUTHBEARER,'kafka.sasl.oauth.client_id'='c','kafka.sasl.oauth.client_secret'='${S}'", "STORE_PROPERTY_MISSING", "token_endpoint_url"),
    (f"'kafka.sasl.hash_function'=PLAIN,{USER},'kafka.sasl.oauth.scope'='x'", "STORE_PROPERTIES_CONTRADICT", "OAUTHBEARER"),
    (USER, "STORE_PROPERTIES_CONTRADICT", "PLAIN or SHA256 or SHA512"),
    ("'kafka.sasl.hash_function'=AWS_MSK_IAM,'kafka.msk.aws_region'='r','tls.disabled'=TRUE", "STORE_PROPERTIES_CONTRADICT", "over TLS only"),
    ("'tls.client.cert_file'='c.pem'", "STORE_PROPERTY_MISSING", "tls.client.key_file"),
    ("'tls.client.key_file'='c.key'", "STORE_PROPERTY_MISSING", "tls.client.cert_file"),
    ("'tls.client.key_password'='${P}'", "STORE_PROPERTY_MISSING", "tls.client.key_file"),
    ("'tls.ca_cert'='PEM','tls.ca_cert_file'='ca.pem'", "STORE_PROPERTIES_CONTRADICT", "same certificate"),
    ("'tls.protocols'='TLSv1.0'", "PROPERTY_INVALID", "TLSv1.3"),
    ("'tls.cipher_suites'='RC4'", "PROPERTY_INVALID", "TLS_AES_256_GCM_SHA384"),
    (OAUTH + ",'kafka.sasl.oauth.extensions'='lkc'", "PROPERTY_INVALID", "name=value"),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "condition", "part"), REFUSED)
def test_refused(tmp_path: Path, properties: str, condition: str, part: str) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path, state=tmp_path)
    text = f"CREATE STORE k WITH ('type'=KAFKA,'uris'='b:1',{properties});"
    found = compile_texts([("a.sql", text)], settings).errors
    assert found[0].condition == condition, [one.text() for one in found]
    assert part in found[0].text()
    assert found[0].span is not None


@pytest.mark.parametrize(
    ("properties", "region"),
    [
        ("'kafka.msk.aws_region'='eu-west-1'", "eu-west-1"),
        ("'access_region'='AWS us-west-2'", "us-west-2"),
        ("'url'='b-1.x.y.c2.kafka.us-east-2.amazonaws.com:9098'", "us-east-2"),
    ],
)
def test_region_of_msk(tmp_path: Path, properties: str, region: str) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path, state=tmp_path)
    uris = "" if "'url'" in properties else "'uris'='b:9098',"
    text = f"CREATE STORE k WITH ('type'=KAFKA,{uris}'kafka.sasl.hash_function'=AWS_MSK_IAM,{properties});"
    project = compile_texts([("a.sql", text)], settings)
    assert not project.diagnostics
    found = Kafka().client_settings(project.catalog.store("k"), lambda value: str(value.value))
    assert found["sasl.mechanisms"] == "OAUTHBEARER"
    assert found["oauth_cb"] == MskSigner("k", region)


def test_a_token_of_msk_is_a_signed_request(monkeypatch: pytest.MonkeyPatch) -> None:
    token = msk_token("us-east-1", ReadOnlyCredentials("AKIDEXAMPLE", "secret-key", "session"))
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    asked = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert url.netloc == "kafka.us-east-1.amazonaws.com"
    assert asked["Action"] == "kafka-cluster:Connect"
    assert asked["X-Amz-Credential"].endswith("/us-east-1/kafka-cluster/aws4_request")
    assert (asked["X-Amz-Security-Token"], asked["X-Amz-Expires"], asked["X-Amz-SignedHeaders"]) == (
        "session",
        "900",
        "host",
    )
    assert len(asked["X-Amz-Signature"]) == 64
    assert "secret-key" not in base64.urlsafe_b64decode(token + "==").decode()


def test_without_credentials_the_store_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(DsError) as problem:
        MskSigner("prod", "us-east-1")("")
    assert (problem.value.condition, problem.value.fault.domain) == ("STORE_CREDENTIALS_MISSING", "user")
    assert "prod" in problem.value.message


@pytest.mark.parametrize(
    ("code", "condition", "domain"),
    [
        ("AccessDenied", "STORE_CREDENTIALS_MISSING", "user"),
        ("Throttling", "STORE_CALL_FAILED", "external"),
        ("", "STORE_UNREACHABLE", "external"),
    ],
)
def test_a_role_that_cannot_be_assumed_now_is_no_mistake(
    monkeypatch: pytest.MonkeyPatch, code: str, condition: str, domain: str
) -> None:
    from botocore.client import BaseClient
    from botocore.exceptions import ClientError, EndpointConnectionError

    def refuse(*_: object, **__: object) -> None:
        if not code:
            raise EndpointConnectionError(endpoint_url="https://sts")
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "AssumeRole")

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)
    with pytest.raises(DsError) as problem:
        MskSigner("prod", "us-east-1", "arn:aws:iam::1:role/r")("")
    assert (problem.value.condition, problem.value.fault.domain) == (condition, domain)
    assert "prod" in problem.value.message


def test_nothing_of_a_login_is_shown(store: Callable[[str], StoreDefinition]) -> None:
    made = store(
        "'kafka.sasl.hash_function'=PLAIN,'kafka.sasl.username'='ana','kafka.sasl.password'='${P:-literal-password}'"
    )
    shown = repr(java_connection(made)) + repr(client_connection(made)) + repr(made)
    assert "literal-password" not in shown
    assert isinstance(java_connection(made)["kafka.sasl.jaas.config"], PropertyValue)
