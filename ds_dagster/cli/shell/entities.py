"""Entity statements in ``ds sql``: DESCRIBE, PRINT, CREATE, UPDATE, DROP, INSERT INTO ENTITY, GENERATE COLUMNS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.entity_operations import EntityDescription, EntityOperations, EntityPath, NewRecord
from ds_dagster.catalog.properties.spec import property_index
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.cli.output import parsed, visible
from ds_dagster.cli.record_output import lines_of, shower
from ds_dagster.cli.shell.session import Executor, Session
from ds_dagster.errors import DsError, ProjectError, error
from ds_dagster.project.load import LoadedProject
from ds_dagster.sql.commands import (
    DescribeEntity,
    DropEntity,
    GenerateColumns,
    InsertIntoEntity,
    PrintEntity,
    UpdateEntity,
)
from ds_dagster.sql.generator import name_text
from ds_dagster.sql.statements import CreateEntity, Property
from ds_dagster.stores.registry import KINDS

PARTITIONS = "topic.partitions"
ROWS_SHOWN = 100
"""Rows of a table that PRINT shows if no limit is written."""
SAMPLES = 100
"""Records that GENERATE COLUMNS samples by default."""


def path_text(path: EntityPath) -> str:
    """A path as it can be written in SQL."""
    return ".".join(map(name_text, path))


def described(entity: EntityDescription) -> dict[str, Any]:
    """A description as JSON, in the shape of DESCRIBE ENTITY."""
    return {
        "path": list(entity.path),
        "type": entity.kind,
        **entity.facts.counts,
        "record_time": entity.facts.record_time,
        "size": entity.facts.size,
        "bytes": entity.bytes,
        "newest": dict(entity.newest),
        "settings": dict(entity.facts.settings),
        "columns": [
            {
                "name": column.name,
                "type": str(column.type) if column.type else None,
                "native_type": column.native,
                "nullable": column.nullable,
                "primary_key": column.key,
            }
            for column in entity.columns
        ],
    }


def describe_entity(session: Session, statement: DescribeEntity) -> None:
    """DESCRIBE ENTITY: the store's facts about an entity, and the relations over it."""
    store = session.store(statement.store)
    with session.operations(store) as operations:
        entity = operations.describe(statement.path.parts)
        if entity is None:
            raise _missing(store, statement.path.parts, operations)
        relations = [str(r.name) for r in _relations(session.project(), store, operations, entity.path)]
    session.output.document("DESCRIBE_ENTITY", {"store": store.name, **described(entity), "relations": relations})


def _missing(store: StoreDefinition, path: EntityPath, operations: EntityOperations) -> Exception:
    from ds_dagster.names import did_you_mean

    names = [node.path[-1] for node in operations.children(path[:-1])]
    return error("ENTITY_NOT_FOUND", entity=path_text(path), store=store.name, nearest=did_you_mean(path[-1], names))


def _relations(
    project: LoadedProject, store: StoreDefinition, operations: EntityOperations, path: EntityPath
) -> list[Relation]:
    """Relations of the project over an entity."""
    on_store = [relation for relation in project.catalog.relations.values() if relation.store == store.name]
    return [relation for relation in on_store if operations.path_of(relation) == path]


def _relations_over(
    project: LoadedProject, store: StoreDefinition, operations: EntityOperations, path: EntityPath
) -> list[Relation]:
    """Relations over an entity; if there are none for the written path, for the path as the store spells it."""
    relations = _relations(project, store, operations, path)
    return relations or _relations(project, store, operations, _canonical(operations, path))


def _canonical(operations: EntityOperations, path: EntityPath) -> EntityPath:
    """A path as the store spells it; as written if it is a level or does not exist."""
    try:
        entity = operations.describe(path)
    except DsError as problem:
        if problem.condition != "ENTITY_PATH_INVALID":
            raise
        return path
    return path if entity is None else entity.path


def print_entity(session: Session, statement: PrintEntity) -> None:
    """PRINT ENTITY: records as they arrive, until Ctrl-C or the limit; with ``from_beginning`` also existing records.
    Of a table some rows, once."""
    from ds_dagster.cli.results.watching import until_interrupted

    store = session.store(statement.store)
    path = statement.path.parts
    with session.operations(store) as operations:
        if not operations.follows:
            for record in operations.sample(path, statement.limit or ROWS_SHOWN):
                text = (record.value or b"null").decode()
                session.output.line({"kind": "ROW", "value": parsed(text)}, visible(text))
            return
        described_by = next(iter(_relations_over(session.project(), store, operations, path)), None)
    with until_interrupted():
        _follow(session, store, statement, described_by)


def _follow(session: Session, store: StoreDefinition, statement: PrintEntity, relation: Relation | None) -> None:
    entity, limit, project = ".".join(statement.path.parts), statement.limit, session.project()
    show, lines = shower(project, store.name, relation), lines_of(project, store.name)
    with session.admin(store) as admin:
        records = admin.records(entity, from_beginning=statement.from_beginning, limit=limit, stopped=lambda: False)
        for record in map(show, islice(records, limit)):
            session.output.line({"kind": "RECORD", **record.document}, lines.line(record))


