"""Records ↔ columns: decode a scan's values and keys, encode a sink's.

A record that cannot be decoded either fails its batch (``BAD_RECORD`` with entity, partition, position and reason,
never the payload) or is dropped and counted, see :class:`~ds_dagster.plan.nodes.scan.Scan`. A null value (in some
stores also an empty one) deletes its key in a changelog and is skipped in a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.catalog.io_spec import Envelope, SchemaPart, SchemaSpec
from ds_dagster.catalog.reading.row_source import RowSource
from ds_dagster.catalog.relation import Column, Relation, TimestampFormat
from ds_dagster.catalog.reserved_columns import CORRUPT
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import error
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.spark.functions.java_values import json_columns
from ds_dagster.spark.queries.row_logs import RowLogs, place_column
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.bad_records import Reader, judged, no_event_time, time_column
from ds_dagster.spark.records.columns import field, opaque
from ds_dagster.spark.records.json_output import json_row
from ds_dagster.spark.records.primitives import check_primitive, decode_primitive, encode_primitive, text_to_value
from ds_dagster.spark.records.record_fields import record_field
from ds_dagster.spark.records.schemas import Part, Raw, ResolvedSchemas, decoded_part, encoded, framed, payload
from ds_dagster.spark.records.typemap import to_spark

_VALUE = "__value"
_KEY = "__key"
_FRAMED = "__framed"
_FRAMED_KEY = "__framed_key"
_BINARY = ("avro", "protobuf")
"""Formats that the operators in our jar decode."""


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A stream of undecoded records from a source.

    Attributes:
        frame: raw columns.
        envelope: expressions over the raw columns for the parts of a record.
        entity: shown in errors, ``store.entity``.
        empty_is_delete: an empty value counts as a null value.
        first: another source that counts and logs the bad records among the same records.
        schemas: schemas of the records, None if they need none.
        rows: set if the source returns the relation's columns; see :mod:`ds_dagster.spark.records.typed_rows`.
        logs: the job's row logs, None if it has none.
        text_keys: a primitive key is text, not bytes.
    """

    frame: DataFrame
    envelope: Envelope
    entity: str
    empty_is_delete: bool = False
    schemas: ResolvedSchemas | None = None
    rows: RowSource | None = None
    logs: RowLogs | None = None
    first: Reader | None = None
    text_keys: bool = False

    def raw(self, part: Part) -> Raw:
        """Value or key, undecoded."""
        envelope = self.envelope
        headers = sf.expr(envelope.headers) if envelope.headers else None
        return Raw(self.frame.sparkSession, sf.expr(envelope.value if part == "value" else envelope.key), headers, part)

    def format_of(self, part: Part) -> str:
        """Format of a part with an external schema, else empty: test cases have no schemas, and use JSON instead."""
        described = self.schemas.part(part) if self.schemas is not None else None
        return described.format if described is not None else ""


def decode(source: SourceFrame, scan: Scan, wants: frozenset[str]) -> DataFrame:
    """The scan's fields, and the technical columns among ``wants`` (``DELETED`` always on a changelog).

    A record is decoded once, whatever the query filters on. Positions are converted to text only if ``wants`` has them
    or for a failure. Bad records are counted and logged here unless they are bad to the first
    reader, which does both.
    """
    changelog = scan.relation.is_changelog
    no_value = _has_no_value(source)
    frame = _without_frames(source if changelog else replace(source, frame=source.frame.where(~no_value)))
    parts = {_VALUE: opaque(_decoded_value(source, scan))}
    if changelog:
        parts[names.DELETED] = no_value
    frame = frame.select("*", *[c.alias(n) for n, c in parts.items()])
    if scan.relation.key.exclude or changelog:
        frame = frame.select("*", opaque(_key_where_needed(source, scan)).alias(_KEY))
    frame = _without_bad_records(frame, source, scan, wants)
    return frame.select(*_fields(source, scan), *_technical(source, scan, wants))


def _without_frames(source: SourceFrame) -> DataFrame:
    """The source's frame; for JSON with registered schemas, with columns of the JSON after its schema id."""
    parts: tuple[tuple[str, Part], ...] = ((_FRAMED, "value"), (_FRAMED_KEY, "key"))
    payloads = [opaque(payload(source.raw(p))).alias(n) for n, p in parts if source.format_of(p) == "json_schema"]
    return source.frame.select("*", *payloads) if payloads else source.frame


# --- values -----------------------------------------------------------------------------------------------------------


def _has_no_value(source: SourceFrame) -> SparkColumn:
    value = sf.expr(source.envelope.value)
    return value.isNull() | (sf.octet_length(value) == 0) if source.empty_is_delete else value.isNull()


