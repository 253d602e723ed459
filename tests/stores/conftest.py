"""The session's local servers for tests of stores."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.stores.postgres.connection import PostgresAddress
from tests.fixtures.lake import s3_bucket


@pytest.fixture(scope="session")
def servers(local_servers: Callable[..., LocalAddresses]) -> LocalAddresses:
    return local_servers("kafka", "kinesis", "postgres")


@pytest.fixture(scope="session")
def postgres_settings(servers: LocalAddresses) -> Mapping[str, str]:
    """Resolved options of a Postgres store."""
    password = Path(str(servers.postgres_password_file)).read_text(encoding="utf-8").strip()
    return {
        "url": str(servers.postgres),
        "username": str(servers.postgres_user),
        "password": password,
        "sslmode": "disable",
        "store": "warehouse",
    }


@pytest.fixture
def postgres_cursor(postgres_settings: Mapping[str, str]) -> Iterator[Any]:
    """A session of somebody else's, in autocommit."""
    connection = PostgresAddress.of("warehouse", postgres_settings).control()
    connection.autocommit = True
    yield connection.cursor()
    connection.close()


@pytest.fixture
def postgres_schema(postgres_cursor: Any) -> Iterator[str]:
    """A schema of the test's own."""
    name = f"s_{uuid.uuid4().hex[:8]}"
    postgres_cursor.execute(f"CREATE SCHEMA {name}")
    yield name
    postgres_cursor.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(scope="session")
def kafka_settings(servers: LocalAddresses) -> Mapping[str, str]:
    return {"bootstrap.servers": str(servers.kafka), "security.protocol": "plaintext"}


@pytest.fixture(scope="session")
def kinesis_settings(servers: LocalAddresses) -> Mapping[str, str]:
    return {
        "endpoint_url": str(servers.kinesis),
        "region_name": "us-east-2",
        "aws_access_key_id": "local",
        "aws_secret_access_key": "local",
    }


@pytest.fixture(scope="session")
def s3_settings() -> Iterator[Mapping[str, str]]:
    """Resolved options of a Delta store in a bucket."""
    with s3_bucket("lake") as settings:
        yield settings
