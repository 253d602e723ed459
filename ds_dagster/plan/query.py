"""A bound query: the plan that fills one relation, and facts about it for the other packages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ds_dagster.catalog.io_spec import RefreshMode, SinkIdentity
from ds_dagster.catalog.relation import Relation
from ds_dagster.names import QualifiedName
from ds_dagster.plan.nodes.application import Bundle
from ds_dagster.plan.nodes.node import Node, Sources
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticScan, static_scans
from ds_dagster.plan.nodes.window import LateRows, Window
from ds_dagster.sql.statements import Application, CreateAsSelect, InsertInto

POOL = "compute_pool"
"""Property of QUERY WITH."""


class PlanReads(ABC):
    """The relations that a plan reads, and those it writes besides its result."""

    __slots__ = ()

    @property
    @abstractmethod
    def plan(self) -> Node:
        """The whole plan: one sink, or the bundle of an application."""

    @property
    @abstractmethod
    def error_logs(self) -> tuple[Relation, ...]:
        """The relations that keep rows whose expressions fail."""

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Its sources, left-most first, each once."""
        return _scans(self.plan)

    @property
    def late(self) -> tuple[LateRows, ...]:
        """The places of rows that are too late for a window, each relation once."""
        late_rows = (node.late for node in self.plan.walk() if isinstance(node, Window) and node.late is not None)
        return tuple({rows.relation.name: rows for rows in late_rows}.values())

    @property
    def logs(self) -> tuple[Relation, ...]:
        """The relations that keep rows it leaves out (bad, failing, late or in violation), each entity once."""
        records = (scan.log for scan in self.scans if scan.log is not None)
        aside = (node.quarantine for node in self.plan.walk() if isinstance(node, Scan | Sink) and node.quarantine)
        relations = (*records, *self.error_logs, *(rows.relation for rows in self.late), *aside)
        return tuple({(log.store, log.entity): log for log in relations}.values())

    @property
    def sources(self) -> tuple[QualifiedName, ...]:
        """Names of the relations it reads, left-most first, each once; then those it looks up."""
        return tuple(dict.fromkeys(relation.name for relation in self.inputs))

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The relations it reads, left-most first, then those it looks up."""
        return read_below(self.plan)

    @property
    def tables(self) -> tuple[StaticScan, ...]:
        """The tables it looks up, left-most first."""
        return static_scans(self.plan)


@dataclass(frozen=True, slots=True)
class Part(PlanReads):
    """One statement of a query: a plan that fills one relation.

    Attributes:
        name: of the relation for CREATE … AS, ``'query.name'`` otherwise.
        statement: its source.
        root: its plan.
        refresh: ``continuous`` for streams, changelogs and views; for tables as written.
        fingerprint: hash of its meaning (versioned algorithm, formatting and comments do not matter).
        state_signature: hash of the parts of its plan that its checkpoint depends on (sources, stateful steps, key).
        earlier_signatures: signatures of the same state by earlier versions of the algorithm.
        lineage: sink column → source columns it is computed from (filters and join keys are not in it).
        settings: QUERY WITH properties by name (state.ttl.millis, compute_pool, …).
        error_log: relation that keeps rows whose expressions fail; None: none does.
    """

    name: str
    statement: CreateAsSelect | InsertInto
    root: Sink
    refresh: RefreshMode
    fingerprint: str
    state_signature: str
    earlier_signatures: tuple[str, ...] = ()
    lineage: Sources = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str | int | bool] = field(default_factory=lambda: MappingProxyType({}))
    error_log: Relation | None = None

    @property
    def plan(self) -> Node:
        """The root."""
        return self.root

    @property
    def sink(self) -> Relation:
        """The relation it fills."""
        return self.root.relation

    @property
    def is_insert(self) -> bool:
        """Whether another statement creates its relation."""
        return isinstance(self.statement, InsertInto)

    @property
    def pool(self) -> str:
        """Compute pool that QUERY WITH names; empty without one."""
        return str(self.settings.get(POOL, ""))

    @property
    def error_logs(self) -> tuple[Relation, ...]:
        """Its error log, if it has one."""
        return () if self.error_log is None else (self.error_log,)

    @property
    def is_finite(self) -> bool:
        """Whether a materialization of it ends."""
        return self.refresh in ("incremental", "full")


@dataclass(frozen=True, slots=True)
class BoundQuery(PlanReads):
    """One persistent query: the parts that run as one, a single one unless it is an application.

    Attributes:
        name: the query's name in this project, part of the job id.
        statement: its source.
        parts: one per sink, in the order of the statements; at least one.
        fingerprint, state_signature, earlier_signatures: of all parts together, see :class:`Part`.
        execution: ``engine`` or ``step`` (finite CTAS in the Dagster step's own session).
    """

    name: str
    statement: CreateAsSelect | InsertInto | Application
    parts: tuple[Part, ...]
    fingerprint: str
    state_signature: str
    earlier_signatures: tuple[str, ...] = ()
    execution: str = "engine"

    @classmethod
    def of(cls, part: Part, execution: str = "engine") -> BoundQuery:
        """The query of one statement."""
        signatures = (part.fingerprint, part.state_signature, part.earlier_signatures)
        return cls(part.name, part.statement, (part,), *signatures, execution)

    def keeps_state_of(self, signature: str) -> bool:
        """Whether a checkpoint of this signature, by today's algorithm or an earlier one, holds the query's state."""
        return signature in (self.state_signature, *self.earlier_signatures)

    @property
    def is_application(self) -> bool:
        """Whether it is an application, even of one part: sources have no names in its checkpoint, each sink has an
        identity of its own, and the sinks write a batch one after the other."""
        return isinstance(self.statement, Application)

    @property
    def plan(self) -> Node:
        """The whole plan: the root, or the bundle of an application."""
        return Bundle(tuple(part.root for part in self.parts)) if self.is_application else self.root

    @property
    def root(self) -> Sink:
        """Plan of the first part."""
        return self.parts[0].root

    def writer_of(self, part: Part, identity: SinkIdentity) -> SinkIdentity:
        """Identity of the writer of a part's sink: the job, in an application the job's member for this part."""
        return identity.of_member(part.name) if self.is_application else identity

    @property
    def sink(self) -> Relation:
        """The relation that the first part fills."""
        return self.root.relation

    @property
    def sinks(self) -> tuple[Relation, ...]:
        """The relations it fills, each once."""
        return tuple({part.sink.name: part.sink for part in self.parts}.values())

    @property
    def relations(self) -> str:
        """Qualified names of :attr:`sinks` as one text."""
        return ", ".join(str(sink.name) for sink in self.sinks)

    @property
    def entities(self) -> str:
        """The entities it reads and writes (``store.entity``) as one text."""
        return ", ".join(
            dict.fromkeys(f"{relation.store}.{relation.entity}" for relation in (*self.inputs, *self.sinks))
        )

    @property
    def pool(self) -> str:
        """Compute pool whose engine runs it; empty: the project's own engine."""
        return self.parts[0].pool

    @property
    def error_logs(self) -> tuple[Relation, ...]:
        """The error logs of its parts."""
        return tuple(log for part in self.parts for log in part.error_logs)

    @property
    def refresh(self) -> RefreshMode:
        """How its tables are refreshed; ``continuous`` for an application."""
        return self.parts[0].refresh

    @property
    def is_finite(self) -> bool:
        """Whether a materialization of it ends."""
        return self.parts[0].is_finite


def read_below(root: Node) -> tuple[Relation, ...]:
    """The relations that a plan reads, left-most first, then those it looks up."""
    return (*(scan.relation for scan in _scans(root)), *(scan.relation for scan in static_scans(root)))


def _scans(root: Node) -> tuple[Scan, ...]:
    scans = (node for node in root.walk() if isinstance(node, Scan))
    return tuple({scan.source_name: scan for scan in scans}.values())
