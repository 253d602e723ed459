"""Failures between librdkafka and the brokers → conditions that name the property to change.

librdkafka reports the reason of a failed connection in events, as text; a call itself only times out. If the text
leaves two causes open, we send the brokers a few bytes of our own (``wire.py``): then a wrong property is certainly a
mistake of the user, a silent server is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ds_dagster.errors import DsError, error
from ds_dagster.stores.kafka import wire as kafka_wire
from ds_dagster.stores.kafka.security import HASH_FUNCTION, LOGINS
from ds_dagster.stores.tls import REFUSED_CERTIFICATE

LOGIN_ERRORS = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "ILLEGAL_SASL_STATE", "UNSUPPORTED_SASL_MECHANISM")
PERMISSION_ERRORS = (
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)
UNREACHABLE_ERRORS = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE", "_SSL", "_TIMED_OUT_QUEUE")
TLS_PROTOCOLS = ("ssl", "sasl_ssl")
Config = Mapping[str, Any]
Told = Sequence[tuple[str, str]]
"""(name, text) of librdkafka's events."""

_NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token"
_TOKEN_REFUSED = re.compile(r'"error"|invalid_client|unauthorized|HTTP response code (?!5)')
_OTHER_MECHANISMS = re.compile(r"Unsupported SASL mechanism: broker's supported mechanisms: (\S+)")
_NO_LOGIN_THERE = "Request not valid in current SASL state"
_NOTHING_COMMON = re.compile(
    r"alert (protocol version|handshake failure|insufficient security)|no shared cipher|unsupported protocol"
)
_FILES: Mapping[str, str] = MappingProxyType(
    {
        "ssl.ca": "'tls.ca_cert_file' (or 'tls.ca_cert') has to be a PEM certificate",
        "ssl.certificate": "'tls.client.cert_file' (or 'tls.client.cert') has to be a PEM certificate with its chain",
        "ssl.key": "'tls.client.key_file' (or 'tls.client.key') has to be a PEM key in PKCS #8, opened by "
        "'tls.client.key_password' if it is locked; openssl pkcs8 -topk8 converts older forms",
        "ssl.cipher.suites": "correct 'tls.cipher_suites'",
    }
)
"""Beginning of a librdkafka property → fix for its value."""


def failure(store: str, config: Config, problem: Any, action: str, log_lines: Told, seconds: int = 0) -> DsError:
    """The condition of a call that failed.

    Args:
        store: name of the store.
        config: of the client; messages show only user and addresses of it.
        problem: librdkafka's error.
        action: the attempted action, for the message.
        log_lines: errors that the client's events have reported so far.
        seconds: how long the store has not answered, 0 to leave it out.
    """
    name, detail = problem.name(), str(problem.str())
    user = user_of(config)
    cause = diagnosis(store, config, log_lines) if name in (*UNREACHABLE_ERRORS, *LOGIN_ERRORS) else None
    if cause is not None:
        return cause
    if name in LOGIN_ERRORS:
        return error("STORE_LOGIN_REFUSED", store=store, address=address_of(config), user=user, detail=detail)
    if name in PERMISSION_ERRORS:
        return error("STORE_PERMISSION_DENIED", store=store, user=user, action=action, detail=detail)
    if name in UNREACHABLE_ERRORS:
        last = log_lines[-1][1] if log_lines else detail
        detail = f"{last}; for {seconds} s" if seconds else last
        return error("STORE_UNREACHABLE", store=store, address=address_of(config), detail=detail)
    return error("STORE_CALL_FAILED", store=store, action=action, detail=f"{name}: {detail}")


def not_made(store: str, config: Config, problem: Any) -> DsError:
    """The condition if librdkafka cannot create a client: a certificate or key is not readable."""
    detail = str(problem.str())
    known_fix = next((fix for name, fix in _FILES.items() if f"{name}." in detail or f"{name} " in detail), None)
    if known_fix is None:
        return error("STORE_CALL_FAILED", store=store, action="create a client", detail=detail)
    reason = "a certificate or key cannot be read"
    return _tls_failed(store, config, reason, known_fix, detail)


def diagnosis(store: str, config: Config, log_lines: Told) -> DsError | None:
    """The user's mistake that prevents an answer; None if the server may just be down."""
    for name, text in log_lines:
        rule = _of_login if name in LOGIN_ERRORS else _of_tls
        problem = rule(store, config, text)
        if problem is not None:
            return problem
    return _of_protocol(store, config) if log_lines else None


def user_of(config: Config) -> str:
    """The user that logs in, for messages."""
    user = config.get("sasl.username") or config.get("sasl.oauthbearer.client.id")
    if user:
        return str(user)
    certified = any(name.startswith("ssl.certificate") for name in config)
    return "(the role of the engine)" if "oauth_cb" in config else "(the certificate)" if certified else "(no user)"


