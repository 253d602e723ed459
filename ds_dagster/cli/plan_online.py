"""``ds plan --online``: facts from the stores for each line of a plan; facts that cannot be read are listed as
unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import RegistrySpec, open_loader
from ds_dagster.catalog.reading.changed_tables import TellsTables, shape_of
from ds_dagster.catalog.reading.extent import FindsOffsets, TellsExtents, check_offsets, from_offsets
from ds_dagster.catalog.reading.volume import TellsVolume
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.formats import FORMATS, ReadPart, read_parts
from ds_dagster.catalog.shapes import ComparesShape
from ds_dagster.errors import DsError
from ds_dagster.places.trees import Place, read_if_any
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, kind_of_store, store_admin
from ds_dagster.runtime.checkpoint_files import SOURCES, TARGETS
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.planning.effort import Effort, Reread, entity_drift, reread, reread_of_volume, seconds_of
from ds_dagster.runtime.planning.planned import PlannedChange
from ds_dagster.runtime.planning.running import Running
from ds_dagster.runtime.status import JobStatus
from ds_dagster.stores.schema_registry import SchemaRegistry

T = TypeVar("T")
AGAIN = ("needs_new_checkpoint", "would_lose_data")
"""Verdicts after which sources are read again. For a new query only sources that no query of the project fills are
counted, since the future records of the others are unknown."""


@dataclass(slots=True)
class OnlinePlan:
    """Examines the stores of a project. A store that fails once because of an outside fault is not tried again.

    Attributes:
        project, running: the project, and the jobs to compare it with.
        control: of the project; its checkpoints are read if they are on this machine.
    """

    project: LoadedProject
    control: Control
    running: Running
    _silent: dict[str, str] = field(default_factory=dict, init=False)

    def examined(self, lines: Sequence[PlannedChange]) -> tuple[PlannedChange, ...]:
        """The lines with their effort; orphans are unchanged."""
        queries = self.project.queries
        return tuple(
            replace(line, effort=self._effort(queries[line.change.name], line)) if line.change.name in queries else line
            for line in lines
        )

    def _effort(self, query: BoundQuery, line: PlannedChange) -> Effort:
        unknown: list[str] = []
        reads: list[Reread] = []
        drift: list[str] = []
        is_new = line.change.verdict == "new"
        for scan in query.scans if is_new or line.change.verdict in AGAIN else ():
            if not is_new or not self.project.queries_of(scan.relation.name):
                what = f"records of {_shown(scan.relation)}"
                reads += self._looked(scan.relation.store, what, partial(self._rereads, scan, is_new), unknown)
        status = self.running.status(query.name)
        if not is_new and status is not None:
            for relation in {each.name: each for each in (*query.inputs, *query.sinks)}.values():
                look = partial(self._drift, query, relation, line, status)
                drift += self._looked(relation.store, f"drift of {_shown(relation)}", look, unknown)
            for scan in query.scans:
                drift += self._lost_columns(scan, unknown)
        rate = None if status is None else status.fastest
        if reads and not rate and not is_new:
            unknown.append("time: no batch with rows was measured since the query's start")
        return Effort(tuple(reads), seconds_of(reads, rate), tuple(dict.fromkeys(drift)), tuple(dict.fromkeys(unknown)))

    def _rereads(self, scan: Scan, is_new: bool) -> Sequence[Reread]:
        """Records of a source that are read again. ``is_new``: the query was never started; then a missing entity gives
        no entry, since the start creates it or reports it."""
        relation, reading = scan.relation, scan.reading
        with self._admin(relation.store) as admin, closing(admin.operations()) as operations:
            if is_new and admin.describe(relation.entity) is None:
                return ()
            offsets, shown = reading.starting_offsets, _shown(relation)
            if offsets and isinstance(operations, FindsOffsets):
                check_offsets(shown, operations, relation.entity, offsets, reading.data_loss)
            if not isinstance(operations, TellsExtents):
                volume = operations.volume(relation) if isinstance(operations, TellsVolume) else None
                return (reread_of_volume(shown, reading.starting_position, volume),)
            extents = operations.extents(relation.entity, reading.starting_timestamp)
            extents = from_offsets(shown, extents, offsets, reading.data_loss)
            retention = operations.retention_millis(relation.entity)
        now = self.control.clock.now()
        return (reread(shown, reading.starting_position, extents, retention, now),)

    def _drift(self, query: BoundQuery, relation: Relation, line: PlannedChange, status: JobStatus) -> Sequence[str]:
        kind = kind_of_store(self.project, relation)
        if relation.kind in ("stream", "changelog"):
            with self._admin(relation.store) as admin:
                facts = admin.describe(relation.entity)
            drift = entity_drift(_shown(relation), self._stated(kind.entity_plan(relation), relation), facts)
            return (*drift, *self._recreated(query, relation, facts, status))
        if relation in query.sinks and line.change.verdict == "unchanged":
            store = self.project.catalog.store(relation.store)
            write = kind.write_spec(store, relation, query.refresh)
            identity = self.control.journal.identity().sink(status.writes_as, status.checkpoint_version)
            with closing(open_loader(write, identity, resolver(self.project.settings, store.name))) as loader:
                shape = loader.shape_now() if isinstance(loader, ComparesShape) else ""
            if shape is None or shape:
                return (f"{_shown(relation)} is gone" if shape is None else f"{_shown(relation)}: {shape}",)
        return ()

    def _lost_columns(self, scan: Scan, unknown: list[str]) -> Sequence[str]:
        """Declared columns that are missing in the newest schema of the records, or in the table, as text."""
        relation, what = scan.relation, f"columns of {_shown(scan.relation)}"
        store = self.project.catalog.store(relation.store)
        spec = kind_of_store(self.project, relation).read_spec(store, relation, scan.reading, None)
        if spec.rows is not None:
            return self._looked(relation.store, what, partial(self._not_in_tables, relation), unknown)
        parts = list(read_parts(relation, spec.schemas))
        if spec.schemas is None or spec.schemas.registry is None or not parts:
            return ()
        registry = spec.schemas.registry
        look = partial(self._not_in_schemas, registry, relation, parts)
        return self._looked(f"schema registry {registry.name}", what, look, unknown)

    def _not_in_schemas(self, registry: RegistrySpec, relation: Relation, parts: Sequence[ReadPart]) -> Sequence[str]:
        lines = []
        with closing(SchemaRegistry(registry, resolver(self.project.settings, registry.name))) as client:
            for read in parts:
                newest = client.latest(read.part.subject, FORMATS[read.part.format].type)
                if newest is not None:
                    version = f"version {newest.version} of {read.part.subject}"
                    names = read.shape(newest.schema).unknown(read.own)
                    lines += [f"{_shown(relation)}: {version} has no {name}" for name in names]
        return lines

    def _not_in_tables(self, relation: Relation) -> Sequence[str]:
        lines = []
        with self._admin(relation.store) as admin, closing(admin.operations()) as operations:
            tables = operations.tables_read(relation) if isinstance(operations, TellsTables) else {}
            for table, columns in tables.items():
                shape = shape_of(operations.columns_of(relation, table))
                gone = shape.unknown([column.name for column in columns])
                lines += [f"{_shown(relation)}: the table {table} has no {name}" for name in gone]
        return lines

    def _stated(self, plan: EntityPlan, relation: Relation) -> EntityPlan:
        """The plan to compare: for a declared entity only the settings that its statement states, since others created
        it."""
        if not relation.declared:
            return plan
        prefix = kind_of_store(self.project, relation).capabilities.entity_settings_prefix
        written = {n.removeprefix(prefix) for n, v in relation.properties.items() if prefix and v.span is not None}
        return replace(plan, settings={name: text for name, text in plan.settings.items() if name in written})

    def _recreated(
        self, query: BoundQuery, relation: Relation, facts: EntityFacts | None, status: JobStatus
    ) -> Iterator[str]:
        """A line if the entity's identity differs from the identity in the checkpoint: it was deleted and created
        again."""
        if (
            facts is None
            or not facts.identity
            or not self.control.sees_checkpoints()
            or not self.control.journal.exists()
        ):
            return
        place = self.control.checkpoints().path(status.writes_as, status.checkpoint_version)
        sources, targets = (_identities(place / name) for name in (SOURCES, TARGETS))
        own = [sources.get(scan.source_name) for scan in query.scans if scan.relation.name == relation.name]
        own.append(targets.get(_shown(relation)))
        if any(identity not in (None, "", facts.identity) for identity in own):
            yield f"{_shown(relation)} was deleted and created again"

    @contextmanager
    def _admin(self, store: str) -> Iterator[Any]:
        with closing(store_admin(self.project, store, resolver(self.project.settings, store))) as admin:
            yield admin

    def _looked(self, store: str, what: str, look: Callable[[], Sequence[T]], unknown: list[str]) -> Sequence[T]:
        """The result of ``look``; a failure becomes a line in ``unknown``. A store that does not answer is not tried
        again."""
        if store not in self._silent:
            try:
                return look()
            except DsError as problem:
                if problem.fault.domain != "external":
                    unknown.append(f"{what}: {problem.message}")
                    return ()
                self._silent[store] = problem.message
        unknown.append(f"{what}: {self._silent[store]}")
        return ()


def _identities(path: Place) -> Mapping[str, str]:
    return dict(json.loads(read_if_any(path) or "{}"))


def _shown(relation: Relation) -> str:
    return f"{relation.store}.{relation.entity}"
