"""Avro through a real broker and engine: producers change their schema, the engine is killed, nothing is lost."""

from __future__ import annotations

import datetime
import os
import signal
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ds_dagster.local.servers import down, up
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.processes import locks
from ds_dagster.settings import load_settings
from tests.avro_registry import AvroRegistry
from tests.e2e.feeding import WAIT, until
from tests.engines import SHORT_LIVED

AT = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)
SECRET = "marked-registry-secret-51c2"
SQL = """
CREATE SCHEMA_REGISTRY reg WITH ('type' = CONFLUENT, 'uris' = 'https://schemas.example.com',
  'confluent.username' = 'tests', 'confluent.password' = '${REGISTRY_PASSWORD}');
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'broker.example.com:9092', 'schema_registry.name' = reg);
USE STORE k;
CREATE STREAM orders (id BIGINT, amount DECIMAL(9,2), note VARCHAR, at TIMESTAMP_LTZ)
  WITH ('value.format' = 'avro', 'topic.partitions' = 2, 'topic.replicas' = 1);
CREATE STREAM large AS SELECT id, amount * 2 AS twice, note, at FROM orders WHERE amount >= 1 PARTITION BY id;
"""
FIRST = """{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, {"name": "amount",
  "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
SECOND = FIRST.replace('"int"', '"long"').replace("]}", ', {"name": "note", "type": "string", "default": "-"}]}')


class Shop:
    """A project of one job on a broker, with a registry, producers and a consumer of Confluent's."""

    def __init__(self, root: Path, sql: str = SQL, *, cores: int = 2) -> None:
        self.registry = AvroRegistry(login=("tests", SECRET))
        self.registry.start()
        self.root, self.state = root, root / ".ds"
        (root / "sql").mkdir()
        (root / "sql" / "shop.sql").write_text(sql)
        (root / "ds.toml").write_text(f'store = "k"\n[engine]\ncores = {cores}\nmemory = "1g"\n[spark]\n{SHORT_LIVED}')
        (root / ".env").write_text(f"REGISTRY_PASSWORD={SECRET}\n")
        self.bootstrap = up(self.state, only=["kafka"]).kafka
        with (self.state / "local.toml").open("a") as overlay:
            login = '"confluent.username" = "tests"\n"confluent.password" = "${REGISTRY_PASSWORD}"\n'
            overlay.write(f'\n[stores.reg]\nuris = "{self.registry.url}"\n{login}')
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(60)
        self.settings = load_settings(root)
        self.project = load_project(root, settings=self.settings, strict=True)
        self.control = Control.open(self.settings)
        login = {"url": self.registry.url, "basic.auth.user.info": f"tests:{SECRET}"}
        self.client = SchemaRegistryClient(login)
        self.producer = Producer({"bootstrap.servers": self.bootstrap})
        self.consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "t", "auto.offset.reset": "earliest"}
        )
        self.consumer.subscribe(["large"])
        self.read: list[tuple[Any, Any]] = []

    def send(self, schema: str, *rows: dict[str, Any]) -> None:
        """Records as Confluent's serializer makes them; it registers the schema."""
        write = AvroSerializer(self.client, schema)
        context = SerializationContext("orders", MessageField.VALUE)
        for row in rows:
            self.producer.produce("orders", write(row, context))
        assert self.producer.flush(WAIT) == 0

    def found(self) -> list[tuple[Any, Any]]:
        """(key, value) of all committed records, as Confluent's deserializer makes them."""
        reader = AvroDeserializer(self.client)
        while (message := self.consumer.poll(1.0)) is not None:
            assert message.error() is None or message.error().retriable() or message.error().code() == 3
            if message.error() is None:
                parts = ((MessageField.KEY, message.key()), (MessageField.VALUE, message.value()))
                self.read.append(tuple(reader(raw, SerializationContext("large", part)) for part, raw in parts))  # type: ignore[arg-type]
        return self.read

    def until_running(self, names: tuple[str, ...] = ("large",)) -> None:
        asked = self.control.ensure(self.project, names, "ensure", "tests")
        self.control.ensure_engine(WAIT)
        (found,) = self.control.wait(names, {one.name: one.generation for one in asked}, WAIT)
        assert found.state == "RUNNING", (found.condition, found.message, found.detail)

    def kill_engine(self) -> None:
        places = self.control.places
        os.kill(int(str(locks.holder(places.python_lock)["pid"])), signal.SIGKILL)
        until(lambda: not any(map(locks.is_held, (places.python_lock, places.jvm_lock))), "the engine is dead", 60)

    def close(self) -> None:
        try:
            stop_engine(self.settings, 60, kill=True)
        finally:
            self.consumer.close()  # leaves its group: without a broker that takes until the session ends
            down(self.state)
            self.client.__exit__()
            self.registry.stop()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.close()


def orders(first: int, last: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": n, "amount": Decimal(n) / 4, "at": AT, **more} for n in range(first, last)]


def wanted(rows: list[dict[str, Any]]) -> list[str]:
    """What the job makes of orders, as text, sorted."""
    kept = [row for row in rows if row["amount"] >= 1]
    made = [
        {"id": r["id"], "twice": (r["amount"] * 2).quantize(Decimal("0.01")), "note": r.get("note"), "at": AT}
        for r in kept
    ]
    return shown([({"id": row["id"]}, row) for row in made])


def shown(rows: list[tuple[Any, Any]]) -> list[str]:
    return sorted(f"{key} {value}" for key, value in rows)


def restarted(shop: Shop) -> bool:
    """Whether the query has started again because a new version changes how the column note is read."""
    history = shop.control.transitions("large", 20)
    is_told = any("note is new" in moved.message for moved in history if moved.condition == "SOURCE_SCHEMA_CHANGED")
    again = [moved.target for moved in history if moved.kind == "state"][:4]
    return is_told and again == ["RUNNING", "STARTING", "STOPPED", "STOPPING"]


@pytest.mark.slow
def test_orders(shop: Shop) -> None:
    first = orders(0, 100)
    shop.send(FIRST, *first)
    shop.until_running()
    until(lambda: len(shop.found()) >= 96, "the first orders are there")
    second = orders(100, 200, note="second")
    shop.send(SECOND, *second)
    until(lambda: len(shop.found()) >= 196, "orders of the second schema are there, without a restart")
    until(lambda: restarted(shop), "the new version is told, and the query reads by it from its next batch on")
    late = orders(300, 310)
    shop.send(FIRST, *late)
    until(lambda: len(shop.found()) >= 206, "late orders of the first schema are there")
    late = [{**order, "note": "-"} for order in late]
    shop.kill_engine()
    third = orders(200, 300, note="third")
    shop.send(SECOND, *third)
    shop.registry.down = True
    shop.control.ensure_engine(WAIT)
    until(lambda: shop.control.status("large").condition == "REGISTRY_UNREACHABLE", "the job says why it waits")
    assert shop.control.status("large").state in ("BACKING_OFF", "STARTING")
    shop.registry.down = False
    until(lambda: len(shop.found()) >= 306, "it goes on by itself")
    assert shown(shop.found()) == wanted([*first, *second, *late, *third]), "nothing lost, nothing doubled"
    assert sorted(shop.registry.subjects) == ["large-key", "large-value", "orders-value"]
    told = [path for path in shop.root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert [path.name for path in told] == [".env"]
