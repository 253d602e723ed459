"""DESCRIBE in ``ds sql``: stores, relations, queries, and statements that are not in any file yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ds_dagster.catalog.properties import property_index
from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.output import clock
from ds_dagster.cli.sql_session import Executor, Session
from ds_dagster.errors import ProjectError, error
from ds_dagster.names import QualifiedName, did_you_mean
from ds_dagster.plan.query import BoundQuery
from ds_dagster.plan.slices import relation_ddl
from ds_dagster.project import Project, compile_texts, delivery_of, read_texts, uri_of
from ds_dagster.sql.commands import DescribeQuery, DescribeRelation, DescribeStatement, DescribeStore
from ds_dagster.sql.statements import CreateAsSelect, CreateRelation, InsertInto
from ds_dagster.stores.registry import KINDS

STATEMENT = "<statement>"
NO_RELATION: Mapping[str, str] = {
    "CreateStore": "CREATE_STORE",
    "CreateSchemaRegistry": "CREATE_SCHEMA_REGISTRY",
    "CreateDatabase": "CREATE_DATABASE",
    "CreateSchema": "CREATE_SCHEMA",
    "CreateEntity": "CREATE_ENTITY",
}
"""Record of a statement that makes no relation → kind."""


def describe_store(session: Session, statement: DescribeStore) -> None:
    """Declared properties, secrets hidden, and whether it answers now."""
    store = session.project().catalog.store(str(statement.name), statement.name.span)
    with session.admin(store) as admin:
        probe = admin.probe()
    session.output.document(
        "DESCRIBE_STORE",
        {
            "name": store.name,
            "type": store.kind,
            "status": "ready" if probe.ok else "errored",
            "status_message": probe.message,
            "hint": probe.hint or None,
            "milliseconds": probe.milliseconds,
            "schema_registry": store.registry.name if store.registry else None,
            "properties": [{"name": name, "value": value.shown()} for name, value in store.properties.items()],
            "at": f"{store.span.file}:{store.span.line}",
        },
    )


def describe_relation(session: Session, statement: DescribeRelation) -> None:
    """Everything that is known of a relation after inference, or its columns alone."""
    from ds_dagster.cli.pull_binding import resolve_relation

    project = session.project()
    relation = resolve_relation(project, str(statement.name), statement.name.span)
    columns = _columns(relation)
    if statement.columns:
        session.output.table("DESCRIBE_RELATION_COLUMNS", columns)
        return
    session.output.document(
        "DESCRIBE_RELATION",
        {
            "fqn": str(relation.name),
            "type": relation.kind,
            "store": relation.store,
            "entity": relation.entity,
            "uri": uri_of(project, relation),
            "primary_key": list(relation.primary_key),
            "value_format": relation.value_format,
            "key_format": relation.key.format,
            "timestamp": relation.event_time.column,
            "delivery": delivery_of(project, relation),
            "queries": [query.name for query in project.queries_of(relation.name)],
            "read_by": list(project.downstream.get(relation.name, ())),
            "at": f"{relation.span.file}:{relation.span.line}",
            "columns": columns,
        },
    )


def _columns(relation: Relation) -> list[dict[str, Any]]:
    return [
        {
            "name": column.name,
            "type": str(column.type),
            "nullable": column.nullable,
            "primary_key": column.name in relation.primary_key,
        }
        for column in relation.columns
    ]


def describe_query(session: Session, statement: DescribeQuery) -> None:
    """State of a query's job; METRICS its figures, STATE what it keeps, EVENTS its history."""
    from ds_dagster.runtime.control import Control

    project, name = session.project(), str(statement.name)
    control = Control.open(session.settings)
    statuses = {status.name: status for status in control.statuses()}
    known = dict.fromkeys([*project.queries, *statuses])
    if name not in known:
        raise error("JOB_UNKNOWN", span=statement.name.span, name=name, nearest=did_you_mean(name, known))
    if statement.part == "events":
        session.output.table("DESCRIBE_QUERY_EVENTS", [_event(asdict(t)) for t in control.transitions(name)])
        return
    status = control.status(name)
    found = {field: getattr(status, field) for field in QUERY_FIELDS[statement.part]}
    values = {field: clock(value) if field in TIMES and value else value for field, value in found.items()}
    if not statement.part:
        query = project.queries.get(name)
        values["relation"] = query.relations if query else status.relation
        values["query"] = " ".join(query.statement.origin.text.split()) if query else None
    session.output.document(f"DESCRIBE_QUERY{'_' if statement.part else ''}{statement.part.upper()}", values)


