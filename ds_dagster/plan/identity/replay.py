"""The effect of starting a query over on the rows it has written: one pure rule by kind of sink, for every command
that resets a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ds_dagster.catalog.relation import Relation
from ds_dagster.names import QualifiedName
from ds_dagster.plan.query import BoundQuery
from ds_dagster.sql.statements import RelationKind

Effect = Literal["replaced", "updated", "added"]
"""Effect of writing rows again: ``replaced`` the first batch replaces the old rows; ``updated`` each key gets its row
again, keys that are not written again stay; ``added`` every row is there twice."""

EFFECTS: Mapping[RelationKind, Effect] = MappingProxyType(
    {"stream": "added", "changelog": "updated", "table": "replaced", "materialized_view": "replaced"}
)
SHARED_EFFECTS: Mapping[str, Effect] = MappingProxyType({"append": "added"})
"""Changelog kind of the result → effect on a declared table; ``updated`` for other kinds. Its old rows may come from
another query."""


@dataclass(frozen=True, slots=True)
class Doubled:
    """Rows that a reset would write a second time.

    Attributes:
        sinks: qualified names of the relations that would have them twice, row logs among them; empty when no row is
            written twice.
        readers: names of the queries downstream of those sinks, direct ones first.
    """

    sinks: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sinks)


def effect(query: BoundQuery, sink: Relation) -> Effect:
    """Effect on the rows of a sink if the query runs from its starting position again.

    Args:
        query: any; for an application the whole query.
        sink: one of ``query.sinks``.
    """
    if query.refresh == "full":
        return "replaced"
    if sink.kind == "table" and sink.declared:
        changes = next(part.root.changelog for part in query.parts if part.sink.name == sink.name)
        return SHARED_EFFECTS.get(changes, "updated")
    return EFFECTS[sink.kind]


def doubled(
    query: BoundQuery,
    downstream: Mapping[QualifiedName, Sequence[str]],
    queries: Mapping[str, BoundQuery],
    keeps_slot: Callable[[Relation], bool],
) -> Doubled:
    """The sinks in which a reset of a query that has run would leave rows twice, and the queries that read them.

    Args:
        query: with the definition that the reset would start.
        downstream: relation → names of the queries that read it.
        queries: of the project, by name.
        keeps_slot: whether the store of a source keeps its reader's position: then ``latest`` is that position, which
            may be before the last row written. Called only for sources that begin at ``latest``.
    """
    if all(scan.starting_position == "latest" and not keeps_slot(scan.relation) for scan in query.scans):
        return Doubled()
    sinks = [sink.name for sink in query.sinks if effect(query, sink) == "added"]
    sinks += [log.name for log in query.logs if log.name not in sinks]
    return Doubled(tuple(map(str, sinks)), behind(sinks, query.name, downstream, queries))


def behind(
    sinks: Sequence[QualifiedName],
    but: str,
    downstream: Mapping[QualifiedName, Sequence[str]],
    queries: Mapping[str, BoundQuery],
) -> tuple[str, ...]:
    """Names of the queries that read these relations, directly or through others; direct ones first.

    Args:
        sinks: relations.
        but: name of a query that is left out.
        downstream: relation → names of the queries that read it.
        queries: of the project, by name.
    """
    sources: dict[str, None] = {}
    waiting = list(sinks)
    for relation in waiting:
        for name in downstream.get(relation, ()):
            if name not in sources and name != but:
                sources[name] = None
                waiting += [sink.name for sink in queries[name].sinks]
    return tuple(sources)
