"""Source and sink inside real Spark."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from ds_dagster.spark.kinesis.decode import RECORD_DDL
from ds_dagster.spark.kinesis.spool import LOCK, _is_unlocked
from tests.spark.kinesis import streams

pytestmark = [pytest.mark.servers, pytest.mark.spark]


@pytest.fixture
def options(kinesalite, tools, tmp_path):
    def make(stream, **more: str) -> dict[str, str]:
        return {
            "stream": stream.name,
            "region": "us-east-1",
            "endpoint_url": kinesalite,
            "access_key_id": "AKIDEXAMPLE",
            "secret_access_key": tools.secret,
            "poll.interval.millis": "20",
            "discovery.interval.millis": "200",
            "spool": str(tmp_path / f"spool-{stream.name}"),
            **more,
        }

    return make


def source(spark, options):
    return spark.readStream.format("ds_kinesis").options(**options).load()


def in_order(rows) -> bool:
    """Sequence numbers tell the order inside a shard; shards of a key follow each other in time."""
    seen = defaultdict(list)
    for row in sorted(rows, key=lambda r: (r.shard_id, len(r.sequence_number), r.sequence_number)):
        seen[row.shard_id, row.partition_key].append(bytes(row.data))
    return all(values == sorted(values) for values in seen.values())


@pytest.mark.slow
def test_restarts_and_resharding_into_an_exactly_once_sink(spark, new_stream, options, tools, tmp_path):
    stream = new_stream(2)
    sent: list[tuple[str, bytes]] = []
    settings = options(stream, **{"max.records.per.batch": "700"})

    def write(count: int) -> None:
        records = tools.numbered(count, keys=40, start=len(sent))
        stream.put(records)
        sent.extend(records)

    def start():
        writer = source(spark, settings).writeStream.format("parquet").option("path", str(tmp_path / "out"))
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def rows():
        out = tmp_path / "out"
        return spark.read.schema(RECORD_DDL).parquet(str(out)).collect() if out.exists() else []

    write(1500)
    query = start()
    for reshard in (stream.split, stream.merge):
        reached = len(sent)
        tools.eventually(lambda n=reached, q=query: q.exception() or len(rows()) >= n, "all rows so far", 90)
        assert query.exception() is None
        write(500)
        query.stop()
        shutil.rmtree(settings["spool"], ignore_errors=True)
        reshard()
        write(500)
        query = start()
    tools.eventually(lambda: query.exception() or len(rows()) >= len(sent), "all rows", 90)
    query.stop()
    found = rows()
    assert sorted((row.partition_key, bytes(row.data)) for row in found) == sorted(sent)
    assert in_order(found)
    assert tools.secret.encode() not in b"".join(
        p.read_bytes() for p in (tmp_path / "checkpoint").rglob("*") if p.is_file()
    )


def test_finite_copy_from_stream_to_stream(spark, new_stream, options, tools, tmp_path):
    origin, target = new_stream(3), new_stream(2)
    sent = [*tools.numbered(2000, keys=100), ("k1", b"")]
    origin.put(sent)

    def copy() -> None:
        writer = source(spark, options(origin)).select("data", "partition_key").writeStream.format("ds_kinesis")
        writer = writer.options(**options(target)).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.queryName("copy").trigger(availableNow=True).start()
        assert query.awaitTermination(90)

    copy()
    records = streams.read_records(target.client.connection, target.name)
    assert sorted((r.partition_key, r.data) for r in records) == sorted(sent)
    origin.put([("k1", b"more")])
    copy()
    again = streams.read_records(target.client.connection, target.name)
    assert len(again) == len(records) + 1 and b"more" in [r.data for r in again]


def test_progress_shows_how_far_shards_are_read(spark, stream, options, tools, tmp_path):
    stream.put(tools.numbered(10))
    writer = source(spark, options(stream)).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def complete() -> bool:
        assert query.exception() is None
        stream.put_one("k", b"more")
        latest = [s["latestOffset"] for p in query.recentProgress for s in json.loads(p.json)["sources"]]
        return any("complete_until" in shard for offset in latest if offset for shard in offset.values())

    tools.eventually(complete, "a report in the progress")
    shown = query.lastProgress.json + query._jsq.toString()
    query.stop()
    assert tools.secret not in shown


def test_errors_arrive_with_their_condition(spark, stream, options, tmp_path):
    broken = {**options(stream), "stream": "nobody-made-this"}
    query = source(spark, broken).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(Exception, match="KINESIS_STREAM_NOT_FOUND"):
        query.awaitTermination(60)
    with pytest.raises(Exception, match="KINESIS_OPTION_UNKNOWN"):
        query = source(spark, {**options(stream), "striim": "x"}).writeStream.format("noop").start()
        query.awaitTermination(60)


def test_processes_end_with_their_query_and_the_next_one_cleans_up(spark, stream, options, tools, tmp_path):
    """Spark kills the planning process: its threads end with it, its files are swept by the next start."""
    stream.put(tools.numbered(10))
    spool = Path(options(stream)["spool"])

    def run() -> None:
        writer = source(spark, options(stream)).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        tools.eventually(lambda: query.exception() or list(spool.glob("run-*/*.arrow")), "a planned batch")
        tools.eventually(lambda: query.exception() or query.lastProgress, "a batch")
        assert query.exception() is None
        query.stop()
        run_folders = list(spool.glob("run-*"))
        assert len(run_folders) <= 1
        tools.eventually(lambda: all(_is_unlocked(f / LOCK) for f in run_folders if (f / LOCK).exists()), "its end")

    run()
    stream.put(tools.numbered(10))
    run()
