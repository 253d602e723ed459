"""Tables in a Postgres database: their columns, whether they accept the rows of a query, objects that depend on
them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.io_spec import TableColumn, TableTarget
from ds_dagster.catalog.properties.tables import CHANGED_AT
from ds_dagster.datatypes import Scalar
from ds_dagster.errors import error
from ds_dagster.stores.postgres.tables import STAMP_COMMENT
from ds_dagster.stores.table_sink import column_difference

COLUMNS_QUERY = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(a.atttypid, -1),
        CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod)
             WHEN t.typtype = 'e' THEN 'enum'
             WHEN e.typtype = 'e' THEN 'enum[]'
             ELSE format_type(a.atttypid, a.atttypmod) END,
        a.attnotnull OR (t.typtype = 'd' AND t.typnotnull),
        CASE WHEN a.attgenerated <> '' THEN 'generated' WHEN a.attidentity = 'a' THEN 'identity'
             WHEN a.attidentity = 'd' OR a.atthasdef OR t.typdefault IS NOT NULL THEN 'default' ELSE '' END
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
RELATION_QUERY = """
    SELECT c.oid, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
UNIQUE_QUERY = """
    SELECT array_agg(a.attname::text), coalesce(bool_or((to_jsonb(i)->>'indnullsnotdistinct')::boolean), false)
    FROM pg_index i JOIN pg_attribute a
      ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
    WHERE i.indrelid = %s AND i.indisunique AND i.indimmediate AND i.indisvalid
      AND i.indpred IS NULL AND i.indexprs IS NULL
    GROUP BY i.indexrelid
"""
"""Indexes for ON CONFLICT: not partial, not of expressions, not deferrable; INCLUDE columns are not part of a key."""
REFERENCED_QUERY = "SELECT EXISTS (SELECT 1 FROM pg_constraint WHERE confrelid = %s)"
KEPT_QUERY = """
    SELECT EXISTS (SELECT 1 FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = %(oid)s AND deptype
    = 'n')
        OR EXISTS (SELECT 1 FROM pg_depend d JOIN pg_class c ON d.refobjid = c.reltype
                   WHERE d.refclassid = 'pg_type'::regclass AND c.oid = %(oid)s AND d.deptype = 'n')
        OR EXISTS (SELECT 1 FROM pg_constraint
                   WHERE confrelid = %(oid)s OR (conrelid = %(oid)s AND contype IN ('c', 'f', 'x')))
        OR EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = %(oid)s AND NOT tgisinternal)
        OR EXISTS (SELECT 1 FROM pg_rewrite WHERE ev_class = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_publication_rel WHERE prrelid = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_statistic_ext WHERE stxrelid = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = %(oid)s OR inhrelid = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_description WHERE classoid = 'pg_class'::regclass AND objoid = %(oid)s
                   AND description <> %(stamp)s)
        OR EXISTS (SELECT 1 FROM pg_seclabel WHERE classoid = 'pg_class'::regclass AND objoid = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = %(oid)s AND attnum > 0 AND NOT attisdropped
                   AND attname <> %(stamped)s
                   AND (attacl IS NOT NULL OR attoptions IS NOT NULL OR attidentity <> '' OR attgenerated <> ''
                        OR atthasdef))
        OR (SELECT relkind <> 'r' OR (%(grants)s AND relacl IS NOT NULL)
                OR reloptions IS NOT NULL OR reltablespace <> 0
                OR relpersistence <> 'p' OR relrowsecurity OR relreplident <> 'd'
                OR relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
            FROM pg_class WHERE oid = %(oid)s)
        OR (SELECT count(*) FROM pg_index WHERE indrelid = %(oid)s) > %(own)s
"""
"""Whether a swap by name would lose something of a table: views, functions, foreign keys, checks, triggers, rules,
publications, policies, statistics, partitions, comments, labels, grants, defaults, identities, settings, another owner,
more indexes."""

