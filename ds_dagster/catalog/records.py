"""Description of a relation's records from its WITH properties: value format, key, event time. Shared by declared
relations (``declaring/relations.py``) and inferred ones (``declaring/inference.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from ds_dagster.catalog.properties.spec import split_names
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.relation import (
    Column,
    EventTime,
    KeyFormat,
    RecordKey,
    Relation,
    TimestampFormat,
    ValueFormat,
)
from ds_dagster.catalog.reserved_columns import CORRUPT, RESERVED_COLUMNS
from ds_dagster.datatypes import DataType, Scalar, StructType, holds_timestamp, is_primitive, is_temporal
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.sql.statements import RelationKind, WrittenName

T = TypeVar("T")
NULLABLE_KEY = "primary.key.nullable"
CAUSED = (
    "STORE_REFUSED",
    "SCHEMA_REGISTRY_REFUSED",
    "SECRET_REFUSED",
    "DESCRIPTOR_SOURCE_REFUSED",
    "COMPUTE_POOL_REFUSED",
)
"""Conditions that follow from a refused statement; their parameter ``name`` is its name."""
VALUE_FORMATS: Mapping[str, ValueFormat] = MappingProxyType(
    {
        "json": "json",
        "primitive": "primitive",
        "avro": "avro",
        "protobuf": "protobuf",
        "json_schema": "json_schema",
        "csv": "csv",
        "parquet": "parquet",
    }
)
KEY_FORMATS: Mapping[str, KeyFormat] = MappingProxyType(
    {
        "json": "json",
        "primitive": "primitive",
        "avro": "avro",
        "protobuf": "protobuf",
        "json_schema": "json_schema",
        "csv": "json",
        "parquet": "json",
    }
)
"""Written ``key.format``, else the value format → format of keys."""
BINARY_FORMATS = frozenset(("avro", "protobuf", "parquet"))
"""Formats in which a timestamp is a number, not a text."""
PRIMITIVE_TYPES = ("SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "TINYINT", "FLOAT", "BOOLEAN", "VARBINARY")


class Findings:
    """Collects mistakes, so that one does not hide the next."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def add(self, problem: DsError, *related: Span) -> None:
        """Note an error; ``related``: other places that belong to it. If the error follows from a refused store,
        registry or other statement (:data:`CAUSED`), that name is noted as the cause."""
        cause = str(problem.params["name"]) if problem.condition in CAUSED else ""
        self.diagnostics.append(replace(problem.diagnostic(), related=related, caused_by=cause))

    def warn(self, problem: DsError) -> None:
        """Note a warning."""
        self.diagnostics.append(replace(problem.diagnostic(), severity="warning"))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Add diagnostics of another check."""
        self.diagnostics.extend(diagnostics)

    @property
    def failed(self) -> bool:
        """Whether there is an error, not only warnings."""
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    def collect(self, step: Callable[[], T]) -> T | None:
        """The result of a step, None when it was refused."""
        try:
            return step()
        except DsError as problem:
            self.add(problem)
            return None


@dataclass(frozen=True, slots=True)
class Draft:
    """A relation before its records are described.

    Attributes:
        name: as shown in messages.
        kind, columns, primary_key: of the relation.
        values: converted properties.
        span: of its name, where a message has no better place.
        partition_by: PARTITION BY of the query that fills it.
        written: True: a query writes it (key columns are taken from the output); False: others fill it.
    """

    name: str
    kind: RelationKind
    columns: Sequence[Column]
    primary_key: tuple[str, ...]
    values: Mapping[str, PropertyValue] = field(default_factory=lambda: MappingProxyType({}))
    span: Span | None = None
    partition_by: tuple[WrittenName, ...] = ()
    written: bool = False

    def span_of(self, name: str) -> Span | None:
        """Where a property was written, else the span of the relation's name."""
        item = self.values.get(name)
        return item.span if item is not None and item.span is not None else self.span

    def text(self, name: str) -> str | None:
        """A property as text, None when it is not set."""
        item = self.values.get(name)
        return None if item is None else str(item.value)

    def column(self, written: str) -> Column | None:
        """The column a property names: as written, in double quotes, or folded."""
        names = {column.name: column for column in self.columns}
        plain = written[1:-1] if len(written) > 2 and written[0] == written[-1] == '"' else written
        return names.get(plain) or names.get(plain.lower())

    def named_columns(self, property_name: str) -> tuple[Column, ...]:
        """Columns a ``names`` property lists.

        Raises:
            UserError: KEY_COLUMN_UNKNOWN.
        """
        return tuple(
            self.known_column(name, property_name, self.span_of(property_name))
            for name in split_names(self.values.get(property_name))
        )

    def known_column(self, name: str, property_name: str, span: Span | None) -> Column:
        """The column of that name.

        Raises:
            UserError: KEY_COLUMN_UNKNOWN with the nearest names.
        """
        present = self.column(name)
        if present is None:
            nearest = did_you_mean(name, [column.name for column in self.columns])
            raise error(
                "KEY_COLUMN_UNKNOWN", span=span, property=property_name, name=name, relation=self.name, nearest=nearest
            )
        return present