def value_columns(relation: Relation) -> tuple[Column, ...]:
    """Columns that are in the value; the others are only in the key."""
    return tuple(column for column in relation.columns if column.name not in relation.key.exclude)


def _read_from_value(scan: Scan) -> tuple[Column, ...]:
    """Columns to decode from the value. A changelog's primary key columns are nullable there: Kafka Connect and ksqlDB
    write them only to the record's key."""
    inside = tuple(column for column in scan.read_columns if column.name not in scan.relation.key.exclude)
    return tuple(replace(column, nullable=column.nullable or _may_be_in_key(scan, column)) for column in inside)


def _may_be_in_key(scan: Scan, column: Column) -> bool:
    relation = scan.relation
    return relation.is_changelog and column.name in relation.primary_key and column.name not in relation.key.exclude


def _decoded_value(source: SourceFrame, scan: Scan) -> SparkColumn:
    value = sf.expr(source.envelope.value)
    if scan.relation.value_format == "primitive":
        column = _only_column(scan.relation, source.entity)
        decoded = decode_primitive(
            source.frame.sparkSession, value.cast("binary"), check_primitive(column.type, source.entity)
        )
        return sf.struct(decoded.alias(column.name))
    if source.schemas is not None and source.format_of("value") in _BINARY:
        return decoded_part(source.raw("value"), source.schemas, _read_from_value(scan), CORRUPT)
    if source.format_of("value") == "json_schema":
        value = sf.col(_FRAMED).getField("payload")
    return _from_json(value, _read_from_value(scan), "value")


def _only_column(relation: Relation, entity: str) -> Column:
    inside = value_columns(relation)
    if len(inside) != 1:
        raise error("PRIMITIVE_NEEDS_ONE_COLUMN", entity=entity, columns=[column.name for column in inside])
    return inside[0]


def _from_json(part: SparkColumn, inside: Sequence[Column], kind: Part) -> SparkColumn:
    """A struct of the columns and of :data:`CORRUPT`. Columns of a key may be NULL here; callers check these."""
    fields = [spark_types.StructField(c.name, to_spark(c.type), c.nullable or kind == "key") for c in inside]
    types = [str(column.type) for column in inside]
    return json_columns(part, spark_types.StructType(fields), types, reason=CORRUPT, kind=kind)


# --- keys -------------------------------------------------------------------------------------------------------------


def key_columns(relation: Relation) -> tuple[Column, ...]:
    """Columns that a record's key provides: columns that are only in the key, and a changelog's primary key (a delete
    has nothing else)."""
    wanted = set(relation.key.exclude) | (set(relation.primary_key) if relation.is_changelog else set())
    return tuple(column for column in relation.columns if column.name in wanted)


def _key_where_needed(source: SourceFrame, scan: Scan) -> SparkColumn:
    """The decoded key: for every record if some columns are only in the key, else for deletes and for values that lack
    the primary key."""
    key = _decoded_key(source, scan.relation)
    if scan.relation.key.exclude:
        return key
    lacking = [sf.col(_VALUE).getField(c.name).isNull() for c in scan.read_columns if _may_be_in_key(scan, c)]
    return sf.when(_any([sf.col(names.DELETED), *lacking]), key)


def _decoded_key(source: SourceFrame, relation: Relation) -> SparkColumn:
    """A struct of :func:`key_columns`: from a JSON object, by its schema, or from raw bytes or text if the key is one
    primitive column."""
    inside = key_columns(relation)
    raw = sf.expr(source.envelope.key)
    if source.schemas is not None and source.format_of("key") in _BINARY:
        return decoded_part(source.raw("key"), source.schemas, inside, CORRUPT)
    if source.format_of("key") == "json_schema":
        raw = sf.col(_FRAMED_KEY).getField("payload")
    text = raw.cast("string")
    from_json = _from_json(raw, inside, "key")
    if len(inside) != 1 or not isinstance(inside[0].type, Scalar):
        return sf.struct(*[from_json.getField(column.name).alias(column.name) for column in inside])
    only = inside[0]
    if relation.key.format == "primitive" and not source.text_keys:
        type_ = check_primitive(only.type, source.entity)
        return sf.struct(decode_primitive(source.frame.sparkSession, raw.cast("binary"), type_).alias(only.name))
    looks_like_json = sf.startswith(sf.ltrim(text), sf.lit("{"))
    plain = text_to_value(text, inside[0].type, is_json=relation.key.format != "primitive")
    read = sf.when(looks_like_json, from_json.getField(only.name)).otherwise(plain)
    return sf.struct(read.alias(only.name))


