"""Tables that a stream is joined with: a batch source whose rows come from a store's reader as Arrow batches.

Spark plans a batch source again for every batch of a query, so each batch sees the table's current rows. One task reads
them in a Python process, which caches them for ``lookup.cache.millis``. Spark's Python processes share nothing, so one
of them may see newer rows than another.
"""

# ruff: noqa: ARG002 -- names and arguments of these methods are Spark's
from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from importlib import import_module

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from ds_dagster.catalog.io_spec import Resolver, TableRead
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.spark.crossing import crosses
from ds_dagster.spark.queries.sources import register_provider, resolved
from ds_dagster.spark.records.typemap import to_spark

FORMAT = "ds_lookup"
_KEPT: dict[str, tuple[float, list[pa.RecordBatch]]] = {}
"""Cache of the Python process: hash of the options → time of the read (monotonic seconds) and rows."""


def lookup_frame(spark: SparkSession, scan: StaticScan, spec: TableRead, resolve: Resolver) -> DataFrame:
    """The rows of a table; Spark sends all of them to every task (broadcast).

    Args:
        spark: the job's session.
        scan: names the columns, and how long rows may be cached.
        spec: the store's reader, path and options.
        resolve: gives option values.
    """
    register_provider(spark, f"{__name__}:LookupSource")
    columns = [(column.name, str(column.type)) for column in scan.read_columns]
    options = {
        "reader": spec.reader,
        "path": json.dumps(spec.path),
        "columns": json.dumps(columns),
        "schema": StructType([StructField(c.name, to_spark(c.type)) for c in scan.read_columns]).json(),
        "cache": str(scan.cache_millis),
        **{f"of.{name}": value for name, value in resolved(spec.options, resolve).items()},
    }
    frame = spark.read.format(FORMAT).options(**options).load()
    named = [sf.col(f"`{column.name}`").alias(scan.field_name(column.name)) for column in scan.read_columns]
    return sf.broadcast(frame.select(*named))


@crosses
class LookupSource(DataSource):
    """``ds_lookup``: see :func:`lookup_frame`, which sets its options."""

    @classmethod
    def name(cls) -> str:
        """Name for ``spark.read.format``."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns to read."""
        return StructType.fromJson(json.loads(self.options["schema"]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads all rows in one task."""
        return LookupReader(dict(self.options), schema)


@crosses
class LookupReader(DataSourceReader):
    """Rows of one table."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows from the cache if they are young enough, else read from the store."""
        key = hashlib.sha256(json.dumps(sorted(self._options.items())).encode()).hexdigest()
        cached = _KEPT.get(key)
        millis = int(self._options["cache"])
        if cached is None or not millis or time.monotonic() - cached[0] > millis / 1000:
            cached = (time.monotonic(), list(self._rows()))
            if millis:
                _KEPT[key] = cached
        return iter(cached[1])

    def _rows(self) -> Iterator[pa.RecordBatch]:
        module, _, function = self._options["reader"].partition(":")
        options = {name.removeprefix("of."): value for name, value in self._options.items() if name.startswith("of.")}
        columns = tuple((name, type_) for name, type_ in json.loads(self._options["columns"]))
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        read = getattr(import_module(module), function)
        for batch in read(options, tuple(json.loads(self._options["path"])), columns):
            yield from pa.Table.from_batches([batch]).cast(wanted).to_batches()
