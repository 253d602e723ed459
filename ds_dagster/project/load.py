"""Loads a folder as a checked project: files → statements → catalog → plans → graph. Connects to nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.capabilities import Delivery
from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.declaring.builder import declare
from ds_dagster.catalog.declaring.declared import Declared, qualify
from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.properties.spec import PropertySpec, property_index
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.shared_entities import shared_entities
from ds_dagster.catalog.store import StoreAdmin, StoreDefinition, StoreKind
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import ProjectError, error
from ds_dagster.names import QualifiedName
from ds_dagster.plan.binding.assemble import Assembled, Refused, assemble
from ds_dagster.plan.identity.slices import slice_pieces
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.project.cluster import cluster_problems
from ds_dagster.project.collecting import without_collection
from ds_dagster.project.connections import with_own_connections
from ds_dagster.project.partitions import partition_warnings
from ds_dagster.project.renames import rename_problems
from ds_dagster.settings import Settings, load_settings
from ds_dagster.sql.script import parse_file
from ds_dagster.sql.source import SourceText
from ds_dagster.sql.statements import (
    Application,
    Comment,
    Context,
    CreateAsSelect,
    CreateRelation,
    Interactive,
    Origin,
    ParsedFile,
    Statement,
)
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.secret_values import SecretBook


@dataclass(frozen=True, slots=True)
class BrokenRelation:
    """A relation whose statement was refused: shown as a failing asset, so that the code location still loads. If only
    an INSERT INTO was refused, the relation is in the catalog as well."""

    name: QualifiedName
    kind: str
    span: Span
    diagnostics: tuple[Diagnostic, ...]
    text: str = ""
    comment: Comment = field(default_factory=Comment)


@dataclass(frozen=True, slots=True)
class SliceStatement:
    """One statement of a job's SQL slice, with its place (line and column count from 1) and its context (USE)."""

    text: str
    file: str
    line: int
    column: int
    database: str = ""
    schema: str = ""
    store: str = ""