def _read(part: str, column: Column, scan: Scan, value: SparkColumn | None = None) -> SparkColumn:
    """A column of the decoded value or key. If the value lacks a primary key column of a changelog, it is read from the
    key; if both have it, the value wins. ``value``: the decoded value, if it is not a column of the frame."""
    decoded = (sf.col(part) if value is None or part != _VALUE else value).getField(column.name)
    if part == _VALUE and _may_be_in_key(scan, column):
        return sf.coalesce(decoded, sf.col(_KEY).getField(column.name))
    return decoded


# --- bad records ------------------------------------------------------------------------------------------------------


def _without_bad_records(frame: DataFrame, source: SourceFrame, scan: Scan, wants: frozenset[str]) -> DataFrame:
    reason, first, is_first = _reason(source, scan, wants, sf.col(_VALUE)), source.first, None
    if first is not None:  # decoded for the bad records alone
        is_first = _reason(source, first.scan, first.wants, _decoded_value(source, first.scan)).isNull()
    return judged(frame, source, scan, reason, is_first)


def _reason(source: SourceFrame, scan: Scan, wants: frozenset[str], value: SparkColumn) -> SparkColumn:
    """The first fault of a record, NULL if it has none; ``value``: the decoded value."""
    reasons = _reasons(source, scan, wants, value)
    return reasons[0] if len(reasons) == 1 else sf.coalesce(*reasons)


def _reasons(source: SourceFrame, scan: Scan, wants: frozenset[str], value: SparkColumn) -> list[SparkColumn]:
    """Texts of faults in the order they are tested; each is NULL if the record does not have the fault."""
    relation = scan.relation
    reasons = _value_reasons(source, scan, value)
    if names.EVENT_TIME in wants and scan.time.column is not None:
        reasons.append(sf.when(_event_time(scan, value).isNull(), sf.lit(no_event_time(scan))))
    for column in scan.read_columns:
        if _may_be_in_key(scan, column) and not column.nullable:
            lacking = sf.lit(f"column {column.name} is NULL, and the record's key does not give it")
            reasons.append(sf.when(_read(_VALUE, column, scan, value).isNull(), lacking))
    if relation.is_changelog:
        reasons = [sf.when(~sf.col(names.DELETED), text) for text in reasons]
        reasons += _key_reasons(source)
        required = [c.name for c in relation.columns if c.name in relation.primary_key and not c.nullable]
        no_key = [sf.col(_KEY).isNull(), *(sf.col(_KEY).getField(name).isNull() for name in required)]
        text = sf.lit("a delete whose key does not give the primary key")
        reasons.append(sf.when(sf.col(names.DELETED) & _any(no_key), text))
    elif relation.key.exclude:
        reasons += _key_reasons(source)
    return reasons


def _key_reasons(source: SourceFrame) -> list[SparkColumn]:
    """Reasons to refuse a decoded key. Plain JSON and primitive keys have none: their columns are NULL instead."""
    format_ = source.format_of("key")
    if format_ == "json_schema":
        return [sf.col(_FRAMED_KEY).getField("reason")]
    return [sf.col(_KEY).getField(CORRUPT)] if format_ in _BINARY else []


def _any(conditions: Sequence[SparkColumn]) -> SparkColumn:
    joined = conditions[0]
    for condition in conditions[1:]:
        joined = joined | condition
    return joined


def _value_reasons(source: SourceFrame, scan: Scan, value: SparkColumn) -> list[SparkColumn]:
    relation = scan.relation
    if relation.value_format == "primitive":
        only = value_columns(relation)[0]
        text = sf.lit(f"the value is not a valid {only.type} in big-endian bytes")
        return [sf.when(value.getField(only.name).isNull(), text)]
    unframed = [sf.col(_FRAMED).getField("reason")] if source.format_of("value") == "json_schema" else []
    return [*unframed, value.getField(CORRUPT)]


# --- the scan's columns -----------------------------------------------------------------------------------------------


def _fields(source: SourceFrame, scan: Scan) -> list[SparkColumn]:
    fields = [_field(scan, column).alias(scan.field_name(column.name)) for column in scan.read_columns]
    if scan.rowtime:
        fields.append(sf.unix_millis(sf.expr(source.envelope.timestamp)).alias(scan.rowtime_field))
    time = _event_time_or_arrival(source, scan)
    return [*fields, *(record_field(source, scan, beside, time).alias(beside.name) for beside in scan.record_fields)]


