"""Tables and views of test cases, in this process. Batches are loaded exactly once, as by real stores."""

# ruff: noqa: ARG002 - every admin takes the arguments of the one protocol

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.catalog.io_spec import Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import SinkFacts, Tip
from ds_dagster.stores.table_sink import DELETED, TableSink, TargetState, opened
from ds_dagster.stores.without_records import WithoutRecords

if TYPE_CHECKING:
    import pyarrow

Row = Mapping[str, Any]
R = TypeVar("R")


@dataclass(slots=True)
class MemoryTable:
    """One table or view: rows by key (append: by running number) and the history of every change."""

    target: TableTarget
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)
    ledger: dict[tuple[str, int, int], tuple[Tip, int]] = field(default_factory=dict)
    changed: dict[tuple[Any, ...], int] = field(default_factory=dict)
    """When each row was written (epoch milliseconds), for views with a retention."""

    def kept(self, now: int) -> dict[tuple[Any, ...], Row]:
        """Rows within the retention; ``now`` in epoch milliseconds."""
        if not self.target.retention_millis:
            return self.rows
        oldest = now - self.target.retention_millis
        return {key: row for key, row in self.rows.items() if self.changed[key] > oldest}


_HELD: dict[str, int] = {}
"""Store → epoch milliseconds at which its clock is held; other stores use the machine's clock."""
TABLES: dict[tuple[str, str], MemoryTable] = {}
"""(store, entity) → table; process-wide because a loader is opened by import path."""
NEW: dict[tuple[str, str, str], MemoryTable] = {}
"""(store, entity, run) → the new table of a full refresh."""
_LOCK = threading.RLock()


def now(store: str) -> int:
    """The present time of a store, by which its rows age, in epoch milliseconds."""
    return _HELD.get(store) or int(time.time() * 1000)


def hold(store: str, later: int = 0) -> None:
    """Stop the clock of a store, ``later`` milliseconds after its present time: a case can let time pass without
    waiting, and the result does not depend on the machine's speed."""
    _HELD[store] = now(store) + later


def table_rows(store: str, entity: str) -> list[dict[str, Any]]:
    """The present rows of a table or view; empty if nothing was written."""
    with _LOCK:
        table = TABLES.get((store, entity))
        return [dict(row) for row in table.kept(now(store)).values()] if table else []


def table_history(store: str, entity: str) -> list[dict[str, Any]]:
    """Every change in order; deletes carry ``__deleted``."""
    with _LOCK:
        table = TABLES.get((store, entity))
        return [dict(row) for row in table.history] if table else []


def clear(store: str | None = None) -> None:
    """Delete the tables and the clock of a store, or of all stores."""
    with _LOCK:
        for key in [key for key in TABLES if store is None or key[0] == store]:
            del TABLES[key]
        for new in [key for key in NEW if store is None or key[0] == store]:
            del NEW[new]
        for name in [name for name in _HELD if store in (None, name)]:
            del _HELD[name]


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> MemoryLoader:
    """The loader of an in-memory table."""
    target, settings = opened(spec, resolve)
    return MemoryLoader((settings["store"], target.path[1]), target, identity)


