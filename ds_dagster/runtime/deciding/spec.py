"""The job spec: what the journal keeps of a query so that an engine can run it without the checkout. Versioned JSON,
no secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, SliceStatement, slice_of
from ds_dagster.runtime.deciding.beside import is_written_in_turn
from ds_dagster.version import __version__

SPEC_VERSION = 1
_TEXTS = ("name", "relation", "fingerprint", "state_signature", "package_version", "refresh")
"""Fields of a spec that a list of jobs needs, whatever version wrote it."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One query as a job.

    Attributes:
        name: query name; the job id is environment + journal uuid + name.
        relation: qualified name of the relation it fills, as text; of an application several with commas between.
        slice: statements to compile alone.
        fingerprint, state_signature: of the requested definition.
        package_version: that made it.
        refresh: continuous, incremental or full.
        stores: folded names of the stores it touches.
        upstream: names of the jobs whose output it reads, directly.
        writers: (store, entity, jobs) of what it reads and other jobs make: it never makes those itself.
        store_values: (store, property, text) that replaces what CREATE STORE says, see ``Settings.store_values``:
            references and values that are not secret.
        source_names: (qualified relation, name of its source in the checkpoint), see ``Settings.source_names``.
        state_slice: statements of the definition whose groups the checkpoint holds, where the query shows others of
            them, see ``plan.identity.held``; empty: its own.
        ordered_state: see ``Settings.ordered_state``; specs of earlier versions of the package do not have it.
        in_turn: versions of it write one place, each from where the version before it stopped.
        pool: compute pool whose engine runs it; empty: the project's own engine. Not a part of the meaning.
        unread: names of what a later version of the package wrote and this one does not know; never written. Such a
            job keeps its place in every list, and is refused where its definition matters: :meth:`check_readable`.
    """

    name: str
    relation: str
    slice: tuple[SliceStatement, ...]
    fingerprint: str
    state_signature: str
    package_version: str
    refresh: str = "continuous"
    stores: tuple[str, ...] = ()
    upstream: tuple[str, ...] = ()
    store_values: tuple[tuple[str, str, str], ...] = ()
    writers: tuple[tuple[str, str, str], ...] = ()
    source_names: tuple[tuple[str, str], ...] = ()
    state_slice: tuple[SliceStatement, ...] = ()
    ordered_state: bool = False
    in_turn: bool = False
    pool: str = ""
    unread: tuple[str, ...] = ()

    @property
    def is_finite(self) -> bool:
        """Whether it runs to an end, on request."""
        return self.refresh != "continuous"

    def check_readable(self) -> None:
        """Refuse to act on a definition of which a part is not known.

        Raises:
            UserError: JOB_SPEC_NEWER.
        """
        if self.unread:
            raise error(
                "JOB_SPEC_NEWER",
                name=self.name,
                version=self.package_version or "another version",
                own=__version__,
                unread=", ".join(self.unread),
            )

    def to_json(self) -> str:
        """Stable text for the journal.

        Raises:
            UserError: JOB_SPEC_NEWER: the text would lack what is not known.
        """
        self.check_readable()
        values = asdict(self)
        del values["unread"]
        if not self.pool:
            del values["pool"]  # earlier versions of the package read specs of projects without pools
        return json.dumps({"version": SPEC_VERSION, **values}, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> JobSpec:
        """The inverse of :meth:`to_json`; older versions are read for ever, of newer ones what is known."""
        values: dict[str, Any] = dict(json.loads(text))
        version = values.pop("version")
        if version != SPEC_VERSION:
            texts: dict[str, Any] = {name: str(values.get(name, "")) for name in _TEXTS}
            return cls(**texts, slice=(), unread=(f"version {version}",))
        unread = [*_pop_unknown(values, cls)]
        for name in ("slice", "state_slice"):
            statements: list[dict[str, Any]] = [dict(statement) for statement in values.get(name, ())]
            unread += [
                f"{name}.{field}" for field in sorted({f for s in statements for f in _pop_unknown(s, SliceStatement)})
            ]
            values[name] = tuple(SliceStatement(**statement) for statement in statements)
        values.setdefault("ordered_state", bool(values["state_slice"]))
        for key in ("stores", "upstream"):
            values[key] = tuple(values.get(key, ()))
        for key in ("store_values", "writers"):
            values[key] = tuple((first, second, third) for first, second, third in values.get(key, ()))
        values["source_names"] = tuple((relation, name) for relation, name in values.get("source_names", ()))
        return cls(**values, unread=tuple(unread))

    def writers_of(self, relation: Relation) -> str:
        """The other jobs of the project that make what a relation reads; empty where none does."""
        return next((jobs for *place, jobs in self.writers if place == [relation.store, relation.entity]), "")


def _pop_unknown(values: dict[str, Any], record: type[JobSpec | SliceStatement]) -> list[str]:
    """Take out what a record has no field for; its names."""
    names = sorted(values.keys() - {field.name for field in fields(record)} | values.keys() & {"unread"})
    for name in names:
        del values[name]
    return names


def job_spec(project: LoadedProject, query: BoundQuery) -> JobSpec:
    """The spec of one query of a loaded project."""
    relations = (*query.sinks, *query.inputs, *query.logs)
    stores = tuple(sorted({relation.store for relation in relations}))
    replaced = project.settings.store_values
    return JobSpec(
        name=query.name,
        relation=query.relations,
        slice=slice_of(project, query),
        fingerprint=query.fingerprint,
        state_signature=query.state_signature,
        package_version=__version__,
        refresh=query.refresh,
        stores=stores,
        upstream=upstream(project, query, transitive=False),
        writers=tuple(_writers(project, query)),
        store_values=tuple((s, name, text) for s in stores for name, text in sorted(replaced.get(s, {}).items())),
        ordered_state=True,
        in_turn=is_written_in_turn(query),
        pool=query.pool,
    )


def _writers(project: LoadedProject, query: BoundQuery) -> Iterator[tuple[str, str, str]]:
    """By entity, not by relation: a relation may declare a topic again that another one's query makes."""
    for store, entity in dict.fromkeys((relation.store, relation.entity) for relation in query.inputs):
        jobs = [
            other.name
            for other in project.queries.values()
            if other.name != query.name and any((sink.store, sink.entity) == (store, entity) for sink in other.sinks)
        ]
        if jobs and not any((sink.store, sink.entity) == (store, entity) for sink in query.sinks):
            yield store, entity, ", ".join(jobs)


def upstream(project: LoadedProject, query: BoundQuery, *, transitive: bool = True) -> tuple[str, ...]:
    """Names of the never-ending queries whose output a query reads, sources first."""
    wanted: set[QualifiedName] = set()
    todo = list(query.sources)
    while todo:
        relation = todo.pop()
        if relation in wanted:
            continue
        wanted.add(relation)
        if transitive or not project.queries_of(relation):
            todo.extend(project.depends_on.get(relation, ()))
    others = (other for other in project.queries.values() if other.name != query.name and not other.is_finite)
    return tuple(other.name for other in others if any(sink.name in wanted for sink in other.sinks))


def shown(spec: JobSpec) -> Mapping[str, object]:
    """What ``ds explain --level stages`` prints of it."""
    return {"name": spec.name, "relation": spec.relation, "fingerprint": spec.fingerprint, "stores": list(spec.stores)}
