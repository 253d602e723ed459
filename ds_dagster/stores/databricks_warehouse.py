"""Loads batches through a SQL warehouse alone: each is put as one Parquet file into a volume and taken from there by
one statement. For workspaces without a bucket that both sides may use; tables are managed by Unity Catalog.

A warehouse has no transactions, so rows and ledger are two statements. Between them a batch may be repeated: its file
has the same name, COPY INTO has loaded that name already, and MERGE by key changes nothing.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.io_spec import LoadResult, SinkIdentity, TableTarget
from ds_dagster.errors import DsError, error
from ds_dagster.stores.databricks_connection import WorkspaceAddress, WorkspaceSession
from ds_dagster.stores.databricks_statements import PUBLISHED, Statements
from ds_dagster.stores.delta_tables import shape_difference, storable

if TYPE_CHECKING:
    import pyarrow

NEVER = -1


class WarehouseLoader:
    """See ``catalog.io_spec.BatchLoader``. ``shared``: several queries fill the table (INSERT INTO)."""

    def __init__(
        self, address: WorkspaceAddress, target: TableTarget, identity: SinkIdentity, *, shared: bool = False
    ) -> None:
        self.address = address
        self.target = target
        self.identity = identity
        self.shared = shared
        self.statements = Statements(target, identity)
        self._session: WorkspaceSession | None = None
        self._loaded = 0

    @property
    def table(self) -> str:
        """Name, for messages."""
        return ".".join(self.target.path)

    def prepare(self) -> None:
        """Create or verify volume, ledger and target.

        Raises:
            UserError: TARGET_DIFFERS, TARGET_OF_OTHER_JOB, TARGET_SHARED_RESET, LEDGER_NEWER, what
            ``WorkspaceAddress.failure`` gives. ExternalError: STORE_UNREACHABLE.
        """
        self._run(self.statements.create_volume(), "make the volume of its batches")
        self._run(self.statements.create_ledger(), "make the ledger")
        newest = self._state().newest
        existing = self._columns()
        if existing is None and self.target.refresh != "full":
            self._run(self.statements.create_table(self.target.path), "make the table")
        elif existing is not None:
            self._check_target(existing, newest)
        if self.target.refresh == "full":
            self._prepare_new()

    def load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        """Apply one batch exactly once.

        Raises:
            UserError: LEDGER_NEWER, TARGET_REJECTS_ROWS. ExternalError: STORE_UNREACHABLE.
        """
        made = self._storable(rows, epoch)
        state = self._state()
        if epoch <= state.epoch:
            self._loaded += self._rows_of(epoch)
            return LoadResult(0, replayed=True)
        if rows.num_rows or state.begins_anew(self.identity):
            self._apply(made, epoch, state.begins_anew(self.identity))
        self._run(self.statements.note(epoch, rows.num_rows), "note a batch")
        with suppress(DsError):  # what is left is overwritten or stays small
            self._run(self.statements.remove(epoch), "remove a batch's file")
        self._loaded += rows.num_rows
        return LoadResult(rows.num_rows)

    def finish(self) -> int:
        """Publish a full refresh; rows of the run (incremental: those this loader saw, a replayed batch included)."""
        if self.target.refresh != "full":
            return self._loaded
        state = self._state()
        if state.published is None:
            self._run(self.statements.publish(), "publish the table")
            self._run(self.statements.note(PUBLISHED, state.total), "note that the table is published")
        with suppress(DsError):  # a later run drops it
            self._run(self.statements.drop(self.statements.new), "drop the new table")
        return state.total if state.published is None else state.published

    def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.close()

    # --- before the first batch ---------------------------------------------------------------------------------------

    def _check_target(self, existing: dict[str, tuple[str, bool]], newest: int | None) -> None:
        """The target takes our rows."""
        is_full = self.target.refresh == "full"
        difference = shape_difference(existing, self.target)
        if difference and not (is_full and newest is not None):
            raise error("TARGET_DIFFERS", table=self.table, difference=difference)
        if is_full:
            return
        if self.shared and newest is not None and newest < self.identity.version:
            raise error("TARGET_SHARED_RESET", table=self.table)
        is_first = newest is None and not self.shared
        if is_first and self._counted(self.statements.others()) and self._counted(self.statements.count()):
            raise error("TARGET_OF_OTHER_JOB", table=self.table)

    def _prepare_new(self) -> None:
        """The new table of this run; those of earlier versions of this job go."""
        if self._state().published is not None:
            return
        for row in self._run(self.statements.new_tables(), "look for tables of earlier runs"):
            version = str(row.table_name).removeprefix(self.statements.new_prefix)
            if version.isdigit() and int(version) < self.identity.version:
                self._run(self.statements.drop((*self.statements.schema, str(row.table_name))), "drop a table")
        self._run(self.statements.create_table(self.statements.new), "make the new table")

    def _columns(self) -> dict[str, tuple[str, bool]] | None:
        """Column → (type, False) of the target, None when there is none; NOT NULL is not told and checked by the
        warehouse when rows come."""
        try:
            rows = self._run(self.statements.describe(), "look for the table")
        except DsError as problem:
            if problem.condition == "ENTITY_MISSING":
                return None
            raise
        found: dict[str, tuple[str, bool]] = {}
        for row in rows:
            if not row.col_name or str(row.col_name).startswith("#"):
                break  # what follows tells of partitions
            found[str(row.col_name)] = (str(row.data_type), False)
        return found

    # --- a batch ------------------------------------------------------------------------------------------------------

    def _storable(self, rows: pyarrow.Table, epoch: int) -> pyarrow.Table:
        """Rows with the table's types; what does not fit is told without its value."""
        try:
            return storable(rows, self.target)
        except ValueError as problem:  # Arrow's own errors are ValueErrors
            reason = str(problem).partition(":")[0]
            raise error("TARGET_REJECTS_ROWS", table=self.table, epoch=epoch, reason=reason) from None

    def _apply(self, rows: pyarrow.Table, epoch: int, begins_anew: bool) -> None:
        """The file, and the one statement that takes it."""
        from pyarrow import parquet

        content = io.BytesIO()
        parquet.write_table(rows, content)
        content.seek(0)
        self._run(self.statements.put(epoch), "put a batch into its volume", content)
        upsert = self.target.mode == "upsert"
        statement = (
            self.statements.overwrite if begins_anew else self.statements.merge if upsert else self.statements.copy
        )
        self._run(statement(epoch), "load a batch", epoch=epoch)

    # --- the ledger ---------------------------------------------------------------------------------------------------

    def _state(self) -> _State:
        """What the ledger says.

        Raises:
            UserError: LEDGER_NEWER.
        """
        (row,) = self._run(self.statements.state(), "read the ledger")
        newest = None if row.newest is None else int(row.newest)
        if newest is not None and newest > self.identity.version:
            raise error("LEDGER_NEWER", table=self.table, found=newest, version=self.identity.version)
        published = None if row.published is None else int(row.published)
        return _State(newest, NEVER if row.epoch is None else int(row.epoch), int(row.total or 0), published)

    def _rows_of(self, epoch: int) -> int:
        (row,) = self._run(self.statements.rows_of(epoch), "read the ledger")
        return int(row.loaded or 0)

    def _counted(self, statement: str) -> int:
        (row,) = self._run(statement, "look into the table")
        return int(row.found)

    def _run(
        self, statement: str, action: str, stream: io.BytesIO | None = None, epoch: int | None = None
    ) -> Sequence[Any]:
        """One statement in the session, which is opened at the first use and left after a failure."""
        try:
            if self._session is None:
                self._session = self.address.session()
            return self._session.run(statement, action, self.table, stream, epoch)
        except DsError:
            self.close()
            raise


@dataclass(frozen=True, slots=True)
class _State:
    """Newest version, newest epoch and rows of this version, rows it published (None: not yet)."""

    newest: int | None
    epoch: int
    total: int
    published: int | None

    def begins_anew(self, identity: SinkIdentity) -> bool:
        """Whether the rows in the table are those of a version before."""
        return self.newest is not None and self.newest < identity.version
