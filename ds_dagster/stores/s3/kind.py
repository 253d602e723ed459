"""Plain files in a folder or in S3: source of streams (new files become rows) and sink of streams (a file per batch).
Read by ``spark/files/``, written by ``loader.py``, control through ``admin.py``."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import (
    Envelope,
    Options,
    ReadSpec,
    RefreshMode,
    Resolver,
    RowText,
    TableColumn,
    TableTarget,
    WriteSpec,
)
from ds_dagster.catalog.name_rules import FOLDERS
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.properties.table import specs
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.files.address import ALLOWED_URIS, FilesAddress, is_lake_url
from ds_dagster.files.layout import COMPRESSIONS
from ds_dagster.files.rows import Family, columns_json
from ds_dagster.stores.delta.kind import ENDPOINT, KEY, SECRET, TOKEN, check_keys
from ds_dagster.stores.options import invalid_address, is_literal, make_options, missing, word

PROVIDER = "ds_dagster.spark.files.source:FilesDataSource"
FORMAT = "ds_files"
LOADER = "ds_dagster.stores.s3.loader:open_loader"
ENVELOPE = Envelope(
    key="CAST(NULL AS BINARY)",
    value="value",
    timestamp="`timestamp`",
    partition="'0'",
    order="CONCAT(DATE_FORMAT(`timestamp`, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"), ' ', file, ' ', "
    "LPAD(CAST(row AS STRING), 12, '0'))",
)
"""The folder is one partition, ordered by modification time, name of the file, and row in it."""
ROLE, EXTERNAL_ID = "aws.iam_role_arn", "aws.iam_external_id"
LOOK_MILLIS: Mapping[bool, int] = MappingProxyType({True: 1_000, False: 10_000})
"""Whether it is a local folder → milliseconds between looks for new files; a look at a bucket costs a request per 1000
files."""
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "BOOLEAN": "boolean",
        "TINYINT": "whole",
        "SMALLINT": "whole",
        "INTEGER": "whole",
        "BIGINT": "whole",
        "FLOAT": "number",
        "DOUBLE": "number",
        "DECIMAL": "number",
    }
)
"""Scalar → how a text in a cell or a path is parsed; others are text."""
PARTITION_TYPES = ("VARCHAR", "BOOLEAN", "DATE", "TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""Types whose values have one spelling, so that they can be read back from a folder's name."""


