"""DESCRIBE of a statement that is not in the project's files: the relations it would create, compiled with the present
project."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ds_dagster.catalog.declaring.declared import qualify
from ds_dagster.catalog.properties.spec import property_index
from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.shell.session import Session
from ds_dagster.errors import ProjectError
from ds_dagster.plan.identity.slices import relation_ddl
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.project.load import LoadedProject, compile_texts, read_texts
from ds_dagster.sql.commands import DescribeStatement
from ds_dagster.sql.statements import Application, CreateAsSelect, CreateRelation, InsertInto, Origin
from ds_dagster.stores.registry import KINDS

STATEMENT = "<statement>"
NO_RELATION: Mapping[str, str] = {
    "CreateStore": "CREATE_STORE",
    "CreateSchemaRegistry": "CREATE_SCHEMA_REGISTRY",
    "CreateDatabase": "CREATE_DATABASE",
    "CreateSchema": "CREATE_SCHEMA",
    "CreateEntity": "CREATE_ENTITY",
    "Application": "APPLICATION",
}
"""Record of a statement that creates no relation → kind."""


def describe_statement(session: Session, statement: DescribeStatement) -> None:
    """DESCRIBE CREATE …: one row with the kind and the JSON of the relation that a statement would create.

    Raises:
        ProjectError: the statement has mistakes.
    """
    inner = statement.statement
    kind = _kind(inner)
    described = _described(session, statement)
    text = json.dumps(described, ensure_ascii=False)
    session.output.table(
        "DESCRIBE", [{"kind": kind, "json": described if session.output.as_json else text}], DESCRIBE_COLUMNS
    )


def _kind(statement: object) -> str | None:
    if isinstance(statement, CreateAsSelect | CreateRelation):
        return f"CREATE_{statement.kind.upper()}"
    return "INSERT_INTO" if isinstance(statement, InsertInto) else NO_RELATION.get(type(statement).__name__)


DESCRIBE_COLUMNS = (("kind", "VARCHAR"), ("json", "VARCHAR"))


def _described(session: Session, statement: DescribeStatement) -> dict[str, Any]:
    inner = statement.statement
    project = _compiled(session, statement)
    mistakes = tuple(d for d in project.errors if d.span is not None and d.span.file == STATEMENT)
    if mistakes:
        raise ProjectError(mistakes)
    if isinstance(inner, Application):
        return _of_application(project, inner)
    if not isinstance(inner, CreateAsSelect | CreateRelation | InsertInto):
        return {"ddl": inner.origin.text, "sink": None, "sources": []}
    query = next((q for q in project.queries.values() if q.statement.origin.span.file == STATEMENT), None)
    if query is not None:
        return _of_query(project, query)
    relation = next((r for r in project.catalog.relations.values() if r.span.file == STATEMENT), None)
    if relation is None:
        raise ProjectError(project.errors)
    return {"ddl": _ddl(project, relation), "sink": _artifact(relation), "sources": []}


def _of_query(project: LoadedProject, query: BoundQuery | Part) -> dict[str, Any]:
    sources = [project.catalog.relations[name] for name in query.sources]
    return {"ddl": _ddl(project, query.sink), "sink": _artifact(query.sink), "sources": [_artifact(r) for r in sources]}


def _of_application(project: LoadedProject, application: Application) -> dict[str, Any]:
    """The relations of an application (also virtual ones), its queries, and their inputs and outputs outside of it."""
    query = project.queries[str(application.name)]
    assert isinstance(query.statement, Application)
    ddls = [
        _made(project, item) for item in query.statement.statements if isinstance(item, CreateAsSelect | CreateRelation)
    ]
    names_made = {ddl["fqn"] for ddl in ddls}
    sources = [project.catalog.relations[name] for name in query.sources if str(name) not in names_made]
    statements = [{"kind": _kind(part.statement), **_of_query(project, part)} for part in query.parts]
    return {
        "ddls": ddls,
        "statements": statements,
        "sources": [_artifact(relation) for relation in sources],
        "sinks": [_artifact(sink) for sink in query.sinks],
    }


def _made(project: LoadedProject, statement: CreateAsSelect | CreateRelation) -> dict[str, Any]:
    name = qualify(statement.name, statement.origin.context, project.settings)
    if not isinstance(statement, CreateAsSelect) or not statement.virtual:
        return _artifact(project.catalog.relations[name])
    names = {"fqn": str(name), "db_name": name.database, "schema_name": name.schema, "name": name.name}
    return {**names, "type": statement.kind, "store_name": None, "is_virtual": True}


def _ddl(project: LoadedProject, relation: Relation) -> str:
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


def _compiled(session: Session, statement: DescribeStatement) -> LoadedProject:
    """The project's files without the statements that this one would replace, compiled with this statement last."""
    texts, _ = read_texts(session.settings)
    context, project = session.context, session.project()
    replaced = list(_replaced(project, statement))
    others = [(name, _without(text, name, replaced)) for name, text in texts]
    lines = [
        f"USE {what.upper()} {value};"
        for what, value in (("database", context.database), ("schema", context.schema), ("store", context.store))
        if value
    ]
    return compile_texts([*others, (STATEMENT, " ".join([*lines, statement.statement.origin.text]))], session.settings)


def _replaced(project: LoadedProject, statement: DescribeStatement) -> Iterable[Origin]:
    """Statements in files that create the same relations or the same application as this statement."""
    written = statement.statement
    inside = written.statements if isinstance(written, Application) else (written,)
    if isinstance(written, Application) and (query := project.queries.get(str(written.name))) is not None:
        yield query.statement.origin
    for inner in inside:
        if not isinstance(inner, CreateAsSelect | CreateRelation):
            continue
        relation = project.catalog.relations.get(qualify(inner.name, inner.origin.context, project.settings))
        if relation is not None:
            yield relation.origin


def _without(text: str, name: str, origins: Sequence[Origin]) -> str:
    """A file's text with statements replaced by blanks, so that positions stay."""
    for origin in origins:
        if origin.span.file == name and origin.text:
            blank = "".join("\n" if character == "\n" else " " for character in origin.text)
            text = text.replace(origin.text, blank, 1)
    return text
