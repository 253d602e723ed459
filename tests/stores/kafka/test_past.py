"""Which records of a topic are read again for a backfill, and which have to be there."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.reading.extent import Extent
from ds_dagster.catalog.reading.past import Amount, PastRequest
from ds_dagster.errors import DsError
from ds_dagster.stores.kafka.past import TopicPast, check_topic, offsets_to_read

WHOLE = {"0": Extent(0, 10, 90, 1000), "1": Extent(0, 0, 0)}
CUT = {"0": Extent(5, 10, 90, 1000), "1": Extent(0, 0, 50, 10)}
Offsets = Mapping[str, tuple[int, int]]


def request(ends: Mapping[str, int], since: int | None = None, began: Mapping[str, int] | None = None) -> PastRequest:
    began_at = None if began is None else {"events": began}
    return PastRequest("plain", "events", {"events": ends}, identity="a", since=since, began=began_at)


def read(extents: Mapping[str, Extent], wanted: PastRequest, *, is_stamped: bool = False) -> Offsets:
    return offsets_to_read(wanted, extents, is_stamped=is_stamped).offsets


def refusal(call: object) -> DsError:
    with pytest.raises(DsError) as refused:
        call()  # type: ignore[operator]
    return refused.value


def test_all_records_are_read_where_nothing_is_known_of_their_times() -> None:
    past = offsets_to_read(request({"0": 80, "1": 0}), WHOLE, is_stamped=False)
    assert past.offsets == {"0": (0, 80)} and past.amount == Amount(records=80)
    assert str(past) == "80 records of 1 partitions are read again"
    assert read(WHOLE, request({"0": 80}, since=1900)) == {"0": (10, 80)}
    assert read(CUT, request({"1": 50})) == {"1": (0, 50)}, "a partition of which the table has nothing may be cut"


@pytest.mark.parametrize(
    ("since", "is_stamped", "is_there"),
    [(None, True, False), (1000, True, False), (1001, True, True), (8500, False, False)],
)
def test_records_that_are_gone_are_older_than_the_range(since: int | None, is_stamped: bool, is_there: bool) -> None:
    wanted = request({"0": 80, "1": 50}, since)
    if is_there:
        assert read(CUT, wanted, is_stamped=is_stamped) == {"0": (10, 80), "1": (0, 50)}
        return
    problem = refusal(lambda: read(CUT, wanted, is_stamped=is_stamped))
    assert problem.condition == "BACKFILL_RECORDS_GONE" and "1970-01-01T00:00:01+00:00" in problem.message


def test_a_partition_whose_records_are_all_gone_may_have_lost_any() -> None:
    empty = {**CUT, "1": Extent(50, 50, 50)}
    for extents in (empty, {"0": CUT["0"]}, {**CUT, "1": Extent(0, 0, 49, 10)}):
        wanted = request({"0": 80, "1": 50}, 8500)
        problem = refusal(lambda extents=extents, wanted=wanted: read(extents, wanted, is_stamped=True))
        assert problem.condition == "BACKFILL_RECORDS_GONE"


def test_records_from_before_the_query_began_are_left_out_on_request() -> None:
    """Then it does not matter that they are gone. A partition that the topic got later is read from its beginning."""

    def own(began: dict[str, int] | None) -> TopicPast:
        wanted = replace(request({"0": 80, "1": 50}, began=began), is_own=True)
        return offsets_to_read(wanted, CUT, is_stamped=False)

    assert own({"0": 5}).offsets == {"0": (5, 80), "1": (0, 50)}
    assert own({"0": 70, "1": 60}).offsets == {"0": (70, 80)}
    assert own({"0": 5}).before == 0
    assert refusal(lambda: own({"0": 4})).condition == "BACKFILL_RECORDS_GONE"
    assert "where it began" in refusal(lambda: own(None)).message


def test_it_is_known_how_many_records_the_query_has_not_read() -> None:
    extents = {"0": Extent(0, 0, 80), "1": Extent(0, 0, 50), "2": Extent(0, 0, 7)}
    for began, before in ({"0": 30, "1": 90}, 30 + 50), ({"2": 5}, 5), (None, None):
        past = offsets_to_read(request({"0": 80, "1": 50, "2": 7}, began=began), extents, is_stamped=False)
        assert past.before == before
        assert (" of them from before the query began" in str(past)) == (before is not None)


def test_a_topic_has_all_records() -> None:
    wanted = request({"0": 1})
    check_topic(wanted, EntityFacts("events", identity="a"))
    check_topic(replace(wanted, identity=""), EntityFacts("events", identity="b"))
    compacted = EntityFacts("events", settings={"cleanup.policy": "compact,delete"})
    for facts, reason in (
        (None, "deleted"),
        (EntityFacts("events", identity="b"), "deleted"),
        (compacted, "compacted"),
    ):
        assert reason in refusal(lambda facts=facts: check_topic(wanted, facts)).message
    other = replace(wanted, end={"other": {"0": 7}})
    assert "no records of events" in refusal(lambda: read(WHOLE, other)).message


def test_portions_are_every_record_once() -> None:
    chance = random.Random(7)
    for _ in range(200):
        begins = [chance.randrange(50) for _ in range(3)]
        offsets = {str(n): (first, first + chance.randrange(1, 60)) for n, first in enumerate(begins)}
        past, rate = TopicPast("events", offsets), chance.randrange(1, 8)
        whole = past.whole()
        assert whole is not None
        for portions in (list(past.portions(rate)), list(past.portions(None)), [whole]):
            records = []
            for portion in portions:
                first, last = (
                    json.loads(portion.options[f"{side}Offsets"])["events"] for side in ("starting", "ending")
                )
                assert json.loads(portion.options["assign"]) == {"events": [int(part) for part in first]}
                assert portion.records == sum(last[part] - first[part] for part in first)
                records += [(part, at) for part in first for at in range(first[part], last[part])]
            assert sorted(records) == sorted((p, at) for p, ends in offsets.items() for at in range(*ends))
        assert all(0 < (portion.records or 0) <= rate * 5 for portion in past.portions(rate))
    assert TopicPast("events", {}).whole() is None
