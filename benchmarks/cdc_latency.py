"""From a commit in Postgres to a committed record in Kafka, in a whole engine: the steps, the percentiles and the CPU.

Each query copies the changes of a table of its own into a topic. One connection commits single rows in turn over the
tables, and one consumer (``read_committed``) waits for them. :mod:`benchmarks.cdc_trace` says when a change passed the
planner. The peer is the same engine whose tasks read the rows of all batches.
"""

from __future__ import annotations

import json
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks import cdc_trace
from benchmarks.cdc_many import WAIT_SECONDS, _cpu, _parts, _run, _wait
from benchmarks.house import STORES, House
from benchmarks.measure import Pairs, Result, Size, percentile, results, say
from benchmarks.tables import _connection
from ds_dagster.clock import SystemClock
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.launchers.local import LocalLauncher, engine_command
from ds_dagster.runtime.processes import locks
from ds_dagster.settings import Settings, load_settings

RATES = (1, 5, 100)
"""Rows a second of all tables together."""
SHARES = (0.5, 0.99)
SIDES = ("plan", "tasks")
"""Who gives Spark the rows of small batches: the plan of the batch (ours), or a task's Python worker (peer)."""
SQL = """
CREATE STREAM {table} (op VARCHAR, ts_ms BIGINT, "after" STRUCT<id BIGINT, v VARCHAR>)
  WITH ('store'='pg', 'value.format'='json', 'postgresql.db.name'='postgres', 'postgresql.table.name'='{table}',
    'starting.position'=latest);
CREATE STREAM {table}_out WITH ('store'='k', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1) AS
  SELECT op, "after" FROM {table} WITH ('postgresql.slot.name'='{table}');
"""
STEPS = (*cdc_trace.STEPS, "written")


@dataclass(frozen=True, slots=True)
class Row:
    """A committed row: its number, when the commit returned, and the end of the log before and after it."""

    table: str
    number: int
    at: float
    before: int
    after: int


def latency(house: House, size: Size, count: str = "") -> list[Result]:
    """One and ten tables, or some other number, at all rates; both sides in turns."""
    pairs: dict[str, Pairs] = {}
    for number in [int(count)] if count else (1, size.of(10, 3)):
        for run in range(size.runs):
            ours, peer = (
                _measured(house, size, [f"l_{number}_{run}_{side}_{table}" for table in range(number)], side)
                for side in SIDES
            )
            for name, value in ours.items():
                unit = "% of a core" if name.endswith("CPU") else "ms"
                pair = pairs.setdefault(
                    f"{number} {name}", Pairs(f"CDC to Kafka, {number} tables, {name}", unit, False)
                )
                pair.add(value, peer[name])
    return results(pairs.values())


def _measured(house: House, size: Size, tables: Sequence[str], side: str) -> dict[str, float]:
    """Figures of one engine by name."""
    trace, found = house.root / f"trace_{tables[0]}", {}
    with closing(_connection(house)) as connection, _running(house, connection, tables, trace, side) as pid:
        parts = _parts(connection, pid)
        _phase(house, connection, tables, 20, size.of(40, 3), 0, trace)  # the first batches
        before, begun = _cpu(parts), time.perf_counter()
        time.sleep(size.of(15, 4))
        found["idle: CPU"] = _share(_cpu(parts), before, time.perf_counter() - begun)
        for rate in RATES:
            before, begun = _cpu(parts), time.perf_counter()
            millis = _phase(house, connection, tables, rate, size.of(20, 5), rate * 1_000_000, trace)
            found[f"{rate} rows/s: CPU"] = _share(_cpu(parts), before, time.perf_counter() - begun)
            for step in STEPS:
                for share in SHARES:
                    value = max(0.01, percentile(millis[step], share))
                    found[f"{rate} rows/s: commit to {step}, p{100 * share:.0f}"] = value
    shown = ", ".join(f"{name} {value:.0f}" for name, value in found.items())
    say(f"{len(tables)} tables, {side}, load {os.getloadavg()[0]:.1f}: {shown}")
    return found


def _share(after: Mapping[str, float], before: Mapping[str, float], seconds: float) -> float:
    return max(0.01, 100 * sum(after[part] - before[part] for part in ("planner", "engine")) / seconds)


