"""Replaces the rows of a range of time: new rows are staged batch by batch in a temporary table, and replace the old
rows in one short transaction. The staged rows are lost if the session ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.ledger import Tip, batch_text
from ds_dagster.catalog.reading.ranges import NO_END, Replaced, TimeRange
from ds_dagster.errors import error
from ds_dagster.stores.postgres.tables import STAGE, TableStatements

if TYPE_CHECKING:
    import pyarrow
    from psycopg2.sql import Composable

    from ds_dagster.stores.postgres.loader import PostgresLoader

STAGED = "ds_range"


class RangeStatements:
    """SQL of one range."""

    def __init__(self, table: TableStatements, span: TimeRange) -> None:
        self.table, self.sql, self.span = table, table.sql, span
        self.staged = table.sql.Identifier("pg_temp", STAGED)

    def create(self) -> tuple[Composable, ...]:
        """An empty temporary table with the written columns, in the target's types."""
        names = self.table._names([column.name for column in self.table.target.columns])
        new = self.sql.SQL("CREATE TEMPORARY TABLE {} AS SELECT {} FROM {} WITH NO DATA").format(
            self.sql.Identifier(STAGED), names, self.table.target_name
        )
        return self.sql.SQL("DROP TABLE IF EXISTS {}").format(self.staged), new

    def stage(self) -> Composable:
        """Insert one batch into the temporary table, cast to the target's types."""
        return self.table._insert(self.staged, self.table.stage, self.table.casts)

    def lock(self) -> Composable:
        """Lock the target: writers wait, readers do not."""
        return self.sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(self.table.target_name)

    def ledger_rows(self, tip: Tip) -> Composable:
        """Count the ledger rows of a batch of this job in the table that has this name now."""
        sql, own = self.sql, self.table.identity
        values = {"job": own.job, "version": own.version, "epoch": tip.batch, "target": self.table.target.path[1]}
        same = sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in values.items()
        )
        return sql.SQL("SELECT count(*) FROM {} WHERE {}").format(self.table.ledger, same)

    def delete(self) -> Composable:
        """Delete the rows of the range; gives their number."""
        return self.sql.SQL("WITH gone AS (DELETE FROM {} WHERE {} RETURNING 1) SELECT count(*) FROM gone").format(
            self.table.target_name, self._within()
        )

    def insert(self) -> Composable:
        """Insert the staged rows of the range into the target; gives their number."""
        rows = self.table._insert(self.table.target_name, self.staged, {})
        return self.sql.SQL("WITH new AS ({} WHERE {} RETURNING 1) SELECT count(*) FROM new").format(
            rows, self._within()
        )

    def _within(self) -> Composable:
        """The condition of the range, the same for deleted and inserted rows: times are compared in the column's type,
        after rounding and conversion."""
        type_ = next(c.native_type for c in self.table.target.columns if c.name == self.span.column)
        has_zone = "tz" in type_ or "with time zone" in type_
        begin, end = (m if has_zone else m.replace(tzinfo=None) for m in (self.span.begin, self.span.end))
        is_open = self.span.end == NO_END
        text = "{column} >= {begin}" if is_open else "{column} >= {begin} AND {column} < {end}"
        parts = {"begin": self.sql.Literal(begin)} | ({} if is_open else {"end": self.sql.Literal(end)})
        return self.sql.SQL(text).format(column=self.sql.Identifier(self.span.column), **parts)


def replace_range(loader: PostgresLoader, span: TimeRange, batches: Iterable[pyarrow.Table], tip: Tip) -> Replaced:
    """See ``catalog.reading.ranges.ReplacesRanges``."""
    with loader._preparation() as cursor:
        state = loader._look(cursor)
        if state.target is None:
            raise error("TARGET_GONE", table=loader.table, sink=batch_text(tip), checkpoint=batch_text(tip))
        if state.difference:
            raise error("TARGET_DIFFERS", table=loader.table, difference=state.difference)
        if state.target.referenced:  # a delete may cascade
            raise error("TARGET_REFERENCED", table=loader.table)
        loader._written_as(state.target)
        statements = RangeStatements(loader._statements(), span)
        _check_newest(loader, statements, cursor, tip)
    with loader._transaction() as bulk:
        for statement in statements.create():
            bulk.execute(statements.table.text(statement))
    for rows in batches:
        if rows.num_rows:
            with loader._transaction() as bulk:
                bulk.adbc_ingest(STAGE, loader._staged(rows, tip), mode="create", temporary=True)
                for statement in (statements.stage(), statements.table.drop_stage()):
                    bulk.execute(statements.table.text(statement))
    return _exchanged(loader, statements, tip)


def _exchanged(loader: PostgresLoader, statements: RangeStatements, tip: Tip) -> Replaced:
    """Replace the rows in one transaction. Under its lock nobody writes the table, so the ledger's newest batch must
    still be ``tip``."""
    text = statements.table.text
    with loader._transaction() as bulk:
        bulk.execute(text(statements.lock()))
        _check_newest(loader, statements, bulk, tip)
        numbers = []
        for statement in (statements.delete(), statements.insert()):
            bulk.execute(text(statement))
            numbers.append(int(bulk.fetchone()[0]))
    return Replaced(*numbers)


def _check_newest(loader: PostgresLoader, statements: RangeStatements, cursor: Any, tip: Tip) -> None:
    """Check in the ledger that ``tip`` is still the newest batch of the table.

    Raises:
        UserError: BACKFILL_OVERTAKEN, after a newer batch, a reset, or the promotion of another version.
    """
    facts = loader._ledger(cursor).facts
    cursor.execute(statements.table.text(statements.ledger_rows(tip)))
    is_served = cursor.fetchone()[0] > 0
    is_newest = facts.version == loader.identity.version and facts.tip is not None and facts.tip.is_same(tip)
    if not (is_served and is_newest):
        raise error("BACKFILL_OVERTAKEN", table=loader.table, batch=batch_text(tip))
