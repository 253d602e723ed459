"""Roles and profiles: moto's security token service, with credentials that have to be renewed while a job runs."""

from __future__ import annotations

import http.client
import re
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from ds_dagster.aws_session import aws_client
from ds_dagster.errors import DsError, ExternalError, UserError
from ds_dagster.spark.kinesis.client import KinesisClient
from ds_dagster.spark.kinesis.cursor import stream_summary
from ds_dagster.spark.kinesis.options import Connection
from ds_dagster.stores.kinesis.admin import KinesisAdmin

pytestmark = pytest.mark.servers
ROLE = "arn:aws:iam::123456789012:role/reader"


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def hasty(moto: str) -> Iterator[str]:
    """The same service, whose credentials end in a minute: botocore renews them before every request."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            connection = http.client.HTTPConnection(moto.removeprefix("http://"), timeout=20)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append(body.decode())
            connection.request("POST", "/", body, dict(self.headers))
            answer = connection.getresponse()
            text = re.sub(rb"<Expiration>[^<]*", b"<Expiration>" + soon(), answer.read())
            connection.close()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    def soon() -> bytes:
        from datetime import datetime, timedelta, timezone

        return (datetime.now(timezone.utc) + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ").encode()

    bodies: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.bodies = bodies  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    yield url
    server.shutdown()
    server.server_close()
    thread.join()
    assert all("RoleSessionName=ds-dagster" in body for body in bodies)


def connection(url: str, sts: str, **more: str) -> Connection:
    keys = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "s3cr3t"}
    return Connection("us-east-1", url, role_arn=ROLE, sts_endpoint_url=sts, **{**keys, **more})


def enforce(moto: str, after: int) -> None:
    """From the n-th request on the service knows nobody."""
    request = urllib.request.Request(f"{moto}/moto-api/reset-auth", str(after).encode(), {"Content-Type": "text/plain"})
    urllib.request.urlopen(request).close()


def test_a_reader_works_as_the_role_and_renews_its_credentials(stream, proxy, hasty, read_from, tools):
    stream.put(tools.numbered(30))
    batches = read_from(stream, proxy.url, connection=connection(proxy.url, hasty))
    batches.until(30)
    assert len(set(proxy.keys)) > 2, "a new session key as soon as the old one is about to end"
    assert all(key.startswith("ASIA") for key in proxy.keys), "never the key that assumes the role"
    assert "s3cr3t" not in repr(batches.options)


def test_control_works_as_the_role_with_its_external_id(stream, proxy, moto, hasty):
    settings = {
        "region_name": "us-east-1",
        "endpoint_url": proxy.url,
        "aws_access_key_id": "AKIDEXAMPLE",
        "aws_secret_access_key": "s3cr3t",
        "role_arn": ROLE,
        "external_id": "tenant-7",
        "sts_endpoint_url": hasty,
    }
    assert KinesisAdmin("s", settings).describe(stream.name) is not None
    assert aws_client("kinesis", settings).describe_stream_summary(StreamName=stream.name)
    assert all(key.startswith("ASIA") for key in proxy.keys)
    once = {**settings, "sts_endpoint_url": moto}
    client = aws_client("kinesis", once)
    before = len(proxy.keys)
    for _ in range(3):
        client.describe_stream_summary(StreamName=stream.name)
    assert len(set(proxy.keys[before:])) == 1, "an hour's credentials serve for all of it"


def test_a_profile_of_the_machine_assumes_the_role(stream, proxy, moto, monkeypatch, tmp_path: Path):
    (tmp_path / "config").write_text("[profile ops]\naws_access_key_id = AKIDOPS\naws_secret_access_key = x\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    plain = Connection("us-east-1", proxy.url, profile="ops")
    client = KinesisClient(plain)
    assert stream_summary(client, stream.name)
    assert proxy.keys == ["AKIDOPS"]
    client = KinesisClient(Connection("us-east-1", proxy.url, profile="ops", role_arn=ROLE, sts_endpoint_url=moto))
    assert stream_summary(client, stream.name)
    assert proxy.keys[-1].startswith("ASIA")
    with pytest.raises(UserError) as absent:
        stream_summary(KinesisClient(Connection("us-east-1", proxy.url, profile="nobody")), stream.name)
    assert absent.value.condition == "KINESIS_CREDENTIALS_MISSING" and "nobody" in absent.value.detail


def test_a_role_that_may_not_be_assumed_is_the_users_mistake(stream, kinesalite, moto, tools):
    enforce(moto, after=0)
    try:
        with pytest.raises(UserError) as refused:
            stream_summary(KinesisClient(connection(kinesalite, moto)), stream.name)
        assert refused.value.condition == "KINESIS_ROLE_REFUSED" and refused.value.params["role"] == ROLE
        settings = {"region_name": "us-east-1", "endpoint_url": kinesalite, "role_arn": ROLE, "sts_endpoint_url": moto}
        keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "s3cr3t"}
        with pytest.raises(DsError) as control:
            KinesisAdmin("s", {**settings, **keys}).describe(stream.name)
        assert control.value.condition == "KINESIS_ROLE_REFUSED"
    finally:
        enforce(moto, after=1_000_000)
    dead = f"http://127.0.0.1:{tools.free_port()}"
    with pytest.raises(ExternalError, match="KINESIS_CREDENTIALS_UNREACHABLE"):
        stream_summary(KinesisClient(connection(kinesalite, dead)), stream.name)
