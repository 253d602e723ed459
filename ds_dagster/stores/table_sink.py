"""Base of all table, view and file sinks: read the state of the target, decide, write each batch in one transaction. A
store implements reading, statements and faults; :mod:`ds_dagster.catalog.ledger` has the rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, SinkFacts, SinkVerdict, Tip, batch_text, decide, within_run
from ds_dagster.catalog.reading.row_stream import RowStream
from ds_dagster.errors import DsError, error
from ds_dagster.stores.repeating import repeated

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
DELETED = "__deleted"
"""Column that marks a batch's row as the delete of its key."""
KEPT_EPOCHS = 1000
"""Ledger rows kept per version: only the newest batch can be replayed, older rows are for people."""
PRUNE_EVERY = 100
PUBLISH_ATTEMPTS = 6
PUBLISH_PAUSE_SECONDS = 5.0
PUBLISHED = -1
"""Epoch of the ledger row of a published full refresh."""


@dataclass(frozen=True, slots=True)
class TargetState:
    """The state of a target table and of its ledger, as one look has read it.

    Attributes:
        facts: for the decision. In a full refresh, ``exists`` is about the new table of the run.
        difference: how the target's shape differs, for the message.
        kind: kind of an object that has the target's name and is not a table, for the message.
        rows: number of rows of the newest batch.
        published: number of rows of the run if this version's full refresh was published, else None.
        target: the store's own facts about the target.
    """

    facts: SinkFacts = field(default_factory=SinkFacts)
    difference: str = ""
    kind: str = ""
    rows: int = 0
    published: int | None = None
    target: Any = None


