"""What all streaming sources promise: where they begin, what they went past, how far they are behind."""

from __future__ import annotations

import shutil
import time

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from ds_dagster.errors import UserError
from tests.spark.kinesis import streams
from tests.spark.kinesis.aggregates import aggregate

pytestmark = pytest.mark.servers
SHARD = "shardId-000000000000"


def values(rows) -> list[bytes]:
    return [row[3] for row in rows]


def arrivals(stream) -> dict[bytes, int]:
    return {record.data: record.arrived for record in streams.read_records(stream.client.connection, stream.name)}


class Trimmed:
    """A proxy's hook that forgets every record up to a sequence number."""

    def __init__(self) -> None:
        self.until = 0

    def __call__(self, operation, request, forward):
        status, answer = forward(request)
        if operation == "GetRecords" and "Records" in answer:
            answer = {**answer, "Records": [r for r in answer["Records"] if int(r["SequenceNumber"]) > self.until]}
        return status, answer


# -- 'starting.position' = timestamp ---------------------------------------------------------------------------------


def test_a_query_begins_at_a_moment_in_every_shard_and_every_child(new_stream, read_from, tools):
    stream = new_stream(2)
    stream.put(tools.numbered(40, keys=20))
    stream.split()
    newest = max(arrivals(stream).values())
    # this server stamps a new shard's records up to a second ahead of its clock

    def later() -> bool:
        stream.put_one("k0", b"between")
        return arrivals(stream)[b"between"] > newest

    tools.eventually(later, "a later stamp")
    moment = arrivals(stream)[b"between"]
    stream.put(tools.numbered(40, keys=20, start=40))
    expected = sorted(data for data, arrived in arrivals(stream).items() if arrived >= moment)
    assert len(expected) < 81, "the first records are older than the moment"
    # a moment ahead of the server's clock would mean its newest record
    tools.eventually(lambda: time.time() * 1000 > moment, "the clock reaches the stamp")
    batches = read_from(stream, starting_position="timestamp", starting_timestamp=moment, max_records=7)
    assert batches.position[stream.name][SHARD] == {"time": moment}

    def all_of_them() -> bool:
        batches.step()
        return set(values(batches.rows)) >= set(expected)

    tools.eventually(all_of_them, "the records since the moment")
    batches.restart()
    assert batches.step() in (None, 0)
    assert sorted(set(values(batches.rows))) == expected


def test_a_moment_that_is_still_to_come_begins_at_the_end(stream, read_from, tools):
    stream.put([("k", b"old")])
    begin = arrivals(stream)[b"old"] + 1500
    batches = read_from(stream, starting_position="timestamp", starting_timestamp=begin)
    batches.step()

    def due() -> bool:
        stream.put_one("k", b"new")
        batches.step()
        return b"new" in values(batches.rows)

    tools.eventually(due, "a record of the moment")
    assert b"old" not in values(batches.rows)


# -- 'starting.position' = offsets ------------------------------------------------------------------------------------


def places(stream) -> dict[bytes, tuple[int, int]]:
    """Data → number of its shard, sequence number."""
    records = streams.read_records(stream.client.connection, stream.name)
    return {r.data: (int(r.shard[-12:]), int(r.sequence_number)) for r in records}


def from_numbers(*offsets: tuple[int, int]) -> dict[str, object]:
    return {"starting_position": "offsets", "starting_offsets": offsets}


def test_a_query_begins_with_the_record_of_a_number_in_each_shard(new_stream, read_from, tools):
    stream = new_stream(3)
    stream.put(tools.numbered(60, keys=20))
    in_order = sorted(places(stream).items(), key=lambda item: item[1])
    shards = [[data for data, (shard, _) in in_order if shard == number] for number in range(3)]
    assert all(len(shard) > 3 for shard in shards)
    numbers = {data: number for data, (_, number) in in_order}
    batches = read_from(stream, max_records=7, **from_numbers((0, numbers[shards[0][2]]), (2, numbers[shards[2][-1]])))
    assert batches.position[stream.name]["shardId-000000000002"] == {"at": str(numbers[shards[2][-1]])}
    expected = sorted([*shards[0][2:], *shards[1], *shards[2][-1:]])
    batches.until(len(expected))
    assert sorted(values(batches.rows)) == expected, "the shard that is not named begins with its oldest record"
    stream.put(tools.numbered(20, keys=20, start=60))
    batches.restart()
    batches.until(len(expected) + 20)
    assert sorted(values(batches.rows)) == [*expected, *(b"%08d" % i for i in range(60, 80))]


