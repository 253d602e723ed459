"""Every Protobuf type as every SQL type that holds it, in both wire formats, against Python's own protobuf."""

from __future__ import annotations

import base64
import datetime
import json
import struct
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from ds_dagster.spark.jvm import operators
from ds_dagster.spark.records.schemas import HEADERS
from tests.avro_registry import AvroRegistry
from tests.protobuf_files import classes, descriptor_set, proto_file, text_of

UTC = datetime.timezone.utc
IMPORTS = (
    "google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto", "google/type/date.proto",
    "google/type/timeofday.proto", "confluent/type/decimal.proto",
)  # fmt: skip
ALL = proto_file(
    "all.proto",
    {
        "Other": ["int32 x = 1"],
        "All": [
            "bool b = 1", "int32 i32 = 2", "sint32 s32 = 3", "sfixed32 sf32 = 4", "uint32 u32 = 5", "fixed32 f32 = 6",
            "int64 i64 = 7", "sint64 s64 = 8", "sfixed64 sf64 = 9", "uint64 u64 = 10", "fixed64 f64 = 11",
            "float f = 12", "double d = 13", "string t = 14", "bytes raw = 15", "Color color = 16",
            "optional int32 maybe = 17", "repeated int32 numbers = 18", "repeated string words = 19",
            "map<string, int64> counts = 20", "map<int32, All.Inner> parts = 2000", "All.Inner inner = 22",
            "repeated All.Inner inners = 23", "google.protobuf.Timestamp at = 24", "google.type.Date day = 25",
            "google.type.TimeOfDay tod = 26", "confluent.type.Decimal money = 27",
            "google.protobuf.StringValue note = 28", "google.protobuf.Int64Value big = 29",
            "repeated google.protobuf.Timestamp times = 30", "oneof pick: string one = 31",
            "oneof pick: int64 two = 32", "repeated Color colors = 33",
        ],
        "All.Inner": ["string c = 1", "optional double v = 2", "repeated sint64 zs = 3"],
    },
    enums={"Color": {"NONE": 0, "RED": 1, "GREEN": 2}},
    imports=IMPORTS,
)  # fmt: skip
INNER = "struct<v:double,c:string,zs:array<bigint>>"
COLUMNS = (
    "b boolean, i32 int, s32 int, sf32 int, u32 bigint, f32 bigint, i64 bigint, s64 bigint, sf64 bigint, "
    "u64 decimal(20,0), f64 decimal(20,0), f float, d double, t string, raw binary, color string, maybe int, "
    "numbers array<int>, words array<string>, counts map<string,bigint>, parts map<int," + INNER + ">, "
    "inner " + INNER + ", inners array<" + INNER + ">, at timestamp, day date, money decimal(30,4), note string, "
    "big bigint, times array<timestamp>, one string, two bigint, colors array<string>"
)
NOTHING = {
    "b": False, "i32": 0, "s32": 0, "sf32": 0, "u32": 0, "f32": 0, "i64": 0, "s64": 0, "sf64": 0, "u64": Decimal(0),
    "f64": Decimal(0), "f": 0.0, "d": 0.0, "t": "", "raw": b"", "color": "NONE", "maybe": None, "numbers": [],
    "words": [], "counts": {}, "parts": {}, "inner": None, "inners": [], "at": None, "day": None, "money": None,
    "note": None, "big": None, "times": [], "one": None, "two": None, "colors": [],
}  # fmt: skip
CLASSES = classes(ALL)
Message = CLASSES["shop.All"]


def read(
    spark: SparkSession, records: list[tuple[bytes | None, list[tuple[str, bytes]] | None]], columns: str, **how: Any
) -> list[dict[str, Any]]:
    """Rows with their ``reason``; ``how``: settings of a registry, or descriptors and message."""
    frame = spark.createDataFrame(records, f"part binary, headers {HEADERS}")
    names = {"columns": StructType.fromDDL(columns), "reason": "reason", "kind": "value"}
    jar = operators(spark)
    decode = jar.protobuf_message if "descriptors" in how else jar.protobuf_columns
    made = decode(sf.col("part"), sf.col("headers"), **how, **names)
    return [plain(row) for row in frame.select(made.alias("r")).select("r.*").collect()]


def plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: plain(part) for name, part in value.asDict().items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime.datetime):
        return value.astimezone(UTC)
    return value