_TYPE = re.compile(
    r"(?P<name>.*?)(?:\((?P<sizes>\d+(?:,\d+)?)\))?(?P<zone> with(?:out)? time zone)?(?P<array>(?:\[\])*)"
)
HOLDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "smallint": ("integer", "bigint", "numeric", "real", "double precision"),
        "integer": ("bigint", "numeric", "double precision"),
        "bigint": ("numeric",),
        "real": ("double precision",),
        "text": ("character varying", "character", "citext"),
        "character varying": ("text", "character", "citext"),
        "jsonb": ("text", "character varying"),
    }
)
"""Our type → other column types that hold all its values; the server converts on assignment and refuses a text that is
too long."""
_READ_FROM_TEXT = ("uuid", "json", "jsonb", "xml", "inet", "cidr", "macaddr", "interval", "enum")
READS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"text": _READ_FROM_TEXT, "character varying": _READ_FROM_TEXT, "jsonb": ("json", "jsonb")}
)
"""Our type → column types that accept it by a cast; an invalid text is refused when it is written."""
WHOLE_DIGITS: Mapping[str, int] = MappingProxyType({"smallint": 5, "integer": 10, "bigint": 19})
FRACTION_DIGITS = 6
"""Digits of a second in our times (microseconds)."""


@dataclass(frozen=True, slots=True)
class ServerColumn:
    """A column of an existing table.

    Attributes:
        type: as Postgres prints it.
        bare: the type without its size, for casts.
        held: the base type of a domain, ``enum`` for every enumeration, else ``type``.
        required: NOT NULL.
        filled: ``default`` (also GENERATED BY DEFAULT AS IDENTITY), ``identity`` (GENERATED ALWAYS AS IDENTITY),
            ``generated`` or empty.
    """

    type: str
    bare: str
    held: str
    required: bool
    filled: str = ""


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """An existing table.

    Attributes:
        oid: its id in Postgres.
        columns: by name, in order.
        unique: keys that ON CONFLICT may name → whether NULLs count as equal in them.
        referenced: whether foreign keys of other tables refer to it.
    """

    oid: int
    columns: Mapping[str, ServerColumn]
    unique: Mapping[frozenset[str], bool]
    referenced: bool


