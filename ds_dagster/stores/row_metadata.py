"""Types of ``rowmetadata()`` (a row function of the dialect) for records of a topic and of a Kinesis stream."""

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
"""The dialect's fields, and the record's headers, which the dialect does not have: the last header of each name."""
STREAM_METADATA = StructType(
    tuple(StructField(name, VARCHAR) for name in ("stream", "partition_key", "shard_id", "sequence_number"))
)
