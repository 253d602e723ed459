"""SQL of one table that is loaded through a warehouse: built as trees, printed once.

A warehouse has no transactions over several statements, so every statement is idempotent: COPY INTO skips files it has
loaded (https://docs.databricks.com/aws/en/sql/language-manual/delta-copy-into), MERGE sets a key to the same values,
INSERT OVERWRITE and CREATE OR REPLACE end with the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import sqlglot
from sqlglot import exp

from ds_dagster.catalog.io_spec import SinkIdentity, TableTarget
from ds_dagster.catalog.ledger import Tip
from ds_dagster.stores.databricks.connection import DIALECT, table_of
from ds_dagster.stores.delta.tables import ROWS, STAGED
from ds_dagster.stores.identifiers import quoted
from ds_dagster.stores.table_sink import DELETED, PUBLISHED

VOLUME = "ds_staging"
"""Volume in the table's schema that batches are uploaded to."""
LEDGER = "ds_ledger"
ADDED_COLUMNS = ("offsets", "ends")
"""Digest and text of a batch's end offsets; ledgers of earlier versions of the package lack them."""
LEDGER_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "job": "STRING",
        "target": "STRING",
        "version": "BIGINT",
        "epoch": "BIGINT",
        "loaded": "BIGINT",
        **dict.fromkeys(ADDED_COLUMNS, "STRING"),
    }
)


