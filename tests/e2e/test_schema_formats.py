"""JSON with GUIDs in headers in, Protobuf out, through a real broker and engine: nothing is lost when it is killed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.e2e.feeding import WAIT, until
from tests.e2e.test_avro import SQL, Shop
from tests.protobuf_files import classes

pytestmark = pytest.mark.slow

FORMATS = SQL.split("CREATE STREAM orders")[0] + (
    "CREATE STREAM orders (id BIGINT NOT NULL, note VARCHAR) WITH ('value.format' = 'json_schema', "
    "'topic.partitions' = 2, 'topic.replicas' = 1);\n"
    "CREATE STREAM large WITH ('value.format' = 'protobuf'{mode}) AS SELECT id, note, id * 2 AS twice FROM orders "
    "WHERE id >= 1 PARTITION BY id;\n"
)
REALTIME = ", 'delivery' = 'at_least_once', 'latency.mode' = 'realtime', 'latency.checkpoint.millis' = 5000"
ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
}


class Formats(Shop):
    """The same shop with other formats at both ends."""

    def send_orders(self, first: int, last: int, *, in_header: bool) -> None:
        """Orders as Confluent's serializer makes them; it registers the schema."""
        more: dict[str, Any] = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}
        write = JSONSerializer(json.dumps(ORDER), self.client, conf=more)
        for number in range(first, last):
            headers: list[tuple[str, bytes]] = [("trace", b"x")]
            about = SerializationContext("orders", MessageField.VALUE, headers)
            value = write({"id": number, "note": f"n{number}" if number % 3 else None}, about)
            assert (len(headers) == 2, value is not None and value[:1] == b"{") == (in_header, in_header)
            self.producer.produce("orders", value, headers=headers)
        assert self.producer.flush(WAIT) == 0

    def numbers(self) -> list[tuple[int, int, str, int]]:
        """(key, id, note, twice) of all committed records, sorted."""
        while (message := self.consumer.poll(1.0)) is not None:
            if message.error() is None:
                key = self._reader("large-key")(message.key(), SerializationContext("large", MessageField.KEY))
                value = self._reader("large-value")(message.value(), SerializationContext("large", MessageField.VALUE))
                self.read.append((key.id, (value.id, value.note, value.twice)))
        return sorted((key, *value) for key, value in self.read)

    def _reader(self, subject: str) -> ProtobufDeserializer:
        (id_,) = self.registry.subjects[subject]
        file = FileDescriptorProto.FromString(base64.b64decode(self.registry.schemas[id_]["schema"]))
        file.name = subject
        kind = classes(file)[file.message_type[0].name]
        return ProtobufDeserializer(kind, {"use.deprecated.format": False}, self.client)


@pytest.fixture(params=["", REALTIME], ids=["batches", "realtime"])
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Formats]:
    made = Formats(tmp_path, FORMATS.replace("{mode}", request.param), cores=4)
    yield made
    made.close()


def test_orders(shop: Formats, request: pytest.FixtureRequest) -> None:
    """In real-time mode some rows are there twice after a kill, none are lost."""
    is_exact = request.node.callspec.id == "batches"
    shop.send_orders(0, 50, in_header=True)
    shop.until_running()
    until(lambda: len(shop.numbers()) >= 49, "orders whose header names their schema are there")
    shop.send_orders(50, 100, in_header=False)
    until(lambda: len(shop.numbers()) >= 99, "orders with the id in front are there, by the same query")
    shop.kill_engine()
    shop.send_orders(100, 150, in_header=True)
    shop.control.ensure_engine(WAIT)
    until(lambda: len(set(shop.numbers())) >= 149, "it goes on by itself")
    wanted = [(n, n, f"n{n}" if n % 3 else "", 2 * n) for n in range(1, 150)]
    found = shop.numbers() if is_exact else sorted(set(shop.numbers()))
    assert found == wanted, "nothing lost, nothing doubled"
    assert sorted(shop.registry.subjects) == ["large-key", "large-value", "orders-value"]
