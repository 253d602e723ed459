"""Positions inside a stream and their JSON: ``{"<stream>": {"<shard>": {...}}}``.

A shard's position is one of::

    {"from": "trim_horizon"}                    the oldest record the stream still has
    {"latest": 1700000000123}                   the end as it was then; only before the first batch
    {"time": 1700000000123}                     the first record that arrived at or after this moment (epoch ms)
    {"after": "4959…", "count": 17}             after this record, the 17th we have read of this shard
    {"after": "4959…", "count": 17, "sub": 3}   inside an aggregated record, after its sub-record 3 (from 0)
    {"closed": true, "after": "4959…", "count": 17}   read to its end for good

The count makes a re-read range verifiable: sequence numbers have gaps, so they do not show a trimmed range. Two
positions are the same place exactly if their JSON is equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ds_dagster.errors import error

PositionKind = Literal["trim_horizon", "latest", "time", "after", "closed"]
JsonOffset = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """A place in one shard.

    Attributes:
        kind: see the module.
        after: sequence number of the last record read; empty if none was.
        count: records read of this shard since the first batch; records in an aggregate are counted one by one.
        time: epoch milliseconds, kinds ``latest`` and ``time``.
        sub: last sub-record read where more of the aggregate ``after`` follow, else -1.
    """

    kind: PositionKind
    after: str = ""
    count: int = 0
    time: int = 0
    sub: int = -1

    @property
    def closed(self) -> bool:
        """No record will ever follow."""
        return self.kind == "closed"

    def advanced(self, after: str, rows: int, sub: int = -1) -> ShardPosition:
        """The position after ``rows`` further records, the last of which is ``after``, or its sub-record ``sub`` if
        more follow."""
        return ShardPosition("after", after, self.count + rows, sub=sub)

    def ended(self) -> ShardPosition:
        """The same position, closed: no more records."""
        return replace(self, kind="closed", time=0)

    def json(self) -> dict[str, Any]:
        """The form in Spark's offset log."""
        if self.kind == "trim_horizon":
            return {"from": "trim_horizon"}
        if self.kind in ("latest", "time"):
            return {self.kind: self.time}
        closed = {"closed": True} if self.closed else {}
        inside = {"sub": self.sub} if self.sub >= 0 else {}
        return {**closed, "after": self.after, "count": self.count, **inside}

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> ShardPosition:
        """Read one shard's JSON. Raises KeyError on a shape we never wrote."""
        if value.get("closed"):
            return cls("closed", str(value["after"]), int(value["count"]))
        if "latest" in value:
            return cls("latest", time=int(value["latest"]))
        if "time" in value:
            return cls("time", time=int(value["time"]))
        if value.get("from") == "trim_horizon":
            return cls("trim_horizon")
        return cls("after", str(value["after"]), int(value["count"]), sub=int(value.get("sub", -1)))


TRIM_HORIZON = ShardPosition("trim_horizon")


def offset_json(stream: str, positions: Mapping[str, ShardPosition]) -> JsonOffset:
    """What Spark stores; shards in order."""
    return {stream: {shard: positions[shard].json() for shard in sorted(positions)}}


def parse_offset(stream: str, offset: Mapping[str, Any]) -> dict[str, ShardPosition]:
    """Read what :func:`offset_json` wrote.

    Raises:
        InternalError: KINESIS_OFFSET_INVALID when the shape or the stream is another.
    """
    try:
        return {shard: ShardPosition.parse(value) for shard, value in offset[stream].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as mismatch:
        raise error("KINESIS_OFFSET_INVALID", stream=stream, offset=str(offset)[:500]) from mismatch


def sequence_key(number: str) -> tuple[int, str]:
    """Sorts sequence numbers, which are decimal numbers of up to 129 digits, without parsing them."""
    return (len(number), number)