def check_columns(draft: Draft, findings: Findings) -> None:
    """Report column names that are reserved (COLUMN_NAME_RESERVED) or used twice (DUPLICATE_COLUMN). All duplicates
    from one ``*`` are one finding."""
    reserved = RESERVED_COLUMNS if draft.written else {CORRUPT}
    first_of: dict[str, Column] = {}
    twice: dict[Span | None, list[Column]] = {}
    for column in draft.columns:
        if column.name in reserved:
            findings.add(error("COLUMN_NAME_RESERVED", span=column.span or draft.span, name=column.name))
        if column.name in first_of:
            twice.setdefault(column.span or draft.span, []).append(column)
        first_of.setdefault(column.name, column)
    for span, columns in twice.items():
        names = ", ".join(column.name for column in columns)
        others = dict.fromkeys(place for column in columns if (place := first_of[column.name].span) and place != span)
        findings.add(error("DUPLICATE_COLUMN", span=span, name=names, relation=draft.name), *others)


def value_format(draft: Draft, default: ValueFormat) -> ValueFormat:
    """Format of the values.

    Raises:
        UserError: KEY_COLUMN_UNKNOWN; VALUE_PRIMITIVE when a primitive value is not exactly one column of
            :data:`PRIMITIVE_TYPES`.
    """
    format_ = VALUE_FORMATS[draft.text("value.format") or default]
    if format_ == "primitive":
        excluded = {column.name for column in draft.named_columns("value.columns.exclude")}
        value_columns = [column for column in draft.columns if column.name not in excluded]
        if len(value_columns) != 1 or not _is_part(value_columns[0].type):
            shown = ", ".join(f"{column.name} {column.type}" for column in value_columns) or "no column"
            raise error("VALUE_PRIMITIVE", span=draft.span_of("value.format"), relation=draft.name, columns=shown)
    return format_


def record_key(draft: Draft, default: ValueFormat) -> RecordKey:
    """Key of the records.

    A changelog's key is made of its PRIMARY KEY; a stream has one where PARTITION BY or ``key.columns`` name its
    columns, or, when it is only read, where ``key.type`` describes it. The format is ``key.format``, else the format
    of the value.

    Raises:
        UserError: KEY_COLUMN_UNKNOWN, KEY_COLUMN_TYPE, KEY_PRIMITIVE, KEY_TYPE_INVALID, KEY_CONTRADICTS,
            KEY_FORMAT_WITHOUT_KEY, VALUE_COLUMNS_ALL_EXCLUDED.
    """
    type_ = _key_type(draft)
    columns = _key_columns(draft)
    if type_ is None and not columns and "key.format" in draft.values:
        raise error("KEY_FORMAT_WITHOUT_KEY", span=draft.span_of("key.format"), relation=draft.name)
    if type_ is None and not columns:
        _refuse_exclusion(draft, ())
        return RecordKey()
    format_: KeyFormat = KEY_FORMATS[draft.text("key.format") or default]
    if type_ is not None:
        _check_key_type(draft, type_, format_)
    elif format_ == "primitive":
        _check_primitive(draft, columns)
    return RecordKey(format_, tuple(column.name for column in columns), type_, _refuse_exclusion(draft, columns))


def _key_columns(draft: Draft) -> tuple[Column, ...]:
    stated = draft.named_columns("key.columns")
    partition = tuple(draft.known_column(str(name), "PARTITION BY", name.span) for name in draft.partition_by)
    primary = tuple(draft.known_column(name, "PRIMARY KEY", draft.span) for name in draft.primary_key)
    if stated and partition and {c.name for c in stated} != {c.name for c in partition}:
        raise _contradiction(
            draft, "key.columns", "PARTITION BY", "both say which columns make the key", "leave out one of them"
        )
    chosen = partition or stated
    if draft.kind == "changelog":
        if chosen and {c.name for c in chosen} != {c.name for c in primary}:
            names = ", ".join(draft.primary_key)
            fix = f"leave it out, or name the same columns: {names}"
            raise _contradiction(draft, "key.columns", "the primary key", "a changelog's records are keyed by it", fix)
        chosen = chosen or primary
    for column in chosen:
        if not is_primitive(column.type):
            span = draft.span_of("key.columns")
            raise error("KEY_COLUMN_TYPE", span=span, name=column.name, type=column.type, relation=draft.name)
    return chosen


