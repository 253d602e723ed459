"""The job spec: the definition of a query in the journal, so that an engine can run it without the checkout. Versioned
JSON, no secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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
"""Fields of a spec that lists of jobs need; read from specs of any version."""

_LATER = ("pool", "state_added", "grows")
"""Fields that earlier versions of the package do not know; written only if they have a value."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One query as a job.

    Attributes:
        name: query name; the job id is environment + journal uuid + name.
        relation: qualified name of the relation it fills; for an application several, separated by ``, ``.
        slice: the query's statement and all statements it needs, so that they compile without the project.
        fingerprint, state_signature: of the requested definition.
        package_version: version of the package that made the spec.
        refresh: continuous, incremental or full.
        stores: folded names of the stores it touches.
        upstream: names of the jobs whose output it reads, directly.
        writers: (store, entity, names of jobs) for entities that it reads and other jobs create: it never creates them.
        store_values: (store, property, text) that replaces values of CREATE STORE, see ``Settings.store_values``:
            references and values that are not secret.
        source_names: (qualified relation, name of its source in the checkpoint), see ``Settings.source_names``.
        state_slice: statements of the definition whose groups the checkpoint has, if the query shows other results of
            these groups, see ``plan.identity.held``; empty: ``slice``.
        state_added: statements of later definitions, in their order, each of which added results to the state of
            ``state_slice``, see ``plan.identity.grown``.
        grows: a definition has added results to the groups of its checkpoint, so the engine looks for missing ones when
            it starts the query.
        ordered_state: see ``Settings.ordered_state``; specs of earlier versions of the package do not have it.
        in_turn: all versions of the query write the same place, each from where the version before it stopped.
        pool: compute pool whose engine runs it; empty: the project's own engine. Not part of the fingerprint.
        unread: names of fields that a later version of the package wrote and this version does not know; never
            written. Such a job is in every list; :meth:`check_readable` refuses it where its definition matters.
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
    state_added: tuple[tuple[SliceStatement, ...], ...] = ()
    grows: bool = False
    ordered_state: bool = False
    in_turn: bool = False
    pool: str = ""
    unread: tuple[str, ...] = ()

    @property
    def is_finite(self) -> bool:
        """Whether it runs on request and ends by itself."""
        return self.refresh != "continuous"

    def check_readable(self) -> None:
        """Refuse to act on a definition with unknown fields.

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
            UserError: JOB_SPEC_NEWER: the text would lack the unknown fields.
        """
        self.check_readable()
        values = asdict(self)
        del values["unread"]
        for name in _LATER:
            if not values[name]:
                del values[name]
        return json.dumps({"version": SPEC_VERSION, **values}, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> JobSpec:
        """The inverse of :meth:`to_json`. Specs of all older versions can be read; of newer ones the known fields."""
        values: dict[str, Any] = dict(json.loads(text))
        version = values.pop("version")
        if version != SPEC_VERSION:
            texts: dict[str, Any] = {name: str(values.get(name, "")) for name in _TEXTS}
            return cls(**texts, slice=(), unread=(f"version {version}",))
        unread = [*_pop_unknown(values, cls)]
        for name in ("slice", "state_slice"):
            values[name] = _statements(name, values.get(name, ()), unread)
        added = [_statements("state_added", each, unread) for each in values.get("state_added", ())]
        values["state_added"] = tuple(added)
        values.setdefault("ordered_state", bool(values["state_slice"]))
        for key in ("stores", "upstream"):
            values[key] = tuple(values.get(key, ()))
        for key in ("store_values", "writers"):
            values[key] = tuple((first, second, third) for first, second, third in values.get(key, ()))
        values["source_names"] = tuple((relation, name) for relation, name in values.get("source_names", ()))
        return cls(**values, unread=tuple(unread))

    def writers_of(self, relation: Relation) -> str:
        """Names of the other jobs that create the entity of a relation, separated by ``, ``; empty without any."""
        return next((jobs for *place, jobs in self.writers if place == [relation.store, relation.entity]), "")


def _statements(name: str, rows: Iterable[Mapping[str, Any]], unread: list[str]) -> tuple[SliceStatement, ...]:
    """Stored statements of a field; the names of their unknown fields go to ``unread``."""
    statements = [dict(row) for row in rows]
    unread += [f"{name}.{field}" for field in sorted({f for s in statements for f in _pop_unknown(s, SliceStatement)})]
    return tuple(SliceStatement(**statement) for statement in statements)


def _pop_unknown(values: dict[str, Any], record: type[JobSpec | SliceStatement]) -> list[str]:
    """Remove values for which a record has no field; returns their names."""
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
    """Compares entities, not relations, since a relation may declare a topic that another relation's query creates."""
    for store, entity in dict.fromkeys((relation.store, relation.entity) for relation in query.inputs):
        jobs = [
            other.name
            for other in project.queries.values()
            if other.name != query.name and any((sink.store, sink.entity) == (store, entity) for sink in other.sinks)
        ]
        if jobs and not any((sink.store, sink.entity) == (store, entity) for sink in query.sinks):
            yield store, entity, ", ".join(jobs)


def upstream(project: LoadedProject, query: BoundQuery, *, transitive: bool = True) -> tuple[str, ...]:
    """Names of the continuous queries whose output a query reads, in the project's order (sources first).
    ``transitive``: also those that it reads through other queries."""
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
    """Fields of a spec that ``ds explain --level stages`` prints."""
    return {"name": spec.name, "relation": spec.relation, "fingerprint": spec.fingerprint, "stores": list(spec.stores)}