@dataclass(frozen=True, slots=True)
class LoadedProject:
    """A loaded project. Mistakes are in ``diagnostics``; the correct statements are usable.

    Attributes:
        settings: of the folder.
        catalog: stores and relations, inferred properties included.
        queries: by query name, in an order in which sources come first.
        diagnostics: file order, root causes first.
        broken: relations that could not be built.
        statements: number of statements in the files.
        downstream: relation → names of the queries that read it (a relation that re-declares an entity counts as a
            reader of the relation whose query writes that entity, see ``depends_on``).
        asked: SELECTs in the files, which are not run.
        depends_on: relation → relations its data comes from (sources of its queries; for a declared relation, the
            relation whose query writes the same entity).
    """

    settings: Settings
    catalog: Catalog
    queries: Mapping[str, BoundQuery] = field(default_factory=lambda: MappingProxyType({}))
    diagnostics: tuple[Diagnostic, ...] = ()
    broken: tuple[BrokenRelation, ...] = ()
    statements: int = 0
    downstream: Mapping[QualifiedName, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    depends_on: Mapping[QualifiedName, tuple[QualifiedName, ...]] = field(default_factory=lambda: MappingProxyType({}))
    asked: tuple[Interactive, ...] = ()
    _filling: Mapping[QualifiedName, tuple[tuple[BoundQuery, Part], ...]] = field(init=False, repr=False, compare=False)
    """Relation → (job, part of the job) for each query that fills it."""

    def __post_init__(self) -> None:
        filling: dict[QualifiedName, list[tuple[BoundQuery, Part]]] = {}
        for query in self.queries.values():
            for part in query.parts:
                filling.setdefault(part.sink.name, []).append((query, part))
        object.__setattr__(self, "_filling", {name: tuple(pairs) for name, pairs in filling.items()})

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """Diagnostics that are not warnings."""
        return tuple(d for d in self.diagnostics if d.severity == "error")

    def queries_of(self, relation: QualifiedName) -> tuple[BoundQuery, ...]:
        """The jobs that fill a relation (several with INSERT INTO)."""
        return tuple({query.name: query for query, _ in self._filling.get(relation, ())}.values())

    def parts_of(self, relation: QualifiedName) -> tuple[Part, ...]:
        """The parts of jobs that fill a relation."""
        return tuple(part for _, part in self._filling.get(relation, ()))


def load_project(root: Path, *, settings: Settings | None = None, strict: bool = False) -> LoadedProject:
    """Load the project in a folder, from its cache if nothing has changed (``project/cache.py``).

    Args:
        root: folder with settings (its ``sql`` folder holds the statements).
        settings: to use instead of the folder's.
        strict: raise if there is any error.

    Raises:
        ProjectError: with ``strict`` and mistakes in the SQL.
        UserError: the settings are wrong.
    """
    from ds_dagster.project.cache import cached  # it caches records of this module

    settings = settings or load_settings(root)
    texts, unreadable = read_texts(settings)
    project = cached(texts, settings, lambda: compile_texts(texts, settings))
    if unreadable:
        project = replace(project, diagnostics=(*unreadable, *project.diagnostics))
    if strict and project.errors:
        raise ProjectError(project.diagnostics)
    return project


def read_texts(settings: Settings) -> tuple[tuple[tuple[str, str], ...], tuple[Diagnostic, ...]]:
    """(name, text) of all SQL files in order, names relative to the project where possible; and SQL_FILE_UNREADABLE for
    each file that could not be read."""
    texts: list[tuple[str, str]] = []
    unreadable: list[Diagnostic] = []
    for path in sorted(settings.sql.rglob("*.sql")):
        name = path.relative_to(settings.root) if path.is_relative_to(settings.root) else path
        try:
            texts.append((name.as_posix(), path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
            unread = error("SQL_FILE_UNREADABLE", span=Span(name.as_posix(), 1), file=name.as_posix(), reason=reason)
            unreadable.append(unread.diagnostic())
    return tuple(texts), tuple(unreadable)


def compile_texts(texts: Sequence[tuple[str, str]], settings: Settings) -> LoadedProject:
    """Compile a project from (file name, text) pairs in memory: for test cases, `ds query`, the engine."""
    with without_collection():
        return _compile([parse_file(name, text) for name, text in texts], settings, dict(texts))


def slice_of(project: LoadedProject, query: BoundQuery) -> tuple[SliceStatement, ...]:
    """All statements that a query needs to compile alone: its stores, the relations it reads as declarations (for a
    relation that another query makes, the inferred DDL), its own statement. No secret and no connection value of the
    overlay; ``plan/identity/slices.py`` decides which properties of a store are included."""
    pieces = slice_pieces(query, project.catalog, property_index(KINDS))
    return tuple(
        SliceStatement(text, at.file, at.line, at.column, c.database, c.schema, c.store) for text, at, c in pieces
    )


def compile_slice(statements: Sequence[SliceStatement], settings: Settings) -> LoadedProject:
    """The project of one job, from its slice: one query. Stores in the project's files replace the slice's copies."""
    files: list[ParsedFile] = []
    texts: dict[str, str] = {}
    for statement in statements:
        files.append(_parsed_piece(statement))
        texts.setdefault(statement.file, _placed(statement))
    if settings.sql.is_dir():
        files = list(with_own_connections(files, settings))
    return _compile(files, settings, texts, of_job=True)


# slices


def secret_reader(project: LoadedProject, environment: Mapping[str, str]) -> SecretBook:
    """A reader of the project's declared secrets, for the process that connects."""
    return SecretBook(project.catalog.secrets, environment)


def kind_of_store(project: LoadedProject, relation: Relation) -> StoreKind:
    """The kind of the relation's store."""
    return KINDS[project.catalog.store(relation.store).kind]


def storage_kind(project: LoadedProject, store: str) -> str:
    """The system of a declared store, as Dagster names it: ``kafka``, ``postgres``, …"""
    return KINDS[project.catalog.store(store).kind].capabilities.storage_kind


def keeps_slot(project: LoadedProject, relation: Relation) -> bool:
    """Whether a query reads this source through its own replication slot, which gives each change once."""
    return kind_of_store(project, relation).capabilities.keeps_slot


def properties_of_stores() -> Mapping[str, tuple[PropertySpec, ...]]:
    """Kind of store (``KAFKA``, …; plug-ins too) → the properties of its CREATE STORE."""
    return {name: kind.store_properties for name, kind in KINDS.items()}


def project_of_store(kind: str, values: Mapping[str, PropertyValue], settings: Settings) -> tuple[LoadedProject, str]:
    """A project of one store that no file declares, and the store's name."""
    span = Span("standalone", 1)
    store = StoreDefinition("standalone", kind, span, Origin(span, ""), values)
    return LoadedProject(settings, Catalog(stores={store.name: store})), store.name


def uri_of(project: LoadedProject, relation: Relation) -> str:
    """Where the relation's data is, without credentials."""
    return kind_of_store(project, relation).uri(project.catalog.store(relation.store), relation)


def delivery_of(project: LoadedProject, relation: Relation) -> Delivery | None:
    """The delivery guarantee of a relation that queries fill; None if no query of the project fills it."""
    if not project.queries_of(relation.name):
        return None
    return delivery(relation.kind, relation.properties, kind_of_store(project, relation))


def store_admin(project: LoadedProject, store: str, resolve: Resolver) -> StoreAdmin:
    """Connect to a declared store for control; close it after use.

    Raises:
        DsError: UNKNOWN_STORE, STORE_REFUSED, or conditions of the connection.
    """
    definition = project.catalog.store(store)
    return KINDS[definition.kind].admin(definition, resolve)


def client_settings(project: LoadedProject, store: str, resolve: Resolver) -> Mapping[str, Any]:
    """Arguments of the vendor's own client of a declared store, secrets resolved: keep them out of logs.

    Raises:
        UserError: UNKNOWN_STORE, ENVIRONMENT_REFERENCE_MISSING.
    """
    definition = project.catalog.store(store)
    return KINDS[definition.kind].client_settings(definition, resolve)


def _placed(statement: SliceStatement) -> str:
    """The text after as many empty lines and blanks as its place has before it, so that spans are those of its file."""
    return "\n" * (statement.line - 1) + " " * (statement.column - 1) + statement.text


def _parsed_piece(statement: SliceStatement) -> ParsedFile:
    context = Context(statement.database, statement.schema, statement.store)
    return parse_file(statement.file, _placed(statement), context, declares_views=True)


# compiling


def _compile(
    files: Sequence[ParsedFile], settings: Settings, texts: Mapping[str, str], *, of_job: bool = False
) -> LoadedProject:
    declared = declare(files, settings, KINDS)
    declared = replace(declared, pools=None) if of_job else declared
    unparsed = _unparsed(files, settings)
    assembled = assemble(declared, settings, KINDS, [broken.name for broken in unparsed])
    undeclared = _undeclared(files, declared, settings)
    diagnostics = [
        *(diagnostic for file in files for diagnostic in file.diagnostics),
        *_skipped(files),
        *cluster_problems(assembled, settings),
        *partition_warnings(assembled.catalog, assembled.queries),
        *rename_problems(assembled.queries, assembled.catalog.relations.values(), settings),
        *declared.diagnostics,
        *assembled.diagnostics,
        *shared_entities(
            part.sink for query in assembled.queries.values() for part in query.parts if not part.is_insert
        ),
    ]
    return LoadedProject(
        settings=settings,
        catalog=assembled.catalog,
        queries=assembled.queries,
        diagnostics=_in_order(diagnostics, texts),
        broken=_broken([*unparsed, *undeclared], assembled, texts),
        statements=sum(len(file.statements) + len(file.broken) for file in files),
        downstream=assembled.downstream,
        depends_on=assembled.depends_on,
        asked=tuple(s for file in files for s in file.statements if isinstance(s, Interactive) and s.body),
    )


def _skipped(files: Iterable[ParsedFile]) -> Iterator[Diagnostic]:
    for file in files:
        for statement in file.statements:
            if isinstance(statement, Interactive):
                problem = error("STATEMENT_SKIPPED", span=statement.origin.span, what=statement.what.upper())
                yield replace(problem.diagnostic(), severity="warning")


def _unparsed(files: Iterable[ParsedFile], settings: Settings) -> list[BrokenRelation]:
    """Relations whose statement did not parse but whose name could be read."""
    relations: list[BrokenRelation] = []
    for file in files:
        for broken in file.broken:
            if broken.name is None or broken.kind is None or len(broken.name.parts) > 3:
                continue
            origin = broken.origin
            name = qualify(broken.name, origin.context, settings)
            own = tuple(d for d in file.diagnostics if d.span and _inside(d.span, origin.span))
            relations.append(BrokenRelation(name, broken.kind, origin.span, own, origin.text, origin.comment))
    return relations


def _undeclared(files: Iterable[ParsedFile], declared: Declared, settings: Settings) -> list[BrokenRelation]:
    """Relations whose declaration was refused."""
    relations: list[BrokenRelation] = []
    for file in files if declared.refused else ():
        for statement in _flat(file):
            if not isinstance(statement, CreateRelation) or len(statement.name.parts) > 3:
                continue
            name, origin = qualify(statement.name, statement.origin.context, settings), statement.origin
            own = tuple(d for d in declared.diagnostics if d.span and _inside(d.span, origin.span))
            if name in declared.refused and own:
                relations.append(BrokenRelation(name, statement.kind, origin.span, own, origin.text, origin.comment))
    return relations


def _flat(file: ParsedFile) -> Iterator[Statement]:
    for statement in file.statements:
        yield from (statement.statements if isinstance(statement, Application) else (statement,))


def _inside(span: Span, statement: Span) -> bool:
    last = statement.end_line or statement.line
    return span.file == statement.file and statement.line <= span.line <= last


def _broken(
    unparsed: Sequence[BrokenRelation], assembled: Assembled, texts: Mapping[str, str]
) -> tuple[BrokenRelation, ...]:
    """All broken relations, each once."""
    by_name: dict[QualifiedName, BrokenRelation] = {}
    for broken in unparsed:
        by_name.setdefault(broken.name, replace(broken, diagnostics=_in_order(broken.diagnostics, texts)))
    for refused in assembled.refused:
        if refused.node.virtual is not None:
            continue
        by_name.setdefault(refused.node.target, _of_refused(refused, assembled, texts))
    return tuple(by_name.values())


def _of_refused(refused: Refused, assembled: Assembled, texts: Mapping[str, str]) -> BrokenRelation:
    statement = refused.node.named.statement
    target = refused.node.target
    declared = assembled.catalog.relations.get(target)
    kind = statement.kind if isinstance(statement, CreateAsSelect) else (declared.kind if declared else "stream")
    diagnostics = _in_order(refused.diagnostics, texts)
    origin = statement.origin
    return BrokenRelation(target, kind, origin.span, diagnostics, origin.text, origin.comment)


def _in_order(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """Root causes first, then by place; each with its line of SQL."""
    sources: dict[str, SourceText] = {}
    shown = [_with_fragment(diagnostic, texts, sources) for diagnostic in dict.fromkeys(diagnostics)]
    nowhere = Span("", 0)
    return tuple(sorted(shown, key=lambda d: (bool(d.caused_by), _position(d.span or nowhere))))


def _position(span: Span) -> tuple[str, int, int]:
    return (span.file, span.line, span.column)


def _with_fragment(diagnostic: Diagnostic, texts: Mapping[str, str], sources: dict[str, SourceText]) -> Diagnostic:
    span = diagnostic.span
    if diagnostic.fragment or span is None or span.file not in texts:
        return diagnostic
    source = sources.setdefault(span.file, SourceText(span.file, texts[span.file]))
    if span.line > len(source.line_starts):
        return diagnostic
    return replace(diagnostic, fragment=source.line_text(span.line))