class DatabricksStatements:
    """SQL of one target. Rows are only added to the ledger, so that jobs never wait for each other; pruning it may be
    refused in a conflict, and is repeated later."""

    def __init__(self, target: TableTarget, identity: SinkIdentity) -> None:
        self.target = target
        self.identity = identity
        catalog, schema, table = target.path
        self.schema = (catalog, schema)
        tag = hashlib.sha256(identity.job.encode()).hexdigest()[:10]
        self.new_prefix = f"{table}__ds_new_{tag}_v"
        self.new = (*self.schema, f"{self.new_prefix}{identity.version}")
        self.written = self.new if target.refresh == "full" else target.path
        self.folder = f"/Volumes/{catalog}/{schema}/{VOLUME}/{tag}/v{identity.version}/{table}"

    # --- places -------------------------------------------------------------------------------------------------------

    def file(self, epoch: int) -> str:
        """Path of a batch's file: the same for every attempt, different for every job, version and batch."""
        return f"{self.folder}/b{epoch:010}.parquet"

    def put(self, epoch: int) -> str:
        """PUT of a stream given to the connector (a statement of the connector, not of the warehouse)."""
        return " ".join(("PUT '__input_stream__' INTO", exp.Literal.string(self.file(epoch)).sql(DIALECT), "OVERWRITE"))

    def remove(self, epoch: int) -> str:
        """REMOVE of a batch's file."""
        return " ".join(("REMOVE", exp.Literal.string(self.file(epoch)).sql(DIALECT)))

    # --- what is made -------------------------------------------------------------------------------------------------

    def create_volume(self) -> str:
        """Create the volume for batches."""
        return " ".join(("CREATE VOLUME IF NOT EXISTS", table_of((*self.schema, VOLUME)).sql(DIALECT)))

    def create_ledger(self) -> str:
        """Create the ledger of the schema's tables."""
        return _create((*self.schema, LEDGER), [(name, type_, False) for name, type_ in LEDGER_COLUMNS.items()])

    def create_table(self, name: Sequence[str]) -> str:
        """Create the target, or the new table of a full refresh, if it does not exist."""
        return _create(name, [(c.name, c.native_type, not c.nullable) for c in self.target.columns])

    def drop(self, name: Sequence[str]) -> str:
        """Drop a table of ours."""
        return exp.Drop(tables=[table_of(name)], kind="TABLE", exists=True).sql(DIALECT)

    def add_column(self, name: str) -> str:
        """Add one of :data:`ADDED_COLUMNS` to an older ledger."""
        added = exp.ColumnDef(this=quoted(name), kind=exp.DataType.build("STRING", dialect=DIALECT))
        place = table_of((*self.schema, LEDGER))
        return exp.Alter(this=place, kind="TABLE", actions=[exp.Schema(expressions=[added])]).sql(DIALECT)

    def describe(self, name: Sequence[str]) -> str:
        """DESCRIBE the columns of a table."""
        return exp.Describe(this=table_of(name)).sql(DIALECT)

    def new_tables(self) -> str:
        """SELECT the names of the new tables of this job's full refreshes."""
        catalog, schema = self.schema
        pattern = self.new_prefix.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%") + "%"
        condition = exp.and_(
            exp.column("table_catalog").eq(catalog),
            exp.column("table_schema").eq(schema),
            exp.column("table_name").like(pattern),
        )
        place = exp.table_("tables", db="information_schema", catalog="system")
        return exp.select("table_name").from_(place).where(condition).sql(DIALECT)

    # --- ledger -------------------------------------------------------------------------------------------------------

    def state(self) -> str:
        """Newest version of the job in this table; newest epoch, rows and published rows of this version. NULL for each
        that does not exist."""
        mine = exp.EQ(this=exp.column("version"), expression=exp.convert(self.identity.version))
        batches = exp.and_(mine, exp.GTE(this=exp.column("epoch"), expression=exp.convert(0)))
        cases = {
            "newest": exp.Max(this=exp.column("version")),
            "epoch": exp.Max(this=_when(batches, exp.column("epoch"))),
            "total": exp.Sum(this=_when(batches, exp.column("loaded"))),
            "published": exp.Max(
                this=_when(exp.and_(mine.copy(), exp.column("epoch").eq(exp.convert(PUBLISHED))), exp.column("loaded"))
            ),
        }
        return self._ledger(*(exp.alias_(value, name) for name, value in cases.items()))

    def batch(self, epoch: int) -> str:
        """Number of rows, and digest and text of the offsets, of a batch of this version."""
        query = self._ledger_select(
            *(exp.alias_(exp.Max(this=exp.column(name)), name) for name in ("loaded", *ADDED_COLUMNS)),
        )
        mine = exp.and_(
            exp.column("version").eq(exp.convert(self.identity.version)), exp.column("epoch").eq(exp.convert(epoch))
        )
        return query.where(mine).sql(DIALECT)

    def prune(self, epoch: int) -> str:
        """Delete ledger rows of this version up to an epoch, which can no longer be replayed."""
        mine = exp.column("version").eq(exp.convert(self.identity.version))
        old = exp.column("epoch").between(exp.convert(0), exp.convert(epoch))
        return exp.delete(table_of((*self.schema, LEDGER))).where(exp.and_(self._own(), mine, old)).sql(DIALECT)

    def others(self) -> str:
        """Number of batches that other jobs have loaded into this table."""
        condition = exp.and_(exp.column("target").eq(self.target.path[-1]), exp.column("job").neq(self.identity.job))
        counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "found"))
        return counted.from_(table_of((*self.schema, LEDGER))).where(condition).sql(DIALECT)

    def count(self) -> str:
        """Number of rows of the target."""
        return exp.select(exp.alias_(exp.Count(this=exp.Star()), "found")).from_(self._target()).sql(DIALECT)

    def note(self, epoch: int, loaded: int, batch: Tip | None) -> str:
        """Insert the ledger row of a batch. ``batch``: its offsets; None for a row that is not a batch of the
        source."""
        values = exp.Tuple(
            expressions=[
                exp.Literal.string(self.identity.job),
                exp.Literal.string(self.target.path[-1]),
                exp.convert(self.identity.version),
                exp.convert(epoch),
                exp.convert(loaded),
                exp.Literal.string(batch.offsets if batch else ""),
                exp.Literal.string(batch.ends if batch else ""),
            ]
        )
        return exp.insert(
            exp.Values(expressions=[values]), table_of((*self.schema, LEDGER)), columns=list(LEDGER_COLUMNS)
        ).sql(DIALECT)

    # --- a batch ------------------------------------------------------------------------------------------------------

    def copy(self, epoch: int) -> str:
        """COPY INTO: the rows of a batch's file, once."""
        statement = sqlglot.parse_one("COPY INTO t FROM 'f' FILEFORMAT = PARQUET", dialect=DIALECT)
        statement.set("this", table_of(self.written))
        statement.set("files", [exp.Literal.string(self.file(epoch))])
        return statement.sql(DIALECT)

    def overwrite(self, epoch: int) -> str:
        """Replace all rows, which an earlier version has loaded, by the rows of a batch without its deletes."""
        rows = self._staged_rows(epoch, only_live=self.target.mode == "upsert")
        return exp.Insert(
            this=exp.Schema(this=table_of(self.written), expressions=[quoted(c.name) for c in self.target.columns]),
            expression=rows,
            overwrite=True,
        ).sql(DIALECT)

    def merge(self, epoch: int) -> str:
        """Upsert and delete by key; NULL equals NULL."""
        names = [column.name for column in self.target.columns]
        deleted = exp.column(quoted(DELETED), table=STAGED)
        same = exp.and_(
            *(
                exp.NullSafeEQ(this=_column(name, ROWS), expression=_column(name, STAGED))
                for name in self.target.primary_key
            )
        )
        update = exp.Update(
            expressions=[exp.EQ(this=_column(name, ROWS), expression=_column(name, STAGED)) for name in names]
        )
        insert = exp.Insert(
            this=exp.Tuple(expressions=[exp.column(quoted(name)) for name in names]),
            expression=exp.Tuple(expressions=[_column(name, STAGED) for name in names]),
        )
        whens = [
            exp.When(matched=True, condition=deleted.copy(), then=exp.var("DELETE")),
            exp.When(matched=True, then=update),
            exp.When(matched=False, condition=exp.not_(deleted.copy()), then=insert),
        ]
        staged = exp.select("*").from_(self._file(epoch)).subquery(STAGED)
        target = exp.alias_(table_of(self.written), ROWS, table=True)
        return exp.Merge(this=target, using=staged, on=same, whens=exp.Whens(expressions=whens)).sql(DIALECT)

    def publish(self) -> str:
        """Replace the target by the rows of the new table."""
        rows = exp.select(*(_column(column.name) for column in self.target.columns)).from_(table_of(self.new))
        return exp.Create(this=table_of(self.target.path), kind="TABLE", replace=True, expression=rows).sql(DIALECT)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _target(self) -> exp.Table:
        return table_of(self.target.path)

    def _file(self, epoch: int) -> exp.Table:
        return exp.Table(this=quoted(self.file(epoch)), db=exp.to_identifier("parquet"))

    def _staged_rows(self, epoch: int, *, only_live: bool) -> exp.Select:
        rows = exp.select(*(_column(column.name) for column in self.target.columns)).from_(self._file(epoch))
        return rows.where(exp.not_(exp.column(quoted(DELETED)))) if only_live else rows

    def _own(self) -> exp.Expr:
        """Condition for this job's rows in the ledger for this table."""
        return exp.and_(exp.column("job").eq(self.identity.job), exp.column("target").eq(self.target.path[-1]))

    def _ledger_select(self, *columns: exp.Expr) -> exp.Select:
        return exp.select(*columns).from_(table_of((*self.schema, LEDGER))).where(self._own())

    def _ledger(self, *columns: exp.Expr) -> str:
        return self._ledger_select(*columns).sql(DIALECT)


def _create(name: Sequence[str], columns: Sequence[tuple[str, str, bool]]) -> str:
    """CREATE TABLE IF NOT EXISTS with (name, type, NOT NULL) of each column."""
    definitions = [
        exp.ColumnDef(
            this=quoted(column),
            kind=exp.DataType.build(type_, dialect=DIALECT),
            constraints=[exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())] if required else [],
        )
        for column, type_, required in columns
    ]
    place = exp.Schema(this=table_of(name), expressions=definitions)
    return exp.Create(this=place, kind="TABLE", exists=True).sql(DIALECT)


def _when(condition: exp.Expr, value: exp.Expr) -> exp.Case:
    return exp.case().when(condition.copy(), value)


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(quoted(name), table=table)
