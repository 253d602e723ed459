"""Changes of a Postgres table, from its log to Parquet files and to Kafka.

The same 60 % inserts, 30 % updates and 10 % deletes of a table of six columns lie in the log for both sides, in a
replication slot for each run. The peer is the obvious program: the replication protocol through psycopg2, ``pgoutput``
taken apart message by message, Parquet written by pyarrow. It writes the same columns and rows.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.house import House, Ran
from benchmarks.measure import Pairs, Result, Size, results, say
from benchmarks.tables import _connection
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.spark.compiler import PlanCompiler
from ds_dagster.spark.queries.query import close
from ds_dagster.spark.queries.sources import STREAM_BATCH_ROWS, ReadLimits, read_records
from ds_dagster.spark.records.formats import SourceFrame

TABLE = """
CREATE TABLE sales (id bigint PRIMARY KEY, customer text, item text, price double precision, paid boolean,
  at timestamptz)
"""
CHANGES = (
    "INSERT INTO sales SELECT g, 'Customer_' || g % 50000, 'Item ' || g % 999 || ' of the catalogue', g / 7.0, "
    "g % 3 = 0, now() FROM generate_series({first}, {last}) g",
    "UPDATE sales SET price = price + 1 WHERE id BETWEEN {first} AND {half}",
    "DELETE FROM sales WHERE id BETWEEN {first} AND {sixth}",
)
ROW = "STRUCT<id BIGINT, customer VARCHAR, item VARCHAR, price DOUBLE, paid BOOLEAN, at TIMESTAMP_LTZ>"
SQL = """
CREATE STREAM sales (op VARCHAR, ts_ms BIGINT, "before" STRUCT<id BIGINT>, "after" {row})
  WITH ('store'='pg', 'value.format'='json', 'postgresql.db.name'='postgres', 'postgresql.table.name'='sales',
    'starting.position'=latest);
CREATE STREAM {name} WITH ('store'='k', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1) AS
  SELECT op, ts_ms, "before", "after" FROM sales
  WITH ('postgresql.slot.name'='{slot}', 'max.records.per.batch'=4000000);
