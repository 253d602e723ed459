"""Replaces the rows of a range of time in a Delta table: new rows are staged in a local file, and replace the old rows
in one commit, which rewrites the files that have rows of the range."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.ledger import Tip, batch_text
from ds_dagster.catalog.reading.ranges import NO_END, Replaced, TimeRange
from ds_dagster.errors import error
from ds_dagster.stores.delta.tables import arrow_schema, live_rows

if TYPE_CHECKING:
    import pyarrow

    from ds_dagster.stores.delta.loader import DeltaLoader

ATTEMPTS = 10
"""Most attempts while other writers commit in between."""
SHOWN = "ds.range"
"""Name of the range in the commit's metadata."""


def replace_range(loader: DeltaLoader, span: TimeRange, batches: Iterable[pyarrow.Table], tip: Tip) -> Replaced:
    """See ``catalog.reading.ranges.ReplacesRanges``."""
    loader._guarded("look at the table", lambda: _unchanged(loader, tip))
    with tempfile.TemporaryDirectory(prefix="ds-range-") as folder:
        file = Path(folder, "rows.parquet")
        inserted = _stage(loader, span, batches, tip, file)
        for _ in range(ATTEMPTS):
            deleted = loader._guarded("replace a range of rows", lambda: _exchanged(loader, span, tip, file))
            if deleted is not None:
                return Replaced(deleted, inserted)
    raise error("TARGET_BUSY", table=loader.table, epoch=tip.batch, attempts=ATTEMPTS)


def _stage(loader: DeltaLoader, span: TimeRange, batches: Iterable[pyarrow.Table], tip: Tip, file: Path) -> int:
    """Write the rows of the range into a file; gives their number."""
    import pyarrow.parquet

    schema, number = arrow_schema(loader.target.columns), 0
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for batch in batches:
            rows = live_rows(loader._staged(batch, tip), loader.target).filter(_within(span, schema))
            writer.write_table(rows)
            number += rows.num_rows
    return number


def _exchanged(loader: DeltaLoader, span: TimeRange, tip: Tip, file: Path) -> int | None:
    """Replace the rows in one commit, which needs the next version of the table; gives the number of deleted rows, None
    if another writer took that version."""
    import pyarrow.parquet
    from deltalake.exceptions import CommitFailedError

    from ds_dagster.stores.delta.loader import was_overtaken

    table = _unchanged(loader, tip)
    schema = arrow_schema(loader.target.columns)
    deleted = table.to_pyarrow_dataset().count_rows(filter=_within(span, schema))
    with pyarrow.parquet.ParquetFile(file) as staged:
        rows = pyarrow.RecordBatchReader.from_batches(schema, staged.iter_batches())
        try:
            loader.address.deltalake().write_deltalake(
                table,
                rows,
                mode="overwrite",
                predicate=_predicate(span, schema),
                commit_properties=loader._commit({}, {SHOWN: str(span)}),
            )
        except CommitFailedError as problem:
            if not was_overtaken(problem):
                raise
            return None
    return int(deleted)


def _unchanged(loader: DeltaLoader, tip: Tip) -> Any:
    """The table, whose newest batch of this job is ``tip``.

    Raises:
        UserError: TARGET_GONE; TARGET_DIFFERS; BACKFILL_OVERTAKEN, after a newer batch or a reset.
    """
    table = loader.address.table(loader.place)
    if table is None:
        raise error("TARGET_GONE", table=loader.table, sink=batch_text(tip), checkpoint=batch_text(tip))
    state = loader._look(table)
    if state.difference:
        raise error("TARGET_DIFFERS", table=loader.table, difference=state.difference)
    facts = state.facts
    if facts.version != loader.identity.version or facts.tip is None or not facts.tip.is_same(tip):
        raise error("BACKFILL_OVERTAKEN", table=loader.table, batch=batch_text(tip))
    return table


def _ends(span: TimeRange, schema: pyarrow.Schema) -> tuple[datetime, datetime | None]:
    """Begin and end as the column has them, with a time zone or in UTC without one; None: no end."""
    has_zone = schema.field(span.column).type.tz is not None
    begin, end = (moment.astimezone(timezone.utc) for moment in (span.begin, span.end))
    if not has_zone:
        begin, end = (moment.replace(tzinfo=None) for moment in (begin, end))
    return begin, None if span.end == NO_END else end


def _within(span: TimeRange, schema: pyarrow.Schema) -> Any:
    """The condition of the range for rows in Arrow; NULL is outside."""
    import pyarrow
    import pyarrow.compute as compute

    (begin, end), type_ = _ends(span, schema), schema.field(span.column).type
    condition = compute.field(span.column) >= pyarrow.scalar(begin, type_)
    return condition if end is None else condition & (compute.field(span.column) < pyarrow.scalar(end, type_))


def _predicate(span: TimeRange, schema: pyarrow.Schema) -> str:
    """The same condition for delta-rs. Its literals have the type of the column, since a SQL literal has nanoseconds,
    which do not hold every year."""
    (begin, end), type_ = _ends(span, schema), schema.field(span.column).type
    zone = "None" if type_.tz is None else f'Some("{type_.tz}")'

    def literal(moment: datetime) -> exp.Expr:
        text = moment.isoformat(timespec="microseconds")
        type_name = exp.Literal.string(f"Timestamp(Microsecond, {zone})")
        return exp.func("arrow_cast", exp.Literal.string(text), type_name)

    column = exp.column(span.column, quoted=True)
    conditions: list[exp.Expr] = [exp.GTE(this=column, expression=literal(begin))]
    conditions += [] if end is None else [exp.LT(this=column.copy(), expression=literal(end))]
    return exp.and_(*conditions).sql(dialect="postgres")
