"""CTAS into Postgres against the server's own binary COPY from a file, which does nothing but store rows, and against a
program by hand."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.house import House, Ran, Record
from benchmarks.measure import Pairs, Result, Size, results, say
from ds_dagster import local
from ds_dagster.demo.data import compact
from ds_dagster.spark.queries.query import close, start
from ds_dagster.spark.queries.sources import STREAM_BATCH_ROWS

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
    """The whole load, JSON in Kafka to committed rows, and its last step alone: rows that are there already."""
    rows = size.rows(4_800_000, 60_000)
    topic = house.topic("sales")
    house.fill(topic, sales(rows))
    whole = Pairs("CTAS: Kafka to Postgres (peer: COPY)", "rows/s", True)
    step = Pairs("CTAS: table load alone (peer: COPY)", "rows/s", True)
    program = Pairs("CTAS: Kafka to Postgres (peer: PySpark by hand, at least once)", "rows/s", True)
    with closing(_connection(house)) as connection, _shared_folder() as folder:
        for run in range(-size.warm_ups, size.runs):
            name = f"sales_{house.number()}"
            ran, _ = _ours(house, topic, name)
            _, loading = _ours(house, topic, f"{name}_alone", streams=False)
            by_hand = rows / _by_hand(house, connection, topic, name, rows)
            seconds = _copied(connection, name, f"{folder}/{name}.bin", rows)
            ours, load, peer = rows / ran.seconds, rows / loading, rows / seconds
            say(f"ctas: whole {ours:,.0f} rows/s, load {load:,.0f}, COPY {peer:,.0f}, by hand {by_hand:,.0f}")
            if run >= 0:
                whole.add(ours, peer)
                step.add(load, peer)
                program.add(ours, by_hand)
    return results((whole, step, program))


def _ours(house: House, topic: str, name: str, *, streams: bool = True) -> tuple[Ran, float]:
    """The run, and the seconds its loader took. ``streams``: rows are loaded while others are read."""
    project = house.project(SQL.format(topic=topic, name=name))
    prepared = house.prepared(project, name)
    (sink,) = prepared.sinks
    writer: Any = sink.writer
    writer.streams = streams
    loader, taken = writer.loader, []
    load = loader.load

    def timed(rows: Any, batch: Any) -> Any:
        begun = time.perf_counter()
        result = load(rows, batch)
        taken.append(time.perf_counter() - begun)
        return result

    loader.load = timed
    try:
        ran = house.timed(lambda: start(prepared, house.checkpoint(), "available_now"))
        loader.finish()
    finally:
        close(prepared)
    return ran, sum(taken)


def _by_hand(house: House, connection: Any, topic: str, name: str, rows: int) -> float:
    """Seconds of the program by hand into a table of the same shape."""
    session = peers.session(house.spark)
    records = peers.read(session, house.bootstrap, topic, batch_rows=STREAM_BATCH_ROWS)  # all do not fit into memory
    frame = peers.decoded(records, peers.SALE).select("v.*")
    writer = frame.writeStream.foreachBatch(peers.into_postgres(_uri(house), f"{name}_by_hand"))
    writer = writer.option("checkpointLocation", house.checkpoint()).trigger(availableNow=True)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name}_by_hand (LIKE {name})")
        ran = house.timed(writer.start)
        check_rows(cursor, f"{name}_by_hand", rows)
        cursor.execute(f"DROP TABLE {name}_by_hand")
    return ran.seconds


def _uri(house: House) -> str:
    """Of the local server's database, with the login."""
    state = house.root / ".ds"
    port = local.addresses(state).postgres.rpartition(":")[2].partition("/")[0]
    return f"postgresql://postgres:{local.postgres_password(state)}@127.0.0.1:{port}/postgres"


def _connection(house: House) -> Any:
    import psycopg2

    made = psycopg2.connect(_uri(house))
    made.autocommit = True
    return made


def check_rows(cursor: Any, table: str, rows: int) -> None:
    """End the program when a table does not hold what it must."""
    cursor.execute(f"SELECT count(*) FROM {table}")
    found = cursor.fetchone()[0]
    if found != rows:
        raise SystemExit(f"{table} holds {found} of {rows} rows")


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
        check_rows(cursor, name, rows)
        cursor.execute(f"COPY {name} TO '{file}' (FORMAT binary)")
        cursor.execute(f"CREATE TABLE {name}_copied (LIKE {name})")
        cursor.execute("CHECKPOINT")
        begun = time.perf_counter()
        cursor.execute(f"COPY {name}_copied FROM '{file}' (FORMAT binary)")
        seconds = time.perf_counter() - begun
        cursor.execute(f"DROP TABLE {name}, {name}_alone, {name}_copied")
    return seconds
