"""Avro of a registry that takes clients with a certificate only: the JVM shows the same files as Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ds_dagster.errors import UserError
from tests.avro_registry import AvroRegistry
from tests.spark.records.avro.conftest import AvroBench, field, record
from tests.stores.certificates import Authority, mutual_tls

FIRST, SECOND = record(field("a", "long")), record(field("a", "long"), field("b", "string"))
COPY = (
    "CREATE STREAM s (a BIGINT) WITH ('value.format' = 'avro');\n"
    "CREATE STREAM d WITH ('store' = 'm', 'value.format' = 'json') AS SELECT * FROM s;"
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def registry(authority: Authority) -> Iterator[AvroRegistry]:
    with AvroRegistry(tls=mutual_tls(authority)) as made:
        yield made


def test_schemas_are_read_with_a_client_certificate_and_never_without(bench: AvroBench, authority: Authority) -> None:
    certificate, key = authority.issue("client")
    trusted = f", 'tls.ca_cert_file' = '{authority.file}'"
    bench.login = f"{trusted}, 'tls.client.cert_file' = '{certificate}', 'tls.client.key_file' = '{key}'"
    first = bench.registry.register("s-value", FIRST)
    bench.compile(COPY)
    query = bench.start("d")
    bench.send_avro("s", first, {"a": 1}, schema=FIRST)
    second = bench.registry.register("s-value", SECOND)  # unknown when the query began: the JVM asks for it
    bench.send_avro("s", second, {"a": 2, "b": "x"}, schema=SECOND)
    bench.settle(query)
    assert bench.values == [{"a": 1}, {"a": 2}]
    bench.login = trusted
    bench.compile(COPY)
    with pytest.raises(UserError, match="REGISTRY_CERTIFICATE_REFUSED"):
        bench.prepare("d")
