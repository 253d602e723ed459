"""The plan node that reads a relation, and the event time of its rows."""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ds_dagster.catalog.reading.starting import DataLoss, StartingPosition
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.store import ReadOptions
from ds_dagster.datatypes import BIGINT
from ds_dagster.plan.expressions.field_names import field_name, record_field
from ds_dagster.plan.nodes.node import ChangelogKind, Field, Node

BadRecords = Literal["terminate", "ignore"]
METADATA_FIELD = "rowmetadata()"
"""Second part of the internal name of the field that holds what the store knows of a record."""


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

    ``record_fields``: what else is read of a record, see ``plan/expressions/record_fields.py``.

    ``columns``: names of the columns the query needs, in the relation's order; None = all. Primary key, NOT NULL
    columns and the event-time column are always among them. Only these are decoded.

    ``source_name`` names the Spark source inside its checkpoint (letters, digits, underscore; unique in the query and
    stable under edits of the projection). A changelog scan yields upserts and deletes by ``key``. ``slot`` names the
    place its store keeps for this reader; empty: the job's own. ``log``: where bad records that are ignored are kept.
    """

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

    @property
    def output(self) -> tuple[Field, ...]:
        fields = tuple(Field(self.field_name(c.name), c.type, c.nullable) for c in self.read_columns)
        rowtime = (Field(self.rowtime_field, BIGINT, False),) if self.rowtime else ()
        return (*fields, *rowtime, *self.record_fields)

    @property
    def reading(self) -> ReadOptions:
        """What the store's ``read_spec`` wants to know."""
        has_metadata = any(field.name.endswith(METADATA_FIELD) for field in self.record_fields)
        return ReadOptions(
            self.starting_position,
            self.max_records_per_batch,
            self.starting_timestamp,
            self.data_loss,
            has_metadata,
            self.slot,
        )

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """Columns of the relation that are read."""
        if self.columns is None:
            return self.relation.columns
        kept = frozenset(self.columns)
        return tuple(column for column in self.relation.columns if column.name in kept)

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
