"""Rows that the example's relations really hold, read as a user reads them: records of entities, answers of
``ds query``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.demo.model import Expected
from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import LoadedProject, store_admin
from ds_dagster.questions.answers import ask_rows
from ds_dagster.questions.binding import bind_question
from ds_dagster.questions.following import ALL_RECORDS
from ds_dagster.runtime.connecting import resolver
from ds_dagster.sql.script import parse_select

QUESTIONS: Mapping[str, str] = {
    "url_visits": "SELECT * FROM url_visits",
    "url_device_visits": "SELECT * FROM url_device_visits",
    "user_device_visits": "SELECT * FROM user_device_visits",
    "user_url_device_visits": "SELECT * FROM user_url_device_visits",
    "region_clicks": "SELECT * FROM region_clicks",
}
NOT_THERE_YET = frozenset({"VIEW_MISSING", "TABLE_NOT_LOADED", "ENTITY_ABSENT"})
PERSONAL = b"PII"
EXAMPLES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Compared:
    """One relation compared with the model.

    Attributes:
        relation: its name.
        wanted, found: number of rows.
        missing, extra: how many rows are only in the model, only in the relation; ``examples`` of both.
    """

    relation: str
    wanted: int
    found: int
    missing: int
    extra: int
    examples: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether both hold the same rows."""
        return not self.missing and not self.extra


def compare(project: LoadedProject, expected: Expected) -> Compared:
    """Read a relation now and compare its rows, in any order."""
    rows = Counter(_frozen(row) for row in rows_of(project, expected.relation))
    wanted = Counter(_frozen(row) for row in expected.rows)
    missing, extra = wanted - rows, rows - wanted
    examples = [f"missing {row}" for row in list(missing)[:EXAMPLES_SHOWN]]
    examples += [f"extra {row}" for row in list(extra)[:EXAMPLES_SHOWN]]
    return Compared(expected.relation, wanted.total(), rows.total(), missing.total(), extra.total(), tuple(examples))


def rows_of(project: LoadedProject, name: str) -> list[dict[str, Any]]:
    """The rows of a relation; a changelog folded by key; none when nothing has been written yet."""
    try:
        if name in QUESTIONS:
            return ask_rows(project, bind_question(project, parse_select(QUESTIONS[name])))
        return _records(project, name)
    except DsError as problem:
        if problem.condition in NOT_THERE_YET:
            return []
        raise


def timed_rows(project: LoadedProject, name: str) -> list[tuple[int, dict[str, Any]]]:
    """Records of a stream with the timestamps of their server."""
    _, records = _raw(project, name)
    return [(record.timestamp_millis, json.loads(record.value)) for record in records if record.value is not None]


def _records(project: LoadedProject, name: str) -> list[dict[str, Any]]:
    relation, records = _raw(project, name)
    pairs = [(record.key, record.value) for record in records]
    values = _folded(pairs) if relation.is_changelog else [value for _, value in pairs if value is not None]
    return [json.loads(value) for value in values]


def _raw(project: LoadedProject, name: str) -> tuple[Relation, list[RawRecord]]:
    """All committed records of a relation's entity."""
    settings = project.settings
    relation = project.catalog.relation(QualifiedName(settings.database, settings.schema, name))
    admin = store_admin(project, relation.store, resolver(settings, relation.store))
    try:
        records = admin.records(relation.entity, from_beginning=True, limit=ALL_RECORDS, stopped=lambda: False)
        return relation, list(records)
    finally:
        admin.close()


def _folded(records: Iterable[tuple[bytes | None, bytes | None]]) -> list[bytes]:
    latest: dict[bytes | None, bytes] = {}
    for key, value in records:
        if value is None:
            latest.pop(key, None)
        else:
            latest[key] = value
    return list(latest.values())


def personal_records(project: LoadedProject, relations: Iterable[str]) -> list[str]:
    """Relations in whose records personal data was found."""
    return [name for name in relations if any(PERSONAL.decode() in str(row) for row in rows_of(project, name))]


def _frozen(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, ensure_ascii=False)