def find_table(cursor: Any, path: Sequence[str]) -> ExistingTable | None:
    """The table of a path (schema, name), None if it does not exist.

    Raises:
        UserError: TARGET_NOT_A_TABLE.
    """
    cursor.execute(RELATION_QUERY, tuple(path))
    row = cursor.fetchone()
    if row is None:
        return None
    oid, kind = row
    if kind not in ("r", "p"):
        named = {"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "i": "index"}
        raise error("TARGET_NOT_A_TABLE", table=".".join(path), found=named.get(kind, f"relation of kind {kind}"))
    cursor.execute(COLUMNS_QUERY, (oid,))
    columns = {name: ServerColumn(*facts) for name, *facts in cursor.fetchall()}
    cursor.execute(UNIQUE_QUERY, (oid,))
    unique = {frozenset(names): nulls_are_equal for names, nulls_are_equal in cursor.fetchall()}
    cursor.execute(REFERENCED_QUERY, (oid,))
    return ExistingTable(oid, columns, unique, bool(cursor.fetchone()[0]))


def is_kept(cursor: Any, existing: ExistingTable, target: TableTarget, *, has_grants: bool = True) -> bool:
    """Whether a table may not be replaced by another one under its name, since objects or settings that are not ours
    depend on it (see :data:`KEPT_QUERY`).

    Args:
        cursor: of the transaction.
        existing: the table.
        target: the table that would replace it.
        has_grants: whether grants count, too.
    """
    own = (1 if target.mode == "upsert" else 0) + (1 if CHANGED_AT in existing.columns else 0)
    names = {"stamp": STAMP_COMMENT, "stamped": CHANGED_AT}
    cursor.execute(KEPT_QUERY, {"oid": existing.oid, "own": own, "grants": has_grants, **names})
    return bool(cursor.fetchone()[0])


def is_exact(existing: ExistingTable, target: TableTarget) -> bool:
    """Whether the table has exactly our columns, with our types and in our order."""
    columns = [(name, column.type) for name, column in existing.columns.items()]
    return columns == [(column.name, column.native_type) for column in target.columns]


def shape_difference(existing: ExistingTable, target: TableTarget, *, shared: bool = False) -> str:
    """Why a table cannot take the rows of a target, column by column; empty if it can.

    The order of columns does not matter. The table may have more columns if the server fills them (default, identity,
    generated), and in a ``shared`` table (INSERT INTO) if they are nullable.
    """
    differences: list[str] = []
    types = {name: column.type for name, column in existing.columns.items()}
    wanted = {column.name: column.native_type for column in target.columns}
    taken = {c.name for c in target.columns if c.name in types and assignment(c, existing.columns[c.name]) is not None}
    left = {
        name for name, column in existing.columns.items()
        if name not in wanted and (column.filled or (shared and not column.required))
    }  # fmt: skip
    others = {name: type_ for name, type_ in types.items() if name not in taken | left}
    missing = {name: type_ for name, type_ in wanted.items() if name not in taken}
    if others or missing:
        differences.append(column_difference(others, missing))
    for column in target.columns:
        there = existing.columns.get(column.name)
        if there is None:
            continue
        if there.filled in ("identity", "generated"):
            differences.append(f"{column.name} is GENERATED ALWAYS by the server")
        elif there.required and column.nullable and column.name not in target.primary_key:
            differences.append(f"{column.name} is NOT NULL, the query's may be NULL")
    return "; ".join([*differences, *_key_difference(existing, target)])


def _key_difference(existing: ExistingTable, target: TableTarget) -> list[str]:
    """Why the table's keys do not fit upserts by the target's key; empty if they do."""
    if target.mode != "upsert":
        return []
    key = frozenset(target.primary_key)
    shown = ", ".join(target.primary_key)
    if key not in existing.unique:
        return [f"it has no unique key ({shown})"]
    nullable = {column.name for column in target.columns if column.nullable}
    open_columns = [n for n in target.primary_key if n in nullable and not existing.columns[n].required]
    if open_columns and not existing.unique[key]:
        return [f"its unique key ({shown}) takes any number of rows with NULL (UNIQUE NULLS NOT DISTINCT takes one)"]
    return []


def casts(existing: ExistingTable | None, target: TableTarget) -> Mapping[str, str]:
    """Columns whose staged values have to be cast → type of the cast. ``existing`` None: we create the table."""
    names = {}
    for column in target.columns:
        if existing is None:
            name: str | None = column.native_type if column.as_json else ""
        else:
            name = assignment(column, existing.columns[column.name])
        if name:
            names[column.name] = name
    return MappingProxyType(names)


def assignment(column: TableColumn, there: ServerColumn) -> str | None:
    """The type to which values are cast for an existing column; empty if the server converts them itself, None if they
    do not fit."""
    ours, held = _split(column.native_type), _split(there.held)
    if ours.array != held.array:
        return None
    if held.name in READS.get(ours.name, ()):
        return there.bare
    if held.name != ours.name and held.name not in HOLDS.get(ours.name, ()):
        return None
    return "" if _fits(ours, held, column) else None


@dataclass(frozen=True, slots=True)
class _Type:
    """``numeric(10,2)[]`` in parts."""

    name: str
    sizes: tuple[int, ...]
    array: str


def _split(text: str) -> _Type:
    match = _TYPE.fullmatch(text)
    assert match is not None  # every part may be empty
    sizes = tuple(int(size) for size in (match["sizes"] or "").split(",") if size)
    return _Type(match["name"] + (match["zone"] or ""), sizes, match["array"])


def _fits(ours: _Type, held: _Type, column: TableColumn) -> bool:
    """Whether the size of the column's type is large enough for our type."""
    if not held.sizes:
        return True
    if held.name == "numeric":
        scale = ours.sizes[1] if len(ours.sizes) > 1 else 0
        whole = ours.sizes[0] - scale if ours.sizes else WHOLE_DIGITS.get(ours.name, 0)
        held_scale = held.sizes[1] if len(held.sizes) > 1 else 0
        return scale <= held_scale and whole <= held.sizes[0] - held_scale
    if held.name in ("character varying", "character"):
        return not ours.sizes or ours.sizes[0] <= held.sizes[0]
    precision = column.type.precision if isinstance(column.type, Scalar) else None
    return held.sizes[0] >= (FRACTION_DIGITS if precision is None else min(precision, FRACTION_DIGITS))
