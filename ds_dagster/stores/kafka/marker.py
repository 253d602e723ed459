"""The last batch that a job has committed to a topic, as its transactional sink stores it: see ``Marker.java``."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from ds_dagster.catalog.ledger import Tip, ends_text
from ds_dagster.errors import error

METADATA_BYTES = 4096
"""Most bytes of metadata that a broker accepts by default (``offset.metadata.max.bytes``)."""
ATTEMPTS = 10
"""Most requests while the client gives bytes that are not text, see :func:`_tip`."""


def read_marker(admin: Any, group: str, topic: str, seconds: float) -> Tip | None:
    """The batch in a consumer group's offset, or None.

    Args:
        admin: client of librdkafka.
        group: consumer group of the job and its checkpoint version.
        topic: the topic that the job writes.
        seconds: timeout of the request.

    Raises:
        KafkaException: the request fails, or a transaction of the group is not decided yet.
        ExternalError: KAFKA_MARKER_UNREADABLE.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    for _ in range(ATTEMPTS):
        answers = admin.list_consumer_group_offsets([request], require_stable=True, request_timeout=seconds)
        (partition,) = answers[group].result(2 * seconds).topic_partitions
        if partition.error is not None:
            raise KafkaException(partition.error)
        if partition.offset < 0:
            return None
        with suppress(UnicodeDecodeError):
            return _tip(partition.offset, partition.metadata or "")
    raise error("KAFKA_MARKER_UNREADABLE", detail=f"the metadata of consumer group {group} is not text")


def write_marker(admin: Any, group: str, topic: str, tip: Tip, seconds: float) -> None:
    """Store a batch as the offset of a consumer group without members, in the form of ``Marker.java``.

    Args:
        admin, group, topic, seconds: as in :func:`read_marker`.
        tip: with its ``ends``, which are left out if they exceed :data:`METADATA_BYTES`.

    Raises:
        KafkaException: the brokers refuse the request.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    digest = json.dumps({"digest": tip.offsets}, separators=(",", ":"))
    whole = f"{digest[:-1]},{tip.ends[1:]}" if tip.ends else digest
    metadata = whole if len(whole.encode()) <= METADATA_BYTES else digest
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, tip.batch, metadata=metadata)])
    answers = admin.alter_consumer_group_offsets([request], request_timeout=seconds)
    (partition,) = answers[group].result(2 * seconds).topic_partitions
    if partition.error is not None:
        raise KafkaException(partition.error)


def _tip(batch: int, metadata: str) -> Tip:
    """The batch in JSON that other characters may follow: the client reads the text up to the next zero byte in memory,
    not to its end."""
    if not metadata:
        return Tip(batch)
    try:
        noted, _ = json.JSONDecoder().raw_decode(metadata)
        digest = str(noted["digest"])
    except (ValueError, KeyError, TypeError):
        raise error("KAFKA_MARKER_UNREADABLE", detail=f"the marker is not of this version: {metadata}") from None
    if "sources" not in noted:
        return Tip(batch, digest)
    offsets, sources = (json.dumps(noted[name], separators=(",", ":")) for name in ("offsets", "sources"))
    return Tip(batch, digest, ends_text(offsets, sources))
