"""A bound query: the plan that fills one relation, and what the rest of the house wants to know about it."""

from __future__ import annotations

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
        earlier_signatures: what earlier versions of the algorithm make of the same state.
        lineage: sink column → source columns it is computed from (filters and join keys are not in it).
        error_log: where rows are kept whose expressions fail, None for nowhere.
        settings: QUERY WITH properties by name (state.ttl.millis, compute_pool, …).
        bundle: of an application: all its sinks; ``root`` is the first of them.
        members: of an application: its queries; lineage stands there.
    """

    name: str
    statement: CreateAsSelect | InsertInto | Application
    root: Sink
    refresh: RefreshMode
    fingerprint: str
    state_signature: str
    earlier_signatures: tuple[str, ...] = ()
    execution: str = "engine"
    lineage: Sources = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str | int | bool] = field(default_factory=lambda: MappingProxyType({}))
    error_log: Relation | None = None
    bundle: Bundle | None = None
    members: tuple[BoundQuery, ...] = ()

    def keeps_state_of(self, signature: str) -> bool:
        """Whether a checkpoint of this signature, by today's algorithm or an earlier one, holds the query's state."""
        return signature in (self.state_signature, *self.earlier_signatures)

    @property
    def plan(self) -> Node:
        """All that runs as one: the root, or the bundle of an application."""
        return self.bundle or self.root

    @property
    def parts(self) -> tuple[BoundQuery, ...]:
        """The queries of an application; of another query itself."""
        return self.members or (self,)

    def writer_of(self, part: BoundQuery, identity: SinkIdentity) -> SinkIdentity:
        """Who writes the sink of one of :attr:`parts`: the job, in an application a member of it."""
        return identity.of_member(part.name) if self.members else identity

    @property
    def sink(self) -> Relation:
        """The relation it fills; of an application the first."""
        return self.root.relation

    @property
    def sinks(self) -> tuple[Relation, ...]:
        """The relations it fills, each once."""
        return tuple({part.sink.name: part.sink for part in self.parts}.values())

    @property
    def relations(self) -> str:
        """Their qualified names as one text."""
        return ", ".join(str(sink.name) for sink in self.sinks)

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Its sources, left-most first, each once."""
        return _scans(self.plan)

    @property
    def logs(self) -> tuple[Relation, ...]:
        """Where it keeps rows that it leaves out, each place once."""
        errors = (part.error_log for part in self.parts)
        late = (rows.relation for rows in self.late)
        found = (log for log in (*(scan.log for scan in self.scans), *errors, *late) if log is not None)
        return tuple({(log.store, log.entity): log for log in found}.values())

    @property
    def late(self) -> tuple[LateRows, ...]:
        """Where it keeps rows that are too late for a window, each place once."""
        found = (node.late for node in self.plan.walk() if isinstance(node, Window) and node.late is not None)
        return tuple({rows.relation.name: rows for rows in found}.values())

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

    @property
    def is_finite(self) -> bool:
        """Whether a materialization of it ends."""
        return self.refresh in ("incremental", "full")


def read_below(root: Node) -> tuple[Relation, ...]:
    """The relations that a plan reads, left-most first, then those it looks up."""
    return (*(scan.relation for scan in _scans(root)), *(scan.relation for scan in static_scans(root)))


def _scans(root: Node) -> tuple[Scan, ...]:
    found = (node for node in root.walk() if isinstance(node, Scan))
    return tuple({scan.source_name: scan for scan in found}.values())