@contextmanager
def _running(house: House, connection: Any, tables: Sequence[str], trace: Path, side: str) -> Iterator[int]:
    """An engine with a query for each table, whose planner writes a trace; gives its process."""
    for table in tables:
        _run(connection, f"CREATE TABLE {table} (id bigint PRIMARY KEY, v text)")
    text = STORES + "".join(SQL.format(table=table) for table in tables)
    (house.root / "sql" / "cdc_latency.sql").write_text(text, encoding="utf-8")
    settings = load_settings(house.root)
    project = load_project(house.root, settings=settings, strict=True)
    control = Control.open(settings, launcher=_traced(settings, trace, side))
    names = [f"{table}_out" for table in tables]
    control.ensure_engine(WAIT_SECONDS)
    try:
        _wait(control, names, control.ensure(project, names, "ensure", "benchmark"), "RUNNING")
        yield int(str(locks.holder(control.places.python_lock)["pid"]))
        _wait(control, names, control.stop(names, "benchmark"), "STOPPED")
    finally:
        stop_engine(settings)
        (house.root / "sql" / "cdc_latency.sql").unlink()
        _run(connection, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


def _traced(settings: Settings, trace: Path, side: str) -> LocalLauncher:
    """Starts the engine with an environment in which its planner writes a trace."""
    here = Path(__file__).parent
    values = {cdc_trace.FILE: str(trace), "PYTHONPATH": os.pathsep.join((str(here / "traced"), str(here.parent)))}
    values |= {cdc_trace.TASKS: "1"} if side == "tasks" else {}
    command = engine_command(settings.root, settings.state, settings.environment, settings.pool)
    return LocalLauncher(
        settings, SystemClock(), ["env", *(f"{name}={value}" for name, value in values.items()), *command]
    )


# --- load -------------------------------------------------------------------------------------------------------------


def _phase(
    house: House, connection: Any, tables: Sequence[str], rate: int, seconds: int, first: int, trace: Path
) -> dict[str, list[float]]:
    """Commit rows at a rate; step → milliseconds from the commit of each row."""
    settings = {"bootstrap.servers": house.bootstrap, "group.id": "l", "fetch.wait.max.ms": 5, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    ends = [(table, consumer.get_watermark_offsets(TopicPartition(f"{table}_out", 0), timeout=30)) for table in tables]
    consumer.assign([TopicPartition(f"{table}_out", 0, high) for table, (_, high) in ends])
    rows: list[Row] = []
    writer = threading.Thread(target=_write, args=(connection, tables, rate, rate * seconds, first, rows))
    writer.start()
    arrived: dict[tuple[str, int], float] = {}
    end = time.monotonic() + seconds + WAIT_SECONDS
    while len(arrived) < rate * seconds:
        if time.monotonic() > end:
            raise SystemExit(f"{rate * seconds - len(arrived)} rows never appeared")
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            number = json.loads(message.value() or b"{}")["after"]["id"]
            if number >= first:
                arrived.setdefault((str(message.topic()), number), time.time())
    writer.join()
    consumer.close()
    millis = _split(rows, cdc_trace.read(trace))
    written = [1000 * (arrived[f"{row.table}_out", row.number] - row.at) for row in rows]
    return {**millis, "written": written}


def _write(connection: Any, tables: Sequence[str], rate: int, count: int, first: int, rows: list[Row]) -> None:
    begun, before = time.perf_counter(), _end_of_log(connection)
    for number in range(count):
        table = tables[number % len(tables)]
        _run(connection, f"INSERT INTO {table} VALUES (%s, 'row')", first + number)
        at, after = time.time(), _end_of_log(connection)
        rows.append(Row(table, first + number, at, before, after))
        before = after
        time.sleep(max(0.0, begun + (number + 1) / rate - time.perf_counter()))


def _end_of_log(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return int(cursor.fetchone()[0])


def _split(rows: Sequence[Row], trace: Sequence[cdc_trace.Passed]) -> dict[str, list[float]]:
    """Milliseconds to each step: the first event of the row's query whose position is behind the log before it."""
    found: dict[str, list[float]] = {step: [] for step in cdc_trace.STEPS}
    for step, millis in found.items():
        by_slot: dict[str, list[cdc_trace.Passed]] = {}
        for one in trace:
            if one.step == step:
                by_slot.setdefault(one.slot, []).append(one)
        for row in rows:
            events = by_slot.get("-" if step == "received" else row.table, [])
            at = bisect_left(events, row.before + 1, key=lambda one: one.lsn)
            if at < len(events):
                millis.append(1000 * (events[at].at - row.at))
        millis.extend([0.0] if not millis else [])
    return found
