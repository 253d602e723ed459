"""Shape of tables in Postgres: what exists, what is wanted, the difference, the statements of a load. Composed by
``psycopg2.sql``, which quotes names and literals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.io_spec import SinkIdentity, TableTarget
from ds_dagster.errors import error
from ds_dagster.stores.sqlite_loader import DELETED, column_difference

if TYPE_CHECKING:
    from psycopg2.sql import Composable

LEDGER = "ds_ledger"
STAGE = "ds_stage"
PUBLISHED = -1
"""Epoch of the ledger row that says a full refresh was published."""
NULLS_NOT_DISTINCT_SINCE = 150_000
LOCK_SPACE = 7_306_011
"""First key of our advisory locks."""

COLUMNS_QUERY = """
    SELECT attname, format_type(atttypid, atttypmod), attnotnull
    FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
RELATION_QUERY = """
    SELECT c.oid, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
UNIQUE_QUERY = """
    SELECT array_agg(a.attname::text ORDER BY a.attname)
    FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
    GROUP BY i.indexrelid
"""
KEPT_QUERY = """
    SELECT EXISTS (SELECT 1 FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = %(oid)s AND deptype
    = 'n')
        OR EXISTS (SELECT 1 FROM pg_depend d JOIN pg_class c ON d.refobjid = c.reltype
                   WHERE d.refclassid = 'pg_type'::regclass AND c.oid = %(oid)s AND d.deptype = 'n')
        OR EXISTS (SELECT 1 FROM pg_constraint WHERE confrelid = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = %(oid)s AND NOT tgisinternal)
        OR EXISTS (SELECT 1 FROM pg_publication_rel WHERE prrelid = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = %(oid)s OR inhrelid = %(oid)s)
        OR EXISTS (SELECT 1 FROM pg_description WHERE classoid = 'pg_class'::regclass AND objoid = %(oid)s)
        OR (SELECT relacl IS NOT NULL OR relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
            FROM pg_class WHERE oid = %(oid)s)
        OR (SELECT count(*) FROM pg_index WHERE indrelid = %(oid)s) > %(own)s
"""
"""Whether something hangs on a table that would stay with the old one in a swap by name: views, functions, foreign
keys, triggers,
publications, policies, partitions, comments, grants, another owner, further indexes."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A table as it stands: columns → (type, NOT NULL) and the column sets that are unique."""

    oid: int
    columns: Mapping[str, tuple[str, bool]]
    unique: tuple[frozenset[str], ...]


