"""The parts that need no server: options, offsets, ancestry of shards, back-off, decoding, clocks."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_dagster.errors import InternalError, UserError
from ds_dagster.spark.kinesis.client import Exchange
from ds_dagster.spark.kinesis.decode import RECORD_SCHEMA, decode_records
from ds_dagster.spark.kinesis.offsets import TRIM_HORIZON, ShardPosition, offset_json, parse_offset, sequence_key
from ds_dagster.spark.kinesis.options import KinesisOptions
from ds_dagster.spark.kinesis.shards import Shard, first_positions, forgotten, shard_start, startable
from ds_dagster.spark.kinesis.timing import Retries, RetryPolicy

UTC = timezone.utc
MINIMUM = {"stream": "s", "region": "us-east-2"}


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 1000.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.seconds += seconds
        return stopped.is_set()


# -- options --------------------------------------------------------------------------------------------------------


def test_options_are_read_whatever_their_case():
    options = KinesisOptions.parse(
        {**MINIMUM, "Starting.Position": "LATEST", "poll.interval.millis": "50", "access_key_id": "a", "path": "x"}
    )
    assert (options.starting_position, options.poll_seconds, options.connection.access_key_id) == ("latest", 0.05, "a")
    assert options.connection.place == "us-east-2"
    assert KinesisOptions.parse({**MINIMUM, "spool": "", "endpoint_url": ""}) == KinesisOptions.parse(MINIMUM)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("starting.position", "middle"),
        ("max.records.per.batch", "0"),
        ("max.records.per.batch", "-1"),
        ("poll.interval.millis", "soon"),
        ("on.trimmed", "ignore"),
        ("starting.offsets", "0"),
        ("region", ""),
        ("stream", ""),
    ],
)
def test_bad_options_are_refused_by_name(option, value):
    with pytest.raises(UserError) as raised:
        KinesisOptions.parse({**MINIMUM, option: value})
    assert raised.value.condition == "KINESIS_OPTION_INVALID"
    assert raised.value.params["name"] == option and raised.value.hint


def test_unknown_options_are_refused_with_the_nearest():
    with pytest.raises(UserError, match=r"starting\.position") as raised:
        KinesisOptions.parse({**MINIMUM, "startingposition": "latest"})
    assert raised.value.condition == "KINESIS_OPTION_UNKNOWN"


# -- offsets --------------------------------------------------------------------------------------------------------

positions = st.one_of(
    st.just(TRIM_HORIZON),
    st.builds(ShardPosition, st.sampled_from(["latest", "time"]), time=st.integers(0, 2**45)),
    st.builds(ShardPosition, st.just("at"), st.integers(0, 10**56).map(str)),
    st.builds(
        ShardPosition,
        st.just("after"),
        st.integers(0, 10**56).map(str),
        st.integers(1, 10**12),
        sub=st.integers(-1, 10**6),
    ),
    st.builds(ShardPosition, st.just("closed"), st.integers(0, 10**56).map(str), st.integers(0, 10**12)),
)


@given(st.dictionaries(st.text(min_size=1), positions))
def test_offsets_survive_json(shards):
    written = json.loads(json.dumps(offset_json("stream", shards)))
    assert parse_offset("stream", written) == shards
    assert all(isinstance(position, dict) for position in written["stream"].values())


@given(positions, positions)
def test_positions_are_equal_exactly_if_their_json_is(one, other):
    assert (one == other) == (one.json() == other.json())


@pytest.mark.parametrize(
    "offset", [{}, {"other": {}}, {"s": {"shard": {}}}, {"s": {"shard": {"after": "1", "count": "x"}}}]
)
def test_foreign_offsets_are_our_fault(offset):
    with pytest.raises(InternalError, match="KINESIS_OFFSET_INVALID"):
        parse_offset("s", offset)


@given(st.integers(0, 10**129), st.integers(0, 10**129))
def test_sequence_numbers_sort_as_numbers(one, other):
    assert (sequence_key(str(one)) < sequence_key(str(other))) == (one < other)


# -- ancestry -------------------------------------------------------------------------------------------------------


def family() -> dict[str, Shard]:
    """a splits into b and c, which merge into d; e is alone."""
    shards = [Shard("a", (), "9"), Shard("b", ("a",), "9"), Shard("c", ("a",), "9"), Shard("d", ("b", "c")), Shard("e")]
    return {shard.id: shard for shard in shards}


def test_earliest_begins_with_those_without_parents():
    assert first_positions(family(), "earliest", 5) == {"a": TRIM_HORIZON, "e": TRIM_HORIZON}
    young = {name: shard for name, shard in family().items() if name != "a"}
    assert set(first_positions(young, "earliest", 5)) == {"b", "c", "e"}, "the parent's retention has passed"


def test_latest_counts_closed_shards_as_read():
    found = first_positions(family(), "latest", 5)
    assert {name for name, position in found.items() if position.closed} == {"a", "b", "c"}
    assert found["d"] == ShardPosition("latest", time=5)
    assert startable(family(), found) == []


def test_named_shards_begin_at_their_numbers_and_others_with_their_oldest_record():
    parent, child, other = (f"shardId-{number:012d}" for number in (3, 12, 7))
    shards = {shard.id: shard for shard in (Shard(parent, (), "9"), Shard(child, (parent,)), Shard(other), Shard("x"))}
    offsets = ((3, 10**55), (12, 5))
    assert first_positions(shards, "offsets", 5, offsets=offsets) == {
        parent: ShardPosition("at", "1" + "0" * 55), other: TRIM_HORIZON, "x": TRIM_HORIZON,
    }  # fmt: skip
    assert shard_start(child, "offsets", 0, offsets) == ShardPosition("at", "5")
    assert shard_start(child, "earliest", 0, ()) == TRIM_HORIZON


def test_children_start_when_all_parents_are_done():
    shards, done = family(), TRIM_HORIZON.ended()
    assert startable(shards, {"a": TRIM_HORIZON, "e": TRIM_HORIZON}) == []
    assert startable(shards, {"a": done, "e": TRIM_HORIZON}) == ["b", "c"]
    assert startable(shards, {"a": done, "b": done, "c": TRIM_HORIZON, "e": done}) == []
    assert startable(shards, {"a": done, "b": done, "c": done, "e": done}) == ["d"]
    assert startable(shards, {"e": TRIM_HORIZON}) == ["a"], "an unread parent comes first"


def test_only_closed_shards_are_forgotten():
    done = TRIM_HORIZON.ended()
    assert forgotten({"d": Shard("d")}, {"a": done, "b": TRIM_HORIZON, "d": done}) == ["a"]


# -- back-off -------------------------------------------------------------------------------------------------------


def test_backoff_grows_to_its_cap_and_ends_with_its_budget():
    clock = FakeClock()
    backoff = Retries(RetryPolicy(base=1.0, cap=8.0, budget=100.0, jitter=lambda: 1.0), clock, threading.Event())
    while backoff.pause():
        assert len(clock.waits) < 1000
    assert clock.waits[:5] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert 92.0 <= sum(clock.waits) <= 100.0
    backoff.reset()
    assert backoff.pause() and clock.waits[-1] == 1.0


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_delays_stay_in_their_bounds(attempt, draw):
    assert 0.005 <= RetryPolicy(jitter=lambda: draw).delay(attempt) <= 5.0


def test_backoff_ends_when_somebody_asked_to_stop():
    stopped = threading.Event()
    stopped.set()
    assert not Retries(RetryPolicy(), FakeClock(), stopped).pause()


# -- clocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "answered", "date", "earliest", "latest"),
    [
        (10.2, 10.4, 10, 10.2, 10.2),
        (10.9, 11.1, 11, 10.9, 10.9),  # the second turned in between
        (10.2, 10.4, None, 10.2, 10.2),
        (15.0, 15.1, 10, 9, 11),  # ours is ahead
        (5.0, 5.1, 10, 5.0, 11),  # ours is behind
    ],
)
def test_server_time_is_taken_on_the_safe_side(asked, answered, date, earliest, latest):
    exchange = Exchange(asked, answered, date)
    assert (exchange.earliest, exchange.latest) == (earliest, latest)


# -- decoding -------------------------------------------------------------------------------------------------------


def test_records_become_arrow_with_exact_milliseconds():
    raw = [
        {"Data": "AAH/", "PartitionKey": "ü", "SequenceNumber": "1", "ApproximateArrivalTimestamp": 1700000000.123},
        {"Data": "", "PartitionKey": "k", "SequenceNumber": "2", "ApproximateArrivalTimestamp": 1700000000},
        {"Data": "eA==", "PartitionKey": "k", "SequenceNumber": "3"},
    ]
    batch = decode_records(raw, "shard")
    assert batch.schema == RECORD_SCHEMA
    columns = batch.to_pydict()
    assert columns["data"] == [b"\x00\x01\xff", b"", b"x"]
    assert columns["shard_id"] == ["shard"] * 3
    assert columns["approximate_arrival_timestamp"] == [
        datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
        datetime(2023, 11, 14, 22, 13, 20, 0, UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
    ]


@given(st.integers(0, 2**42))
def test_every_millisecond_survives_the_float(millis):
    raw = {"Data": "", "PartitionKey": "k", "SequenceNumber": "1", "ApproximateArrivalTimestamp": millis / 1000}
    stamp = decode_records([raw], "s").column("approximate_arrival_timestamp")[0].as_py()
    assert stamp == datetime.fromtimestamp(millis // 1000, UTC).replace(microsecond=millis % 1000 * 1000)
