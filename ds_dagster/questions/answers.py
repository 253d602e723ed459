"""Answers to bound questions: from the files of views, from tables (``table_answers.py``), from the records of topics
and streams."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schema_formats import FORMATS
from ds_dagster.catalog.table_properties import RETENTION
from ds_dagster.datatypes import DataType
from ds_dagster.errors import DsError, error
from ds_dagster.project import Project, kind_of_store, store_admin
from ds_dagster.questions import tables as table_answers
from ds_dagster.questions.binding import AGGREGATES, ROWTIME, Question, limit_of
from ds_dagster.questions.connecting import resolver
from ds_dagster.questions.pull_dialects import sqlite_text, table_of, tables_of
from ds_dagster.questions.pull_functions import FunctionFailures, install
from ds_dagster.questions.records import Decoded, decode
from ds_dagster.questions.values import json_value
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.sqlite_reader import open_views, shown_table

OPERATION = "__op"
"""First column of a question over a changelog: ``upsert`` or ``delete``."""
ALL_RECORDS = 2**62
ENDLESS: Mapping[str, str] = MappingProxyType(
    {"joins": "a join", "group": "GROUP BY", "order": "ORDER BY", "distinct": "DISTINCT", "offset": "OFFSET"}
)
Row = dict[str, Any]
Note = Callable[[str], None]
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a question asked once: column (name, type) in order, rows by name as JSON values."""

    columns: tuple[tuple[str, DataType], ...]
    rows: Sequence[Row]


def is_endless(question: Question) -> bool:
    """Whether it reads records rather than rows of views and tables."""
    return any(relation.kind in ("stream", "changelog") for relation in question.relations)


# --- views and tables -------------------------------------------------------------------------------------------------


def ask(project: Project, question: Question) -> Answer:
    """The answer from views or tables of one store.

    Raises:
        NotYetError: QUESTION_STORES_DIFFER, QUESTION_STORE_UNREADABLE, QUESTION_FUNCTION_NOT_THERE.
        UserError: VIEW_MISSING, TABLE_NOT_LOADED, QUESTION_FAILED. ExternalError: VIEW_UNREADABLE, STORE_….
    """
    first = question.relations[0]
    for other in question.relations[1:]:
        if other.store != first.store:
            names: dict[str, Any] = {"left_store": first.store, "right_store": other.store}
            raise error("QUESTION_STORES_DIFFER", left=first.name.name, right=other.name.name, **names)
    kind = kind_of_store(project, first)
    reader = READERS.get(kind.capabilities.storage_kind)
    if reader is None:
        raise error("QUESTION_STORE_UNREADABLE", relation=first.name.name, type=kind.name)
    found = reader(project, question)
    columns = [name for name, _ in question.columns]
    types = [type_ for _, type_ in question.columns]
    rows = [
        dict(zip(columns, (json_value(v, t) for v, t in zip(row, types, strict=True)), strict=True)) for row in found
    ]
    return Answer(question.columns, rows)


def _from_views(project: Project, question: Question) -> Rows:
    aliases = {relation.name: f"v{number}" for number, relation in enumerate(question.relations)}
    places = {relation.name: alias if alias != "v0" else "main" for relation, alias in _pairs(question, aliases)}
    folder = _folder(project, question.relations[0])
    connection = open_views(folder, {alias: name for name, alias in aliases.items()})

    def table(relation: Relation) -> exp.Table | exp.Subquery:
        columns = [column.name for column in relation.columns]
        retention = int(relation.option(RETENTION) or 0)
        return shown_table(connection, places[relation.name], relation.name.name, columns, retention)

    failures = install(connection)
    with _reported(failures):
        try:
            text = sqlite_text(question, tables_of(question.relations, table))
            return connection.execute(text).fetchall()
        finally:
            connection.close()


def _pairs(question: Question, aliases: Mapping[Any, str]) -> Iterator[tuple[Relation, str]]:
    return ((relation, aliases[relation.name]) for relation in question.relations)