def test_a_batch_that_begins_at_a_number_is_read_again_exactly(stream, read_from, tools):
    stream.put(tools.numbered(10, keys=1))
    batches = read_from(stream, **from_numbers((0, places(stream)[b"%08d" % 4][1])))
    end = tools.eventually(batches.plan, "a planned batch")
    start = batches.position
    batches.crash()
    shutil.rmtree(batches.options.spool)
    assert values(batches.read(start, end)) == [b"%08d" % i for i in range(4, 10)]


def test_children_of_a_named_shard_follow_and_may_be_named_themselves(stream, read_from, tools):
    stream.put(tools.numbered(10, keys=10))
    stream.split()
    stream.put(tools.numbered(20, keys=10, start=10))
    in_order = sorted(places(stream).items(), key=lambda item: item[1])
    shards = {number: [data for data, (shard, _) in in_order if shard == number] for number in range(3)}
    last, second = places(stream)[shards[0][-1]], places(stream)[shards[1][1]]
    batches = read_from(stream, **from_numbers(last, second))
    expected = [*shards[0][-1:], *shards[1][1:], *shards[2]]
    batches.step()
    batches.restart()
    batches.until(len(expected))
    assert values(batches.rows)[0] == shards[0][-1], "the parent comes first"
    assert sorted(values(batches.rows)) == sorted(expected)


def test_an_aggregate_is_read_from_its_first_record(stream, read_from):
    stream.put_one("k", b"old")
    number = stream.put_one("k", aggregate([("k", b"one"), ("k", b"two")]))
    stream.put_one("k", b"three")
    batches = read_from(stream, max_records=1, **from_numbers((0, int(number))))
    batches.until(3)
    assert values(batches.rows) == [b"one", b"two", b"three"]


def test_an_aggregate_that_is_left_out_is_there_all_the_same(new_stream, read_from):
    """Its hash key is of the other shard."""
    stream = new_stream(2)
    stream.put_one("k", b"old")
    shard, _ = places(stream)[b"old"]
    foreign = str(2**128 - 1) if shard == 0 else "0"
    number = stream.put_one("k", aggregate([("k", b"one", foreign)]))
    stream.put_one("k", b"two")
    batches = read_from(stream, **from_numbers((shard, int(number))))
    batches.until(1)
    assert values(batches.rows) == [b"two"]


def test_a_number_that_is_gone_after_the_check_is_a_lost_record(stream, proxy, read_from, tools):
    proxy.hook = trimmed = Trimmed()
    stream.put(tools.numbered(10, keys=1))
    begin = places(stream)[b"%08d" % 3][1]
    trimmed.until = int(admin_sequence(stream, 5))
    batches = read_from(stream, proxy.url, **from_numbers((0, begin)))
    with pytest.raises(UserError) as raised:
        tools.eventually(batches.step, "the failure")
    assert raised.value.condition == "STARTING_OFFSET_GONE"
    assert f"0 of {stream.name} at {begin}" in raised.value.message
    assert f"write 0:{admin_sequence(stream, 6)}" in raised.value.hint
    batches.restart(on_trimmed="skip")
    batches.until(4)
    assert values(batches.rows) == [b"%08d" % i for i in range(6, 10)] and lost(batches) == 1


def test_a_note_of_an_earlier_query_does_not_hide_that_a_number_is_gone(stream, proxy, read_from, tools):
    proxy.hook = trimmed = Trimmed()
    stream.put(tools.numbered(5, keys=1))
    batches = read_from(stream, proxy.url)
    batches.until(5)
    tools.eventually(lambda: batches.reader._prefetcher.sightings(), "the shard was seen at its end")
    batches.log.clear()
    trimmed.until = int(admin_sequence(stream, 4))
    batches.restart(**from_numbers((0, trimmed.until)))
    with pytest.raises(UserError, match="STARTING_OFFSET_UNKNOWN"):
        tools.eventually(batches.step, "the failure")


def test_a_number_of_another_shard_is_refused(new_stream, read_from, tools):
    stream = new_stream(2)
    stream.put(tools.numbered(20, keys=20))
    other = next(number for shard, number in places(stream).values() if shard == 1)
    batches = read_from(stream, **from_numbers((0, other)))
    with pytest.raises(UserError, match="STARTING_OFFSET_UNKNOWN"):
        tools.eventually(batches.step, "the failure")


