"""Questions over one stream or changelog: rows as its records arrive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.reading.starting import Offsets, partition_number
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.formats import FORMATS
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.datatypes import BIGINT, VARCHAR, DataType
from ds_dagster.errors import error
from ds_dagster.project.load import LoadedProject, store_admin
from ds_dagster.questions.arrow import value_of
from ds_dagster.questions.binding import Question, limit_of
from ds_dagster.questions.duck_types import arrow_type
from ds_dagster.questions.engine import QuestionEngine
from ds_dagster.questions.records import Decoded, decode
from ds_dagster.questions.relations import ROWTIME, table_name
from ds_dagster.questions.trees import Aggregated
from ds_dagster.questions.values import Row, json_rows
from ds_dagster.runtime.connecting import resolver
from ds_dagster.stores.registry import KINDS

OPERATION = "__op"
"""First column of a question over a changelog: ``upsert`` or ``delete``."""
PLACE = "__place"
"""Column with the number of a record in its chunk."""
ALL_RECORDS = 2**62
AT_ONCE = 2_000
"""Most records in a chunk."""
ENDLESS: Mapping[str, str] = MappingProxyType(
    {"joins": "a join", "group": "GROUP BY", "order": "ORDER BY", "distinct": "DISTINCT", "offset": "OFFSET"}
)
Note = Callable[[str], None]


def is_endless(question: Question) -> bool:
    """Whether the question reads a stream or a changelog, whose records never end."""
    return any(relation.kind in ("stream", "changelog") for relation in question.relations)


def check_endless(question: Question, text: str, *, always: bool = False) -> None:
    """Refuse clauses that have no answer over records that never end; ``always``: refuse every question over them.

    Raises:
        UserError: QUESTION_WITHOUT_END.
    """
    relation = next(r for r in question.relations if r.kind in ("stream", "changelog"))
    tree = question.tree
    parts = [what for clause, what in ENDLESS.items() if tree.args.get(clause)]
    if not isinstance(tree, exp.Select):
        parts.append(type(tree).__name__.upper())
    if tree.find(exp.Window):
        parts.append("OVER")
    if tree.find(Aggregated):
        parts.append("an aggregate")
    if tree.find(exp.Subquery, exp.Exists):
        parts.append("a sub-select")
    if parts or always:
        params: dict[str, Any] = {"select": text.strip().rstrip(";"), "kind": relation.kind}
        raise error("QUESTION_WITHOUT_END", what=[*parts, "one answer"][0], relation=relation.name.name, **params)


def follow(project: LoadedProject, question: Question, limit: int | None, note: Note) -> Iterator[Row]:
    """Rows of one stream or changelog as they arrive. With a limit it also ends where the entity ended at the start.

    A changelog's rows begin with :data:`OPERATION`. Records that cannot be decoded are reported and skipped.

    Args:
        project: the loaded project.
        question: over one stream or changelog.
        limit: value of ``--limit``; the question's own LIMIT counts too.
        note: called with a line for each bad record, and with one if the entity ends before the limit.

    Raises:
        UserError: ENTITY_ABSENT, QUESTION_FAILED.
        NotYetError: FORMAT_QUESTION_NOT_YET.
        DsError: a condition of the store (STORE_…).
    """
    relation = question.relations[0]
    needed = next((format_ for format_ in (relation.value_format, relation.key.format) if format_ in FORMATS), None)
    if needed is not None:
        raise error("FORMAT_QUESTION_NOT_YET", relation=str(relation.name), format=FORMATS[needed].title)
    least = min((n for n in (limit, limit_of(question.tree)) if n is not None), default=None)
    admin = store_admin(project, relation.store, resolver(project.settings, relation.store))
    stopped = threading.Event()
    records = records_of(
        admin,
        relation.entity,
        from_beginning=relation.start.position != "latest",
        begin=relation.start.timestamp,
        offsets=relation.start.offsets,
        ends=least is not None,
        stopped=stopped.is_set,
    )
    chunks = Chunks(records, stopped)
    text_keys = has_text_keys(project, relation.store)
    try:
        with RecordTable(question) as table:
            count = 0
            for row in islice(_matching(table, relation, chunks, text_keys, note), least):
                count += 1
                yield row
        if least is not None and count < least:
            note(f"{relation.name.name} has no more rows up to its newest record; without a limit, rows follow")
    finally:
        chunks.close()
        _close(records)
        admin.close()


def records_of(
    admin: StoreAdmin,
    entity: str,
    *,
    from_beginning: bool,
    begin: int | None,
    ends: bool,
    stopped: Callable[[], bool],
    offsets: Offsets = (),
) -> Iterator[RawRecord]:
    """Records of an entity; looked up by time if the store has an index for that.

    Args:
        admin: of the store.
        entity: name of the entity.
        from_beginning: existing records too, not only new ones.
        begin: first record's timestamp, epoch milliseconds; None for all records.
        ends: stop where the entity ended at the start, if it is read from the beginning.
        stopped: returns whether to end.
        offsets: first offset of each named partition.

    Raises:
        UserError: ENTITY_ABSENT.
        DsError: a condition of the store (STORE_…).
    """
    limit = ALL_RECORDS if ends else None
    records = admin.records(entity, from_beginning=from_beginning, limit=limit, stopped=stopped, since=begin)
    try:
        yield from since_offsets(since(records, begin), offsets)
    finally:
        _close(records)


def since(records: Iterator[RawRecord], timestamp: int | None) -> Iterator[RawRecord]:
    """The records of each partition from its first record at or after a time (epoch ms) on; None: all."""
    begun: set[str] = set()
    for record in records:
        if timestamp is None or record.partition in begun or record.timestamp_millis >= timestamp:
            begun.add(record.partition)
            yield record


def since_offsets(records: Iterator[RawRecord], offsets: Offsets) -> Iterator[RawRecord]:
    """The records of each named partition from its offset on, and all records of other partitions."""
    firsts = dict(offsets)
    for record in records:
        number = partition_number(record.partition) if firsts else None
        # a record inside an aggregate has its number behind a slash
        if number is None or number not in firsts or int(record.position.partition("/")[0]) >= firsts[number]:
            yield record


class Chunks:
    """Groups records into lists: each list has all records that have arrived so far, at least one, at most
    :data:`AT_ONCE`.

    Args:
        records: read in a separate thread.
        stopped: set by :meth:`close`; ``records`` must end when it is set.
    """

    def __init__(self, records: Iterator[RawRecord], stopped: threading.Event) -> None:
        self._records = records
        self._stopped = stopped
        self._read: queue.Queue[RawRecord | BaseException | None] = queue.Queue(AT_ONCE)
        self._thread = threading.Thread(target=self._fill, name="ds-records", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[list[RawRecord]]:
        while True:
            chunk: list[RawRecord] = []
            item = self._read.get()
            while isinstance(item, RawRecord):
                chunk.append(item)
                if len(chunk) == AT_ONCE or self._read.empty():
                    break
                item = self._read.get()
            if chunk:
                yield chunk
            if isinstance(item, BaseException):
                raise item
            if item is None:
                return

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        while self._thread.is_alive():
            try:
                self._read.get(timeout=0.05)
            except queue.Empty:
                continue

    def _fill(self) -> None:
        end: BaseException | None = None
        try:
            for record in self._records:
                self._read.put(record)
                if self._stopped.is_set():
                    return
        except BaseException as problem:  # noqa: BLE001 - raised again where the records are read
            end = problem
        finally:
            if not self._stopped.is_set():
                self._read.put(end)


def _matching(table: RecordTable, relation: Relation, chunks: Chunks, text_keys: bool, note: Note) -> Iterator[Row]:
    for chunk in chunks:
        decoded = []
        for record in chunk:
            values = decode(relation, record, text_keys=text_keys)
            if values.problem:
                note(f"{relation.entity} {record.partition}/{record.position} skipped: {values.problem}")
            else:
                decoded.append((values, record.timestamp_millis))
        if decoded:
            yield from table.rows(decoded)


def _close(records: Iterator[Any]) -> None:
    close = getattr(records, "close", None)
    if close is not None:
        close()


def has_text_keys(project: LoadedProject, store: str) -> bool:
    """Whether a store's keys are text, not bytes: then the store limits the number of characters."""
    return KINDS[project.catalog.store(store).kind].capabilities.max_key_characters is not None


