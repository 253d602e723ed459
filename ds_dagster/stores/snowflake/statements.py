"""SQL of one Snowflake target: built as trees, printed once.

Nothing in a transaction is DDL, which would commit it (https://docs.snowflake.com/en/sql-reference/transactions).
Upserts are DELETE and INSERT instead of MERGE: two statements that every engine behind the connector can run in a
transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import sqlglot
from sqlglot import exp

from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import Tip
from ds_dagster.stores.identifiers import quoted
from ds_dagster.stores.snowflake.names import column_name, table
from ds_dagster.stores.snowflake.tables import Names, goes_direct
from ds_dagster.stores.table_sink import PUBLISHED

DIALECT = "snowflake"
LOCK = -2
"""Epoch of the ledger row that every transaction updates first, so that a second writer waits."""
DELETED_COLUMN = "DELETED"
TEXT_ONLY = ("TIME",)
"""Types that are text in the files, and are cast to the column's type: COPY does not read Parquet's own type."""

LEDGER_COLUMNS: Mapping[str, str] = MappingProxyType(
    {"JOB": "VARCHAR", "VERSION": "NUMBER(38,0)", "EPOCH": "NUMBER(38,0)", "LOADED": "NUMBER(38,0)"}
)
ADDED_COLUMNS = ("OFFSETS", "ENDS")
"""Digest and text of a batch's end offsets; ledgers of earlier versions of the package lack them."""
COPY_OPTIONS = (
    "COPY INTO t FROM @s FILE_FORMAT = (TYPE=PARQUET USE_LOGICAL_TYPE=TRUE BINARY_AS_TEXT=FALSE) "
    "MATCH_BY_COLUMN_NAME = CASE_SENSITIVE ON_ERROR = ABORT_STATEMENT FORCE = TRUE PURGE = TRUE"
)
"""FORCE: the ledger decides what was loaded, not COPY's memory of file names. PURGE deletes loaded files: a repeated
batch is uploaded again. Options: https://docs.snowflake.com/en/sql-reference/sql/copy-into-table."""
PUT_OPTIONS = "PUT 'file' @s AUTO_COMPRESS=FALSE OVERWRITE=TRUE"