# -- 'source.data.loss' ----------------------------------------------------------------------------------------------


def lost(batches) -> int:
    return sum(shard.get("lost_records", 0) for shard in batches.reader.reportLatestOffset().values())


def test_a_gap_is_skipped_and_counted(stream, proxy, read_from, tools):
    proxy.hook = trimmed = Trimmed()
    stream.put(tools.numbered(30, keys=1))
    batches = read_from(stream, proxy.url, max_records=10)
    batches.until(10)
    trimmed.until = int(admin_sequence(stream, 19))
    batches.crash()
    shutil.rmtree(batches.options.spool)
    with pytest.raises(UserError, match="KINESIS_POSITION_TRIMMED"):
        tools.eventually(batches.step, "the failure")
    batches.restart(on_trimmed="skip")
    batches.until(20)
    assert values(batches.rows) == [b"%08d" % i for i in (*range(10), *range(20, 30))]
    assert lost(batches) == 1, "Kinesis does not tell how many"
    stream.put(tools.numbered(5, keys=1, start=30))
    batches.until(25)
    assert lost(batches) == 1


def admin_sequence(stream, index: int) -> str:
    return [r.sequence_number for r in streams.read_records(stream.client.connection, stream.name)][index]


def test_what_is_missing_of_a_batch_that_is_read_again_is_counted_exactly(stream, proxy, read_from, tools):
    proxy.hook = trimmed = Trimmed()
    stream.put(tools.numbered(20, keys=1))
    batches = read_from(stream, proxy.url, on_trimmed="skip")
    end = tools.eventually(batches.plan, "a planned batch")
    start = batches.position
    trimmed.until = int(admin_sequence(stream, 6))
    batches.crash()
    shutil.rmtree(batches.options.spool)
    assert values(batches.read(start, end)) == [b"%08d" % i for i in range(7, 20)]
    batches.log.append(end)
    assert batches.step() in (None, 0)
    assert lost(batches) == 7
    trimmed.until = int(admin_sequence(stream, 19))
    batches.crash()
    shutil.rmtree(batches.options.spool)
    assert batches.read(start, end) == [], "nothing is left of it"


def test_a_shard_that_is_gone_is_skipped_with_its_children_read(stream, read_from, tools):
    stream.put(tools.numbered(10))
    batches = read_from(stream, on_trimmed="skip")
    batches.until(10)
    batches.reader.stop()
    start = {stream.name: {"shardId-000000000077": {"after": batches.rows[-1][1], "count": 10}}}
    batches.log.append(start)
    batches.restart()
    batches.until(20)
    assert sorted(values(batches.rows[10:])) == [b"%08d" % i for i in range(10)], "what the stream has is read"
    assert lost(batches) == 1
    batches.restart()
    assert batches.step() in (None, 0) and lost(batches) == 0


# -- lag ------------------------------------------------------------------------------------------------------------


def behind(batches) -> int:
    return batches.reader.reportLatestOffset()[SHARD]["millis_behind"]


def test_lag_is_the_age_of_the_oldest_record_no_batch_has_taken(stream, read_from, tools):
    stream.put(tools.numbered(10, keys=1))
    batches = read_from(stream)
    batches.plan(ReadMaxRows(0))
    assert behind(batches) == -1, "nobody has looked yet"
    tools.eventually(lambda: behind(batches) > 50, "buffered records get older, although the page was the shard's end")
    batches.until(10)
    tools.eventually(lambda: behind(batches) == 0, "everything is taken")


def test_lag_of_a_page_is_the_servers_and_is_unknown_after_long_silence(stream, proxy, read_from, tools):
    def late(operation, request, forward):
        status, answer = forward(request)
        return status, {**answer, "MillisBehindLatest": 12_345} if operation == "GetRecords" else answer

    proxy.hook = late
    batches = read_from(stream, proxy.url)
    batches.step()
    tools.eventually(lambda: behind(batches) == 12_345, "the server's figure")
    (state,) = batches.reader._prefetcher._states.values()
    assert state.look(0, state.looked_at + 29).millis_behind == 12_345
    assert state.look(0, state.looked_at + 31).millis_behind == -1
