"""A batch of 100,000 rows into the local stand-in for Snowflake: our loader, which looks its ledger up and commits
exactly once, against a bare PUT and COPY INTO of the same file. The connector's ``write_pandas`` sends these two
statements as well; the stand-in does not understand its PUT.

The stand-in runs on the same machine, so a statement costs milliseconds that are tens to hundreds on an account.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from benchmarks.lake import TYPES, Load, in_turns
from benchmarks.measure import Pairs, Result, Size, results, say
from benchmarks.tables import check_rows
from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.local import snowflake
from ds_dagster.local.ports import HOST, assign_ports
from ds_dagster.local.server import Home, start_server, stop_server
from ds_dagster.stores.snowflake.connection import SnowflakeAddress
from ds_dagster.stores.snowflake.kind import Snowflake
from ds_dagster.stores.snowflake.loader import SnowflakeLoader

DATABASE, SCHEMA = "BENCH", "LOADS"


def load(size: Size) -> list[Result]:
    """Appends."""
    number, batches = size.rows(100_000, 6_000), size.of(10, 3)
    pairs = Pairs(f"Snowflake's stand-in, {number:,} rows a batch (peer: PUT and COPY INTO)", "rows/s", True)
    with _server() as address:
        for run in range(-1, size.runs):
            ours, peer = _rates(address, number, batches, run + 1)
            say(f"snowflake: {ours:,.0f} rows/s, bare {peer:,.0f}")
            if run >= 0:
                pairs.add(ours, peer)
    return results((pairs,))


def _rates(address: SnowflakeAddress, number: int, batches: int, run: int) -> tuple[float, float]:
    """Rows per second of ours and of the bare statements, in turns."""
    target = TableTarget((DATABASE, SCHEMA, f"OURS_{run}"), _columns(), (), "append", "incremental")
    with (
        closing(SnowflakeLoader(address, target, SinkIdentity(f"bench{run}", 1))) as loader,
        closing(address.connect()) as connection,
    ):
        loader.prepare(CheckpointTip())
        connection.cursor().execute(f"USE SCHEMA {DATABASE}.{SCHEMA}")
        found = in_turns(
            lambda rows, epoch: loader.load(rows, Tip(epoch)),
            _bare(connection, f"BARE_{run}"),
            number, batches, number,
        )  # fmt: skip
        for table in ("OURS", "BARE"):
            check_rows(connection.cursor(), f"{DATABASE}.{SCHEMA}.{table}_{run}", number * batches)
    return found


def _columns() -> tuple[TableColumn, ...]:
    return tuple(TableColumn(name, type_, Snowflake().native_type(type_) or "") for name, type_ in TYPES.items())


def _bare(connection: Any, table: str) -> Load:
    """The least that loads a file: at least once, nothing is remembered."""
    cursor = connection.cursor()
    columns = ", ".join(f'"{column.name}" {column.native_type}' for column in _columns())
    cursor.execute(f"CREATE TABLE {DATABASE}.{SCHEMA}.{table} ({columns})")
    cursor.execute(f"CREATE STAGE {DATABASE}.{SCHEMA}.{table}_STAGE")

    def run(rows: pa.Table, epoch: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pyarrow.parquet.write_table(rows, Path(folder, f"{epoch}.parquet"), compression="zstd")
            stage = f"@{DATABASE}.{SCHEMA}.{table}_STAGE/{epoch}"
            cursor.execute(f"PUT 'file://{folder}/{epoch}.parquet' {stage} AUTO_COMPRESS = FALSE")
            cursor.execute(
                f"COPY INTO {DATABASE}.{SCHEMA}.{table} FROM {stage} "
                "FILE_FORMAT = (TYPE = PARQUET) MATCH_BY_COLUMN_NAME = CASE_SENSITIVE"
            )

    return run


@contextmanager
def _server() -> Iterator[SnowflakeAddress]:
    """A stand-in of its own with an empty database, ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="ds-bench-") as folder:
        state = Path(folder)
        home = Home(state, snowflake.SERVER.name, assign_ports(state, snowflake.SERVER.ports))
        start_server(snowflake.SERVER, home, say)
        try:
            address = SnowflakeAddress(
                store="sf", account_id=snowflake.ACCOUNT, url=f"http://{HOST}:{home.port}", username=snowflake.USER,
                password=snowflake.ANY_PASSWORD, warehouse=snowflake.WAREHOUSE, role="LOADER",
            )  # fmt: skip
            with closing(address.connect()) as connection:
                connection.cursor().execute(f"CREATE DATABASE {DATABASE}")
                connection.cursor().execute(f"CREATE SCHEMA {DATABASE}.{SCHEMA}")
            yield address
        finally:
            stop_server(snowflake.SERVER, home)
