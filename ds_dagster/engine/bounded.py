"""Rows of a query for records between offsets, computed in a Spark session of the process that needs them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.ranges import TimeRange
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.jars import driver_jars
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, kind_of_store, store_admin
from ds_dagster.runtime.deciding.backfilling import Slice
from ds_dagster.settings import Settings
from ds_dagster.spark.queries.bounded import bounded_rows
from ds_dagster.spark.session import build_session, stderr_of_jvm

if TYPE_CHECKING:
    import pyarrow


def rows_of_slices(
    project: LoadedProject,
    query: BoundQuery,
    pieces: Iterable[Slice],
    span: TimeRange,
    resolve: Resolver,
    skips: Sequence[SkippedRecord],
    session: SparkSession | None = None,
) -> Iterator[pyarrow.Table]:
    """The rows of one slice after the other.

    Args:
        project: with the stores.
        query: without state, of one part and one source; it fills a table.
        pieces: slices of the source's topic.
        span: rows of it are computed, and those about it.
        resolve: gives option values of the source's store.
        skips: records that the job passes.
        session: of the caller; a session of its own, which ends with the last slice, by default.
    """
    scan, sink = query.scans[0], query.sink
    source, target = (project.catalog.store(relation.store) for relation in (scan.relation, sink))
    with closing(store_admin(project, source.name, resolve)) as admin:
        facts = admin.describe(scan.relation.entity)
    read = kind_of_store(project, scan.relation).read_spec(source, scan.relation, scan.reading, facts)
    write = kind_of_store(project, sink).write_spec(target, sink, query.refresh)
    with _session(project.settings, session) as spark:
        for piece in pieces:
            yield bounded_rows(spark, query, read, write, resolve, piece.offsets, span, skips)


@contextmanager
def _session(settings: Settings, session: SparkSession | None) -> Iterator[SparkSession]:
    if session is not None:
        yield session
        return
    with tempfile.TemporaryDirectory(prefix="ds-backfill-") as folder, stderr_of_jvm(Path(folder, "stderr.log")):
        spark = build_session(settings, jars=driver_jars(), app_name="ds backfill")
    try:
        yield spark
    finally:
        spark.stop()
