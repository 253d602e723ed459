"""Looks for the records at sequence numbers that a query begins with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.reading.extent import Landing
from ds_dagster.catalog.reading.starting import Offsets, partition_number
from ds_dagster.errors import error
from ds_dagster.stores.kinesis.redriving import iterator_at

if TYPE_CHECKING:
    from ds_dagster.stores.kinesis.admin import KinesisAdmin

LOOK_SECONDS = 30.0
"""A shard may give empty pages before its first record; how long to go on."""
PAUSE_SECONDS = 0.25
"""AWS allows five reads per second and shard."""


def landings(admin: KinesisAdmin, stream: str, offsets: Offsets) -> Mapping[int, Landing | None]:
    """See ``catalog.reading.extent.FindsOffsets``; closed shards are partitions too."""
    shards = {partition_number(shard["ShardId"]): shard for shard in admin._shards(stream, only_open=False)}
    named = dict(offsets)
    return {
        number: _landing(admin, stream, shard, named[number]) if number in named else None
        for number, shard in shards.items()
        if number is not None
    }


def _landing(admin: KinesisAdmin, stream: str, shard: Mapping[str, Any], number: int) -> Landing:
    """Kinesis refuses an iterator at a number of another shard. At the number of a removed record it gives an iterator
    that begins with the oldest record, so the first record is compared."""
    name, limits = shard["ShardId"], shard["SequenceNumberRange"]
    iterator = iterator_at(admin, stream, name, number)
    if iterator is not None and _first(admin, stream, iterator) == number:
        return Landing(is_there=True)
    place = {"StreamName": stream, "ShardId": name, "ShardIteratorType": "TRIM_HORIZON"}
    begin = admin._call(f"read {stream}", "get_shard_iterator", **place)["ShardIterator"]
    was_possible = iterator is not None and int(limits["StartingSequenceNumber"]) <= number
    return Landing(is_there=False, oldest=_first(admin, stream, begin), was_possible=was_possible)


def _first(admin: KinesisAdmin, stream: str, iterator: str | None) -> int | None:
    """Number of the first record from an iterator on; None if there is no record up to the shard's end.

    Raises:
        ExternalError: STORE_CALL_FAILED; after :data:`LOOK_SECONDS` too.
    """
    action = f"look for the first record of a shard of {stream}"
    ends = time.monotonic() + LOOK_SECONDS
    while iterator:
        answer = admin._call(action, "get_records", ShardIterator=iterator, Limit=1)
        if answer["Records"]:
            return int(answer["Records"][0]["SequenceNumber"])
        if not answer.get("MillisBehindLatest"):
            return None
        if time.monotonic() > ends:
            raise error("STORE_CALL_FAILED", store=admin.store, action=action, detail="only empty pages")
        time.sleep(PAUSE_SECONDS)
        iterator = answer.get("NextShardIterator")
    return None
