"""The tables' rows when a reader begins, copied once into files: parts that are read batch by batch.

The copy uses one exported snapshot, so its rows and the later changes from the slot neither overlap nor leave a gap.
Only a complete copy is read: if a start dies while copying, the next start copies again. A complete copy is kept until
its last part is read, so a query continues after a crash. The transaction on the source server ends with the copy,
however slow the sink is.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from ds_dagster.errors import error
from ds_dagster.spark.postgres_cdc.options import CdcOptions
from ds_dagster.spark.postgres_cdc.pgoutput import Changes, SourceTable
from ds_dagster.spark.postgres_cdc.position import lsn_text
from ds_dagster.spark.postgres_cdc.rows import SNAPSHOT, Shape, in_parts, make_rows
from ds_dagster.spark.postgres_cdc.server import Exported, Server
from ds_dagster.spark.postgres_cdc.tables import needed, takes_whole_rows
from ds_dagster.spark.postgres_cdc.tuples import Tuples


@dataclass(frozen=True, slots=True)
class Parts:
    """The files of one slot's snapshots."""

    folder: Path

    @classmethod
    def of(cls, options: CdcOptions) -> Parts:
        """The folder of the slot, below the state folder or among the machine's temporary files."""
        base = options.state or str(Path(tempfile.gettempdir(), "ds_postgres_cdc"))
        return cls(Path(base, options.slot))

    def path(self, lsn: int, part: int) -> Path:
        """File of one part."""
        return self.folder / lsn_text(lsn).replace("/", "-") / f"part-{part:06d}.arrow"

    def clear(self) -> None:
        """Remove all parts."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self, lsn: int, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of one part. Raises UserError: CDC_SNAPSHOT_LOST."""
        path = self.path(lsn, part)
        try:
            source = pa.memory_map(str(path))
        except FileNotFoundError:
            raise error("CDC_SNAPSHOT_LOST", file=str(path)) from None
        with source:
            reader = pa.ipc.open_file(source)
            for index in range(reader.num_record_batches):
                yield from in_parts(reader.get_batch(index))


def copy_tables(server: Server, tables: Sequence[SourceTable], exported: Exported, shape: Shape, millis: int) -> int:
    """Copy the tables. Returns the number of parts, 0 for empty tables. Only one batch of rows is in memory.

    Args:
        server: to read from.
        tables: the tables to copy.
        exported: the snapshot; the caller closes its session.
        shape: shape of the rows.
        millis: the server's clock before the snapshot, milliseconds since 1970.

    Raises:
        ExternalError: CDC_SNAPSHOT_FAILED, usually a full disk.
    """
    parts = Parts.of(server.options)
    try:
        parts.clear()
        parts.path(exported.lsn, 0).parent.mkdir(parents=True)
        writer = _PartWriter(parts, exported.lsn, shape.schema, server.options.max_records)
        for table in tables:
            chosen = _chosen(table, shape)
            for texts in server.select(_statement(server, chosen), exported.name):
                writer.write(_rows(chosen, texts, exported.lsn, writer.rows, millis, shape))
        return writer.close()
    except OSError as failure:
        raise error("CDC_SNAPSHOT_FAILED", folder=str(parts.folder), detail=str(failure)) from failure


def _chosen(table: SourceTable, shape: Shape) -> SourceTable:
    """The table with only the columns that are read."""
    if takes_whole_rows(shape):
        return table
    names = set(needed(shape)) or {table.columns[0].name}
    return replace(table, columns=tuple(column for column in table.columns if column.name in names))


def _statement(server: Server, table: SourceTable) -> str:
    from psycopg2 import sql

    columns = sql.SQL(", ").join(
        sql.SQL("CAST({name} AS text)").format(name=sql.Identifier(column.name)) for column in table.columns
    )
    name = sql.Identifier(table.schema, table.name)
    return server.printed(sql.SQL("SELECT {columns} FROM {name}").format(columns=columns, name=name))


def _rows(
    table: SourceTable, texts: pa.RecordBatch, lsn: int, before: int, millis: int, shape: Shape
) -> pa.RecordBatch | None:
    rows, width = texts.num_rows, len(table.columns)
    if rows == 0:
        return None
    present = np.ones(rows, bool)
    numbers = np.arange(rows, dtype=np.int64)
    changes = Changes(
        table=table,
        op=np.full(rows, SNAPSHOT, np.uint8),
        position=numbers,
        commit=np.full(rows, lsn - 1, np.int64),
        sequence=numbers + before,
        time=np.full(rows, millis * 1000, np.int64),
        transaction=np.zeros(rows, np.int64),
        new=Tuples(present, tuple(texts.columns), (None,) * width),
        old=Tuples.absent(rows, width),
        old_is_key=np.zeros(rows, bool),
    )
    return make_rows([changes], shape)


class _PartWriter:
    """Writes rows into parts of at most ``most`` rows."""

    def __init__(self, parts: Parts, lsn: int, schema: pa.Schema, most: int) -> None:
        self._parts, self._lsn, self._schema, self._most = parts, lsn, schema, most
        self._writer: pa.RecordBatchFileWriter | None = None
        self._made = 0
        self._inside = 0
        self.rows = 0

    def write(self, batch: pa.RecordBatch | None) -> None:
        """Add rows; begins a new part when one is full."""
        while batch is not None and batch.num_rows:
            if self._writer is None:
                self._begin()
            taken = batch.slice(0, self._most - self._inside)
            assert self._writer is not None
            self._writer.write_batch(taken)
            self._inside += taken.num_rows
            self.rows += taken.num_rows
            if self._inside >= self._most:
                self._end()
            batch = batch.slice(taken.num_rows)

    def close(self) -> int:
        """Finish the last part. Returns the number of parts."""
        self._end()
        return self._made

    def _begin(self) -> None:
        path = str(self._parts.path(self._lsn, self._made))
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_file(path, self._schema, options=options)
        self._made, self._inside = self._made + 1, 0

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
