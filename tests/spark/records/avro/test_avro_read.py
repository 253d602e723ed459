"""Avro records of a stream: wire format, types, schemas that change while the job runs, bad records, no registry."""

from __future__ import annotations

import datetime
import struct
import uuid
from decimal import Decimal
from typing import Any

import pytest

from ds_dagster.errors import ExternalError, UserError
from ds_dagster.spark.queries import query as face
from tests.avro_registry import AvroRegistry
from tests.spark.records.avro.conftest import AvroBench, field, framed, record

CLICKS_1 = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "event_time", "type": "long"},
        {"name": "url", "type": "string"},
        {"name": "userid", "type": ["null", "string"], "default": None},
    ],
}
CLICKS = "CREATE STREAM clicks (event_time BIGINT, url VARCHAR, userid VARCHAR) WITH ('value.format' = 'avro');"
COPY = "CREATE STREAM d WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM clicks;"


def test_records_of_one_schema_are_read_and_the_registry_is_asked_once(bench: AvroBench) -> None:
    id_ = bench.registry.register("clicks-value", CLICKS_1)
    bench.compile(CLICKS + COPY)
    query = bench.start("d")
    rows = [{"event_time": n, "url": f"./{n}", "userid": None if n % 3 else f"u{n}"} for n in range(50)]
    for part in (rows[:20], rows[20:]):
        bench.send_avro("clicks", id_, *part, schema=CLICKS_1)
        bench.settle(query)
    assert bench.values == rows
    assert bench.registry.asked(f"/schemas/ids/{id_}") == 1