class S3:
    """A folder or bucket of files; an entity is a folder below it."""

    name = "S3"
    aliases: tuple[str, ...] = ()
    capabilities = Capabilities(
        reads_streams=True,
        writes_streams=True,
        record_keys=True,
        entity_rule=FOLDERS,
        stream_delivery="exactly_once",
        record_time="producer",
        file_formats=("json", "csv", "parquet"),
        rows_only=True,
        no_past="",
        forgets="files may be removed once they were read",
        dagster_kinds=("s3", "file"),
        storage_kind="s3",
        not_built=(
            ("changelogs", "write changes as rows of a stream, or a table into a store of type DELTA"),
            ("tables", "use a store of type DELTA"),
        ),
    )
    store_properties: tuple[PropertySpec, ...] = specs(
        "uris", "access_region", "description", "config_file", KEY, SECRET, TOKEN, ENDPOINT, ROLE, EXTERNAL_ID
    )
    relation_properties: tuple[PropertySpec, ...] = specs(
        "topic", "value.format", "key.format", "key.columns", "timestamp", "timestamp.format", "starting.position",
        "csv.header", "csv.delimiter", "files.compression", "files.per.batch", "files.discovery.millis",
    )  # fmt: skip

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Check that the address is a folder or a bucket without a login, a key comes with its secret, and an external
        id with a role."""
        problems: list[Diagnostic] = []
        if "uris" not in store.properties:
            problems.append(missing(store, "uris", "the folder of its files", ALLOWED_URIS))
        elif is_literal(store.properties["uris"]) and not is_lake_url(word(store, "uris")):
            problems.append(invalid_address(store, ALLOWED_URIS))
        if EXTERNAL_ID in store.properties and ROLE not in store.properties:
            problems.append(missing(store, ROLE, f"{EXTERNAL_ID} is not valid without it", "'arn:aws:iam::…:role/…'"))
        return [*problems, *check_keys(store)]

    def native_type(self, type_: DataType) -> str | None:
        """None: files have no column types."""
        return None

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """Our data source: rows as JSON, stamped with the file's modification time.

        Raises:
            UnsupportedError: FILES_BATCH_BOUND.
        """
        if options.max_records_per_batch is not None:
            raise error("FILES_BATCH_BOUND", span=relation.span, relation=str(relation.name))
        is_local = word(store, "uris").startswith("file:")
        return ReadSpec(
            format=FORMAT,
            provider=PROVIDER,
            envelope=ENVELOPE,
            entity=f"{store.name}.{relation.entity}",
            options=make_options(
                {
                    **connection(store),
                    "folder": relation.entity,
                    "format": relation.value_format,
                    "columns": columns_json([(column.name, family(column.type)) for column in relation.columns]),
                    "header": relation.option("csv.header") is not False,
                    "delimiter": delimiter(relation),
                    "starting.position": options.starting_position,
                    "files.per.batch": relation.option("files.per.batch"),
                    "discovery.millis": relation.option("files.discovery.millis") or LOOK_MILLIS[is_local],
                }
            ),
        )

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """Each batch in files of its own, named by job and batch.

        Raises:
            UserError: FILES_PARTITION_TYPE, FILES_COMPRESSION_INVALID, FILES_CSV_ONE_COLUMN.
        """
        _check_partitions(relation)
        compression = _compression(relation)
        _check_lines(relation)
        return WriteSpec(
            kind="batch",
            entity=f"{store.name}.{relation.entity}",
            delivery=delivery(relation.kind, relation.properties, self),
            options=make_options(
                {
                    **connection(store),
                    "folder": relation.entity,
                    "format": relation.value_format,
                    "compression": compression,
                    "header": relation.option("csv.header") is not False,
                    "delimiter": delimiter(relation),
                    "timestamps": relation.event_time.format,
                    "partitions": json.dumps(relation.key.columns),
                }
            ),
            loader=LOADER,
            table=_target(relation),
        )

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Only the name: the folder is created with its first file."""
        return EntityPlan(name=relation.entity, used_by=str(relation.name))

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """``s3://bucket/prefix/folder``."""
        return "/".join([word(store, "uris").rstrip("/"), relation.entity])

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Look at the folder."""
        from ds_dagster.stores.s3.admin import S3Admin

        return S3Admin(FilesAddress.of({name: resolve(value) for name, value in connection(store).items()}))

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, Any]:
        """``root`` of the entities and the ``filesystem`` (pyarrow's), logged in."""
        from ds_dagster.files.address import FileStore

        address = FilesAddress.of({name: resolve(value) for name, value in connection(store).items()})
        return {"root": address.root, "filesystem": FileStore(address).system()}


def connection(store: StoreDefinition) -> Options:
    """Connection options: address, region, keys, role."""
    return make_options(
        {
            "store": store.name,
            "url": store.properties["uris"],
            "region": store.properties.get("access_region"),
            "endpoint_url": store.properties.get(ENDPOINT),
            "access_key_id": store.properties.get(KEY),
            "secret_access_key": store.properties.get(SECRET),
            "session_token": store.properties.get(TOKEN),
            "role_arn": store.properties.get(ROLE),
            "external_id": store.properties.get(EXTERNAL_ID),
        }
    )


def family(type_: DataType) -> Family:
    """How a text is parsed for a column of this type."""
    return FAMILIES.get(type_.name, "text") if isinstance(type_, Scalar) else "nested"


def delimiter(relation: Relation) -> str:
    """Sign between the cells of CSV; a comma by default."""
    written = str(relation.option("csv.delimiter") or ",")
    return "\t" if written == "tab" else written


def _compression(relation: Relation) -> str:
    allowed = COMPRESSIONS[relation.value_format]
    written = relation.properties.get("files.compression")
    if written is not None and written.value not in allowed:
        raise error(
            "FILES_COMPRESSION_INVALID",
            span=written.span or relation.span,
            format=relation.value_format,
            compression=written.value,
            allowed=allowed,
        )
    return allowed[0] if written is None else str(written.value)


def _check_partitions(relation: Relation) -> None:
    """Check that columns that become folders have one of :data:`PARTITION_TYPES`, and that a column is left for the
    files.

    Raises:
        UserError: FILES_PARTITION_TYPE, VALUE_COLUMNS_ALL_EXCLUDED.
    """
    if len(relation.key.columns) == len(relation.columns):
        raise error("VALUE_COLUMNS_ALL_EXCLUDED", span=relation.span, relation=str(relation.name))
    for column in relation.columns:
        name = column.type.name if isinstance(column.type, Scalar) else ""
        if column.name in relation.key.columns and name not in PARTITION_TYPES:
            raise error(
                "FILES_PARTITION_TYPE",
                span=relation.span,
                relation=str(relation.name),
                column=column.name,
                type=str(column.type),
            )


def _check_lines(relation: Relation) -> None:
    """Check that no row of a CSV file is an empty line: Spark, pandas and our own reader skip those.

    Raises:
        UserError: FILES_CSV_ONE_COLUMN.
    """
    written = [column for column in relation.columns if column.name not in relation.key.columns]
    if relation.value_format == "csv" and len(written) == 1 and written[0].nullable:
        name = written[0].name
        raise error("FILES_CSV_ONE_COLUMN", span=relation.span, relation=str(relation.name), column=name)


def _target(relation: Relation) -> TableTarget:
    """The columns of the files. Spark makes the text of JSON rows; in CSV, nested values are JSON text."""
    columns = tuple(
        TableColumn(c.name, c.type, str(c.type), c.nullable, _as_json(relation, c.type)) for c in relation.columns
    )
    text = RowText("__row", relation.key.columns) if relation.value_format == "json" else None
    return TableTarget((relation.entity,), columns, refresh="continuous", text=text)


def _as_json(relation: Relation, type_: DataType) -> bool:
    return relation.value_format == "csv" and not isinstance(type_, Scalar)
