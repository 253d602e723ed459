"""Connections that the project's own files declare, for a job that is compiled from its slice.

Connection values belong to the project, not to the job: where the files declare a store, a schema registry or a secret,
that declaration with its updates replaces the slice's copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_file
from ds_dagster.sql.statements import (
    CreateSchemaRegistry,
    CreateSecret,
    CreateStore,
    ParsedFile,
    Statement,
    UpdateConnection,
)

Connection = CreateStore | CreateSchemaRegistry
_WHAT: Mapping[type[Connection], str] = MappingProxyType(
    {CreateStore: "store", CreateSchemaRegistry: "schema_registry"}
)
_INTERESTING = re.compile(r"(create|update)\s+(store|schema_registry|secret)", re.IGNORECASE)
_SECRET_WORDS = re.compile(r"\$\{secret:([^}:\s]+)\}|^([A-Za-z_]\w*)$")


@dataclass(frozen=True, slots=True)
class OwnConnections:
    """Statements of the project's files: connections by kind and name, secrets by name, updates by target."""

    connections: Mapping[tuple[type[Connection], str], Connection] = field(default_factory=dict)
    secrets: Mapping[str, CreateSecret] = field(default_factory=dict)
    updates: Mapping[tuple[str, str], tuple[UpdateConnection, ...]] = field(default_factory=dict)


def with_own_connections(files: Sequence[ParsedFile], settings: Settings) -> Iterator[ParsedFile]:
    """The files of a slice with the project's own declarations instead of its copies, where the project has them."""
    own = own_connections(settings)
    names: set[str] = set()
    needed: dict[str, None] = {}
    for file in files:
        statements = tuple(current for statement in file.statements for current in _current(statement, own))
        names |= {_name(statement) for statement in statements if isinstance(statement, CreateSecret)}
        needed.update(dict.fromkeys(name for statement in statements for name in _secret_words(statement)))
        yield replace(file, statements=statements)
    lacking = tuple(own.secrets[name] for name in needed if name in own.secrets and name not in names)
    if lacking:
        yield ParsedFile("(secrets)", lacking)


def own_connections(settings: Settings) -> OwnConnections:
    """Connections, secrets and updates in the project's files; read again only when a file has changed."""
    paths = sorted(settings.sql.rglob("*.sql"))
    stamps = tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths)
    return _read(str(settings.root), stamps)


def _current(statement: Statement, own: OwnConnections) -> tuple[Statement, ...]:
    if isinstance(statement, CreateSecret):
        return (own.secrets.get(_name(statement), statement),)
    if not isinstance(statement, Connection):
        return (statement,)
    connection = own.connections.get((type(statement), _name(statement)))
    if connection is None:
        return (statement,)
    return (connection, *own.updates.get((_WHAT[type(connection)], _name(connection)), ()))


def _secret_words(statement: Statement) -> Iterator[str]:
    """Every word in a statement's properties that may be the name of a secret."""
    if isinstance(statement, Connection | UpdateConnection):
        texts = (item.value for item in statement.properties if isinstance(item.value, str))
        for match in (match for text in texts for match in _SECRET_WORDS.finditer(text)):
            yield (match[1] or match[2]).lower()


def _name(statement: Connection | CreateSecret | UpdateConnection) -> str:
    return str(statement.name).lower()


@lru_cache(maxsize=4)
def _read(root: str, stamps: tuple[tuple[str, int, int], ...]) -> OwnConnections:
    connections: dict[tuple[type[Connection], str], Connection] = {}
    secrets: dict[str, CreateSecret] = {}
    updates: dict[tuple[str, str], tuple[UpdateConnection, ...]] = {}
    for path, _, _ in stamps:
        name = Path(path).relative_to(root).as_posix() if Path(path).is_relative_to(root) else path
        text = Path(path).read_bytes().decode("utf-8", errors="replace")
        for statement in parse_file(name, text).statements if _INTERESTING.search(text) else ():
            if isinstance(statement, Connection):
                connections.setdefault((type(statement), _name(statement)), statement)
            elif isinstance(statement, CreateSecret):
                secrets.setdefault(_name(statement), statement)
            elif isinstance(statement, UpdateConnection):
                place = (statement.what, _name(statement))
                updates[place] = (*updates.get(place, ()), statement)
    return OwnConnections(MappingProxyType(connections), MappingProxyType(secrets), MappingProxyType(updates))
