"""Statement records → text in one canonical form: parse → print → parse gives the same record, except positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ds_dagster.sql.dialect import DeltaStream
from ds_dagster.sql.generator import name_text, properties_text
from ds_dagster.sql.parser import SHOWN_KINDS
from ds_dagster.sql.statements import (
    Application,
    ColumnDefinition,
    ConstraintDefinition,
    CreateAsSelect,
    CreateComputePool,
    CreateDatabase,
    CreateDescriptorSource,
    CreateEntity,
    CreateFunction,
    CreateFunctionSource,
    CreateRelation,
    CreateSchema,
    CreateSchemaRegistry,
    CreateSecret,
    CreateStore,
    InsertInto,
    Interactive,
    SelectBody,
    Statement,
    UpdateConnection,
    Use,
    WrittenName,
)

_UNLESS_THERE = "IF NOT EXISTS"


def print_statement(statement: Statement) -> str:
    """The statement as text, without a semicolon. PRINT, LIST, SHOW and DESCRIBE are printed as they were written."""
    return _PRINTERS[type(statement)](statement)


def print_select(body: SelectBody) -> str:
    """A SELECT with its PARTITION BY and QUERY WITH."""
    partition = "PARTITION BY " + ", ".join(map(_name, body.partition_by)) if body.partition_by else ""
    properties = properties_text(body.query_properties)
    return _words(body.tree.sql(dialect=DeltaStream, comments=False), partition, properties and f"QUERY {properties}")


def _words(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _name(name: WrittenName) -> str:
    return ".".join(map(name_text, name.parts))


def _unless_there(if_not_exists: bool) -> str:
    return _UNLESS_THERE if if_not_exists else ""


def _outside(
    statement: CreateStore
    | CreateSchemaRegistry
    | CreateSecret
    | CreateDescriptorSource
    | CreateFunctionSource
    | CreateComputePool,
) -> str:
    return _words(
        _CREATE_WORDS[type(statement)],
        _unless_there(statement.if_not_exists),
        _name(statement.name),
        properties_text(statement.properties),
    )


def _function(statement: CreateFunction) -> str:
    return _words(
        "CREATE FUNCTION",
        _unless_there(statement.if_not_exists),
        _name(statement.name),
        "(" + ", ".join(_column(argument) for argument in statement.arguments) + ")",
        f"RETURNS {statement.returns} LANGUAGE {statement.language.upper()}",
        properties_text(statement.properties),
    )


def _update(statement: UpdateConnection) -> str:
    return _words("UPDATE", statement.what.upper(), _name(statement.name), properties_text(statement.properties))


def _database(statement: CreateDatabase) -> str:
    return _words("CREATE DATABASE", _unless_there(statement.if_not_exists), _name(statement.name))


def _schema(statement: CreateSchema) -> str:
    inside = f"IN DATABASE {_name(statement.database)}" if statement.database else ""
    return _words("CREATE SCHEMA", _unless_there(statement.if_not_exists), _name(statement.name), inside)


def _entity(statement: CreateEntity) -> str:
    inside = f"IN STORE {_name(statement.store)}" if statement.store else ""
    return _words("CREATE ENTITY", _name(statement.path), inside, properties_text(statement.properties))


def _relation(statement: CreateRelation) -> str:
    items = [_column(column) for column in statement.columns]
    if statement.primary_key:
        items.append("PRIMARY KEY (" + ", ".join(map(_name, statement.primary_key)) + ")")
    items += map(print_constraint, statement.constraints)
    return _words(
        "CREATE",
        SHOWN_KINDS[statement.kind],
        _unless_there(statement.if_not_exists),
        _name(statement.name),
        "(" + ", ".join(items) + ")" if items else "",
        properties_text(statement.properties),
    )


def _column(column: ColumnDefinition) -> str:
    return _words(name_text(column.name), str(column.type), "" if column.nullable else "NOT NULL")


def print_constraint(constraint: ConstraintDefinition) -> str:
    """A constraint as an item of a column list."""
    condition = constraint.condition.sql(dialect=DeltaStream, comments=False)
    return f"CONSTRAINT {name_text(constraint.name)} CHECK ({condition}) ON VIOLATION {constraint.on_violation.upper()}"


def _as_select(statement: CreateAsSelect) -> str:
    constraints = ", ".join(map(print_constraint, statement.constraints))
    return _words(
        "CREATE",
        "VIRTUAL" if statement.virtual else "",
        SHOWN_KINDS[statement.kind],
        _unless_there(statement.if_not_exists),
        _name(statement.name),
        constraints and f"({constraints})",
        properties_text(statement.properties),
        "AS",
        print_select(statement.body),
    )


def _insert(statement: InsertInto) -> str:
    columns = f"({', '.join(map(_name, statement.columns))})" if statement.columns else ""
    return _words("INSERT INTO", _name(statement.target), columns, print_select(statement.body))


def _application(statement: Application) -> str:
    inside = "".join(f"{print_statement(inner)}; " for inner in statement.statements)
    end = _words("END APPLICATION", properties_text(statement.properties))
    return f"BEGIN APPLICATION {_name(statement.name)} {inside}{end}"


def _use(statement: Use) -> str:
    return _words("USE", statement.what.upper(), _name(statement.name))


def _question(statement: Interactive) -> str:
    return print_select(statement.body) if statement.body else statement.origin.text


_CREATE_WORDS: dict[type, str] = {
    CreateStore: "CREATE STORE",
    CreateSchemaRegistry: "CREATE SCHEMA_REGISTRY",
    CreateSecret: "CREATE SECRET",
    CreateDescriptorSource: "CREATE DESCRIPTOR_SOURCE",
    CreateFunctionSource: "CREATE FUNCTION_SOURCE",
    CreateComputePool: "CREATE COMPUTE_POOL",
}
_PRINTERS: dict[type, Callable[[Any], str]] = {
    CreateStore: _outside,
    CreateSchemaRegistry: _outside,
    CreateSecret: _outside,
    CreateDescriptorSource: _outside,
    CreateFunctionSource: _outside,
    CreateComputePool: _outside,
    CreateFunction: _function,
    UpdateConnection: _update,
    CreateDatabase: _database,
    CreateSchema: _schema,
    CreateEntity: _entity,
    CreateRelation: _relation,
    CreateAsSelect: _as_select,
    InsertInto: _insert,
    Application: _application,
    Use: _use,
    Interactive: _question,
}
