# ruff: noqa: E501 - statements stay on one line
"""Scan, filter, projection: decoding, keys, tombstones, bad records."""

from __future__ import annotations

import pytest

from ds_dagster.errors import UserError
from ds_dagster.spark.queries import query as face
from ds_dagster.stores.kinesis.kind import MAX_KEY_CHARACTERS, Kinesis

CLICKS = """
CREATE STREAM clicks (event_time BIGINT, device_id VARCHAR, url VARCHAR, userid VARCHAR)
  WITH ('topic' = 'clicks', 'value.format' = 'json');
"""
USERS = """
CREATE CHANGELOG users (userid VARCHAR, name VARCHAR, age INTEGER, PRIMARY KEY(userid))
  WITH ('topic' = 'users', 'value.format' = 'json');
"""


def test_filter_and_projection(bench):
    bench.compile(
        CLICKS + "CREATE STREAM d AS SELECT userid AS u, event_time, url FROM clicks WHERE device_id = 'desktop';"
    )
    bench.send(
        "clicks",
        {"event_time": 1, "device_id": "desktop", "url": "./a", "userid": "u1"},
        {"event_time": 2, "device_id": "mobile", "url": "./b", "userid": "u2"},
        {"event_time": 3, "device_id": "desktop", "url": None},
        {"event_time": 4, "url": "no device"},
        None,
    )
    assert bench.run("d") == [
        {"u": "u1", "event_time": 1, "url": "./a"},
        {"u": None, "event_time": 3, "url": None},
    ]
    assert [record["key"] for record in bench.records] == [None, None]
    assert list(bench.values[1]) == ["u", "event_time", "url"]


def test_the_record_is_decoded_once(bench):
    bench.compile(CLICKS + "CREATE STREAM d AS SELECT userid, url FROM clicks WHERE device_id = 'x' AND url <> 'y';")
    prepared = bench.prepare("d")
    bench.running.append((prepared, face.start(prepared, str(bench.folder / "c"))))
    assert face.explain(prepared).count("json_decode[device_id, ") == 1


def test_bad_record_ends_the_query_without_its_payload(bench):
    bench.compile(CLICKS + "CREATE STREAM d AS SELECT * FROM clicks WHERE userid = 'nobody';")
    query = bench.start("d")
    bench.send("clicks", {"event_time": 1, "userid": "ok"})
    bench.send("clicks", {"event_time": "s3cret", "url": "private"}, partition="7")
    fault = bench.fault(query)
    assert isinstance(fault, UserError)
    assert fault.condition == "BAD_RECORD"
    assert fault.params["entity"] == "m.clicks"
    assert fault.params["partition"] == "7"
    assert int(str(fault.params["position"])) == 0
    assert "event_time BIGINT" in str(fault.params["reason"])
    assert "s3cret" not in str(fault)
    assert "private" not in str(fault)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("not json at all", "not valid JSON"),
        ("", "empty"),
        ("[1, 2]", "not a JSON object"),
        ('{"event_time": 1, "url": ', "not valid JSON"),
        ('{"event_time": 1} more', "not valid JSON"),
    ],
)
def test_what_is_a_bad_record(bench, value, reason):
    bench.compile(CLICKS + "CREATE STREAM d AS SELECT * FROM clicks;")
    query = bench.start("d")
    bench.send("clicks", value)
    assert reason in str(bench.fault(query).params["reason"])


def test_bad_records_are_skipped_and_counted(bench):
    bench.compile(
        CLICKS
        + "CREATE STREAM d AS SELECT event_time FROM clicks WITH ('source.deserialization.error.handling' = 'IGNORE');"
    )
    query = bench.start("d")
    bench.send("clicks", {"event_time": 1}, "broken", {"event_time": "x"}, {"event_time": 4})
    bench.settle(query)
    assert [row["event_time"] for row in bench.values] == [1, 4]
    counted = [face.read_progress(p.json).bad_records for p in query.recentProgress]
    assert sum(counted) == 2


def test_not_null_columns_are_checked(bench):
    bench.compile(
        "CREATE STREAM s (a BIGINT NOT NULL, b VARCHAR) WITH ('topic' = 's', 'value.format' = 'json');"
        "CREATE STREAM d AS SELECT b FROM s;"
    )
    query = bench.start("d")
    bench.send("s", {"b": "x"})
    assert bench.fault(query).params["reason"] == "column a is NULL"


