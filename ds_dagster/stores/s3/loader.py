"""Writes batches as files, exactly once.

A file appears as a whole or not at all. Its name is made of job, checkpoint version and batch, so a repeated batch
writes the same files. The ledger of the job is next to the entities: it lists all files of a batch before the first one
is written, and marks the batch as done after the last one. A batch that is done is never written again. An interrupted
batch is written again, and files that the second attempt does not write are removed. Readers of the files need not know
the ledger: a batch of one file appears at once, a batch of several files file by file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.io_spec import Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, SinkFacts, Tip
from ds_dagster.errors import error
from ds_dagster.files.address import FilesAddress, FileStore
from ds_dagster.files.layout import column_folders, file_name, ledger_name
from ds_dagster.stores.table_sink import TableSink, TargetState, opened

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
NOT_FINITE: Mapping[str | None, str] = MappingProxyType({"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"})
TIME_PATTERNS: Mapping[str, str] = MappingProxyType({"sql": "%Y-%m-%d %H:%M:%S", "iso8601": "%Y-%m-%dT%H:%M:%S"})


@dataclass(frozen=True, slots=True)
class WrittenFormat:
    """The format of the written files.

    Attributes:
        name: json (lines), csv or parquet.
        compression: none, gzip, zstd; for Parquet also snappy.
        header, delimiter: for CSV.
        timestamps: sql or iso8601, for CSV.
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
    """The last batch that a job has written or begun.

    Attributes:
        version, epoch: of the batch.
        offsets: digest of its end offsets; None in ledgers of earlier versions of the package, which did not store
            batches without rows.
        done: whether all its files are written.
        rows: number of its rows.
        files: paths of its files.
        before, ends_before: digest and text of the end offsets of the batch before, while this one is not done.
        ends: text of its end offsets.
    """

    version: int
    epoch: int
    offsets: str | None
    done: bool
    rows: int
    files: tuple[str, ...] = ()
    before: str = ""
    ends: str = ""
    ends_before: str = ""


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> FilesLoader:
    """The loader of a folder; connects at :meth:`FilesLoader.prepare`."""
    target, settings = opened(spec, resolve)
    format_ = WrittenFormat(
        settings["format"],
        settings["compression"],
        settings["header"] == "true",
        settings["delimiter"],
        settings["timestamps"],
        tuple(json.loads(settings["partitions"])),
    )
    return FilesLoader(FileStore(FilesAddress.of(settings)), settings["folder"], target, format_, identity)


