"""The door to a schema registry: Confluent's own client against real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ds_dagster.catalog.io_spec import RegistrySpec
from ds_dagster.catalog.values import PropertyValue
from ds_dagster.errors import DsError
from ds_dagster.stores.schema_registry import RegisteredSchema, SchemaRegistry
from tests.avro_registry import AvroRegistry

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


@pytest.fixture
def server() -> Iterator[AvroRegistry]:
    made = AvroRegistry()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def registry(server: AvroRegistry) -> Iterator[SchemaRegistry]:
    values = {"addresses": f"{server.url} , {server.url}", "user": "me", "password": "${P}"}
    options = {name: PropertyValue(value) for name, value in values.items()}
    made = SchemaRegistry(RegistrySpec("r", options), lambda value: str(value.value).replace("${P}", "s3cret"))
    yield made
    made.close()


def test_a_schema_is_registered_and_found(registry: SchemaRegistry, server: AvroRegistry) -> None:
    server.login = ("me", "s3cret")
    assert registry.latest("t-value") is None
    assert registry.register("t-value", SCHEMA, str) == 1
    assert registry.latest("t-value") == RegisteredSchema(1, 1, SCHEMA)


@pytest.mark.parametrize(
    ("fault", "condition"),
    [
        ((401, 401), "REGISTRY_LOGIN_REFUSED"),
        ((403, 40301), "REGISTRY_LOGIN_REFUSED"),
        ((422, 42201), "SCHEMA_INVALID"),
        ((409, 409), "SCHEMA_INCOMPATIBLE"),
        ((500, 50001), "REGISTRY_CALL_FAILED"),
        ((503, 50301), "REGISTRY_UNREACHABLE"),
        ((404, 40401), "REGISTRY_CALL_FAILED"),
    ],
)
def test_refusals_have_names(
    registry: SchemaRegistry, server: AvroRegistry, fault: tuple[int, int], condition: str
) -> None:
    server.fault = fault
    with pytest.raises(DsError) as caught:
        registry.register("t-value", SCHEMA, lambda: "b is new")
    assert caught.value.condition == condition
    assert "s3cret" not in str(caught.value)


def test_a_server_that_is_gone(registry: SchemaRegistry, server: AvroRegistry) -> None:
    server.stop()
    with pytest.raises(DsError, match="REGISTRY_UNREACHABLE"):
        registry.latest("t-value")


def test_schemas_of_other_kinds(registry: SchemaRegistry, server: AvroRegistry) -> None:
    server.register("t-value", "{}", schemaType="JSON")
    with pytest.raises(DsError, match="SCHEMA_OF_OTHER_TYPE"):
        registry.latest("t-value")
