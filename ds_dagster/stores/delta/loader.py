"""Loads batches into a Delta table with delta-rs: one commit per batch, which carries rows and ledger.

The ledger is Delta's own: application transactions (Delta protocol, "Transaction Identifiers"), written in the same
commit as the rows. delta-rs stores them but does not check them, so we read them before each commit. The commit then
requires exactly the next version of the table, without delta-rs' own retries. If another driver has taken that version,
the commit fails, and we read again what the other driver wrote: two drivers of one query cannot both load a batch.

A full refresh loads a separate table in a folder inside the target's folder. When its run is complete, it overwrites
the target from that table in one commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, SinkFacts, Tip
from ds_dagster.errors import error
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.tables import (
    ROWS,
    STAGED,
    arrow_schema,
    existing_columns,
    live_rows,
    new_folder,
    new_prefix,
    same_key,
    shape_difference,
    staged_deleted,
    staged_live,
    staged_values,
    storable,
)
from ds_dagster.stores.table_sink import TableSink, TargetState, opened, tip_of

if TYPE_CHECKING:
    import pyarrow

    from ds_dagster.catalog.reading.ranges import Replaced, TimeRange

R = TypeVar("R")
ATTEMPTS = 10
"""Most attempts for a batch while other writers commit in between."""
OFFSETS_DIGITS = 15
"""Hexadecimal digits of a digest that fit into a number of 63 bits."""
OURS = "ds-dagster"
"""Application id in tables that have rows loaded by this package, by any project."""
_LOCKS: dict[str, threading.Lock] = {}
"""Place → lock: queries of one engine that fill the same table wait for each other instead of repeating commits."""
_LOCKS_LOCK = threading.Lock()


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> DeltaLoader:
    """The loader of a table; connects at :meth:`DeltaLoader.prepare`."""
    target, settings = opened(spec, resolve)
    address = LakeAddress.of(settings["store"], settings)
    place = address.place(*target.path)
    return DeltaLoader(address, place, target, identity, shared=settings["shared"] == "true")


class DeltaLoader(TableSink):
    """See :class:`TableSink`. ``place``: the table's own folder or prefix."""

    is_restorable: ClassVar[bool] = True

    def __init__(
        self, address: LakeAddress, place: str, target: TableTarget, identity: SinkIdentity, *, shared: bool = False
    ) -> None:
        super().__init__(target, identity, shared=shared)
        self.address = address
        self.place = place

    @property
    def written(self) -> str:
        """Place of the table that batches are written into: the target, or the new table of a full refresh."""
        return f"{self.place}/{new_folder(self.identity)}" if self.is_full else self.place

    def exists(self) -> bool:
        """Whether the target exists: :meth:`prepare` creates it, in a full refresh :meth:`finish`."""
        return self._guarded("look at the table", lambda: self.address.table(self.place) is not None)

    def _tip(self) -> Tip | None:
        """The newest batch, with the text of its offsets as long as the table's log has the commit of the batch."""
        tip, table = super()._tip(), self.address.table(self.written)
        if tip is None or table is None:
            return None
        noted = {"ds.ledger": self.identity.ledger, "ds.epoch": str(tip.batch)}
        commits = (commit for commit in table.history() if noted.items() <= commit.items())
        return replace(tip, ends=next((str(commit.get("ds.ends", "")) for commit in commits), ""))

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:
        try:
            with _lock_of(self.place):
                return step()
        except self.address.errors() as problem:
            raise self.address.failure(problem, action, self.table, epoch) from None

    def _transaction(self) -> AbstractContextManager[Any]:
        """The present state of the written table, or None; one commit follows."""
        return nullcontext(self.address.table(self.written))

    def _look(self, written: Any) -> TargetState:
        existing = self.address.table(self.place) if self.is_full else written
        state, newest = self._ledger(written, existing), self._newest(existing)
        difference = (
            shape_difference(existing_columns(existing.schema().to_json()), self.target) if existing is not None else ""
        )
        facts = replace(
            state.facts,
            exists=written is not None,
            differs=bool(difference) and not (self.is_full and newest is not None),
            has_others=newest is None and not self.shared and not self.is_full and _has_rows_of_ours(existing),
            keeps="TARGET_SHARED_RESET" if self.shared and not self.is_full else "",
        )
        return replace(state, facts=facts, difference=difference, target=existing)

    def replace_range(self, span: TimeRange, batches: Iterable[pyarrow.Table], tip: Tip) -> Replaced:
        """See ``catalog.reading.ranges.ReplacesRanges``."""
        from ds_dagster.stores.delta.ranges import replace_range

        return replace_range(self, span, batches, tip)

    def _ledger(self, written: Any | None, target: Any | None) -> TargetState:
        """The state in the application transactions of the two tables."""
        versions = [version for version in map(self._newest, (written, target)) if version is not None]
        batch, offsets, rows = (self._number(written, name) for name in ("", "/offsets", "/rows"))
        tip = tip_of(batch, f"{offsets:0{OFFSETS_DIGITS}x}" if offsets else "")
        published = self._number(target, "/published") if self.is_full else None
        return TargetState(SinkFacts(tip, max(versions, default=None)), rows=rows or 0, published=published)

    def _newest(self, table: Any | None) -> int | None:
        """Newest checkpoint version of this job that wrote into a table."""
        version = None if table is None else table.transaction_version(self.identity.job)
        return None if version is None else int(version)

    def _number(self, table: Any | None, name: str) -> int | None:
        """A number that the table has for this version: the batch (empty ``name``), ``/offsets``, ``/rows``, ``/total``
        or ``/published``."""
        number = None if table is None else table.transaction_version(f"{self.identity.ledger}{name}")
        return None if number is None else int(number)

    def _make(self, work: Any, state: TargetState) -> None:  # noqa: ARG002
        self.address.make_folder(self.place)
        if self.is_full:
            self._make_new(state)
        elif state.target is None:
            self._create(self.place)

    def _create(self, place: str) -> None:
        self.address.deltalake().DeltaTable.create(
            place,
            schema=arrow_schema(self.target.columns),
            mode="ignore",
            storage_options=self.address.storage_options(),
        )

    def _make_new(self, state: TargetState) -> None:
        """Create the new table of this run and delete the new tables of earlier versions of this job."""
        if state.published is not None:
            return
        for version, name in self._new_folders():
            if version < self.identity.version:
                self.address.remove_folder(self.place, name)
        self.address.make_folder(self.written)
        self._create(self.written)

    def _new_folders(self) -> list[tuple[int, str]]:
        """Version and folder of new tables of this job."""
        prefix = new_prefix(self.identity.job)
        names = {
            name: name.removeprefix(prefix) for name in self.address.folders(self.place) if name.startswith(prefix)
        }
        return [(int(version), name) for name, version in names.items() if version.isdigit()]

    def _load(self, rows: pyarrow.Table, batch: Tip) -> tuple[LoadResult, int]:
        from deltalake.exceptions import CommitFailedError

        for _ in range(ATTEMPTS):
            try:
                return super()._load(rows, batch)
            except CommitFailedError as problem:
                if not was_overtaken(problem):
                    raise
                self._skip = batch  # a commit whose answer was lost is found in the table
        raise error("TARGET_BUSY", table=self.table, epoch=batch.batch, attempts=ATTEMPTS)

    def _staged(self, rows: pyarrow.Table, batch: Tip) -> pyarrow.Table:
        """Rows with the table's types; a value that does not fit is reported without the value."""
        try:
            return storable(rows, self.target)
        except ValueError as problem:  # Arrow's own errors are ValueErrors
            reason = str(problem).partition(":")[0]
            raise error("TARGET_REJECTS_ROWS", table=self.table, epoch=batch.batch, reason=reason) from None

    def _state(self, written: Any, batch: Tip, rows: int) -> TargetState:  # noqa: ARG002
        target = self.address.table(self.place) if written is None else None
        state = self._ledger(written, target)
        if written is None and self.is_full:  # it was published, or a newer run has removed it
            newest = max((version for version, _ in self._new_folders()), default=state.facts.version)
            state = replace(state, facts=replace(state.facts, version=newest))
        return replace(state, facts=replace(state.facts, exists=written is not None))

    def _apply(self, written: Any, staged: pyarrow.Table, batch: Tip, *, replaces: bool) -> None:
        self._write(written, staged, replaces, self._note(written, batch, staged.num_rows))

    def _write(self, table: Any, rows: pyarrow.Table, replaces: bool, ledger: Any) -> None:
        """Write rows and ledger in one commit, only the ledger if no row changes. ``replaces``: instead of all rows."""
        write = self.address.deltalake().write_deltalake
        before = table.version()
        if replaces:
            write(table, live_rows(rows, self.target), mode="overwrite", commit_properties=ledger)
        elif rows.num_rows and self.target.mode == "append":
            write(table, rows, mode="append", commit_properties=ledger)
        elif rows.num_rows:
            self._merge(table, rows, ledger)
        if table.version() == before:
            table.create_write_transaction([], mode="append", schema=table.schema(), commit_properties=ledger)

    def _merge(self, table: Any, rows: pyarrow.Table, ledger: Any) -> None:
        """Upsert and delete by key. The batch is in memory, so delta-rs can use its bounds to skip files."""
        values = staged_values(self.target.columns)
        merger = table.merge(
            rows,
            predicate=same_key(rows, self.target.primary_key),
            source_alias=STAGED,
            target_alias=ROWS,
            streamed_exec=False,
            commit_properties=ledger,
        )
        (
            merger.when_matched_delete(predicate=staged_deleted())
            .when_matched_update(updates=values, predicate=staged_live())
            .when_not_matched_insert(updates=values, predicate=staged_live())
            .execute()
        )

    def _note(self, table: Any, batch: Tip, rows: int) -> Any:
        """Properties of a batch's commit: the batch, its offsets, the version of the job, rows of the batch and of the
        run."""
        total = (self._number(table, "/total") or 0) + rows
        offsets = int(batch.offsets[:OFFSETS_DIGITS] or "0", 16)
        numbers = {"": batch.batch, "/offsets": offsets, "/rows": rows, "/total": total}
        ledger = self.identity.ledger
        return self._commit(
            {f"{ledger}{name}": number for name, number in numbers.items()},
            {
                "ds.ledger": ledger,
                "ds.epoch": str(batch.batch),
                "ds.offsets": batch.offsets,
                "ds.ends": batch.ends,
                "ds.rows": str(rows),
            },
        )

    def _commit(self, numbers: Mapping[str, int], shown: Mapping[str, str]) -> Any:
        module = self.address.deltalake()
        everything = {OURS: 1, self.identity.job: self.identity.version, **numbers}
        return module.CommitProperties(
            custom_metadata=dict(shown),
            max_commit_retries=0,
            app_transactions=[module.Transaction(name, number) for name, number in everything.items()],
        )

    def _publish(self) -> int:
        """Overwrite the target with the new table's rows in one commit. Returns the number of rows of the run."""
        from deltalake.exceptions import CommitFailedError

        for _ in range(ATTEMPTS):
            try:
                rows = self._publish_once()
            except CommitFailedError as problem:
                if not was_overtaken(problem):
                    raise
                continue
            with suppress(*self.address.errors()):  # a later run removes it
                self.address.remove_folder(self.place, new_folder(self.identity))
            return rows
        raise error("TARGET_BUSY", table=self.table, epoch="(publish)", attempts=ATTEMPTS)

    def _publish_once(self) -> int:
        table = self.address.table(self.written)
        state = self._look(table)
        if state.published is not None:
            return state.published
        self._admitted(CheckpointTip(state.facts.tip), state)
        if table is None:
            raise error("TARGET_GONE", table=self.table)
        target = state.target
        rows = self._number(table, "/total") or 0
        reader = table.to_pyarrow_dataset().scanner().to_reader().cast(arrow_schema(self.target.columns))
        self.address.deltalake().write_deltalake(
            self.place if target is None else target,
            reader,
            mode="error" if target is None else "overwrite",
            schema_mode=None if target is None else "overwrite",
            storage_options=self.address.storage_options() if target is None else None,
            commit_properties=self._commit(
                {f"{self.identity.ledger}/published": rows}, {"ds.ledger": self.identity.ledger, "ds.rows": str(rows)}
            ),
        )
        return rows


def _lock_of(place: str) -> threading.Lock:
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(place, threading.Lock())


def _has_rows_of_ours(table: Any | None) -> bool:
    """Whether a table has rows, and this package has loaded it."""
    return table is not None and table.transaction_version(OURS) is not None and bool(table.count())


def was_overtaken(problem: Exception) -> bool:
    """Whether another writer took the table's next version."""
    return "Failed to commit transaction" in str(problem)
