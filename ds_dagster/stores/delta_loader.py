"""Loads batches into a Delta table with delta-rs: one commit per batch, which carries rows and ledger.

The ledger is Delta's own: application transactions (Delta protocol, "Transaction Identifiers"), written in the same
commit as the rows. delta-rs records them and does not look at them, so they are looked up before each commit; the
commit then asks for exactly the next version of the table, without delta-rs' own retries. Whoever was slower finds that
version taken, looks again, and sees what the other one wrote: two drivers of one query cannot both load a batch.

A full refresh loads a table of its own in a folder inside the target's and overwrites the target from it in one commit
when its run is complete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.errors import error
from ds_dagster.stores.delta_connection import LakeAddress
from ds_dagster.stores.delta_tables import (
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

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
ATTEMPTS = 10
"""How often a batch is tried while other writers commit in between."""
OURS = "ds-dagster"
"""Application id that says a table holds rows loaded by this package, whichever project did."""
_LOCKS: dict[str, threading.Lock] = {}
"""Place → lock: queries of one engine that fill one table wait for one another instead of writing twice."""
_LOCKS_LOCK = threading.Lock()


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> DeltaLoader:
    """The loader of a table; connects at :meth:`DeltaLoader.prepare`."""
    if spec.table is None:
        raise error("INTERNAL", where="a table without a target")
    settings: Mapping[str, str] = {name: resolve(value) for name, value in spec.options.items()}
    address = LakeAddress.of(settings["store"], settings)
    place = address.place(*spec.table.path)
    return DeltaLoader(address, place, spec.table, identity, shared=settings["shared"] == "true")


class DeltaLoader:
    """See ``catalog.io_spec.BatchLoader``. ``place``: the table's own folder or prefix; ``shared``: several queries
    fill the table (INSERT INTO)."""

    def __init__(
        self, address: LakeAddress, place: str, target: TableTarget, identity: SinkIdentity, *, shared: bool = False
    ) -> None:
        self.address = address
        self.place = place
        self.target = target
        self.identity = identity
        self.shared = shared
        self._loaded = 0

    @property
    def table(self) -> str:
        """Name, for messages."""
        return ".".join(self.target.path)

    @property
    def written(self) -> str:
        """Place of the table batches go to: the target, or the new table of a full refresh."""
        is_full = self.target.refresh == "full"
        return f"{self.place}/{new_folder(self.identity)}" if is_full else self.place

    def prepare(self) -> None:
        """Create or verify the target.

        Raises:
            UserError: TARGET_DIFFERS, TARGET_OF_OTHER_JOB, TARGET_SHARED_RESET, LEDGER_NEWER, STORE_LOGIN_REFUSED,
            STORE_PERMISSION_DENIED, STORE_BUCKET_MISSING, STORE_FOLDER_INVALID. ExternalError: STORE_UNREACHABLE.
        """
        self._guarded("prepare the table", self._prepare)

    def load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        """Apply one batch exactly once.

        Raises:
            UserError: LEDGER_NEWER, TARGET_REJECTS_ROWS. ExternalError: STORE_UNREACHABLE, TARGET_BUSY, DISK_FULL.
        """
        result = self._guarded("load a batch", lambda: self._load(rows, epoch), epoch)
        self._loaded += result.rows
        return result

    def finish(self) -> int:
        """Publish a full refresh; rows of the run (incremental: those this loader saw, a replayed batch included)."""
        if self.target.refresh != "full":
            return self._loaded
        return self._guarded("publish the table", self._publish)

    def exists(self) -> bool:
        """Whether the target is there: made by :meth:`prepare`, for a full refresh by :meth:`finish`."""
        return self._guarded("look at the table", lambda: self.address.table(self.place) is not None)

    def close(self) -> None:
        """Nothing stays open between batches."""

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:
        try:
            with _lock_of(self.place):
                return step()
        except self.address.errors() as problem:
            raise self.address.failure(problem, action, self.table, epoch) from None

    def _prepare(self) -> None:
        self.address.make_folder(self.place)
        existing = self.address.table(self.place)
        newest = self._newest(existing)
        self._check_target(existing, newest)
        if self.target.refresh == "full":
            self._prepare_new(existing)

    def _newest(self, existing: Any | None) -> int | None:
        """Newest checkpoint version of this job that wrote into a table."""
        found = None if existing is None else existing.transaction_version(self.identity.job)
        if found is not None and found > self.identity.version:
            raise error("LEDGER_NEWER", table=self.table, found=found, version=self.identity.version)
        return None if found is None else int(found)

    def _check_target(self, existing: Any | None, newest: int | None) -> None:
        """The target takes our rows, or is made."""
        is_full = self.target.refresh == "full"
        if existing is None:
            if not is_full:
                self._create(self.place)
            return
        difference = shape_difference(existing_columns(existing.schema().to_json()), self.target)
        if difference and not (is_full and newest is not None):
            raise error("TARGET_DIFFERS", table=self.table, difference=difference)
        if is_full:
            return
        if self.shared and newest is not None and newest < self.identity.version:
            raise error("TARGET_SHARED_RESET", table=self.table)
        if newest is None and not self.shared and existing.transaction_version(OURS) is not None and existing.count():
            raise error("TARGET_OF_OTHER_JOB", table=self.table)

    def _create(self, place: str) -> None:
        self.address.deltalake().DeltaTable.create(
            place,
            schema=arrow_schema(self.target.columns),
            mode="ignore",
            storage_options=self.address.storage_options(),
        )

    def _prepare_new(self, existing: Any | None) -> None:
        """The new table of this run; those of earlier versions of this job go."""
        if self._published(existing) is not None:
            return
        prefix = new_prefix(self.identity.job)
        for name in self.address.folders(self.place):
            version = name.removeprefix(prefix)
            if name.startswith(prefix) and version.isdigit() and int(version) < self.identity.version:
                self.address.remove_folder(self.place, name)
        self.address.make_folder(self.written)
        self._create(self.written)

    def _load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        from deltalake.exceptions import CommitFailedError

        storable_rows = self._storable(rows, epoch)
        for _ in range(ATTEMPTS):
            try:
                return self._apply(storable_rows, epoch)
            except CommitFailedError as problem:
                if not _was_overtaken(problem):
                    raise
        raise error("TARGET_BUSY", table=self.table, epoch=epoch, attempts=ATTEMPTS)

    def _storable(self, rows: pyarrow.Table, epoch: int) -> pyarrow.Table:
        """Rows with the table's types; what does not fit is told without its value."""
        try:
            return storable(rows, self.target)
        except ValueError as problem:  # Arrow's own errors are ValueErrors
            reason = str(problem).partition(":")[0]
            raise error("TARGET_REJECTS_ROWS", table=self.table, epoch=epoch, reason=reason) from None

    def _apply(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        """One look at the ledger and one commit."""
        table = self.address.table(self.written)
        if table is None:
            return self._without_table()
        newest = self._newest(table)
        known = table.transaction_version(self.identity.ledger)
        if known is not None and known >= epoch:
            self._loaded += table.transaction_version(self._counter("rows")) if known == epoch else 0
            return LoadResult(0, replayed=True)
        begins_anew = newest is not None and newest < self.identity.version
        self._write(table, rows, begins_anew, self._ledger(table, epoch, rows.num_rows))
        return LoadResult(rows.num_rows)

    def _without_table(self) -> LoadResult:
        """The new table of a full refresh is gone: it was published, or a newer run has removed it."""
        target = self.address.table(self.place)
        self._newest(target)
        if self._published(target) is not None:
            return LoadResult(0, replayed=True)
        prefix = new_prefix(self.identity.job)
        versions = [name.removeprefix(prefix) for name in self.address.folders(self.place) if name.startswith(prefix)]
        newest = max((int(version) for version in versions if version.isdigit()), default=-1)
        if newest > self.identity.version:
            raise error("LEDGER_NEWER", table=self.table, found=newest, version=self.identity.version)
        raise error("TARGET_GONE", table=self.table)

    def _write(self, table: Any, rows: pyarrow.Table, begins_anew: bool, ledger: Any) -> None:
        """Rows and ledger in one commit; the ledger alone when no row changes."""
        write = self.address.deltalake().write_deltalake
        before = table.version()
        if begins_anew:
            write(table, live_rows(rows, self.target), mode="overwrite", commit_properties=ledger)
        elif rows.num_rows and self.target.mode == "append":
            write(table, rows, mode="append", commit_properties=ledger)
        elif rows.num_rows:
            self._merge(table, rows, ledger)
        if table.version() == before:
            table.create_write_transaction([], mode="append", schema=table.schema(), commit_properties=ledger)

    def _merge(self, table: Any, rows: pyarrow.Table, ledger: Any) -> None:
        """Upserts and deletes by key. The batch is in memory, so its bounds are used to leave files out."""
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

    def _ledger(self, table: Any, epoch: int, rows: int) -> Any:
        """What a batch's commit says: the epoch, the version of the job, how many rows it and the run have."""
        total = (table.transaction_version(self._counter("total")) or 0) + rows
        return self._commit(
            {self.identity.ledger: epoch, self._counter("rows"): rows, self._counter("total"): total},
            {"ds.ledger": self.identity.ledger, "ds.epoch": str(epoch), "ds.rows": str(rows)},
        )

    def _counter(self, name: str) -> str:
        """Application id of a number kept beside the epoch."""
        return f"{self.identity.ledger}/{name}"

    def _commit(self, numbers: Mapping[str, int], shown: Mapping[str, str]) -> Any:
        module = self.address.deltalake()
        everything = {OURS: 1, self.identity.job: self.identity.version, **numbers}
        return module.CommitProperties(
            custom_metadata=dict(shown),
            max_commit_retries=0,
            app_transactions=[module.Transaction(name, number) for name, number in everything.items()],
        )

    def _published(self, target: Any | None) -> int | None:
        """Rows of this version if it was published."""
        found = None if target is None else target.transaction_version(self._counter("published"))
        return None if found is None else int(found)

    def _publish(self) -> int:
        """The new table's rows become the target's in one commit."""
        from deltalake.exceptions import CommitFailedError

        for _ in range(ATTEMPTS):
            try:
                rows = self._publish_once()
            except CommitFailedError as problem:
                if not _was_overtaken(problem):
                    raise
                continue
            with suppress(*self.address.errors()):  # a later run removes it
                self.address.remove_folder(self.place, new_folder(self.identity))
            return rows
        raise error("TARGET_BUSY", table=self.table, epoch="(publish)", attempts=ATTEMPTS)

    def _publish_once(self) -> int:
        target = self.address.table(self.place)
        self._newest(target)
        published = self._published(target)
        if published is not None:
            return published
        made = self.address.table(self.written)
        if made is None:
            raise error("TARGET_GONE", table=self.table)
        rows = int(made.transaction_version(self._counter("total")) or 0)
        reader = made.to_pyarrow_dataset().scanner().to_reader().cast(arrow_schema(self.target.columns))
        self.address.deltalake().write_deltalake(
            self.place if target is None else target,
            reader,
            mode="error" if target is None else "overwrite",
            schema_mode=None if target is None else "overwrite",
            storage_options=self.address.storage_options() if target is None else None,
            commit_properties=self._commit(
                {self._counter("published"): rows}, {"ds.ledger": self.identity.ledger, "ds.rows": str(rows)}
            ),
        )
        return rows


def _lock_of(place: str) -> threading.Lock:
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(place, threading.Lock())


def _was_overtaken(problem: Exception) -> bool:
    """Whether another writer took the table's next version."""
    return "Failed to commit transaction" in str(problem)
