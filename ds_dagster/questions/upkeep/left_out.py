"""Records that queries left out: the row logs that contain them, their entries, and the records themselves.

A quarantine of a declared relation and a log of records that cannot be decoded contain whole records. Logs of rows
whose expressions fail, logs of late rows and quarantines of results contain rows, with the position of the record of a
row: the record is read again from this position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Literal

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.redriving import FindsRecords
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import quarantine
from ds_dagster.errors import DsError, error
from ds_dagster.plan.checks.late_rows import OF_THE_RECORD
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.window import LateRows
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, store_admin
from ds_dagster.questions.records import decode
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows as journal_rows

Kind = Literal["broken", "undecodable", "failed", "late"]
"""Why a record was left out: its row violates a constraint of its relation; it cannot be decoded; one of its rows fails
in a query (or violates a constraint of a result); one of its rows is late for a window."""
KINDS: tuple[Kind, ...] = ("broken", "undecodable", "failed", "late")
"""Order of kinds, from those that affect all readers to those that affect one query."""
OF_ROWS: tuple[Kind, ...] = ("failed", "late")
"""Kinds whose logs contain rows, with the position of their record."""
PLACE = ("query", "store", "entity", "partition", "offset", "record_time")
"""Columns of a log that identify the query and the record of a row."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record that was left out.

    Attributes:
        query: the query that left it out; the first of several.
        partition, position: position of the record in the relation's entity.
        record_time: timestamp of the record, epoch milliseconds.
        key, value: the record's bytes, or the repaired bytes.
        reason: why it was left out.
        repaired: key or value differ from the record's own.
        by: each query that left it out, and the kind of its reason.
        row: the row that failed, as text; empty for late rows, and if the log has the record.
        is_there: the record is known; False: the log has only a row, and the record no longer exists.
        came: the record's own value, None if the record is not known.
    """

    query: str
    partition: str
    position: str
    record_time: int
    key: bytes | None
    value: bytes | None
    reason: str
    repaired: bool = False
    by: frozenset[tuple[str, Kind]] = frozenset()
    row: str = ""
    is_there: bool = True
    came: bytes | None = None

    @property
    def id(self) -> str:
        """Identifies the record in its topic; differs from ids of records in an earlier topic of the same name."""
        return f"{self.partition}/{self.position}/{self.record_time}"

    @property
    def place(self) -> tuple[str, str]:
        """Partition and position of the record in its entity."""
        return self.partition, self.position

    @property
    def is_late(self) -> bool:
        """Whether a row of the record was late for a window."""
        return any(kind == "late" for _, kind in self.by)


@dataclass(frozen=True, slots=True)
class Log:
    """A row log.

    Attributes:
        relation: relation of the log.
        kind: kind of its entries; the last of :data:`KINDS` if it has entries of several kinds.
        renamed: columns of :data:`PLACE` → their names in this log, if these differ; None: some are missing.
    """

    relation: Relation
    kind: Kind
    renamed: Mapping[str, str] | None = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str]:
        """Store and entity of the log."""
        return self.relation.store, self.relation.entity

    @property
    def names_records(self) -> bool:
        """Whether its entries identify their records."""
        return self.renamed is not None

    def entry(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row of the log with the standard names of :data:`PLACE`."""
        return {**row, **{name: row[own] for name, own in (self.renamed or {}).items()}}


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of a relation's logs.

    Attributes:
        records: in the order of the logs, each record once.
        without_record: query (or log if the query is unknown) → number of rows that are not from one record.
        elsewhere: ``store.entity`` → number of rows of the relation that are from records there, since queries write
            the relation.
        unnamed: logs whose columns do not identify the record of a row.
    """

    records: tuple[LeftOut, ...]
    without_record: Mapping[str, int] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    unnamed: tuple[Log, ...] = ()


def readers_of(project: LoadedProject, relation: Relation) -> tuple[BoundQuery, ...]:
    """The queries that read the relation's entity, also through another relation."""
    queries = project.queries.values()
    return tuple(query for query in queries if any(same_entity(scan.relation, relation) for scan in query.scans))


