"""Statements of a load into Postgres, composed by ``psycopg2.sql``, which quotes names and literals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.io_spec import SinkIdentity, TableTarget
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.properties.tables import CHANGED_AT
from ds_dagster.stores.table_sink import DELETED, PUBLISHED

if TYPE_CHECKING:
    from psycopg2.sql import Composable

LEDGER = "ds_ledger"
ADDED_COLUMNS = ("offsets", "ends")
"""Digest and text of a batch's end offsets; ledgers of earlier versions of the package lack them."""
STAGE = "ds_stage"
NULLS_NOT_DISTINCT_SINCE = 150_000
STAMP_COMMENT = "when the row was written, for 'retention.millis'"
LOCK_SPACE = 7_306_011
"""First key of our advisory locks."""
_NO_CASTS: Mapping[str, str] = MappingProxyType({})


class TableStatements:
    """SQL of one target, composed once. ``table`` is the target, or the new table of a full refresh; ``casts``: casts
    for that table, see :func:`ds_dagster.stores.postgres.shapes.casts`."""

    def __init__(
        self, connection: Any, target: TableTarget, identity: SinkIdentity, casts: Mapping[str, str] = _NO_CASTS
    ) -> None:
        from psycopg2 import sql

        self.sql = sql
        self.connection = connection
        self.target = target
        self.identity = identity
        self.casts = casts
        schema, name = target.path
        self.target_name = sql.Identifier(schema, name)
        self.ledger = sql.Identifier(schema, LEDGER)
        self.stage = sql.Identifier("pg_temp", STAGE)
        self.new = new_table(name, identity)
        self.new_name = sql.Identifier(schema, self.new)
        self.written = self.new if target.refresh == "full" else name
        self.table = sql.Identifier(schema, self.written)

    def text(self, statement: Composable) -> str:
        """A statement as text, for a driver that takes only text."""
        return str(statement.as_string(self.connection))

    def create_ledger(self) -> Composable:
        """The ledger: one row per job, version and epoch."""
        return self.sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} (job text NOT NULL, version bigint NOT NULL, epoch bigint NOT NULL, "
            "rows bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(), target text NOT NULL, "
            "offsets text NOT NULL DEFAULT '', ends text NOT NULL DEFAULT '', "
            "PRIMARY KEY (job, version, epoch))"
        ).format(self.ledger)

    def create_table(self) -> Composable:
        """Create the target, or the new table of a full refresh."""
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

    def add_stamp(self) -> Composable:
        """Add the hidden column for a retention: when a row was last written; existing rows count as written now. Its
        index finds old rows without a scan."""
        stamp = self.sql.Identifier(CHANGED_AT)
        return self.sql.SQL(
            "ALTER TABLE {table} ADD COLUMN {stamp} timestamptz NOT NULL DEFAULT now(); "
            "COMMENT ON COLUMN {table}.{stamp} IS {mark}; CREATE INDEX ON {table} ({stamp})"
        ).format(table=self.table, stamp=stamp, mark=self.sql.Literal(STAMP_COMMENT))

    def has_stamp(self) -> Composable:
        """Whether the target has the column of :meth:`add_stamp`; a user's column of this name does not count."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {} AND c.relname = {} "
            "AND a.attname = {} AND col_description(c.oid, a.attnum) = {})"
        )
        parts = (*self.target.path, CHANGED_AT, STAMP_COMMENT)
        return self.sql.SQL(query).format(*(self.sql.Literal(part) for part in parts))

    def drop_stamp(self) -> Composable:
        """Drop the column of :meth:`add_stamp`."""
        return self.sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(self.table, self.sql.Identifier(CHANGED_AT))

    def expire(self) -> Composable:
        """Delete rows older than the retention, by the server's clock. Rows that another transaction is writing are
        skipped until the next time, so that there are no deadlocks."""
        sql = self.sql
        return sql.SQL(
            "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} "
            "WHERE {stamp} <= now() - {age} * interval '1 millisecond' FOR UPDATE SKIP LOCKED))"
        ).format(table=self.table, stamp=sql.Identifier(CHANGED_AT), age=sql.Literal(self.target.retention_millis))

    def ledger_columns(self) -> Composable:
        """Names of the ledger's columns."""
        return self.sql.SQL("SELECT attname FROM pg_attribute WHERE attrelid = {}::regclass AND attnum > 0").format(
            self.sql.Literal(self.text(self.ledger))
        )

    def add_column(self, name: str) -> Composable:
        """Add one of :data:`ADDED_COLUMNS` to an older ledger."""
        return self.sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} text NOT NULL DEFAULT ''").format(
            self.ledger, self.sql.Identifier(name)
        )

    def claim(self, batch: Tip, rows: int) -> Composable:
        """Insert the ledger row of a batch; returns no row if it exists. Done first: a second writer waits for it."""
        return self.sql.SQL("{} ON CONFLICT DO NOTHING RETURNING epoch").format(self._note(batch.batch, rows, batch))

    def wait_for_rows(self) -> Composable:
        """End the timeouts of this transaction that would count the time in which rows are computed: COPY waits for
        them, or the session does."""
        return self.sql.SQL(
            "SELECT set_config('statement_timeout', '0', true), "
            "set_config('idle_in_transaction_session_timeout', '0', true)"
        )

    def recount(self, batch: Tip, rows: int) -> Composable:
        """Correct the number of rows of a batch in its ledger row."""
        identity = (self.identity.job, self.identity.version, batch.batch)
        return self.sql.SQL("UPDATE {} SET rows = {} WHERE job = {} AND version = {} AND epoch = {}").format(
            self.ledger, self.sql.Literal(rows), *map(self.sql.Literal, identity)
        )

    def publication(self, rows: int) -> Composable:
        """Insert the ledger row of a published full refresh, with the number of its rows."""
        return self._note(PUBLISHED, rows, None)

    def _note(self, epoch: int, rows: int, batch: Tip | None) -> Composable:
        values = (
            self.identity.job,
            self.identity.version,
            epoch,
            rows,
            self.target.path[1],
            batch.offsets if batch else "",
            batch.ends if batch else "",
        )
        return self.sql.SQL("INSERT INTO {} (job, version, epoch, rows, target, offsets, ends) VALUES ({})").format(
            self.ledger, self.sql.SQL(", ").join(map(self.sql.Literal, values))
        )

    def newest(self, below: int | None) -> Composable:
        """Newest version of the job; newest batch of this version (before ``below``), the digest and text of its
        offsets, its number of rows; number of rows published. NULL for each that does not exist."""
        sql = self.sql
        until = sql.SQL("" if below is None else " AND epoch < {}").format(sql.Literal(below))
        return sql.SQL(
            "SELECT l.version, n.epoch, n.offsets, n.ends, n.rows, l.published FROM (SELECT max(version) AS version, "
            "max(rows) FILTER (WHERE version = {version} AND epoch = {published}) AS published "
            "FROM {ledger} WHERE job = {job}{others}) l LEFT JOIN (SELECT epoch, offsets, ends, rows FROM {ledger} "
            "WHERE job = {job} AND version = {version} AND epoch >= 0{until} ORDER BY epoch DESC LIMIT 1) n ON true"
        ).format(
            version=sql.Literal(self.identity.version),
            published=sql.Literal(PUBLISHED),
            ledger=self.ledger,
            job=sql.Literal(self.identity.job),
            until=until,
            others=sql.SQL("" if below is None else " AND NOT (version = {} AND epoch = {})").format(
                sql.Literal(self.identity.version), sql.Literal(below)
            ),
        )

    def has_earlier(self) -> Composable:
        """Whether the ledger has an earlier version of the job."""
        return self.sql.SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE job = {} AND version < {})").format(
            self.ledger, *(self.sql.Literal(value) for value in (self.identity.job, self.identity.version))
        )

    def prune(self, epoch: int) -> Composable:
        """Delete ledger rows up to an epoch, which can no longer be replayed."""
        return self.sql.SQL("DELETE FROM {} WHERE job = {} AND version = {} AND epoch BETWEEN 0 AND {}").format(
            self.ledger, *(self.sql.Literal(value) for value in (self.identity.job, self.identity.version, epoch))
        )

    def clear(self) -> Composable:
        """Empty the target for a new version."""
        return self.sql.SQL("TRUNCATE TABLE {}").format(self.target_name)

    def insert_staged(self) -> Composable:
        """Insert staged rows into the table, or upsert them by key."""
        statement = self._insert(self.table, self.stage, self.casts)
        if self.target.mode != "upsert":
            return statement
        return self.sql.SQL("{} WHERE NOT {} {}").format(statement, self.sql.Identifier(DELETED), self._on_conflict())

    def delete_staged(self, *, nulls: bool) -> Composable:
        """Delete rows whose key is staged as deleted. ``nulls``: rows with a NULL in the key, which an index cannot
        find by ``=``."""
        sql = self.sql
        matches = self._same_key(self.casts, "IS NOT DISTINCT FROM" if nulls else "=")
        empty = sql.SQL(" OR ").join(sql.SQL("s.{} IS NULL").format(sql.Identifier(n)) for n in self.target.primary_key)
        guard = sql.SQL(" AND ({})").format(empty) if nulls else sql.SQL("")
        return sql.SQL("DELETE FROM {} t USING {} s WHERE s.{} AND {}{}").format(
            self.table, self.stage, sql.Identifier(DELETED), matches, guard
        )

    def drop_stage(self) -> Composable:
        """Drop the staging table of this transaction."""
        return self.sql.SQL("DROP TABLE {}").format(self.stage)

    # --- a full refresh ----------------------------------------------------------------------------------------------

    def swap(self, *, replaces: bool) -> tuple[Composable, ...]:
        """Give the new table the target's name. DROP without CASCADE fails if an object was made that depends on it."""
        rename = self.sql.SQL("ALTER TABLE {} RENAME TO {}")
        renamed = rename.format(self.new_name, self.sql.Identifier(self.target.path[1]))
        return (self.sql.SQL("DROP TABLE {}").format(self.target_name), renamed) if replaces else (renamed,)

    def refill(self, casts: Mapping[str, str]) -> tuple[Composable, ...]:
        """Replace the target's rows by the new table's: readers wait for the transaction, objects that depend on the
        target remain. ``casts``: for the target."""
        return self.clear(), self._insert(self.target_name, self.new_name, casts), self._drop_new()

    def merge(self, casts: Mapping[str, str]) -> tuple[Composable, ...]:
        """As :meth:`refill`, but row by row by key, for a target with foreign keys on it: rows that remain keep their
        references."""
        sql = self.sql
        gone = sql.SQL("DELETE FROM {} t WHERE NOT EXISTS (SELECT 1 FROM {} s WHERE {})").format(
            self.target_name, self.new_name, self._same_key(casts, "IS NOT DISTINCT FROM")
        )
        rows = sql.SQL("{} {}").format(self._insert(self.target_name, self.new_name, casts), self._on_conflict())
        return gone, rows, self._drop_new()

    def total(self) -> Composable:
        """Number of rows of all batches of this version."""
        return self.sql.SQL(
            "SELECT coalesce(sum(rows), 0) FROM {} WHERE job = {} AND version = {} AND epoch >= 0"
        ).format(self.ledger, *(self.sql.Literal(value) for value in (self.identity.job, self.identity.version)))

    def _drop_new(self) -> Composable:
        return self.sql.SQL("DROP TABLE {}").format(self.new_name)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _insert(self, table: Composable, source: Composable, casts: Mapping[str, str]) -> Composable:
        names = [column.name for column in self.target.columns]
        values = self.sql.SQL(", ").join(self._cast(self.sql.Identifier(name), casts.get(name)) for name in names)
        return self.sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(table, self._names(names), values, source)

    def _cast(self, value: Composable, type_: str | None) -> Composable:
        return self.sql.SQL("CAST({} AS {})").format(value, self.sql.SQL(type_)) if type_ else value

    def _on_conflict(self) -> Composable:
        sql = self.sql
        others = [column.name for column in self.target.columns if column.name not in self.target.primary_key]
        others += [CHANGED_AT] if self.target.retention_millis else []
        pairs = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others]
        action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(pairs)) if pairs else sql.SQL("NOTHING")
        return sql.SQL("ON CONFLICT ({}) DO {}").format(self._names(self.target.primary_key), action)

    def _same_key(self, casts: Mapping[str, str], operator: str) -> Composable:
        """Condition that ``t`` and ``s`` have the same key."""
        sql = self.sql
        return sql.SQL(" AND ").join(
            sql.SQL("t.{} {} {}").format(
                sql.Identifier(name), sql.SQL(operator), self._cast(sql.Identifier("s", name), casts.get(name))
            )
            for name in self.target.primary_key
        )

    def _names(self, names: Sequence[str]) -> Composable:
        joined: Composable = self.sql.SQL(", ").join(self.sql.Identifier(name) for name in names)
        return joined


def new_table(name: str, identity: SinkIdentity) -> str:
    """Name of the table a full refresh loads into, one per job and version, within Postgres' 63 characters."""
    return f"{new_prefix(name, identity.job)}{identity.version}"


def new_prefix(name: str, job: str) -> str:
    """Prefix of the names of all versions of :func:`new_table`."""
    return f"{name[:30]}__ds_new_{hashlib.sha256(f'{job}/{name}'.encode()).hexdigest()[:10]}_v"