"""
STEP = 6_000


def changes(house: House, size: Size) -> list[Result]:
    """From the log to files and to a topic."""
    rows = size.rows(1_200_000, 60_000)
    parquet = Pairs("CDC: Postgres to Parquet (peer: psycopg2 loop)", "changes/s", True)
    kafka = Pairs("CDC: Postgres to Kafka (peer: psycopg2 loop to Parquet)", "changes/s", True)
    cost = Pairs("CDC: Postgres to Parquet, CPU (peer: psycopg2 loop)", "changes/CPU second", True)
    runs = range(-size.warm_ups, size.runs)
    with closing(_connection(house)) as connection:
        _fill(connection, rows, [f"{side}_{run + size.warm_ups}" for run in runs for side in ("a", "b", "c")])
        for run in runs:
            number = run + size.warm_ups
            ours, to_kafka = (_ours(house, f"a_{number}", "files"), _ours(house, f"b_{number}", "kafka"))
            seconds, used = _peer(house, connection, f"c_{number}", rows)
            for ran in (ours, to_kafka):
                if ran.rows != rows:
                    raise SystemExit(f"{ran.rows} of {rows} changes were read")
            peer = rows / seconds
            say(f"cdc: Parquet {ours.rows_per_second:,.0f}, Kafka {to_kafka.rows_per_second:,.0f}, peer {peer:,.0f}")
            say(f"cdc: per CPU second Parquet {ours.rows_per_cpu_second:,.0f}, peer {rows / used:,.0f}")
            if run >= 0:
                parquet.add(ours.rows_per_second, peer)
                kafka.add(to_kafka.rows_per_second, peer)
                cost.add(ours.rows_per_cpu_second, rows / used)
            for side in ("a", "b", "c"):
                _run(connection, f"SELECT pg_drop_replication_slot('{side}_{number}')")
    return results((parquet, kafka, cost))


def _fill(connection: Any, rows: int, slots: list[str]) -> None:
    """The table, a publication and a slot for every run, then the changes."""
    _run(connection, "DROP TABLE IF EXISTS sales")
    _run(connection, TABLE)
    for slot in slots:
        _run(connection, f"CREATE PUBLICATION {slot} FOR TABLE sales")
        _run(connection, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    # ten changes: six inserts, three updates, one delete
    inserts = rows * 6 // 10
    for first in range(1, inserts + 1, STEP):
        last = min(first + STEP - 1, inserts)
        count = last - first + 1
        for statement in CHANGES:
            half, sixth = first + count // 2 - 1, first + count // 6 - 1
            _run(connection, statement.format(first=first, last=last, half=half, sixth=sixth))
    _run(connection, "CHECKPOINT")


def _run(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _ours(house: House, slot: str, target: str) -> Ran:
    name = f"cdc_{house.number()}"
    project = house.project(SQL.format(row=ROW, name=name, slot=slot))
    prepared = house.prepared(project, name)
    if target == "kafka":
        return house.run_ours(prepared)

    def read(scan: Scan) -> SourceFrame:
        spec, resolve = prepared.reads[scan.source_name], house._resolver(project, "pg")
        return read_records(prepared.session, scan, spec, resolve, ReadLimits(STREAM_BATCH_ROWS))

    try:
        frame = PlanCompiler(prepared.session, prepared.job_name, read).compile(prepared.query.root)
        writer = frame.writeStream.format("parquet").option("path", str(house.root / name))
        writer = writer.option("checkpointLocation", house.checkpoint()).trigger(availableNow=True)
        return house.timed(writer.start)
    finally:
        close(prepared)


# --- the obvious program ----------------------------------------------------------------------------------------------


def _peer(house: House, connection: Any, slot: str, rows: int) -> tuple[float, float]:
    """Seconds, and CPU seconds of this process, for the same changes by the replication protocol and a loop."""
    import psycopg2
    from psycopg2.extras import LogicalReplicationConnection

    session = psycopg2.connect(
        connection.dsn, password=_password(house), connection_factory=LogicalReplicationConnection
    )
    begun, used = time.perf_counter(), time.process_time()
    with closing(session), session.cursor() as cursor:
        options = {"proto_version": "1", "publication_names": slot}
        cursor.start_replication(slot_name=slot, options=options, decode=False)
        _write(Path(house.root, f"peer-{slot}.parquet"), _read(cursor, rows))
    return time.perf_counter() - begun, time.process_time() - used


def _password(house: House) -> str:
    from ds_dagster import local

    return str(local.postgres_password(house.root / ".ds"))


def _read(cursor: Any, rows: int) -> Iterator[dict[str, Any]]:
    """One record a change; ends with the last of them."""
    import select

    found, millis = 0, 0
    while found < rows:
        message = cursor.read_message()
        if message is None:
            select.select([cursor], [], [], 1.0)
            continue
        data = message.payload
        kind = data[0]
        if kind == ord("B"):
            millis = struct.unpack_from(">q", data, 9)[0] // 1000 + 946_684_800_000
        elif kind in b"IUD":
            found += 1
            yield _change(data, kind, millis)


def _change(data: bytes, kind: int, millis: int) -> dict[str, Any]:
    before, at = None, 5
    if data[at] in b"KO":
        values, at = _tuple(data, at + 1)
        before = {"id": int(values[0])}
    after = _typed(_tuple(data, at + 1)[0]) if kind != ord("D") else None
    return {"op": {73: "c", 85: "u", 68: "d"}[kind], "ts_ms": millis, "before": before, "after": after}


def _tuple(data: bytes, at: int) -> tuple[list[Any], int]:
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    values: list[str | None] = []
    for _ in range(count):
        if data[at] == ord("t"):
            (length,) = struct.unpack_from(">I", data, at + 1)
            values.append(data[at + 5 : at + 5 + length].decode())
            at += 5 + length
        else:
            values.append(None)
            at += 1
    return values, at


def _typed(values: list[Any]) -> dict[str, Any]:
    from datetime import datetime

    id_, customer, item, price, paid, at = values
    return {
        "id": int(id_), "customer": customer, "item": item, "price": float(price), "paid": paid == "t",
        "at": datetime.fromisoformat(at + ":00"),
    }  # fmt: skip


SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("ts_ms", pa.int64()),
        ("before", pa.struct([("id", pa.int64())])),
        (
            "after",
            pa.struct(
                [
                    ("id", pa.int64()),
                    ("customer", pa.string()),
                    ("item", pa.string()),
                    ("price", pa.float64()),
                    ("paid", pa.bool_()),
                    ("at", pa.timestamp("us", "UTC")),
                ]
            ),
        ),
    ]
)


def _write(path: Path, changes: Iterator[dict[str, Any]]) -> None:
    held: list[dict[str, Any]] = []
    with pq.ParquetWriter(path, SCHEMA) as writer:
        for change in changes:
            held.append(change)
            if len(held) == 50_000:
                writer.write_table(pa.Table.from_pylist(held, SCHEMA))
                held = []
        writer.write_table(pa.Table.from_pylist(held, SCHEMA))
