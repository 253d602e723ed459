"""DESCRIBE in ``ds sql``: stores, relations, queries; for statements see ``describe_statement.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ds_dagster.catalog.properties.latency import mode_text
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import probe_through
from ds_dagster.cli.output import clock
from ds_dagster.cli.shell.describe_statement import describe_statement
from ds_dagster.cli.shell.session import Executor, Session
from ds_dagster.errors import error
from ds_dagster.figures import FIGURES, rounded
from ds_dagster.names import did_you_mean
from ds_dagster.project.load import delivery_of, uri_of
from ds_dagster.runtime.journals.records import Transition
from ds_dagster.sql.commands import DescribeQuery, DescribeRelation, DescribeStatement, DescribeStore


def describe_store(session: Session, statement: DescribeStore) -> None:
    """DESCRIBE STORE: declared properties with secrets hidden, and whether the store answers now."""
    store = session.project().catalog.store(str(statement.name), statement.name.span)
    probe = probe_through(session.admin(store))
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
    """DESCRIBE RELATION: all facts about a relation after inference, or only its columns."""
    from ds_dagster.questions.relations import resolve_relation
    from ds_dagster.questions.serving import serving_relation

    project = session.project()
    relation = serving_relation(project, resolve_relation(project, str(statement.name), statement.name.span))
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
            "mode": mode_text(relation) or None,
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
    """DESCRIBE QUERY: the state of a query's job; METRICS: its figures; STATE: its checkpoint and state; EVENTS: its
    history."""
    from ds_dagster.runtime.control import Control

    project, name = session.project(), str(statement.name)
    control = Control.open(session.settings)
    statuses = {status.name: status for status in control.statuses()}
    names = dict.fromkeys([*project.queries, *statuses])
    if name not in names:
        raise error("JOB_UNKNOWN", span=statement.name.span, name=name, nearest=did_you_mean(name, names))
    if statement.part == "events":
        session.output.table("DESCRIBE_QUERY_EVENTS", [event(t) for t in control.transitions(name)])
        return
    status = control.status(name)
    fields = {field: getattr(status, field) for field in QUERY_FIELDS[statement.part]}
    values = {field: clock(value) if field in TIMES and value else value for field, value in fields.items()}
    for field, figure in FIGURES.items():
        if figure.part == statement.part:
            value = getattr(status, field)
            values[figure.name] = clock(value) if figure.unit == "moment" and value else rounded(figure, value)
    if not statement.part:
        query = project.queries.get(name)
        values["relation"] = query.relations if query else status.relation
        values["mode"] = (mode_text(query.sink) or None) if query else None
        values["query"] = " ".join(query.statement.origin.text.split()) if query else None
    session.output.document(f"DESCRIBE_QUERY{'_' if statement.part else ''}{statement.part.upper()}", values)


QUERY_FIELDS: Mapping[str, tuple[str, ...]] = {
    "": (
        "name",
        "relation",
        "desired",
        "state",
        "since",
        "condition",
        "message",
        "hint",
        "next_retry",
        "attempts",
        "log",
    ),
    "metrics": ("name",),
    "state": ("name", "checkpoint_version", "fingerprint"),
}
"""Part of DESCRIBE QUERY → fields of the job's status that are shown before its figures."""
TIMES = frozenset({"since", "next_retry"})


def event(transition: Transition) -> dict[str, Any]:
    """One entry of a job's history, as a row."""
    fields = ("kind", "source", "target", "reason", "condition", "message", "actor")
    return {"at": clock(transition.at), **{field: getattr(transition, field) or None for field in fields}}


EXECUTORS: Mapping[type, Executor] = {
    DescribeStore: describe_store,
    DescribeRelation: describe_relation,
    DescribeQuery: describe_query,
    DescribeStatement: describe_statement,
}
