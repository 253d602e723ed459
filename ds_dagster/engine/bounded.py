"""Rows of a query for records that it has read, computed in a Spark session of the calling process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.reading.past import Portion
from ds_dagster.catalog.reading.ranges import TimeRange
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.jars import driver_jars
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, kind_of_store, store_admin
from ds_dagster.settings import Settings
from ds_dagster.spark.queries.bounded import bounded_rows
from ds_dagster.spark.session import build_session, stderr_of_jvm

if TYPE_CHECKING:
    import pyarrow


def rows_of_portions(
    project: LoadedProject,
    query: BoundQuery,
    portions: Iterable[Portion],
    span: TimeRange,
    resolve: Resolver,
    skips: Sequence[SkippedRecord],
    session: SparkSession | None = None,
    *,
    closed: int | None = None,
) -> Iterator[pyarrow.Table]:
    """The rows of each portion, one table per portion.

    Args:
        project: with the stores.
        query: a query of :mod:`ds_dagster.plan.checks.recomputable` with one part and one source; it fills a table.
        portions: records of the source.
        span: time range of the rows; see :func:`ds_dagster.spark.queries.bounded.bounded_rows`.
        resolve: gives option values of the source's store.
        skips: records that the job skips.
        session: the caller's session; by default a new session, which ends after the last portion.
        closed: see :func:`ds_dagster.spark.queries.bounded.bounded_rows`.
    """
    scan, sink = query.scans[0], query.sink
    source, target = (project.catalog.store(relation.store) for relation in (scan.relation, sink))
    with closing(store_admin(project, source.name, resolve)) as admin:
        facts = admin.describe(scan.relation.entity)
    read = kind_of_store(project, scan.relation).read_spec(source, scan.relation, scan.reading, facts)
    write = kind_of_store(project, sink).write_spec(target, sink, query.refresh)
    with _session(project.settings, session) as spark:
        for portion in portions:
            yield bounded_rows(spark, query, read, write, resolve, portion, span, skips, closed)


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
