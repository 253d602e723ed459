"""Tables, views and topics of test cases, in this process. Loads are exactly once like those of the real stores."""

# ruff: noqa: ARG002 - every admin takes the arguments of the one protocol

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult, RawRecord
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.catalog.io_spec import LoadResult, Resolver, SinkIdentity, TableTarget, WriteSpec
from ds_dagster.errors import error

if TYPE_CHECKING:
    import pyarrow

Row = Mapping[str, Any]
DELETED = "__deleted"


@dataclass(slots=True)
class MemoryTable:
    """One table or view: rows by key (append: by running number) and the history of every change."""

    target: TableTarget
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)
    ledger: dict[tuple[str, int, int], int] = field(default_factory=dict)
    changed: dict[tuple[Any, ...], int] = field(default_factory=dict)
    """When each row was written (epoch milliseconds), of views whose rows go by their age."""

    def kept(self, now: int) -> dict[tuple[Any, ...], Row]:
        """Rows that are not too old."""
        if not self.target.retention_millis:
            return self.rows
        oldest = now - self.target.retention_millis
        return {key: row for key, row in self.rows.items() if self.changed[key] > oldest}


PASSED: dict[str, int] = {}
"""Store → milliseconds by which its clock goes before the machine's: a case lets time pass without waiting."""
TABLES: dict[tuple[str, str], MemoryTable] = {}
"""(store, entity) → table; process-wide because a loader is opened by import path."""
_LOCK = threading.RLock()


def now(store: str) -> int:
    """The clock by which rows of a store age, epoch milliseconds."""
    return int(time.time() * 1000) + PASSED.get(store, 0)


def table_rows(store: str, entity: str) -> list[dict[str, Any]]:
    """Rows of a table or view as they stand now; empty when nothing was written."""
    with _LOCK:
        table = TABLES.get((store, entity))
        return [dict(row) for row in table.kept(now(store)).values()] if table else []


def table_history(store: str, entity: str) -> list[dict[str, Any]]:
    """Every change in order; deletes carry ``__deleted``."""
    with _LOCK:
        table = TABLES.get((store, entity))
        return [dict(row) for row in table.history] if table else []


def clear(store: str | None = None) -> None:
    """Forget the tables of a store, or of all."""
    with _LOCK:
        for key in [key for key in TABLES if store is None or key[0] == store]:
            del TABLES[key]
        for name in [name for name in PASSED if store in (None, name)]:
            del PASSED[name]


def open_loader(spec: WriteSpec, identity: SinkIdentity, resolve: Resolver) -> MemoryLoader:
    """The loader of an in-memory table."""
    if spec.table is None:
        raise error("INTERNAL", where="a table without a target")
    return MemoryLoader((resolve(spec.options["store"]), spec.table.path[1]), spec.table, identity)


class MemoryLoader:
    """See ``catalog.io_spec.BatchLoader``."""

    def __init__(self, place: tuple[str, str], target: TableTarget, identity: SinkIdentity) -> None:
        self.place = place
        self.target = target
        self.identity = identity
        self._staged: MemoryTable | None = None
        self._loaded = 0

    def prepare(self) -> None:
        """Make the table, or check that it has the same columns (TARGET_DIFFERS)."""
        with _LOCK:
            table = TABLES.setdefault(self.place, MemoryTable(self.target))
            if table.target.columns != self.target.columns and table.ledger:
                raise error("TARGET_DIFFERS", table=self.place[1], difference="other columns")
            if self.target.refresh == "full":
                self._staged = MemoryTable(self.target)

    def load(self, rows: pyarrow.Table, epoch: int) -> LoadResult:
        """Apply one batch once."""
        with _LOCK:
            table = self._staged or TABLES[self.place]
            key = (self.identity.job, self.identity.version, epoch)
            newest = max((version for job, version, _ in table.ledger if job == self.identity.job), default=None)
            if newest is not None and newest > self.identity.version:
                raise error("LEDGER_NEWER", table=self.place[1], found=newest, version=self.identity.version)
            if key in table.ledger:
                self._loaded += table.ledger[key]
                return LoadResult(0, replayed=True)
            if newest is not None and newest < self.identity.version:
                table.rows.clear()
            for row in rows.to_pylist():
                self._apply(table, row)
            table.ledger[key] = rows.num_rows
            self._loaded += rows.num_rows
            return LoadResult(rows.num_rows)

    def _apply(self, table: MemoryTable, row: dict[str, Any]) -> None:
        deleted = bool(row.pop(DELETED, False))
        upsert = self.target.mode == "upsert"
        key = tuple(row[name] for name in self.target.primary_key) if upsert else (len(table.history),)
        table.history.append({**row, DELETED: True} if deleted else row)
        if deleted:
            table.rows.pop(key, None)
        else:
            table.rows[key] = row
            table.changed[key] = now(self.place[0])

    def finish(self) -> int:
        """Publish a full refresh; rows loaded by this loader."""
        with _LOCK:
            if self._staged is not None:
                TABLES[self.place] = self._staged
                self._staged = None
        return self._loaded

    def expire(self) -> int:
        """See ``catalog.io_spec.ExpiringLoader``."""
        with _LOCK:
            table = TABLES[self.place]
            before, table.rows = len(table.rows), table.kept(now(self.place[0]))
            return before - len(table.rows)

    def close(self) -> None:
        """Nothing is open."""


class MemoryAdmin:
    """Looks into the registry (see ``catalog.store.StoreAdmin``)."""

    def __init__(self, store: str) -> None:
        self.store = store

    def probe(self) -> ProbeResult:
        """Always there."""
        return ProbeResult(True, "in memory")

    def describe(self, entity: str) -> EntityFacts | None:
        """Every entity exists; its records are stamped by whoever sends them."""
        rows = table_rows(self.store, entity)
        return EntityFacts(entity, record_time="producer", size=len(rows))

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Entities come into being by themselves."""
        return EntityFacts(plan.name, record_time="producer")

    def entities(self) -> Sequence[EntityFacts]:
        """Tables that were written."""
        with _LOCK:
            return [EntityFacts(name) for store, name in sorted(TABLES) if store == self.store]

    def records(
        self, entity: str, *, from_beginning: bool, limit: int | None, stopped: Callable[[], bool]
    ) -> Iterator[RawRecord]:
        """Refused: records are with the test runner."""
        raise error("STORE_NOT_A_SOURCE", relation=entity, type="MEMORY")

    def end_reached(self, entity: str, positions: Mapping[str, str]) -> int:
        """Nothing lags."""
        return 0

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.local_entities import MemoryEntities

        return MemoryEntities(self.store)

    def close(self) -> None:
        """Nothing is open."""
