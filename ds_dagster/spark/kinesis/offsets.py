"""Positions inside a stream and their JSON: ``{"<stream>": {"<shard>": {...}}}``.

A shard's position is one of::

    {"from": "trim_horizon"}                    the oldest record the stream still has
    {"latest": 1700000000123}                   the shard's end at this time (epoch ms); only before the first batch
    {"time": 1700000000123}                     the first record that arrived at or after this time (epoch ms)
    {"at": "4959…"}                             this record; only before the shard's first record was read
    {"after": "4959…", "count": 17}             after this record, the 17th that we have read from this shard
    {"after": "4959…", "count": 17, "sub": 3}   inside an aggregated record, after its sub-record 3 (from 0)
    {"closed": true, "after": "4959…", "count": 17}   the shard is closed and read to its end

With the count, a range that is read again can be verified: sequence numbers have gaps, so they do not show missing
records. Two positions are equal exactly if their JSON is equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ds_dagster.errors import error

PositionKind = Literal["trim_horizon", "latest", "time", "at", "after", "closed"]
JsonOffset = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """A place in one shard.

    Attributes:
        kind: see the module.
        after: sequence number of the last record read, empty if none was read; for the kind ``at``: of the record to
            begin with.
        count: number of records read from this shard since the first batch; each record in an aggregate counts.
        time: epoch milliseconds, for the kinds ``latest`` and ``time``.
        sub: number of the last sub-record read, if more of the aggregate ``after`` follow, else -1.
    """

    kind: PositionKind
    after: str = ""
    count: int = 0
    time: int = 0
    sub: int = -1

    @property
    def closed(self) -> bool:
        """Whether the shard is closed and read to its end."""
        return self.kind == "closed"

    def advanced(self, after: str, rows: int, sub: int = -1) -> ShardPosition:
        """The position after ``rows`` more records. The last of them is ``after``, or its sub-record ``sub`` if more
        sub-records follow."""
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
        if self.kind == "at":
            return {"at": self.after}
        closed = {"closed": True} if self.closed else {}
        inside = {"sub": self.sub} if self.sub >= 0 else {}
        return {**closed, "after": self.after, "count": self.count, **inside}

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> ShardPosition:
        """Parse one shard's JSON; raises KeyError, TypeError or ValueError for any other shape."""
        if value.get("closed"):
            return cls("closed", str(value["after"]), int(value["count"]))
        if "latest" in value:
            return cls("latest", time=int(value["latest"]))
        if "time" in value:
            return cls("time", time=int(value["time"]))
        if "at" in value:
            return cls("at", str(value["at"]))
        if value.get("from") == "trim_horizon":
            return cls("trim_horizon")
        return cls("after", str(value["after"]), int(value["count"]), sub=int(value.get("sub", -1)))


TRIM_HORIZON = ShardPosition("trim_horizon")


def offset_json(stream: str, positions: Mapping[str, ShardPosition]) -> JsonOffset:
    """The offset in the form that Spark stores, with sorted shards."""
    return {stream: {shard: positions[shard].json() for shard in sorted(positions)}}


def parse_offset(stream: str, offset: Mapping[str, Any]) -> dict[str, ShardPosition]:
    """Parse the result of :func:`offset_json`: shard → position.

    Raises:
        InternalError: KINESIS_OFFSET_INVALID, if the shape or the stream does not fit.
    """
    try:
        return {shard: ShardPosition.parse(value) for shard, value in offset[stream].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as mismatch:
        raise error("KINESIS_OFFSET_INVALID", stream=stream, offset=str(offset)[:500]) from mismatch


def sequence_key(number: str) -> tuple[int, str]:
    """Sort key of a sequence number, a decimal number of up to 129 digits, without parsing it."""
    return (len(number), number)