class SnowflakeStatements:
    """SQL of one target; ``written`` is the target, or the new table of a full refresh."""

    def __init__(self, target: TableTarget, identity: SinkIdentity) -> None:
        self.target = target
        self.identity = identity
        self.names = Names.of(target.path[-1], identity)
        self.direct = goes_direct(target)
        self.written = self.names.new if target.refresh == "full" else self.names.target
        self._columns = [quoted(column_name(column.name)) for column in target.columns]

    # --- where -------------------------------------------------------------------------------------------------------

    def use_database(self) -> str:
        """USE DATABASE; fails if the database does not exist or the role may not use it."""
        return printed(exp.Use(kind=exp.var("DATABASE"), this=exp.Table(this=quoted(self.target.path[0]))))

    def use_schema(self) -> str:
        """USE SCHEMA; fails as :meth:`use_database`."""
        database, schema, _ = self.target.path
        place = exp.Table(this=quoted(schema), db=quoted(database))
        return printed(exp.Use(kind=exp.var("SCHEMA"), this=place))

    def show_objects(self) -> str:
        """SHOW tables and views whose names match :attr:`Names.pattern`, which may include others."""
        database, schema, _ = self.target.path
        place = exp.Table(this=quoted(schema), db=quoted(database))
        pattern = exp.Literal.string(self.names.pattern)
        return printed(exp.Show(this="OBJECTS", like=pattern, scope=place, scope_kind="SCHEMA"))

    def describe(self, name: str) -> str:
        """DESCRIBE the columns of a table."""
        return printed(exp.Describe(this=self._table(name), kind="TABLE"))

    # --- what is made ------------------------------------------------------------------------------------------------

    def create_stage(self) -> str:
        """Create the stage of this session; Snowflake drops it with its files when the session ends."""
        statement = sqlglot.parse_one("CREATE OR REPLACE TEMPORARY STAGE s", dialect=DIALECT)
        statement.set("this", exp.Table(this=quoted(self.names.stage)))
        return printed(statement)

    def create_ledger(self) -> tuple[str, ...]:
        """Create a missing ledger, and insert its lock row if it has none."""
        ledger = self._table(self.names.ledger)
        columns = [_column(quoted(name), type_, required=True) for name, type_ in LEDGER_COLUMNS.items()]
        columns.append(_column(quoted("AT"), "TIMESTAMP_LTZ(9)", required=False))
        columns += [_column(quoted(name), "VARCHAR", required=False) for name in ADDED_COLUMNS]
        count = exp.select(exp.alias_(exp.Count(this=exp.Star()), "N", quoted=True))
        locks = count.from_(ledger.copy()).where(_equals("EPOCH", LOCK)).subquery("L")
        row = exp.select(*(_literal(value) for value in ("", 0, LOCK, 0))).from_(locks).where(_equals("N", 0))
        return printed(_create(ledger, columns, if_missing=True)), printed(
            self._into(ledger, list(LEDGER_COLUMNS), row)
        )

    def extend_ledger(self, name: str) -> str:
        """Add one of :data:`ADDED_COLUMNS` to an older ledger."""
        added = _column(quoted(name), "VARCHAR", required=False)
        return printed(exp.Alter(this=self._table(self.names.ledger), kind="TABLE", actions=[added]))

    def create_table(self, name: str) -> str:
        """Create the target, or the new table of a full refresh, if it does not exist."""
        columns = [
            _column(place, column.native_type, required=not column.nullable)
            for place, column in zip(self._columns, self.target.columns, strict=True)
        ]
        return printed(_create(self._table(name), columns, if_missing=True))

    def create_load(self) -> str:
        """Create or replace the load table: neutral names, JSON as text."""
        columns = [
            _column(quoted(neutral(position)), "VARCHAR" if column.as_json else column.native_type, required=False)
            for position, column in enumerate(self.target.columns)
        ]
        columns.append(_column(quoted(DELETED_COLUMN), "BOOLEAN", required=False))
        statement = _create(self._table(self.names.load), columns, if_missing=False)
        statement.set("properties", exp.Properties(expressions=[exp.TransientProperty()]))
        return printed(statement)

    def drop(self, name: str) -> str:
        """Drop a table of ours."""
        return printed(exp.Drop(tables=[self._table(name)], kind="TABLE", exists=True))

    # --- ledger ------------------------------------------------------------------------------------------------------

    def lock(self) -> str:
        """First statement of every transaction: a second transaction waits here and then sees the commit of the
        first."""
        update = exp.Update(
            this=self._table(self.names.ledger),
            expressions=[exp.EQ(this=exp.column(quoted("AT")), expression=exp.CurrentTimestamp())],
        )
        return printed(update.where(_equals("EPOCH", LOCK)))

    def state(self) -> str:
        """Newest version of the job, newest batch of this version, rows that it published; NULL for each that does not
        exist."""
        epoch = exp.column(quoted("EPOCH"))
        ours = _equals("VERSION", self.identity.version)
        is_batch = exp.and_(ours, exp.GTE(this=epoch, expression=exp.Literal.number(0)))
        is_publication = exp.and_(ours.copy(), _equals("EPOCH", PUBLISHED))
        values = (
            exp.column(quoted("VERSION")),
            exp.Case(ifs=[exp.If(this=is_batch, true=epoch.copy())]),
            exp.Case(ifs=[exp.If(this=is_publication, true=exp.column(quoted("LOADED")))]),
        )
        query = exp.select(*(exp.Max(this=value) for value in values))
        return printed(query.from_(self._table(self.names.ledger)).where(_equals("JOB", self.identity.job)))

    def batch(self, epoch: int) -> str:
        """Digest and text of the offsets, and number of rows, of a batch of this version."""
        query = exp.select(*(exp.column(quoted(name)) for name in (*ADDED_COLUMNS, "LOADED")))
        mine = exp.and_(self._own_version(), _equals("EPOCH", epoch))
        return printed(query.from_(self._table(self.names.ledger)).where(mine))

    def claim(self, epoch: int, rows: int, batch: Tip | None) -> str:
        """Insert the ledger row of a batch. ``batch``: its offsets; None for a row that is not a batch of the
        source."""
        ends = (batch.offsets, batch.ends) if batch else ("", "")
        values = [_literal(value) for value in (self.identity.job, self.identity.version, epoch, rows, *ends)]
        row = exp.select(*values, exp.CurrentTimestamp())
        return printed(self._into(self._table(self.names.ledger), [*LEDGER_COLUMNS, *ADDED_COLUMNS, "AT"], row))

    def total(self) -> str:
        """Number of rows of all batches of this version."""
        loaded = exp.func("COALESCE", exp.Sum(this=exp.column(quoted("LOADED"))), exp.Literal.number(0))
        query = exp.select(loaded).from_(self._table(self.names.ledger))
        batches = exp.GTE(this=exp.column(quoted("EPOCH")), expression=exp.Literal.number(0))
        return printed(query.where(exp.and_(self._own_version(), batches)))

    def prune(self, epoch: int) -> str:
        """Delete ledger rows up to an epoch, which can no longer be replayed."""
        old = exp.Between(this=exp.column(quoted("EPOCH")), low=exp.Literal.number(0), high=exp.Literal.number(epoch))
        return printed(exp.delete(self._table(self.names.ledger)).where(exp.and_(self._own_version(), old)))

    def any_batch(self) -> str:
        """Select one row if any job has loaded a batch."""
        query = exp.select(exp.Literal.number(1)).from_(self._table(self.names.ledger))
        batches = exp.GTE(this=exp.column(quoted("EPOCH")), expression=exp.Literal.number(0))
        return printed(query.where(batches).limit(1))

    def any_row(self) -> str:
        """Select one row if the target has rows."""
        return printed(exp.select(exp.Literal.number(1)).from_(self._table(self.names.target)).limit(1))

    # --- rows --------------------------------------------------------------------------------------------------------

    def put(self, files: str, epoch: int) -> str:
        """Upload files of a batch. ``files``: a path, with ``*`` for several files."""
        statement = sqlglot.parse_one(PUT_OPTIONS, dialect=DIALECT)
        statement.set("this", exp.Literal.string(f"file://{files}"))
        statement.set("target", exp.var(self._place(epoch)))
        return printed(statement)

    def copy(self, epoch: int) -> str:
        """Load uploaded files into the written table, or into the load table."""
        statement = sqlglot.parse_one(COPY_OPTIONS, dialect=DIALECT)
        statement.set("this", self._table(self.written if self.direct else self.names.load))
        statement.set("files", [exp.Table(this=exp.var(self._place(epoch)))])
        return printed(statement)

    def delete_loaded(self, *, nulls: bool) -> str:
        """Delete rows of the written table whose key is in the batch. ``nulls``: rows with a NULL in the key, which
        ``=`` does not find; a separate statement, because only ``=`` is a hash join."""
        keys = [
            (self._columns[position].copy(), quoted(neutral(position)))
            for position, column in enumerate(self.target.columns)
            if column.name in self.target.primary_key
        ]
        operator = exp.NullSafeEQ if nulls else exp.EQ
        matches: list[exp.Expr] = [
            operator(this=exp.column(mine, table=quoted(self.written)), expression=exp.column(theirs, table="s"))
            for mine, theirs in keys
        ]
        if nulls:
            empty = [exp.Is(this=exp.column(theirs.copy(), table="s"), expression=exp.Null()) for _, theirs in keys]
            matches.append(exp.or_(*empty))
        statement = exp.Delete(this=self._table(self.written), using=[self._table(self.names.load, "s")])
        return printed(statement.where(exp.and_(*matches)))

    def insert_loaded(self) -> str:
        """Insert the rows of the load table that are not deletes."""
        values = [_value(column, position) for position, column in enumerate(self.target.columns)]
        rows = exp.select(*values).from_(self._table(self.names.load))
        if self.target.mode == "upsert":
            rows = rows.where(exp.Not(this=exp.column(quoted(DELETED_COLUMN))))
        return printed(self._into(self._table(self.written), self._columns, rows))

    def clear(self, name: str) -> str:
        """Delete all rows of a table, which changes only its metadata."""
        return printed(exp.delete(self._table(name)))

    def publish(self) -> str:
        """Insert the rows of the new table into the target."""
        rows = exp.select(*(exp.column(name.copy()) for name in self._columns)).from_(self._table(self.names.new))
        return printed(self._into(self._table(self.names.target), self._columns, rows))

    def replace(self) -> str:
        """Replace the target by a table with the columns and rows of the new table, in one statement; grants remain."""
        columns = [
            _column(place, column.native_type, required=not column.nullable)
            for place, column in zip(self._columns, self.target.columns, strict=True)
        ]
        statement = _create(self._table(self.names.target), columns, if_missing=False)
        rows = exp.select(*(exp.column(name.copy()) for name in self._columns)).from_(self._table(self.names.new))
        statement.set("expression", rows)
        statement.set("properties", exp.Properties(expressions=[exp.CopyGrantsProperty()]))
        return printed(statement)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _table(self, name: str, alias: str = "") -> exp.Table:
        return table((*self.target.path[:-1], name), alias)

    def _place(self, epoch: int) -> str:
        """Folder of a batch on the stage of the session's schema."""
        return f"@{self.names.stage}/v{self.identity.version}_b{epoch}/"

    def _own_version(self) -> exp.Expr:
        return exp.and_(_equals("JOB", self.identity.job), _equals("VERSION", self.identity.version))

    def _into(self, into: exp.Table, columns: Sequence[str | exp.Identifier], rows: exp.Select) -> exp.Insert:
        names = [quoted(name) if isinstance(name, str) else name.copy() for name in columns]
        return exp.Insert(this=exp.Schema(this=into.copy(), expressions=names), expression=rows)


