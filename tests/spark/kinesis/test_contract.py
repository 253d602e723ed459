"""What all streaming sources promise: where they begin, what they went past, how far they are behind."""

from __future__ import annotations

import shutil
import time

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from ds_dagster.errors import UserError
from tests.spark.kinesis import streams

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