def bare(spark: SparkSession, *messages: Any, columns: str = COLUMNS) -> list[dict[str, Any]]:
    records = [(one.SerializeToString(), None) for one in messages]
    described = base64.b64encode(descriptor_set(ALL)).decode()
    return read(spark, records, columns, descriptors=described, message="shop.All")


def expected(message: Any) -> dict[str, Any]:
    """The row by the documented rules, from Python's object."""
    found: dict[str, Any] = {name: getattr(message, name) for name in NOTHING}
    told = ("maybe", "inner", "at", "day", "money", "note", "big", "one", "two")
    found |= {name: None for name in told if not message.HasField(name)}
    names = {0: "NONE", 1: "RED", 2: "GREEN"}
    found["color"] = names.get(message.color, str(message.color))
    found["colors"] = [names.get(one, str(one)) for one in message.colors]
    found |= {name: Decimal(getattr(message, name)) for name in ("u64", "f64")}
    found |= {name: list(getattr(message, name)) for name in ("numbers", "words")}
    found["counts"] = dict(message.counts)
    found["parts"] = {key: _inner(one) for key, one in message.parts.items()}
    found["inners"] = [_inner(one) for one in message.inners]
    found["times"] = [_moment(one) for one in message.times]
    if found["inner"] is not None:
        found["inner"] = _inner(message.inner)
    if found["at"] is not None:
        found["at"] = _moment(message.at)
    if found["day"] is not None:
        found["day"] = datetime.date(message.day.year, message.day.month, message.day.day)
    if found["money"] is not None:
        digits = int.from_bytes(message.money.value, "big", signed=True)
        found["money"] = Decimal(digits).scaleb(-message.money.scale).quantize(Decimal("0.0001"))
    found |= {name: found[name].value for name in ("note", "big") if found[name] is not None}
    return {**found, "reason": None}


def _inner(one: Any) -> dict[str, Any]:
    return {"v": one.v if one.HasField("v") else None, "c": one.c, "zs": list(one.zs)}


