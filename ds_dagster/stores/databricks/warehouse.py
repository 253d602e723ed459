"""Loads batches through a SQL warehouse alone: each batch is uploaded as one Parquet file to a volume and loaded by one
statement. For workspaces without a bucket that both sides may use; Unity Catalog manages the tables.

A warehouse has no transactions, so rows and ledger are two statements. After a failure between them the batch is
repeated: its file has the same name, which COPY INTO skips, and MERGE by key changes nothing.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.io_spec import SinkIdentity, TableTarget
from ds_dagster.catalog.ledger import CheckpointTip, SinkFacts, Tip
from ds_dagster.errors import DsError, error
from ds_dagster.stores.databricks.connection import WorkspaceAddress, WorkspaceSession
from ds_dagster.stores.databricks.statements import ADDED_COLUMNS, LEDGER, DatabricksStatements
from ds_dagster.stores.delta.tables import shape_difference, storable
from ds_dagster.stores.table_sink import KEPT_EPOCHS, PRUNE_EVERY, PUBLISHED, TableSink, TargetState, tip_of

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")


class WarehouseLoader(TableSink):
    """See :class:`TableSink`."""

    def __init__(
        self, address: WorkspaceAddress, target: TableTarget, identity: SinkIdentity, *, shared: bool = False
    ) -> None:
        super().__init__(target, identity, shared=shared)
        self.address = address
        self.statements = DatabricksStatements(target, identity)
        self._session: WorkspaceSession | None = None

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:  # noqa: ARG002
        return step()  # every statement reports its own failure

    def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.close()

    # --- before the first batch ---------------------------------------------------------------------------------------

    def _look(self, work: Any) -> TargetState:  # noqa: ARG002
        self._run(self.statements.create_volume(), "create the volume of its batches")
        self._run(self.statements.create_ledger(), "create the ledger")
        columns = self._columns((*self.statements.schema, LEDGER)) or {}
        for name in ADDED_COLUMNS:
            if name not in columns:
                self._run(self.statements.add_column(name), "extend the ledger")
        state, existing = self._state(), self._columns(self.target.path)
        has_rows = state.facts.version is not None
        difference = "" if existing is None else shape_difference(existing, self.target)
        is_first = not has_rows and not self.shared and not self.is_full and existing is not None
        has_others = is_first and bool(
            self._counted(self.statements.others()) and self._counted(self.statements.count())
        )
        facts = replace(
            state.facts,
            exists=self._columns(self.statements.written) is not None if self.is_full else existing is not None,
            differs=bool(difference) and not (self.is_full and has_rows),
            has_others=has_others,
            keeps="TARGET_SHARED_RESET" if self.shared and not self.is_full else "",
        )
        return replace(state, facts=facts, difference=difference)

    def _make(self, work: Any, state: TargetState) -> None:  # noqa: ARG002
        if not self.is_full:
            self._run(self.statements.create_table(self.target.path), "create the table")
        elif state.published is None:
            self._make_new()

    def _make_new(self) -> None:
        """Create the new table of this run and drop the new tables of earlier versions of this job."""
        for row in self._run(self.statements.new_tables(), "look for tables of earlier runs"):
            version = str(row.table_name).removeprefix(self.statements.new_prefix)
            if version.isdigit() and int(version) < self.identity.version:
                self._run(self.statements.drop((*self.statements.schema, str(row.table_name))), "drop a table")
        self._run(self.statements.create_table(self.statements.new), "create the new table")

    def _columns(self, name: Sequence[str]) -> dict[str, tuple[str, bool]] | None:
        """Column → (type, False) of a table, None without a table. NOT NULL is not known here; the warehouse checks it
        when rows are written."""
        try:
            rows = self._run(self.statements.describe(name), "look for the table")
        except DsError as problem:
            if problem.condition == "ENTITY_MISSING":
                return None
            raise
        columns: dict[str, tuple[str, bool]] = {}
        for row in rows:
            if not row.col_name or str(row.col_name).startswith("#"):
                break  # the rows after it describe partitions
            columns[str(row.col_name)] = (str(row.data_type), False)
        return columns

    # --- a batch ------------------------------------------------------------------------------------------------------

    def _staged(self, rows: pyarrow.Table, batch: Tip) -> pyarrow.Table:
        """Rows with the table's types; a value that does not fit is reported without the value."""
        try:
            return storable(rows, self.target)
        except ValueError as problem:  # Arrow's own errors are ValueErrors
            reason = str(problem).partition(":")[0]
            raise error("TARGET_REJECTS_ROWS", table=self.table, epoch=batch.batch, reason=reason) from None

    def _apply(self, work: Any, staged: pyarrow.Table, batch: Tip, *, replaces: bool) -> None:  # noqa: ARG002
        if staged.num_rows or replaces:
            self._write(staged, batch.batch, replaces)
        self._run(self.statements.note(batch.batch, staged.num_rows, batch), "note a batch")
        with suppress(DsError):  # a file that remains is overwritten, or wastes little space
            self._run(self.statements.remove(batch.batch), "remove a batch's file")
        if batch.batch and batch.batch % PRUNE_EVERY == 0 and not self.is_full:
            with suppress(DsError):  # another job may prune the same files: repeated later
                self._run(self.statements.prune(batch.batch - KEPT_EPOCHS), "prune the ledger")

    def _write(self, rows: pyarrow.Table, epoch: int, replaces: bool) -> None:
        """Upload the file, and load it by one statement."""
        from pyarrow import parquet

        content = io.BytesIO()
        parquet.write_table(rows, content)
        content.seek(0)
        self._run(self.statements.put(epoch), "put a batch into its volume", content)
        upsert = self.target.mode == "upsert"
        statement = self.statements.overwrite if replaces else self.statements.merge if upsert else self.statements.copy
        self._run(statement(epoch), "load a batch", epoch=epoch)

    def _publish(self) -> int:
        state, total = self._state(), self._total()
        if state.published is None:
            self._admitted(CheckpointTip(state.facts.tip), self._look(None))
            self._run(self.statements.publish(), "publish the table")
            self._run(self.statements.note(PUBLISHED, total, None), "note that the table is published")
        with suppress(DsError):  # a later run drops it
            self._run(self.statements.drop(self.statements.new), "drop the new table")
        return total if state.published is None else state.published

    # --- the ledger ---------------------------------------------------------------------------------------------------

    def _state(self, *_: Any) -> TargetState:
        (row,) = self._run(self.statements.state(), "read the ledger")
        tip, rows = None, 0
        if row.epoch is not None:
            (noted,) = self._run(self.statements.batch(int(row.epoch)), "read the ledger")
            tip, rows = tip_of(row.epoch, noted.offsets, noted.ends), int(noted.loaded or 0)
        newest, published = (None if value is None else int(value) for value in (row.newest, row.published))
        return TargetState(SinkFacts(tip, newest), rows=rows, published=published if self.is_full else None)

    def _total(self) -> int:
        """Number of rows of all batches of this version."""
        (row,) = self._run(self.statements.state(), "read the ledger")
        return int(row.total or 0)

    def _counted(self, statement: str) -> int:
        (row,) = self._run(statement, "look into the table")
        return int(row.found)

    def _run(
        self, statement: str, action: str, stream: io.BytesIO | None = None, epoch: int | None = None
    ) -> Sequence[Any]:
        """Run one statement in the session, which the first call opens and a failure closes."""
        try:
            if self._session is None:
                self._session = self.address.session()
            return self._session.run(statement, action, self.table, stream, epoch)
        except DsError:
            self.close()
            raise
