"""Settings of a Kafka topic: their names and valid values.

Names: ``org.apache.kafka.common.config.TopicConfig`` of Kafka 3.9 and 4.3, with the settings that 4.x dropped and the
two replication throttles of ``org.apache.kafka.server.config.QuotaConfig``; a test compares them with the jars. Values:
the validators of ``org.apache.kafka.storage.internals.log.LogConfig``, the older bound where the versions differ.
Services that speak Kafka's protocol have settings of their own, which are passed on as they are (:data:`OTHERS`).
"""

from __future__ import annotations

from ds_dagster.catalog.properties.spec import PropertySpec, PropertyType

_LOWEST: dict[str, int] = {
    "compression.gzip.level": -1,
    "compression.lz4.level": 1,
    "compression.zstd.level": -131_072,
    "delete.retention.ms": 0,
    "file.delete.delay.ms": 0,
    "flush.messages": 0,
    "flush.ms": 0,
    "index.interval.bytes": 0,
    "local.retention.bytes": -2,
    "local.retention.ms": -2,
    "max.compaction.lag.ms": 1,
    "max.message.bytes": 0,
    "message.timestamp.after.max.ms": 0,
    "message.timestamp.before.max.ms": 0,
    "message.timestamp.difference.max.ms": 0,
    "min.compaction.lag.ms": 0,
    "min.insync.replicas": 1,
    "retention.bytes": -1,
    "retention.ms": -1,
    "segment.bytes": 14,
    "segment.index.bytes": 4,
    "segment.jitter.ms": 0,
    "segment.ms": 1,
}
"""Setting that is a whole number → its lowest value."""
_FLAGS = (
    "message.downconversion.enable",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "unclean.leader.election.enable",
)
_WORDS: dict[str, tuple[PropertyType, tuple[str, ...]]] = {
    "cleanup.policy": ("names", ("compact", "delete")),
    "compression.type": ("word", ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    "message.timestamp.type": ("word", ("createtime", "logappendtime")),
}
_TEXTS = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.format.version",
)
OTHERS = ("confluent.", "redpanda.", "retention.local.target.", "initial.retention.local.target.", "write.caching")
"""Prefixes of the settings of Confluent and Redpanda."""

TOPIC_SETTINGS: tuple[PropertySpec, ...] = tuple(
    sorted(
        (
            *(PropertySpec(name, "integer", (), "", minimum=lowest) for name, lowest in _LOWEST.items()),
            *(PropertySpec(name, "boolean", (), "") for name in _FLAGS),
            *(PropertySpec(name, type_, (), "", choices=words) for name, (type_, words) in _WORDS.items()),
            *(PropertySpec(name, "text", (), "") for name in _TEXTS),
            PropertySpec("min.cleanable.dirty.ratio", "ratio", (), ""),
        ),
        key=lambda spec: spec.name,
    )
)
"""Names that may follow ``kafka.topic.``; values are checked and passed on as they are written."""
