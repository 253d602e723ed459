"""Options of the data source: flat strings in, one checked record out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

from pyspark.sql.types import StructType as SparkStruct

from ds_dagster.catalog.reading.slots import default_slot
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.spark.postgres_cdc.rows import ReadColumn, Shape
from ds_dagster.spark.records.typemap import from_spark

SLOT = re.compile(r"[a-z0-9_]{1,63}")
WAL_BYTES_OF_A_RECORD = 128
"""About the least size of a change in the server's log: converts a limit on records into a limit on the log. A
transaction is never divided, so a batch may exceed the limit by one transaction."""
DEFAULT_RECORDS = 1_000_000


@dataclass(frozen=True, slots=True)
class CdcOptions:
    """Checked options.

    Attributes:
        connector: import path ``module:Class`` of the connector (``Class.of(store, settings)``).
        settings: settings of the connection; secrets.
        store: name of the store, shown in errors.
        tables: (schema, name), at least one.
        entity: the relation's name for the tables; part of offsets.
        slot: name of the replication slot, and of the publication.
        shape: shape of the rows.
        starting_position: ``earliest``: begin with a snapshot of the tables; ``latest``: begin at the slot's position.
        max_records: limit of one batch, see :data:`WAL_BYTES_OF_A_RECORD`.
        state: folder for snapshots, with a folder for each slot; empty: the machine's temporary files.
        poll_seconds: least pause between looks at the log while nothing happens.
        is_live: whether the query may use a session that it shares with others.
        waits: whether the query has no other source; see :class:`~ds_dagster.catalog.reading.row_source.RowSource`.
    """

    connector: str
    store: str
    tables: tuple[tuple[str, str], ...]
    slot: str
    shape: Shape
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    entity: str = "changes"
    starting_position: str = "earliest"
    max_records: int = DEFAULT_RECORDS
    state: str = ""
    poll_seconds: float = 0.1
    is_live: bool = True
    waits: bool = False

    @property
    def address(self) -> Any:
        """Address of the server, made by the connector."""
        return address_of(self.connector, self.store, self.settings)

    @property
    def max_bytes(self) -> int:
        """Most bytes of the log in one batch."""
        return self.max_records * WAL_BYTES_OF_A_RECORD

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> CdcOptions:
        """Parse Spark's options; keys are case-insensitive.

        Raises:
            UserError: CDC_OPTION_INVALID, CDC_SLOT_NAME_INVALID.
        """
        lowered = {key.lower(): value for key, value in options.items()}
        for key in lowered.keys() - KNOWN:
            raise error("CDC_OPTION_INVALID", name=key, value="", allowed=f"no such option; {did_you_mean(key, KNOWN)}")
        for name in ("connector", "store", "tables", "columns"):
            if not lowered.get(name):
                raise error("CDC_OPTION_INVALID", name=name, value="", allowed="a value; it is required")
        return cls(
            connector=lowered["connector"],
            store=lowered["store"],
            tables=parse_tables(lowered["tables"]),
            slot=_slot(lowered),
            shape=Shape(_columns(lowered["columns"]), tuple(lowered["key"].split("\n")) if lowered.get("key") else ()),
            settings=MappingProxyType({name: lowered[name] for name in CONNECTION if name in lowered}),
            entity=lowered.get("entity", "changes"),
            starting_position=_position(lowered.get("starting.position", "earliest")),
            max_records=_whole(lowered, "max.records.per.batch", DEFAULT_RECORDS),
            state=lowered.get("state", ""),
            poll_seconds=_whole(lowered, "poll.interval.millis", 100) / 1000,
            is_live=lowered.get("live", "true").lower() != "false",
            waits=lowered.get("wait", "").lower() == "true",
        )


CONNECTION = ("url", "username", "password", "sslmode", "sslrootcert", "database")
KNOWN = frozenset(
    {
        "connector", "store", "tables", "entity", "slot", "owner", "columns", "key", "starting.position",
        "max.records.per.batch", "state", "poll.interval.millis", "live", "wait", *CONNECTION,
    }
)  # fmt: skip


def address_of(connector: str, store: str, settings: Mapping[str, str]) -> Any:
    """Address of a server; arguments as the attributes of :class:`CdcOptions`."""
    module, _, name = connector.partition(":")
    return getattr(import_module(module), name).of(store, settings)


def parse_tables(text: str) -> tuple[tuple[str, str], ...]:
    """Parse ``schema.table`` lines into (schema, table); the schema is the text before the first dot."""
    pairs = [line.partition(".") for line in text.split("\n")]
    return tuple((schema, name) for schema, _, name in pairs)


def _slot(options: Mapping[str, str]) -> str:
    written = options.get("slot", "")
    if not written and options.get("owner"):
        job, _, source = options["owner"].partition("/")
        return default_slot(job, source)
    if not SLOT.fullmatch(written):
        raise error("CDC_SLOT_NAME_INVALID", name=written)
    return written


def _columns(text: str) -> tuple[ReadColumn, ...]:
    """Parse Spark's JSON of a struct type (parsing its DDL would need a JVM)."""
    fields = SparkStruct.fromJson(json.loads(text)).fields
    return tuple(ReadColumn(field.name, from_spark(field.dataType)) for field in fields)


def _position(text: str) -> str:
    if text not in ("earliest", "latest"):
        raise error("CDC_OPTION_INVALID", name="starting.position", value=text, allowed="earliest or latest")
    return text


def _whole(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise error("CDC_OPTION_INVALID", name=name, value=text, allowed="a whole number, at least 1")
    return int(text)