def address_of(config: Config) -> str:
    """Bootstrap servers."""
    return str(config["bootstrap.servers"])


# --- rules ------------------------------------------------------------------------------------------------------------


def _of_login(store: str, config: Config, text: str) -> DsError | None:
    address = address_of(config)
    if text.startswith(_NO_TOKEN) and not _TOKEN_REFUSED.search(text):
        url = config.get("sasl.oauthbearer.token.endpoint.url", "the endpoint of its tokens")
        return error("STORE_UNREACHABLE", store=store, address=url, detail=text)
    others = _OTHER_MECHANISMS.search(text)
    if others:
        return _other_login(store, config, others[1].split(","))
    if _NO_LOGIN_THERE in text:
        fix = f"remove '{HASH_FUNCTION}', or name the port of a listener with logins in 'uris'"
        return _differs(store, config, "no login", fix)
    return error("STORE_LOGIN_REFUSED", store=store, address=address, user=user_of(config), detail=text)


def _of_tls(store: str, config: Config, text: str) -> DsError | None:
    if "certificate verify failed" in text:
        return _not_trusted(store, config, text)
    if REFUSED_CERTIFICATE.search(text):
        has_certificate = any(name.startswith("ssl.certificate") for name in config)
        reason = (
            "the brokers refuse the client's certificate"
            if has_certificate
            else "the brokers require a client certificate"
        )
        fix = "give one that their authority signed: 'tls.client.cert_file' and 'tls.client.key_file'"
        return _tls_failed(store, config, reason, fix, text)
    if _NOTHING_COMMON.search(text):
        fix = "widen 'tls.protocols' and 'tls.cipher_suites', or leave them out"
        return _tls_failed(store, config, "no TLS version or cipher suite in common", fix, text)
    return None


def _not_trusted(store: str, config: Config, text: str) -> DsError:
    """The condition for an untrusted certificate. OpenSSL's text is the same for an unknown authority and for another
    host name, so we connect again without checking the name."""
    ask = any(kafka_wire.is_trusted(config, host, port) for host, port in _addresses(config))
    if ask:
        reason = "the certificate of the brokers is for another host name"
        fix = "write the name in the certificate into 'uris', or set 'tls.verify_server_hostname' = FALSE"
    else:
        reason = "the certificate of the brokers is not signed by an authority that is trusted"
        fix = "give the authority's certificate with 'tls.ca_cert_file'"
    return _tls_failed(store, config, reason, fix, text)


def _of_protocol(store: str, config: Config) -> DsError | None:
    """Find out which protocol the brokers speak; None if it is the declared one, or no broker answers."""
    tls = config.get("security.protocol", "plaintext") in TLS_PROTOCOLS
    for host, port in _addresses(config):
        if not tls and kafka_wire.speaks_tls(host, port):
            fix = "remove 'tls.disabled' and give 'tls.ca_cert_file' if the brokers' authority is not a public one"
            return _differs(store, config, "TLS", fix)
        mechanisms = kafka_wire.mechanisms(host, port)
        if mechanisms is None:
            continue
        if tls:
            fix = "set 'tls.disabled' = TRUE and remove the other 'tls.*' properties, or name the TLS port in 'uris'"
            return _differs(store, config, "no TLS", fix)
        if mechanisms and "sasl.mechanisms" not in config:
            return _other_login(store, config, mechanisms)
    return None


def _other_login(store: str, config: Config, mechanisms: Sequence[str]) -> DsError:
    words = [name.upper() for name, login in LOGINS.items() if login.mechanism in mechanisms]
    expected = "a login by " + " or ".join(mechanisms)
    fix = f"write '{HASH_FUNCTION}' = {' or '.join(words)}" if words else "log in by a mechanism that both sides know"
    return _differs(store, config, expected, fix)


def _differs(store: str, config: Config, expected: str, fix: str) -> DsError:
    declared = {True: "TLS", False: "no TLS"}[config.get("security.protocol", "plaintext") in TLS_PROTOCOLS]
    if "login" in expected:
        mechanism = config.get("sasl.mechanisms")
        declared = f"a login by {mechanism}" if mechanism else "no login"
    address = address_of(config)
    return error("STORE_PROTOCOL_DIFFERS", store=store, address=address, expected=expected, declared=declared, fix=fix)


def _tls_failed(store: str, config: Config, reason: str, fix: str, detail: str) -> DsError:
    address = address_of(config)
    return error("STORE_TLS_FAILED", store=store, address=address, reason=reason, fix=fix, detail=detail)


def _addresses(config: Config) -> list[tuple[str, int]]:
    parts = (part.strip().rpartition("://")[2].rpartition(":") for part in address_of(config).split(","))
    return [(host.strip("[]"), int(port)) for host, _, port in parts if host and port.isdecimal()]