def same_entity(left: Relation, right: Relation) -> bool:
    """Whether both relations have the same topic or stream."""
    return (left.store, left.entity) == (right.store, right.entity)


def logs_of(project: LoadedProject, relation: Relation) -> tuple[Log, ...]:
    """The row logs with records of a relation or with their rows; logs with whole records come first.

    Raises:
        UserError: REDRIVE_REFUSED.
    """
    refusal = {
        "its rows are a query's results, which have no record to repair": (
            not relation.declared,
            "repair the records of the source that the query reads: `ds redrive` of the source finds them",
        ),
        "it is not a stream or changelog": (
            relation.kind not in ("stream", "changelog"),
            "name the stream whose records were left out",
        ),
    }
    for reason, (holds, hint) in refusal.items():
        if holds:
            raise error("REDRIVE_REFUSED", relation=relation.name.name, reason=reason, hint=hint)
    logs: dict[tuple[str, str], Log] = {}
    for log in _logs(project, relation):
        earlier = logs.get(log.place, log)
        logs[log.place] = max(earlier, log, key=_rank)
    if not logs:
        hint = (
            "write ON VIOLATION QUARANTINE, 'source.deserialization.error.handling' = 'IGNORE_AND_LOG', "
            "'row.error.handling' = 'IGNORE_AND_LOG' or 'late.rows.relation'"
        )
        raise error("REDRIVE_REFUSED", relation=relation.name.name, reason="no query keeps them in a log", hint=hint)
    return tuple(sorted(logs.values(), key=_rank))


def _rank(log: Log) -> int:
    return KINDS.index(log.kind)


def _logs(project: LoadedProject, relation: Relation) -> Iterator[Log]:
    aside = quarantine(relation)
    if aside is not None:
        yield Log(aside, "broken")
    for query in readers_of(project, relation):
        for scan in query.scans:
            if scan.relation.name == relation.name and scan.log is not None:
                yield Log(scan.log, "undecodable")
        sinks = (node for node in query.plan.walk() if isinstance(node, Sink) and node.quarantine is not None)
        for log in (*query.error_logs, *(sink.quarantine for sink in sinks)):
            if log is not None:
                yield Log(log, "failed")
        yield from (Log(late.relation, "late", _renamed(late)) for late in query.late)


def _renamed(late: LateRows) -> Mapping[str, str] | None:
    names = {name: own for own, name in late.record}
    return names if names.keys() >= set(PLACE) else None


def entries(project: LoadedProject, relation: Relation) -> Entries:
    """All entries of a relation's logs, each record once. If a log has only rows, their records are read again. A log
    that does not exist yet has no entries.

    Raises:
        DsError: REDRIVE_REFUSED, or a store fails.
    """
    logs = logs_of(project, relation)
    unnamed = tuple(log for log in logs if not log.names_records)
    if len(unnamed) == len(logs):
        raise _without_place(relation, unnamed[0])
    records: dict[str, LeftOut] = {}
    without: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter()
    readers = {query.name for query in readers_of(project, relation)}
    renamed = renamed_jobs(project, readers)
    for log in (log for log in logs if log.names_records):
        for row in _rows(project, log):
            values = {**row, "query": renamed.get(row["query"], row["query"])}
            query = values["query"] or log.relation.name.name
            is_own = values.get("relation") == str(relation.name)
            if _is_of(values, relation, log.kind):
                entry = _entry(values, log.kind)
                earlier = records.get(entry.id)
                records[entry.id] = entry if earlier is None else replace(earlier, by=earlier.by | entry.by)
            elif values["partition"] is None:
                if is_own or (log.kind in OF_ROWS and query in (*readers, log.relation.name.name)):
                    without[query] += 1
            elif is_own and log.kind == "broken":
                elsewhere[f"{values['store']}.{values['entity']}"] += 1
    return Entries(tuple(_with_records(project, relation, tuple(records.values()))), without, elsewhere, unnamed)