def test_changelog_projection_keeps_keys_and_deletes(bench):
    bench.compile(USERS + "CREATE CHANGELOG adults AS SELECT userid, name FROM users WHERE age >= 18;")
    query = bench.start("adults")
    bench.send("users", {"userid": "a", "name": "A", "age": 20}, key={"userid": "a"})
    bench.send("users", {"userid": "b", "name": "B", "age": 30}, key={"userid": "b"})
    bench.send("users", {"userid": "c", "name": "C", "age": 3}, key={"userid": "c"})
    bench.settle(query)
    assert bench.folded() == {
        '{"userid": "a"}': {"userid": "a", "name": "A"},
        '{"userid": "b"}': {"userid": "b", "name": "B"},
    }
    bench.send("users", {"userid": "a", "name": "A", "age": 17}, key={"userid": "a"})
    bench.send("users", None, key="b")
    bench.settle(query)
    assert bench.folded() == {}
    assert [record["value"] for record in bench.records[-2:]] == [None, None]
    assert [record["key"] for record in bench.records[-2:]] == [{"userid": "a"}, {"userid": "b"}]


def test_changelog_without_primary_key_value_is_bad(bench):
    bench.compile(USERS + "CREATE CHANGELOG copy AS SELECT userid, name FROM users;")
    query = bench.start("copy")
    bench.send("users", {"name": "x"}, key={"id": "a"})
    reason = "column userid is NULL, and the record's key does not give it"
    assert bench.fault(query).params["reason"] == reason


def test_a_delete_needs_its_key(bench):
    bench.compile(USERS + "CREATE CHANGELOG copy AS SELECT userid, name FROM users;")
    query = bench.start("copy")
    bench.send("users", None)
    assert "a delete whose key" in str(bench.fault(query).params["reason"])


def test_empty_value_deletes_where_the_store_says_so(bench):
    bench.compile(USERS + "CREATE CHANGELOG copy AS SELECT userid, name FROM users;")
    query = bench.start("copy", empty_is_delete=True)
    bench.send("users", {"userid": "a", "name": "A", "age": 1}, key="a")
    bench.send("users", b"", key="a")
    bench.settle(query)
    assert [record["value"] for record in bench.records] == [{"userid": "a", "name": "A"}, None]


def test_nested_values_and_timestamps_survive(bench):
    bench.compile(
        """CREATE STREAM s (t TIMESTAMP_LTZ(3), n TIMESTAMP(6), d DATE, x DECIMAL(10,3), b VARBINARY, f BOOLEAN, a ARRAY<BIGINT>,
             m MAP<VARCHAR, DOUBLE>, st STRUCT<phone VARCHAR, "State" VARCHAR>, tm TIME)
           WITH ('topic' = 's', 'value.format' = 'json', 'timestamp.format' = 'iso8601');
           CREATE STREAM d WITH ('timestamp.format' = 'iso8601') AS
           SELECT *, st->"State" AS state, a[1] AS first, a[9] AS none, m['k'] AS k FROM s;"""
    )
    bench.send(
        "s",
        {"t": "2024-01-31T10:11:12.5Z", "n": "2024-01-31T10:11:12.123456", "d": "2024-01-31", "x": 1.5, "b": "AQID",
         "f": True, "a": [7, 8], "m": {"k": 0.25}, "st": {"phone": "1", "State": "CA"}, "tm": "01:02:03"},
    )  # fmt: skip
    (row,) = bench.run("d")
    assert row == {
        "t": "2024-01-31T10:11:12.500000Z", "n": "2024-01-31T10:11:12.123456", "d": "2024-01-31", "x": 1.5, "b": "AQID",
        "f": True, "a": [7, 8], "m": {"k": 0.25}, "st": {"phone": "1", "State": "CA"}, "tm": "01:02:03", "state": "CA",
        "first": 7, "none": None, "k": 0.25,
    }  # fmt: skip


def test_a_number_is_no_timestamp(bench):
    bench.compile(
        "CREATE STREAM s (t TIMESTAMP_LTZ(3)) WITH ('topic' = 's', 'value.format' = 'json');CREATE STREAM d AS SELECT * FROM s;"
    )
    query = bench.start("d")
    bench.send("s", {"t": 1497014222380})
    assert bench.fault(query).params["reason"] == "the JSON has another type for: t TIMESTAMP_LTZ(3)"


