"""Tables in memory that a query of a case looks up, written into a file, since Spark reads them in another process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ds_dagster.catalog.io_spec import TableRead
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.stores.memory.kind import READER
from ds_dagster.stores.memory.loader import table_rows


@dataclass(frozen=True, slots=True)
class LookedUp:
    """One table of a query: its scan, the place of its rows in memory (store, entity), the file for Spark."""

    scan: StaticScan
    place: tuple[str, str]
    file: Path

    @property
    def spec(self) -> TableRead:
        """The spec with which Spark reads the file."""
        options = {"file": PropertyValue(str(self.file))}
        return TableRead(READER, options, self.place, ".".join(self.place))

    def write(self) -> None:
        """Write the present rows into the file, which is replaced atomically."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructField, StructType

        from ds_dagster.spark.records.typemap import to_spark

        columns = self.scan.relation.columns
        schema = to_arrow_schema(StructType([StructField(c.name, to_spark(c.type)) for c in columns]), timezone="UTC")
        rows = pa.Table.from_pylist(table_rows(*self.place), schema)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        written = self.file.with_suffix(".new")
        with pa.ipc.new_file(written, schema) as out:
            out.write_table(rows)
        written.replace(self.file)
