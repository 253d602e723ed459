"""Frozen statement records: most layers see SQL only as these records, not as text.

Identifiers are folded (unquoted → lower case). Names have only the parts that were written; the catalog completes them
from the context. sqlglot trees occur only in SELECT bodies (:class:`SelectBody`) and conditions of constraints. They
consist of sqlglot's own nodes and the nodes of ``sql/expressions.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Diagnostic, Span

RelationKind = Literal["stream", "changelog", "materialized_view", "table"]
ValueKind = Literal["string", "number", "boolean", "word", "identifier"]
OnViolation = Literal["warn", "drop", "fail", "quarantine"]


@dataclass(frozen=True, slots=True)
class Property:
    """``'name' = value`` of a WITH clause. ``name`` is lower case; ``value`` is the text, number or boolean as written,
    with its ``${NAME}`` references; ``kind`` is the form in which it was written."""

    name: str
    value: str | int | float | bool
    kind: ValueKind
    span: Span
    value_span: Span


@dataclass(frozen=True, slots=True)
class Comment:
    """The comment right above a statement: free text and tags (``-- @owner team:x``, ``@group``, ``@freshness 1h``)."""

    description: str = ""
    owners: tuple[str, ...] = ()
    group: str = ""
    freshness: str = ""
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """Database, schema and store that USE has set before the statement; empty parts come from the settings."""

    database: str = ""
    schema: str = ""
    store: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Place of a statement: its span, its text (without the semicolon), the comment above it, the context of USE, and
    the application it is in (folded name; empty if it is in none)."""

    span: Span
    text: str
    comment: Comment = Comment()
    context: Context = Context()
    application: str = ""


@dataclass(frozen=True, slots=True)
class WrittenName:
    """A name as written, folded, with its span: one to three parts; up to eight in paths of entities."""

    parts: tuple[str, ...]
    span: Span

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """``name TYPE [NOT NULL] [COMMENT 'text']`` in a column list. ``sql.column_comments`` reads the text."""

    name: str
    type: DataType
    nullable: bool
    span: Span


@dataclass(frozen=True, slots=True)
class ConstraintDefinition:
    """``CONSTRAINT name CHECK (condition) [ON VIOLATION …]`` in a list of columns.

    Attributes:
        name: folded.
        condition: condition on each row of the relation; a row satisfies it if it is TRUE or NULL.
        on_violation: action for a row that violates it; ``fail`` by default.
        span: span of the name.
        condition_span: span of the condition.
    """

    name: str
    condition: exp.Expression
    on_violation: OnViolation
    span: Span
    condition_span: Span


