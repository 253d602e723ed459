"""The client of the API: where it takes its credentials and its address from."""

from __future__ import annotations

import socket

import pytest

from ds_dagster.errors import UserError
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.options import Connection
from ds_dagster.spark.kinesis.timing import RetryPolicy


@pytest.mark.servers
def test_no_credentials_anywhere(monkeypatch, tmp_path, kinesalite):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    client = KinesisClient(Connection("us-east-1", kinesalite), RetryPolicy(budget=0.1))
    with pytest.raises(UserError, match="KINESIS_CREDENTIALS_MISSING"):
        client.call("ListStreams", {})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert client.call("ListStreams", {}).body["StreamNames"] is not None, "the default chain is asked again"
    client.close()


def test_endpoint_of_the_region_comes_from_botocore():
    from ds_dagster.spark.kinesis.client import _Signer

    def url(region: str) -> str:
        return _Signer(Connection(region, access_key_id="a", secret_access_key="b")).sign("ListStreams", b"{}")[0]

    assert url("us-east-2") == "https://kinesis.us-east-2.amazonaws.com/"
    assert url("cn-north-1") == "https://kinesis.cn-north-1.amazonaws.com.cn/"


@pytest.mark.servers
def test_the_local_server_outlives_a_client_that_hangs_up(kinesalite, tools):
    """A read that times out, or an engine that is killed, leaves a request without its end."""
    host, port = kinesalite.removeprefix("http://").split(":")
    for _ in range(3):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: kinesis\r\nContent-Length: 9\r\n\r\n{")
    client = KinesisClient(tools.connection_to(kinesalite), RetryPolicy(budget=0.1))
    for _ in range(3):
        assert client.call("ListStreams", {}).body["StreamNames"] is not None
    client.close()