PRIMITIVES = [
    ("INTEGER", b"abcd", 1633837924),
    ("INTEGER", b"\xff\xff\xff\xfe", -2),
    ("BIGINT", (-5).to_bytes(8, "big", signed=True), -5),
    ("SMALLINT", b"\x01\x00", 256),
    ("TINYINT", b"\x80", -128),
    ("VARCHAR", "grüß".encode(), "grüß"),
    ("BOOLEAN", b"\x01", True),
]


@pytest.mark.parametrize(("type_", "raw", "value"), PRIMITIVES)
def test_primitive_values_are_big_endian(bench, type_, raw, value):
    bench.compile(
        f"""CREATE STREAM s (v {type_}) WITH ('topic' = 's', 'value.format' = 'primitive');
            CREATE STREAM j WITH ('value.format' = 'json') AS SELECT v FROM s;
            CREATE STREAM p AS SELECT v FROM s;"""
    )
    bench.send("s", raw)
    assert bench.run("j") == [{"v": value}]
    prepared = bench.prepare("p")
    written: list[bytes] = []
    prepared.sinks[0].writer.capture = lambda batch, _: written.extend(bytes(row["value"]) for row in batch.collect())
    query = face.start(prepared, str(bench.folder / "p"))
    bench.running.append((prepared, query))
    query.processAllAvailable()
    assert written == [raw]


def test_primitive_of_another_width_is_bad(bench):
    bench.compile(
        "CREATE STREAM s (v INTEGER) WITH ('topic' = 's', 'value.format' = 'primitive');CREATE STREAM d AS SELECT v FROM s;"
    )
    query = bench.start("d")
    bench.send("s", b"\x00\x01")
    assert "big-endian" in str(bench.fault(query).params["reason"])


def test_key_columns_of_the_sink(bench):
    bench.compile(
        CLICKS
        + """CREATE STREAM by_url AS SELECT url, userid FROM clicks PARTITION BY url;
             CREATE STREAM plain WITH ('key.format' = 'primitive', 'key.columns' = 'userid', 'value.columns.exclude' = 'userid')
               AS SELECT url, userid FROM clicks;"""
    )
    bench.send("clicks", {"url": "./a", "userid": "u"})
    bench.run("by_url")
    assert [(r["key"], r["value"]) for r in bench.records] == [({"url": "./a"}, {"url": "./a", "userid": "u"})]
    bench.records.clear()
    bench.run("plain")
    assert [(r["key"], r["value"]) for r in bench.records] == [(b"u", {"url": "./a"})]


def test_a_key_longer_than_the_store_takes_ends_the_query(bench):
    project = bench.compile(
        CLICKS
        + """CREATE STORE k WITH ('type' = KINESIS, 'access_region' = 'us-east-1', 'uris' = 'https://kinesis.us-east-1.amazonaws.com');
            CREATE STREAM d WITH ('store' = 'k', 'topic.shards' = 1, 'key.format' = 'primitive', 'key.columns' = 'url')
              AS SELECT url, userid FROM clicks;"""
    )
    write = Kinesis().write_spec(project.catalog.store("k"), project.queries["d"].sink, "continuous")
    query = bench.start("d", write=write)
    bench.send("clicks", {"url": "ä" * MAX_KEY_CHARACTERS, "userid": "fits"})
    bench.settle(query)
    assert [record["data"]["userid"] for record in bench.records] == ["fits"]
    bench.send("clicks", {"url": "x" * (MAX_KEY_CHARACTERS + 1), "userid": "too long"})
    fault = bench.fault(query)
    assert isinstance(fault, UserError)
    assert fault.condition == "RECORD_KEY_TOO_LONG"
    assert fault.params["entity"] == "k.d"
    assert (int(str(fault.params["length"])), int(str(fault.params["limit"]))) == (257, 256)
    assert len(bench.records) == 1, "nothing of its batch is written"


def test_rowtime_is_the_records_own(bench):
    bench.compile(CLICKS + "CREATE STREAM d AS SELECT rowtime() AS at, url FROM clicks;")
    bench.send("clicks", {"url": "x"}, at=1_700_000_000_123)
    assert bench.run("d") == [{"at": 1_700_000_000_123, "url": "x"}]
