"""Protobuf in queries: Confluent's deserializer reads what sinks write, what its serializer writes is read here."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import MessageToDict

from ds_dagster.catalog.schemas.protobuf import read_text
from ds_dagster.errors import UserError
from ds_dagster.spark.queries import query as face
from tests.protobuf_files import classes, descriptor_set, proto_file, text_of
from tests.spark.records.avro.conftest import AvroBench
from tests.spark.records.avro.test_avro_write import ROW, TYPES

SINK = (
    "CREATE STREAM d WITH ('value.format' = 'protobuf', 'topic.partitions' = 1, 'topic.replicas' = 1) AS "
    "SELECT {} FROM s;"
)


def written(bench: AvroBench, id_: int) -> Any:
    """The file registered under an id."""
    import base64

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto.FromString(base64.b64decode(bench.registry.schemas[id_]["schema"]))
    file.name = f"{id_}.proto"
    return file


def read_back(bench: AvroBench, file: Any, topic: str = "d", part: str = MessageField.VALUE) -> list[Any]:
    """What Confluent's deserializer makes of the records, as plain values."""
    package = f"{file.package}." if file.package else ""
    kind = classes(file)[f"{package}{file.message_type[0].name}"]
    with SchemaRegistryClient({"url": bench.registry.url}) as client:
        reader = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
        context = SerializationContext(topic, part)
        found = [reader(record[part], context) for record in bench.records]
    return [one and MessageToDict(one, preserving_proto_field_name=True) for one in found]


def serialized(
    bench: AvroBench, kind: type[Any], topic: str, *values: Any, part: str = MessageField.VALUE
) -> list[Any]:
    with SchemaRegistryClient({"url": bench.registry.url}) as client:
        write = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
        context = SerializationContext(topic, part)
        return [write(kind(**value), context) for value in values]


def test_all_types_are_read_back_by_confluents_deserializer(bench: AvroBench) -> None:
    """And by our own decoder, with a restart in between: NULL of a list or a map is an empty one there."""
    bench.compile(TYPES + SINK.format("*"))
    query = bench.start("d")
    bench.send("s", {**ROW, "a": ["x"], "m": {"k": 1}}, {"i4": 6})
    bench.settle(query)
    full, empty = read_back(bench, written(bench, 1))
    money = full.pop("d")
    assert money == {"value": "t6nR", "precision": 10, "scale": 3} or money["scale"] == 3
    assert full == {
        "b": True, "i1": -1, "i2": 300, "i4": 5, "i8": str(2**60), "f4": 0.5, "f8": -1e300, "t": "grüße",
        "day": {"year": 2024, "month": 2, "day": 29}, "tod": {"hours": 1, "minutes": 2, "seconds": 3, "nanos": 4000},
        "at": "2024-01-01T00:00:00.000001Z", "inst": "2024-01-01T00:00:00.005Z", "a": ["x"], "m": {"k": 1},
        "st": {"x": 1, "y": [{"z": "q"}]},
    }  # fmt: skip
    assert empty == {"i4": 6}
    records = list(bench.records)
    bench.stop()
    bench.records.clear()
    again = TYPES.replace("STREAM s (", "STREAM d (").replace(
        "'store' = 'm', 'topic' = 's', 'value.format' = 'json'", "'value.format' = 'protobuf'"
    )
    bench.compile(again + "CREATE STREAM e WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM d;")
    query = bench.start("e")
    bench.send("d", *(record["value"] for record in records))
    bench.settle(query)
    wanted = {**ROW, "a": ["x"], "m": {"k": 1}, "inst": "2024-01-01 00:00:00.005000Z"}
    nothing = {**dict.fromkeys(ROW), "i4": 6, "a": [], "m": {}}
    assert bench.values == [wanted, nothing]
    assert bench.registry.subjects == {"d-value": [1]}


