"""What the Dagster surface knows of one relation: a frozen record made from a loaded project, without Dagster types."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from ds_dagster.catalog.relation import Relation
from ds_dagster.names import QualifiedName
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project import BrokenRelation, Project, kind_of_store, uri_of


@dataclass(frozen=True, slots=True)
class RelationProps:
    """One relation as a translator sees it.

    Attributes:
        name: qualified name.
        relation: the record, None when its statement was refused.
        queries: the queries that fill it; empty for declared relations that others fill.
        depends_on: relations its data comes from.
        file, line: where it is defined (absolute path).
        dagster_kinds, storage_kind, uri, table_name: of its store.
        broken: set when its statement was refused.
        default_group: the SQL file's name without ending.
        overlay: path of the overlay in force, empty for none.
    """

    name: QualifiedName
    relation: Relation | None
    queries: tuple[BoundQuery, ...]
    depends_on: tuple[QualifiedName, ...]
    file: str
    line: int
    text: str = ""
    dagster_kinds: tuple[str, ...] = ()
    storage_kind: str = ""
    uri: str = ""
    table_name: str = ""
    default_group: str = "default"
    broken: BrokenRelation | None = None
    overlay: str = ""
    lineage: Mapping[str, tuple[tuple[QualifiedName, str], ...]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def kind(self) -> str:
        """stream, changelog, materialized_view or table."""
        return self.relation.kind if self.relation else (self.broken.kind if self.broken else "stream")

    @property
    def is_executable(self) -> bool:
        """Whether something of ours fills it."""
        return bool(self.queries)

    @property
    def is_finite(self) -> bool:
        """Whether a materialization loads a batch and ends."""
        return any(query.is_finite for query in self.queries)

    @property
    def code_version(self) -> str | None:
        """One hash over the fingerprints of all queries that fill it; None for declared relations."""
        if not self.queries:
            return None
        if len(self.queries) == 1:
            return self.queries[0].fingerprint
        joined = "\n".join(sorted(query.fingerprint for query in self.queries))
        return "set:" + hashlib.sha256(joined.encode()).hexdigest()[:16]


def relation_props(project: Project) -> tuple[RelationProps, ...]:
    """Every relation of the project, those that were refused included, in the order of files."""
    known = [_props(project, relation) for relation in project.catalog.relations.values() if relation.columns]
    names = {props.name for props in known}
    broken = [_broken(project, item) for item in project.broken if item.name not in names]
    return tuple(sorted((*known, *broken), key=lambda props: (props.file, props.line)))


def _props(project: Project, relation: Relation) -> RelationProps:
    queries = project.queries_of(relation.name)
    kind = kind_of_store(project, relation)
    lineage: dict[str, tuple[tuple[QualifiedName, str], ...]] = {}
    for query in queries:
        for column, sources in query.lineage.items():
            lineage[column] = tuple(dict.fromkeys((*lineage.get(column, ()), *sources)))
    return RelationProps(
        name=relation.name,
        relation=relation,
        queries=queries,
        depends_on=project.depends_on.get(relation.name, ()),
        file=_absolute(project, relation.span.file),
        line=relation.span.line,
        text=_text(relation, queries),
        dagster_kinds=kind.capabilities.dagster_kinds,
        storage_kind=kind.capabilities.storage_kind,
        uri=uri_of(project, relation),
        table_name=relation.entity,
        default_group=Path(relation.span.file).stem,
        overlay=project.settings.overlay.path,
        lineage=MappingProxyType(lineage),
    )


def _text(relation: Relation, queries: tuple[BoundQuery, ...]) -> str:
    texts = dict.fromkeys([relation.origin.text, *(query.statement.origin.text for query in queries)])
    return ";\n\n".join(texts) + ";"


def _broken(project: Project, item: BrokenRelation) -> RelationProps:
    return RelationProps(
        name=item.name,
        relation=None,
        queries=(),
        depends_on=project.depends_on.get(item.name, ()),
        file=_absolute(project, item.span.file),
        line=item.span.line,
        text=item.text,
        default_group=Path(item.span.file).stem,
        broken=item,
        overlay=project.settings.overlay.path,
    )


def _absolute(project: Project, file: str) -> str:
    return str(project.settings.root / file)
