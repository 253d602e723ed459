"""The marker of a job as librdkafka gives it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ds_dagster.catalog.ledger import Tip
from ds_dagster.errors import DsError
from ds_dagster.stores.kafka.marker import METADATA_BYTES, read_marker, write_marker

NOTED = '{"digest":"aa","offsets":[{"t":{"0":4}}],"sources":{"s":"id"}}'


class NoText:
    """A partition whose metadata the client cannot decode."""

    error, offset = None, 7

    @property
    def metadata(self) -> str:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


@dataclass
class Admin:
    """Gives these partitions one after the other, the last one for ever."""

    given: list[Any]
    asked: list[Any] = field(default_factory=list)
    takes: bool = True

    def list_consumer_group_offsets(self, groups: list[Any], **options: Any) -> dict[str, Future[Any]]:
        assert options["require_stable"]
        self.asked += groups
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(topic_partitions=[self.given.pop(0) if self.given[1:] else self.given[0]]))
        return {"g": answer}

    def alter_consumer_group_offsets(self, groups: list[Any], **_: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        answer.set_result(
            SimpleNamespace(topic_partitions=groups[0].topic_partitions if self.takes else [self.given[0]])
        )
        self.given = groups[0].topic_partitions
        return {"g": answer}


def part(offset: int, metadata: str | None = None, problem: Any = None) -> Any:
    return SimpleNamespace(offset=offset, metadata=metadata, error=problem)


def read(*given: Any) -> Tip | None:
    return read_marker(Admin(list(given)), "g", "t", 1.0)


@pytest.mark.parametrize("behind", ["", "}", "\x01garbage", '"'])
def test_the_text_ends_where_its_json_ends(behind: str) -> None:
    found = read(NoText(), NoText(), part(7, NOTED + behind))
    assert found == Tip(7, "aa")
    assert found is not None and found.ends == '{"offsets":[{"t":{"0":4}}],"sources":{"s":"id"}}'


@pytest.mark.parametrize(
    ("metadata", "digest"), [(None, ""), ("", ""), ('{"digest":"aa"}', "aa"), ('{"digest":"aa","offsets":[]}', "aa")]
)
def test_older_markers_keep_less(metadata: str | None, digest: str) -> None:
    found = read(part(7, metadata))
    assert found == Tip(7, digest) and found is not None and not found.ends


def test_no_marker() -> None:
    assert read(part(-1001)) is None


@pytest.mark.parametrize("given", [part(7, "of tomorrow"), part(7, "[1]"), NoText()])
def test_a_marker_nobody_can_read(given: Any) -> None:
    with pytest.raises(DsError) as problem:
        read(given)
    assert problem.value.condition == "KAFKA_MARKER_UNREADABLE"


def test_a_transaction_that_is_not_decided() -> None:
    with pytest.raises(KafkaException):
        read(part(-1001, problem=KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)))


@pytest.mark.parametrize("partitions", [1, 400])
def test_a_marker_that_is_written_is_read_as_one_of_a_batch(partitions: int) -> None:
    """Where the offsets do not fit, the digest is all there is."""
    offsets = ",".join(f'"{number}":12345678' for number in range(partitions))
    tip = Tip(8, "aa", f'{{"offsets":[{{"t":{{{offsets}}}}}],"sources":{{"s":"id"}}}}')
    admin = Admin([])
    write_marker(admin, "g", "t", tip, 1.0)
    assert len(admin.given[0].metadata.encode()) <= METADATA_BYTES
    marker = read_marker(admin, "g", "t", 1.0)
    assert marker == tip and marker.ends == (tip.ends if partitions == 1 else "")


def test_a_marker_that_is_refused() -> None:
    refusing = Admin([part(-1001, problem=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))], takes=False)
    with pytest.raises(KafkaException):
        write_marker(refusing, "g", "t", Tip(8, "aa"), 1.0)
