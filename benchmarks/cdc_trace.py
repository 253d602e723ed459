"""Times at which changes of Postgres pass the planner of an engine, one line each in the file ``DS_CDC_TRACE``.

``received``: a transaction is complete in the shared session; ``offered``: Spark gets an offset that has it;
``planned``: Spark plans the batch; ``given``: its rows are parsed and sent. A line is ``step slot end-LSN time``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FILE = "DS_CDC_TRACE"
TASKS = "DS_CDC_TASKS"
"""If set, tasks read all rows: none are sent with the plan of a batch."""
STEPS = ("received", "offered", "planned", "given")


class Passed(NamedTuple):
    """A line of the file."""

    step: str
    slot: str
    lsn: int
    at: float


def read(path: Path) -> list[Passed]:
    """All lines so far, by time."""
    lines = path.read_text(encoding="ascii").splitlines() if path.is_file() else []
    words = [line.split() for line in lines]
    return sorted((Passed(step, slot, int(lsn), float(at)) for step, slot, lsn, at in words), key=lambda one: one.at)


def install() -> None:
    """Wrap the steps in this process and its forks."""
    from ds_dagster.spark.postgres_cdc.live.buffer import Buffer
    from ds_dagster.spark.postgres_cdc.live.hub import Hub
    from ds_dagster.spark.postgres_cdc.position import LogPosition
    from ds_dagster.spark.postgres_cdc.source import ChangesReader

    if os.environ.get(TASKS):
        ChangesReader.rows_of = lambda *_: None  # type: ignore[method-assign]
    file = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(step: str, slot: str, lsn: int | None) -> None:
        os.write(file, f"{step} {slot or '-'} {lsn or 0} {time.time():.6f}\n".encode())

    def offered(result: Any, reader: Any, start: Any, *_: Any) -> None:
        end = LogPosition.parse(result).lsn
        if end != LogPosition.parse(start).lsn:
            note("offered", reader._options.slot, end)

    def given(_: Any, hub: Any, __: Any, request: Any) -> None:
        member = hub.buffer.members.get(request.member)
        note("given", member.slot if member else "", request.end)

    def planned(_: Any, reader: Any, __: Any, end: Any) -> None:
        note("planned", reader._options.slot, LogPosition.parse(end).lsn)

    _after(Buffer, "_complete", lambda *values: note("received", "", values[-1]))
    _after(Hub, "_give", given)
    _after(ChangesReader, "latestOffset", offered)
    _after(ChangesReader, "partitions", planned)


def _after(owner: type, name: str, step: Callable[..., None]) -> None:
    """Call ``step`` with the result, the object and the arguments after each call of a method."""
    inner = getattr(owner, name)

    def wrapped(self: Any, *arguments: Any) -> Any:
        result = inner(self, *arguments)
        step(result, self, *arguments)
        return result

    setattr(owner, name, wrapped)
