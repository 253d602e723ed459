"""``@renamed_from`` above a query: the query's former name, and the cases in which the line is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName, fold
from ds_dagster.plan.binding.binder import default_name
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.settings import Settings
from ds_dagster.sql.annotations import renamed_from_of
from ds_dagster.sql.statements import CreateAsSelect

MOST_PLACES = 2
"""A relation's name has a database and a schema at most."""


def former_name(query: BoundQuery, settings: Settings) -> str:
    """Former name of a query's job, from its ``@renamed_from``; empty without it."""
    return "" if query.is_application else _former(query.parts[0], settings)


def rename_problems(
    queries: Mapping[str, BoundQuery], relations: Iterable[Relation], settings: Settings
) -> Iterator[Diagnostic]:
    """RENAMED_FROM_INVALID for each ``@renamed_from`` of a project that is invalid regardless of the running jobs."""
    first: dict[str, str] = {}
    for query in queries.values():
        for part in query.parts:
            written = renamed_from_of(part.statement.origin.comment)
            if written is None:
                continue
            former = _former(part, settings)
            reason = _reason(query, part, former, queries)
            if not reason and (other := first.setdefault(former, part.name)) != part.name:
                reason = f"{other} has the line, too"
            if reason:
                yield _problem(written, reason, part.statement.origin.span)
    for relation in relations:
        written = renamed_from_of(relation.comment) if relation.declared else None
        if written is not None:
            reason = f"{relation.name.name} is declared and has no query: its readers go on by its store and entity"
            yield _problem(written, reason, relation.span)


def _former(part: Part, settings: Settings) -> str:
    written = renamed_from_of(part.statement.origin.comment) or ""
    *schema, last = (fold(text) for text in written.split("."))
    if not last or not isinstance(part.statement, CreateAsSelect) or len(schema) > MOST_PLACES:
        return fold(written)
    name = part.sink.name
    database, place = (
        (name.database, name.schema, *schema)[-MOST_PLACES:] if len(schema) != 1 else (name.database, *schema)
    )
    return default_name(QualifiedName(database, place, last), settings)


def _reason(query: BoundQuery, part: Part, former: str, queries: Mapping[str, BoundQuery]) -> str:
    if query.is_application:
        return "a statement of an application keeps its name: the checkpoint has it"
    if len(former.split()) != 1:
        return "that is not one name"
    if former == part.name:
        return "that is its name"
    if former in queries:
        return f"{former} is still there"
    return (
        "each of its loads ends by itself, so it has no state: rename its table in the store" if query.is_finite else ""
    )


def _problem(written: str, reason: str, span: Span) -> Diagnostic:
    return error("RENAMED_FROM_INVALID", span=span, value=written or "without a name", reason=reason).diagnostic()
