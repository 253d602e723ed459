"""The door to a schema registry: Confluent's own client against real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ds_dagster.catalog.io_spec import RegistrySpec
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.relation import Column
from ds_dagster.catalog.schemas.formats import FORMATS
from ds_dagster.catalog.schemas.protobuf import read_text
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import DsError, UserError
from ds_dagster.stores.schema_registry import RegisteredSchema, SchemaRegistry
from tests.avro_registry import AvroRegistry
from tests.protobuf_files import proto_file, text_of
from tests.stores.certificates import Authority, mutual_tls

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


@pytest.fixture
def server() -> Iterator[AvroRegistry]:
    with AvroRegistry() as made:
        yield made


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


def test_a_subject_says_what_its_schemas_are(registry: SchemaRegistry, server: AvroRegistry) -> None:
    assert registry.type_of("t-value") is None
    server.register("t-value", SCHEMA)
    server.register("p-value", text_of(proto_file("a.proto", {"R": ["int32 a = 1"]})), schemaType="PROTOBUF")
    server.register("j-value", '{"type": "object"}', schemaType="JSON")
    assert [registry.type_of(f"{name}-value") for name in "tpj"] == ["AVRO", "PROTOBUF", "JSON"]


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


def test_protobuf_comes_with_what_it_imports(registry: SchemaRegistry, server: AvroRegistry) -> None:
    base = proto_file("money.proto", {"Money": ["int64 units = 1"]}, package="base")
    order = proto_file("order.proto", {"Order": ["base.Money price = 1"]}, imports=["money.proto"])
    server.register("money", text_of(base), schemaType="PROTOBUF")
    reference = {"name": "money.proto", "subject": "money", "version": 1}
    server.register("o-value", text_of(order), schemaType="PROTOBUF", references=[reference])
    found = registry.latest("o-value", "PROTOBUF")
    assert found is not None and found.has_references
    assert [file.name for file in read_text(found.schema).file] == ["money.proto", "o-value"]
    assert FORMATS["protobuf"].fields(found.schema)[0][2] == "base.Money"
    server.register("lost-value", text_of(order), schemaType="PROTOBUF", references=[{**reference, "subject": "gone"}])
    with pytest.raises(DsError, match="PROTOBUF_SCHEMA_UNREADABLE"):
        registry.latest("lost-value", "PROTOBUF")
    server.register("text-value", 'syntax = "proto3";', schemaType="PROTOBUF")
    with pytest.raises(DsError, match="PROTOBUF_SCHEMA_AS_TEXT"):
        registry.latest("text-value", "PROTOBUF")


@pytest.mark.parametrize("name", ["protobuf", "json_schema"])
def test_other_types_are_registered_and_compared(registry: SchemaRegistry, server: AvroRegistry, name: str) -> None:
    format_ = FORMATS[name]
    first, second, third = (
        format_.sink("t-value", "t", [Column(column, Scalar(type_)) for column, type_ in columns], "", None)
        for columns in ([("a", "BIGINT")], [("a", "BIGINT"), ("b", "VARCHAR")], [("a", "BOOLEAN")])
    )
    assert registry.register("t-value", first, str, format_.type) == 1
    found = registry.latest("t-value", format_.type)
    assert found is not None
    assert (found.id, found.has_references, format_.same(found.schema, first)) == (1, False, True)
    assert registry.is_compatible("t-value", second, format_.type)
    assert not registry.is_compatible("t-value", third, format_.type)
    with pytest.raises(DsError, match="SCHEMA_INCOMPATIBLE"):
        registry.register("t-value", third, str, format_.type)


# --- client certificates ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def guarded(authority: Authority) -> Iterator[AvroRegistry]:
    """A registry that takes clients with a certificate of the authority only."""
    with AvroRegistry(tls=mutual_tls(authority)) as made:
        yield made


def certified(server: AvroRegistry, **options: object) -> SchemaRegistry:
    values = {name: PropertyValue(str(value)) for name, value in {"addresses": server.url, **options}.items()}
    return SchemaRegistry(RegistrySpec("r", values), lambda value: str(value.value))


@pytest.mark.parametrize("password", ["", "s3cret"], ids=["open", "locked"])
def test_a_client_shows_its_certificate(authority: Authority, guarded: AvroRegistry, password: str) -> None:
    id_ = guarded.register("t-value", SCHEMA)
    certificate, key = authority.issue(f"client{password}", password)
    files = {"authorities": authority.file, "certificate": certificate, "key": key, "key_password": password}
    registry = certified(guarded, **files)
    latest = registry.latest("t-value")
    registry.close()
    assert latest is not None and latest.id == id_


def test_a_client_without_a_certificate_or_with_a_strangers_is_refused(
    authority: Authority, guarded: AvroRegistry, tmp_path: Path
) -> None:
    certificate, key = Authority(tmp_path, "another authority").issue("client")
    for files in ({}, {"certificate": certificate, "key": key}):
        registry = certified(guarded, authorities=authority.file, **files)
        with pytest.raises(UserError, match="REGISTRY_CERTIFICATE_REFUSED"):
            registry.latest("t-value")
        registry.close()


@pytest.mark.parametrize("fault", ["locked", "missing", "text", "authority"])
def test_files_that_cannot_be_used_are_named_at_once(authority: Authority, guarded: AvroRegistry, fault: str) -> None:
    certificate, key = authority.issue(fault, "s3cret" if fault == "locked" else "")
    if fault == "missing":
        key.unlink()
    if fault == "text":
        key.write_text("no key")
    authorities = key if fault == "authority" else authority.file
    registry = certified(guarded, authorities=authorities, certificate=certificate, key=key)
    with pytest.raises(UserError, match="REGISTRY_CERTIFICATE_UNREADABLE"):
        registry.latest("t-value")
    assert not guarded.calls
