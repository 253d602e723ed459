"""A batch of 100,000 rows into a Delta table: our loader, which looks its ledger up and commits exactly once, against a
bare ``write_deltalake`` and a bare ``merge`` that do neither. Six columns; half of an upserted batch is new."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa

from benchmarks.measure import Pairs, Result, Size, results, say
from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.datatypes import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP_LTZ, VARCHAR
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.loader import DeltaLoader
from ds_dagster.stores.delta.tables import native_type

TYPES = {"id": BIGINT, "customer": VARCHAR, "url": VARCHAR, "price": DOUBLE, "paid": BOOLEAN, "at": TIMESTAMP_LTZ}
COLUMNS = tuple(TableColumn(name, type_, native_type(type_)) for name, type_ in TYPES.items())
Load = Callable[[pa.Table, int], object]


def batch(first: int, number: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(first, first + number), pa.int64()),
            "customer": [f"user_{i}" for i in range(number)],
            "url": [f"/url/{i % 1000}" for i in range(number)],
            "price": pa.array([i / 7 for i in range(number)]),
            "paid": pa.array([i % 2 == 0 for i in range(number)]),
            "at": pa.array([i * 1000 for i in range(number)], pa.timestamp("us", "UTC")),
        }
    )


def ours(folder: Path, mode: str) -> Load:
    address = LakeAddress("lake", folder.as_uri())
    key = ("id",) if mode == "upsert" else ()
    target = TableTarget(("ours",), COLUMNS, key, mode, "incremental")  # type: ignore[arg-type]
    loader = DeltaLoader(address, address.place("ours"), target, SinkIdentity("bench", 1))
    loader.prepare(CheckpointTip())
    return lambda rows, epoch: loader.load(rows, Tip(epoch))


def peer(folder: Path, mode: str) -> Load:
    place = str(folder / "peer")
    deltalake.DeltaTable.create(place, schema=batch(0, 1).schema)
    if mode == "append":
        return lambda rows, _: deltalake.write_deltalake(place, rows, mode="append")

    def merge(rows: pa.Table, _: int) -> object:
        merger = deltalake.DeltaTable(place).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return merge


def rates(mode: str, number: int, batches: int) -> tuple[float, float]:
    """Rows per second of both sides in turns, a table each, in a folder of their own."""
    step = number if mode == "append" else number // 2
    with tempfile.TemporaryDirectory() as folder:
        return in_turns(ours(Path(folder), mode), peer(Path(folder), mode), number, batches, step)


def in_turns(ours: Load, peer: Load, number: int, batches: int, step: int) -> tuple[float, float]:
    """Rows per second of both sides, which load the same batches in turns.

    Args:
        ours, peer: the sides.
        number: rows of a batch.
        batches: number of batches.
        step: new rows of a batch.
    """
    seconds = [0.0, 0.0]
    for epoch in range(batches):
        rows = batch(epoch * step, number)
        for side, loading in enumerate((ours, peer)):
            begun = time.perf_counter()
            loading(rows, epoch)
            seconds[side] += time.perf_counter() - begun
    return batches * number / seconds[0], batches * number / seconds[1]


def load(size: Size) -> list[Result]:
    """Appends, then upserts."""
    number, batches = size.rows(100_000, 6_000), size.of(10, 3)
    found = []
    for mode in ("append", "upsert"):
        pairs = Pairs(f"Delta {mode}, {number:,} rows a batch (peer: bare delta-rs)", "rows/s", True)
        for run in range(-1, size.runs):
            figures = rates(mode, number, batches)
            say(f"lake {mode}: {figures[0]:,.0f} rows/s, bare {figures[1]:,.0f}")
            if run >= 0:
                pairs.add(*figures)
        found.append(pairs)
    return results(found)
