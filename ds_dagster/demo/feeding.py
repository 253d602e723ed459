"""Feeds the demo's records into the local servers, and lets their clock move on between phases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from ds_dagster.demo.data import Out
from ds_dagster.errors import error
from ds_dagster.local.addresses import LocalAddresses

KINESIS_ENTITIES = frozenset({"users", "pageviews"})
REQUEST_RECORDS = 500
FLUSH_SECONDS = 30.0
PHASE_GAP_SECONDS = 0.05
"""Pause between phases. Servers of one machine stamp records by one clock, in milliseconds, so records of two phases
never have the same time."""
ANY_KEY = "local"


class Feeder:
    """Clients of the local servers; use in a ``with`` statement."""

    def __init__(self, addresses: LocalAddresses) -> None:
        self._addresses = addresses
        self._producer: Any = None
        self._client: Any = None
        self._failures: list[str] = []

    def __enter__(self) -> Feeder:
        import boto3
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self._addresses.kafka, "acks": "all", "linger.ms": 5, "log_level": 2}
        self._producer = Producer(settings)
        self._client = boto3.client(
            "kinesis",
            endpoint_url=self._addresses.kinesis,
            region_name=self._addresses.region,
            aws_access_key_id=ANY_KEY,
            aws_secret_access_key=ANY_KEY,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.flush(1.0)
        self._producer = None  # closes its sockets, before the servers stop
        self._client.close()

    def send(self, records: Iterable[Out]) -> int:
        """Feed records, for each server in order, and wait until all are stored; returns their number.

        Raises:
            ExternalError: DEMO_FAILED.
        """
        to_kinesis: dict[str, list[Out]] = {}
        count = 0
        for record in records:
            count += 1
            if record.entity in KINESIS_ENTITIES:
                to_kinesis.setdefault(record.entity, []).append(record)
                continue
            self._producer.produce(record.entity, record.value_bytes, record.key_text, on_delivery=self._delivered)
            self._producer.poll(0)
        left = self._producer.flush(FLUSH_SECONDS)
        for stream, sent in to_kinesis.items():
            self._put(stream, sent)
        if left or self._failures:
            reason = self._failures[0] if self._failures else f"{left} records were not taken"
            raise error("DEMO_FAILED", step="feeding clicks", logs=".ds/local", detail=reason)
        return count

    def next_phase(self, wait: Callable[[float], None] = time.sleep) -> None:
        """Wait until the servers' clock has moved on."""
        wait(PHASE_GAP_SECONDS)

    def _delivered(self, problem: Any, _message: Any) -> None:
        if problem is not None:
            self._failures.append(str(problem))

    def _put(self, stream: str, records: list[Out]) -> None:
        """Put records in order: a request has each key once, and refused records are sent again before all others."""
        todo = list(records)
        while todo:
            request: list[Out] = []
            rest: list[Out] = []
            keys: set[str | None] = set()
            for record in todo:
                is_free = record.key_text not in keys and len(request) < REQUEST_RECORDS
                keys.add(record.key_text)
                (request if is_free else rest).append(record)
            entries = [{"Data": r.value_bytes, "PartitionKey": r.key_text} for r in request]
            answer = self._client.put_records(StreamName=stream, Records=entries)
            refused = [r for r, outcome in zip(request, answer["Records"], strict=True) if outcome.get("ErrorCode")]
            todo = [*refused, *rest]