def _moment(one: Any) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(one.seconds, UTC) + datetime.timedelta(microseconds=one.nanos // 1000)


FULL = Message(
    b=True, i32=-(2**31), s32=2**31 - 1, sf32=-7, u32=2**32 - 1, f32=2**32 - 1, i64=-(2**63), s64=2**63 - 1, sf64=-9,
    u64=2**64 - 1, f64=2**64 - 1, f=1.5, d=-2.25e300, t="grüße \N{GRINNING FACE}", raw=b"\0\xff", color=2, maybe=0,
    numbers=[1, -1, 2**31 - 1], words=["a", "", "ß"], counts={"a": 1, "": -1}, parts={-5: {"c": "x"}, 0: {}},
    inner={"v": 0.0, "zs": [-1, 1]}, inners=[{"c": "p"}, {}], at={"seconds": -1, "nanos": 999_999_999},
    day={"year": 2024, "month": 2, "day": 29}, money={"value": b"\xff\x85", "precision": 3, "scale": 1},
    note={"value": ""}, big={"value": 2**60}, times=[{"seconds": 5}, {}], two=0, colors=[1, 2, 0],
)  # fmt: skip


def test_all_types_and_what_is_not_there(spark: SparkSession) -> None:
    full, empty, odd = bare(spark, FULL, Message(), Message(color=7, colors=[9]))
    assert full == expected(FULL)
    assert full["money"] == Decimal("-12.3")
    assert empty == {**NOTHING, "reason": None}
    assert (odd["color"], odd["colors"]) == ("7", ["9"]), "an enum's number without a name, as in Protobuf's JSON"


def test_other_columns_for_the_same_fields(spark: SparkSession) -> None:
    columns = (
        "i32 tinyint, s32 smallint, u32 int, i64 decimal(19,0), u64 bigint, f double, t binary, raw string, color int, "
        "at timestamp_ntz, note string, money struct<scale:int,precision:bigint>, day struct<year:int,month:bigint>, "
        "big struct<value:bigint>, tod struct<hours:int>, unknown string"
    )
    message = Message(
        i32=-128, s32=-32768, u32=5, i64=-(2**63), u64=6, f=0.5, t="x", raw=b"y", color=1, at={"seconds": 1},
        money={"scale": 2, "precision": 4}, day={"year": 3, "month": 4}, big={"value": 7}, tod={"hours": 23},
    )  # fmt: skip
    (found,) = bare(spark, message, columns=columns)
    assert found.pop("at").replace(tzinfo=None) == datetime.datetime(1970, 1, 1, 0, 0, 1)  # noqa: DTZ001 - a local time
    assert found == {
        "i32": -128, "s32": -32768, "u32": 5, "i64": Decimal(-(2**63)), "u64": 6, "f": 0.5, "t": b"x", "raw": "y",
        "color": 1, "note": None, "money": {"scale": 2, "precision": 4}, "day": {"year": 3, "month": 4},
        "big": {"value": 7}, "tod": {"hours": 23}, "unknown": None, "reason": None,
    }  # fmt: skip


def test_the_time_of_day(spark: SparkSession) -> None:
    described = base64.b64encode(descriptor_set(ALL)).decode()
    frame = spark.createDataFrame(
        [(Message(tod={"hours": 23, "minutes": 59, "seconds": 58, "nanos": 5000}).SerializeToString(),)], "part binary"
    )
    made = operators(spark).protobuf_message(
        sf.col("part"),
        sf.lit(None).cast(HEADERS),
        descriptors=described,
        message="shop.All",
        columns=StructType.fromDDL("tod time(6)"),
        reason="reason",
        kind="value",
    )
    (row,) = frame.select(made.alias("r")).select(sf.col("r.tod").cast("string"), "r.reason").collect()
    assert tuple(row) == ("23:59:58.000005", None)


def test_what_writers_may_send_otherwise(spark: SparkSession) -> None:
    """Unpacked lists, a message in two pieces, the last of several values, members of a oneof, fields nobody knows."""
    two_pieces = Message(inner={"c": "first", "zs": [1]}).SerializeToString()
    two_pieces += Message(inner={"v": 2.0, "zs": [2]}).SerializeToString()
    unpacked = b"\x90\x01\x05\x90\x01\x06"  # numbers = 18, each behind its own tag
    switched = Message(one="x").SerializeToString() + Message(two=3).SerializeToString()
    newer = Message(i32=4).SerializeToString() + b"\x82\x7d\x03abc\x8b\x7d\x08\x01\x8c\x7d"  # 2000, 2001 as a group
    other_type = b"\x12\x01x"  # i32 = 2 as text: a field that is not known
    records = [
        (one, None) for one in (two_pieces, unpacked, switched, newer.replace(b"\x82\x7d", b"\x82\x7e"), other_type)
    ]
    described = base64.b64encode(descriptor_set(ALL)).decode()
    columns = f"i32 int, numbers array<int>, inner {INNER}, one string, two bigint"
    found = read(spark, records, columns, descriptors=described, message="shop.All")
    assert [one["reason"] for one in found] == [None] * 5
    assert found[0]["inner"] == {"c": "first", "v": 2.0, "zs": [1, 2]}
    assert found[1]["numbers"] == [5, 6]
    assert (found[2]["one"], found[2]["two"]) == (None, 3)
    assert (found[3]["i32"], found[4]["i32"]) == (4, 0)


def test_proto2_defaults_and_presence(spark: SparkSession) -> None:
    file = proto_file("old.proto", {"Old": ["int32 a = 1", "int32 b = 2", "string c = 3"]}, syntax="proto2")
    file.message_type[0].field[1].default_value = "7"
    file.message_type[0].field[2].default_value = "x"
    described = base64.b64encode(descriptor_set(file)).decode()
    (found,) = read(spark, [(b"", None)], "a int, b int, c string", descriptors=described, message="shop.Old")
    assert found == {"a": None, "b": 7, "c": "x", "reason": None}


def test_reasons(spark: SparkSession) -> None:
    described = base64.b64encode(descriptor_set(ALL)).decode()
    bad = {
        b"\x12": "the value is not a record of shop.All",
        b"\x72\x05ab": "the value is not a record of shop.All",
        b"\x0c": "the value is not a record of shop.All",
        Message(i32=300).SerializeToString(): "shop.All, i32: the number is too large",
        Message(day={"year": 2024, "month": 13}).SerializeToString(): "shop.All, day: it is not a whole date",
    }
    found = read(
        spark, [(one, None) for one in bad], "i32 tinyint, day date", descriptors=described, message="shop.All"
    )
    assert [one["reason"] for one in found] == list(bad.values())
    for columns, reason in (
        ("t int", "shop.All has another type for t: string is written, INT declared"),
        ("numbers int", "shop.All has another type for numbers: repeated int32 is written, INT declared"),
        ("inner struct<c int>", "shop.All has another type for inner: c: string is written, INT declared"),
        ("x int not null", "shop.All has no field x, which is NOT NULL"),
    ):
        (one,) = read(spark, [(b"", None)], columns, descriptors=described, message="shop.All")
        assert one["reason"] == reason
    (one,) = read(spark, [(b"", None)], "maybe int not null", descriptors=described, message="shop.All")
    assert one["reason"] == "column maybe is NULL"


words = st.text(max_size=8)
inner = st.builds(
    CLASSES["shop.All.Inner"],
    c=words,
    v=st.none() | st.floats(allow_nan=False),
    zs=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
)
moment = st.builds(
    lambda seconds, nanos: {"seconds": seconds, "nanos": nanos},
    st.integers(-60_000_000_000, 250_000_000_000),
    st.integers(0, 999_999_999),
)
days = st.dates().map(lambda one: {"year": one.year, "month": one.month, "day": one.day})
messages = st.builds(
    Message,
    b=st.booleans(), i32=st.integers(-(2**31), 2**31 - 1), s32=st.integers(-(2**31), 2**31 - 1),
    u32=st.integers(0, 2**32 - 1), i64=st.integers(-(2**63), 2**63 - 1), s64=st.integers(-(2**63), 2**63 - 1),
    u64=st.integers(0, 2**64 - 1), f64=st.integers(0, 2**64 - 1), f=st.floats(allow_nan=False, width=32),
    d=st.floats(allow_nan=False), t=words, raw=st.binary(max_size=8), color=st.integers(0, 4),
    maybe=st.none() | st.integers(-(2**31), 2**31 - 1), numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4),
    words=st.lists(words, max_size=3), counts=st.dictionaries(words, st.integers(-(2**63), 2**63 - 1), max_size=3),
    parts=st.dictionaries(st.integers(-(2**31), 2**31 - 1), inner, max_size=2), inner=st.none() | inner,
    inners=st.lists(inner, max_size=2), at=st.none() | moment, day=st.none() | days,
    note=st.none() | words.map(lambda one: {"value": one}), times=st.lists(moment, max_size=2),
    colors=st.lists(st.integers(0, 4), max_size=3),
)  # fmt: skip


