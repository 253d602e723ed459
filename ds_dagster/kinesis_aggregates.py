"""Aggregated records of the Kinesis Producer Library: many records of a user in one record of a stream.

The format: four magic bytes, an ``AggregatedRecord`` in Protobuf, the MD5 of the Protobuf part. Rules as in Amazon's
own consumer (``AggregatorUtil`` of amazon-kinesis-client): data that does not match its MD5 or cannot be parsed is an
ordinary record; an aggregate with a record whose hash key is outside its shard is left out as a whole, because it went
to a shard that had been split, and the producer sends it again.
Source: https://github.com/awslabs/amazon-kinesis-producer/blob/master/aggregation-format.md
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAGIC = b"\xf3\x89\x9a\xc2"
ENCODED_MAGIC = "84maw"
"""Beginning of the base64 text of every aggregate; its last character ends six bits into the fourth byte."""
DIGEST_BYTES = 16
LAST_HASH = 2**128 - 1


@dataclass(frozen=True, slots=True)
class HashRange:
    """Hash keys that belong to a shard, both ends included."""

    first: int = 0
    last: int = LAST_HASH

    def holds(self, key: str, explicit: int | None) -> bool:
        """Whether a record belongs here: by its explicit hash key, else by the MD5 of its partition key."""
        if explicit is None:
            digest = hashlib.md5(key.encode(), usedforsecurity=False).digest()
            return self.first <= int.from_bytes(digest, "big") <= self.last
        return self.first <= explicit <= self.last


WHOLE = HashRange()


SHOWN_POSITION = "CONCAT(sequence_number, IF(sub_sequence_number = 0, '', CONCAT('.', sub_sequence_number)))"
"""Spark's expression of :func:`shown_position`."""


def shown_position(sequence: str, place: int) -> str:
    """A record's position in its shard, as every command and row log writes it: the sequence number, with ``.n`` behind
    it for every record of an aggregate but the first.

    Args:
        sequence: number of the Kinesis record.
        place: inside its aggregate, from 0; 0 for an ordinary record.
    """
    return f"{sequence}.{place}" if place else sequence


def read_position(text: str) -> tuple[int, int]:
    """Sequence number and place in the aggregate of a position that :func:`shown_position` wrote."""
    sequence, _, place = text.partition(".")
    return int(sequence), int(place or 0)


def open_aggregate(data: bytes, hashes: HashRange = WHOLE) -> Sequence[tuple[str, bytes]] | None:
    """The records inside an aggregate as (partition key, data), in order.

    Args:
        data: of a Kinesis record.
        hashes: hash keys of the shard the record was read from.

    Returns:
        None if the record is not an aggregate; empty if one of its records belongs to another shard.
    """
    body = memoryview(data)[len(MAGIC) : -DIGEST_BYTES]
    if not body or data[: len(MAGIC)] != MAGIC:
        return None
    if hashlib.md5(body, usedforsecurity=False).digest() != data[-DIGEST_BYTES:]:
        return None
    return _records(bytes(body), hashes)


def _records(body: bytes, hashes: HashRange) -> Sequence[tuple[str, bytes]] | None:
    from google.protobuf.message import DecodeError

    try:
        message = _message_class().FromString(body)
        keys = [key.decode() for key in message.partition_key_table]
        explicit = [int(number) for number in message.explicit_hash_key_table]
        inside = [(record.partition_key_index, record.data) for record in message.records]
        records = [(keys[index], data) for index, data in inside]
        if explicit:
            places = {(keys[r.partition_key_index], _explicit_hash(r, explicit)) for r in message.records}
        else:
            places = {(keys[index], None) for index in {index for index, _ in inside}}
    except (DecodeError, UnicodeDecodeError, IndexError, ValueError):
        return None
    return records if all(hashes.holds(key, number) for key, number in places) else ()


def _explicit_hash(record: Any, numbers: Sequence[int]) -> int | None:
    return numbers[record.explicit_hash_key_index] if record.HasField("explicit_hash_key_index") else None


@functools.cache
def _message_class() -> Any:
    """``AggregatedRecord``, described here rather than generated: Protobuf's generated files age with its versions."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="ds_kinesis_aggregate.proto", package="ds", syntax="proto2")
    aggregate, record = file.message_type.add(name="AggregatedRecord"), file.message_type.add(name="Record")
    for number, name in enumerate(("partition_key_table", "explicit_hash_key_table"), 1):
        # as bytes, so that we decide about text that is not valid UTF-8
        aggregate.field.add(name=name, number=number, type=field.TYPE_BYTES, label=field.LABEL_REPEATED)
    aggregate.field.add(
        name="records", number=3, type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED, type_name=".ds.Record"
    )
    for number, name in enumerate(("partition_key_index", "explicit_hash_key_index"), 1):
        record.field.add(name=name, number=number, type=field.TYPE_UINT64, label=field.LABEL_OPTIONAL)
    record.field.add(name="data", number=3, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ds.AggregatedRecord"))
