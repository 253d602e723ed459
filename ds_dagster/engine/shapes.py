"""What the sources of a job are outside: the schemas of their records in a registry, the columns of their tables."""

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
"""Of the digest that stands for the version of a table's columns."""


@dataclass(frozen=True, slots=True)
class ShapeLook:
    """What was found of one subject.

    Attributes:
        shape: the newest one; ``change`` where it is another one than was known.
        unknown: declared columns that it does not give.
        outdated: why the query has to start again to read by it; empty where it need not.
    """

    shape: SourceShape
    unknown: tuple[str, ...] = ()
    outdated: str = ""


class WatchedShape(Protocol):
    """A part of a source whose shape can change while it is read.

    Attributes:
        source: of the query.
        key: names it in the history of the job.
        connection: equal for those that can share a connection.
    """

    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def connection(self) -> object: ...  # noqa: D102

    def connect(self) -> Any:
        """Open a connection, which is closed by ``close``."""

    def look(self, client: Any, previous: KnownShape | None) -> ShapeLook | None:
        """Look once; None where there is nothing.

        Args:
            client: the connection.
            previous: the shape that the job's history knows.

        Raises:
            DsError: of registries and stores.
        """


@dataclass(frozen=True, slots=True)
class WatchedSubject:
    """Schemas of keys or values in a registry.

    Attributes:
        relation: that declares the columns.
        read: with the schema that is in force, which the query began with.
        registry: with the login that the query began with; a secret is not read again, so that a rotated one is noticed
            where it is used.
        connection: see :class:`WatchedShape`; holds secrets, never shown.
    """

    source: str
    relation: str
    read: ReadPart
    registry: SchemaRegistry = field(repr=False, compare=False)
    connection: object = field(repr=False)

    @property
    def part(self) -> SchemaPart:
        """Its subject, and what is in force."""
        return self.read.part

    @property
    def key(self) -> str:
        """Names it in the history of the job."""
        return f"{self.registry.name}/{self.part.subject}"

    def connect(self) -> SchemaRegistry:
        """The registry; closed after a round, it connects again in the next one."""
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
        """Columns whose rules differ from those in force. An older version than the one in force is a replica's."""
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
        columns: of the table, which the relation declares.
        open: opens operations on the entities of its store, with the login that the query began with.
    """

    source: str
    relation: Relation
    table: str
    columns: tuple[Column, ...]
    open: Callable[[], Any] = field(repr=False, compare=False)

    @property
    def key(self) -> str:
        """Names it in the history of the job."""
        return f"{self.relation.store}/{self.table}"

    @property
    def connection(self) -> object:
        """One for each query that reads from the store."""
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
        source: its name in the query.
        relation: that is read.
        schemas: of its read spec, with what is in force; None where its format has none.
        resolve: resolves references of the registry, here and not later.
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
    """The shape that was found last, else the one of the history."""
    look = looks.get(key)
    return history.get(key) if look is None else KnownShape(look.shape.version, look.shape.text)
