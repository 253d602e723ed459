"""A bound query: the plan that fills one relation, and what the rest of the house wants to know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ds_dagster.catalog.io_spec import RefreshMode
from ds_dagster.catalog.relation import Relation
from ds_dagster.names import QualifiedName
from ds_dagster.plan.nodes import LateRows, Scan, Sink, Window
from ds_dagster.sql.statements import CreateAsSelect, InsertInto

ColumnSource = tuple[QualifiedName, str]


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """One persistent query.

    Attributes:
        name: the query's name in this project: of the relation for CREATE … AS, ``'query.name'`` otherwise; part of
        the job id.
        statement: where it came from.
        root: the plan.
        sink: the relation it fills (the same object as ``root.relation``).
        refresh: ``continuous`` for streams, changelogs and views; of tables as written.
        execution: ``engine`` or ``step`` (finite CTAS in the Dagster step's own session).
        fingerprint: hash of its meaning (versioned algorithm, formatting and comments do not matter).
        state_signature: hash of what a checkpoint depends on (operators, key schemas, sources).
        lineage: sink column → source columns it is computed from (filters and join keys are not in it).
        error_log: where rows are kept whose expressions fail, None for nowhere.
        settings: QUERY WITH properties by name (state.ttl.millis, compute_pool, …).
    """

    name: str
    statement: CreateAsSelect | InsertInto
    root: Sink
    refresh: RefreshMode
    fingerprint: str
    state_signature: str
    execution: str = "engine"
    lineage: Mapping[str, tuple[ColumnSource, ...]] = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str | int | bool] = field(default_factory=lambda: MappingProxyType({}))
    error_log: Relation | None = None

    @property
    def sink(self) -> Relation:
        """The relation it fills."""
        return self.root.relation

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Its sources, left-most first."""
        return tuple(node for node in self.root.walk() if isinstance(node, Scan))

    @property
    def logs(self) -> tuple[Relation, ...]:
        """Where it keeps rows that it leaves out, each place once."""
        late = self.late.relation if self.late is not None else None
        found = (log for log in (*(scan.log for scan in self.scans), self.error_log, late) if log is not None)
        return tuple({(log.store, log.entity): log for log in found}.values())

    @property
    def late(self) -> LateRows | None:
        """Where it keeps rows that are too late for its window."""
        return next((node.late for node in self.root.walk() if isinstance(node, Window)), None)

    @property
    def sources(self) -> tuple[QualifiedName, ...]:
        """Names of the relations it reads, left-most first, each once."""
        return tuple(dict.fromkeys(scan.relation.name for scan in self.scans))

    @property
    def is_finite(self) -> bool:
        """Whether a materialization of it ends."""
        return self.refresh in ("incremental", "full")
