"""What ``rowmetadata()`` gives of a record in a topic and of one in a Kinesis stream (the dialect's row functions)."""

from __future__ import annotations

from ds_dagster.datatypes import BIGINT, INTEGER, VARBINARY, VARCHAR, MapType, StructField, StructType

TOPIC_METADATA = StructType(
    (
        StructField("topic", VARCHAR),
        StructField("partition", INTEGER),
        StructField("offset", BIGINT),
        StructField("timestamp_type", VARCHAR),
        StructField("headers", MapType(VARCHAR, VARBINARY)),
    )
)
"""With the record's headers, which the dialect does not have: the last one of each name."""
STREAM_METADATA = StructType(
    tuple(StructField(name, VARCHAR) for name in ("stream", "partition_key", "shard_id", "sequence_number"))
)
