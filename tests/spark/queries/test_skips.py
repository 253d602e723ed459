"""Records that a job passes: which rows are left out, and what is kept of them."""

from __future__ import annotations

import pytest

from ds_dagster.catalog.reading.skip import SkippedRecord, skips_of, skips_to_json
from ds_dagster.stores.kafka import kind as kafka
from ds_dagster.stores.kinesis import kind as kinesis

CLICKS = """
CREATE STREAM clicks (event_time BIGINT NOT NULL, url VARCHAR NOT NULL)
  WITH ('topic' = 'clicks', 'value.format' = 'json', 'timestamp' = 'event_time');
"""
COUNTS = "CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n FROM {source} GROUP BY url;"
LOGGED = "clicks WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG')"


def click(url):
    return {"event_time": 1, "url": url}


def counts(bench):
    return {row["url"]: row["n"] for row in bench.folded().values()}


def start(bench, source="clicks"):
    bench.stop()
    bench.compile(CLICKS + COUNTS.format(source=source))
    return bench.start("s")


def test_exactly_the_named_record_is_left_out_and_the_state_is_kept(bench):
    query = start(bench)
    bench.send("clicks", click("a"), click("b"), partition="0")
    bench.settle(query)
    bench.send("clicks", click("a"), "broken", click("b"), partition="0")
    bench.send("clicks", *[click("c")] * 5, partition="1")
    fault = bench.fault(query)
    assert fault.condition == "BAD_RECORD"
    place = [fault.params[name] for name in ("entity", "partition", "position")]
    bench.skips = (SkippedRecord("m.other", "1", place[2]), SkippedRecord(*place))
    bench.settle(start(bench))
    assert counts(bench) == {"a": 2, "b": 2, "c": 5}
    bench.send("clicks", click("a"), partition="0")
    bench.settle(start(bench))
    assert counts(bench) == {"a": 3, "b": 2, "c": 5}


def test_it_is_in_the_log_of_the_source_with_who_passed_it(bench):
    bench.skips = (SkippedRecord("m.clicks", "0", "1", "passed by ann: ticket 7"),)
    query = start(bench, LOGGED)
    bench.send("clicks", click("a"), click("b"), "broken", click("c"), partition="0")
    bench.settle(query)
    assert counts(bench) == {"a": 1, "c": 1}
    logged = [(row["partition"], row["offset"], row["reason"]) for rows in bench.logged.values() for row in rows]
    assert len(logged) == 2
    assert ("0", "1", "passed by ann: ticket 7") in logged


@pytest.mark.parametrize(
    ("envelope", "columns", "places"),
    [
        (kafka.ENVELOPE, "partition INT, offset BIGINT", [((3, 0), "0"), ((0, 120), "120")]),
        (
            kinesis.ENVELOPE,
            "shard_id STRING, sequence_number STRING, sub_sequence_number BIGINT",
            [(("shard-0", "49" * 28, 0), "49" * 28), (("shard-0", "49", 12), "49.12")],
        ),
    ],
)
def test_a_place_is_written_as_the_store_writes_it(spark, envelope, columns, places):
    rows = spark.createDataFrame([row for row, _ in places], columns)
    assert [row[0] for row in rows.selectExpr(envelope.shown_position).collect()] == [text for _, text in places]


def test_the_journal_keeps_them():
    skips = (SkippedRecord("k.clicks", "0", "7", "passed by ann"), SkippedRecord("k.clicks", "1", "9", ""))
    assert skips_of(skips_to_json(skips)) == skips
    assert skips_of(skips_to_json(())) == ()