def neutral(position: int) -> str:
    """Name of a column in the load table and in its files."""
    return f"C{position + 1}"


def _value(column: TableColumn, position: int) -> exp.Expr:
    value = exp.column(quoted(neutral(position)))
    return exp.func("PARSE_JSON", value, dialect=DIALECT) if column.as_json else value


def _create(place: exp.Table, columns: Sequence[exp.Expr], *, if_missing: bool) -> exp.Create:
    """CREATE TABLE IF NOT EXISTS (``if_missing``) or CREATE OR REPLACE TABLE."""
    schema = exp.Schema(this=place.copy(), expressions=list(columns))
    return exp.Create(this=schema, kind="TABLE", exists=if_missing, replace=not if_missing)


def _column(name: exp.Identifier, type_: str, *, required: bool) -> exp.ColumnDef:
    constraints = [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())] if required else []
    return exp.ColumnDef(this=name.copy(), kind=exp.DataType.build(type_, dialect=DIALECT), constraints=constraints)


def _equals(name: str, value: str | int) -> exp.Expr:
    return exp.EQ(this=exp.column(quoted(name)), expression=_literal(value))


def _literal(value: str | int) -> exp.Expr:
    return exp.Literal.string(value) if isinstance(value, str) else exp.convert(value)


def printed(tree: exp.Expr) -> str:
    """Text of a statement."""
    return tree.sql(dialect=DIALECT)