def entity_plan(store: StoreDefinition, name: str, properties: Sequence[Property]) -> EntityPlan:
    """Counts and settings of a WITH clause.

    Raises:
        ProjectError: a property is wrong.
    """
    pulled = property_index(KINDS).pull(properties, "entity", store.kind)
    if pulled.diagnostics:
        raise ProjectError(pulled.diagnostics)
    capabilities = KINDS[store.kind].capabilities
    prefix = capabilities.entity_settings_prefix
    counts = {n: int(v.value) for n, v in pulled.values.items() if n in capabilities.count_properties}
    settings = {
        n.removeprefix(prefix): str(v.value) for n, v in pulled.values.items() if prefix and n.startswith(prefix)
    }
    return EntityPlan(
        name, MappingProxyType(counts), MappingProxyType(settings), used_by="CREATE ENTITY", stated=frozenset(counts)
    )


def create_entity(session: Session, statement: CreateEntity) -> None:
    """CREATE ENTITY: a topic, stream, schema or database."""
    store, path = session.store(statement.store), statement.path.parts
    plan = entity_plan(store, path[-1], statement.properties)
    with session.operations(store) as operations:
        operations.create(path, plan)
    _done(session, "CREATE_ENTITY", path, f"{path_text(path)} was created in store {store.name}")


def update_entity(session: Session, statement: UpdateEntity) -> None:
    """UPDATE ENTITY: change counts and settings.

    Raises:
        UserError: ENTITY_PARTITIONS_OF_CHANGELOG.
    """
    store, path = session.store(statement.store), statement.path.parts
    plan = entity_plan(store, path[-1], statement.properties)
    with session.operations(store) as operations:
        entity = operations.describe(path) if PARTITIONS in plan.counts else None
        if entity is not None and plan.counts[PARTITIONS] > entity.facts.counts.get(PARTITIONS, 0):
            relations = _relations_over(session.project(), store, operations, path)
            if changelog := next((relation for relation in relations if relation.is_changelog), None):
                name = changelog.name.name
                shown = {"entity": path_text(path), "relation": name}
                raise error("ENTITY_PARTITIONS_OF_CHANGELOG", span=statement.path.span, **shown)
        operations.update(path, plan)
    _done(session, "UPDATE_ENTITY", path, f"{path_text(path)} in store {store.name} was changed")


def drop_entity(session: Session, statement: DropEntity) -> None:
    """DROP ENTITY: remove an entity that no running query reads or writes.

    Raises:
        UserError: ENTITY_IN_USE.
    """
    store, path = session.store(statement.store), statement.path.parts
    with session.operations(store) as operations:
        users = _running(session, store, operations, path)
        if users:
            raise error("ENTITY_IN_USE", span=statement.path.span, entity=path_text(path), queries=users)
        operations.drop(path)
    _done(session, "DROP_ENTITY", path, f"{path_text(path)} was dropped from store {store.name}")


def _running(session: Session, store: StoreDefinition, operations: EntityOperations, path: EntityPath) -> list[str]:
    """Names of wanted jobs that read or write an entity: by the project's statements, or by their running definitions,
    since statements may have changed or left the project."""
    from ds_dagster.runtime.control import Control
    from ds_dagster.runtime.deciding.changes import definition_of

    project = session.project()
    wanted = [row for row in Control.open(session.settings).running().jobs.values() if row.desired == "RUNNING"]
    if not wanted:
        return []
    relations = _relations_over(project, store, operations, path)
    names = {query.name for r in relations for query in project.queries_of(r.name)}
    names.update(name for r in relations for name in project.downstream.get(r.name, ()))
    paths = {path, _canonical(operations, path)}
    users = {row.name for row in wanted if row.of in names}
    for row in wanted:
        query = definition_of(row, session.settings)
        touched = () if query is None else (*query.inputs, *query.sinks, *query.logs)
        if any(each.store == store.name and operations.path_of(each) in paths for each in touched):
            users.add(row.name)
    return sorted(users)


def insert_entity(session: Session, statement: InsertIntoEntity) -> None:
    """INSERT INTO ENTITY: write one record.

    Raises:
        NotYetError: ENTITY_INSERT_FORMAT: its records are not JSON.
    """
    store, path = session.store(statement.store), statement.path.parts
    with session.operations(store) as operations:
        for relation in _relations_over(session.project(), store, operations, path):
            formats = {relation.value_format, relation.key.format} - {"json", "none", "primitive"}
            if formats:
                raise error("ENTITY_INSERT_FORMAT", entity=path_text(path), format=formats, relation=str(relation.name))
        place = operations.insert(path, NewRecord(statement.value, statement.key))
    where = f" at {place}" if place else ""
    _done(session, "INSERT_INTO_ENTITY", path, f"one record was written to {path_text(path)}{where}", position=place)


def _done(session: Session, kind: str, path: EntityPath, summary: str, **more: Any) -> None:
    session.output.done(kind, "entity", path_text(path), summary, path=list(path), **more)


def generate_columns(session: Session, statement: GenerateColumns) -> None:
    """GENERATE COLUMNS: DDL to paste, from the registry, the table's columns, or samples of the records."""
    from ds_dagster.cli.generate_columns import generated

    store = session.store(statement.store)
    with session.operations(store) as operations:
        columns = generated(session.settings, store, operations, statement.path.parts, statement.samples or SAMPLES)
    session.output.text("GENERATE_COLUMNS", "ddl", columns.ddl, source=columns.source, records=columns.records)


EXECUTORS: Mapping[type, Executor] = {
    DescribeEntity: describe_entity,
    PrintEntity: print_entity,
    CreateEntity: create_entity,
    UpdateEntity: update_entity,
    DropEntity: drop_entity,
    InsertIntoEntity: insert_entity,
    GenerateColumns: generate_columns,
}