QUERY_FIELDS: Mapping[str, tuple[str, ...]] = {
    "": ("name", "relation", "desired", "state", "since", "condition", "message", "hint", "next_retry", "attempts"),
    "metrics": ("name", "batch", "rows", "rows_per_second", "lag_records", "lag_seconds", "late_rows", "bad_records"),
    "state": ("name", "checkpoint_version", "fingerprint", "state_rows", "state_bytes", "watermark", "caught_up"),
}
"""Part of DESCRIBE QUERY → fields of the job's status."""
TIMES = frozenset({"since", "next_retry", "watermark", "caught_up"})


def _event(transition: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("kind", "source", "target", "reason", "condition", "message", "actor")
    return {"at": clock(transition["at"]), **{field: transition[field] or None for field in fields}}


def describe_statement(session: Session, statement: DescribeStatement) -> None:
    """One row: kind and JSON of what a statement would make, compiled with the project as it is.

    Raises:
        ProjectError: with the mistakes of the statement.
    """
    found = statement.statement
    kind = NO_RELATION.get(type(found).__name__)
    if isinstance(found, CreateAsSelect | CreateRelation):
        kind = f"CREATE_{found.kind.upper()}"
    elif isinstance(found, InsertInto):
        kind = "INSERT_INTO"
    described = _described(session, statement)
    text = json.dumps(described, ensure_ascii=False)
    session.output.table(
        "DESCRIBE", [{"kind": kind, "json": described if session.output.as_json else text}], DESCRIBE_COLUMNS
    )


DESCRIBE_COLUMNS = (("kind", "VARCHAR"), ("json", "VARCHAR"))


def _described(session: Session, statement: DescribeStatement) -> dict[str, Any]:
    found = statement.statement
    project = _compiled(session, statement)
    mistakes = tuple(d for d in project.errors if d.span is not None and d.span.file == STATEMENT)
    if mistakes:
        raise ProjectError(mistakes)
    if not isinstance(found, CreateAsSelect | CreateRelation | InsertInto):
        return {"ddl": found.origin.text, "sink": None, "sources": []}
    query = next((q for q in project.queries.values() if q.statement.origin.span.file == STATEMENT), None)
    if query is not None:
        return _of_query(project, query)
    made = next((r for r in project.catalog.relations.values() if r.span.file == STATEMENT), None)
    if made is None:
        raise ProjectError(project.errors)
    return {"ddl": _ddl(project, made), "sink": _artifact(made), "sources": []}


def _of_query(project: Project, query: BoundQuery) -> dict[str, Any]:
    sources = [project.catalog.relations[name] for name in query.sources]
    return {"ddl": _ddl(project, query.sink), "sink": _artifact(query.sink), "sources": [_artifact(r) for r in sources]}


def _ddl(project: Project, relation: Relation) -> str:
    return relation_ddl(relation, property_index(KINDS), project.catalog.store(relation.store).kind)


def _artifact(relation: Relation) -> dict[str, Any]:
    return {
        "fqn": str(relation.name),
        "type": relation.kind,
        "db_name": relation.name.database,
        "schema_name": relation.name.schema,
        "name": relation.name.name,
        "store_name": relation.store,
        "is_virtual": False,
    }


def _compiled(session: Session, statement: DescribeStatement) -> Project:
    """The project's files, without what the statement would replace, and the statement behind them."""
    texts, _ = read_texts(session.settings)
    context, project = session.context, session.project()
    replaced = _replaced(project, statement)
    kept = [(name, _without(text, name, replaced)) for name, text in texts]
    lines = [
        f"USE {what.upper()} {value};"
        for what, value in (("database", context.database), ("schema", context.schema), ("store", context.store))
        if value
    ]
    return compile_texts([*kept, (STATEMENT, " ".join([*lines, statement.statement.origin.text]))], session.settings)


def _replaced(project: Project, statement: DescribeStatement) -> Relation | None:
    """The relation of the same name that a file declares."""
    found = statement.statement
    if not isinstance(found, CreateAsSelect | CreateRelation):
        return None
    name = QualifiedName.parse(str(found.name), project.settings.database, project.settings.schema)
    return project.catalog.relations.get(name)


def _without(text: str, name: str, relation: Relation | None) -> str:
    """A file's text with a relation's statement blanked out; places stay."""
    if relation is None or relation.span.file != name or not relation.origin.text:
        return text
    blank = "".join("\n" if character == "\n" else " " for character in relation.origin.text)
    return text.replace(relation.origin.text, blank, 1)


EXECUTORS: Mapping[type, Executor] = {
    DescribeStore: describe_store,
    DescribeRelation: describe_relation,
    DescribeQuery: describe_query,
    DescribeStatement: describe_statement,
}
