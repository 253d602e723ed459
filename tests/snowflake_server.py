"""The stand-in for Snowflake, started by the package's own server code and reached through the real connector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ds_dagster.local import snowflake
from ds_dagster.local.ports import HOST, assign_ports
from ds_dagster.local.server import Home, start_server, stop_server
from ds_dagster.stores.snowflake.connection import SnowflakeAddress

DATABASE = "DS_TEST"
CALL_SECONDS = 4
"""What is a failed statement on a real account is a failed request here, which the connector repeats."""


@contextmanager
def running(state: Path) -> Iterator[SnowflakeAddress]:
    """A server of its own, ended by its pid; with a database in it."""
    home = Home(state, snowflake.SERVER.name, assign_ports(state, snowflake.SERVER.ports))
    try:
        start_server(snowflake.SERVER, home, lambda _: None)
        address = local_address(home.port)
        with sql(address) as run:
            run(f'CREATE DATABASE IF NOT EXISTS "{DATABASE}"')
        yield address
    finally:
        stop_server(snowflake.SERVER, home)


def local_address(port: int) -> SnowflakeAddress:
    return SnowflakeAddress(
        store="sf",
        account_id=snowflake.ACCOUNT,
        url=f"http://{HOST}:{port}",
        username=snowflake.USER,
        password=snowflake.ANY_PASSWORD,
        warehouse=snowflake.WAREHOUSE,
        role="LOADER",
        call_seconds=CALL_SECONDS,
    )


@contextmanager
def sql(address: SnowflakeAddress) -> Iterator[Any]:
    """Statement → rows, on a connection of its own."""
    connection = address.connect()

    def run(statement: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = connection.cursor().execute(statement, parameters).fetchall()
        return found

    try:
        yield run
    finally:
        connection.close()
