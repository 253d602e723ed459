"""Reads one shard page by page from a position; handles expired iterators, empty pages and the shard's end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ds_dagster.catalog.reading.starting import partition_number
from ds_dagster.errors import DsError, error
from ds_dagster.kinesis_aggregates import WHOLE, HashRange
from ds_dagster.spark.kinesis.client import Exchange, KinesisClient, Reply
from ds_dagster.spark.kinesis.decode import RawRecord, arrival_millis, has_aggregates, sub_number, take_apart
from ds_dagster.spark.kinesis.offsets import ShardPosition, sequence_key
from ds_dagster.spark.kinesis.shards import list_shards

PAGE_RECORDS = 10_000
"""Kinesis returns at most 10,000 records or 10 MB per page."""
TIMESTAMP_SECONDS = 3.0
"""How long to wait for an iterator by time: a test server never answers if no record is that young."""
READ_RETRY_SECONDS = 0.4
"""Longest first pause after a refused read: AWS allows five reads per second and shard, shared by all its readers."""

EXPIRED = frozenset({"ExpiredIteratorException"})
INVALID = frozenset({"InvalidArgumentException"})
NOT_FOUND = frozenset({"ResourceNotFoundException"})
UNANSWERED = frozenset({"ReadTimeoutError"})
"""The client's code for a timeout."""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of a shard.

    Attributes:
        records: raw, in order, with aggregates unpacked; empty pages are normal.
        exchange: time of the request.
        millis_behind: age of the page's end relative to the shard's newest record, in milliseconds.
        at_end: the shard had no further record when the request was answered; for a closed shard: it is finished.
        finished: the shard is closed and read to its end.
        throttled: Kinesis has throttled an attempt before this answer.
    """

    records: list[RawRecord]
    exchange: Exchange
    millis_behind: int
    at_end: bool
    finished: bool
    throttled: bool = False


class ShardCursor:
    """Reads one shard forward. Not thread-safe: one thread per cursor.

    Args:
        client: the API.
        stream, shard: names of the stream and the shard.
        position: where to begin; advances by the returned records.
        ending: last sequence number of the shard according to ListShards; empty if it is open or unknown.
        survives_trim: called if the record of the position no longer exists; returns whether to continue. If it is
            None, the cursor continues, and the caller checks for lost records.
        hashes: hash keys of the shard; None: requested when the first aggregate arrives.
    """

    def __init__(
        self,
        client: KinesisClient,
        stream: str,
        shard: str,
        position: ShardPosition,
        *,
        ending: str = "",
        survives_trim: Callable[[str, ShardPosition], bool] | None = None,
        hashes: HashRange | None = None,
    ) -> None:
        self.position = position
        self.ending = ending
        self._client = client
        self._stream = stream
        self._shard = shard
        self._survives_trim = survives_trim
        self._hashes = hashes
        self._policy = replace(client.policy, base=max(client.policy.base, READ_RETRY_SECONDS))
        self._iterator: str | None = None
        self._anchor = ""

    def next_page(self) -> Page:
        """Fetch one page.

        Raises:
            UserError: the stream, the shard or records no longer exist, or the position is from another stream.
            ExternalError: Kinesis throttles or does not answer beyond the retry budget.
        """
        reply = self._fetch()
        body = reply.body
        records: list[RawRecord] = body.get("Records") or []
        self._iterator = body.get("NextShardIterator")
        behind = int(body.get("MillisBehindLatest") or 0)
        # a server may report 0 milliseconds behind for every page; a full page is never the end
        nothing_further = self._iterator is None or (behind == 0 and len(records) < PAGE_RECORDS)
        first = records[0]["SequenceNumber"] if records else ""
        if records and has_aggregates(records):
            records = take_apart(records, self._hash_range)
        records = self._from_anchor(records, first, nothing_further)
        if self.position.kind == "time":
            records = [r for r in records if arrival_millis(r) >= self.position.time]
        if records:
            self.position = self.position.advanced(records[-1]["SequenceNumber"], len(records))
        finished = self._is_finished(records, nothing_further)
        # a closed shard is at its end only when it is finished; until then its children wait
        at_end = finished or (nothing_further and not self.ending)
        return Page(records, reply.exchange, behind, at_end, finished, reply.throttled > 0)

    def _fetch(self) -> Reply:
        while True:
            if self._iterator is None:
                self._iterator = self._open()
            request = {"ShardIterator": self._iterator, "Limit": PAGE_RECORDS}
            reply = self._client.call("GetRecords", request, expected=EXPIRED, policy=self._policy)
            if not reply.code:
                return reply
            self._iterator = None

    def _open(self) -> str:
        position = self.position
        self._anchor = ""
        if position.kind in ("at", "after", "closed") and position.after:
            # at, not after: the record itself comes first exactly if nothing after it was trimmed
            self._anchor = position.after
            return self._request_iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=position.after)
        if position.kind == "time":
            return self._open_at_time(position.time)
        return self._request_iterator("TRIM_HORIZON")

    def _open_at_time(self, millis: int) -> str:
        reply = self._client.call(
            "GetShardIterator",
            self._iterator_request("AT_TIMESTAMP", Timestamp=millis / 1000),
            expected=INVALID | UNANSWERED | NOT_FOUND,
            read_seconds=TIMESTAMP_SECONDS,
        )
        if not reply.code:
            return str(reply.body["ShardIterator"])
        # refused: by the server's clock that time is in the future; not answered: read all, next_page() drops older
        # records; not found: the next request raises the right error
        return self._request_iterator("LATEST" if reply.code in INVALID else "TRIM_HORIZON")

    def _iterator_request(self, kind: str, **more: object) -> dict[str, Any]:
        return {"StreamName": self._stream, "ShardId": self._shard, "ShardIteratorType": kind, **more}

    def _request_iterator(self, kind: str, **more: object) -> str:
        request = self._iterator_request(kind, **more)
        reply = self._client.call("GetShardIterator", request, expected=INVALID | NOT_FOUND)
        if reply.code in NOT_FOUND:
            list_shards(self._client, self._stream)  # raises if the stream does not exist
            after = self.position.after or "its beginning"
            raise error("KINESIS_SHARD_GONE", stream=self._stream, shard=self._shard, after=after)
        if reply.code and self.position.kind == "at":
            raise self._no_start()
        if reply.code:
            raise error(
                "KINESIS_POSITION_FOREIGN",
                stream=self._stream,
                shard=self._shard,
                after=self.position.after,
                detail=reply.message,
            )
        return str(reply.body["ShardIterator"])

    def _from_anchor(self, records: list[RawRecord], first: str, nothing_further: bool) -> list[RawRecord]:
        """Drop the record of the position, unless it is the one to begin with; if it no longer exists, check whether
        records may be lost. ``first``: number of the page's first record, which may be an aggregate that is left out.

        Raises:
            UserError: KINESIS_POSITION_TRIMMED; of a first start STARTING_OFFSET_GONE, STARTING_OFFSET_UNKNOWN.
        """
        if not self._anchor or not (first or nothing_further):
            return records
        anchor, self._anchor = self._anchor, ""
        if first == anchor:
            return records if self.position.kind == "at" else self._behind(anchor, records)
        if self._survives_trim and not self._survives_trim(self._shard, self.position):
            if self.position.kind == "at":
                raise self._no_start(first)
            raise error(
                "KINESIS_POSITION_TRIMMED",
                stream=self._stream,
                shard=self._shard,
                after=anchor,
                hours=retention_hours(self._client, self._stream),
            )
        return [r for r in records if sequence_key(r["SequenceNumber"]) > sequence_key(anchor)]

    def _no_start(self, first: str = "") -> DsError:
        """The condition for a shard without the record to begin with; ``first``: number of a later one."""
        place: dict[str, Any] = {"entity": self._stream, "partition": partition_number(self._shard)}
        place["offset"] = self.position.after
        if first:
            return error("STARTING_OFFSET_GONE", **place, first=first)
        return error("STARTING_OFFSET_UNKNOWN", **place)

    def _behind(self, anchor: str, records: list[RawRecord]) -> list[RawRecord]:
        """The records without the record ``anchor``, or without its sub-records that are read already."""
        read = self.position.sub if self.position.sub >= 0 else float("inf")
        return [r for r in records if r["SequenceNumber"] != anchor or sub_number(r) > read]

    def _hash_range(self) -> HashRange:
        if self._hashes is None:
            listed = list_shards(self._client, self._stream).shards.get(self._shard)
            self._hashes = listed.hashes if listed else WHOLE
        return self._hashes

    def _is_finished(self, records: list[RawRecord], nothing_further: bool) -> bool:
        if self._iterator is None:
            return True
        if not self.ending:
            return False
        whole = self.position.after and self.position.sub < 0 and self.position.kind != "at"
        if whole and sequence_key(self.position.after) >= sequence_key(self.ending):
            return True
        return nothing_further and not records


def stream_summary(client: KinesisClient, stream: str) -> Mapping[str, Any]:
    """The API's ``StreamDescriptionSummary`` of a stream."""
    reply = client.call("DescribeStreamSummary", {"StreamName": stream})
    summary: Mapping[str, Any] = reply.body["StreamDescriptionSummary"]
    return summary


def retention_hours(client: KinesisClient, stream: str) -> int:
    """Hours for which the stream keeps a record."""
    return int(stream_summary(client, stream).get("RetentionPeriodHours") or 24)
