"""Shapes of a job's sources: the schemas of their records in a registry, and the columns of their tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ds_dagster.catalog.io_spec import Resolver, SchemaPart, SchemaSpec
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.reading.changed_tables import TellsTables, shape_of
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.schemas.evolution import Evolution, RecordShape, described
from ds_dagster.catalog.schemas.formats import FORMATS, ReadPart, read_parts
from ds_dagster.errors import DsError, error_of
from ds_dagster.runtime.host import KnownShape, SourceShape
from ds_dagster.stores.schema_registry import RegisteredSchema, SchemaRegistry

DIGITS = 12
"""Hexadecimal digits of the digest that identifies a version of a table's columns."""


@dataclass(frozen=True, slots=True)
class ShapeLook:
    """Result of a look at one subject or table.

    Attributes:
        shape: the newest shape; its ``change`` is set if it differs from the previous shape.
        unknown: declared columns that the shape lacks.
        outdated: why the query must restart to read with this shape; empty if no restart is needed.
    """

    shape: SourceShape
    unknown: tuple[str, ...] = ()
    outdated: str = ""


class WatchedShape(Protocol):
    """A part of a source whose shape can change while it is read.

    Attributes:
        source: name of the source in the query.
        key: name of the part in the job's history of shapes.
        connection: equal for parts that can share a connection.
    """

    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def connection(self) -> object: ...  # noqa: D102

    def connect(self) -> Any:
        """Open a connection; the caller closes it with ``close``."""

    def look(self, client: Any, previous: KnownShape | None) -> ShapeLook | None:
        """Look once; None if the subject or the table does not exist.

        Args:
            client: the connection.
            previous: the last shape in the job's history.

        Raises:
            DsError: the registry or the store fails.
        """


