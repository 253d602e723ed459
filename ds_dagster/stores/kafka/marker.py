"""The last batch that a job has committed into a topic, as its transactional sink notes it: see ``Marker.java``."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from ds_dagster.catalog.ledger import Tip, ends_text
from ds_dagster.errors import error

METADATA_BYTES = 4096
"""What a broker takes (``offset.metadata.max.bytes``)."""
ATTEMPTS = 10
"""How often it is asked for while the client gives bytes that are no text, see :func:`_tip`."""


def read_marker(admin: Any, group: str, topic: str, seconds: float) -> Tip | None:
    """The batch in a consumer group's offset, or None.

    Args:
        admin: client of librdkafka.
        group: of the job and its checkpoint version.
        topic: that it writes.
        seconds: bound of the request.

    Raises:
        KafkaException: the brokers cannot be asked, or a transaction of the group is not decided yet.
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
    """Note a batch as the offset of a consumer group without members, in the form of ``Marker.java``.

    Args:
        admin, group, topic, seconds: as above.
        tip: with its ``ends``, which are left out where they do not fit.

    Raises:
        KafkaException: the brokers refuse it.
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
    """Of JSON with anything after it: the client ends the text at the next zero byte in memory, not where it ends."""
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
