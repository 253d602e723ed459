"""LIST and SHOW in ``ds sql``: stores, relations, queries, entities and the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ds_dagster.catalog.schemas.descriptors import DescriptorSource
from ds_dagster.cli.output import clock
from ds_dagster.cli.shell.session import Executor, Session
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.project.load import read_texts
from ds_dagster.sql.commands import ListObjects
from ds_dagster.sql.script import parse_file
from ds_dagster.sql.statements import CreateSchemaRegistry

Row = dict[str, Any]


def list_objects(session: Session, statement: ListObjects) -> None:
    """LIST and SHOW: one table."""
    rows = LISTS[statement.things](session, statement)
    columns = [(name, type_) for name, type_ in COLUMNS[statement.things].items()]
    session.output.table(f"LIST_{statement.things.upper()}", rows, columns)


def _stores(session: Session, _: ListObjects) -> list[Row]:
    stores = session.project().catalog.stores.values()
    return [
        {
            "name": store.name,
            "type": store.kind,
            "uris": store.properties["uris"].shown() if "uris" in store.properties else None,
            "schema_registry": store.registry.name if store.registry else None,
            "current": store.name == (session.context.store or session.settings.store),
        }
        for store in stores
    ]


def _databases(session: Session, _: ListObjects) -> list[Row]:
    project = session.project()
    names = sorted({database for database, _ in project.catalog.schemas})
    return [{"name": name, "current": name == project.settings.database} for name in names]


def _schemas(session: Session, statement: ListObjects) -> list[Row]:
    project = session.project()
    database = _database(session, statement)
    current = (project.settings.database, project.settings.schema)
    return [
        {"database": catalog, "name": schema, "current": (catalog, schema) == current}
        for catalog, schema in sorted(project.catalog.schemas)
        if database in ("", catalog)
    ]


def _database(session: Session, statement: ListObjects) -> str:
    if statement.place is None:
        return ""
    name = statement.place.parts[0]
    databases = sorted({database for database, _ in session.project().catalog.schemas})
    if name not in databases:
        raise error("UNKNOWN_DATABASE", span=statement.place.span, name=name, nearest=did_you_mean(name, databases))
    return name


def _relations(session: Session, statement: ListObjects) -> list[Row]:
    project = session.project()
    within = statement.place.parts if statement.place else ()
    return [
        {
            "name": str(relation.name),
            "type": relation.kind,
            "store": relation.store,
            "entity": relation.entity,
            "primary_key": ", ".join(relation.primary_key) or None,
            "filled_by": ", ".join(query.name for query in project.queries_of(relation.name)) or None,
        }
        for relation in project.catalog.relations.values()
        if not within or relation.name.parts[2 - len(within) : 2] == within
    ]


def _queries(session: Session, _: ListObjects) -> list[Row]:
    from ds_dagster.runtime.control import Control

    project = session.project()
    statuses = {status.name: status for status in Control.open(session.settings).statuses()}
    rows: list[Row] = []
    for name in dict.fromkeys([*project.queries, *statuses]):
        query, status = project.queries.get(name), statuses.get(name)
        rows.append(
            {
                "name": name,
                "version": status.checkpoint_version if status else None,
                "intended_state": status.desired if status else None,
                "actual_state": status.state if status else "ABSENT",
                "relation": query.relations if query else status.relation if status else None,
                "since": clock(status.since) if status and status.since else None,
                "query": " ".join(query.statement.origin.text.split()) if query else None,
            }
        )
    return rows


def _entities(session: Session, statement: ListObjects) -> list[Row]:
    store = session.store(statement.store)
    path = statement.place.parts if statement.place else ()
    with session.operations(store) as operations:
        nodes = operations.children(path)
    return [
        {"name": node.path[-1], "type": node.kind, "is_level": node.is_level, "path": list(node.path)} for node in nodes
    ]


def _functions(session: Session, _: ListObjects) -> list[Row]:
    """Functions of the user and of the dialect."""
    from ds_dagster.functions.table import FUNCTIONS

    return [
        {
            "name": name.upper(),
            "type": function.language,
            "arguments": str(function).removeprefix(name),
            "meaning": f"{function.entry}, gives {function.returns}",
        }
        for name, overloads in sorted(session.project().catalog.functions.functions.items())
        for function in overloads
    ] + [
        {
            "name": name,
            "type": function.kind,
            "arguments": " | ".join(map(str, function.signatures)),
            "meaning": function.meaning,
        }
        for name, function in sorted(FUNCTIONS.items())
    ]


def _function_sources(session: Session, _: ListObjects) -> list[Row]:
    sources = session.project().catalog.functions.sources
    return [{"name": name, "file": s.file, "classes": len(s.classes)} for name, s in sorted(sources.items())]


def _registries(session: Session, _: ListObjects) -> list[Row]:
    stores = session.project().catalog.stores.values()
    used = {store.registry.name: store.registry for store in stores if store.registry}
    texts, _unreadable = read_texts(session.settings)
    written = [s for name, text in texts for s in parse_file(name, text).statements]
    names = [str(s.name) for s in written if isinstance(s, CreateSchemaRegistry)]
    return [
        {
            "name": name,
            "type": used[name].type if name in used else None,
            "uris": used[name].properties["uris"].shown() if name in used and "uris" in used[name].properties else None,
            "stores": ", ".join(sorted(s.name for s in stores if s.registry and s.registry.name == name)) or None,
        }
        for name in dict.fromkeys(names)
    ]


def _descriptor_sources(session: Session, _: ListObjects) -> list[Row]:
    return [
        {"name": source.name, "file": source.written, "descriptors": len(source.messages)}
        for source in _sources_of_descriptors(session)
    ]


def _descriptors(session: Session, _: ListObjects) -> list[Row]:
    return [
        {"name": message, "source": source.name}
        for source in _sources_of_descriptors(session)
        for message in source.messages
    ]


def _sources_of_descriptors(session: Session) -> list[DescriptorSource]:
    sources = session.project().catalog.descriptors.values()
    return sorted((source for source in sources if source is not None), key=lambda source: source.name)


def _secrets(session: Session, _: ListObjects) -> list[Row]:
    """Declared secrets, without their values."""
    return [
        {
            "name": name,
            "type": secret.type,
            "description": secret.properties["description"].value if "description" in secret.properties else None,
        }
        for name, secret in sorted(session.project().catalog.secrets.items())
    ]


def _compute_pools(session: Session, _: ListObjects) -> list[Row]:
    """Declared pools, the states of their engines, and the queries that name them."""
    from ds_dagster.runtime.control import Control

    project = session.project()
    states = {engine.name: engine.state for engine in Control.open(session.settings).engines()}
    return [
        {
            "name": name,
            "cores": pool.cores,
            "memory": pool.memory,
            "engine": states.get(name, "GONE"),
            "queries": ", ".join(query.name for query in project.queries.values() if query.pool == name) or None,
        }
        for name, pool in sorted((project.catalog.pools or {}).items())
        if pool is not None
    ]


LISTS: Mapping[str, Callable[[Session, ListObjects], list[Row]]] = {
    "stores": _stores,
    "databases": _databases,
    "schemas": _schemas,
    "relations": _relations,
    "queries": _queries,
    "entities": _entities,
    "functions": _functions,
    "function_sources": _function_sources,
    "schema_registries": _registries,
    "descriptors": _descriptors,
    "descriptor_sources": _descriptor_sources,
    "secrets": _secrets,
    "compute_pools": _compute_pools,
}
"""Word after LIST → function that returns the rows."""
_TEXT = "VARCHAR"
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "stores": {"name": _TEXT, "type": _TEXT, "uris": _TEXT, "schema_registry": _TEXT, "current": "BOOLEAN"},
    "databases": {"name": _TEXT, "current": "BOOLEAN"},
    "schemas": {"database": _TEXT, "name": _TEXT, "current": "BOOLEAN"},
    "relations": dict.fromkeys(("name", "type", "store", "entity", "primary_key", "filled_by"), _TEXT),
    "queries": {
        "name": _TEXT,
        "version": "BIGINT",
        **dict.fromkeys(("intended_state", "actual_state", "relation", "since", "query"), _TEXT),
    },
    "entities": {"name": _TEXT, "type": _TEXT, "is_level": "BOOLEAN", "path": "ARRAY<VARCHAR>"},
    "functions": dict.fromkeys(("name", "type", "arguments", "meaning"), _TEXT),
    "function_sources": {"name": _TEXT, "file": _TEXT, "classes": "BIGINT"},
    "schema_registries": dict.fromkeys(("name", "type", "uris", "stores"), _TEXT),
    "descriptors": dict.fromkeys(("name", "source"), _TEXT),
    "descriptor_sources": {"name": _TEXT, "file": _TEXT, "descriptors": "BIGINT"},
    "secrets": dict.fromkeys(("name", "type", "description"), _TEXT),
    "compute_pools": {"name": _TEXT, "cores": "BIGINT", **dict.fromkeys(("memory", "engine", "queries"), _TEXT)},
}
"""Word after LIST → columns and their types, so that an empty list has them too."""
EXECUTORS: Mapping[type, Executor] = {ListObjects: list_objects}