class TableSink(ABC):
    """See ``catalog.io_spec.BatchLoader``. ``shared``: several queries fill the table (INSERT INTO).

    ``work`` is the object that a store's transaction yields: a cursor, a connection, a table.
    """

    is_restorable: ClassVar[bool] = False
    """See ``catalog.io_spec.LedgerReader``."""

    def __init__(self, target: TableTarget, identity: SinkIdentity, *, shared: bool = False) -> None:
        self.target = target
        self.identity = identity
        self.shared = shared
        self._skip: Tip | None = None
        self._loaded = 0

    @property
    def table(self) -> str:
        """Name, for messages."""
        return ".".join(self.target.path)

    @property
    def is_full(self) -> bool:
        """Whether a run loads everything again."""
        return self.target.refresh == "full"

    def prepare(self, tip: CheckpointTip) -> None:
        """Create or verify target and ledger.

        Raises:
            UserError: conditions of :func:`ds_dagster.catalog.ledger.decide`, errors of the store.
            ExternalError: the store cannot be reached.
        """
        self._guarded("prepare the table", lambda: self._prepare(tip))

    def tip(self) -> Tip | None:
        """The newest batch in the ledger of this job and version, or None; creates a missing ledger, and nothing else.

        Raises:
            ExternalError: the store cannot be reached.
        """
        return self._guarded("read the ledger", self._tip)

    def renumber(self, tip: Tip) -> None:
        """Add a batch without rows to the ledger, with a higher number and the offsets of the newest batch.

        Raises:
            InternalError: the newest batch has other offsets, or no lower number.
            ExternalError: the store cannot be reached.
        """
        self._guarded("note a batch", lambda: self._renumber(tip), tip.batch)

    def adopt(self, tip: Tip) -> None:
        """Add a batch to the ledger of this version, which has none yet; existing rows remain.

        Raises:
            InternalError: the ledger of this version ends at another batch.
            ExternalError: the store cannot be reached.
        """
        self._guarded("note a batch", lambda: self._adopt(tip), tip.batch)

    def load(self, rows: pyarrow.Table, batch: Tip) -> LoadResult:
        """Apply one batch exactly once.

        Raises:
            UserError: conditions of :func:`ds_dagster.catalog.ledger.within_run`, TARGET_REJECTS_ROWS, TARGET_CHANGED.
            ExternalError: the store cannot be reached, DISK_FULL.
        """
        result, counted = self._guarded("load a batch", lambda: self._load(rows, batch), batch.batch)
        self._loaded += counted
        return result

    def finish(self) -> int:
        """Publish a full refresh. Returns the number of rows of the run (incremental: the rows of this loader's
        batches, including a replayed batch)."""
        if not self.is_full:
            return self._loaded
        return repeated(
            lambda: self._guarded("publish the table", self._publish),
            lambda problem: isinstance(problem, DsError) and problem.condition == "TARGET_LOCKED",
            PUBLISH_ATTEMPTS,
            PUBLISH_PAUSE_SECONDS,
        )

    def close(self) -> None:  # noqa: B027, most stores keep nothing open between batches
        """Release connections; never raises."""

    # --- the rules ----------------------------------------------------------------------------------------------------

    def _prepare(self, tip: CheckpointTip) -> None:
        with self._preparation() as work:
            state = self._look(work)
            self._skip = self._admitted(tip, state).skip
            self._make(work, state)

    def _tip(self) -> Tip | None:
        with self._preparation() as work:
            return self._look(work).facts.tip

    def _renumber(self, tip: Tip) -> None:
        import pyarrow

        with self._transaction() as work:
            newest = self._state(work, tip, 0).facts.tip
            if newest is None or newest.batch >= tip.batch or not replace(newest, batch=tip.batch).is_same(tip):
                raise error("INTERNAL", where=f"the ledger of {self.table} ends at {batch_text(newest)}")
            self._apply(work, pyarrow.table({}), tip, replaces=False)

    def _adopt(self, tip: Tip) -> None:
        import pyarrow

        with self._transaction() as work:
            newest = self._state(work, tip, 0).facts.tip
            if newest is not None and not newest.is_same(tip):
                raise error("INTERNAL", where=f"the ledger of {self.table} ends at {batch_text(newest)}")
            if newest is None:
                self._apply(work, pyarrow.table({}), tip, replaces=False)

    def _load(self, rows: pyarrow.Table | RowStream, batch: Tip) -> tuple[LoadResult, int]:
        """The outcome of the batch, and its number of rows, also if it is replayed; 0 after the run was published."""
        staged, claimed = self._staged(rows, batch), rows.num_rows
        with self._transaction() as work:
            state = self._state(work, batch, claimed)
            if state.published is not None:  # the run is complete; later batches belong to the next one
                return LoadResult(0, replayed=True), 0
            answer = within_run(batch, state.facts, self.identity.version, self._skip)
            self._refused(answer, state, CheckpointTip.at(batch))
            if answer.skip is not None:
                return LoadResult(0, replayed=True), state.rows
            self._apply(work, staged, batch, replaces=answer.replaces and not self.is_full)
            if rows.num_rows != claimed:
                self._recount(work, batch, rows.num_rows)
            return LoadResult(rows.num_rows), rows.num_rows

    def _admitted(self, tip: CheckpointTip, state: TargetState) -> SinkVerdict:
        """The decision before the first batch.

        Raises:
            UserError: the sink refuses the checkpoint.
        """
        if state.published is not None:
            tip, state = CheckpointTip(), replace(state, facts=replace(state.facts, tip=None, exists=True))
        answer = decide(tip, state.facts, self.identity.version)
        self._refused(answer, state, tip)
        return answer

    def _refused(self, answer: SinkVerdict, state: TargetState, checkpoint: CheckpointTip) -> None:
        if answer.condition:
            raise error(
                answer.condition,
                table=self.table,
                version=self.identity.version,
                found=state.kind or state.facts.version,
                difference=state.difference,
                sink=batch_text(state.facts.tip),
                checkpoint=batch_text(checkpoint.planned or checkpoint.committed),
            )

    # --- of each store ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:
        """Run a step; the driver's exceptions become conditions."""

    def _transaction(self) -> AbstractContextManager[Any]:
        """The transaction of a batch: reads the state and writes."""
        return nullcontext()

    def _preparation(self) -> AbstractContextManager[Any]:
        """The transaction of :meth:`prepare` and :meth:`tip`."""
        return self._transaction()

    @abstractmethod
    def _look(self, work: Any) -> TargetState:
        """The facts for the decision; creates a missing ledger."""

    @abstractmethod
    def _make(self, work: Any, state: TargetState) -> None:
        """Create a missing target, or the new table of a full refresh; drop the leftovers of earlier runs."""

    def _staged(self, rows: Any, batch: Tip) -> Any:  # noqa: ARG002
        """A batch in the form of the store, made before the transaction. Rows are a table, or a :class:`RowStream` if
        the store is a ``StreamLoader``."""
        return rows

    @abstractmethod
    def _state(self, work: Any, batch: Tip, rows: int) -> TargetState:
        """The ledger in the transaction of a batch: the newest version, and the newest batch of this job."""

    @abstractmethod
    def _apply(self, work: Any, staged: Any, batch: Tip, *, replaces: bool) -> None:
        """Write the rows and the ledger row. ``replaces``: delete all rows of earlier versions."""

    def _recount(self, work: Any, batch: Tip, rows: int) -> None:  # noqa: ARG002
        """Correct the number of rows in the ledger row, which was not known before the last row of a stream."""
        raise error("INTERNAL", where=f"a stream of rows into {self.table}")

    def _publish(self) -> int:
        """Move the new table's rows to the target; idempotent. Returns the number of rows of the run."""
        raise error("INTERNAL", where=f"a full refresh of {self.table}")


def opened(spec: WriteSpec, resolve: Resolver) -> tuple[TableTarget, Mapping[str, str]]:
    """Target and resolved settings of a loader."""
    if spec.table is None:
        raise error("INTERNAL", where="a table without a target")
    return spec.table, {name: resolve(value) for name, value in spec.options.items()}


def tip_of(batch: Any, offsets: Any, ends: Any = "") -> Tip | None:
    """The batch in a row of a ledger; None if the row has no batch."""
    return None if batch is None else Tip(int(batch), offsets or "", ends or "")


def column_difference(existing: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """The difference of two column lists, column by column."""
    differences = [
        f"{name} is {existing[name]}, not {type_}"
        for name, type_ in wanted.items()
        if existing.get(name, type_) != type_
    ]
    differences += [f"{name} {type_} is missing" for name, type_ in wanted.items() if name not in existing]
    differences += [f"{name} {type_} is too many" for name, type_ in existing.items() if name not in wanted]
    return "; ".join(differences) or "the order or the key differs"


@contextmanager
def undone_on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call ``undo`` if the block fails, whatever ``undo`` raises; the block's failure is raised."""

    def quietly() -> None:
        with suppress(Exception):
            undo()

    with ExitStack() as failed:
        failed.callback(quietly)
        yield
        failed.pop_all()
