"""A bound query: the plan that fills one relation, and what the rest of the house wants to know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ds_dagster.catalog.io_spec import RefreshMode
from ds_dagster.catalog.relation import Relation
from ds_dagster.names import QualifiedName
from ds_dagster.plan.nodes import Scan, Sink
from ds_dagster.plan.static_nodes import StaticScan, static_scans
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

    @property
    def sink(self) -> Relation:
        """The relation it fills."""
        return self.root.relation

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Its sources, left-most first."""
        return tuple(node for node in self.root.walk() if isinstance(node, Scan))

    @property
    def sources(self) -> tuple[QualifiedName, ...]:
        """Names of the relations it reads, left-most first, each once; then those it looks up."""
        return tuple(dict.fromkeys(relation.name for relation in self.relations))

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The relations it reads, left-most first, then those it looks up."""
        return (*(scan.relation for scan in self.scans), *(scan.relation for scan in self.tables))

    @property
    def tables(self) -> tuple[StaticScan, ...]:
        """The tables it looks up, left-most first."""
        return static_scans(self.root)

    @property
    def is_finite(self) -> bool:
        """Whether a materialization of it ends."""
        return self.refresh in ("incremental", "full")
