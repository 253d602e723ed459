"""The plan node that reads a relation, and the event time of its rows."""

# ruff: noqa: D102, ARG002 — methods of nodes and their arguments are described once, in Node
from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import ClassVar, Literal

from ds_dagster.catalog.reading.starting import DataLoss, Offsets, StartingPosition, offsets_text
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.row_log import log_name
from ds_dagster.catalog.store import ReadOptions
from ds_dagster.datatypes import BIGINT
from ds_dagster.plan.constraint import Constraint, constraints_shape
from ds_dagster.plan.expressions.field_names import column_of, field_name, record_field, shown
from ds_dagster.plan.nodes.describing import changelog_text
from ds_dagster.plan.nodes.node import ChangelogKind, Field, Names, Node, Sources
from ds_dagster.plan.nodes.relation_shapes import Shape, columns_shape, entity_shape, records_shape
from ds_dagster.plan.nodes.shaping import Shaper, ShapeScope
from ds_dagster.sql.generator import duration_text

BadRecords = Literal["terminate", "ignore"]
METADATA_FIELD = "rowmetadata()"
"""Second part of the internal name of the field with the store's metadata of a record."""


@dataclass(frozen=True, slots=True)
class SourceTime:
    """Event time of one source.

    Attributes:
        column: internal name of the field that carries it, None = the record's own timestamp (arrival).
        format: of text timestamps in the value.
        lateness_millis: bound (``source.allow.latency.millis``); None = default: 500 ms where the broker stamps, 10 s
            otherwise.
        idle_millis: ``source.idle.timeout.millis``, default 10,000.
    """

    column: str | None = None
    format: Literal["sql", "iso8601"] = "sql"
    lateness_millis: int | None = None
    idle_millis: int = 10_000