@contextmanager
def _reported(failures: FunctionFailures) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as problem:
        raise error("QUESTION_FAILED", reason=failures.last or str(problem)) from problem


def _folder(project: Project, relation: Relation) -> Path:
    store = project.catalog.store(relation.store)
    return Path(resolver(project.settings, store.name)(store.properties["folder"]))


def newest_batch(project: Project, relation: Relation) -> float | None:
    """When a view or table was last written (seconds since the epoch), None where it cannot be told."""
    newest = NEWEST.get(kind_of_store(project, relation).capabilities.storage_kind)
    return None if newest is None else newest(project, relation)


def _newest_in_file(project: Project, relation: Relation) -> float | None:
    try:
        connection = open_views(_folder(project, relation), {"main": relation.name})
    except DsError:
        return None
    try:
        found = connection.execute("SELECT max(at) FROM ds_ledger").fetchone()[0]
    except sqlite3.Error:
        return None
    finally:
        connection.close()
    return None if found is None else float(found)


NEWEST: Mapping[str, Callable[[Project, Relation], float | None]] = MappingProxyType(
    {"sqlite": _newest_in_file, "postgres": table_answers.newest_in_postgres}
)
"""Kind of storage → when rows came last."""
READERS: Mapping[str, Callable[[Project, Question], Rows]] = MappingProxyType(
    {"sqlite": _from_views, **table_answers.READERS}
)
"""Kind of storage → who reads it."""


# --- streams and changelogs -------------------------------------------------------------------------------------------


def follow(project: Project, question: Question, limit: int | None, note: Note) -> Iterator[Row]:
    """Rows of one stream or changelog as they come; with a limit it also ends where the entity ended at the start.

    A changelog's rows begin with :data:`OPERATION`. Records that cannot be decoded are told and left out.

    Args:
        project: loaded.
        question: over one stream or changelog.
        limit: of ``--limit``; the one in the question counts as well.
        note: told about bad records.

    Raises:
        UserError: QUESTION_WITHOUT_END, ENTITY_MISSING. NotYetError: FORMAT_QUESTION_NOT_YET. DsError: STORE_….
    """
    relation = question.relations[0]
    needed = next((one for one in (relation.value_format, relation.key.format) if one in FORMATS), None)
    if needed is not None:
        raise error("FORMAT_QUESTION_NOT_YET", relation=str(relation.name), format=FORMATS[needed].title)
    least = min((n for n in (limit, limit_of(question.tree)) if n is not None), default=None)
    table = RecordTable(question)
    admin = store_admin(project, relation.store, resolver(project.settings, relation.store))
    start = relation.start
    records = admin.records(
        relation.entity,
        from_beginning=start.position != "latest",
        limit=None if least is None else ALL_RECORDS,
        stopped=lambda: False,
    )
    text_keys = has_text_keys(project, relation.store)
    try:
        yield from islice(_matching(table, relation, since(records, start.timestamp), text_keys, note), least)
    finally:
        _close(records)
        admin.close()
        table.close()


def since(records: Iterator[RawRecord], timestamp: int | None) -> Iterator[RawRecord]:
    """Of each partition what comes from its first record at or behind a moment (epoch ms) on."""
    begun: set[str] = set()
    for record in records:
        if timestamp is None or record.partition in begun or record.timestamp_millis >= timestamp:
            begun.add(record.partition)
            yield record


def _matching(
    table: RecordTable, relation: Relation, records: Iterator[RawRecord], text_keys: bool, note: Note
) -> Iterator[Row]:
    for record in records:
        decoded = decode(relation, record, text_keys=text_keys)
        if decoded.problem:
            note(f"{relation.entity} {record.partition}/{record.position} left out: {decoded.problem}")
            continue
        yield from table.rows(decoded, record.timestamp_millis)