@dataclass(frozen=True, slots=True)
class SelectBody:
    """A SELECT with the clauses after it, PARTITION BY and QUERY WITH.

    Attributes:
        tree: :data:`ds_dagster.sql.expressions.AskedTree`; names of WITH are replaced by their sub-selects. Sources in
            FROM and JOIN are ``RelationRef``, ``WindowRef``, ``MatchRef`` or ``UnnestRef`` of ``sql/expressions.py`` or
            ``exp.Subquery``, each with an alias; WITH after a source is in the node's ``properties`` argument (a list
            of :class:`Property`); WITHIN is the ``within`` argument (milliseconds) of ``StreamJoin``.
        partition_by: columns of PARTITION BY after the SELECT.
        query_properties: properties of QUERY WITH (…).
        span: span of the SELECT and these clauses.
    """

    tree: exp.Expression
    span: Span
    partition_by: tuple[WrittenName, ...] = ()
    query_properties: tuple[Property, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStore:
    """CREATE STORE [IF NOT EXISTS] name WITH (…)."""

    origin: Origin
    name: WrittenName
    properties: tuple[Property, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchemaRegistry:
    """CREATE SCHEMA_REGISTRY [IF NOT EXISTS] name WITH (…)."""

    origin: Origin
    name: WrittenName
    properties: tuple[Property, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSecret:
    """CREATE SECRET [IF NOT EXISTS] name WITH (…)."""

    origin: Origin
    name: WrittenName
    properties: tuple[Property, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDescriptorSource:
    """CREATE DESCRIPTOR_SOURCE [IF NOT EXISTS] name WITH (…)."""

    origin: Origin
    name: WrittenName
    properties: tuple[Property, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFunctionSource:
    """CREATE FUNCTION_SOURCE [IF NOT EXISTS] name WITH (…)."""

    origin: Origin
    name: WrittenName
    properties: tuple[Property, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateComputePool:
    """CREATE COMPUTE_POOL [IF NOT EXISTS] name [WITH (…)]."""

    origin: Origin
    name: WrittenName
    properties: tuple[Property, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFunction:
    """CREATE FUNCTION [IF NOT EXISTS] name (argument TYPE, …) RETURNS TYPE LANGUAGE word WITH (…). ``language`` is
    lower case."""

    origin: Origin
    name: WrittenName
    arguments: tuple[ColumnDefinition, ...]
    returns: DataType
    language: str
    properties: tuple[Property, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConnection:
    """UPDATE {STORE|SCHEMA_REGISTRY} name WITH (…): adds or replaces properties of a declared store or registry."""

    origin: Origin
    what: Literal["store", "schema_registry"]
    name: WrittenName
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    """CREATE DATABASE [IF NOT EXISTS] name."""

    origin: Origin
    name: WrittenName
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema:
    """CREATE SCHEMA [IF NOT EXISTS] name [IN DATABASE db] or CREATE SCHEMA db.name."""

    origin: Origin
    name: WrittenName
    database: WrittenName | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEntity:
    """CREATE ENTITY path [IN STORE s] [WITH (…)]."""

    origin: Origin
    path: WrittenName
    store: WrittenName | None = None
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRelation:
    """CREATE {STREAM|CHANGELOG|TABLE} name (columns[, PRIMARY KEY (…)][, CONSTRAINT …]) WITH (…): a relation over an
    entity that other programs fill, or a sink of INSERT INTO. In slices of jobs also a view that another query
    fills."""

    origin: Origin
    kind: RelationKind
    name: WrittenName
    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[WrittenName, ...] = ()
    properties: tuple[Property, ...] = ()
    if_not_exists: bool = False
    constraints: tuple[ConstraintDefinition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAsSelect:
    """CREATE {STREAM|CHANGELOG|MATERIALIZED VIEW|TABLE} name [(CONSTRAINT …, …)] [WITH (…)] AS select: a relation and
    the query that fills it. ``virtual``: CREATE VIRTUAL {STREAM|CHANGELOG} name AS select, a relation without an entity
    inside an application."""

    origin: Origin
    kind: RelationKind
    name: WrittenName
    body: SelectBody
    properties: tuple[Property, ...] = ()
    if_not_exists: bool = False
    virtual: bool = False
    constraints: tuple[ConstraintDefinition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertInto:
    """INSERT INTO relation [(column, …)] select: another query that fills a declared relation. ``columns``: columns
    that the SELECT fills, in its order; empty for all columns of the relation."""

    origin: Origin
    target: WrittenName
    body: SelectBody
    columns: tuple[WrittenName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """BEGIN APPLICATION name statement; … END APPLICATION [WITH (…)]: several queries as one job. ``properties`` are
    defaults for QUERY WITH of its queries; the catalog adds them to the bodies."""

    origin: Origin
    name: WrittenName
    statements: tuple[CreateRelation | CreateAsSelect | InsertInto | Use, ...]
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """USE {DATABASE|SCHEMA|STORE} name: valid to the end of its file or application; the origins of later statements
    already have it in their context."""

    origin: Origin
    what: Literal["database", "schema", "store"]
    name: WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class Interactive:
    """SELECT, VALUES, PRINT, LIST, SHOW or DESCRIBE: for the command line; in a file skipped with a warning. ``body``
    for SELECT and VALUES only."""

    origin: Origin
    what: str
    body: SelectBody | None = None


Statement = (
    CreateStore | CreateSchemaRegistry | CreateSecret | CreateDescriptorSource | UpdateConnection
    | CreateFunctionSource | CreateFunction | CreateComputePool
    | CreateDatabase | CreateSchema | CreateEntity
    | CreateRelation | CreateAsSelect | InsertInto | Application | Use | Interactive
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """Statements of one file in order, and its diagnostics.

    ``broken`` holds the refused statements, with the relation's name if it could be read: it becomes a failing asset.
    """

    path: str
    statements: tuple[Statement, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    broken: tuple[BrokenStatement, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokenStatement:
    """A statement that was refused, with its first condition; ``kind`` and ``name`` are None if they could not be
    read."""

    origin: Origin
    condition: str
    kind: RelationKind | None = None
    name: WrittenName | None = None