class MemoryLoader(TableSink):
    """See :class:`TableSink`."""

    is_restorable: ClassVar[bool] = True

    def __init__(
        self, place: tuple[str, str], target: TableTarget, identity: SinkIdentity, *, shared: bool = False
    ) -> None:
        super().__init__(target, identity, shared=shared)
        self.place = place

    @property
    def table(self) -> str:
        """Name, for messages."""
        return self.place[1]

    def _guarded(self, action: str, step: Callable[[], R], epoch: int | None = None) -> R:
        return step()

    def _transaction(self) -> AbstractContextManager[Any]:
        return _LOCK

    @property
    def _written(self) -> MemoryTable | None:
        """The table that batches are written into: the target, or the new table of a full refresh."""
        return NEW.get(self._new) if self.is_full else TABLES.get(self.place)

    def _look(self, work: Any) -> TargetState:
        table, state = TABLES.get(self.place), self._state(work)
        if table is None:
            return replace(state, facts=replace(state.facts, exists=self._written is not None))
        versions = [version for job, version, _ in table.ledger if job == self.identity.job]
        differs = table.target.columns != self.target.columns and bool(table.ledger) and not (self.is_full and versions)
        others = not versions and not self.shared and not self.is_full and bool(table.ledger and table.rows)
        facts = replace(
            state.facts,
            exists=self._written is not None,
            differs=differs,
            has_others=others,
            keeps="TARGET_SHARED_RESET" if self.shared else "",
        )
        return replace(state, facts=facts, difference="other columns")

    def _make(self, work: Any, state: TargetState) -> None:
        if not self.is_full:
            TABLES.setdefault(self.place, MemoryTable(self.target))
        elif state.published is None:
            NEW.setdefault(self._new, MemoryTable(self.target))

    def _state(self, work: Any, batch: Tip | None = None, rows: int = 0) -> TargetState:
        target = TABLES.get(self.place)
        ledger = {**(target.ledger if target else {}), **(self._written.ledger if self._written else {})}
        newest = max((version for job, version, _ in ledger if job == self.identity.job), default=None)
        mine = {key[-1]: noted for key, noted in ledger.items() if key[:2] == self._owner}
        tip, count = mine[max(mine)] if mine else (None, 0)
        is_published = self.is_full and bool(mine) and self._written is None
        total = sum(count for _, count in mine.values()) if is_published else None
        return TargetState(SinkFacts(tip, newest), rows=count, published=total)

    @property
    def _new(self) -> tuple[str, str, str]:
        return (*self.place, self.identity.ledger)

    @property
    def _owner(self) -> tuple[str, int]:
        return self.identity.job, self.identity.version

    def _apply(self, work: Any, staged: pyarrow.Table, batch: Tip, *, replaces: bool) -> None:
        table = self._written
        assert table is not None
        if replaces:
            table.rows.clear()
        for row in staged.to_pylist():
            self._write(table, row)
        key = (*self._owner, batch.batch)
        table.ledger[key] = (batch, staged.num_rows)

    def _write(self, table: MemoryTable, row: dict[str, Any]) -> None:
        deleted = bool(row.pop(DELETED, False))
        upsert = self.target.mode == "upsert"
        key = tuple(_same(row[name]) for name in self.target.primary_key) if upsert else (len(table.history),)
        table.history.append({**row, DELETED: True} if deleted else row)
        if deleted:
            table.rows.pop(key, None)
        else:
            table.rows[key] = row
            table.changed[key] = now(self.place[0])

    def _publish(self) -> int:
        with _LOCK:
            new = NEW.pop(self._new, None)
            if new is not None:
                TABLES[self.place] = new
            return self._state(None).published or 0

    def expire(self) -> int:
        """See ``catalog.io_spec.ExpiringLoader``."""
        with _LOCK:
            table = TABLES[self.place]
            before, table.rows = len(table.rows), table.kept(now(self.place[0]))
            return before - len(table.rows)


def _same(part: Any) -> Any:
    """A part of a key; NaN, which Python takes to differ from every other NaN, as one object."""
    return math.nan if isinstance(part, float) and math.isnan(part) else part


class MemoryAdmin(WithoutRecords):
    """Looks into the registry (see ``catalog.store.StoreAdmin``)."""

    def __init__(self, store: str) -> None:
        self.store = store

    def probe(self) -> ProbeResult:
        """Always ok."""
        return ProbeResult(True, "in memory")

    def describe(self, entity: str) -> EntityFacts | None:
        """Every entity exists; producers stamp its records."""
        rows = table_rows(self.store, entity)
        return EntityFacts(entity, record_time="producer", size=len(rows))

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Does nothing: an entity exists as soon as it is used."""
        return EntityFacts(plan.name, record_time="producer")

    def entities(self) -> Sequence[EntityFacts]:
        """Tables that were written."""
        with _LOCK:
            return [EntityFacts(name) for store, name in sorted(TABLES) if store == self.store]

    @property
    def store_type(self) -> str:
        """The type of the store."""
        return "MEMORY"

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.local_entities import MemoryEntities

        return MemoryEntities(self.store)

    def close(self) -> None:
        """Nothing is open."""
