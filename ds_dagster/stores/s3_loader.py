"""Writes batches as files, exactly once.

A file appears as a whole or not at all, under a name made of job, checkpoint version and batch, so a batch that is run
again meets its own files. Beside the entities lies the ledger of the job: before the first file of a batch is written
it names them all, after the last one it says that the batch is done. A batch that is done is never written again; one
that was cut off is written anew, and files that its second attempt does not write are removed. Readers of the plain
files need not know of it: a batch of one file shows all at once, one of several files file by file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.errors import error
from ds_dagster.files.address import FilesAddress, FileStore
from ds_dagster.files.layout import column_folders, file_name, ledger_name

if TYPE_CHECKING:
    import pyarrow

NEVER = -1
NOT_FINITE: Mapping[str | None, str] = MappingProxyType({"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"})
TIME_PATTERNS: Mapping[str, str] = MappingProxyType({"sql": "%Y-%m-%d %H:%M:%S", "iso8601": "%Y-%m-%dT%H:%M:%S"})


@dataclass(frozen=True, slots=True)
class WrittenFormat:
    """How rows are written.

    Attributes:
        name: json (lines), csv or parquet.
        compression: none, gzip, zstd; of Parquet also snappy.
        header, delimiter: of CSV.
        timestamps: sql or iso8601, of CSV.
        partitions: columns that become folders.
    """

    name: str
    compression: str = "none"
    header: bool = True
    delimiter: str = ","
    timestamps: str = "sql"
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a job has written last. ``files``: of that batch; ``done``: all of them are there."""

    version: int = NEVER
    epoch: int = NEVER
    done: bool = True
    rows: int = 0
    files: tuple[str, ...] = field(default=())


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> FilesLoader:
    """The loader of a folder; connects at :meth:`FilesLoader.prepare`."""
    if spec.table is None:
        raise error("INTERNAL", where="files without columns")
    settings = {name: resolve(value) for name, value in spec.options.items()}
    format_ = WrittenFormat(
        settings["format"],
        settings["compression"],
        settings["header"] == "true",
        settings["delimiter"],
        settings["timestamps"],
        tuple(json.loads(settings["partitions"])),
    )
    return FilesLoader(FileStore(FilesAddress.of(settings)), settings["folder"], spec.table, format_, identity)


class FilesLoader:
    """See ``catalog.io_spec.BatchLoader``; appends only."""

    def __init__(
        self, store: FileStore, folder: str, target: TableTarget, format_: WrittenFormat, identity: SinkIdentity
    ) -> None:
        self.store = store
        self.folder = folder
        self.target = target
        self.format = format_
        self.identity = identity
        self._loaded = 0

    def prepare(self) -> None:
        """Look whether the place is there and nobody newer writes.

        Raises:
            UserError: STORE_BUCKET_MISSING, STORE_FOLDER_INVALID, STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED,
            LEDGER_NEWER, FILES_LEDGER_INVALID. ExternalError: STORE_UNREACHABLE.
        """
        self.store.check_root()
        self._ledger()

    def load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        """Write one batch exactly once; a batch without rows writes nothing.

        Raises:
            UserError: LEDGER_NEWER, what the store refuses. ExternalError: STORE_UNREACHABLE, DISK_FULL.
        """
        ledger = self._ledger()
        is_ours = ledger.version == self.identity.version
        if is_ours and (epoch < ledger.epoch or (epoch == ledger.epoch and ledger.done)):
            self._loaded += ledger.rows if epoch == ledger.epoch else 0
            return LoadResult(0, replayed=True)
        left = ledger.files if is_ours and epoch == ledger.epoch else ()
        if rows.num_rows or left:
            self._apply(rows, epoch, left)
        self._loaded += rows.num_rows
        return LoadResult(rows.num_rows)

    def finish(self) -> int:
        """Rows of the run, a replayed batch included."""
        return self._loaded

    def close(self) -> None:
        """Nothing stays open between batches."""

    def _apply(self, rows: pyarrow.Table, epoch: int, left: tuple[str, ...]) -> None:
        """Ledger, files, ledger. ``left``: files a cut-off attempt may have written."""
        parts = self._parts(rows, epoch)
        self._note(Ledger(self.identity.version, epoch, False, rows.num_rows, (*dict.fromkeys((*left, *parts)),)))
        for path in left:
            if path not in parts:
                self.store.delete(self._place(path))
        is_there = len(parts) == 1 and tuple(parts) == left and self.store.size(self._place(left[0])) is not None
        if not is_there:  # one file is complete once it is there; readers may have begun with it
            for path, part in parts.items():
                self.store.write(self._place(path), WRITERS[self.format.name](part, self.format))
        self._note(Ledger(self.identity.version, epoch, True, rows.num_rows, tuple(parts)))

    def _parts(self, rows: pyarrow.Table, epoch: int) -> dict[str, pyarrow.Table]:
        """Path of each file → its rows, without the columns that stand in the path."""
        names = self.format.partitions
        name = file_name(self.identity.job, self.identity.version, epoch, self.format.name, self.format.compression)
        if not rows.num_rows:
            return {}
        if not names:
            return {name: rows}
        found: dict[str, list[int]] = {}
        for index, values in enumerate(zip(*(rows.column(c).to_pylist() for c in names), strict=True)):
            found.setdefault(f"{column_folders(names, values)}/{name}", []).append(index)
        inside = rows.drop_columns(list(names))
        return {path: inside.take(found[path]) for path in sorted(found)}

    def _place(self, path: str) -> str:
        return self.store.address.place(self.folder, path)

    def _ledger(self) -> Ledger:
        """What the job has written last, by any driver.

        Raises:
            UserError: LEDGER_NEWER, FILES_LEDGER_INVALID.
        """
        name = ledger_name(self.identity.job)
        text = self.store.read(self.store.address.place(name))
        if text is None:
            return Ledger()
        try:
            found = json.loads(text)
            ledger = Ledger(
                int(found["version"]),
                int(found["epoch"]),
                bool(found["done"]),
                int(found["rows"]),
                tuple(map(str, found["files"])),
            )
        except (ValueError, KeyError, TypeError):
            entity = f"{self.store.address.store}.{self.folder}"
            raise error("FILES_LEDGER_INVALID", file=name, entity=entity) from None
        if ledger.version > self.identity.version:
            raise error("LEDGER_NEWER", table=self.folder, found=ledger.version, version=self.identity.version)
        return ledger

    def _note(self, ledger: Ledger) -> None:
        text = {
            "job": self.identity.job,
            "version": ledger.version,
            "epoch": ledger.epoch,
            "done": ledger.done,
            "rows": ledger.rows,
            "files": list(ledger.files),
        }
        place = self.store.address.place(ledger_name(self.identity.job))
        self.store.write(place, json.dumps(text, indent=1).encode() + b"\n")


