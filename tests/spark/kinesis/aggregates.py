"""Aggregated records as the Kinesis Producer Library writes them, encoded by hand from the format's description."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

MAGIC = bytes.fromhex("f3899ac2")


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def part(number: int, content: bytes) -> bytes:
    """A field of bytes, text or message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def message(records: Sequence[tuple[str, bytes] | tuple[str, bytes, str]]) -> bytes:
    """``AggregatedRecord`` of (partition key, data) or (partition key, data, explicit hash key)."""
    keys = list(dict.fromkeys(record[0] for record in records))
    hashes = list(dict.fromkeys(record[2] for record in records if len(record) == 3))
    body = b"".join(part(1, key.encode()) for key in keys) + b"".join(part(2, value.encode()) for value in hashes)
    for record in records:
        inside = varint(1 << 3) + varint(keys.index(record[0]))
        if len(record) == 3:
            inside += varint(2 << 3) + varint(hashes.index(record[2]))
        body += part(3, inside + part(3, record[1]))
    return body


def sealed(body: bytes) -> bytes:
    """Magic bytes and MD5 around a message."""
    return MAGIC + body + hashlib.md5(body).digest()


def aggregate(records: Sequence[tuple[str, bytes] | tuple[str, bytes, str]]) -> bytes:
    return sealed(message(records))
