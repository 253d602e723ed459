"""One and ten queries over the changes of one database: CPU of the server, the planner and the engine, and latency.

Each query copies a table of its own into a view. Ours share one replication session; the peer is the same engine with
``spark.dsdagster.sharedReplication`` off, where each query reads its own slot. First each table gets a few rows a
second, and the time from a commit to the view is taken for one of them; then all tables get transactions of
:data:`ROWS` rows at a fixed rate.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.house import STORES, TOML, House
from benchmarks.measure import Pairs, Result, Size, children, cpu_seconds, percentile, results, say
from benchmarks.tables import _connection
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.status import Ensured
from ds_dagster.settings import load_settings
from ds_dagster.spark.planner.shared import SERVER
from ds_dagster.spark.queries.sources import SHARED_SESSIONS

WAIT_SECONDS = 300.0
SETTLE_SECONDS = 8.0
POLL_SECONDS = 0.001
SLOW_RATE = 5
"""Rows a second of each table while latency is measured."""
ROWS, BUSY_RATE = 100, 2_000
"""Rows of a transaction, and of all tables in a second, while CPU for changes is measured."""
SQL = """
CREATE CHANGELOG {table} (id BIGINT, v VARCHAR, PRIMARY KEY(id))
  WITH ('store'='pg', 'postgresql.db.name'='postgres', 'postgresql.table.name'='{table}');