def test_a_base_is_changed_as_protobuf_asks_and_registered_once(bench: AvroBench) -> None:
    base = proto_file(
        "base.proto",
        {
            "Row": [
                "int32 i4 = 4", "oneof x: string t = 9", "oneof x: string gone = 5", "string i8 = 6", "Row.St st = 7",
                "map<string, int32> m = 12",
            ],
            "Row.St": ["int32 x = 3", "int32 old = 1"],
        },
    )  # fmt: skip
    assert bench.registry.register("d-value", text_of(base), schemaType="PROTOBUF") == 1
    bench.compile(TYPES + SINK.format("i4, t, i8, st, day"))
    for _ in range(2):
        bench.settle(bench.start("d"))
        bench.stop()
    assert bench.registry.subjects == {"d-value": [1, 2]}, "once over restarts"
    file = written(bench, 2)
    message = file.message_type[0]
    fields = {one.name: one.number for one in message.field}
    assert fields == {"i4": 4, "t": 9, "i8": 13, "st": 7, "day": 14}
    assert sorted(one.start for one in message.reserved_range) == [5, 6, 12]
    assert sorted(message.reserved_name) == ["gone", "m"]
    inner = next(one for one in message.nested_type if one.name == "St")
    assert {one.name: one.number for one in inner.field} == {"x": 3, "y": 4}
    query = bench.start("d")
    bench.send("s", ROW)
    bench.settle(query)
    (row,) = read_back(bench, file)
    assert row == {
        "i4": 5,
        "t": "grüße",
        "i8": str(2**60),
        "st": row["st"],
        "day": {"year": 2024, "month": 2, "day": 29},
    }
    assert row["st"] == {"x": 1, "y": [{"z": "q"}]}


def test_what_a_registry_refuses_and_rows_that_do_not_fit(bench: AvroBench) -> None:
    base = proto_file("base.proto", {"Row": ["Color t = 1"]}, enums={"Color": {"NONE": 0, "RED": 1}})
    bench.registry.register("d-value", text_of(base), schemaType="PROTOBUF")
    bench.compile(TYPES.replace("t VARCHAR", "t VARCHAR NOT NULL") + SINK.format("t"))
    query = bench.start("d")
    bench.send("s", {"i4": 1, "t": "RED"})
    bench.settle(query)
    assert read_back(bench, base) == [{"t": "RED"}]
    bench.send("s", {"i4": 1, "t": "s3cret"})
    fault = bench.fault(query)
    assert isinstance(fault, UserError)
    assert fault.condition == "PROTOBUF_VALUE_UNWRITABLE"
    assert "t: is none of the values of shop.Color" in str(fault)
    assert "s3cret" not in str(fault)
    bench.running.clear()
    bench.registry.register("e-value", {"type": "object"}, schemaType="JSON")
    bench.compile(TYPES + SINK.format("t").replace("STREAM d", "STREAM e"))
    with pytest.raises(UserError, match="SCHEMA_OF_OTHER_TYPE"):
        bench.prepare("e")
    bench.registry.register("f-value", "syntax = 'proto3';", schemaType="PROTOBUF")
    bench.compile(TYPES + SINK.format("t").replace("STREAM d", "STREAM f"))
    with pytest.raises(UserError, match="PROTOBUF_SCHEMA_AS_TEXT"):
        bench.prepare("f")


def test_a_row_with_two_members_of_a_oneof_is_refused(bench: AvroBench) -> None:
    """A reader keeps the last one alone."""
    base = proto_file("base.proto", {"Row": ["oneof x: string t = 1", "oneof x: int64 i8 = 2", "int32 i4 = 3"]})
    bench.registry.register("d-value", text_of(base), schemaType="PROTOBUF")
    bench.compile(TYPES + SINK.format("t, i8, i4"))
    query = bench.start("d")
    bench.send("s", {"i4": 1, "t": "a"}, {"i4": 2, "i8": 5}, {"i4": 3})
    bench.settle(query)
    file = written(bench, bench.registry.subjects["d-value"][-1])
    assert read_back(bench, file) == [{"t": "a", "i4": 1}, {"i8": "5", "i4": 2}, {"i4": 3}]
    bench.send("s", {"i4": 4, "t": "s3cret", "i8": 6})
    fault = bench.fault(query)
    assert fault.condition == "PROTOBUF_VALUE_UNWRITABLE"
    assert "i8: has a value beside t, of the same oneof x" in str(fault) and "s3cret" not in str(fault)


