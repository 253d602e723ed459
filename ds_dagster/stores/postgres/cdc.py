"""Relations that read changes of Postgres tables: checks of their declarations, and their read spec for Spark.

A STREAM has the columns of Debezium's envelope, over one table or a list of them; a CHANGELOG has columns of its one
table, by its primary key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ds_dagster.catalog.io_spec import Envelope, Options, ReadSpec
from ds_dagster.catalog.reading.row_source import RowSource
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.store import ReadOptions, StoreDefinition
from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructType
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, error
from ds_dagster.stores.options import make_options

PROVIDER = "ds_dagster.spark.postgres_cdc.source:PostgresCdcSource"
CONNECTOR = "ds_dagster.stores.postgres.connection:PostgresAddress"
FORMAT = "ds_postgres_cdc"
LIST, TABLE, SCHEMA, DATABASE = (
    "postgresql.cdc.table.list", "postgresql.table.name", "postgresql.schema.name", "postgresql.db.name",
)  # fmt: skip
SLOT = "postgresql.slot.name"
DEFAULT_SCHEMA = "public"
SOURCE_ONLY = (
    "value.format",
    "timestamp",
    "starting.position",
    "enable.upsert.mode",
    "primary.key.nullable",
    SLOT,
    LIST,
)
"""Properties of relations that are read; a table or view that is loaded may not have them."""
ENVELOPE = Envelope(
    key="CAST(NULL AS BINARY)",
    value="CAST(NULL AS BINARY)",
    timestamp="at",
    partition="'0'",
    order="CONCAT(LPAD(HEX(commit_lsn), 16, '0'), LPAD(HEX(sequence), 16, '0'))",
)
ROWS = RowSource(
    row="row",
    deleted="deleted",
    bad="bad",
    columns_option="columns",
    owner_option="owner",
    state_option="state",
    shared_option="live",
    wait_option="wait",
)
SCALARS: Mapping[str, tuple[str, ...]] = MappingProxyType({"op": ("VARCHAR",), "ts_ms": ("BIGINT",)})
"""Column of an envelope → types it may have."""
ROW_COLUMNS = ("before", "after")
SOURCE_COLUMNS = ("source", "system")
"""The documentation of the dialect has ``system``, all its programs have ``source``."""
SOURCE_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "db": ("VARCHAR",),
        "schema": ("VARCHAR",),
        "table": ("VARCHAR",),
        "connector": ("VARCHAR",),
        "snapshot": ("VARCHAR",),
        "lsn": ("BIGINT",),
        "txid": ("BIGINT",),
        "ts_ms": ("BIGINT",),
    }
)
"""Field of ``source`` → types it may have."""


def is_cdc(relation: Relation) -> bool:
    """Whether the relation reads changes (streams and changelogs; tables and views are loaded)."""
    return relation.kind in ("stream", "changelog")


def tables_of(relation: Relation) -> tuple[tuple[str, str], ...]:
    """(schema, table) pairs that a relation reads, in order; in a list, the schema ends at the first dot, and is
    ``public`` without a dot."""
    listed = relation.option(LIST)
    if listed is not None:
        names = [name if "." in name else f"{DEFAULT_SCHEMA}.{name}" for name in str(listed).split(",")]
        return tuple((schema, table) for schema, _, table in (name.partition(".") for name in names))
    schema = relation.option(SCHEMA) or DEFAULT_SCHEMA
    return ((str(schema), str(relation.option(TABLE) or relation.name.name)),)


def declared_columns(relation: Relation) -> tuple[Column, ...]:
    """Columns of its tables that a relation declares: a changelog's columns, or the fields of a stream's ``before`` and
    ``after``; none if these are JSON."""
    if relation.kind == "changelog":
        return relation.columns
    rows = [c.type for c in relation.columns if c.name in ROW_COLUMNS and isinstance(c.type, StructType)]
    fields = {field.name: Column(field.name, field.type) for row in rows for field in row.fields}
    return tuple(fields.values())


def read_spec(store: StoreDefinition, connection: Options, relation: Relation, options: ReadOptions) -> ReadSpec:
    """Read spec of our data source; the server stamps commits, so event time follows its clock."""
    return ReadSpec(
        format=FORMAT,
        provider=PROVIDER,
        envelope=ENVELOPE,
        entity=f"{store.name}.{','.join('.'.join(table) for table in tables_of(relation))}",
        options=make_options(
            {
                **connection,
                "database": relation.properties.get(DATABASE),
                "connector": CONNECTOR,
                "store": store.name,
                "entity": relation.entity,
                "tables": "\n".join(".".join(table) for table in tables_of(relation)),
                "key": "\n".join(relation.primary_key) or None,
                "slot": options.slot or None,
                "starting.position": options.starting_position,
                "max.records.per.batch": options.max_records_per_batch,
            }
        ),
        time_authority="broker",
        limit_option="max.records.per.batch",
        rows=ROWS,
    )


def problems(relation: Relation) -> Sequence[Diagnostic]:
    """Mistakes in the declaration of a relation of the store; needs no server."""
    errors = _cdc_problems(relation) if is_cdc(relation) else _load_problems(relation)
    return [problem.diagnostic() for problem in errors]


def _load_problems(relation: Relation) -> Iterator[DsError]:
    kind = relation.kind.replace("_", " ").upper()
    for name in SOURCE_ONLY:
        written = relation.properties.get(name)
        if written is not None and written.span is not None:
            yield error("CDC_SOURCE_ONLY", span=written.span, name=name, relation=str(relation.name), kind=kind)


def _cdc_problems(relation: Relation) -> Iterator[DsError]:
    yield from _format_problems(relation)
    yield from _table_problems(relation)
    if relation.kind == "stream":
        for column in relation.columns:
            yield from _column_problems(relation, column)
    else:
        for column in relation.columns:
            if not _is_readable(column.type):
                yield _wrong_type(relation, column, column.name, READABLE_TEXT)


def _format_problems(relation: Relation) -> Iterator[DsError]:
    if relation.value_format != "json":
        span = relation.properties["value.format"].span
        value = relation.value_format
        yield error("PROPERTY_INVALID", span=span, name="value.format", value=value, allowed="json, or nothing")


def _table_problems(relation: Relation) -> Iterator[DsError]:
    listed, name = relation.properties.get(LIST), str(relation.name)

    def unclear(span_of: str, reason: str, fix: str) -> DsError:
        span = relation.properties[span_of].span or relation.span
        return error("CDC_TABLES_UNCLEAR", span=span, relation=name, reason=reason, fix=fix)

    if listed is None:
        return
    for other in (TABLE, SCHEMA):
        if other in relation.properties:
            yield unclear(other, f"{LIST} names tables, and so does {other}", "leave out one of the two")
    tables = tables_of(relation)
    if relation.kind == "changelog" and len(tables) > 1:
        yield unclear(
            LIST, "a changelog has the rows of one table", "declare one CHANGELOG for each table, or a STREAM"
        )
    if len(set(tables)) < len(tables):
        yield unclear(LIST, "a table is named twice", "name each once")
    structs = [c for c in relation.columns if c.name in ROW_COLUMNS and isinstance(c.type, StructType)]
    if len(tables) > 1 and structs:
        fix = "declare before and after as VARBINARY or VARCHAR (JSON), or one STREAM for each table"
        yield unclear(LIST, f"rows of several tables have no common type for {structs[0].name}", fix)


def _column_problems(relation: Relation, column: Column) -> Iterator[DsError]:
    name, type_ = column.name, column.type
    if name in SCALARS:
        if not _is_one_of(type_, SCALARS[name]):
            yield _wrong_type(relation, column, name, ", ".join(SCALARS[name]))
    elif name in ROW_COLUMNS:
        yield from _row_problems(relation, column)
    elif name in SOURCE_COLUMNS:
        yield from _source_problems(relation, column)
    else:
        names = ", ".join((*SCALARS, *ROW_COLUMNS, *SOURCE_COLUMNS))
        yield error("CDC_COLUMN_UNKNOWN", span=column.span, relation=str(relation.name), name=name, known=names)


def _row_problems(relation: Relation, column: Column) -> Iterator[DsError]:
    if not isinstance(column.type, StructType):
        if not _is_one_of(column.type, ("VARCHAR", "VARBINARY")):
            yield _wrong_type(relation, column, column.name, "STRUCT<the table's columns>, VARCHAR or VARBINARY (JSON)")
        return
    for field in column.type.fields:
        if not _is_readable(field.type):
            yield _wrong_type(relation, column, f"{column.name}->{field.name}", READABLE_TEXT, field.type)


def _source_problems(relation: Relation, column: Column) -> Iterator[DsError]:
    names = ", ".join(SOURCE_FIELDS)
    if not isinstance(column.type, StructType):
        yield _wrong_type(relation, column, column.name, f"STRUCT of {names}")
        return
    for field in column.type.fields:
        allowed = SOURCE_FIELDS.get(field.name.lower())
        if allowed is None:
            name = f"{column.name}->{field.name}"
            yield error("CDC_COLUMN_UNKNOWN", span=column.span, relation=str(relation.name), name=name, known=names)
        elif not _is_one_of(field.type, allowed):
            yield _wrong_type(relation, column, f"{column.name}->{field.name}", ", ".join(allowed), field.type)


READABLE_TEXT = "a scalar or an ARRAY of them; jsonb, composite and other types as VARCHAR"


def _is_readable(type_: DataType) -> bool:
    if isinstance(type_, ArrayType):
        return _is_readable(type_.element)
    return not isinstance(type_, StructType | MapType)


def _is_one_of(type_: DataType, names: Sequence[str]) -> bool:
    return isinstance(type_, Scalar) and type_.name in names


def _wrong_type(relation: Relation, column: Column, name: str, allowed: str, type_: DataType | None = None) -> DsError:
    shown = str(type_ or column.type)
    return error(
        "CDC_COLUMN_TYPE", span=column.span, name=name, relation=str(relation.name), type=shown, allowed=allowed
    )