CREATE MATERIALIZED VIEW copy_{table} AS SELECT id, v FROM {table};
"""
PARTS = ("server", "planner", "engine")


@dataclass(frozen=True, slots=True)
class Measured:
    """One engine: milliseconds from commit to view; CPU seconds by part of a second at the slow rate, and of a thousand
    changes at the fast one."""

    millis: tuple[float, ...]
    slow: Mapping[str, float]
    busy: Mapping[str, float]


def many(house: House, size: Size, count: str = "") -> list[Result]:
    """Both sides in turns, with one query and with many, or with some other number."""
    pairs: list[Pairs] = []
    for queries in [int(count)] if count else (1, size.of(10, 3)):
        figures = _pairs(queries)
        pairs += figures.values()
        for run in range(size.runs):
            sides = [_measured(house, size, queries, f"{queries}_{run}_{on}".lower(), on) for on in (True, False)]
            for side in sides:
                say(f"cdc_many, {queries} queries, load {os.getloadavg()[0]:.1f}: {_shown(side)}")
            ours, peer = (dict(_figures(side)) for side in sides)
            for name, pair in figures.items():
                pair.add(ours[name], peer[name])
    return results(pairs)


def _pairs(count: int) -> dict[str, Pairs]:
    found = {share: Pairs(f"{count} CDC queries, commit to view, {share}", "ms", False) for share in ("p50", "p99")}
    for part in PARTS:
        found[f"slow {part}"] = Pairs(
            f"{count} CDC queries, {SLOW_RATE} rows/s each: CPU of {part}", "% of a core", False
        )
        found[f"busy {part}"] = Pairs(f"{count} CDC queries, {BUSY_RATE} rows/s: CPU of {part}", "ms/1,000 rows", False)
    return found


def _figures(side: Measured) -> Iterator[tuple[str, float]]:
    yield from (("p50", percentile(side.millis, 0.5)), ("p99", percentile(side.millis, 0.99)))
    for part in PARTS:
        yield f"slow {part}", max(0.01, 100 * side.slow[part])
        yield f"busy {part}", max(0.01, 1000 * side.busy[part])


def _shown(side: Measured) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in _figures(side))


def _measured(house: House, size: Size, count: int, name: str, is_shared: bool) -> Measured:
    toml = f'{TOML}[spark]\n"{SHARED_SESSIONS}" = "{str(is_shared).lower()}"\n'
    (house.root / "ds.toml").write_text(toml, encoding="utf-8")
    tables = [f"t_{name}_{number}" for number in range(count)]
    with closing(_connection(house)) as connection, _running(house, connection, tables) as (pid, view):
        time.sleep(SETTLE_SECONDS)
        parts, seconds = _parts(connection, pid), float(size.of(20, 4))
        before = _cpu(parts)
        begun = time.perf_counter()
        millis = _latencies(connection, view, tables, seconds)
        took = time.perf_counter() - begun
        slow = {part: (value - before[part]) / took for part, value in _cpu(parts).items()}
        before = _cpu(parts)
        rows = _busy(connection, view, tables, seconds)
        busy = {part: 1000 * (value - before[part]) / rows for part, value in _cpu(parts).items()}
    return Measured(tuple(millis), slow, busy)


@contextmanager
def _running(house: House, connection: Any, tables: Sequence[str]) -> Iterator[tuple[int, Path]]:
    """An engine with a query for each table; its process and the file of the last view."""
    for table in tables:
        _run(connection, f"CREATE TABLE {table} (id bigint PRIMARY KEY, v text)")
    text = STORES + "".join(SQL.format(table=table) for table in tables)
    (house.root / "sql" / "cdc_many.sql").write_text(text, encoding="utf-8")
    settings = load_settings(house.root)
    project = load_project(house.root, settings=settings, strict=True)
    control, names = Control.open(settings), [f"copy_{table}" for table in tables]
    control.ensure_engine(WAIT_SECONDS)
    try:
        pid = int(str(locks.holder(control.places.python_lock)["pid"]))
        _wait(control, names, control.ensure(project, names, "ensure", "benchmark"), "RUNNING")
        (path,) = (house.root / ".ds" / "views").glob(f"*.{names[-1]}.db")
        yield pid, path
        _wait(control, names, control.stop(names, "benchmark"), "STOPPED")
    finally:
        stop_engine(settings)
        (house.root / "sql" / "cdc_many.sql").unlink()
        _run(connection, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


def _wait(control: Control, names: Sequence[str], requests: Sequence[Ensured], state: str) -> None:
    for status in control.wait(names, {request.name: request.generation for request in requests}, WAIT_SECONDS):
        if status.state != state:
            raise SystemExit(f"{status.name}: {status.state} {status.condition} {status.message} {status.detail}")


def _run(connection: Any, statement: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)


# --- load -------------------------------------------------------------------------------------------------------------


def _latencies(connection: Any, view: Path, tables: Sequence[str], seconds: float) -> list[float]:
    """Milliseconds from the commit of a row to its row in the view of the last table."""
    last, millis = tables[-1], []
    end = time.perf_counter() + 2 * seconds
    with closing(sqlite3.connect(f"file:{view}?mode=ro", uri=True, isolation_level=None)) as rows:
        for number in range(int(seconds * SLOW_RATE)):
            if time.perf_counter() > end:
                break  # a busy machine
            due = time.perf_counter() + 1 / SLOW_RATE
            for table in tables:
                _run(connection, f"INSERT INTO {table} VALUES (%s, 'slow')", number)
            committed = time.perf_counter()
            _until(rows, last, number)
            millis.append(1000 * (time.perf_counter() - committed))
            time.sleep(max(0.0, due - time.perf_counter()))
    return millis


def _busy(connection: Any, view: Path, tables: Sequence[str], seconds: float) -> int:
    """Write to all tables in turn, and wait until the view has the last row. Returns how many rows were written."""
    begun, rows, number = time.perf_counter(), int(seconds * BUSY_RATE), 0
    for number in range(rows // ROWS):
        first = 1_000_000 + number * ROWS
        insert = f"INSERT INTO {tables[number % len(tables)]} SELECT g, 'row ' || g FROM generate_series(%s, %s) g"
        _run(connection, insert, first, first + ROWS - 1)
        time.sleep(max(0.0, begun + (number + 1) * ROWS / BUSY_RATE - time.perf_counter()))
    _run(connection, f"INSERT INTO {tables[-1]} VALUES (-1, 'last')")
    with closing(sqlite3.connect(f"file:{view}?mode=ro", uri=True, isolation_level=None)) as views:
        _until(views, tables[-1], -1)
    return rows


def _until(view: sqlite3.Connection, table: str, number: int) -> None:
    """Wait until a view has a row."""
    end = time.monotonic() + WAIT_SECONDS
    while view.execute(f"SELECT 1 FROM copy_{table} WHERE id = ?", (number,)).fetchone() is None:
        if time.monotonic() > end:
            raise SystemExit(f"row {number} of {table} never appeared")
        time.sleep(POLL_SECONDS)


# --- CPU --------------------------------------------------------------------------------------------------------------


def _parts(connection: Any, engine: int) -> Mapping[str, Callable[[], Iterable[int]]]:
    """The processes of each part. The planner is a child of the engine's, with its forks below it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = int(cursor.fetchone()[0])
    server = int(Path(f"/proc/{backend}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
    planner = next(pid for pid in children(engine) if SERVER in _arguments(pid))
    return {
        "server": lambda: children(server),
        "planner": lambda: children(planner),
        "engine": lambda: set(children(engine)) - set(children(planner)),
    }


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _cpu(parts: Mapping[str, Callable[[], Iterable[int]]]) -> dict[str, float]:
    return {part: cpu_seconds(pids()) for part, pids in parts.items()}
