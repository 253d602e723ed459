"""A broker in memory with row logs, as ``ds redrive`` reads them, and a topic that takes records back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.redriving import RepairedRecord
from ds_dagster.questions.upkeep import left_out, redriving


@dataclass
class Broker:
    """Logs in memory, and a topic whose notes live with its records."""

    logs: dict[str, list[bytes]] = field(default_factory=dict)
    sent_records: list[RepairedRecord] = field(default_factory=list)
    fails_after: int = 10**9
    opened: int = 0
    topic: dict[tuple[str, str], RawRecord] = field(default_factory=dict)

    def describe(self, entity: str) -> object:
        return entity if entity in self.logs else None

    def records(self, entity: str, **_: Any) -> Iterator[RawRecord]:
        return (RawRecord("0", str(n), 0, None, value) for n, value in enumerate(self.logs[entity]))

    def operations(self) -> Broker:
        return self

    def find_records(self, _entity: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], RawRecord]:
        return {place: self.topic[place] for place in places if place in self.topic}

    def redriven(self, _entity: str) -> frozenset[str]:
        return self.sent()

    def redriver(self, _entity: str) -> Broker:
        self.opened += 1
        return self

    def sent(self) -> frozenset[str]:
        return frozenset(record.id for record in self.sent_records)

    def send(self, records: Sequence[RepairedRecord]) -> None:
        if len(self.sent_records) >= self.fails_after:
            raise ConnectionError
        self.sent_records += records

    def close(self) -> None:
        return


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    double = Broker()
    for module in (redriving, left_out):
        monkeypatch.setattr(module, "store_admin", lambda *_: double)
    return double


def logged(offset: int, value: bytes, **changes: Any) -> bytes:
    row = {"query": "ids", "relation": "default.public.orders", "store": "k", "entity": "orders"}
    row |= {"partition": "0", "offset": str(offset), "record_time": "1970-01-01 00:00:01.500Z"}
    row |= {"value": base64.b64encode(value).decode(), "reason": "violates positive"}
    return json.dumps(row | changes).encode()


def failed(offset: int, **changes: Any) -> bytes:
    row = {"relation": "default.public.texts", "entity": "texts", "key": base64.b64encode(b"k").decode()}
    row |= {"query": "numbers", "reason": "CAST_INVALID_INPUT"}
    return logged(offset, b'{"id":7,"a":"x"}', **row | changes)
