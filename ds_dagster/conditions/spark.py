"""Conditions of the topic: spark."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "KINESIS_OPTION_INVALID", "user", "Kinesis option {name} has the value {value!r}", "allowed: {allowed}"
    ),
    Condition("KINESIS_OPTION_UNKNOWN", "user", "unknown Kinesis option {name}", "did you mean {nearest}?"),
    Condition(
        "KINESIS_STREAM_NOT_FOUND",
        "user",
        "Kinesis stream {stream} does not exist in {place}",
        "create it with CREATE ENTITY, or correct the relation's 'topic' or the store's region",
    ),
    Condition(
        "KINESIS_CREDENTIALS_MISSING",
        "user",
        "no credentials for Kinesis in {place}",
        "set 'kinesis.access_key_id' and 'kinesis.secret_access_key' of the store by reference, or give the engine a role or profile",
    ),
    Condition(
        "KINESIS_ACCESS_DENIED",
        "user",
        "Kinesis in {place} denied {operation}: {code}",
        "check keys, session token and clock of the engine's machine, and the policy of the account",
    ),
    Condition(
        "KINESIS_THROTTLED",
        "external",
        "Kinesis throttled {operation} on {stream} for {seconds} s without a success",
        "add shards, or lower the number of consumers; a shard takes 1000 records/s and gives 5 reads/s",
    ),
    Condition(
        "KINESIS_UNREACHABLE",
        "external",
        "Kinesis in {place} did not answer {operation} for {seconds} s",
        "check the endpoint, the network and the service's health; the job retries",
    ),
    Condition(
        "KINESIS_REFUSED",
        "external",
        "Kinesis refused {operation} on {stream}: {code}",
        "see the detail; the job retries",
    ),
    Condition(
        "KINESIS_STREAM_NOT_ACTIVE",
        "external",
        "Kinesis stream {stream} is {status} after {seconds} s",
        "wait until it is ACTIVE, then try again",
    ),
    Condition(
        "KINESIS_RANGE_TRIMMED",
        "user",
        "{missing} of {expected} records of shard {shard} of stream {stream} between {after} and {until} are gone",
        "they passed the stream's retention before their batch was finished; `ds reset` starts a new checkpoint version",
    ),
    Condition(
        "KINESIS_POSITION_TRIMMED",
        "user",
        "records of shard {shard} of stream {stream} after {after} may be gone: the retention of {hours} h has passed",
        "`ds reset` starts a new checkpoint version; option 'on.trimmed' = 'skip' goes on with what is left",
    ),
    Condition(
        "KINESIS_SHARD_GONE",
        "user",
        "shard {shard} of stream {stream} does not exist any more; records after {after} may be gone",
        "the stream was re-created or the shard's retention passed; `ds reset` starts a new checkpoint version",
    ),
    Condition(
        "KINESIS_POSITION_FOREIGN",
        "user",
        "the checkpoint's position {after} does not belong to shard {shard} of stream {stream}",
        "the stream was deleted and created again; `ds reset` starts a new checkpoint version",
    ),
    Condition(
        "KINESIS_RECORD_TOO_LARGE",
        "user",
        "a record of {size} bytes for stream {stream} is over the limit of {limit} bytes (partition key {key})",
        "select fewer or shorter columns",
    ),
    Condition(
        "KINESIS_PARTITION_KEY_INVALID",
        "user",
        "a partition key of {length} characters for stream {stream}; Kinesis takes 1 to {limit}",
        "choose a shorter key",
    ),
    Condition(
        "KINESIS_SPOOL_FAILED",
        "external",
        "fetched records could not be kept in {folder}",
        "free disk space, or move the project's state folder; the job retries",
    ),
    Condition(
        "KINESIS_OFFSET_INVALID",
        "internal",
        "the checkpoint's offset of stream {stream} is not readable: {offset}",
        "please report this; `ds reset` starts a new checkpoint version",
    ),
)
