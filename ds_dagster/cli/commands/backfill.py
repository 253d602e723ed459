"""``ds backfill``: compute the rows of a range of time again, and let them take the place of those in the table."""

from __future__ import annotations

import getpass
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from ds_dagster.catalog.io_spec import SinkIdentity, open_loader
from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.ranges import Replaced, ReplacesRanges, TimeRange
from ds_dagster.catalog.reading.extent import TellsExtents
from ds_dagster.catalog.reading.skip import skips_of
from ds_dagster.cli.commands.preview import Duration
from ds_dagster.cli.history import note_in_history
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of
from ds_dagster.cli.sink_ends import sink_ends
from ds_dagster.errors import error
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, kind_of_store, load_project, store_admin
from ds_dagster.questions.connecting import resolver
from ds_dagster.questions.relations import resolve_relation
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.backfilling import (
    Loaded,
    Slice,
    check_recomputable,
    check_topic,
    offsets_to_read,
    range_column,
    slices,
)

AT_ONCE = 200_000
"""Records of one slice."""
PACE_SECONDS = 5.0
"""Records of a slice take at least this long where a rate is given."""


class Moment(click.ParamType[datetime]):
    """A date, or a date and time, in UTC unless an offset is written."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Aware."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
            return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a valid moment: write 2024-05-01 or 2024-05-01T12:00:00+02:00", param, ctx)


@click.command("backfill")
@click.argument("relation")
@click.option("--from", "begin", type=Moment(), required=True, help="First moment of the range, in UTC.")
@click.option("--to", "end", type=Moment(), help="End of the range, which is not in it (default: now).")
@click.option("--by", "column", default="", help="Column of the table (default: the only one of a TIMESTAMP type).")
@click.option("--lateness", type=Duration(), help="How far a record's own time is from the column's at most: 1h.")
@click.option("--rate", type=click.IntRange(min=1), help="Records a second at most.")
@click.option("--dry-run", is_flag=True, help="Show what would be read.")
@project_option
@json_option
def backfill_command(
    relation: str,
    begin: datetime,
    end: datetime | None,
    column: str,
    lateness: int | None,
    rate: int | None,
    dry_run: bool,
    project: Path | None,
    as_json: bool,
) -> int:
    """Compute the rows of table RELATION for a range of time again, with its statement of today.

    The records of its source are read again, up to where the table has them; the rows whose --by column is in the range
    are deleted and the new ones inserted in one transaction. A run that is killed changes nothing; run it again.
    """
    settings = settings_of(project, quiet=as_json)
    loaded, control = load_project(settings.root, settings=settings), Control.open(settings)
    target = resolve_relation(loaded, relation.lower())
    query = next((q for q in loaded.queries.values() if target.name in {s.name for s in q.sinks}), None)
    if query is None:
        raise error("BACKFILL_REFUSED", name=relation, reason="no query of the project fills it")
    until = end or datetime.fromtimestamp(control.clock.now(), timezone.utc)
    if begin >= until:
        raise click.UsageError("--from is not before --to")
    backfill = Backfill(loaded, control, query, TimeRange(range_column(query, column), begin, until), lateness, rate)
    whole = backfill.planned()
    if not as_json:
        note(f"{whole.records:,} records of {len(whole.offsets)} partitions are read again")
    replaced = None if dry_run else backfill.carried_out(whole)
    if as_json:
        outcome = None if replaced is None else {"deleted": replaced.deleted, "inserted": replaced.inserted}
        emit_json(
            {"relation": str(target.name), "column": backfill.span.column, "records": whole.records, "rows": outcome}
        )
    elif replaced is not None:
        note(f"{replaced.deleted:,} rows of {query.name} are replaced by {replaced.inserted:,}")
    return 0


@dataclass(slots=True)
class Backfill:
    """One range of one table.

    Attributes:
        lateness: seconds, see ``offsets_to_read``; None if unknown.
        rate: records a second; None: as fast as possible.
    """

    project: LoadedProject
    control: Control
    query: BoundQuery
    span: TimeRange
    lateness: int | None
    rate: int | None
    _tip: Tip = field(init=False)

    def planned(self) -> Slice:
        """What is read again.

        Raises:
            UserError: BACKFILL_REFUSED, BACKFILL_RECORDS_GONE. DsError: of the stores.
        """
        scan = check_recomputable(self.query)
        loaded = self._loaded(scan)
        if not isinstance(self._loader(), ReplacesRanges):
            raise self._refused(f"store {self.query.sink.store} does not replace ranges of rows in one transaction")
        begin = round(self.span.begin.timestamp() * 1000)
        late = None if self.lateness is None else self.lateness * 1000
        since = None if late is None else max(0, begin - late)
        with closing(store_admin(self.project, scan.relation.store, self._resolve(scan.relation.store))) as admin:
            facts, operations = admin.describe(scan.relation.entity), admin.operations()
            check_topic(self.query, facts, loaded.identity)
            if not isinstance(operations, TellsExtents):
                raise self._refused(f"records of store {scan.relation.store} have no numbers to begin and end at")
            extents = operations.extents(scan.relation.entity, since)
        is_stamped = facts is not None and facts.record_time == "broker"
        self._tip = loaded.tip
        return offsets_to_read(self.query, extents, loaded.ends, begin, late, is_stamped=is_stamped)

    def carried_out(self, whole: Slice) -> Replaced:
        """Replace the rows.

        Raises:
            UserError: BACKFILL_OVERTAKEN. DsError: of the stores, of Spark.
        """
        loader = self._loader()
        assert isinstance(loader, ReplacesRanges)
        replaced = loader.replace_range(self.span, self._rows(whole), self._tip)
        what = f"backfill of {self.span.column} from {self.span.begin.isoformat()} to {self.span.end.isoformat()}"
        what += f": {replaced.inserted} rows instead of {replaced.deleted}"
        note_in_history(self.control, [self.query.name], what, f"ds ({getpass.getuser()})", self.control.clock.now())
        return replaced

    def _rows(self, whole: Slice) -> Iterator[Any]:
        """Slice by slice, no faster than the rate."""
        from ds_dagster.jars import driver_jars
        from ds_dagster.spark.queries.bounded import bounded_rows
        from ds_dagster.spark.session import build_session, stderr_of_jvm

        scan, sink = self.query.scans[0], self.query.sink
        source, target = (self.project.catalog.store(r.store) for r in (scan.relation, sink))
        with closing(store_admin(self.project, source.name, self._resolve(source.name))) as admin:
            facts = admin.describe(scan.relation.entity)
        read = kind_of_store(self.project, scan.relation).read_spec(source, scan.relation, scan.reading, facts)
        write = kind_of_store(self.project, sink).write_spec(target, sink, self.query.refresh)
        skips = skips_of(self.control.running().jobs[self.query.name].skips)
        with tempfile.TemporaryDirectory(prefix="ds-backfill-") as folder, stderr_of_jvm(Path(folder, "stderr.log")):
            spark = build_session(self.project.settings, jars=driver_jars(), app_name="ds backfill")
        try:
            began, records = self.control.clock.monotonic(), 0
            for piece in slices(whole, self._at_once):
                resolve = self._resolve(source.name)
                yield bounded_rows(spark, self.query, read, write, resolve, piece.offsets, self.span, skips)
                records += piece.records
                self._wait(began, records)
        finally:
            spark.stop()

    @property
    def _at_once(self) -> int:
        return AT_ONCE if self.rate is None else max(1, min(AT_ONCE, round(self.rate * PACE_SECONDS)))

    def _wait(self, began: float, records: int) -> None:
        if self.rate is not None:
            left = began + records / self.rate - self.control.clock.monotonic()
            self.control.clock.sleep(max(0.0, left))

    def _loaded(self, scan: Scan) -> Loaded:
        if not self.control.journal.exists():
            raise self._refused("nothing was loaded yet")
        (end,) = sink_ends(self.project, self.query, self._identity)
        return Loaded.of(self.query, scan, end.tip, end.unknown)

    def _loader(self) -> Any:
        sink = self.query.sink
        write = kind_of_store(self.project, sink).write_spec(
            self.project.catalog.store(sink.store), sink, self.query.refresh
        )
        if write.kind != "batch":
            raise self._refused(f"store {sink.store} appends records")
        return open_loader(write, self._identity, self._resolve(sink.store))

    @property
    def _identity(self) -> SinkIdentity:
        status = self.control.status(self.query.name)
        return self.control.journal.identity().sink(status.writes_as, status.checkpoint_version)

    def _resolve(self, store: str) -> Any:
        return resolver(self.project.settings, store)

    def _refused(self, reason: str) -> Exception:
        return error("BACKFILL_REFUSED", span=self.query.sink.span, name=self.query.name, reason=reason)
