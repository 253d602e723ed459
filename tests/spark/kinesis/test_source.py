"""The source against a real Kinesis API, through a stand-in for Spark's batch loop."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from ds_dagster.errors import ExternalError, UserError
from tests.spark.kinesis import streams

pytestmark = pytest.mark.servers
PAGES = 11_000
"""More records of a shard than one answer of Kinesis holds."""


def data_of(rows: Any) -> list[bytes]:
    return [row[3] for row in rows]


def next_millisecond() -> None:
    """Wait until a moment is behind what arrived before: Kinesis has times in milliseconds."""
    arrived = int(time.time() * 1000)
    while int(time.time() * 1000) == arrived:
        pass


def assert_order_per_key(rows: Any) -> None:
    seen: dict[str, list[bytes]] = defaultdict(list)
    for _, _, key, data in rows:
        seen[key].append(data)
    assert all(values == sorted(values) for values in seen.values())


def assert_exactly(rows: Any, count: int) -> None:
    """The records 0 to count - 1 of ``numbered``, each once, in order per key."""
    assert sorted(data_of(rows)) == [b"%08d" % i for i in range(count)]
    assert_order_per_key(rows)


def test_earliest_reads_everything_in_order(new_stream, read_from, tools):
    stream = new_stream(3)
    sent = tools.numbered(1000, keys=50)
    stream.put(sent)
    rows = read_from(stream).until(1000)
    assert sorted(data_of(rows)) == sorted(data for _, data in sent)
    assert {(key, data) for _, _, key, data in rows} == set(sent)
    assert_order_per_key(rows)


def test_empty_data_and_awkward_keys_come_through(stream, read_from):
    sent = [('{"userid":"u1"}', b""), ("schlüssel 🙂", b"\x00\xff"), ("x" * 256, b"{}")]
    stream.put(sent)
    assert {(row[2], row[3]) for row in read_from(stream).until(3)} == set(sent)


def test_empty_stream_gives_nothing_and_later_records_come(stream, read_from, tools):
    batches = read_from(stream)
    assert batches.step() is None
    tools.eventually(lambda: batches.reader.reportLatestOffset()["shardId-000000000000"], "a look at the shard")
    assert batches.step() is None
    stream.put_one("k", b"1")
    assert data_of(batches.until(1)) == [b"1"]


def test_latest_starts_at_now_and_survives_a_restart_before_the_first_record(stream, read_from):
    stream.put([("k", b"old")])
    next_millisecond()
    batches = read_from(stream, starting_position="latest")
    assert batches.step() == 0, "an empty first batch pins the moment in the checkpoint"
    batches.restart()
    stream.put([("k", b"new")])
    assert data_of(batches.until(1)) == [b"new"]
    batches.restart()
    stream.put([("k", b"newer")])
    assert data_of(batches.until(2)) == [b"new", b"newer"]


def test_latest_skips_closed_shards_and_follows_new_ones(stream, read_from):
    stream.put([("k", b"old")])
    stream.split()
    batches = read_from(stream, starting_position="latest")
    batches.step()
    stream.put([(f"k{i}", b"new%d" % i) for i in range(10)])
    stream.split()
    stream.put([(f"k{i}", b"later%d" % i) for i in range(10)])
    rows = data_of(batches.until(20))
    assert sorted(rows) == sorted([b"new%d" % i for i in range(10)] + [b"later%d" % i for i in range(10)])


def test_limit_bounds_a_batch_and_shards_share_it(new_stream, read_from, tools):
    stream = new_stream(2)
    stream.put(tools.numbered(2000, keys=100))
    batches = read_from(stream, max_records=100)
    batches.until(2000)
    assert max(batches.sizes) == 100
    batches = read_from(stream)
    tools.eventually(lambda: sum(n.rows for n in state_of(batches).values()) == 2000, "everything is buffered")
    end = batches.plan(ReadMaxRows(300))
    counts = [position["count"] for position in end[stream.name].values()]
    assert counts == [150, 150]


def state_of(batches) -> dict:
    if batches.reader._prefetcher is None:
        batches.plan(ReadMaxRows(0))
    return batches.reader._prefetcher._states


def test_a_small_buffer_loses_nothing(stream, read_from, tools):
    stream.put(tools.numbered(PAGES, keys=500))
    batches = read_from(stream, buffer_bytes=1, max_records=1000)
    batches.until(PAGES)
    assert_exactly(batches.rows, PAGES)


def test_shards_of_several_pages_are_equal(new_stream, read_from, tools):
    stream = new_stream(2)
    sent = tools.numbered(2 * PAGES, keys=1000)
    stream.put(sent)
    batches = read_from(stream)
    batches.until(len(sent))
    assert sorted((row[2], row[3]) for row in batches.rows) == sorted(sent)
    assert_order_per_key(batches.rows)


# -- restarts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wiped", [True, False])
def test_a_planned_batch_is_read_again_exactly_after_a_crash(new_stream, read_from, tools, wiped):
    stream = new_stream(2)
    sent = tools.numbered(4000, keys=40)
    stream.put(sent[:3000])
    batches = read_from(stream, max_records=700)
    batches.until(1400)
    start = batches.position
    end = tools.eventually(batches.plan, "a planned batch")
    stream.put(sent[3000:])
    batches.crash()
    if wiped:
        shutil.rmtree(batches.options.spool)
    replay = batches.read(start, end)
    again = batches.read(start, end)
    assert replay == again
    batches.log.append(end)
    batches.rows += replay
    batches.until(4000)
    assert batches.step() is None
    assert sorted((row[2], row[3]) for row in batches.rows) == sorted(sent)
    assert_order_per_key(batches.rows)


def test_first_batch_is_read_again_from_a_new_initial_offset(stream, read_from, tools):
    stream.put(tools.numbered(10))
    batches = read_from(stream)
    end = tools.eventually(batches.plan, "a planned batch")
    batches.crash()
    stream.put(tools.numbered(10, start=10))
    assert_exactly(batches.read(batches.position, end), 10)


def test_stop_ends_threads_and_removes_files(new_stream, read_from, tools):
    stream = new_stream(3)
    stream.put(tools.numbered(100, keys=30))
    batches = read_from(stream)
    batches.until(100)
    prefetcher, spool = batches.reader._prefetcher, Path(batches.options.spool)
    batches.reader.stop()
    prefetcher.join()
    assert not [t for t in threading.enumerate() if t.name.startswith("ds-kinesis_")]
    assert [p.name for p in spool.iterdir()] == [f"seen-{stream.name.replace('-', '_')}.json"]


def test_committed_files_go_and_leftovers_of_a_dead_process_are_swept(stream, read_from, tools):
    stream.put(tools.numbered(10))
    batches = read_from(stream)
    end = tools.eventually(batches.plan, "a planned batch")
    spool = Path(batches.options.spool)
    assert len(list(spool.glob("run-*/*.arrow"))) == 1
    assert oct(spool.stat().st_mode)[-3:] == "700"
    batches.reader.commit(end)
    assert not list(spool.glob("run-*/*.arrow"))
    dead = spool / "run-dead"
    dead.mkdir()
    (dead / ".lock").touch()
    (dead / "x.arrow").touch()
    batches.restart()
    batches.log.append(end)
    batches.step()
    assert not dead.exists()


def test_a_spool_that_cannot_be_written_is_an_outside_fault(stream, read_from, tools, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ExternalError, match="KINESIS_SPOOL_FAILED"):
        read_from(stream, spool=str(tmp_path / "file")).step()
    stream.put(tools.numbered(10))
    batches = read_from(stream)
    tools.eventually(lambda: state_of(batches)["shardId-000000000000"].rows, "records are buffered")
    shutil.rmtree(batches.options.spool)
    with pytest.raises(ExternalError, match="KINESIS_SPOOL_FAILED"):
        batches.step()


def test_without_a_spool_folder_nothing_stays_behind(stream, read_from, tools, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stream.put(tools.numbered(10))
    batches = read_from(stream, spool="")
    batches.until(10)
    (shared,) = tmp_path.glob("ds_kinesis_*")
    assert len(list(shared.glob("run-*"))) == 1
    batches.reader.stop()
    assert not list(shared.glob("run-*"))


def test_planning_again_from_an_earlier_offset_reads_from_there(stream, read_from, tools):
    stream.put(tools.numbered(10))
    batches = read_from(stream)
    first = tools.eventually(batches.plan, "a planned batch")
    again = tools.eventually(batches.plan, "the same batch once more")
    assert first == again
    assert_exactly(batches.read(batches.position, again), 10)


# -- finite runs ----------------------------------------------------------------------------------------------------


def test_available_now_ends_where_it_began(new_stream, read_from, tools):
    stream = new_stream(2)
    stream.put(tools.numbered(500, keys=20))
    batches = read_from(stream)
    batches.reader.prepareForTriggerAvailableNow()
    frozen = batches.reader._freeze.millis
    tools.eventually(lambda: time.time() * 1000 > frozen + 1, "the next records get a later stamp")
    stream.put(tools.numbered(300, keys=20, start=500))
    assert batches.drain() == 500
    batches.restart()
    batches.reader.prepareForTriggerAvailableNow()
    assert batches.drain() == 300
    assert sorted(data_of(batches.rows)) == [b"%08d" % i for i in range(800)]
    batches.restart()
    batches.reader.prepareForTriggerAvailableNow()
    assert batches.drain() == 0


def test_available_now_ends_while_somebody_keeps_writing(stream, read_from, tools):
    stream.put(tools.numbered(100))
    stopped = threading.Event()

    def write() -> None:
        number = 100
        while not stopped.is_set():
            stream.put_one("k0", b"%08d" % number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        batches = read_from(stream)
        batches.reader.prepareForTriggerAvailableNow()
        assert batches.drain() >= 100
    finally:
        stopped.set()
        writer.join()
    batches.restart()
    batches.reader.prepareForTriggerAvailableNow()
    batches.drain()
    rows = data_of(batches.rows)
    assert len(rows) == len(set(rows)) and len(rows) > 100


def test_available_now_on_an_empty_stream_and_from_latest(stream, read_from):
    batches = read_from(stream)
    batches.reader.prepareForTriggerAvailableNow()
    assert batches.drain() == 0
    latest = read_from(stream, starting_position="latest")
    latest.reader.prepareForTriggerAvailableNow()
    assert latest.drain() == 0


def test_available_now_goes_through_a_split(stream, read_from, tools):
    stream.put(tools.numbered(100))
    stream.split()
    stream.put(tools.numbered(100, start=100))
    stream.merge()
    stream.put(tools.numbered(100, start=200))
    # this server stamps a new shard's records up to a second ahead of its clock
    newest = max(record.arrived for record in streams.read_records(stream.client.connection, stream.name))
    tools.eventually(lambda: time.time() * 1000 > newest, "the clock passes the newest record")
    batches = read_from(stream)
    batches.reader.prepareForTriggerAvailableNow()
    assert batches.drain() == 300
    assert_order_per_key(batches.rows)
    closed = [shard for shard, position in batches.position[stream.name].items() if position.get("closed")]
    assert len(closed) == 3


# -- resharding -----------------------------------------------------------------------------------------------------


def test_splits_and_merges_while_reading_and_writing(new_stream, read_from, tools):
    stream = new_stream(2)
    batches = read_from(stream, max_records=500)
    sent: list[tuple[str, bytes]] = []
    steps = [None, stream.split, None, stream.merge, stream.split, stream.merge, None]

    def write() -> None:
        for number, reshard in enumerate(steps):
            if reshard:
                reshard()
            for part in range(5):
                records = tools.numbered(100, keys=25, start=number * 500 + part * 100)
                stream.put(records)
                sent.extend(records)

    writers = ThreadPoolExecutor(1)
    writing = writers.submit(write)
    restarts = 0

    def finished() -> bool:
        nonlocal restarts
        batches.step()
        if len(batches.rows) > 700 * (restarts + 1):
            restarts += 1
            batches.restart()
        return len(batches.rows) >= 3500

    tools.eventually(finished, "all records", 90)
    writing.result()
    writers.shutdown()
    assert restarts >= 3
    assert batches.step() in (None, 0)
    assert sorted((row[2], row[3]) for row in batches.rows) == sorted(sent)
    assert_order_per_key(batches.rows)
    assert len({row[0] for row in batches.rows}) > 4


def test_a_closed_shard_ends_even_if_its_iterators_never_do(stream, proxy, read_from, tools):
    """Some servers give an iterator for ever; the list of shards says that the shard is closed."""
    kept: dict[str, str] = {}

    def endless(operation, request, forward):
        if operation == "GetRecords" and request["ShardIterator"].startswith("kept:"):
            return 200, {"Records": [], "NextShardIterator": request["ShardIterator"], "MillisBehindLatest": 0}
        status, answer = forward(request)
        if operation == "GetRecords" and not answer.get("NextShardIterator"):
            kept[request["ShardIterator"]] = "yes"
            answer = {**answer, "NextShardIterator": "kept:1", "MillisBehindLatest": 0}
        return status, answer

    proxy.hook = endless
    stream.put(tools.numbered(50))
    stream.split()
    stream.put(tools.numbered(50, start=50))
    batches = read_from(stream, proxy.url)
    batches.until(100)
    assert kept
    assert_order_per_key(batches.rows)


# -- faults ---------------------------------------------------------------------------------------------------------


def failing(names: dict[str, tuple[int, str]], every: int):
    """A hook that answers every n-th call of an operation with an error."""
    counts: dict[str, int] = defaultdict(int)

    def hook(operation, request, forward):
        counts[operation] += 1
        if operation in names and counts[operation] % every == 0:
            status, code = names[operation]
            return status, {"__type": f"com.amazonaws.kinesis#{code}", "message": "injected"}
        return forward(request)

    return hook


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ProvisionedThroughputExceededException"),
        (500, "InternalFailure"),
        (503, "ServiceUnavailable"),
        (400, "ExpiredIteratorException"),
    ],
)
def test_faults_that_pass_lose_and_double_nothing(stream, proxy, read_from, tools, status, code):
    operations = (
        ["GetRecords"] if code == "ExpiredIteratorException" else ["GetRecords", "GetShardIterator", "ListShards"]
    )
    # throttled at every second call, the reader would slow down
    proxy.hook = failing(dict.fromkeys(operations, (status, code)), every=6 if "Throughput" in code else 2)
    batches = read_from(stream, proxy.url)
    for part in range(5):
        stream.put(tools.numbered(100, start=part * 100))
        batches.until((part + 1) * 100)
    assert_exactly(batches.rows, 500)


@pytest.mark.parametrize(
    ("status", "code", "condition", "kind"),
    [
        (400, "ProvisionedThroughputExceededException", "KINESIS_THROTTLED", ExternalError),
        (500, "InternalFailure", "KINESIS_UNREACHABLE", ExternalError),
        (400, "AccessDeniedException", "KINESIS_ACCESS_DENIED", UserError),
        (400, "ResourceNotFoundException", "KINESIS_STREAM_NOT_FOUND", UserError),
        (400, "SomethingNewException", "KINESIS_REFUSED", ExternalError),
    ],
)
def test_faults_that_stay_end_with_a_condition(stream, proxy, read_from, tools, status, code, condition, kind):
    proxy.hook = failing({"GetRecords": (status, code)}, every=1)
    batches = read_from(stream, proxy.url, retry_seconds=0.3)
    with pytest.raises(kind) as raised:
        tools.eventually(lambda: batches.step() is not None, "the failure")
    assert raised.value.condition == condition
    assert tools.secret not in str(raised.value) and tools.secret not in repr(raised.value.params)


def test_a_finite_run_reports_a_failure_instead_of_waiting(stream, proxy, read_from, tools):
    proxy.hook = failing({"GetRecords": (400, "AccessDeniedException")}, every=1)
    batches = read_from(stream, proxy.url)
    batches.reader.prepareForTriggerAvailableNow()
    with pytest.raises(UserError, match="KINESIS_ACCESS_DENIED"):
        batches.drain()


def test_missing_stream_and_dead_server(stream, read_from, tools):
    stream.name = "no-such-stream"
    with pytest.raises(UserError, match="no-such-stream does not exist"):
        _ = read_from(stream).position
    dead = read_from(stream, f"http://127.0.0.1:{tools.free_port()}", retry_seconds=0.2)
    with pytest.raises(ExternalError, match="KINESIS_UNREACHABLE"):
        _ = dead.position


# -- retention ------------------------------------------------------------------------------------------------------


class Trimmed:
    """A hook that forgets every record up to a sequence number."""

    def __init__(self) -> None:
        self.until = ""

    def __call__(self, operation, request, forward):
        status, answer = forward(request)
        if operation == "GetRecords" and self.until:
            records = [r for r in answer.get("Records", ()) if int(r["SequenceNumber"]) > int(self.until)]
            answer = {**answer, "Records": records}
        return status, answer


def test_trimmed_range_says_what_is_lost(stream, proxy, read_from, tools):
    proxy.hook = trimmed = Trimmed()
    stream.put(tools.numbered(20, keys=1))
    batches = read_from(stream, proxy.url)
    end = tools.eventually(batches.plan, "a planned batch")
    rows = batches.read(batches.position, end)
    trimmed.until = rows[4][1]
    batches.crash()
    with pytest.raises(UserError) as raised:
        batches.read(batches.position, end)
    assert raised.value.condition == "KINESIS_RANGE_TRIMMED"
    assert raised.value.params["missing"] == 5 and raised.value.params["expected"] == 20
    assert raised.value.params["shard"] == "shardId-000000000000"
    assert raised.value.params["stream"] == stream.name
    trimmed.until = rows[-1][1]
    with pytest.raises(UserError, match="20 of 20 records"):
        batches.read(batches.position, end)


def test_trimmed_position_is_an_error_unless_nothing_can_be_lost(stream, proxy, read_from, tools):
    proxy.hook = trimmed = Trimmed()
    stream.put(tools.numbered(10, keys=1))
    batches = read_from(stream, proxy.url)
    last = batches.until(10)[-1][1]
    tools.eventually(lambda: batches.reader._prefetcher.sightings(), "the shard was seen at its end")
    batches.restart()
    trimmed.until = last
    stream.put([("k", b"next")])
    assert data_of(batches.until(11))[-1] == b"next", "the notes say that it had been read to its end just before"
    batches.restart()
    trimmed.until = batches.rows[-1][1]
    shutil.rmtree(batches.options.spool)
    stream.put([("k", b"later")])
    with pytest.raises(UserError) as raised:
        tools.eventually(lambda: batches.step() is not None, "the failure")
    assert raised.value.condition == "KINESIS_POSITION_TRIMMED"
    assert raised.value.params["hours"] == 24
    batches.restart(on_trimmed="skip")
    assert data_of(batches.until(12))[-1] == b"later"


def test_stale_notes_do_not_hide_a_loss(stream, proxy, read_from, tools):
    proxy.hook = trimmed = Trimmed()
    stream.put(tools.numbered(10, keys=1))
    batches = read_from(stream, proxy.url)
    last = batches.until(10)[-1][1]
    batches.restart()
    note = Path(batches.options.spool) / f"seen-{stream.name.replace('-', '_')}.json"
    seen = json.loads(note.read_text())
    note.write_text(json.dumps({shard: [after, until - 24 * 3_600_000] for shard, (after, until) in seen.items()}))
    trimmed.until = last
    with pytest.raises(UserError, match="KINESIS_POSITION_TRIMMED"):
        tools.eventually(lambda: batches.step() is not None, "the failure")


def test_recreated_stream_and_vanished_shard(stream, read_from, tools):
    stream.split()
    stream.put(tools.numbered(20))
    batches = read_from(stream)
    batches.until(20)
    batches.reader.stop()
    streams.delete_stream(stream.client.connection, stream.name)
    deleted = time.time()
    tools.eventually(
        lambda: time.time() > deleted + 1, "the server tells streams apart by the second of their creation"
    )
    streams.create_stream(stream.client.connection, stream.name, 1)
    batches.restart()
    with pytest.raises(UserError, match="KINESIS_SHARD_GONE"):
        batches.step()
    batches.restart()
    shard = "shardId-000000000000"
    after = batches.rows[0][1]
    batches.log.append({stream.name: {shard: {"after": after, "count": 1}}})
    with pytest.raises(UserError, match="KINESIS_POSITION_FOREIGN"):
        tools.eventually(lambda: batches.step() is not None, "the failure")


def test_a_stream_that_is_recreated_under_a_running_reader(stream, read_from, tools):
    stream.put(tools.numbered(20))
    batches = read_from(stream)
    batches.until(20)
    streams.delete_stream(stream.client.connection, stream.name)
    streams.create_stream(stream.client.connection, stream.name, 1)
    stream.put(tools.numbered(20, start=20))
    with pytest.raises(UserError) as raised:
        tools.eventually(lambda: batches.step() and False, "the failure")
    assert raised.value.condition in (
        "KINESIS_STREAM_NOT_FOUND",
        "KINESIS_POSITION_FOREIGN",
        "KINESIS_POSITION_TRIMMED",
    )
    assert len(batches.rows) == 20, "nothing of the new stream is taken for the old one's"


# -- reports and shipping -------------------------------------------------------------------------------------------


def test_report_is_complete_only_when_everything_is_taken(stream, read_from, tools):
    shard = "shardId-000000000000"
    batches = read_from(stream)
    assert batches.reader.reportLatestOffset() is None
    batches.step()
    first = tools.eventually(lambda: batches.reader.reportLatestOffset()[shard].get("complete_until"), "a first look")
    tools.eventually(lambda: batches.reader.reportLatestOffset()[shard]["complete_until"] > first, "time goes on")
    stream.put_one("k", b"1")
    tools.eventually(lambda: state_of(batches)[shard].rows, "the record is buffered")
    held = batches.reader.reportLatestOffset()[shard]["complete_until"]
    seen = state_of(batches)[shard].seen_end
    tools.eventually(lambda: (state_of(batches)[shard].seen_end or 0) > (seen or 0), "further looks")
    assert batches.reader.reportLatestOffset()[shard]["complete_until"] == held
    arrived = next(state_of(batches)[shard].batches[0].column("approximate_arrival_timestamp").__iter__()).as_py()
    assert held <= arrived.timestamp() * 1000
    batches.step()
    assert batches.reader.reportLatestOffset()[shard]["complete_until"] > held


def test_report_says_what_is_finished_and_children_follow_at_once(stream, read_from, tools):
    stream.put(tools.numbered(10))
    stream.split()
    batches = read_from(stream)
    parent, *children = (f"shardId-00000000000{i}" for i in range(3))

    def closed() -> bool:
        batches.step()
        report = batches.reader.reportLatestOffset()
        assert set(report) == set(batches.position[stream.name])
        return report[parent] == {"finished": True}

    tools.eventually(closed, "the parent is finished")
    assert set(batches.reader.reportLatestOffset()) == {parent, *children}
    tools.eventually(
        lambda: all("complete_until" in batches.reader.reportLatestOffset()[child] for child in children),
        "both children are looked at",
    )


def test_report_of_latest_claims_nothing_before_the_first_look(stream, read_from):
    batches = read_from(stream, starting_position="latest")
    batches.step()
    assert batches.reader.reportLatestOffset() == {"shardId-000000000000": {"millis_behind": -1}}


def test_a_reader_travels_without_its_threads_and_shows_no_secret(stream, read_from, tools):
    batches = read_from(stream)
    batches.step()
    copy = pickle.loads(pickle.dumps(batches.reader))
    assert copy._prefetcher is None and copy._spool is None
    assert tools.secret not in repr(batches.options) and "AKID" not in repr(batches.options)
    assert tools.secret not in json.dumps(batches.position)
