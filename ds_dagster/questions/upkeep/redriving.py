"""``ds redrive``: sends records that queries left out to their topic again, repaired, each once.

The records are from :mod:`ds_dagster.questions.upkeep.left_out`. Requests that would lose or double a row are refused
before anything is sent.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.redriving import KeepsNotes, PutsRecords, Redrives, RepairedRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.clock import Clock
from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, store_admin
from ds_dagster.questions.json_records import Json, read_object
from ds_dagster.questions.upkeep.doubling import late_for, takers
from ds_dagster.questions.upkeep.left_out import LeftOut, logs_of, readers_of
from ds_dagster.questions.upkeep.noted_puts import ByNotes
from ds_dagster.runtime.connecting import resolver

AT_ONCE = 1_000
"""Most records of one transaction."""
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
"""Columns for conditions over entries → DuckDB's types; times are in UTC."""


def where(selected: Sequence[LeftOut], condition: str) -> tuple[LeftOut, ...]:
    """The entries for which a condition over :data:`FILTERED` is true; bytes that are not text count as NULL.

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
    """An entry as a line of a repair file; bytes that are not text as ``{"base64": …}``."""
    row: dict[str, Any] = {"partition": entry.partition, "offset": entry.position, "record_time": entry.record_time}
    row |= {"query": entry.query, "reason": entry.reason}
    row |= {"key": _written(entry.key), "value": _written(entry.value)}
    if entry.row:
        row |= {"row": entry.row}
    return json.dumps(row, ensure_ascii=False)


def _written(part: bytes | None) -> object:
    text = _decoded(part)
    return {"base64": base64.b64encode(part).decode()} if part is not None and text is None else text


def repairs(file: Path, known_entries: Sequence[LeftOut], relation: str) -> tuple[LeftOut, ...]:
    """The entries of a repair file, with its keys and values, to the last digit; blank lines are skipped.

    Args:
        file: lines of :func:`to_line`; lines may be removed, keys and values changed.
        known_entries: all entries of the logs.
        relation: name of the relation, for messages.

    Raises:
        UserError: REDRIVE_FILE_INVALID.
    """
    by_id = {entry.id: entry for entry in known_entries}
    repaired: dict[str, LeftOut] = {}
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = read_object(line).members
            id_ = "/".join(str(json.loads(row[name].text)) for name in PLACE)
            key, value = _bytes(row["key"]), _bytes(row["value"])
        except (ValueError, KeyError, TypeError) as problem:
            raise _invalid(file, number, relation, f"{type(problem).__name__}: {problem}") from problem
        if id_ not in by_id or id_ in repaired:
            reason = "its record is in the file twice" if id_ in repaired else "no log of the relation has its record"
            raise _invalid(file, number, relation, reason)
        own = by_id[id_]
        repaired[id_] = replace(own, key=key, value=value, repaired=(key, value) != (own.key, own.value))
    return tuple(repaired.values())


def _invalid(file: Path, line: int, relation: str, reason: str) -> Exception:
    return error("REDRIVE_FILE_INVALID", file=str(file), line=line, reason=reason, relation=relation)


def _bytes(written: Json) -> bytes | None:
    """The bytes of a key or value in a repair file: of a text, of ``{"base64": …}``, or of other JSON, unchanged.

    Raises:
        ValueError: it is not valid base64, or has half a surrogate pair.
    """
    if written.kind == "null":
        return None
    if written.kind == "string":
        return str(json.loads(written.text)).encode()
    if set(written.members) == {"base64"}:
        return base64.b64decode(json.loads(written.members["base64"].text), validate=True)
    return written.text.encode()


@dataclass(frozen=True, slots=True)
class Redriven:
    """Result for the selected entries.

    Attributes:
        sent: entries that were sent now; in a dry run, entries that would be sent.
        before: entries that had been sent already.
        hindrances: in a dry run, the errors with which a real run would refuse.
    """

    sent: tuple[LeftOut, ...]
    before: tuple[LeftOut, ...]
    hindrances: tuple[DsError, ...] = ()


def redrive(
    project: LoadedProject,
    relation: Relation,
    selected: Sequence[LeftOut],
    note: Mapping[str, object],
    *,
    dry: bool,
    clock: Clock,
    may_double: bool = False,
) -> Redriven:
    """Send entries that were not sent before to the relation's entity. If a run is killed, only whole transactions are
    sent, or the next run finds out which records were sent; it sends the rest.

    Args:
        project: with the relation.
        relation: a declared relation with logs, see :func:`logs_of`.
        selected: entries, repaired or not.
        note: who, when and why; stored with each record that is sent.
        dry: only check, send nothing.
        clock: clock of this machine.
        may_double: allow that queries process a record twice.

    Raises:
        DsError: REDRIVE_REFUSED, REDRIVE_RECORD_GONE, REDRIVE_LATE_AGAIN, REDRIVE_WOULD_DOUBLE, REDRIVE_UNDER_WAY,
            REDRIVE_UNCERTAIN: nothing was sent. Or the store fails.
    """
    with ExitStack() as stack:
        operations = _redrives(project, relation, stack, clock, may_double=may_double)
        outcome = _divided(selected, operations.redriven(relation.entity))
        hindrances = tuple(_hindrances(project, relation, outcome.sent, may_double=may_double))
        if dry:
            return replace(outcome, hindrances=hindrances)
        for hindrance in hindrances:
            raise hindrance
        readers = readers_of(project, relation)
        with closing(operations.redriver(relation.entity)) as sender:
            outcome = _divided(selected, sender.sent())
            for part in _parts(outcome.sent):
                sender.send([_record(entry, note, is_new=_gets_new_time(entry, relation, readers)) for entry in part])
    return outcome


def _redrives(
    project: LoadedProject, relation: Relation, stack: ExitStack, clock: Clock, *, may_double: bool
) -> Redrives:
    """How records are sent: in a transaction together with their notes, or with notes next to the logs.

    Raises:
        DsError: REDRIVE_REFUSED, or a store fails.
    """
    admin = _admin(project, relation.store, stack)
    operations = admin.operations()
    if isinstance(operations, Redrives):
        return operations
    hint = "send the repaired records yourself; `ds redrive --export` writes them into a file"
    reason = f"store {relation.store} does not accept records"
    if isinstance(operations, PutsRecords):
        logs = {log.relation.store: log.relation.entity for log in logs_of(project, relation)}
        keeps = _admin(project, next(iter(logs)), stack).operations()
        if len(logs) == 1 and isinstance(keeps, KeepsNotes):
            return ByNotes(admin, operations, relation.store, clock, may_double, keeps, next(iter(logs.values())))
        reason = f"its logs are in {', '.join(sorted(logs))}; notes of sent records need one KAFKA store with all logs"
        hint = "keep all logs of its records in one KAFKA store"
    raise error("REDRIVE_REFUSED", relation=relation.name.name, reason=reason, hint=hint)


def _admin(project: LoadedProject, store: str, stack: ExitStack) -> StoreAdmin:
    return stack.enter_context(closing(store_admin(project, store, resolver(project.settings, store))))


def _hindrances(
    project: LoadedProject, relation: Relation, to_send: Sequence[LeftOut], *, may_double: bool
) -> Iterator[DsError]:
    """The errors that prevent sending, each with the number of entries and the place of one."""
    name, readers = relation.name.name, readers_of(project, relation)
    gone = [entry for entry in to_send if not entry.is_there and not entry.repaired]
    if gone:
        yield error("REDRIVE_RECORD_GONE", relation=name, count=len(gone), entity=relation.entity, first=_shown(gone))
    untouched = [entry for entry in to_send if not entry.repaired]
    late = [(entry, column) for entry in untouched for column in dict.fromkeys(late_for(entry, relation, readers))]
    if late:
        first = _shown([entry for entry, _ in late])
        count, columns = len({entry.id for entry, _ in late}), sorted({column for _, column in late})
        yield error("REDRIVE_LATE_AGAIN", relation=name, count=count, columns=columns, first=first)
    taken = [] if may_double else [(entry, takers(entry, relation, readers)) for entry in to_send]
    doubled = [entry for entry, queries in taken if queries]
    if doubled:
        queries = sorted({query for _, queries in taken for query in queries})
        yield error("REDRIVE_WOULD_DOUBLE", relation=name, count=len(doubled), queries=queries, first=_shown(doubled))


def _shown(selected: Sequence[LeftOut]) -> str:
    return "/".join(selected[0].place)


def _divided(selected: Sequence[LeftOut], sent: frozenset[str]) -> Redriven:
    before = tuple(entry for entry in selected if entry.id in sent)
    return Redriven(tuple(entry for entry in selected if entry.id not in sent), before)


def _parts(selected: Sequence[LeftOut]) -> Iterator[Sequence[LeftOut]]:
    for begin in range(0, len(selected), AT_ONCE):
        yield selected[begin : begin + AT_ONCE]


def _gets_new_time(entry: LeftOut, relation: Relation, readers: Sequence[BoundQuery]) -> bool:
    """Whether a record was late by its own timestamp: with that timestamp it would be late again."""
    return entry.is_late and not any(True for _ in late_for(entry, relation, readers))


def _record(entry: LeftOut, note: Mapping[str, object], *, is_new: bool) -> RepairedRecord:
    """The record to send. It keeps its partition, and its timestamp unless ``is_new``; the partition of a repaired
    record with a key depends on the key."""
    partition = None if entry.repaired and entry.key is not None else entry.partition
    text = json.dumps({**note, "query": entry.query, "reason": entry.reason, "repaired": entry.repaired})
    return RepairedRecord(entry.id, entry.key, entry.value, None if is_new else entry.record_time, partition, text)