def renamed_jobs(project: LoadedProject, names: Collection[str]) -> Mapping[str, str]:
    """Former name → present name, for queries of these names that were renamed, once or several times: rows that they
    logged before have the name of that time. Names that queries of the project have today, or that several jobs had,
    are left out. Without entries if the journal does not answer. A redrive then refuses more than it must."""
    control = Control.open(project.settings)
    try:
        if not control.journal.exists():
            return {}
        with control.journal.read() as connection:
            jobs = journal_rows.jobs(connection)
            history = journal_rows.former_names(connection, sorted(jobs))
    except DsError:
        return {}
    finally:
        control.journal.close()
    owners: dict[str, set[str]] = {}
    for name, job in jobs.items():
        for former in {job.writes_as.partition("@")[0], *history.get(name, ())}:
            owners.setdefault(former, set()).add(job.of)
    sole = {former: min(of) for former, of in owners.items() if former not in project.queries and len(of) == 1}
    return {former: name for former, name in sole.items() if name in names}


def _without_place(relation: Relation, log: Log) -> Exception:
    missing = [name for name in OF_THE_RECORD if log.relation.column(name) is None]
    declared = log.relation.name.name
    hint = f"add the columns {', '.join(missing)} to {declared}; rows that are late from then on can be sent again"
    if not missing:
        hint = f"a column of {relation.name.name} has the name of one of {', '.join(OF_THE_RECORD)}: rename that column"
    reason = f"{declared} does not identify the records of its late rows"
    return error("REDRIVE_REFUSED", relation=relation.name.name, reason=reason, hint=hint)


def _rows(project: LoadedProject, log: Log) -> Iterator[Mapping[str, Any]]:
    """The log's rows as columns; records that are not valid rows of the log are skipped."""
    store = log.relation.store
    with closing(store_admin(project, store, resolver(project.settings, store))) as admin:
        if admin.describe(log.relation.entity) is None:
            return
        for record in admin.records(log.relation.entity, from_beginning=True, limit=1 << 62, stopped=lambda: False):
            values = decode(log.relation, record).values
            if values:
                yield log.entry(values)


def _is_of(values: Mapping[str, Any], relation: Relation, kind: Kind) -> bool:
    """Whether an entry is from a record of the relation. For failed and late rows only the entity counts: their
    relation may be a result, or several sources."""
    is_record = (values["store"], values["entity"]) == (relation.store, relation.entity)
    return is_record and (kind in OF_ROWS or values["relation"] == str(relation.name))


def _entry(values: Mapping[str, Any], kind: Kind) -> LeftOut:
    moment: datetime = values["record_time"]
    at = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    has_record = kind not in OF_ROWS
    query, value = values["query"] or "", values.get("value")
    return LeftOut(
        query=query,
        partition=values["partition"],
        position=values["offset"],
        record_time=round(at.timestamp() * 1000),
        key=values.get("key"),
        value=value if has_record else None,
        reason=values.get("reason") or ("late for its window" if kind == "late" else ""),
        by=frozenset({(query, kind)}),
        row="" if has_record or kind == "late" else (value or b"").decode("utf-8", "replace"),
        is_there=has_record,
        came=value if has_record else None,
    )


def _with_records(project: LoadedProject, relation: Relation, records: Sequence[LeftOut]) -> Iterator[LeftOut]:
    """The entries; an entry of a row gets the key and the value of its record, if the record still exists."""
    wanted = [entry.place for entry in records if not entry.is_there]
    by_place: Mapping[tuple[str, str], RawRecord] = {}
    if wanted:
        with closing(store_admin(project, relation.store, resolver(project.settings, relation.store))) as admin:
            operations = admin.operations()
            if isinstance(operations, FindsRecords):
                by_place = operations.find_records(relation.entity, wanted)
    for entry in records:
        record = None if entry.is_there else by_place.get(entry.place)
        if record is not None and abs(record.timestamp_millis - entry.record_time) <= 1:  # not from a later topic
            yield replace(entry, key=record.key, value=record.value, came=record.value, is_there=True)
        else:
            yield entry