CLICK = proto_file(
    "click.proto", {"Click": ["int64 event_time = 1", "string url = 2", "optional string userid = 3"]}
)  # fmt: skip
CLICK_2 = proto_file(
    "click.proto", {"Click": ["int64 event_time = 1", "string page = 2", "optional string userid = 3", "bool bot = 4"]}
)  # fmt: skip
CLICKS = "CREATE STREAM clicks (event_time BIGINT, url VARCHAR, userid VARCHAR) WITH ('value.format' = 'protobuf');"
COPY = "CREATE STREAM d WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM clicks{with_};"


def test_producers_change_their_schema_while_a_query_runs_and_bad_records_are_skipped(bench: AvroBench) -> None:
    ignore = " WITH ('source.deserialization.error.handling' = 'IGNORE')"
    bench.compile(CLICKS + COPY.format(with_=ignore))
    query = bench.start("d")
    old, new = classes(CLICK)["shop.Click"], classes(CLICK_2)["shop.Click"]
    bench.send("clicks", *serialized(bench, old, "clicks", {"event_time": 1, "url": "./1"}), b"junk", b"")
    bench.settle(query)
    changed = serialized(bench, new, "clicks", {"event_time": 2, "page": "./2", "userid": "u", "bot": True})
    bench.send("clicks", *changed, *serialized(bench, old, "clicks", {"event_time": 3, "url": "./3"}), changed[0][:-1])
    bench.settle(query)
    assert bench.values == [
        {"event_time": 1, "url": "./1", "userid": None},
        {"event_time": 2, "url": None, "userid": "u"},
        {"event_time": 3, "url": "./3", "userid": None},
    ], "the newest schema when the query began had no page"
    assert sum(face.read_progress(p.json).bad_records for p in query.recentProgress) == 3
    bench.stop()
    bench.records.clear()
    bench.compile(CLICKS + COPY.format(with_=""))
    query = bench.start("d")
    bench.send("clicks", changed[0][:3])
    fault = bench.fault(query)
    assert fault.condition == "BAD_RECORD"
    assert "does not begin with the id of a schema" in str(fault.params["reason"])


def test_keys_of_a_changelog(bench: AvroBench) -> None:
    users = (
        "CREATE CHANGELOG u (id VARCHAR, n INTEGER NOT NULL, PRIMARY KEY (id)) WITH ('store' = 'm', 'topic' = 'u', "
        "'value.format' = 'json');"
    )
    sink = SINK.replace("STREAM", "CHANGELOG").replace("FROM s", "FROM u")
    bench.compile(users + sink.format("*"))
    query = bench.start("d")
    bench.send("u", {"id": "a", "n": 1}, key={"id": "a"})
    bench.send("u", None, key={"id": "a"})
    bench.settle(query)
    ids = bench.registry.subjects
    assert read_back(bench, written(bench, ids["d-value"][0])) == [{"id": "a", "n": 1}, None]
    assert read_back(bench, written(bench, ids["d-key"][0]), part=MessageField.KEY) == [{"id": "a"}] * 2
    records = list(bench.records)
    bench.stop()
    bench.records.clear()
    again = "CREATE CHANGELOG d (id VARCHAR, n INTEGER, PRIMARY KEY (id)) WITH ('value.format' = 'protobuf');"
    bench.compile(again + "CREATE CHANGELOG e WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM d;")
    query = bench.start("e")
    bench.send("d", records[0]["value"], key=records[0]["key"])
    other = records[0]["key"][:-1] + b"b"
    bench.send("d", records[0]["value"][:6] + b"\n\x01b\x10\x02", key=other)
    bench.send("d", None, key=records[1]["key"])
    bench.settle(query)
    assert bench.folded() == {'{"id": "b"}': {"id": "b", "n": 2}}


