"""The published pipeline Postgres → Kafka → Snowflake, by the engine: every version of every row arrives once, deletes
do not, whatever is killed on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.local.servers import up
from tests.e2e.feeding import House, until
from tests.snowflake_server import local_address, sql

pytestmark = pytest.mark.slow

ROW = "STRUCT<viewtime BIGINT, userid VARCHAR, pageid VARCHAR>"
COLUMNS = f"""op VARCHAR, ts_ms BIGINT, "before" {ROW}, "after" {ROW},
  "source" STRUCT<db VARCHAR, "schema" VARCHAR, "table" VARCHAR, "lsn" BIGINT>"""
SQL = f"""
CREATE STORE postgresql WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/postgres',
  'postgres.username' = 'postgres', 'postgres.password' = '${{SHOP_PASSWORD:-none}}');
CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STORE snowflake WITH ('type' = SNOWFLAKE, 'snowflake.account_id' = 'a', 'snowflake.warehouse_name' = 'W',
  'snowflake.username' = 'u', 'snowflake.password' = '${{SHOP_PASSWORD:-none}}');
CREATE STREAM sourcetable_cdc ({COLUMNS}) WITH ('store' = 'postgresql', 'value.format' = 'json',
  'postgresql.schema.name' = 'public', 'postgresql.table.name' = 'source_table');
CREATE STREAM sourcetable_stream ({COLUMNS}) WITH ('store' = 'kafka', 'value.format' = 'json', 'topic.partitions' = 1,
  'topic.replicas' = 1);
INSERT INTO sourcetable_stream SELECT * FROM sourcetable_cdc WITH ('postgresql.slot.name' = 'sourcetable_slot');
CREATE TABLE desttable (viewtime BIGINT, userid VARCHAR, pageid VARCHAR)
  WITH ('store' = 'snowflake', 'snowflake.db.name' = 'DEMO_DB', 'snowflake.schema.name' = 'PUBLIC');
INSERT INTO desttable SELECT "after"->viewtime AS viewtime, "after"->userid AS userid, "after"->pageid AS pageid
  FROM sourcetable_stream WHERE "after" IS NOT NULL;
"""


class ThreeServers(House):
    """Postgres, Kafka and the stand-in for Snowflake."""

    def up(self, *only: str) -> None:
        addresses = up(self.state, only=("kafka", "postgres", "snowflake"))
        self.bootstrap, self.postgres_url = addresses.kafka, addresses.postgres
        self.snowflake = local_address(int(addresses.snowflake.rpartition(":")[2]))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ThreeServers]:
    made = ThreeServers(tmp_path, {"pipeline.sql": SQL})
    yield made
    made.close()


def loaded(house: ThreeServers) -> Counter[tuple[Any, ...]]:
    with sql(house.snowflake) as run:
        return Counter(map(tuple, run("SELECT viewtime, userid, pageid FROM DEMO_DB.PUBLIC.DESTTABLE")))


def test_every_version_of_a_row_arrives_once(house: ThreeServers) -> None:
    with sql(house.snowflake) as run:
        run("CREATE DATABASE IF NOT EXISTS DEMO_DB")
        run("CREATE SCHEMA IF NOT EXISTS DEMO_DB.PUBLIC")
    with house.warehouse() as cursor:
        cursor.execute("CREATE TABLE source_table (viewtime bigint PRIMARY KEY, userid text, pageid text)")
        cursor.execute("INSERT INTO source_table SELECT g, 'u' || g % 7, 'p0' FROM generate_series(1, 500) g")
    versions = Counter((number, f"u{number % 7}", "p0") for number in range(1, 501))
    house.start("sourcetable_stream")
    until(lambda: len(house.records("sourcetable_stream")) == 500, "the snapshot is in Kafka")
    assert house.load("desttable").rows == 500
    for turn in (1, 2):
        with house.warehouse() as cursor:
            cursor.execute("UPDATE source_table SET pageid = %s WHERE viewtime %% 5 = %s", (f"p{turn}", turn))
            cursor.execute("DELETE FROM source_table WHERE viewtime %% 50 = %s", (turn,))
        versions += Counter((number, f"u{number % 7}", f"p{turn}") for number in range(1, 501) if number % 5 == turn)
        house.kill_engine()
        house.recover()
        changes = 500 + turn * 110
        until(lambda: len(house.records("sourcetable_stream")) == changes, "the changes are in Kafka")  # noqa: B023
        assert house.load("desttable").rows == 100
        assert loaded(house) == versions
    operations = Counter(str((record.value or {})["op"]) for record in house.records("sourcetable_stream"))
    assert operations == {"r": 500, "u": 200, "d": 20}
