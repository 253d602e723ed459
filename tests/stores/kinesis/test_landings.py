"""Looking for the records that a query begins with, in a real Kinesis API."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.entity_operations import NewRecord
from ds_dagster.catalog.reading.extent import Landing
from ds_dagster.errors import DsError
from ds_dagster.stores.kinesis.admin import KinesisAdmin
from ds_dagster.stores.kinesis.landings import landings

pytestmark = pytest.mark.servers


class Stream:
    """A stream of two shards with five records in each; ``trimmed``: numbers up to which the server forgot them."""

    def __init__(self, admin: KinesisAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
        self.admin, self.name, self.trimmed = admin, f"s_{uuid.uuid4().hex[:10]}", -1
        admin.ensure(EntityPlan(self.name, MappingProxyType({"topic.shards": 2}), used_by="db.public.r"))
        self.numbers: dict[int, list[int]] = {0: [], 1: []}
        key = 0
        while any(len(numbers) < 5 for numbers in self.numbers.values()):
            shard, number = admin.operations().insert((self.name,), NewRecord("{}", f"k{key}")).split("/")
            self.numbers[int(shard[-12:])].append(int(number))
            key += 1
        asked = admin._call

        def call(action: str, method: str, **arguments: object) -> Any:
            if method == "get_records":
                arguments["Limit"] = 1000  # so that something is left of the page
            answer = asked(action, method, **arguments)
            if method == "get_records":
                answer["Records"] = [r for r in answer["Records"] if int(r["SequenceNumber"]) > self.trimmed]
            return answer

        monkeypatch.setattr(admin, "_call", call)

    def landing(self, shard: int, number: int) -> Landing | None:
        return landings(self.admin, self.name, ((shard, number),))[shard]


@pytest.fixture
def stream(kinesis_settings: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Stream:
    return Stream(KinesisAdmin("prod_kinesis", kinesis_settings), monkeypatch)


def test_every_record_is_found_and_every_shard_is_there(stream: Stream) -> None:
    for shard, numbers in stream.numbers.items():
        assert all(stream.landing(shard, number) == Landing(is_there=True) for number in numbers)
    assert landings(stream.admin, stream.name, ((1, stream.numbers[1][0]), (7, 1))) == {0: None, 1: Landing(True)}


def test_a_removed_record_is_told_from_one_that_never_was(stream: Stream) -> None:
    first, second, third, *_, last = stream.numbers[0]
    stream.trimmed = second
    assert stream.landing(0, first) == Landing(False, third, was_possible=True)
    assert stream.landing(0, third) == Landing(is_there=True)
    never = stream.landing(0, third + 1)
    assert never is not None and (never.is_there, never.oldest) == (False, third)
    foreign = stream.landing(0, stream.numbers[1][0])
    assert foreign is not None and not foreign.is_there
    far = stream.landing(0, 10**128)
    assert far == Landing(False, third, was_possible=False), "the server refuses it"
    assert stream.landing(0, 5) == Landing(False, third, was_possible=False)
    stream.trimmed = last
    assert stream.landing(0, last) == Landing(False, None, was_possible=True)


def test_only_empty_pages_are_not_an_answer(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = []

    def get_records(action: str, method: str, **arguments: object) -> Any:
        pages.append(arguments)
        return {"Records": [], "MillisBehindLatest": 5, "NextShardIterator": "i"}

    number = stream.numbers[0][0]
    asked = stream.admin._call
    monkeypatch.setattr(
        stream.admin, "_call", lambda a, m, **more: (get_records if m == "get_records" else asked)(a, m, **more)
    )
    monkeypatch.setattr("ds_dagster.stores.kinesis.landings.LOOK_SECONDS", 0.0)
    with pytest.raises(DsError) as problem:
        stream.landing(0, number)
    assert problem.value.condition == "STORE_CALL_FAILED" and problem.value.fault.domain == "external" and pages
