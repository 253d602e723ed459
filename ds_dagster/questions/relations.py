"""Relations of a question: lookup by name, and the names of their tables in its tree."""

from __future__ import annotations

from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, ProjectError, error
from ds_dagster.names import QualifiedName, did_you_mean
from ds_dagster.project.load import LoadedProject

ROWTIME = "__rowtime"
"""Column with a record's timestamp in questions over streams."""


def table_name(relation: Relation) -> str:
    """Name of a relation's table in the tree of a question."""
    return str(relation.name)


def resolve_typed(project: LoadedProject, typed: str) -> Relation:
    """A relation by its name on a command line: first exactly as typed, then in lower case.

    Raises:
        UserError: UNKNOWN_RELATION.
        ProjectError: its statement has mistakes.
    """
    try:
        return resolve_relation(project, typed)
    except DsError as problem:
        if problem.condition != "UNKNOWN_RELATION" or typed == typed.lower():
            raise
        return resolve_relation(project, typed.lower())


def resolve_relation(project: LoadedProject, written: str, span: Span | None = None) -> Relation:
    """A relation by its full name, or by the last part of its name if that is unique.

    Raises:
        UserError: UNKNOWN_RELATION.
        ProjectError: its statement has mistakes.
    """
    name = QualifiedName.parse(written, project.settings.database, project.settings.schema)
    names = {*project.catalog.relations, *(broken.name for broken in project.broken)}
    if name not in names:
        short = [other for other in names if other.name == written]
        if len(short) != 1:
            nearest = did_you_mean(name.name, [other.name for other in names])
            raise error("UNKNOWN_RELATION", span=span, name=written, nearest=nearest)
        name = short[0]
    broken = next((b for b in project.broken if b.name == name), None)
    relation = project.catalog.relations.get(name)
    if relation is None or not relation.columns:
        raise ProjectError(broken.diagnostics if broken else project.errors)
    return relation
