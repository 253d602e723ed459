"""``ds redrive``: records that queries left out go back into their topic, repaired, each once.

Entries come from the row logs of a declared relation: its quarantine, and the logs of records that cannot be decoded.
A record that several queries have logged is one entry.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.redriving import Redrives, RepairedRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import quarantine
from ds_dagster.errors import error
from ds_dagster.project.load import LoadedProject, store_admin
from ds_dagster.questions.records import decode
from ds_dagster.runtime.connecting import resolver

AT_ONCE = 1_000
"""Records of one transaction."""
PLACE = ("partition", "offset", "record_time")
FILTERED: Mapping[str, str] = MappingProxyType(
    {
        "query": "VARCHAR",
        "reason": "VARCHAR",
        "partition": "VARCHAR",
        "offset": "VARCHAR",
        "record_time": "TIMESTAMP",
        "key": "VARCHAR",
        "value": "VARCHAR",
    }
)
"""Columns of a condition over entries, as DuckDB's types; times are in UTC."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record that was left out, as the logs have it.

    Attributes:
        query: that left it out; the first of several.
        partition, position: of the record in the relation's entity.
        record_time: epoch milliseconds.
        key, value: its bytes, or the repaired ones.
        reason: why it was left out.
        repaired: key or value are not the record's own.
    """

    query: str
    partition: str
    position: str
    record_time: int
    key: bytes | None
    value: bytes | None
    reason: str
    repaired: bool = False

    @property
    def id(self) -> str:
        """Tells the record from all others of its topic, and of an earlier topic of the same name."""
        return f"{self.partition}/{self.position}/{self.record_time}"


def logs_of(project: LoadedProject, relation: Relation) -> tuple[Relation, ...]:
    """The row logs that hold whole records of a relation.

    Raises:
        UserError: REDRIVE_REFUSED.
    """
    refusal = {
        "its rows are a query's results, which have no record to repair": (
            not relation.declared,
            "repair the records of the source that the query reads",
        ),
        "it is not a stream or changelog": (
            relation.kind not in ("stream", "changelog"),
            "name the stream whose records were left out",
        ),
    }
    for reason, (holds, hint) in refusal.items():
        if holds:
            raise error("REDRIVE_REFUSED", relation=relation.name.name, reason=reason, hint=hint)
    scans = [scan for query in project.queries.values() for scan in query.scans if scan.relation.name == relation.name]
    logs = [quarantine(relation), *(scan.log for scan in scans)]
    by_place = {(log.store, log.entity): log for log in logs if log is not None}
    if not by_place:
        hint = "write ON VIOLATION QUARANTINE, or 'source.deserialization.error.handling' = 'IGNORE_AND_LOG'"
        raise error("REDRIVE_REFUSED", relation=relation.name.name, reason="no query keeps them in a log", hint=hint)
    return tuple(by_place.values())


def entries(project: LoadedProject, relation: Relation) -> tuple[LeftOut, ...]:
    """All entries of a relation's logs, in the order of the logs, each record once.

    Raises:
        DsError: REDRIVE_REFUSED, or of the logs' stores. A log that does not exist yet has no entries.
    """
    records: dict[str, LeftOut] = {}
    for log in logs_of(project, relation):
        with closing(store_admin(project, log.store, resolver(project.settings, log.store))) as admin:
            if admin.describe(log.entity) is None:
                continue
            for record in admin.records(log.entity, from_beginning=True, limit=1 << 62, stopped=lambda: False):
                values = decode(log, record).values
                if _is_of(values, relation):
                    entry = _entry(values)
                    records.setdefault(entry.id, entry)
    return tuple(records.values())


def _is_of(values: Mapping[str, Any], relation: Relation) -> bool:
    place = (values.get("relation"), values.get("store"), values.get("entity"))
    return place == (str(relation.name), relation.store, relation.entity)


def _entry(values: Mapping[str, Any]) -> LeftOut:
    moment: datetime = values["record_time"]
    at = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return LeftOut(
        query=values["query"] or "",
        partition=values["partition"],
        position=values["offset"],
        record_time=round(at.timestamp() * 1000),
        key=values["key"],
        value=values["value"],
        reason=values["reason"] or "",
    )


def where(selected: Sequence[LeftOut], condition: str) -> tuple[LeftOut, ...]:
    """The entries for which a condition over :data:`FILTERED` is true; bytes that are not text are NULL in it.

    Raises:
        UserError: REDRIVE_WHERE_INVALID.
    """
    import duckdb
    import pyarrow

    if not condition:
        return tuple(selected)
    columns = {
        "query": [entry.query for entry in selected],
        "reason": [entry.reason for entry in selected],
        "partition": [entry.partition for entry in selected],
        "offset": [entry.position for entry in selected],
        "record_time": pyarrow.array([e.record_time for e in selected], pyarrow.int64()).cast(pyarrow.timestamp("ms")),
        "key": pyarrow.array([_decoded(entry.key) for entry in selected], pyarrow.string()),
        "value": pyarrow.array([_decoded(entry.value) for entry in selected], pyarrow.string()),
        "number": pyarrow.array(range(len(selected)), pyarrow.int64()),
    }
    try:
        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            rows = connection.from_arrow(pyarrow.table(columns)).filter(condition).project("number").fetchall()
    except duckdb.Error as problem:
        raise error("REDRIVE_WHERE_INVALID", problem=str(problem).splitlines()[0], columns=list(FILTERED)) from problem
    return tuple(selected[number] for number in sorted(number for (number,) in rows))


def _decoded(part: bytes | None) -> str | None:
    try:
        return None if part is None else part.decode()
    except UnicodeDecodeError:
        return None


def to_line(entry: LeftOut) -> str:
    """An entry as a line of a file of repairs; bytes that are not text as ``{"base64": …}``."""
    row: dict[str, Any] = {"partition": entry.partition, "offset": entry.position, "record_time": entry.record_time}
    row |= {"query": entry.query, "reason": entry.reason}
    row |= {"key": _written(entry.key), "value": _written(entry.value)}
    return json.dumps(row, ensure_ascii=False)


def _written(part: bytes | None) -> object:
    text = _decoded(part)
    return {"base64": base64.b64encode(part).decode()} if part is not None and text is None else text


def repairs(file: Path, known_entries: Sequence[LeftOut], relation: str) -> tuple[LeftOut, ...]:
    """The entries of a file, with key and value as they are there; blank lines do not count.

    Args:
        file: lines of :func:`to_line`, some removed, keys and values changed.
        known_entries: of the logs.
        relation: for messages.

    Raises:
        UserError: REDRIVE_FILE_INVALID.
    """
    by_id = {entry.id: entry for entry in known_entries}
    repaired: dict[str, LeftOut] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            id_ = "/".join(str(row[name]) for name in PLACE)
            key, value = _bytes(row["key"]), _bytes(row["value"])
        except (ValueError, KeyError, TypeError, binascii.Error) as problem:
            raise _invalid(file, number, relation, f"{type(problem).__name__}: {problem}") from problem
        if id_ not in by_id or id_ in repaired:
            reason = "its record is there twice" if id_ in repaired else "no log of the relation has its record"
            raise _invalid(file, number, relation, reason)
        own = by_id[id_]
        repaired[id_] = replace(own, key=key, value=value, repaired=(key, value) != (own.key, own.value))
    return tuple(repaired.values())


def _invalid(file: Path, line: int, relation: str, reason: str) -> Exception:
    return error("REDRIVE_FILE_INVALID", file=str(file), line=line, reason=reason, relation=relation)


def _bytes(written: object) -> bytes | None:
    """Text, ``{"base64": …}``, or a JSON object or array as its text."""
    if written is None or isinstance(written, str):
        return None if written is None else written.encode()
    if isinstance(written, dict) and set(written) == {"base64"}:
        return base64.b64decode(written["base64"], validate=True)
    return json.dumps(written, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Redriven:
    """``sent``: entries that went back now; ``before``: entries that had been sent already."""

    sent: tuple[LeftOut, ...]
    before: tuple[LeftOut, ...]


def redrive(
    project: LoadedProject, relation: Relation, selected: Sequence[LeftOut], note: Mapping[str, object], *, dry: bool
) -> Redriven:
    """Send entries into the relation's entity that were not sent before. A kill in between leaves whole transactions:
    the next run sends the rest.

    Args:
        project: with the relation.
        relation: declared, with :func:`logs_of`.
        selected: entries, repaired or not.
        note: who, when and why, kept with each record that is sent.
        dry: send nothing, look only.

    Raises:
        DsError: REDRIVE_REFUSED, or of the store.
    """
    with closing(store_admin(project, relation.store, resolver(project.settings, relation.store))) as admin:
        operations = admin.operations()
        if not isinstance(operations, Redrives):
            reason = f"store {relation.store} has no transaction that holds records and the note that they were sent"
            hint = "send the repaired records yourself; `ds redrive --export` writes them into a file"
            raise error("REDRIVE_REFUSED", relation=relation.name.name, reason=reason, hint=hint)
        if dry:
            return _divided(selected, operations.redriven(relation.entity))
        with closing(operations.redriver(relation.entity)) as sender:
            outcome = _divided(selected, sender.sent())
            for part in _parts(outcome.sent):
                sender.send([_record(entry, note) for entry in part])
    return outcome


def _divided(selected: Sequence[LeftOut], sent: frozenset[str]) -> Redriven:
    before = tuple(entry for entry in selected if entry.id in sent)
    return Redriven(tuple(entry for entry in selected if entry.id not in sent), before)


def _parts(selected: Sequence[LeftOut]) -> Iterator[Sequence[LeftOut]]:
    for begin in range(0, len(selected), AT_ONCE):
        yield selected[begin : begin + AT_ONCE]


def _record(entry: LeftOut, note: Mapping[str, object]) -> RepairedRecord:
    """A record keeps its partition; a repaired one goes where its key decides, if it has one."""
    partition = None if entry.repaired and entry.key is not None else int(entry.partition)
    text = json.dumps({**note, "query": entry.query, "reason": entry.reason, "repaired": entry.repaired})
    return RepairedRecord(entry.id, entry.key, entry.value, entry.record_time, partition, text)
