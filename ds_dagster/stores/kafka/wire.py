"""A few bytes of Kafka's protocol and of TLS, to find out what a listener speaks. Nothing here logs in."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any

SECONDS = 3.0
SASL_HANDSHAKE, VERSION = 17, 1
CORRELATION = 1_146_309_446
LONGEST_ANSWER = 10_000


def speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS handshake succeeds; certificates are not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _shakes_hands(context, host, port)


def is_trusted(config: Mapping[str, Any], host: str, port: int) -> bool:
    """Whether the authority of librdkafka's settings signed the server's certificate, whatever its host name."""
    location, text = config.get("ssl.ca.location"), config.get("ssl.ca.pem")
    try:
        context = ssl.create_default_context(cafile=location, cadata=text)
    except (OSError, ssl.SSLError):
        return False
    context.check_hostname = False
    return _shakes_hands(context, host, port)


def mechanisms(host: str, port: int) -> tuple[str, ...] | None:
    """The logins a listener without TLS offers, empty when it takes none; None when it does not speak plain Kafka."""
    body = struct.pack(">hhih", SASL_HANDSHAKE, VERSION, CORRELATION, -1) + struct.pack(">h", 4) + b"NONE"
    try:
        with socket.create_connection((host, port), timeout=SECONDS) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", _received(connection, 4))
            if not 0 < size <= LONGEST_ANSWER:
                return None
            return _answered(_received(connection, size))
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _shakes_hands(context: ssl.SSLContext, host: str, port: int) -> bool:
    try:
        with (
            socket.create_connection((host, port), timeout=SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except OSError:
        return False


def _received(connection: socket.socket, count: int) -> bytes:
    """``count`` bytes, fewer if the other side closes the connection."""
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def _answered(answer: bytes) -> tuple[str, ...] | None:
    """The names in a SaslHandshakeResponse version 1: correlation, error code, array of names."""
    correlation, _error, count = struct.unpack_from(">ihi", answer)
    if correlation != CORRELATION:
        return None
    names, at = [], 10
    for _ in range(max(count, 0)):
        (length,) = struct.unpack_from(">h", answer, at)
        names.append(answer[at + 2 : at + 2 + length].decode("ascii"))
        at += 2 + length
    return tuple(names)
