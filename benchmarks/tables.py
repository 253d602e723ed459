"""CTAS into Postgres against the server's own binary COPY from a file, which does nothing but store rows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.house import House, Ran, Record
from benchmarks.measure import Pairs, Result, Size, results, say
from ds_dagster import local
from ds_dagster.demo.data import compact
from ds_dagster.spark.queries.query import close, start

SQL = """
CREATE STREAM sales (id BIGINT, customer VARCHAR, item VARCHAR, price DOUBLE, paid BOOLEAN, seconds BIGINT)
  WITH ('topic'='{topic}', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE TABLE {name} WITH ('store'='pg', 'postgresql.db.name'='postgres', 'postgresql.schema.name'='public',
  'postgresql.table.name'='{name}', 'refresh.mode'='incremental') AS
  SELECT id, customer, item, price, paid, seconds FROM sales;
"""


def sales(number: int) -> Iterator[Record]:
    """Six columns: two numbers, two texts, a fraction, a truth value."""
    for position in range(number):
        value = {
            "id": position,
            "customer": f"Customer_{position % 50_000}", "item": f"Item {position % 999} of the catalogue",
            "price": position / 7, "paid": position % 3 == 0, "seconds": 1_700_000_000 + position,
        }  # fmt: skip
        yield None, compact(value).encode()


def ctas(house: House, size: Size) -> list[Result]:
    """The whole load, JSON in Kafka to committed rows, and its last step alone."""
    rows = size.rows(1_200_000, 60_000)
    topic = house.topic("sales")
    house.fill(topic, sales(rows))
    whole = Pairs("CTAS: Kafka to Postgres (peer: COPY)", "rows/s", True)
    step = Pairs("CTAS: table load alone (peer: COPY)", "rows/s", True)
    with closing(_connection(house)) as connection, _shared_folder() as folder:
        for run in range(-size.warm_ups, size.runs):
            name = f"sales_{house.number()}"
            ran, loading = _ours(house, topic, name)
            file = f"{folder}/{name}.bin"
            seconds = _copied(connection, name, file, rows)
            ours, load, peer = rows / ran.seconds, rows / loading, rows / seconds
            say(f"ctas: whole {ours:,.0f} rows/s, load {load:,.0f}, COPY {peer:,.0f}")
            if run >= 0:
                whole.add(ours, peer)
                step.add(load, peer)
    return results((whole, step))


def _ours(house: House, topic: str, name: str) -> tuple[Ran, float]:
    """The run, and the seconds its loader took."""
    project = house.project(SQL.format(topic=topic, name=name))
    prepared = house.prepared(project, name)
    loader: Any
    (loader,) = prepared.loaders
    taken: list[float] = []
    load = loader.load

    def timed(rows: Any, epoch: int) -> Any:
        begun = time.perf_counter()
        result = load(rows, epoch)
        taken.append(time.perf_counter() - begun)
        return result

    loader.load = timed
    try:
        ran = house.timed(lambda: start(prepared, house.checkpoint(), "available_now"))
        loader.finish()
    finally:
        close(prepared)
    return ran, sum(taken)


def _connection(house: House) -> Any:
    import psycopg2

    state = house.root / ".ds"
    port = local.addresses(state).postgres.rpartition(":")[2].partition("/")[0]
    made = psycopg2.connect(
        host="127.0.0.1", port=int(port), user="postgres", dbname="postgres", password=local.postgres_password(state)
    )
    made.autocommit = True
    return made


class _shared_folder:  # noqa: N801, reads as a word
    """A folder the server's account may write to."""

    def __enter__(self) -> Path:
        self.made = tempfile.TemporaryDirectory(prefix="ds-bench-copy-")
        path = Path(self.made.name)
        path.chmod(0o777)
        return path

    def __exit__(self, *_: object) -> None:
        self.made.cleanup()


def _copied(connection: Any, name: str, file: str, rows: int) -> float:
    """Seconds of COPY of the same rows into a table of the same shape."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {name}")
        found = cursor.fetchone()[0]
        if found != rows:
            raise SystemExit(f"{name} holds {found} of {rows} rows")
        cursor.execute(f"COPY {name} TO '{file}' (FORMAT binary)")
        cursor.execute(f"CREATE TABLE {name}_copied (LIKE {name})")
        cursor.execute("CHECKPOINT")
        begun = time.perf_counter()
        cursor.execute(f"COPY {name}_copied FROM '{file}' (FORMAT binary)")
        seconds = time.perf_counter() - begun
        cursor.execute(f"DROP TABLE {name}, {name}_copied")
    return seconds