def find_table(cursor: Any, path: Sequence[str]) -> Existing | None:
    """The table of that name.

    Raises:
        UserError: TARGET_NOT_A_TABLE.
    """
    cursor.execute(RELATION_QUERY, tuple(path))
    found = cursor.fetchone()
    if found is None:
        return None
    oid, kind = found
    kind = kind if isinstance(kind, str) else bytes(kind).decode()
    if kind not in ("r", "p"):
        named = {"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "i": "index"}
        raise error("TARGET_NOT_A_TABLE", table=".".join(path), found=named.get(kind, f"relation of kind {kind}"))
    cursor.execute(COLUMNS_QUERY, (oid,))
    columns = {name: (type_, required) for name, type_, required in cursor.fetchall()}
    cursor.execute(UNIQUE_QUERY, (oid,))
    return Existing(oid, columns, tuple(frozenset(names) for (names,) in cursor.fetchall()))


def shape_difference(existing: Existing, target: TableTarget) -> str:
    """What keeps a table from taking the rows of a target, column by column; empty when nothing does. The order of
    columns does
    not matter."""
    wanted = {column.name: column.native_type for column in target.columns}
    found: list[str] = []
    types = {name: type_ for name, (type_, _) in existing.columns.items()}
    if types != wanted:
        found.append(column_difference(types, wanted))
    found += [
        f"{column.name} is NOT NULL, the query's may be NULL"
        for column in target.columns
        if column.nullable
        and column.name not in target.primary_key
        and existing.columns.get(column.name, ("", False))[1]
    ]
    if target.mode == "upsert" and frozenset(target.primary_key) not in existing.unique:
        found.append(f"it has no unique key ({', '.join(target.primary_key)})")
    return "; ".join(found)


class TableStatements:
    """SQL of one target, composed once. ``table`` is the target, or the new table of a full refresh."""

    def __init__(self, connection: Any, target: TableTarget, identity: SinkIdentity) -> None:
        from psycopg2 import sql

        self.sql = sql
        self.connection = connection
        self.target = target
        self.identity = identity
        schema, name = target.path
        self.target_name = sql.Identifier(schema, name)
        self.ledger = sql.Identifier(schema, LEDGER)
        self.stage = sql.Identifier("pg_temp", STAGE)
        self.new = new_table(name, identity)
        self.new_name = sql.Identifier(schema, self.new)
        self.written = self.new if target.refresh == "full" else name
        self.table = sql.Identifier(schema, self.written)

    def text(self, statement: Composable) -> str:
        """Printed for a driver that takes text only."""
        return str(statement.as_string(self.connection))

    def create_ledger(self) -> Composable:
        """The ledger: one row per job, version and epoch."""
        return self.sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} (job text NOT NULL, version bigint NOT NULL, epoch bigint NOT NULL, "
            "rows bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(), target text NOT NULL, "
            "PRIMARY KEY (job, version, epoch))"
        ).format(self.ledger)

    def create_table(self) -> Composable:
        """The target, or the new table of a full refresh."""
        sql = self.sql
        nulls = [c.name for c in self.target.columns if c.nullable and c.name in self.target.primary_key]
        parts = [
            sql.SQL("{} {}{}").format(
                sql.Identifier(c.name), sql.SQL(c.native_type), sql.SQL("" if c.nullable else " NOT NULL")
            )
            for c in self.target.columns
        ]
        if self.target.mode == "upsert":
            modern = self.connection.server_version >= NULLS_NOT_DISTINCT_SINCE
            kind = sql.SQL("UNIQUE NULLS NOT DISTINCT ({})" if nulls and modern else "PRIMARY KEY ({})")
            parts.append(kind.format(self._names(self.target.primary_key)))
        return sql.SQL("CREATE TABLE {} ({})").format(self.table, sql.SQL(", ").join(parts))

    def claim(self, epoch: int, rows: int) -> Composable:
        """The ledger row of a batch; yields nothing when it was there. Taken first: a second writer waits for it."""
        return self.sql.SQL(
            "INSERT INTO {} (job, version, epoch, rows, target) VALUES ({}, {}, {}, {}, {}) "
            "ON CONFLICT DO NOTHING RETURNING epoch"
        ).format(
            self.ledger,
            *(
                self.sql.Literal(v)
                for v in (self.identity.job, self.identity.version, epoch, rows, self.target.path[1])
            ),
        )

    def known(self, epoch: int) -> Composable:
        """Rows of a batch that is in the ledger."""
        return self.sql.SQL("SELECT rows FROM {} WHERE job = {} AND version = {} AND epoch = {}").format(
            self.ledger, *(self.sql.Literal(value) for value in (self.identity.job, self.identity.version, epoch))
        )

    def newest(self) -> Composable:
        """Newest version of the job in the ledger, NULL for none."""
        job = self.sql.Literal(self.identity.job)
        return self.sql.SQL("SELECT max(version) FROM {} WHERE job = {}").format(self.ledger, job)

    def prune(self, epoch: int) -> Composable:
        """Forget epochs that can no longer be replayed."""
        return self.sql.SQL("DELETE FROM {} WHERE job = {} AND version = {} AND epoch BETWEEN 0 AND {}").format(
            self.ledger, *(self.sql.Literal(value) for value in (self.identity.job, self.identity.version, epoch))
        )

    def clear(self) -> Composable:
        """Empty the target for a new version."""
        return self.sql.SQL("TRUNCATE TABLE {}").format(self.target_name)

    def insert_staged(self) -> Composable:
        """Staged rows into the table with the target's types; upserts by key."""
        sql = self.sql
        names = [column.name for column in self.target.columns]
        values = [
            sql.SQL("CAST({} AS {})").format(sql.Identifier(column.name), sql.SQL(column.native_type))
            for column in self.target.columns
        ]
        statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
            self.table, self._names(names), sql.SQL(", ").join(values), self.stage
        )
        if self.target.mode != "upsert":
            return statement
        others = [name for name in names if name not in self.target.primary_key]
        pairs = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others]
        action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(pairs)) if pairs else sql.SQL("NOTHING")
        return sql.SQL("{} WHERE NOT {} ON CONFLICT ({}) DO {}").format(
            statement, sql.Identifier(DELETED), self._names(self.target.primary_key), action
        )

    def delete_staged(self, *, nulls: bool) -> Composable:
        """Rows whose key is staged as deleted. ``nulls``: those with a NULL in the key, which an index cannot find by
        ``=``."""
        sql = self.sql
        operator = sql.SQL("IS NOT DISTINCT FROM" if nulls else "=")
        types = {column.name: column.native_type for column in self.target.columns}
        matches = [
            sql.SQL("t.{0} {1} CAST(s.{0} AS {2})").format(sql.Identifier(name), operator, sql.SQL(types[name]))
            for name in self.target.primary_key
        ]
        empty = sql.SQL(" OR ").join(sql.SQL("s.{} IS NULL").format(sql.Identifier(n)) for n in self.target.primary_key)
        guard = sql.SQL(" AND ({})").format(empty) if nulls else sql.SQL("")
        return sql.SQL("DELETE FROM {} t USING {} s WHERE s.{} AND {}{}").format(
            self.table, self.stage, sql.Identifier(DELETED), sql.SQL(" AND ").join(matches), guard
        )

    def drop_stage(self) -> Composable:
        """The staging table of this transaction."""
        return self.sql.SQL("DROP TABLE {}").format(self.stage)

    def _names(self, names: Sequence[str]) -> Composable:
        joined: Composable = self.sql.SQL(", ").join(self.sql.Identifier(name) for name in names)
        return joined


def new_table(name: str, identity: SinkIdentity) -> str:
    """Name of the table a full refresh loads into, one per job and version, within Postgres' 63 characters."""
    return f"{new_prefix(name, identity.job)}{identity.version}"


def new_prefix(name: str, job: str) -> str:
    """What the names of all versions of :func:`new_table` begin with."""
    return f"{name[:30]}__ds_new_{hashlib.sha256(f'{job}/{name}'.encode()).hexdigest()[:10]}_v"
