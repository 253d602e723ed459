# ruff: noqa: E501 - cases stay on one line
"""What people get wrong about a secured broker, each provoked on a real one: condition, whose fault, what to change.

Run by conformance/test_secured_kafka.py, whose broker it is.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping

import pytest

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.properties.values import PropertyValue, resolve
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError
from ds_dagster.sql.statements import Origin
from ds_dagster.stores.kafka import wire as kafka_wire
from ds_dagster.stores.kafka.kind import Kafka
from tests.secured_kafka import (
    CLIENT_SECRET,
    LOGIN_NAMES,
    PASSWORD,
    POOR,
    POOR_PASSWORD,
    SecuredKafka,
)


def admin(properties: Mapping[str, str]):
    booleans = {"true": True, "false": False}
    values = {name: PropertyValue(booleans.get(value, value)) for name, value in properties.items()}
    store = StoreDefinition("prod", "KAFKA", Span("a.sql", 1), Origin(Span("a.sql", 1), ""), values)
    assert not list(Kafka().check_store(store))
    return Kafka().admin(store, lambda value: resolve(value, {}, "store prod"))


def without(properties: Mapping[str, str], beginning: str) -> dict[str, str]:
    return {name: value for name, value in properties.items() if not name.startswith(beginning)}


@pytest.mark.parametrize("login", LOGIN_NAMES)
def test_every_login_controls(broker: SecuredKafka, login: str) -> None:
    made = admin(broker.logins()[login])
    assert made.probe().ok
    topic = "t_" + login.replace(" ", "_")
    plan = EntityPlan(topic, {"topic.partitions": 3, "topic.replicas": 1}, {"segment.bytes": "1048576"}, "db.public.r")
    assert made.ensure(plan).settings == {"segment.bytes": "1048576"}
    assert topic in [facts.name for facts in made.entities()]
    assert list(made.records(topic, from_beginning=True, limit=3, stopped=lambda: False)) == []
    assert made.end_reached(topic, {}) == 0


def cases(broker: SecuredKafka) -> Mapping[str, tuple[dict[str, str], str, str]]:
    """Name → properties, condition, what the hint or the message says."""
    user, tls = broker.user("plain"), {"tls.ca_cert_file": str(broker.authority.file)}
    certificate, key = broker.stranger.issue("stranger")
    localhost = broker.address("login").replace("127.0.0.1", "localhost")
    clear = broker.clear()
    foreign = {"tls.client.cert_file": str(certificate), "tls.client.key_file": str(key)}
    return {
        "wrong password": ({**user, "kafka.sasl.password": "wrong-one"}, "STORE_LOGIN_REFUSED", "ana"),
        "wrong password of SCRAM": (broker.user("sha512", password="wrong-one"), "STORE_LOGIN_REFUSED", "ana"),
        "wrong client secret": (broker.oauth("wrong-one"), "STORE_LOGIN_REFUSED", "oauth-client"),
        "another authority": (
            {**user, "tls.ca_cert_file": str(broker.stranger.file)}, "STORE_TLS_FAILED", "tls.ca_cert_file"
        ),
        "no authority": (without(user, "tls."), "STORE_TLS_FAILED", "tls.ca_cert_file"),
        "another host name": ({**user, "uris": localhost}, "STORE_TLS_FAILED", "tls.verify_server_hostname"),
        "no client certificate": (
            {"uris": broker.address("mutual"), **tls}, "STORE_TLS_FAILED", "require a client certificate"
        ),
        "a foreign certificate": ({**broker.mutual(), **foreign}, "STORE_TLS_FAILED", "refuse the client's certificate"),
        "no certificate in the file": ({**user, "tls.ca_cert_file": str(key)}, "STORE_TLS_FAILED", "tls.ca_cert_file"),
        "the wrong password of the key": (
            {**broker.mutual_by_text(), "tls.client.key_password": "wrong"}, "STORE_TLS_FAILED", "tls.client.key_password"
        ),
        "plain text to a TLS port": (
            {"uris": broker.address("mutual"), "tls.disabled": "true"}, "STORE_PROTOCOL_DIFFERS", "'tls.disabled'"
        ),
        "TLS to a plain port": ({"uris": broker.plain, **tls}, "STORE_PROTOCOL_DIFFERS", "'tls.disabled' = TRUE"),
        "no login to a port with logins": (
            {"uris": broker.address("clear"), "tls.disabled": "true"}, "STORE_PROTOCOL_DIFFERS", "SHA512"
        ),
        "a login to a port without": ({**clear, "uris": broker.plain}, "STORE_PROTOCOL_DIFFERS", "no login"),
        "a mechanism the port lacks": (
            {**clear, "kafka.sasl.hash_function": "plain"}, "STORE_PROTOCOL_DIFFERS", "'kafka.sasl.hash_function' = SHA512"
        ),
    }  # fmt: skip


NAMES = (
    "wrong password", "wrong password of SCRAM", "wrong client secret", "another authority", "no authority",
    "another host name", "no client certificate", "a foreign certificate", "no certificate in the file",
    "the wrong password of the key", "plain text to a TLS port", "TLS to a plain port", "no login to a port with logins",
    "a login to a port without", "a mechanism the port lacks",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_are_the_users(broker: SecuredKafka, name: str) -> None:
    properties, condition, part = cases(broker)[name]
    with pytest.raises(DsError) as problem:
        admin(properties).describe("clicks")
    assert (problem.value.condition, problem.value.fault.hint) == (condition, "never"), str(problem.value)
    text = str(problem.value)
    assert part in text
    assert "prod" in problem.value.message
    assert properties["uris"] in problem.value.message
    assert not any(secret in text for secret in (PASSWORD, CLIENT_SECRET, "wrong-one"))


def test_all_cases_are_run(broker: SecuredKafka) -> None:
    assert set(cases(broker)) == set(NAMES)


def test_the_host_name_may_be_left_unchecked(broker: SecuredKafka) -> None:
    localhost = broker.address("login").replace("127.0.0.1", "localhost")
    assert admin({**broker.user("plain"), "uris": localhost, "tls.verify_server_hostname": "false"}).probe().ok


def test_a_missing_grant(broker: SecuredKafka) -> None:
    made = admin(broker.user("sha256", POOR, POOR_PASSWORD))
    for call, action in (
        (lambda: made.describe("clicks"), "describe the topic clicks"),
        (lambda: made.ensure(EntityPlan("clicks", {"topic.partitions": 1}, {})), "topic clicks"),
    ):
        with pytest.raises(DsError) as problem:
            call()
        assert (problem.value.condition, problem.value.fault.hint) == ("STORE_PERMISSION_DENIED", "never")
        assert (POOR in problem.value.message, action in problem.value.message) == (True, True)


def test_who_does_not_answer_is_asked_again(broker: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ds_dagster.stores.kafka.admin.CALL_SECONDS", 2.0)
    gone = {**broker.oauth(), "kafka.sasl.oauth.token_endpoint_url": "http://127.0.0.1:1/token"}
    for properties, address in (
        ({**broker.user("plain"), "uris": "127.0.0.1:1"}, "127.0.0.1:1"),
        (gone, "http://127.0.0.1:1/token"),
    ):
        with pytest.raises(DsError) as problem:
            admin(properties).describe("clicks")
        assert (problem.value.condition, problem.value.fault.hint) == ("STORE_UNREACHABLE", "back_off")
        assert address in problem.value.message


def test_listeners_say_what_they_speak(broker: SecuredKafka) -> None:
    ports = {name: int(broker.address(name).rpartition(":")[2]) for name in ("plain", "login", "mutual", "clear")}
    spoken = {name: kafka_wire.mechanisms("127.0.0.1", port) for name, port in ports.items()}
    assert spoken == {"plain": (), "login": None, "mutual": None, "clear": ("SCRAM-SHA-512",)}
    assert {name for name, port in ports.items() if kafka_wire.speaks_tls("127.0.0.1", port)} == {"login", "mutual"}


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x0b\0\0\0\0\0\0\0\0\0\0\0"])
def test_who_speaks_something_else_is_no_broker(answer: bytes) -> None:
    """A server that closes, a web server, an answer to somebody else's question."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert kafka_wire.mechanisms("127.0.0.1", server.getsockname()[1]) is None
        thread.join()