def _close(records: Iterator[Any]) -> None:
    close = getattr(records, "close", None)
    if close is not None:
        close()


def has_text_keys(project: Project, store: str) -> bool:
    """Whether a store's keys are characters, not bytes (it bounds their number)."""
    return KINDS[project.catalog.store(store).kind].capabilities.max_key_characters is not None


def check_endless(question: Question, text: str) -> None:
    """Refuse what has no answer over records that never end.

    Raises:
        UserError: QUESTION_WITHOUT_END.
    """
    relation = next(r for r in question.relations if r.kind in ("stream", "changelog"))
    found = [what for clause, what in ENDLESS.items() if question.tree.args.get(clause)]
    if question.tree.find(*AGGREGATES):
        found.append("an aggregate")
    if question.tree.find(exp.Subquery):
        found.append("a sub-select")
    if found:
        params: dict[str, Any] = {
            "kind": relation.kind,
            "relation": relation.name.name,
            "select": text.strip().rstrip(";"),
        }
        raise error("QUESTION_WITHOUT_END", what=found[0], **params)


class RecordTable:
    """A table of one row in memory: each record is put into it and the question asked over it."""

    def __init__(self, question: Question) -> None:
        relation = question.relations[0]
        self._columns = question.columns
        self._is_changelog = relation.is_changelog
        self._names = [*(column.name for column in relation.columns), ROWTIME, OPERATION]
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._failures = install(self._connection)
        table = exp.to_identifier("record", quoted=True)
        names = [exp.to_identifier(name, quoted=True) for name in self._names]
        schema = exp.Schema(this=exp.Table(this=table), expressions=[exp.ColumnDef(this=name) for name in names])
        self._connection.execute(exp.Create(this=schema, kind="TABLE").sql(dialect="sqlite"))
        values = exp.Values(expressions=[exp.Tuple(expressions=[exp.Placeholder() for _ in names])])
        self._insert = exp.Insert(this=exp.Table(this=table.copy()), expression=values).sql(dialect="sqlite")
        self._delete = exp.Delete(this=exp.Table(this=table.copy())).sql(dialect="sqlite")
        self._select = sqlite_text(_per_record(question), tables_of([relation], lambda _: table_of("record")))

    def rows(self, decoded: Decoded, rowtime: int) -> Iterator[Row]:
        """The record's row where the condition holds.

        Raises:
            UserError: QUESTION_FAILED.
        """
        operation = "delete" if decoded.deleted else "upsert"
        values = {**decoded.values, ROWTIME: rowtime, OPERATION: operation}
        with _reported(self._failures):
            self._connection.execute(self._delete)
            self._connection.execute(self._insert, [values.get(name) for name in self._names])
            found = self._connection.execute(self._select).fetchall()
        for row in found:
            made: Row = {OPERATION: row[0]} if self._is_changelog else {}
            pairs = zip(self._columns, row[1:], strict=True)
            yield made | {name: json_value(value, type_) for (name, type_), value in pairs}

    def close(self) -> None:
        """Drop the table."""
        self._connection.close()


def _per_record(question: Question) -> Question:
    """The question over one record, the operation in front; a delete passes unless its key says that it cannot
    match."""
    tree = question.tree.copy()
    alias = tree.args["from_"].this.args["alias"].this
    operation = exp.column(exp.to_identifier(OPERATION, quoted=True), table=alias.copy())
    tree.set("expressions", [operation, *tree.expressions])
    tree.set("limit", None)
    where = tree.args.get("where")
    if where is not None:
        condition = exp.Paren(this=where.this)
        unknown = exp.Is(this=condition.copy(), expression=exp.Null())
        deleted = exp.EQ(this=operation.copy(), expression=exp.Literal.string("delete"))
        tree.set("where", exp.Where(this=exp.Or(this=condition, expression=exp.And(this=deleted, expression=unknown))))
    return Question(tree, question.columns, question.relations)
