"""A compiled project in the state folder, used while nothing changed.

The key covers the versions of this package, sqlglot and Python, the project's settings, and the text of every file. A
cache file with another key is never unpickled, so it never crosses versions.

The file holds no stores and no settings, which may hold secrets. On loading, the CREATE STORE statements are read again
from the project's files; if their kinds or diagnostics have changed, the project is compiled again. The tree of a
SELECT is parsed again when it is first used.
"""

from __future__ import annotations

import contextlib
import copyreg
import hashlib
import importlib.metadata
import io
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.declaring.builder import declare
from ds_dagster.catalog.declaring.declared import Declared
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.reading.starting import StartingPoint
from ds_dagster.catalog.relation import Column, EventTime, RecordKey, Relation
from ds_dagster.catalog.schemas.descriptors import descriptors_digest
from ds_dagster.catalog.schemas.recorded import recorded_digest
from ds_dagster.catalog.schemas.registry import RegistryDefinition
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.catalog.user_function import functions_digest
from ds_dagster.datatypes import Scalar
from ds_dagster.diagnostics import Span
from ds_dagster.names import QualifiedName
from ds_dagster.plan.expressions.binder import BOUND_NODES
from ds_dagster.plan.nodes.aggregate import AggregateCall
from ds_dagster.plan.nodes.node import BoundExpression, Named, Node
from ds_dagster.plan.nodes.scan import SourceTime
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.project.collecting import without_collection
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_file, parse_statement
from ds_dagster.sql.source import SourceText
from ds_dagster.sql.statements import (
    Comment,
    Context,
    CreateAsSelect,
    InsertInto,
    Interactive,
    Origin,
    ParsedFile,
    Property,
    SelectBody,
    WrittenName,
)
from ds_dagster.stores.registry import KINDS
from ds_dagster.version import __version__

if TYPE_CHECKING:
    from ds_dagster.project.load import LoadedProject

WORTH_SECONDS = 0.25
"""A project that compiles in less processor time is not cached."""
_KEY_LENGTH = 64
_NOT_IN_KEY = frozenset({"store_values", "source_names", "ordered_state", "pool"})
"""Settings of one job or one engine, and values of stores, which are read again."""
_READ_AGAIN = frozenset({"stores", "refused_stores", "secrets", "registries"})
"""Fields of the catalog that are read again; all others are cached."""
_GIVEN = frozenset({"settings", "catalog"})
"""Fields of the project that are not cached as they are; all others are."""
_UNUSABLE = (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError, TypeError, ValueError)
Texts = Sequence[tuple[str, str]]
StorePlaces = list[tuple[str, int, int]]


def _names(kind: type[Any], without: frozenset[str] = frozenset()) -> list[str]:
    """Fields that the constructor of a record takes, but some."""
    return [field.name for field in fields(kind) if field.init and field.name not in without]


class LazyBody(SelectBody):
    """A SELECT whose tree is parsed from the statement's text when it is first needed."""

    __slots__ = ("_known", "_statement")
    _known: exp.Expression | None
    _statement: tuple[str, str, str]

    @property
    def tree(self) -> exp.Expression:
        """The SELECT."""
        if self._known is None:
            statement = parse_statement(*self._statement)
            assert isinstance(statement, CreateAsSelect | InsertInto | Interactive) and statement.body is not None
            object.__setattr__(self, "_known", statement.body.tree)
        assert self._known is not None
        return self._known


def cached(texts: Texts, settings: Settings, build: Callable[[], LoadedProject]) -> LoadedProject:
    """The project of these files: from the cache if the key is the same, else built and, if that took long, cached.

    Args:
        texts: (name, text) of all SQL files.
        settings: of the project.
        build: compiles it.
    """
    path = settings.state / "cache" / "project.bin"
    key = cache_key(texts, settings)
    loaded = _load(path, key, texts, settings)
    if loaded is not None:
        return loaded
    begin = time.process_time()
    with without_collection():
        project = build()
        if time.process_time() - begin > WORTH_SECONDS:
            _save(path, key, project, texts, settings)
    return project


def cache_key(texts: Texts, settings: Settings) -> str:
    """Hash of everything a compiled project depends on."""
    digest = hashlib.sha256()
    parts = (__version__, importlib.metadata.version("sqlglot"), sys.version, sorted(KINDS))
    chosen = {name: getattr(settings, name) for name in _names(Settings, _NOT_IN_KEY)}
    digest.update(json.dumps([parts, chosen], default=_plain, sort_keys=True).encode())
    digest.update(recorded_digest(settings.root) + descriptors_digest(settings.root, texts))
    digest.update(functions_digest(settings.root, texts))
    for name, text in texts:
        digest.update(f"\0{name}\0{len(text)}\0".encode())
        digest.update(text.encode())
    return digest.hexdigest()


def _plain(value: object) -> object:
    """Settings as JSON."""
    if isinstance(value, Mapping):
        return dict(value)
    return {name: getattr(value, name) for name in _names(type(value))} if is_dataclass(value) else str(value)


# stores: read again, never cached


def _store_places(texts: Texts, project: LoadedProject) -> StorePlaces:
    """Where the statements about stores, schema registries and secrets are: (file, first and last offset)."""
    places: StorePlaces = []
    sources = {name: SourceText(name, text) for name, text in texts}
    for origin in _origins(project):
        span, source = origin.span, sources.get(origin.span.file)
        if source is not None and span.end_line is not None and span.end_column is not None:
            start = source.line_starts[span.line - 1] + span.column - 1
            end = source.line_starts[span.end_line - 1] + span.end_column - 1
            places.append((span.file, start, end))
    return places