def _field(scan: Scan, column: Column) -> SparkColumn:
    relation = scan.relation
    if column.name in relation.key.exclude:
        return _read(_KEY, column, scan)
    in_value = _read(_VALUE, column, scan)
    if column in key_columns(relation):
        return sf.when(sf.col(names.DELETED), _read(_KEY, column, scan)).otherwise(in_value)
    return in_value


def _technical(source: SourceFrame, scan: Scan, wants: frozenset[str]) -> list[SparkColumn]:
    envelope = source.envelope
    available = {
        names.EVENT_TIME: _event_time_or_arrival(source, scan),
        names.PARTITION: sf.expr(envelope.partition),
        names.ORDER: sf.expr(envelope.order),
    }
    if names.RECORD in wants:
        available[names.RECORD] = place_column(scan, envelope, sf.expr(envelope.key))
    if names.PAYLOAD in wants:
        available[names.PAYLOAD] = sf.expr(envelope.value)
    columns = [column.alias(name) for name, column in available.items() if name in wants]
    return [*columns, sf.col(names.DELETED)] if scan.relation.is_changelog else columns


def _event_time_or_arrival(source: SourceFrame, scan: Scan) -> SparkColumn:
    arrival = sf.expr(source.envelope.timestamp)
    if scan.time.column is None:
        return arrival
    written = _event_time(scan)
    return sf.when(sf.col(names.DELETED), arrival).otherwise(written) if scan.relation.is_changelog else written


def _event_time(scan: Scan, value: SparkColumn | None = None) -> SparkColumn:
    column = time_column(scan)
    part = _KEY if column.name in scan.relation.key.exclude else _VALUE
    return names.event_time(_read(part, column, scan, value), column.type)


# --- sinks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """Records of a relation that a sink writes. ``entity``: shown in errors; ``schemas``: of value and key, or None."""

    session: SparkSession
    relation: Relation
    entity: str
    schemas: SchemaSpec | None = None

    def part(self, part: Part) -> SchemaPart | None:
        """The schema of a part, None if its format needs none."""
        if self.schemas is None:
            return None
        return self.schemas.value if part == "value" else self.schemas.key


def encode_value(target: Target) -> SparkColumn:
    """The value as text or bytes, from the relation's columns; JSON has NULL columns as ``null``."""
    relation = target.relation
    inside = value_columns(relation)
    if relation.value_format == "primitive":
        only = _only_column(relation, target.entity)
        return encode_primitive(target.session, field(only.name), check_primitive(only.type, target.entity))
    part = target.part("value")
    return to_json(inside, relation) if part is None else _by_schema(target, inside, part)


def _by_schema(target: Target, inside: Sequence[Column], part: SchemaPart) -> SparkColumn:
    if part.format != "json_schema":
        return encoded(target.session, inside, part)
    return framed(to_json(inside, target.relation, default="iso8601"), part)


def to_json(inside: Sequence[Column], relation: Relation, default: TimestampFormat | None = None) -> SparkColumn:
    """A JSON object of the columns. Format of timestamps: the relation's ``timestamp.format``, else ``default``."""
    written = default is None or relation.option("timestamp.format") is not None
    format_ = relation.event_time.format if written or default is None else default
    return json_row([(column.name, field(column.name), column.type) for column in inside], format_)


def encode_key(target: Target) -> SparkColumn | None:
    """The key as text (JSON or a text column) or bytes (by a schema, or a primitive number); None if records have no
    key. Raises PRIMITIVE_NEEDS_ONE_COLUMN, PRIMITIVE_TYPE_NOT_BUILT."""
    relation, entity = target.relation, target.entity
    key = relation.key
    wanted = key.columns or relation.primary_key
    if key.format == "none" and not relation.primary_key:
        return None
    inside = [column for name in wanted for column in relation.columns if column.name == name]
    part = target.part("key")
    if part is not None:
        return _by_schema(target, inside, part)
    if key.format != "primitive":
        return to_json(inside, relation)
    if len(inside) != 1:
        raise error("PRIMITIVE_NEEDS_ONE_COLUMN", entity=entity, columns=[column.name for column in inside])
    only = inside[0]
    type_ = check_primitive(only.type, entity)
    return field(only.name) if type_.name == "VARCHAR" else encode_primitive(target.session, field(only.name), type_)


def encode_key_text(target: Target) -> SparkColumn | None:
    """The key as text: JSON, or the plain text of one primitive column."""
    relation = target.relation
    if relation.key.format != "primitive":
        return encode_key(target)
    (name,) = relation.key.columns or relation.primary_key
    return field(name).cast("string")