@pytest.mark.parametrize("key", ["protobuf", "primitive"])
def test_a_primary_key_in_the_record_key_alone(bench: AvroBench, key: str) -> None:
    made = classes(proto_file("users.proto", {"User": ["optional int32 age = 1"], "Key": ["string userid = 1"]}))
    primitive = ", 'key.format' = 'primitive', 'key.type' = 'VARCHAR'" if key == "primitive" else ""
    bench.compile(
        "CREATE CHANGELOG users (userid VARCHAR, age INTEGER, PRIMARY KEY (userid)) WITH ('value.format' = 'protobuf'"
        f"{primitive}); CREATE CHANGELOG d WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM users;"
    )
    values = serialized(bench, made["shop.User"], "users", *({"age": age} for age in (1, 2, 3)))
    keys: list[Any] = ["a", "b"]
    if key == "protobuf":
        keys = serialized(bench, made["shop.Key"], "users", *({"userid": one} for one in "ab"), part=MessageField.KEY)
    query = bench.start("d")
    for value, one in zip(values, (keys[0], keys[1], keys[0]), strict=True):
        bench.send("users", value, key=one)
    bench.settle(query)
    assert bench.folded() == {
        '{"userid": "a"}': {"userid": "a", "age": 3},
        '{"userid": "b"}': {"userid": "b", "age": 2},
    }
    bench.send("users", None, key=keys[1])
    bench.settle(query)
    assert bench.folded() == {'{"userid": "a"}': {"userid": "a", "age": 3}}


# --- descriptors of the project ---------------------------------------------------------------------------------------

SHOP = proto_file(
    "shop.proto",
    {
        "Order": ["int64 id = 1", "optional string note = 2", "Order.Item item = 3", "Color color = 4", "uint32 n = 5"],
        "Order.Item": ["string name = 1"],
        "Key": ["int64 id = 1"],
    },
    enums={"Color": {"NONE": 0, "RED": 1}},
)  # fmt: skip
WITH = "'value.descriptor.name' = 'shop.Order', 'key.descriptor.name' = 'parts.shop.Key'"


def test_messages_of_a_descriptor_are_read_and_written_bare(bench: AvroBench) -> None:
    """Columns from the descriptor; a sink writes just that message, keys too; no registry is asked."""
    (bench.folder / "shop.desc").write_bytes(descriptor_set(SHOP))
    source = "CREATE DESCRIPTOR_SOURCE parts WITH ('file' = 'shop.desc');\n"
    counts = "'topic.partitions' = 1, 'topic.replicas' = 1"
    project = bench.compile(
        f"{source}CREATE STREAM orders WITH ('value.descriptor.name' = 'shop.Order');"
        f"CREATE STREAM d WITH ({WITH}, 'value.format' = 'protobuf', 'key.format' = 'protobuf', {counts}) AS "
        "SELECT id, note, item, color, n FROM orders PARTITION BY id;"
    )
    columns = {c.name: str(c.type) for c in project.queries["d"].scans[0].relation.columns}
    item = "STRUCT<name VARCHAR>"
    assert columns == {"id": "BIGINT", "note": "VARCHAR", "item": item, "color": "VARCHAR", "n": "BIGINT"}
    order = classes(SHOP)["shop.Order"]
    given = [order(id=7, note="x", item={"name": "y"}, color=1, n=4), order()]
    query = bench.start("d")
    bench.send("orders", *(one.SerializeToString() for one in given))
    bench.settle(query)
    assert [order.FromString(record["value"]) for record in bench.records] == given
    assert [classes(SHOP)["shop.Key"].FromString(record["key"]).id for record in bench.records] == [7, 0]
    assert not bench.registry.calls
    bench.send("orders", b"\x0a")
    assert bench.fault(query).params["reason"] == "the value is not a record of shop.Order"


def test_the_digits_of_a_decimal_come_back_from_its_schema() -> None:
    from ds_dagster.catalog.relation import Column
    from ds_dagster.catalog.schemas.formats import FORMATS
    from ds_dagster.catalog.schemas.protobuf_schema import sink_schema
    from ds_dagster.datatypes import Scalar

    made = sink_schema("d-value", "d", [Column("m", Scalar("DECIMAL", precision=12, scale=2))])
    copied = FORMATS["protobuf"].recorded(FORMATS["protobuf"].copied(made))
    assert FORMATS["protobuf"].fields(copied)[0][1] == Scalar("DECIMAL", precision=12, scale=2)
    assert read_text(copied) == read_text(made)
