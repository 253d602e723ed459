"""Queries over the changes of one database without Spark: from a commit to rows in their types, and CPU.

One process for each query plans and reads as Spark would, with Spark's pauses. Ours share a replication session; the
peer are readers of a slot for each. First each table gets a few rows a second, then all get transactions of
:data:`ROWS` rows.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from pyspark.sql.types import LongType, StringType, StructField, StructType

from benchmarks.house import House
from benchmarks.measure import Pairs, Result, Size, children, cpu_seconds, percentile, results, say
from benchmarks.tables import _connection
from ds_dagster import local
from ds_dagster.spark.planner import companions
from ds_dagster.spark.planner.shared import Planner
from ds_dagster.spark.postgres_cdc.options import CdcOptions
from ds_dagster.spark.postgres_cdc.source import ChangesReader

SOURCE = "ds_dagster.spark.postgres_cdc.source"
SETTLE_SECONDS = 5.0
PAUSES = {True: 0.1, False: 0.1}
"""Seconds between two looks, as in an engine, of queries that share a session, and of others."""
SLOW_RATE = 5
ROWS, BUSY_RATE = 100, 2_000
COLUMNS = StructType([StructField("id", LongType()), StructField("v", StringType())])


@dataclass(frozen=True, slots=True)
class Phase:
    """Milliseconds from commit to rows; CPU seconds of the server and of our processes; seconds and rows written."""

    millis: tuple[float, ...]
    server: float
    ours: float
    seconds: float
    rows: int


def readers(house: House, size: Size, count: str = "") -> list[Result]:
    """Both sides in turns, with one query and with many, or with some other number."""
    pairs: list[Pairs] = []
    for queries in [int(count)] if count else (1, size.of(10, 3)):
        name = f"{queries} CDC readers"
        figures = (
            Pairs(f"{name}, commit to rows, p50", "ms", False),
            Pairs(f"{name}, commit to rows, p99", "ms", False),
            Pairs(f"{name}, {SLOW_RATE} rows/s each: CPU of server", "% of a core", False),
            Pairs(f"{name}, {SLOW_RATE} rows/s each: CPU of readers", "% of a core", False),
            Pairs(f"{name}, {BUSY_RATE} rows/s: CPU of server", "ms/1,000 rows", False),
            Pairs(f"{name}, {BUSY_RATE} rows/s: CPU of readers", "ms/1,000 rows", False),
        )
        pairs += figures
        for run in range(size.runs):
            sides = [_figures(*_measured(house, size, queries, f"{queries}_{run}_{on}".lower(), on)) for on in PAUSES]
            for pair, ours, peer in zip(figures, *sides, strict=True):
                pair.add(ours, peer)
            say(f"{name}, load {os.getloadavg()[0]:.1f}: ours {sides[0]}, peer {sides[1]}")
    return results(pairs)


def _figures(slow: Phase, busy: Phase) -> list[float]:
    shares = [100 * used / slow.seconds for used in (slow.server, slow.ours)]
    costs = [1e6 * used / busy.rows for used in (busy.server, busy.ours)]
    values = [percentile(slow.millis, 0.5), percentile(slow.millis, 0.99), *shares, *costs]
    return [round(max(value, 0.01), 2) for value in values]


def _measured(house: House, size: Size, queries: int, name: str, is_shared: bool) -> tuple[Phase, Phase]:
    tables, seconds = [f"r_{name}_{number}" for number in range(queries)], float(size.of(15, 4))
    with closing(_connection(house)) as connection, _planner() as planner:
        for table in tables:
            _run(connection, f"CREATE TABLE {table} (id bigint PRIMARY KEY, v text)")
        with _reading(house, tables, is_shared) as (pids, queue):
            time.sleep(SETTLE_SECONDS)
            load = Load(connection, _processes(connection, [*pids, planner]), queue, tables)
            slow = load.phase(seconds, SLOW_RATE, 1, 0)
            busy = load.phase(seconds, BUSY_RATE / ROWS / queries, ROWS, 1_000_000)
        for table in tables:
            _run(connection, f"SELECT pg_drop_replication_slot('{table}')")
            _run(connection, f"DROP PUBLICATION {table}")
            _run(connection, f"DROP TABLE {table}")
    return slow, busy


@contextmanager
def _planner() -> Iterator[int]:
    """A planner; this process is as one of its forks."""
    planner = Planner()
    program = planner.program(SOURCE)
    if program is None or planner.process is None:
        raise SystemExit("no planner")
    companions.PLACE.folder = Path(program).parent
    try:
        yield planner.process.pid
    finally:
        companions.PLACE.folder = None
        planner.stop()


@contextmanager
def _reading(house: House, tables: Sequence[str], is_shared: bool) -> Iterator[tuple[list[int], Queue[list[float]]]]:
    """Processes that read the tables; they report when they have rows that hold the time of their commit."""
    context = multiprocessing.get_context("fork")
    end, queue = context.Event(), context.Queue()
    state = house.root / ".ds"
    options = {
        "connector": "ds_dagster.stores.postgres.connection:PostgresAddress", "store": "pg", "key": "id",
        "url": local.addresses(state).postgres, "username": "postgres", "password": local.postgres_password(state),
        "sslmode": "disable", "columns": COLUMNS.json(), "state": str(state / "snapshots"), "live": str(is_shared),
    }  # fmt: skip
    of_tables = [{**options, "tables": f"public.{table}", "slot": table} for table in tables]
    processes = [context.Process(target=_read, args=(one, PAUSES[is_shared], end, queue)) for one in of_tables]
    for process in processes:
        process.start()
    try:
        yield [process.pid or 0 for process in processes], queue
    finally:
        end.set()
        for process in processes:
            process.join()


def _read(options: dict[str, str], pause: float, end: Event, queue: Queue[list[float]]) -> None:
    """Plan, read and commit, as Spark does."""
    reader = ChangesReader(CdcOptions.parse(options))
    position: Any = reader.initialOffset()
    while not end.is_set():
        after = reader.latestOffset(position, reader.getDefaultReadLimit())
        if after == position:
            time.sleep(pause)
            continue
        parts = reader.partitions(position, after)
        rows = reader.rows_of(parts) or (batch for part in parts for batch in reader.read(part))
        texts = [text for batch in rows for text in batch.column("row").field("v").to_pylist()]
        now, position = time.time(), after
        reader.commit(after)
        queue.put([1000 * (now - float(text)) for text in texts])
    reader.stop()


@dataclass(frozen=True, slots=True)
class _Processes:
    """CPU seconds of the server's processes, and of the readers', their planner's and its hub's."""

    server: Callable[[], float]
    ours: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Load:
    """Writes to the tables, and measures how the readers follow."""

    connection: Any
    processes: _Processes
    queue: Queue[list[float]]
    tables: Sequence[str]

    def phase(self, seconds: float, rate: float, rows: int, first: int) -> Phase:
        """Transactions of some rows, at a rate for each table; ids begin at ``first``."""
        begun, server, ours = time.perf_counter(), self.processes.server(), self.processes.ours()
        count = max(1, int(seconds * rate))
        for number in range(count):
            start = first + number * rows
            for table in self.tables:
                insert = f"INSERT INTO {table} SELECT g, %s FROM generate_series(%s, %s) g"
                _run(self.connection, insert, repr(time.time()), start, start + rows - 1)
            time.sleep(max(0.0, begun + (number + 1) / rate - time.perf_counter()))
        wanted = count * rows * len(self.tables)
        millis: list[float] = []
        while len(millis) < wanted:
            millis += self.queue.get(timeout=120)
        took = time.perf_counter() - begun
        return Phase(tuple(millis), self.processes.server() - server, self.processes.ours() - ours, took, wanted)


def _processes(connection: Any, readers: Sequence[int]) -> _Processes:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = int(cursor.fetchone()[0])
    server = int(Path(f"/proc/{backend}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
    return _Processes(
        lambda: cpu_seconds(children(server)),
        lambda: cpu_seconds({pid for reader in readers for pid in children(reader)}),
    )


def _run(connection: Any, statement: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