def _origins(project: LoadedProject) -> list[Origin]:
    """Statements of the secrets, schema registries and stores of the files, with their updates."""
    stores = [store for store in project.catalog.stores.values() if store.origin.text]
    connections: list[StoreDefinition | RegistryDefinition] = [*project.catalog.registries.values(), *stores]
    secrets = (secret.origin for secret in project.catalog.secrets.values())
    return [*secrets, *(origin for connection in connections for origin in (connection.origin, *connection.updates))]


def _declared_stores(texts: Texts, places: StorePlaces, settings: Settings) -> Declared:
    by_name = dict(texts)
    files: list[ParsedFile] = []
    for file, start, end in places:
        before = by_name[file][:start]
        line_start = before.rfind("\n") + 1
        padded = "\n" * before.count("\n") + " " * (start - line_start) + by_name[file][start:end]
        files.append(parse_file(file, padded))
    return declare(files, settings, KINDS)


def _summary(declared: Declared) -> list[object]:
    """The facts of stores that a compiled project depends on: their kinds and diagnostics."""
    kinds = sorted((store.name, store.kind) for store in declared.stores.values())
    return [kinds, [(d.condition, d.message, str(d.span)) for d in declared.diagnostics]]


# pickling


def _frozen_mapping(values: dict[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(values)


def _node(kind: type[exp.Expression], args: dict[str, Any]) -> exp.Expression:
    return kind(**args)


def _statement(
    kind: type[CreateAsSelect | InsertInto | Interactive], values: dict[str, Any], body: tuple[Any, ...]
) -> object:
    """A statement whose SELECT is parsed when it is first used."""
    lazy = object.__new__(LazyBody)
    origin = values["origin"]
    for name, value in zip(("span", "partition_by", "query_properties"), body, strict=True):
        object.__setattr__(lazy, name, value)
    object.__setattr__(lazy, "_known", None)
    object.__setattr__(lazy, "_statement", (origin.text, origin.span.file, origin.application))
    return kind(**values, body=lazy)


def _plan_node(kind: type[Any], names: tuple[str, ...], values: list[Any]) -> object:
    """A node without its computed properties, which are computed again when used."""
    node = object.__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(node, name, value)
    object.__setattr__(node, "_known", {})
    return node


def _reduce_mapping(mapping: Any) -> tuple[Any, ...]:
    return _frozen_mapping, (dict(mapping),)


def _reduce_node(node: Any) -> tuple[Any, ...]:
    return _node, (type(node), {name: value for name, value in node.args.items() if value is not None})


def _reduce_statement(statement: Any) -> tuple[Any, ...]:
    values = {f.name: getattr(statement, f.name) for f in fields(statement) if f.name != "body"}
    body = statement.body
    return _statement, (type(statement), values, (body.span, body.partition_by, body.query_properties))


def _reduce_record(record: Any) -> tuple[Any, ...]:
    """Pickle a small record as a call of its constructor; far faster than the state of a slotted dataclass."""
    kind = type(record)
    return kind, tuple([getattr(record, name) for name in kind.__match_args__])


def _reduce_plan_node(names: tuple[str, ...], node: Any) -> tuple[Any, ...]:
    return _plan_node, (type(node), names, [getattr(node, name) for name in names])


def _reducers_below(base: type[Any]) -> dict[Any, Any]:
    """The reducers of a class of nodes and of all below it."""
    names = tuple(field.name for field in fields(base) if field.init)
    reducers: dict[Any, Any] = {base: partial(_reduce_plan_node, names)}
    for child in base.__subclasses__():
        reducers |= _reducers_below(child)
    return reducers


_RECORDS = (
    Span, Column, Scalar, PropertyValue, BoundExpression, Named, AggregateCall, QualifiedName, Origin, Comment, Context,
    WrittenName, RecordKey, EventTime, Relation, StartingPoint, SourceTime, Part, BoundQuery, Property,
)  # fmt: skip
_REDUCERS: dict[Any, Any] = {
    **copyreg.dispatch_table,
    MappingProxyType: _reduce_mapping,
    **dict.fromkeys(BOUND_NODES, _reduce_node),
    **dict.fromkeys(_RECORDS, _reduce_record),
    **dict.fromkeys((CreateAsSelect, InsertInto, Interactive), _reduce_statement),
}


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.dispatch_table = _REDUCERS | _reducers_below(Node)


def _save(path: Path, key: str, project: LoadedProject, texts: Texts, settings: Settings) -> None:
    """Write atomically; a cache that cannot be written is not a reason to fail."""
    places = _store_places(texts, project)
    if len(places) != len(_origins(project)):
        return
    content = {
        "places": places,
        "summary": _summary(_declared_stores(texts, places, settings)),
        "catalog": {name: getattr(project.catalog, name) for name in _names(Catalog, _READ_AGAIN)},
        "project": {name: getattr(project, name) for name in _names(type(project), _GIVEN)},
    }
    buffer = io.BytesIO()
    _Pickler(buffer).dump(content)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(key.encode() + buffer.getvalue())
        Path(temporary).replace(path)


def _load(path: Path, key: str, texts: Texts, settings: Settings) -> LoadedProject | None:
    """The cached project; None if there is none with this key, or if its file is damaged."""
    from ds_dagster.project.load import LoadedProject

    try:
        with path.open("rb") as file:
            if file.read(_KEY_LENGTH) != key.encode():
                return None
            rest = file.read()
    except OSError:
        return None
    try:
        with without_collection():
            content = pickle.loads(rest)
            declared = _declared_stores(texts, content["places"], settings)
            if _summary(declared) != content["summary"]:
                return None
            catalog = replace(declared.catalog, **content["catalog"])
            return LoadedProject(settings=settings, catalog=catalog, **content["project"])
    except _UNUSABLE:
        return None