def _key_type(draft: Draft) -> DataType | None:
    text = draft.text("key.type")
    if text is None:
        return None
    if "key.columns" in draft.values:
        raise _contradiction(
            draft, "key.type", "key.columns", "the type follows from the columns", "leave out key.type"
        )
    from ds_dagster.sql.script import parse_type  # only relations with key.type need the parser

    try:
        return parse_type(text)
    except DsError as problem:
        span = draft.span_of("key.type")
        raise error("KEY_TYPE_INVALID", span=span, value=text, relation=draft.name, reason=problem.message) from problem


def _check_key_type(draft: Draft, type_: DataType, format_: KeyFormat) -> None:
    def refuse(reason: str) -> DsError:
        return error(
            "KEY_TYPE_INVALID", span=draft.span_of("key.type"), value=type_, relation=draft.name, reason=reason
        )

    if format_ == "primitive":
        if not _is_part(type_):
            raise refuse(f"primitive keys are one of {', '.join(PRIMITIVE_TYPES)}")
        if len(draft.primary_key) > 1:
            raise refuse("the primary key has several columns")
    elif not isinstance(type_, StructType):
        raise refuse(f"{format_} keys are a STRUCT")
    elif missing := [name for name in draft.primary_key if type_.field(name) is None]:
        raise refuse(f"it lacks {', '.join(missing)} of the primary key")


def _is_part(type_: DataType) -> bool:
    """Whether a primitive value or key may be of a type."""
    return isinstance(type_, Scalar) and type_.name in PRIMITIVE_TYPES


def _check_primitive(draft: Draft, columns: Sequence[Column]) -> None:
    if len(columns) != 1 or not _is_part(columns[0].type):
        shown = ", ".join(f"{column.name} {column.type}" for column in columns)
        raise error("KEY_PRIMITIVE", span=draft.span_of("key.format"), relation=draft.name, columns=shown)


def _refuse_exclusion(draft: Draft, key: Sequence[Column]) -> tuple[str, ...]:
    """Checks ``value.columns.exclude`` against the key and returns its names."""
    excluded = tuple(column.name for column in draft.named_columns("value.columns.exclude"))
    outside = [name for name in excluded if name not in {column.name for column in key}]
    if outside:
        reason = f"{', '.join(outside)} would be neither in the key nor in the value"
        fix = "exclude key columns only; name them with key.columns or PARTITION BY"
        raise _contradiction(draft, "value.columns.exclude", "the key", reason, fix)
    if excluded and len(excluded) == len(draft.columns):
        raise error("VALUE_COLUMNS_ALL_EXCLUDED", span=draft.span_of("value.columns.exclude"), relation=draft.name)
    return excluded


def _contradiction(draft: Draft, first: str, second: str, reason: str, fix: str) -> DsError:
    span = draft.span_of(first)
    return error("KEY_CONTRADICTS", span=span, first=first, second=second, relation=draft.name, reason=reason, fix=fix)


def check_timestamp_format(relation: Relation, values: Mapping[str, PropertyValue]) -> None:
    """Refuse ``timestamp.format`` where no timestamp is written as text.

    Raises:
        UserError: TIMESTAMP_FORMAT_UNUSED.
    """
    written = values.get("timestamp.format")
    if written is None:
        return
    formats = {relation.value_format, relation.key.format} - {"none"}
    reason = ""
    if not any(holds_timestamp(column.type) for column in relation.columns):
        reason = "no column holds a TIMESTAMP or TIMESTAMP_LTZ"
    elif formats <= BINARY_FORMATS:
        reason = f"{relation.value_format} has a type of its own for them"
    if reason:
        span = written.span or relation.span
        raise error("TIMESTAMP_FORMAT_UNUSED", span=span, relation=relation.name.name, reason=reason)


def event_time(draft: Draft, default: EventTime | None = None) -> EventTime:
    """Event time of the records: the column ``timestamp`` names, else the default, else the record's own time.

    Raises:
        UserError: TIMESTAMP_COLUMN_UNKNOWN, TIMESTAMP_COLUMN_TYPE.
    """
    base = default or EventTime()
    format_: TimestampFormat = "iso8601" if (draft.text("timestamp.format") or base.format) == "iso8601" else "sql"
    text = draft.text("timestamp")
    if text is None:
        return EventTime(base.column, format_)
    column = draft.column(text)
    span = draft.span_of("timestamp")
    if column is None:
        nearest = did_you_mean(text, [c.name for c in draft.columns])
        raise error("TIMESTAMP_COLUMN_UNKNOWN", span=span, name=text, relation=draft.name, nearest=nearest)
    if str(column.type) != "BIGINT" and not is_temporal(column.type):
        raise error("TIMESTAMP_COLUMN_TYPE", span=span, name=column.name, type=column.type, relation=draft.name)
    return EventTime(column.name, format_)