class RecordTable:
    """Answers a question for chunks of records."""

    def __init__(self, question: Question) -> None:
        relation = question.relations[0]
        self._question = question
        self._relation = relation
        self._types: dict[str, DataType] = {
            **{column.name: column.type for column in relation.columns},
            ROWTIME: BIGINT,
            OPERATION: VARCHAR,
            PLACE: BIGINT,
        }
        self._engine = QuestionEngine()
        self._asked = _per_record(question)
        self._statement = self._engine.prepare(self._asked)

    def __enter__(self) -> RecordTable:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()

    def rows(self, records: Sequence[tuple[Decoded, int]]) -> Iterator[Row]:
        """The question's rows for decoded records that satisfy its condition.

        Args:
            records: decoded records with their timestamps (epoch ms).

        Raises:
            UserError: QUESTION_FAILED.
        """
        import pyarrow as pa

        values = [
            {
                **record.values,
                ROWTIME: rowtime,
                OPERATION: "delete" if record.deleted else "upsert",
                PLACE: place,
            }
            for place, (record, rowtime) in enumerate(records)
        ]
        columns = {
            name: pa.array([value_of(row.get(name), type_) for row in values], arrow_type(type_))
            for name, type_ in self._types.items()
        }
        answer = self._engine.answer(self._statement, {table_name(self._relation): pa.table(columns)})
        for row in json_rows(self._asked.columns, answer):
            operation = row.pop(OPERATION)
            yield {OPERATION: operation, **row} if self._relation.is_changelog else row


def _per_record(question: Question) -> Question:
    """The question with :data:`OPERATION` as first column, in the order of the records. A delete also passes if the
    condition is unknown (NULL), since only its key columns have values."""
    tree = question.tree.copy()
    alias = tree.args["from_"].this.args["alias"].this
    operation = exp.column(exp.to_identifier(OPERATION, quoted=True), table=alias.copy())
    place = exp.column(exp.to_identifier(PLACE, quoted=True), table=alias.copy())
    tree.set("expressions", [exp.alias_(operation, OPERATION, quoted=True), *tree.expressions])
    tree.set("limit", None)
    tree.set("order", exp.Order(expressions=[exp.Ordered(this=place)]))
    where = tree.args.get("where")
    if where is not None:
        condition = exp.Paren(this=where.this)
        unknown = exp.Is(this=condition.copy(), expression=exp.Null())
        deleted = exp.EQ(this=operation.copy(), expression=exp.Literal.string("delete"))
        tree.set("where", exp.Where(this=exp.Or(this=condition, expression=exp.And(this=deleted, expression=unknown))))
    return Question(tree, ((OPERATION, VARCHAR), *question.columns), question.relations)