def test_any_message_is_read_as_python_reads_it(spark: SparkSession) -> None:
    """Drawn once, decoded in one job."""
    drawn: list[Any] = []

    @seed(20241)
    @settings(max_examples=300, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(messages)
    def draw(message: Any) -> None:
        drawn.append(message)

    draw()
    assert bare(spark, *drawn) == [expected(one) for one in drawn]


# --- wire formats -----------------------------------------------------------------------------------------------------


def framed(id_: int, message: Any, indexes: bytes = b"\0") -> bytes:
    return struct.pack(">bI", 0, id_) + indexes + bytes(message.SerializeToString())


def test_wire_formats(spark: SparkSession, registry: AvroRegistry) -> None:
    """By id in front and by GUID in a header; messages by their place in the file; nested ones too."""
    id_ = registry.register("s-value", text_of(ALL), schemaType="PROTOBUF")
    guid = b"\x01" + uuid.UUID(registry.guid(id_)).bytes
    inner_one = CLASSES["shop.All.Inner"](c="in")

    places = [one.name for one in ALL.message_type[1].nested_type]
    nested = bytes([4, 2, 2 * places.index("Inner")])
    other = CLASSES["shop.Other"](x=4)
    records = [
        (framed(id_, other), None),
        (framed(id_, FULL, b"\x02\x02"), [("trace", b"x"), ("__key_schema_id", b"\x00")]),
        (framed(id_, inner_one, nested), []),
        (FULL.SerializeToString(), [("__value_schema_id", guid + b"\x02\x02")]),
        (b"", [("__value_schema_id", guid + b"\0")]),
        (other.SerializeToString(), [("__value_schema_id", struct.pack(">bI", 0, id_) + b"\0")]),
        (framed(id_, other), [("__value_schema_id", b"\x07")]),
        (framed(id_, other, b"\x02\x40"), None),
        (framed(id_, other, b"\xff\xff"), None),
        (framed(4711, other), None),
        (b"", None),
        (b"\x08\x01", None),
        (None, None),
    ]
    settings_ = json.dumps({"name": "r", "addresses": [registry.url], "run": "wire"})
    found = read(spark, records, "x int, t string, c string", settings=settings_, schema_id=id_)
    values = [(one["x"], one["t"], one["c"]) for one in found[:6]]
    nothing = (None, None, None)
    assert values == [
        (4, None, None), (None, FULL.t, None), (None, None, "in"), (None, FULL.t, None), (0, None, None),
        (4, None, None),
    ]  # fmt: skip
    assert (found[12]["x"], found[12]["reason"]) == (None, None)
    assert [(one["x"], one["t"], one["c"]) for one in found[6:]] == [nothing] * 7
    assert [one["reason"] for one in found[6:12]] == [
        "the header __value_schema_id holds no id of a schema",
        f"schema {id_} has no message [32]",
        "the value does not name its message after the id of its schema",
        "the registry r does not know schema 4711",
        "the value is empty",
        "the value does not begin with the id of a schema (a zero byte and four of the id)",
    ]
    assert registry.asked(f"/schemas/ids/{id_}") == 1


def test_imports_and_names_by_number(spark: SparkSession, registry: AvroRegistry) -> None:
    """Files that others import; a renamed field is the same field; what only the newest schema has is its default."""
    base = proto_file("base/money.proto", {"Money": ["int64 units = 1", "string currency = 2"]}, package="base")
    registry.register("money", text_of(base), schemaType="PROTOBUF")
    reference = {"name": "base/money.proto", "subject": "money", "version": 1}
    lines = ["int64 id = 1", "string was = 2", "base.Money price = 3"]
    old = proto_file("order.proto", {"Order": lines}, imports=["base/money.proto", "gone/options.proto"])
    new_lines = [
        "int64 id = 1",
        "string name = 2",
        "base.Money price = 3",
        "int32 level = 4",
        "optional int32 rank = 5",
    ]
    new = proto_file("order.proto", {"Order": new_lines}, imports=["base/money.proto"])
    first = registry.register("o-value", text_of(old), schemaType="PROTOBUF", references=[reference])
    second = registry.register("o-value", text_of(new), schemaType="PROTOBUF", references=[reference])
    del old.dependency[1]
    old_class, new_class = classes(base, old)["shop.Order"], classes(base, new)["shop.Order"]
    records = [
        (framed(first, old_class(id=1, was="a", price={"units": 5, "currency": "EUR"})), None),
        (framed(second, new_class(id=2, name="b", level=3, rank=4)), None),
    ]
    columns = "id bigint, name string, price struct<currency:string,units:bigint>, level int, rank int"
    settings_ = json.dumps({"name": "r", "addresses": [registry.url], "run": "imports"})
    found = read(spark, records, columns, settings=settings_, schema_id=second)
    price = {"currency": "EUR", "units": 5}
    assert found == [
        {"id": 1, "name": "a", "price": price, "level": 0, "rank": None, "reason": None},
        {"id": 2, "name": "b", "price": None, "level": 3, "rank": 4, "reason": None},
    ]
    (alone,) = read(spark, records[:1], columns, settings=settings_, schema_id=-1)
    assert (alone["name"], alone["level"]) == (None, None)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            {"schema": "syntax = 'proto3';", "schemaType": "PROTOBUF"},
            "schema 1 is given as text, not as a serialized descriptor",
        ),
        ({"schema": "{}", "schemaType": "JSON"}, "schema 1 is of type JSON, not PROTOBUF"),
        (
            {"schema": text_of(proto_file("a", {"A": ["gone.Part p = 1"]})), "schemaType": "PROTOBUF"},
            'schema 1 cannot be read as a Protobuf schema (shop.A.p: ".shop.gone.Part" is not defined.)',
        ),
    ],
)
def test_schemas_that_cannot_be_used(
    spark: SparkSession, registry: AvroRegistry, more: dict[str, Any], reason: str
) -> None:
    registry.schemas[1] = more
    settings_ = json.dumps({"name": "r", "addresses": [registry.url], "run": reason})
    (found,) = read(spark, [(b"\0\0\0\0\1\0", None)], "x int", settings=settings_, schema_id=-1)
    assert found["reason"] == reason
