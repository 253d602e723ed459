"""CREATE DATABASE and CREATE SCHEMA → the (database, schema) pairs that exist."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.catalog.declaring.declared import PUBLIC
from ds_dagster.catalog.records import Findings
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import CreateDatabase, CreateSchema, Statement


def declare_schemas(statements: Sequence[Statement], settings: Settings, findings: Findings) -> set[tuple[str, str]]:
    """The pairs that exist, always with the pair of the settings. Mistakes go into ``findings``."""
    defaults = settings.database.lower(), settings.schema.lower()
    schemas = {defaults, (defaults[0], PUBLIC)}
    databases: dict[str, Span] = {}
    for statement in statements:
        if isinstance(statement, CreateDatabase):
            name = str(statement.name)
            if name in databases and not statement.if_not_exists:
                findings.add(error("DUPLICATE_DATABASE", span=statement.name.span, name=name), databases[name])
            databases.setdefault(name, statement.name.span)
            schemas.add((name, PUBLIC))
    database_names = {database for database, _ in schemas}
    declared: dict[tuple[str, str], Span] = {}
    for statement in statements:
        if isinstance(statement, CreateSchema):
            _declare_schema(statement, settings, database_names, declared, findings)
    return schemas | set(declared)


def _declare_schema(
    statement: CreateSchema,
    settings: Settings,
    databases: set[str],
    declared: dict[tuple[str, str], Span],
    findings: Findings,
) -> None:
    parts = statement.name.parts
    written = str(statement.database) if statement.database else (parts[0] if len(parts) == 2 else "")
    database = written or statement.origin.context.database or settings.database.lower()
    name, span = parts[-1], statement.name.span
    if len(parts) > 2:
        findings.add(error("NAME_TOO_LONG", span=span, name=str(statement.name)))
    elif database not in databases:
        place = statement.database.span if statement.database else span
        nearest = did_you_mean(database, sorted(databases))
        findings.add(error("UNKNOWN_DATABASE", span=place, name=database, nearest=nearest))
    elif (database, name) in declared and not statement.if_not_exists:
        findings.add(error("DUPLICATE_SCHEMA", span=span, name=f"{database}.{name}"), declared[database, name])
    else:
        declared.setdefault((database, name), span)