@dataclass(frozen=True, slots=True)
class Scan(Node):
    """Reads a relation. Fields are ``alias$column`` for the columns that are read, and ``alias$rowtime()`` where
    ``rowtime()`` is used (BIGINT, epoch milliseconds of the record's own timestamp).

    ``record_fields``: the record's metadata that is read, see ``plan/expressions/record_fields.py``.

    ``columns``: names of the columns the query needs, in the relation's order; None = all. Primary key, NOT NULL
    columns and the event-time column are always among them. Only these are decoded.

    ``source_name`` names the Spark source inside its checkpoint (letters, digits, underscore; unique in the query and
    stable under edits of the projection). A changelog scan yields upserts and deletes by ``key``. ``slot``: name of the
    replication slot; empty: the job's own. ``log``: relation that keeps bad records that are ignored; None: none does.

    ``constraints``: of the relation; rows are checked before anything else is done with them.
    ``quarantine``: relation for rows that violate a constraint.
    """

    one_by_one: ClassVar[bool] = True
    relation: Relation
    alias: str
    source_name: str
    time: SourceTime = SourceTime()
    starting_position: StartingPosition = "earliest"
    bad_records: BadRecords = "terminate"
    max_records_per_batch: int | None = None
    columns: tuple[str, ...] | None = None
    rowtime: bool = False
    starting_timestamp: int | None = None
    data_loss: DataLoss = "fail"
    record_fields: tuple[Field, ...] = ()
    slot: str = ""
    log: Relation | None = None
    constraints: tuple[Constraint, ...] = ()
    quarantine: Relation | None = None
    starting_offsets: Offsets = ()

    @property
    def output(self) -> tuple[Field, ...]:
        fields = tuple(Field(self.field_name(c.name), c.type, c.nullable) for c in self.read_columns)
        rowtime = (Field(self.rowtime_field, BIGINT, False),) if self.rowtime else ()
        return (*fields, *rowtime, *self.record_fields)

    @property
    def reading(self) -> ReadOptions:
        """Arguments of the store's ``read_spec``."""
        has_metadata = any(field.name.endswith(METADATA_FIELD) for field in self.record_fields)
        return ReadOptions(
            self.starting_position,
            self.max_records_per_batch,
            self.starting_timestamp,
            self.data_loss,
            has_metadata,
            self.slot,
            self.starting_offsets,
        )

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """Columns of the relation that are read."""
        if self.columns is None:
            return self.relation.columns
        names = frozenset(self.columns)
        return tuple(column for column in self.relation.columns if column.name in names)

    @property
    def checked(self) -> Scan:
        """The scan with the columns that its constraints read. :attr:`output` of the plan's scan does not have them:
        state above would depend on them, and a changed constraint keeps the checkpoint."""
        if self.columns is None:
            return self
        names = {*self.columns}.union(*(constraint.condition.columns() for constraint in self.constraints))
        columns = tuple(c.name for c in self.relation.columns if c.name in names or self.field_name(c.name) in names)
        return replace(self, columns=columns)

    @property
    def rowtime_field(self) -> str:
        """Internal name of the record's own timestamp, a field only if ``rowtime`` is set."""
        return record_field(self.alias, "rowtime()")

    @property
    def changelog(self) -> ChangelogKind:
        return "upsert" if self.relation.is_changelog else "append"

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.field_name(name) for name in self.relation.primary_key) if self.relation.is_changelog else ()

    def field_name(self, column: str) -> str:
        """Internal name of a column of the relation."""
        return field_name(self.alias, column)

    @property
    def untimed(self) -> str:
        return ""

    @property
    def time_fields(self) -> Names:
        return frozenset((self.time.column or self.rowtime_field,))

    @property
    def shared_name(self) -> str:
        return self.source_name

    def shape(self, shaper: Shaper) -> Shape:
        relation, time, scope = self.relation, self.time, shaper.scope
        names = frozenset(c.name for c in self.read_columns)
        column = None if time.column is None else column_of(time.column)
        records = [relation.kind, columns_shape(relation, names), records_shape(relation)]
        rows: Shape = [entity_shape(relation, scope.store_kinds), *records]
        if scope.pace:
            own = {self.field_name(c.name): c.name for c in relation.columns}
            texts = [shaper.text(constraint.condition, own) for constraint in self.constraints]
            pace = [*self._pace(), *constraints_shape(self.constraints, texts, self.quarantine)]
            return [*rows, [column, time.format, time.lateness_millis, time.idle_millis], pace]
        return [*rows, [column, time.format], *([[self.bad_records]] if scope.bad_records else ())]

    def _pace(self) -> Shape:
        """Settings of later versions are added only where they are written, so that other sources keep their hashes."""
        _, *moment = self.start
        log = [] if self.log is None else [["log", self.log.store, self.log.entity]]
        return [
            *(self.starting_position, self.bad_records, self.max_records_per_batch, self.rowtime, *moment),
            *(["skip"] if self.data_loss == "skip" else []),
            *([self.slot] if self.slot else []),
            *log,
            *(column_of(field.name) for field in self.record_fields),
        ]

    @property
    def start(self) -> Shape:
        """The starting position, then the timestamp (epoch milliseconds) or the offsets if there are any."""
        moment = [] if self.starting_timestamp is None else [self.starting_timestamp]
        return [self.starting_position, *moment, *([list(pair) for pair in self.starting_offsets])]

    @property
    def way(self) -> tuple[object, ...]:
        """What is read, and how: equal for sources of a query that read the same records."""
        return self.relation.name, self.start, self.bad_records, self.data_loss, self.slot

    def position_shape(self, scope: ShapeScope) -> Shape:
        """Its identity as a source of a checkpoint: name, entity, start and slot."""
        entity = entity_shape(self.relation, scope.store_kinds)
        return [self.source_name, *entity, *self.start, *([self.slot] if self.slot else [])]

    def about(self) -> str:
        relation = self.relation
        alias = "" if self.alias == relation.name.name else f" AS {self.alias}"
        columns = ", ".join(f"{c.name} {c.type}" for c in self.read_columns)
        facts = [f"{relation.name.name}{alias} ← {relation.store}.{relation.entity}", changelog_text(self)]
        facts += [self._time_text(), f"from {start_text(self)}"]
        facts.append("all columns" if self.columns is None else f"reads {columns}")
        if self.bad_records == "ignore":
            facts.append("bad records ignored" if self.log is None else f"bad records logged in {log_name(self.log)}")
        if self.data_loss == "skip":
            facts.append("lost records skipped")
        facts += [constraint.about() for constraint in self.constraints]
        if self.max_records_per_batch is not None:
            facts.append(f"at most {self.max_records_per_batch} records per batch")
        return " · ".join(facts)

    def _time_text(self) -> str:
        column, lateness = self.time.column, self.time.lateness_millis
        source = "time: record" if column is None else f"time: {shown(column)}"
        return source if lateness is None else f"{source} − {duration_text(lateness)}"

    def lineage(self, below: Sources) -> Sources:
        name = self.relation.name
        columns: Sources = {self.field_name(c.name): ((name, c.name),) for c in self.read_columns}
        return {**columns, self.rowtime_field: (), **{field.name: () for field in self.record_fields}}

    def pruned(self, needed: Names) -> Scan:
        """Also keeps key, NOT NULL and event-time columns (a record without them is bad), and at least one column."""
        relation = self.relation
        always = {*relation.primary_key, *(column.name for column in relation.columns if not column.nullable)}
        names = tuple(
            column.name
            for column in relation.columns
            if column.name in always or (name := self.field_name(column.name)) in needed or name == self.time.column
        )
        names = names or (relation.columns[0].name,)
        columns = None if len(names) == len(relation.columns) else names
        record_fields = tuple(field for field in self.record_fields if field.name in needed)
        return replace(self, columns=columns, rowtime=self.rowtime_field in needed, record_fields=record_fields)


def start_text(scan: Scan) -> str:
    """Where a new query begins to read, as text: a word, offsets, or a time in UTC."""
    if scan.starting_offsets:
        return f"{scan.starting_position} {offsets_text(scan.starting_offsets)}"
    if scan.starting_timestamp is None:
        return scan.starting_position
    return datetime.fromtimestamp(scan.starting_timestamp / 1000, tz=timezone.utc).isoformat(timespec="milliseconds")
