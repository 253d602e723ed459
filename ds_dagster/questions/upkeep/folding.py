"""The current rows of a changelog: the newest record of each key of its topic, without deleted keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.formats import FORMATS
from ds_dagster.errors import error
from ds_dagster.project.load import LoadedProject, store_admin
from ds_dagster.questions.arrow import value_of
from ds_dagster.questions.duck_types import arrow_type
from ds_dagster.questions.following import ALL_RECORDS, has_text_keys
from ds_dagster.questions.records import decode
from ds_dagster.runtime.connecting import resolver

if TYPE_CHECKING:
    import pyarrow

MOST_RECORDS = 10_000_000
"""Most records that are read of one topic, about a minute; more are refused."""
MOST_ROWS = 1_000_000
"""Most keys of one topic whose rows are kept in memory; more are refused."""
MOST_KEYS = 4_000_000
"""Most keys of one topic that are counted; more are refused."""


def rows_of(project: LoadedProject, relation: Relation, entity: str) -> pyarrow.Table | None:
    """The current rows of a changelog, up to the end that its topic has now; None if the topic does not exist.

    Args:
        project: with the store.
        relation: the changelog, with the columns of its rows. Columns that an older record does not have are NULL.
        entity: its topic, or that of a version of it.

    Raises:
        NotYetError: DIFF_FORMAT_NOT_YET.
        UserError: CHANGELOG_TOO_LARGE, CHANGELOG_ROW_UNREADABLE.
        DsError: a condition of the store (STORE_…).
    """
    import pyarrow as pa

    needed = next((format_ for format_ in (relation.value_format, relation.key.format) if format_ in FORMATS), None)
    if needed is not None:
        raise error("DIFF_FORMAT_NOT_YET", relation=relation.name.name, format=FORMATS[needed].title)
    lenient = replace(relation, columns=tuple(replace(column, nullable=True) for column in relation.columns))
    text_keys = has_text_keys(project, relation.store)
    parts: dict[str, list[object]] = {column.name: [] for column in relation.columns}
    with _records(project, relation, entity) as records:
        if records is None:
            return None
        rows = folded(entity, records, MOST_ROWS)
    for record in rows.values():
        decoded = decode(lenient, record, text_keys=text_keys)
        if decoded.problem:
            place = f"{record.partition}/{record.position}"
            name = relation.name.name
            raise error("CHANGELOG_ROW_UNREADABLE", relation=name, entity=entity, place=place, reason=decoded.problem)
        for column in relation.columns:
            parts[column.name].append(value_of(decoded.values.get(column.name), column.type))
    return pa.table({column.name: pa.array(parts[column.name], arrow_type(column.type)) for column in relation.columns})


def count_rows(project: LoadedProject, relation: Relation, entity: str) -> int:
    """Number of current rows of a changelog, whatever its format; 0 if the topic does not exist yet.

    Args:
        project, relation, entity: as for :func:`rows_of`.

    Raises:
        UserError: CHANGELOG_TOO_LARGE.
        DsError: a condition of the store (STORE_…).
    """
    with _records(project, relation, entity) as records:
        bare = (replace(record, value=None if record.value is None else b"") for record in records or ())
        return len(folded(entity, bare, MOST_KEYS))


def folded(entity: str, records: Iterable[RawRecord], most: int) -> Mapping[bytes, RawRecord]:
    """The newest record of each key, without deleted keys and records without a key. If several partitions have a key
    (their number has changed), the record with the newest timestamp counts, as when a version takes over.

    Args:
        entity: the topic.
        records: of the topic; those of a partition in their order.
        most: most keys.

    Raises:
        UserError: CHANGELOG_TOO_LARGE.
    """
    newest: dict[tuple[bytes, str], RawRecord] = {}
    for number, record in enumerate(records):
        if number >= MOST_RECORDS:
            raise error("CHANGELOG_TOO_LARGE", entity=entity, most=MOST_RECORDS, what="records")
        if record.key is not None:
            newest[record.key, record.partition] = record
        if len(newest) > most:
            raise error("CHANGELOG_TOO_LARGE", entity=entity, most=most, what="keys")
    rows: dict[bytes, RawRecord] = {}
    for (key, _), record in newest.items():
        other = rows.get(key)
        if other is None or record.timestamp_millis > other.timestamp_millis:
            rows[key] = record
    return MappingProxyType({key: record for key, record in rows.items() if record.value is not None})


@contextmanager
def _records(project: LoadedProject, relation: Relation, entity: str) -> Iterator[Iterable[RawRecord] | None]:
    """The records of a topic up to its present end; None if it does not exist."""
    with closing(store_admin(project, relation.store, resolver(project.settings, relation.store))) as admin:
        if admin.describe(entity) is None:
            yield None
            return
        records = admin.records(entity, from_beginning=True, limit=ALL_RECORDS, stopped=lambda: False)
        try:
            yield records
        finally:
            close = getattr(records, "close", None)
            if close is not None:
                close()
