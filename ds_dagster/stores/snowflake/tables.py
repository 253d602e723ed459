"""Shape of tables in Snowflake: names, existing columns, and their difference from a target."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.datatypes import Scalar
from ds_dagster.stores.snowflake.names import column_name
from ds_dagster.stores.table_sink import column_difference

NAME_CHARACTERS = 255
"""Longest identifier; https://docs.snowflake.com/en/sql-reference/identifiers."""
INTEGER_DIGITS: Mapping[str, int] = MappingProxyType({"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19})
MICROSECONDS = 6
OURS = ("__DS_LEDGER", "__DS_LOAD_", "__DS_NEW_")
_UNPLAIN = re.compile(r"[^A-Za-z0-9_$]")
_TYPE = re.compile(r"(\w+)(?:\((\d+)(?:,\s*(\d+))?\))?")


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the objects of one target, all in its schema.

    Attributes:
        target: the table.
        pattern: pattern of LIKE that matches all these names; ``_`` replaces special signs of the table's name.
        ledger: table with one row per job, version and loaded batch. Each table has a ledger of its own: its lock row
            is held while a batch is loaded, so loads of different tables never wait for each other.
        load: transient table that a batch goes through; empty outside a transaction.
        load_prefix: prefix of the load tables of all versions of the job.
        new: table that collects the rows of a full refresh of this version.
        new_prefix: prefix of the new tables of all versions of the job.
        stage: temporary stage of the session; a plain name, since paths on stages cannot be quoted.
    """

    target: str
    pattern: str
    ledger: str
    load: str
    load_prefix: str
    new: str
    new_prefix: str
    stage: str

    @classmethod
    def of(cls, table: str, identity: SinkIdentity) -> Names:
        """Names for a table and the job that writes it."""
        digest = hashlib.sha256(f"{identity.job}/{table}".encode()).hexdigest()[:10].upper()
        head = _UNPLAIN.sub("_", table)[: NAME_CHARACTERS - 60]
        pattern = f"{head}%"
        if head != table:
            head = f"{head}_{hashlib.sha256(table.encode()).hexdigest()[:10].upper()}"
        prefix, load = f"{head}__DS_NEW_{digest}_V", f"{head}__DS_LOAD_{digest}_V"
        return cls(
            target=table,
            pattern=pattern,
            ledger=f"{head}__DS_LEDGER",
            load=f"{load}{identity.version}",
            load_prefix=load,
            new=f"{prefix}{identity.version}",
            new_prefix=prefix,
            stage=f"DS_STAGE_{digest}",
        )


@dataclass(frozen=True, slots=True)
class ExistingColumns:
    """An existing table: column → (type, NOT NULL)."""

    columns: Mapping[str, tuple[str, bool]] = field(default_factory=lambda: MappingProxyType({}))


def is_ours(name: str) -> bool:
    """Whether a name is that of a ledger, a load table or a new table."""
    return any(part in name for part in OURS)


def goes_direct(target: TableTarget) -> bool:
    """Whether files can be copied directly into the table: rows are appended, no value has to be parsed, and Parquet,
    COPY and the table spell every name alike."""
    return target.mode == "append" and all(
        not column.as_json and column_name(column.name) == column.name.upper() for column in target.columns
    )


def described(cursor: Any) -> ExistingColumns:
    """The columns in the answer of DESCRIBE TABLE."""
    places = {column[0].lower(): position for position, column in enumerate(cursor.description)}
    name, type_, null = places["name"], places["type"], places["null?"]
    return ExistingColumns(MappingProxyType({row[name]: (row[type_], row[null] == "N") for row in cursor.fetchall()}))


def shape_difference(existing: ExistingColumns, target: TableTarget) -> str:
    """Why a table cannot take the rows of a target, column by column; empty if it can. Wider numbers and texts are
    accepted, the order of columns does not matter."""
    wanted = {column_name(column.name): column for column in target.columns}
    types = {
        name: wanted[name].native_type if name in wanted and accepts(type_, wanted[name]) else type_
        for name, (type_, _) in existing.columns.items()
    }
    natives = {name: column.native_type for name, column in wanted.items()}
    differences = [column_difference(types, natives)] if types != natives else []
    differences += [
        f"{name} is NOT NULL, the query's may be NULL"
        for name, column in wanted.items()
        if column.nullable and existing.columns.get(name, ("", False))[1]
    ]
    return "; ".join(differences)


def accepts(column_type: str, column: TableColumn) -> bool:
    """Whether a column of a type (as DESCRIBE prints it) can hold every value of our column."""
    name, first, second = _parsed(column_type)
    if column.as_json or not isinstance(column.type, Scalar):
        return name in ("VARIANT",)
    wanted = column.type
    if wanted.name in INTEGER_DIGITS or wanted.name == "DECIMAL":
        digits, scale = INTEGER_DIGITS.get(wanted.name, wanted.precision or 10), wanted.scale or 0
        return name == "NUMBER" and second >= scale and first - second >= digits - scale
    if wanted.name in ("VARCHAR", "VARBINARY"):
        longest = LONGEST[wanted.name]
        return name in FAMILIES[wanted.name] and first >= min(wanted.length or longest, longest)
    precise = wanted.name not in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ") or first >= MICROSECONDS
    return name in FAMILIES[wanted.name] and precise


FAMILIES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "BOOLEAN": ("BOOLEAN",),
        "FLOAT": ("FLOAT", "REAL", "DOUBLE"),
        "DOUBLE": ("FLOAT", "REAL", "DOUBLE"),
        "DATE": ("DATE",),
        "TIME": ("TIME",),
        "TIMESTAMP": ("TIMESTAMP_NTZ",),
        "TIMESTAMP_LTZ": ("TIMESTAMP_LTZ", "TIMESTAMP_TZ"),
        "VARCHAR": ("VARCHAR", "TEXT", "STRING"),
        "VARBINARY": ("BINARY", "VARBINARY"),
    }
)
"""Scalar → types that can hold it. TIMESTAMP_TZ can hold TIMESTAMP_LTZ, since sessions of a load are in UTC."""
LONGEST: Mapping[str, int] = MappingProxyType({"VARCHAR": 16_777_216, "VARBINARY": 8_388_608})
"""Length of a text or binary column without a length; newer accounts have larger limits, which are accepted, too."""


def _parsed(type_: str) -> tuple[str, int, int]:
    """``NUMBER(38,0)`` → name, first and second number (0 if missing)."""
    match = _TYPE.fullmatch(type_.strip().upper())
    if match is None:
        return type_, 0, 0
    return match[1], int(match[2] or 0), int(match[3] or 0)
