"""One relation for the Dagster surface: a frozen record made from a loaded project, without Dagster types."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.names import QualifiedName, safe_name
from ds_dagster.orchestration.remembered import Remembered, remembered
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import BrokenRelation, LoadedProject, kind_of_store, uri_of
from ds_dagster.project.partitions import partitions_refused
from ds_dagster.sql.annotations import Automation, automations_of
from ds_dagster.sql.column_comments import column_comments
from ds_dagster.sql.partitions import Partitions, partitions_in
from ds_dagster.sql.statements import ConstraintDefinition
from ds_dagster.sql.thresholds import Threshold, thresholds_of

ColumnSources = tuple[tuple[QualifiedName, str], ...]


@dataclass(frozen=True, slots=True)
class RelationProps:
    """One relation as a translator sees it.

    Attributes:
        name: qualified name.
        relation: the record, None when its statement was refused.
        queries: the queries that fill it; empty for declared relations that others fill.
        depends_on: relations its data comes from.
        file, line: where it is defined (absolute path).
        text: its statements.
        dagster_kinds, storage_kind, uri, table_name: of its store.
        default_group: the SQL file's name without ending.
        broken: set when its statement, or one of the INSERT INTO that fill it, was refused.
        wrong_tags: mistakes for invalid tags in its comment; the relation is shown without these tags.
        partitions: ``@partitions`` of its comment, where ranges of its rows can be computed again.
        overlay: path of the overlay in force, empty without one.
        lineage: column → source columns.
        column_comments: column → its comment. A column without a comment inherits the comment of its source column, if
            it has only one and both have the same name.
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
    wrong_tags: tuple[Diagnostic, ...] = ()
    partitions: Partitions | None = None
    overlay: str = ""
    lineage: Mapping[str, ColumnSources] = field(default_factory=lambda: MappingProxyType({}))
    column_comments: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def kind(self) -> str:
        """stream, changelog, materialized_view or table."""
        return self.relation.kind if self.relation else (self.broken.kind if self.broken else "stream")

    @property
    def is_executable(self) -> bool:
        """Whether a query of the project fills it."""
        return bool(self.queries)

    @property
    def is_finite(self) -> bool:
        """Whether a materialization loads a batch and ends."""
        return any(query.is_finite for query in self.queries)

    @property
    def is_stream(self) -> bool:
        """Whether long-lived queries fill it."""
        return self.is_executable and not self.is_finite

    @property
    def mistakes(self) -> tuple[Diagnostic, ...]:
        """The mistakes that its check ``compiles`` reports; empty if everything is valid."""
        return (*(self.broken.diagnostics if self.broken else ()), *self.wrong_tags)

    @property
    def application(self) -> str:
        """The application that all its queries belong to; empty if there is none."""
        names = {query.name if query.is_application else "" for query in self.queries}
        return names.pop() if len(names) == 1 else ""

    @property
    def code_version(self) -> str | None:
        """One hash over the fingerprints of all queries that fill it; None for declared relations."""
        if not self.queries:
            return None
        if len(self.queries) == 1:
            return self.queries[0].fingerprint
        joined = "\n".join(sorted(query.fingerprint for query in self.queries))
        return "set:" + hashlib.sha256(joined.encode()).hexdigest()[:16]

    @property
    def automations(self) -> tuple[Automation, ...]:
        """The ``@automation`` tags of its comment."""
        return automations_of(self.relation.comment) if self.relation else ()

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """The ``@check`` tags of its comment."""
        return thresholds_of(self.relation.comment) if self.relation and self.is_executable else ()

    @property
    def constraint_checks(self) -> Mapping[str, ConstraintDefinition]:
        """Its constraints, by the names of their checks."""
        checks: dict[str, ConstraintDefinition] = {}
        for constraint in self.relation.constraints if self.relation else ():
            name = f"constraint_{safe_name(constraint.name)}"
            checks[name if name not in checks else f"{name}_{len(checks)}"] = constraint
        return checks

    @property
    def is_redeployed(self) -> bool:
        """Whether it has ``@automation on_change``: the next materialization deploys a changed definition that keeps
        the checkpoint."""
        return Automation() in self.automations

    def tag(self, name: str) -> str:
        """An ``@`` tag of the comment, empty when it is not there."""
        tags = self.relation.comment.tags if self.relation else ()
        return next((value for key, value in tags if key == name), "")


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """Mistakes of a SQL file that belong to no relation (a store, a text that is not a statement)."""

    file: str
    path: str
    diagnostics: tuple[Diagnostic, ...]