class FilesLoader(TableSink):
    """See :class:`TableSink`; appends only. Written files may be moved out of the folder, the ledger may not."""

    def __init__(
        self, store: FileStore, folder: str, target: TableTarget, format_: WrittenFormat, identity: SinkIdentity
    ) -> None:
        super().__init__(target, identity)
        self.store = store
        self.folder = folder
        self.format = format_

    @property
    def table(self) -> str:
        """Folder, for messages."""
        return self.folder

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:  # noqa: ARG002
        return step()  # the files report their own failures

    def _prepare(self, tip: CheckpointTip) -> None:
        self.store.check_root()
        ledger, committed = self._ledger(), tip.committed
        is_older = ledger.offsets is None if ledger is not None else tip.is_older
        if is_older and committed and (ledger is None or ledger.epoch < committed.batch):
            version = self.identity.version if ledger is None else ledger.version
            self._note(Ledger(version, committed.batch, committed.offsets, True, 0))
        super()._prepare(tip)

    def _transaction(self) -> AbstractContextManager[Ledger | None]:
        """Reads the ledger again, since another driver may have written it; there are no transactions."""
        return nullcontext(self._ledger())

    def _look(self, ledger: Ledger | None) -> TargetState:
        return self._state(ledger)

    def _make(self, work: Any, state: TargetState) -> None:
        """Does nothing: folders are created with their files."""

    def _state(self, ledger: Ledger | None, *_: Any) -> TargetState:
        """The state in the ledger. An interrupted batch does not count, since it is written again."""
        if ledger is None:
            return TargetState(SinkFacts(exists=False))
        if ledger.version != self.identity.version:
            return TargetState(SinkFacts(version=ledger.version))
        previous = Tip(ledger.epoch - 1, ledger.before, ledger.ends_before) if ledger.epoch else None
        tip = Tip(ledger.epoch, ledger.offsets or "", ledger.ends) if ledger.done else previous
        return TargetState(SinkFacts(tip, ledger.version), rows=ledger.rows)

    def _apply(self, ledger: Ledger | None, staged: pyarrow.Table, batch: Tip, *, replaces: bool) -> None:  # noqa: ARG002
        """Write the ledger, the files, and the ledger again. Files of an interrupted attempt are deleted or written
        again; a complete file remains, since readers may have begun with it."""
        version, rows = self.identity.version, staged.num_rows
        left: tuple[str, ...] = ()
        is_same = ledger is not None and ledger.offsets == batch.offsets
        if ledger is not None and not ledger.done and (ledger.version, ledger.epoch) == (version, batch.batch):
            left = ledger.files
        before = self._state(ledger).facts.tip
        parts = self._parts(staged, batch.batch)
        named = (*dict.fromkeys((*left, *parts)),)
        begun = Ledger(version, batch.batch, batch.offsets, False, rows, named, ends=batch.ends)
        if parts or left:
            earlier = before or Tip(-1)
            self._note(replace(begun, before=earlier.offsets, ends_before=earlier.ends))
        for path in left:
            if path not in parts:
                self.store.delete(self._place(path))
        is_whole = is_same and len(parts) == 1 and tuple(parts) == left
        for path, part in parts.items():
            content = WRITERS[self.format.name](part, self.format)
            if not is_whole or self.store.size(self._place(path)) != len(memoryview(content)):
                self.store.write(self._place(path), content)
        self._note(replace(begun, done=True, files=tuple(parts)))

    def _parts(self, rows: pyarrow.Table, epoch: int) -> dict[str, pyarrow.Table]:
        """Path of each file → its rows, without the columns that are in the path."""
        names = self.format.partitions
        name = file_name(self.identity.job, self.identity.version, epoch, self.format.name, self.format.compression)
        if not rows.num_rows:
            return {}
        if not names:
            return {name: rows}
        indexes: dict[str, list[int]] = {}
        for index, values in enumerate(zip(*(rows.column(c).to_pylist() for c in names), strict=True)):
            indexes.setdefault(f"{column_folders(names, values)}/{name}", []).append(index)
        inside = rows.drop_columns(list(names))
        return {path: inside.take(indexes[path]) for path in sorted(indexes)}

    def _place(self, path: str) -> str:
        return self.store.address.place(self.folder, path)

    def _ledger(self) -> Ledger | None:
        """The ledger of the job, None without one.

        Raises:
            UserError: FILES_LEDGER_INVALID.
        """
        name = ledger_name(self.identity.job)
        text = self.store.read(self.store.address.place(name))
        if text is None:
            return None
        try:
            marker = json.loads(text)
            return Ledger(
                int(marker["version"]),
                int(marker["epoch"]),
                marker.get("offsets"),
                bool(marker["done"]),
                int(marker["rows"]),
                tuple(map(str, marker["files"])),
                *(str(marker.get(name, "")) for name in ("before", "ends", "ends_before")),
            )
        except (ValueError, KeyError, TypeError):
            entity = f"{self.store.address.store}.{self.folder}"
            raise error("FILES_LEDGER_INVALID", file=name, entity=entity) from None

    def _note(self, ledger: Ledger) -> None:
        text = json.dumps({"job": self.identity.job, **asdict(ledger)}, indent=1)
        self.store.write(self.store.address.place(ledger_name(self.identity.job)), text.encode() + b"\n")


# --- writing ----------------------------------------------------------------------------------------------------------


def _json(rows: pyarrow.Table, format_: WrittenFormat) -> pyarrow.Buffer:
    """JSON lines, from the texts that Spark has made."""
    lines = "\n".join(rows.column(rows.num_columns - 1).to_pylist())
    return _compressed(f"{lines}\n".encode(), format_.compression)


def _csv(rows: pyarrow.Table, format_: WrittenFormat) -> pyarrow.Buffer:
    """CSV with texts in quotes, and NULL as an empty cell, so that an empty text differs from NULL."""
    import pyarrow
    from pyarrow import csv

    columns = [_cells(column, format_) for column in rows.columns]
    out = pyarrow.BufferOutputStream()
    options = csv.WriteOptions(include_header=format_.header, delimiter=format_.delimiter)
    csv.write_csv(pyarrow.table(columns, rows.column_names), out, options)
    return _compressed(out.getvalue(), format_.compression)


def _cells(column: pyarrow.ChunkedArray, format_: WrittenFormat) -> Any:
    """Values for Arrow's CSV writer: times in the relation's format, bytes as base64, NaN and infinities as in
    Spark."""
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
