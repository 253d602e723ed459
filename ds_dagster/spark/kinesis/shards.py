"""The shards of a stream and their ancestry: which shards to read first, and which may start when others are done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ds_dagster.catalog.reading.starting import Offsets, partition_number
from ds_dagster.kinesis_aggregates import WHOLE, HashRange
from ds_dagster.spark.kinesis.client import Exchange, KinesisClient
from ds_dagster.spark.kinesis.offsets import TRIM_HORIZON, ShardPosition

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard as ListShards shows it.

    Attributes:
        id: name of the shard.
        parents: shards from which it was split or merged.
        ending: last sequence number of a closed shard, empty while it is open.
        hashes: range of the hash keys of its records.
    """

    id: str
    parents: tuple[str, ...] = ()
    ending: str = ""
    hashes: HashRange = WHOLE

    @property
    def open(self) -> bool:
        """Whether records can still be written to it."""
        return not self.ending


@dataclass(frozen=True, slots=True)
class ShardList:
    """The shards of a stream, and the time of the request."""

    shards: Mapping[str, Shard]
    exchange: Exchange


def list_shards(client: KinesisClient, stream: str) -> ShardList:
    """All shards that ListShards returns (a closed shard disappears after the retention).

    Raises:
        UserError: KINESIS_STREAM_NOT_FOUND.
    """
    shards: dict[str, Shard] = {}
    request: dict[str, Any] = {"StreamName": stream, "MaxResults": PAGE}
    while True:
        reply = client.call("ListShards", request)
        for entry in reply.body.get("Shards", ()):
            shards[entry["ShardId"]] = _shard(entry)
        token = reply.body.get("NextToken")
        if not token:
            return ShardList(shards, reply.exchange)
        request = {"NextToken": token, "MaxResults": PAGE}


def _shard(entry: Mapping[str, Any]) -> Shard:
    parents = (entry.get("ParentShardId"), entry.get("AdjacentParentShardId"))
    ending = entry.get("SequenceNumberRange", {}).get("EndingSequenceNumber")
    limits = entry.get("HashKeyRange")
    hashes = HashRange(int(limits["StartingHashKey"]), int(limits["EndingHashKey"])) if limits else WHOLE
    return Shard(entry["ShardId"], tuple(p for p in parents if p), str(ending or ""), hashes)


def first_positions(
    shards: Mapping[str, Shard], starting_position: str, now_millis: int, timestamp: int = 0, offsets: Offsets = ()
) -> dict[str, ShardPosition]:
    """Positions of a first start, by shard.

    ``earliest``: every shard without a listed parent, at its oldest record; children follow after their parents.
    ``timestamp``: the same shards, at the first record that arrived at ``timestamp`` (epoch ms) or later.
    ``offsets``: the same shards, at the record of ``offsets``, or at their oldest record if they are not among them.
    ``latest``: every open shard at its end as of ``now_millis`` (epoch ms); closed shards count as read, so that only
    new children follow.
    """
    if starting_position == "latest":
        end = ShardPosition("latest", time=now_millis)
        return {shard.id: end if shard.open else ShardPosition("closed") for shard in shards.values()}
    roots = [shard.id for shard in shards.values() if not any(parent in shards for parent in shard.parents)]
    return {shard: shard_start(shard, starting_position, timestamp, offsets) for shard in roots}


def shard_start(shard: str, starting_position: str, timestamp: int, offsets: Offsets) -> ShardPosition:
    """Position at which a shard begins that was not read before. It depends on ``timestamp`` for child shards too,
    since the child of a shard that closed before that time may contain older records. ``offsets`` may name a child: it
    begins there when its parents are read."""
    if starting_position == "timestamp":
        return ShardPosition("time", time=timestamp)
    firsts: Mapping[int | None, int] = dict(offsets) if starting_position == "offsets" else {}
    number = firsts.get(partition_number(shard))
    return TRIM_HORIZON if number is None else ShardPosition("at", str(number))


def startable(shards: Mapping[str, Shard], positions: Mapping[str, ShardPosition]) -> list[str]:
    """Shards to add now: not read yet, and every parent is read to its end or no longer listed.

    A listed parent that is not read yet becomes startable before its children.
    """

    def done(parent: str) -> bool:
        return positions[parent].closed if parent in positions else parent not in shards

    return sorted(s.id for s in shards.values() if s.id not in positions and all(done(p) for p in s.parents))


def forgotten(shards: Mapping[str, Shard], positions: Mapping[str, ShardPosition]) -> list[str]:
    """Closed shards that the stream no longer lists; their positions can be dropped from the offset."""
    return sorted(shard for shard, position in positions.items() if position.closed and shard not in shards)
