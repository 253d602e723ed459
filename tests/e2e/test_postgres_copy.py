"""Postgres → changelog → Postgres, by the engine: the copy is its source after 100,000 random changes and three
crashes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from ds_dagster.cli import slots
from ds_dagster.local.servers import up
from ds_dagster.project.load import load_project
from ds_dagster.settings import load_settings
from tests.e2e.feeding import House, until

pytestmark = pytest.mark.slow

CHANGES = 100_000
SQL = """
CREATE STORE shop WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/postgres',
  'postgres.username' = 'postgres', 'postgres.password' = '${SHOP_PASSWORD:-none}');
CREATE CHANGELOG orders (id BIGINT, customer VARCHAR, amount DECIMAL(12, 2), note VARCHAR, PRIMARY KEY(id))
  WITH ('store' = 'shop', 'postgresql.schema.name' = 'shop', 'postgresql.table.name' = 'orders');
CREATE MATERIALIZED VIEW orders_copy WITH ('store' = 'shop') AS SELECT id, customer, amount, note FROM orders;
"""
TABLE = "CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer text, amount numeric(12, 2), note text)"


class PostgresHouse(House):
    """The same with no other server than Postgres."""

    def up(self, *only: str) -> None:
        addresses = up(self.state, only=("postgres",))
        self.postgres_url = addresses.postgres


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = PostgresHouse(tmp_path, {"shop.sql": SQL})
    yield made
    made.close()


class Writer(threading.Thread):
    """Random inserts, updates, deletes and keys that move, in transactions of random size; a transaction whose answer
    was lost in a crash may have been committed or not, the table knows."""

    def __init__(self, house: House, seed: int) -> None:
        super().__init__()
        self.house, self.chance, self.made = house, random.Random(seed), 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while self.made < CHANGES:
                try:
                    self._write()
                except psycopg2.OperationalError:
                    time.sleep(0.2)  # the server was killed; the test starts it again
        except BaseException as problem:
            self.problem = problem
            raise

    def _write(self) -> None:
        secret = (self.house.state / "secrets" / "postgres").read_text().strip()
        with closing(psycopg2.connect(self.house.postgres_url, user="postgres", password=secret)) as connection:
            while self.made < CHANGES:
                size = self.chance.choice([1, 5, 50, 200, 1000])
                with connection, connection.cursor() as cursor:
                    for statement in self._statements(size):
                        cursor.execute(*statement)
                self.made += size

    def _statements(self, size: int) -> Iterator[tuple[Any, ...]]:
        """Statements that change ``size`` rows or a few less."""
        chance = self.chance
        keys = [chance.randrange(5000) for _ in range(size)]
        text = chance.choice(["", "short", "ü" * 40, "long " * 1000, None])
        kind = chance.random()
        if kind < 0.45:
            upsert = (
                "INSERT INTO shop.orders SELECT DISTINCT k, %s, k / 7.0, %s FROM unnest(%s::bigint[]) k "
                "ON CONFLICT (id) DO UPDATE SET customer = excluded.customer, amount = orders.amount + 1"
            )
            yield upsert, (f"c{keys[0]}", text, keys)
        elif kind < 0.7:
            yield "UPDATE shop.orders SET amount = amount + 1, note = %s WHERE id = ANY (%s)", (text, keys)
        elif kind < 0.9:
            yield "DELETE FROM shop.orders WHERE id = ANY (%s)", (keys[: max(1, size // 3)],)
        else:
            fresh = chance.randrange(10**6, 10**12)
            move = "UPDATE shop.orders SET id = %s + id WHERE id = ANY (%s) AND id < 5000"
            yield move, (fresh * 10_000, keys[: max(1, size // 10)])


def test_the_copy_equals_its_source(house: House) -> None:
    with house.warehouse() as cursor:
        cursor.execute("CREATE SCHEMA shop")
        cursor.execute(TABLE)
        cursor.execute("ALTER TABLE shop.orders REPLICA IDENTITY FULL")
        cursor.execute("INSERT INTO shop.orders SELECT g, 'c' || g, g / 3.0, NULL FROM generate_series(1, 3000) g")
    house.start("orders_copy")
    writer = Writer(house, 20261121)
    writer.start()
    crashes = {CHANGES // 5: house.kill_engine, CHANGES // 2: _kill_server(house), CHANGES * 4 // 5: house.kill_engine}
    for reached, crash in crashes.items():
        until(lambda: writer.problem or writer.made >= reached, f"{reached} changes")  # noqa: B023
        crash()
        house.recover()
    writer.join()
    assert writer.problem is None
    house.until_running(["orders_copy"])

    def difference() -> int:
        compare = (
            "SELECT count(*) AS n FROM ((TABLE shop.orders EXCEPT ALL TABLE public.orders_copy) UNION ALL "
            "(TABLE public.orders_copy EXCEPT ALL TABLE shop.orders)) AS d"
        )
        return int(str(house.table(compare)[0]["n"]))

    until(lambda: difference() == 0, "the copy equals its source", 300)
    assert writer.made >= CHANGES
    kept = len(house.table("TABLE shop.orders"))
    assert kept, "two empty tables are equal"
    print(f"{kept} rows after {writer.made} changes")
    _slots_go_with_the_query(house)


def _kill_server(house: House) -> Any:
    def crash() -> None:
        house.kill_server("postgres")
        house.up()

    return crash


def _slots_go_with_the_query(house: House) -> None:
    """A query that left the project leaves a slot, which is found and dropped."""
    assert slots.left_over(house.project, house.control) == []
    house.stop("orders_copy")
    (house.root / "sql" / "shop.sql").write_text(SQL[: SQL.index("CREATE MATERIALIZED")])
    without = load_project(house.root, settings=load_settings(house.root), strict=True)
    (left,) = slots.left_over(without, house.control)
    assert left.name.startswith("ds_") and "orders_copy" in left.name and not left.active
    slots.drop(without, left)
    assert slots.left_over(without, house.control) == []
    assert house.table("SELECT slot_name FROM pg_replication_slots") == []
    assert house.table("SELECT pubname FROM pg_publication") == []
