"""Mistakes that only a server can tell: what fails, how it is told, and that nothing else suffers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ds_dagster.runtime.status import JobStatus
from tests.e2e.feeding import House, until

HEALTHY = "desktop_clicks"


@pytest.fixture(scope="module")
def found(house: House) -> Iterator[dict[str, JobStatus]]:
    house.topic("few", 3)
    house.start(HEALTHY)
    names = ("from_nowhere", "from_few", "from_unnamed")
    house.control.ensure(house.project, ["from_far"], "ensure", "tests")
    yield house.run(*names)
    house.stop(*names, "from_far")


def test_a_topic_that_is_not_there_and_cannot_be_created(house: House, found: dict[str, JobStatus]) -> None:
    status = found["from_nowhere"]
    assert (status.state, status.condition) == ("FAILED", "ENTITY_MISSING"), status
    assert "nowhere" in status.message
    assert "topic.partitions" in status.hint


def test_partitions_that_differ_from_the_topic(house: House, found: dict[str, JobStatus]) -> None:
    status = found["from_few"]
    assert (status.state, status.condition) == ("FAILED", "ENTITY_COUNT_DIFFERS"), status
    assert "3" in status.message
    assert "2" in status.message


def test_a_reference_to_nothing(found: dict[str, JobStatus]) -> None:
    status = found["from_unnamed"]
    assert (status.state, status.condition) == ("FAILED", "ENVIRONMENT_REFERENCE_MISSING"), status
    assert "PROOF_BROKERS" in status.message


def test_a_store_that_does_not_answer(house: House, found: dict[str, JobStatus]) -> None:
    """Which one, since when, and that it is retried."""
    status = until(
        lambda: (s := house.control.status("from_far")).state == "BACKING_OFF" and s.attempts > 0 and s, "told"
    )
    assert status.condition == "STORE_UNREACHABLE", status
    assert "unreachable" in status.message
    assert "127.0.0.1:9" in status.message
    assert status.next_retry is not None
    assert status.since is not None
    assert "retried" in status.hint


def test_a_table_of_another_shape(house: House) -> None:
    with house.warehouse() as cursor:
        cursor.execute("CREATE TABLE other_shape (event_time text, url text, more integer)")
        cursor.execute("INSERT INTO other_shape VALUES ('kept', 'kept', 1)")
    result = house.load("other_shape", "FAILED")
    assert (result.state, result.condition) == ("FAILED", "TARGET_DIFFERS"), result
    for name in ("event_time", "device_id", "more"):
        assert name in result.message
    assert house.table("SELECT * FROM other_shape") == [{"event_time": "kept", "url": "kept", "more": 1}]


def test_nothing_else_suffers_and_nothing_was_created(house: House, found: dict[str, JobStatus]) -> None:
    assert house.control.status(HEALTHY).state == "RUNNING"
    topics = set(house.producer.list_topics(timeout=30).topics)
    assert not topics & {"nowhere", "from_nowhere", "from_few", "from_unnamed", "unnamed", "from_far", "far"}
