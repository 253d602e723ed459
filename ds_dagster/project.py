"""How a folder becomes a checked project: files → statements → catalog → plans → graph. Loads from files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.names import QualifiedName
from ds_dagster.plan.query import BoundQuery
from ds_dagster.settings import Settings


@dataclass(frozen=True, slots=True)
class BrokenRelation:
    """A relation whose statement was refused: shown as a failing asset instead of a dead code location."""

    name: QualifiedName
    kind: str
    span: Span
    diagnostics: tuple[Diagnostic, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class SliceStatement:
    """One statement of a job's SQL slice, with the place and context it was written in."""

    text: str
    file: str
    line: int
    column: int
    database: str = ""
    schema: str = ""
    store: str = ""


@dataclass(frozen=True, slots=True)
class Project:
    """A loaded project. Mistakes are in ``diagnostics``; everything that is right is usable all the same.

    Attributes:
        settings: of the folder.
        catalog: stores and relations, inferred properties included.
        queries: by query name, in an order in which sources come first.
        diagnostics: file order, root causes first.
        broken: relations that could not be built.
        statements: how many were read.
        downstream: relation → names of the queries that read it (a relation that re-declares an entity counts as a reader of
            the relation whose query writes that entity, see ``depends_on``).
        depends_on: relation → relations its data comes from (sources of its queries; for a declared relation, the relation
            whose query writes the same entity).
    """

    settings: Settings
    catalog: Catalog
    queries: Mapping[str, BoundQuery] = field(default_factory=lambda: MappingProxyType({}))
    diagnostics: tuple[Diagnostic, ...] = ()
    broken: tuple[BrokenRelation, ...] = ()
    statements: int = 0
    downstream: Mapping[QualifiedName, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    depends_on: Mapping[QualifiedName, tuple[QualifiedName, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """Diagnostics that are not warnings."""
        return tuple(d for d in self.diagnostics if d.severity == "error")

    def queries_of(self, relation: QualifiedName) -> tuple[BoundQuery, ...]:
        """The queries that fill a relation (several with INSERT INTO)."""
        return tuple(query for query in self.queries.values() if query.sink.name == relation)


def load_project(root: Path, *, settings: Settings | None = None, strict: bool = False) -> Project:
    """Load the project in a folder.

    Args:
        root: folder with settings (its ``sql`` folder holds the statements).
        settings: instead of those of the folder.
        strict: raise when there is any error.

    Raises:
        ProjectError: with ``strict`` and mistakes in the SQL.
        UserError: the settings are wrong.
    """
    raise NotImplementedError


def compile_texts(texts: Sequence[tuple[str, str]], settings: Settings) -> Project:
    """The same from (file name, text) pairs in memory: test cases, `ds query`, the engine."""
    raise NotImplementedError


def slice_of(project: Project, query: BoundQuery) -> tuple[SliceStatement, ...]:
    """Everything the query needs to compile alone: its stores, the relations it reads as declarations (a relation made by
    another query is carried as the DDL that inference arrived at), its own statement. No secret, no connection value."""
    raise NotImplementedError


def compile_slice(statements: Sequence[SliceStatement], settings: Settings) -> Project:
    """The project of one job, from its slice: one query."""
    raise NotImplementedError