@dataclass(frozen=True, slots=True)
class WatchedSubject:
    """Schemas of keys or values in a registry.

    Attributes:
        relation: name of the relation that declares the columns.
        read: the part with the current schema, with which the query began.
        registry: with the login of the query's start. Secrets are not read again, so a login with a rotated secret is
            refused.
        connection: see :class:`WatchedShape`; holds secrets, never shown.
    """

    source: str
    relation: str
    read: ReadPart
    registry: SchemaRegistry = field(repr=False, compare=False)
    connection: object = field(repr=False)

    @property
    def part(self) -> SchemaPart:
        """The subject and its current schema."""
        return self.read.part

    @property
    def key(self) -> str:
        """Name in the job's history: ``registry/subject``."""
        return f"{self.registry.name}/{self.part.subject}"

    def connect(self) -> SchemaRegistry:
        """The registry; it is closed after each round and connects again in the next round."""
        return self.registry

    def look(self, client: SchemaRegistry, previous: KnownShape | None) -> ShapeLook | None:
        """The newest version of the subject."""
        newest = client.latest(self.part.subject, FORMATS[self.part.format].type)
        if newest is None:
            return None
        shape = self.read.shape(newest.schema)
        version = str(newest.version)
        before = previous.version if previous is not None else str(self.part.version or newest.version)
        change = None if before == version else self._change(client, before, newest, shape)
        newest_shape = SourceShape(self.key, version, before=before, change=change)
        return ShapeLook(newest_shape, shape.unknown(self.read.own), self._outdated(newest, shape))

    def _change(self, client: SchemaRegistry, before: str, newest: RegisteredSchema, shape: RecordShape) -> DsError:
        old = self._schema_of(client, before)
        evolution = Evolution.between(shape if old is None else self.read.shape(old), shape)
        gone, unlisted = "is NULL in records of this version", ", or run `ds schemas` if it lists none"
        meaning = described(evolution, self.read.columns, self.relation, gone, unlisted)
        if old is None:
            meaning = {**meaning, "difference": f"version {before}, which was read before, is deleted"}
        params = {"registry": self.registry.name, "subject": self.part.subject, "version": newest.version}
        return error_of("SOURCE_SCHEMA_CHANGED", {**params, **meaning})

    def _schema_of(self, client: SchemaRegistry, version: str) -> str | None:
        if version == str(self.part.version):
            return self.part.schema
        old = client.version(self.part.subject, int(version), FORMATS[self.part.format].type)
        return None if old is None else old.schema

    def _outdated(self, newest: RegisteredSchema, shape: RecordShape) -> str:
        """Why the query must restart: columns whose rules differ from the current ones; empty if there are none. A
        version older than the current one comes from a lagging replica and is ignored."""
        if newest.version <= self.part.version:
            return ""
        rules = self.read.shape(self.part.schema).rules if self.part.schema else {}
        changed = [c.name for c in self.read.columns if rules.get(c.name) != shape.rules.get(c.name)]
        columns = ", ".join(changed)
        return f"version {newest.version} of {self.part.subject} changes how {columns} is read" if changed else ""


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """Columns of a table whose changes are read.

    Attributes:
        columns: columns of the table that the relation declares.
        open: opens operations on the entities of its store, with the login of the query's start.
    """

    source: str
    relation: Relation
    table: str
    columns: tuple[Column, ...]
    open: Callable[[], Any] = field(repr=False, compare=False)

    @property
    def key(self) -> str:
        """Name in the job's history: ``store/table``."""
        return f"{self.relation.store}/{self.table}"

    @property
    def connection(self) -> object:
        """Equal for the tables that one source of a query reads from the store."""
        return (self.relation.store, self.open)

    def connect(self) -> Any:
        """Operations on the entities of the store."""
        return self.open()

    def look(self, client: Any, previous: KnownShape | None) -> ShapeLook | None:
        """The columns that the table has now."""
        columns = client.columns_of(self.relation, self.table)
        if not columns:
            return None
        shape = shape_of(columns)
        text = json.dumps(dict(shape.fields), ensure_ascii=False)
        version = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
        before = version if previous is None else previous.version
        change = None if previous is None or before == version else self._change(previous, shape)
        unknown = shape.unknown([column.name for column in self.columns])
        return ShapeLook(SourceShape(self.key, version, text, before, change), unknown)

    def _change(self, previous: KnownShape, shape: RecordShape) -> DsError:
        evolution = Evolution.between(RecordShape(json.loads(previous.text)), shape)
        gone = "ends the query with CDC_COLUMN_GONE at the first change without it"
        meaning = described(evolution, self.columns, str(self.relation.name), gone)
        params = {"table": self.table, "store": self.relation.store}
        return error_of("SOURCE_TABLE_CHANGED", {**params, **meaning})


def watched_subjects(
    source: str, relation: Relation, schemas: SchemaSpec | None, resolve: Resolver
) -> Iterator[WatchedSubject]:
    """Subjects of the records of a source.

    Args:
        source: name of the source in the query.
        relation: the relation that is read.
        schemas: of its read spec, with the current schemas; None if its format has no schemas.
        resolve: resolves references of the registry; called only here.
    """
    spec = schemas.registry if schemas is not None else None
    if spec is None:
        return
    settings = {name: PropertyValue(resolve(value), secret=value.secret) for name, value in spec.options.items()}
    registry = SchemaRegistry(replace(spec, options=settings), lambda value: str(value.value))
    connection = (spec.name, tuple(sorted((name, str(value.value)) for name, value in settings.items())))
    for read in read_parts(relation, schemas):
        yield WatchedSubject(source, str(relation.name), read, registry, connection)


def watched_tables(source: str, relation: Relation, open_: Callable[[], Any]) -> Iterator[WatchedTable]:
    """Tables whose changes a source reads; ``open_`` opens operations on the entities of its store."""
    operations = open_()
    if isinstance(operations, TellsTables):
        for table, columns in operations.tables_read(relation).items():
            yield WatchedTable(source, relation, table, columns, open_)


def known_of(looks: Mapping[str, ShapeLook], history: Mapping[str, KnownShape], key: str) -> KnownShape | None:
    """The shape of the last look, else the shape in the job's history, else None."""
    look = looks.get(key)
    return history.get(key) if look is None else KnownShape(look.shape.version, look.shape.text)