def relation_props(project: LoadedProject) -> tuple[RelationProps, ...]:
    """Every relation of the project, including refused ones, in the order of files. A refused relation whose query
    still runs is shown as the journal has it."""
    broken = {item.name: item for item in project.broken}
    remembered_items = remembered(project)
    declared = [
        _props(project, relation, broken.get(relation.name))
        for relation in project.catalog.relations.values()
        if relation.columns
    ]
    names = {props.name for props in declared}
    lost = [_remembered(project, item, name) for name, item in remembered_items.items() if name not in names]
    names |= remembered_items.keys()
    refused = [_refused(project, item) for item in project.broken if item.name not in names]
    return tuple(sorted(_commented((*declared, *lost, *refused)), key=lambda props: (props.file, props.line)))


def broken_files(project: LoadedProject) -> tuple[BrokenFile, ...]:
    """Mistakes that no relation shows, by file."""
    shown = {_identity(diagnostic) for item in project.broken for diagnostic in item.diagnostics}
    by_file: dict[str, list[Diagnostic]] = {}
    for diagnostic in project.errors:
        if _identity(diagnostic) not in shown:
            by_file.setdefault(diagnostic.span.file if diagnostic.span else "project", []).append(diagnostic)
    return tuple(BrokenFile(file, _absolute(project, file), tuple(items)) for file, items in by_file.items())


def text_of(diagnostics: Sequence[Diagnostic]) -> str:
    """Mistakes as people read them."""
    return "\n".join(diagnostic.text() for diagnostic in diagnostics)


def _identity(diagnostic: Diagnostic) -> tuple[str, str, str]:
    return (diagnostic.condition, diagnostic.message, str(diagnostic.span))


def _props(project: LoadedProject, relation: Relation, broken: BrokenRelation | None) -> RelationProps:
    queries = project.queries_of(relation.name)
    kind = kind_of_store(project, relation)
    lineage: dict[str, ColumnSources] = {}
    for part in project.parts_of(relation.name):
        for column, sources in part.lineage.items():
            lineage[column] = tuple(dict.fromkeys((*lineage.get(column, ()), *sources)))
    refused = partitions_refused(project.catalog, relation, queries)
    return RelationProps(
        name=relation.name,
        relation=relation,
        queries=queries,
        depends_on=project.depends_on.get(relation.name, ()),
        file=_absolute(project, relation.span.file),
        line=relation.span.line,
        text=_sql_text(relation, queries),
        dagster_kinds=kind.capabilities.dagster_kinds,
        storage_kind=kind.capabilities.storage_kind,
        uri=uri_of(project, relation),
        table_name=relation.entity,
        default_group=Path(relation.span.file).stem,
        broken=broken,
        wrong_tags=(refused,) if refused else (),
        partitions=None if refused else partitions_in(relation.comment),
        overlay=project.settings.overlay.path,
        lineage=MappingProxyType(lineage),
    )


def _commented(all_props: Sequence[RelationProps]) -> Iterator[RelationProps]:
    """The relations with the comments on their columns, own and inherited."""
    by_name = {props.name: props for props in all_props}
    comments: dict[QualifiedName, Mapping[str, str]] = {}

    def comments_of(name: QualifiedName) -> Mapping[str, str]:
        props = by_name.get(name)
        if props is None or props.relation is None:
            return {}
        if name not in comments:
            comments[name] = {}  # a loop of INSERT INTO ends here
            relation = props.relation
            own = column_comments(relation.origin, [(column.name, column.span) for column in relation.columns])
            comments[name] = {**_inherited(props), **own}
        return comments[name]

    def _inherited(props: RelationProps) -> dict[str, str]:
        single = {column: sources[0] for column, sources in props.lineage.items() if len(sources) == 1}
        inherited = {
            column: comments_of(name).get(column) for column, (name, source) in single.items() if source == column
        }
        return {column: comment for column, comment in inherited.items() if comment}

    return (replace(props, column_comments=MappingProxyType(dict(comments_of(props.name)))) for props in all_props)


def _sql_text(relation: Relation, queries: tuple[BoundQuery, ...]) -> str:
    texts = dict.fromkeys([relation.origin.text, *(query.statement.origin.text for query in queries)])
    return "\n\n".join(text.rstrip().rstrip(";") + ";" for text in texts if text)


def _remembered(project: LoadedProject, item: Remembered, name: QualifiedName) -> RelationProps:
    """A relation as its running query has it, with the place and the mistakes of today's statement."""
    ran = next(sink for sink in item.query.sinks if sink.name == name)
    relation = replace(ran, origin=replace(ran.origin, comment=item.broken.comment))  # a slice has no comments
    span = item.broken.span
    return replace(
        _props(item.project, relation, replace(item.broken, name=name, kind=relation.kind)),
        file=_absolute(project, span.file),
        line=span.line,
        text=item.broken.text or _sql_text(relation, (item.query,)),
        default_group=Path(span.file).stem,
    )


def _refused(project: LoadedProject, item: BrokenRelation) -> RelationProps:
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


def _absolute(project: LoadedProject, file: str) -> str:
    return str(project.settings.root / file)