UTC = datetime.timezone.utc
INNER = record(field("c", "string"), name="Inner")
TEXT_TIME = record(field("event_time", "string"))
ALL_TYPES = [
    # column, Avro type, value written, value as it stands in the JSON of the copy
    ("BOOLEAN", "boolean", True, True),
    ("TINYINT", "int", -128, -128),
    ("SMALLINT", "int", 32767, 32767),
    ("INTEGER", "int", -(2**31), -(2**31)),
    ("BIGINT", "long", 2**63 - 1, 2**63 - 1),
    ("FLOAT", "float", 1.5, 1.5),
    ("DOUBLE", "double", -2.25e300, -2.25e300),
    ("VARCHAR", "string", "grüße \N{GRINNING FACE}", "grüße \N{GRINNING FACE}"),
    ("VARCHAR", {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}, "GREEN", "GREEN"),
    ("VARCHAR", {"type": "string", "logicalType": "uuid"}, uuid.UUID(int=7), str(uuid.UUID(int=7))),
    ("VARBINARY", "bytes", b"\x00\xff", "AP8="),
    ("VARBINARY", {"type": "fixed", "name": "Two", "size": 2}, b"ab", "YWI="),
    ("DATE", {"type": "int", "logicalType": "date"}, datetime.date(1969, 12, 30), "1969-12-30"),
    ("TIME", {"type": "int", "logicalType": "time-millis"}, datetime.time(23, 59, 58, 5000), "23:59:58.005"),
    ("TIME", {"type": "long", "logicalType": "time-micros"}, datetime.time(1, 2, 3, 4), "01:02:03.000004"),
    (
        "TIMESTAMP_LTZ",
        {"type": "long", "logicalType": "timestamp-millis"},
        datetime.datetime(2024, 2, 29, 12, 0, 0, 5000, UTC),
        "2024-02-29 12:00:00.005000Z",
    ),
    (
        "TIMESTAMP_LTZ(6)",
        {"type": "long", "logicalType": "timestamp-micros"},
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        "1969-12-31 23:59:59.999999Z",
    ),
    (
        "TIMESTAMP(6)",
        {"type": "long", "logicalType": "local-timestamp-micros"},
        datetime.datetime(2024, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 - a local time
        "2024-01-01 00:00:00.000001",
    ),
    ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-nanos"}, 1_500_000_000, "1970-01-01 00:00:01.500000"),
    (
        "DECIMAL(38,4)",
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4},
        Decimal("-1234567890123456789012345678901234.5678"),
        Decimal("-1234567890123456789012345678901234.5678"),
    ),
    (
        "DECIMAL(9,2)",
        {"type": "fixed", "name": "Money", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 1},
        Decimal("-12.5"),
        Decimal("-12.50"),
    ),
    ("ARRAY<INTEGER>", {"type": "array", "items": ["null", "int"]}, [1, None, 3], [1, None, 3]),
    ("MAP<VARCHAR,BIGINT>", {"type": "map", "values": "long"}, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    (
        "STRUCT<a INTEGER, b ARRAY<STRUCT<c VARCHAR>>>",
        record(field("b", {"type": "array", "items": INNER}), field("a", "int"), name="Outer"),
        {"a": 4, "b": [{"c": "x"}, {"c": "y"}]},
        {"a": 4, "b": [{"c": "x"}, {"c": "y"}]},
    ),
    # promotions
    ("BIGINT", "int", 7, 7),
    ("DOUBLE", "long", 7, 7.0),
    ("DOUBLE", "float", 0.5, 0.5),
    ("FLOAT", "int", 7, 7.0),
    ("DECIMAL(5,1)", "long", 7, Decimal("7.0")),
    ("VARCHAR", "bytes", b"abc", "abc"),
    ("VARBINARY", "string", "abc", "YWJj"),
]  # fmt: skip


def test_all_types(bench: AvroBench) -> None:
    """Each as a plain field and in a union with null; what stands between them unread is skipped rightly."""
    fields, declared, written, expected = [], [], {}, {}
    for number, (column, avro, value, shown) in enumerate(ALL_TYPES):
        names = [f"c{number}", f"n{number}", f"x{number}"]
        renamed = [avro, ["null", _again(avro, "N")], {"type": "array", "items": _again(avro, "X")}]
        fields += [field(name, type_) for name, type_ in zip(names, renamed, strict=True)]
        written |= {names[0]: value, names[1]: value if number % 2 else None, names[2]: [value, value]}
        declared += [f"c{number} {column}", f"n{number} {column}"]
        expected |= {names[0]: shown, names[1]: shown if number % 2 else None}
    schema = record(*fields)
    id_ = bench.registry.register("t-value", schema)
    sql = f"CREATE STREAM t ({', '.join(declared)}) WITH ('value.format' = 'avro');"
    bench.compile(sql + "CREATE STREAM d WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM t;")
    query = bench.start("d")
    bench.send_avro("t", id_, written, schema=schema)
    bench.settle(query)
    (found,) = bench.values
    for name, value in expected.items():
        assert found[name] == (float(value) if isinstance(value, Decimal) else value), name


def _again(avro: Any, suffix: str) -> Any:
    """The type once more: names of Avro are unique in a schema."""
    if isinstance(avro, list):
        return [_again(part, suffix) for part in avro]
    if not isinstance(avro, dict):
        return avro
    made = {name: _again(part, suffix) if name in ("items", "values", "type") else part for name, part in avro.items()}
    if "fields" in avro:
        made["fields"] = [{**part, "type": _again(part["type"], suffix)} for part in avro["fields"]]
    return {**made, "name": avro["name"] + suffix} if "name" in avro else made


def test_writers_may_change_their_schema_while_the_job_runs_and_over_a_restart(bench: AvroBench) -> None:
    """Added with default, removed, int to long, renamed by alias, another unit of time: as of the newest schema."""
    ms, us = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
    first = record(field("id", "int"), field("was", "string"), field("gone", ["null", "string"]), field("at", ms))
    second = record(
        field("id", "long"),
        field("name", "string", aliases=["was"]),
        field("at", us),
        field("level", "int", default=5),
        field("more", record(field("x", "int"), name="More"), default={"x": 9}),
    )
    id_1 = bench.registry.register("t-value", first)
    columns = "id BIGINT, name VARCHAR, gone VARCHAR, at TIMESTAMP_LTZ, level INTEGER, more STRUCT<x BIGINT>"
    sql = f"CREATE STREAM t ({columns}) WITH ('value.format' = 'avro');"
    bench.compile(sql + "CREATE STREAM d WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM t;")
    query = bench.start("d")
    at = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    old = {"id": 1, "was": "a", "gone": "g", "at": at}
    bench.send_avro("t", id_1, old, schema=first)
    bench.settle(query)
    id_2 = bench.registry.register("t-value", second)
    new = {"id": 2**40, "name": "b", "at": at, "level": 1, "more": {"x": 2}}
    bench.send("t", framed(id_2, second, new), framed(id_1, first, {**old, "id": 2}))
    bench.settle(query)
    shown = {"at": "2024-01-01 00:00:00.000Z"}
    no_alias = {"name": None, "gone": "g", "level": None, "more": None, **shown}
    newest = {"id": 2**40, "name": "b", "gone": None, "level": 1, "more": {"x": 2}, **shown}
    assert bench.values == [{"id": 1, **no_alias}, newest, {"id": 2, **no_alias}]
    bench.stop()
    bench.records.clear()
    query = bench.start("d")
    bench.send("t", framed(id_1, first, {**old, "id": 3}), framed(id_2, second, new))
    bench.settle(query)
    renamed = {"name": "a", "gone": "g", "level": 5, "more": {"x": 9}, **shown}
    assert bench.values[-2:] == [{"id": 3, **renamed}, newest]


BAD = [
    (b"", "the value is empty"),
    (b"{}", "does not begin with the id of a schema"),
    (b"\x01" + bytes(20), "does not begin with the id of a schema"),
    (struct.pack(">bI", 0, 4711) + b"x", "the registry r does not know schema 4711"),
    (framed(1, CLICKS_1, {"event_time": 1, "url": "s3cret", "userid": None})[:-3], "ends too early"),
    (framed(1, CLICKS_1, {"event_time": 1, "url": "s3cret", "userid": None}) + b"x", "bytes are left after"),
    (struct.pack(">bI", 0, 1) + b"\x02\xfe\xff\xff\xff\x0fs3cret", "url: the record ends too early"),
    (struct.pack(">bI", 0, 1) + b"\x02\x02x\x10", "is not a record of schema 1"),
    (framed(2, TEXT_TIME, {"event_time": "s3cret"}), "event_time: string is written, BIGINT declared"),
    (framed(3, "string", "s3cret"), "schema 3 is not a record but string"),
    (framed(4, record(field("x", "int")), {"x": 1}), "schema 4 is of type PROTOBUF"),
    (framed(5, record(field("x", "int")), {"x": 1}), "schema 5 cannot be read as an Avro schema"),
]  # fmt: skip


def _with_odd_schemas(registry: AvroRegistry) -> None:
    assert registry.register("clicks-value", CLICKS_1) == 1
    registry.register("a", record(field("event_time", "string")))
    registry.register("b", '"string"')
    assert registry.register("c", "{message X}", schemaType="PROTOBUF") == 4
    assert registry.register("d", '["int", "int"]') == 5


def test_bad_records_are_skipped_and_counted(bench: AvroBench) -> None:
    _with_odd_schemas(bench.registry)
    sql = COPY.replace("FROM clicks", "FROM clicks WITH ('source.deserialization.error.handling' = 'IGNORE')")
    bench.compile(CLICKS + sql)
    query = bench.start("d")
    good = {"event_time": 9, "url": "./9", "userid": None}
    bench.send("clicks", *(value for value, _ in BAD), framed(1, CLICKS_1, good), *(value for value, _ in BAD))
    bench.settle(query)
    assert bench.values == [good]
    assert sum(face.read_progress(p.json).bad_records for p in query.recentProgress) == 2 * len(BAD)
    assert bench.registry.asked("/schemas/ids/4711") == 1, "an unknown id is not asked for with every record"


@pytest.mark.parametrize(("value", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_a_bad_record_ends_the_query_without_its_payload(bench: AvroBench, value: bytes, reason: str) -> None:
    _with_odd_schemas(bench.registry)
    bench.compile(CLICKS + COPY)
    query = bench.start("d")
    bench.send("clicks", value)
    fault = bench.fault(query)
    assert isinstance(fault, UserError)
    assert fault.condition == "BAD_RECORD"
    assert reason in str(fault.params["reason"])
    assert "s3cret" not in str(fault)


def test_not_null_columns_are_checked(bench: AvroBench) -> None:
    id_ = bench.registry.register("clicks-value", CLICKS_1)
    bench.compile("CREATE STREAM clicks (userid VARCHAR NOT NULL) WITH ('value.format' = 'avro');" + COPY)
    query = bench.start("d")
    bench.send_avro("clicks", id_, {"event_time": 9, "url": "./9", "userid": None}, schema=CLICKS_1)
    assert bench.fault(query).params["reason"] == "column userid is NULL"


def test_a_not_null_column_that_no_schema_has_is_a_bad_record(bench: AvroBench) -> None:
    schema = record(field("event_time", "long"))
    id_ = bench.registry.register("clicks-value", schema)
    bench.compile(
        "CREATE STREAM clicks (event_time BIGINT, url VARCHAR NOT NULL) WITH ('value.format' = 'avro');" + COPY
    )
    query = bench.start("d")
    bench.send_avro("clicks", id_, {"event_time": 9}, schema=schema)
    reason = "schema 1 has no field url, which has no default and is NOT NULL"
    assert bench.fault(query).params["reason"] == reason


def test_a_registry_that_is_away_is_an_outer_fault_and_the_batch_is_tried_again(bench: AvroBench) -> None:
    bench.compile(CLICKS + COPY)
    query = bench.start("d")
    id_ = bench.registry.register("clicks-value", CLICKS_1)
    bench.registry.down = True
    row = {"event_time": 9, "url": "./9", "userid": None}
    bench.send_avro("clicks", id_, row, schema=CLICKS_1)
    fault = bench.fault(query)
    assert isinstance(fault, ExternalError)
    assert fault.condition == "REGISTRY_UNREACHABLE"
    assert bench.registry.url in str(fault)
    bench.registry.down = False
    bench.running.clear()
    bench.settle(bench.start("d"))
    assert bench.values == [row]


def test_a_login_that_is_refused_is_the_users_and_its_password_is_not_told(bench: AvroBench) -> None:
    bench.login = ", 'confluent.username' = 'me', 'confluent.password' = 's3cret'"
    bench.registry.login = ("me", "s3cret")
    id_ = bench.registry.register("clicks-value", CLICKS_1)
    bench.compile(CLICKS + COPY)
    query = bench.start("d")
    row = {"event_time": 9, "url": "./9", "userid": None}
    bench.send_avro("clicks", id_, row, schema=CLICKS_1)
    bench.settle(query)
    assert bench.values == [row]
    prepared = bench.running[0][0]
    assert "s3cret" not in repr(prepared) + face.explain(prepared)
    bench.registry.login = ("me", "another")
    other = bench.registry.register("x", record(field("event_time", "long")))
    bench.send_avro("clicks", other, {"event_time": 1}, schema=record(field("event_time", "long")))
    fault = bench.fault(query)
    assert isinstance(fault, UserError)
    assert fault.condition == "REGISTRY_LOGIN_REFUSED"
    assert "s3cret" not in str(fault)
    with pytest.raises(UserError, match="REGISTRY_LOGIN_REFUSED"):
        bench.prepare("d")


def test_schemas_made_of_others(bench: AvroBench) -> None:
    inner = record(field("x", "int"), name="Inner")
    bench.registry.register("inner", inner)
    outer = record(field("url", "string"), field("part", "Inner"), name="Outer")
    reference = {"name": "Inner", "subject": "inner", "version": 1}
    id_ = bench.registry.register("clicks-value", outer, references=[reference])
    bench.compile("CREATE STREAM clicks (url VARCHAR, part STRUCT<x INTEGER>) WITH ('value.format' = 'avro');" + COPY)
    query = bench.start("d")
    row = {"url": "./1", "part": {"x": 3}}
    whole = record(field("url", "string"), field("part", inner), name="Outer")
    bench.send_avro("clicks", id_, row, schema=whole)
    bench.settle(query)
    assert bench.values == [row]


USERS = "CREATE CHANGELOG users (userid VARCHAR, age INTEGER, PRIMARY KEY(userid)) WITH ('value.format' = 'avro'{key});"
COPIED = "CREATE CHANGELOG d WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM users;"
USER = record(field("userid", "string"), field("age", ["null", "int"]), name="User")


@pytest.mark.parametrize("key_schema", [record(field("userid", "string")), "string"], ids=["record", "bare"])
def test_keys_of_a_changelog(bench: AvroBench, key_schema: Any) -> None:
    value_id = bench.registry.register("users-value", USER)
    key_id = bench.registry.register("users-key", key_schema)
    bench.compile(USERS.format(key="") + COPIED)
    query = bench.start("d")

    def send(userid: str, age: int | None) -> None:
        key = userid if key_schema == "string" else {"userid": userid}
        value = None if age is None else framed(value_id, USER, {"userid": userid, "age": age})
        bench.send("users", value, key=framed(key_id, key_schema, key))

    send("a", 1)
    send("b", 2)
    send("a", 3)
    send("b", None)
    bench.settle(query)
    assert bench.folded() == {'{"userid": "a"}': {"userid": "a", "age": 3}}
    bench.send("users", None, key="a")
    assert "key does not begin with the id of a schema" in str(bench.fault(query).params["reason"])


def test_json_keys_beside_avro_values(bench: AvroBench) -> None:
    value_id = bench.registry.register("users-value", USER)
    bench.compile(USERS.format(key=", 'key.format' = 'json'") + COPIED)
    query = bench.start("d")
    bench.send("users", framed(value_id, USER, {"userid": "a", "age": 1}), key={"userid": "a"})
    bench.send("users", framed(value_id, USER, {"userid": "b", "age": 1}), key={"userid": "b"})
    bench.send("users", None, key={"userid": "b"})
    bench.settle(query)
    assert bench.folded() == {'{"userid": "a"}': {"userid": "a", "age": 1}}


AGE = record(field("age", ["null", "int"]), name="User")
KEYS_ALONE = {
    "a record": ("", record(field("userid", "string")), {"userid": "a"}, {"userid": "b"}),
    "a bare value": ("", "string", "a", "b"),
    "JSON": (", 'key.format' = 'json'", None, {"userid": "a"}, {"userid": "b"}),
    "primitive": (", 'key.format' = 'primitive', 'key.type' = 'VARCHAR'", None, "a", "b"),
}
"""Key beside an Avro value without the primary key → properties, its schema, two keys."""


@pytest.mark.parametrize("kind", KEYS_ALONE)
def test_a_primary_key_in_the_record_key_alone(bench: AvroBench, kind: str) -> None:
    properties, key_schema, one, other = KEYS_ALONE[kind]
    value_id = bench.registry.register("users-value", AGE)
    key_id = bench.registry.register("users-key", key_schema) if key_schema else 0
    bench.compile(USERS.format(key=properties) + COPIED)
    query = bench.start("d")

    def send(key: Any, age: int | None) -> None:
        value = None if age is None else framed(value_id, AGE, {"age": age})
        bench.send("users", value, key=framed(key_id, key_schema, key) if key_schema else key)

    for key, age in ((one, 1), (other, 2), (one, 3)):
        send(key, age)
    bench.settle(query)
    assert bench.folded() == {
        '{"userid": "a"}': {"userid": "a", "age": 3},
        '{"userid": "b"}': {"userid": "b", "age": 2},
    }
    send(other, None)
    bench.settle(query)
    assert bench.folded() == {'{"userid": "a"}': {"userid": "a", "age": 3}}
    bench.send("users", framed(value_id, AGE, {"age": 4}), key=None)
    assert "the record's key does not give it" in str(bench.fault(query).params["reason"])