# --- writing ----------------------------------------------------------------------------------------------------------


def _json(rows: pyarrow.Table, format_: WrittenFormat) -> pyarrow.Buffer:
    """The texts Spark has made are the rows."""
    lines = "\n".join(rows.column(rows.num_columns - 1).to_pylist())
    return _compressed(f"{lines}\n".encode(), format_.compression)


def _csv(rows: pyarrow.Table, format_: WrittenFormat) -> pyarrow.Buffer:
    """Texts in quotes, NULL as nothing at all: an empty text stays one."""
    import pyarrow
    from pyarrow import csv

    columns = [_cells(column, format_) for column in rows.columns]
    out = pyarrow.BufferOutputStream()
    options = csv.WriteOptions(include_header=format_.header, delimiter=format_.delimiter)
    csv.write_csv(pyarrow.table(columns, rows.column_names), out, options)
    return _compressed(out.getvalue(), format_.compression)


def _cells(column: pyarrow.ChunkedArray, format_: WrittenFormat) -> Any:
    """Values as Arrow's writer takes them: times as the relation spells them, bytes as base64."""
    import pyarrow
    import pyarrow.compute as compute

    kind = column.type
    if pyarrow.types.is_timestamp(kind):
        text = compute.strftime(column.cast(pyarrow.timestamp("us", kind.tz)), TIME_PATTERNS[format_.timestamps])
        return compute.binary_join_element_wise(text, "Z", "") if kind.tz else text
    if pyarrow.types.is_binary(kind):
        texts = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
        return pyarrow.array(texts, pyarrow.string())
    if pyarrow.types.is_floating(kind) and not compute.all(compute.is_finite(column)).as_py():
        return pyarrow.array([NOT_FINITE.get(text, text) for text in column.cast(pyarrow.string()).to_pylist()])
    if pyarrow.types.is_time(kind) or pyarrow.types.is_decimal(kind):
        return column.cast(pyarrow.string())
    return column


def _parquet(rows: pyarrow.Table, format_: WrittenFormat) -> pyarrow.Buffer:
    import pyarrow
    from pyarrow import parquet

    out = pyarrow.BufferOutputStream()
    parquet.write_table(rows, out, compression=format_.compression)
    return out.getvalue()


def _compressed(content: bytes | pyarrow.Buffer, compression: str) -> pyarrow.Buffer:
    import pyarrow

    out = pyarrow.BufferOutputStream()
    if compression == "none":
        return pyarrow.py_buffer(content)
    with pyarrow.CompressedOutputStream(out, compression) as stream:
        stream.write(content)
    return out.getvalue()


WRITERS: Mapping[str, Callable[[Any, WrittenFormat], Any]] = MappingProxyType(
    {"json": _json, "csv": _csv, "parquet": _parquet}
)
