# ruff: noqa: E501 - statements stay on one line
"""Whatever types a sink accepts when a project is checked, it writes: every kind of store, format and part of a record
with every type of column, and what is not accepted is refused at its place with a way out."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.catalog.io_spec import SinkIdentity, open_loader
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.engine.schemas import with_schemas
from ds_dagster.local.servers import down, up
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.spark.compiler import PlanCompiler
from ds_dagster.spark.queries.batch_writers import table_rows
from ds_dagster.spark.queries.sources import PROVIDED
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.spark.records.sinks import encode_records
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.registry import KINDS
from tests import snowflake_server
from tests.avro_registry import AvroRegistry
from tests.spark.conftest import settings_in
from tests.spark.functions.calls_of_types import COLUMNS
from tests.spark.records.values_of_types import COLUMN_TYPES, value_of

ROW = {column: value_of(type_) for column, type_ in COLUMN_TYPES.items()}
NOW = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
RECORD = "key binary, value binary, timestamp timestamp, partition string, `order` string"
ALL = list(COLUMNS.values())
DECLARED = ", ".join(f"{column} {type_}" for type_, column in COLUMNS.items())
KAFKA = "'store' = 'k', 'topic.partitions' = 1, 'topic.replicas' = 1"
KINESIS = "'store' = 'ki', 'topic.shards' = 1"
RECORDS: Mapping[str, str] = {
    **{
        f"{format_} values": f"CREATE STREAM {{name}} WITH ({KAFKA}, 'value.format' = '{format_}') "
        "AS SELECT {columns}, 1 AS one FROM s;"
        for format_ in ("json", "avro", "protobuf", "json_schema")
    },
    "Kinesis values": f"CREATE STREAM {{name}} WITH ({KINESIS}, 'value.format' = 'json') AS SELECT {{columns}} FROM s;",
    **{
        f"{format_} keys": f"CREATE STREAM {{name}} WITH ({KAFKA}, 'value.format' = 'json', 'key.format' = '{format_}') "
        "AS SELECT {columns} FROM s PARTITION BY {columns};"
        for format_ in ("json", "avro", "protobuf", "json_schema")
    },
    "Kinesis keys": f"CREATE STREAM {{name}} WITH ({KINESIS}, 'value.format' = 'json', 'key.format' = 'json') "
    "AS SELECT {columns} FROM s PARTITION BY {columns};",
}
"""What is written with any number of columns → the statement."""
PARTS: Mapping[str, str] = {
    "primitive values": f"CREATE STREAM {{name}} WITH ({KAFKA}, 'value.format' = 'primitive') AS SELECT {{columns}} FROM s;",
    "primitive keys": f"CREATE STREAM {{name}} WITH ({KAFKA}, 'value.format' = 'json', 'key.format' = 'primitive') "
    "AS SELECT 1 AS one, {columns} FROM s PARTITION BY {columns};",
    "primitive keys of Kinesis": f"CREATE STREAM {{name}} WITH ({KINESIS}, 'value.format' = 'json', "
    "'key.format' = 'primitive') AS SELECT 1 AS one, {columns} FROM s PARTITION BY {columns};",
}
"""The same with one column."""
TABLES: Mapping[str, str] = {
    "SQLite": "CREATE MATERIALIZED VIEW {name} AS SELECT {columns}, COUNT(*) AS n FROM s GROUP BY {columns};",
    "Delta": "CREATE TABLE {name} WITH ('store' = 'dl') AS SELECT {columns} FROM s;",
    "Delta keys": "CREATE TABLE {name} WITH ('store' = 'dl') AS SELECT {columns}, COUNT(*) AS n FROM s GROUP BY {columns};",
    **{
        f"{format_} files": f"CREATE STREAM {{name}} WITH ('store' = 'f', 'value.format' = '{format_}') "
        "AS SELECT {columns}, 1 AS one FROM s;"
        for format_ in ("json", "csv", "parquet")
    },
}
"""The same for tables and files."""
POSTGRES = "'store' = 'pg', 'postgresql.schema.name' = 'public'"
SNOWFLAKE = f"'store' = 'sf', 'snowflake.db.name' = '{snowflake_server.DATABASE}', 'snowflake.schema.name' = 'WRITTEN'"
SERVERS: Mapping[str, str] = {
    "Postgres": f"CREATE TABLE {{name}} WITH ({POSTGRES}) AS SELECT {{columns}} FROM s;",
    "Postgres keys": f"CREATE TABLE {{name}} WITH ({POSTGRES}) AS SELECT {{columns}}, COUNT(*) AS n FROM s GROUP BY {{columns}};",
    "Postgres views": f"CREATE MATERIALIZED VIEW {{name}} WITH ({POSTGRES}) AS SELECT {{columns}}, COUNT(*) AS n FROM s GROUP BY {{columns}};",
    "Snowflake": f"CREATE TABLE {{name}} WITH ({SNOWFLAKE}) AS SELECT {{columns}} FROM s;",
    "Snowflake keys": f"CREATE TABLE {{name}} WITH ({SNOWFLAKE}) AS SELECT {{columns}}, COUNT(*) AS n FROM s GROUP BY {{columns}};",
}
"""The same for servers."""


Compiled = tuple[LoadedProject, BoundQuery]


def plain(value: PropertyValue) -> str:
    return str(value.value)


@dataclass
class Written:
    """A project whose stream ``s`` has a column of every type, and one row of it."""

    spark: SparkSession
    folder: Path
    registry: AvroRegistry
    stores: str = ""

    @property
    def source(self) -> SourceFrame:
        """The row as a record."""
        record = (None, bytearray(json.dumps(ROW).encode()), NOW, "0", "0")
        return SourceFrame(self.spark.createDataFrame([record], RECORD), PROVIDED, "m.s")

    def project(self, *statements: tuple[str, str]) -> LoadedProject:
        """With these statements, each in a file of its name."""
        sql = f"""
          CREATE SCHEMA_REGISTRY reg WITH ('type' = CONFLUENT, 'uris' = '{self.registry.url}');
          CREATE STORE m WITH ('type' = MEMORY);
          CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'nowhere:9092', 'schema_registry.name' = reg);
          CREATE STORE ki WITH ('type' = KINESIS, 'access_region' = 'us-east-1');
          CREATE STORE dl WITH ('type' = DELTA, 'uris' = '{(self.folder / "lake").as_uri()}');
          CREATE STORE f WITH ('type' = S3, 'uris' = '{(self.folder / "files").as_uri()}');
          {self.stores}
          CREATE STREAM s ({DECLARED}) WITH ('store' = 'm', 'topic' = 's', 'value.format' = 'json');"""
        return compile_texts([("sources", sql), *statements], settings_in(self.folder))

    def accepted(self, form: str) -> list[str]:
        """Columns with which a statement is accepted."""
        return list(self.queries(form))

    def queries(self, form: str) -> dict[str, Compiled]:
        """The statement with each column by itself, where it is accepted; the other types are refused with a place and
        a hint."""
        texts = [(column, form.format(name=f"x_{column}", columns=column)) for column in ALL]
        project = self.project(*texts)
        for problem in project.errors:
            assert problem.span is not None and problem.hint, problem.text()
        names = {column: f"x_{column}" for column in ALL}
        return {column: (project, project.queries[name]) for column, name in names.items() if name in project.queries}

    def query(self, form: str, columns: Sequence[str]) -> Compiled:
        """The statement with these columns."""
        text = form.format(name="written", columns=", ".join(columns))
        project = self.project(("written", text))
        assert not project.errors, "\n".join(problem.text() for problem in project.errors)
        return project, project.queries["written"]

    def frame(self, query: BoundQuery) -> DataFrame:
        """The row as the sink's relation has it."""
        source = self.source
        return PlanCompiler(self.spark, "job", lambda _: source).compile(query.parts[0].root)

    def records(self, project: LoadedProject, query: BoundQuery) -> DataFrame:
        """The parts of the record that the row becomes, by their names."""
        store = project.catalog.store(query.sink.store)
        spec = KINDS[store.kind].write_spec(store, query.sink, query.refresh)
        spec = with_schemas(spec, query.sink, lambda _used_by: plain)
        made = encode_records(self.frame(query), query.sink, spec)
        return made.select(*[sf.col(name).alias(part.split("_")[0]) for name, part in spec.record])

    def deleted(self, type_: str, key: bytes) -> DataFrame:
        """The key of a delete in a changelog whose primary key is one column of a type."""
        text = (
            f"CREATE CHANGELOG c (x {type_}, n BIGINT, PRIMARY KEY (x)) WITH ('store' = 'm', 'topic' = 'c', "
            "'value.format' = 'json'); CREATE CHANGELOG d WITH ('store' = 'm') AS SELECT x, n FROM c;"
        )
        project = self.project(("read", text))
        record = (bytearray(key), None, NOW, "0", "0")
        source = SourceFrame(self.spark.createDataFrame([record], RECORD), PROVIDED, "m.c")
        return PlanCompiler(self.spark, "job", lambda _: source).compile(project.queries["d"].parts[0].root)

    def load(self, form: str, columns: Sequence[str]) -> int:
        """Rows that a table has once the row is loaded."""
        project, query = self.query(form, columns)
        store = project.catalog.store(query.sink.store)
        spec = KINDS[store.kind].write_spec(store, query.sink, query.refresh)
        assert spec.table is not None
        loader = open_loader(spec, SinkIdentity(f"job/{form}", 1), plain)
        try:
            loader.prepare(CheckpointTip())
            loader.load(table_rows(self.frame(query), spec.table, query.sink.event_time.format).toArrow(), Tip(0))
            return loader.finish()
        finally:
            loader.close()


@pytest.fixture
def written(spark: SparkSession, tmp_path: Path) -> Iterator[Written]:
    with AvroRegistry() as registry:
        yield Written(spark, tmp_path, registry)


@dataclass(frozen=True)
class Server:
    """A server of tables: CREATE STORE, and a statement → its rows."""

    store: str
    run: Callable[[str], list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    state = tmp_path_factory.mktemp("postgres")
    try:
        addresses = up(state, only=["postgres"])
        password = Path(str(addresses.postgres_password_file)).read_text(encoding="utf-8").strip()
        address = PostgresAddress("pg", str(addresses.postgres), str(addresses.postgres_user), password, "disable")

        def run(statement: str) -> list[tuple[object, ...]]:
            with closing(address.control()) as connection, connection, connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []

        store = (
            f"CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = '{addresses.postgres}', 'postgres.sslmode' = 'disable', "
            f"'postgres.username' = '{addresses.postgres_user}', 'postgres.password' = '{password}');"
        )
        yield Server(store, run)
    finally:
        down(state)


@pytest.fixture(scope="module")
def snowflake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with (
        snowflake_server.running(tmp_path_factory.mktemp("snowflake")) as address,
        snowflake_server.sql(address) as run,
    ):
        run(f"CREATE SCHEMA {snowflake_server.DATABASE}.WRITTEN")
        store = (
            f"CREATE STORE sf WITH ('type' = SNOWFLAKE, 'uris' = '{address.url}', 'tls.disabled' = TRUE, "
            f"'snowflake.account_id' = '{address.account_id}', 'snowflake.username' = 'local', "
            "'snowflake.password' = 'local', 'snowflake.warehouse_name' = 'FAKESNOW_WAREHOUSE');"
        )
        yield Server(store, run)


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """All their rows, by halves: Spark walks through a union once more for each frame that is added to it."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return together(frames[:middle]).unionAll(together(frames[middle:]))


def shown(frame: DataFrame, column: str) -> DataFrame:
    """A column as text."""
    value = sf.hex(column) if dict(frame.dtypes)[column] == "binary" else sf.col(column).cast("string")
    return frame.select(value.alias("shown"))


@pytest.mark.parametrize("name", RECORDS)
def test_records(written: Written, name: str) -> None:
    columns = written.accepted(RECORDS[name])
    (record,) = written.records(*written.query(RECORDS[name], columns)).collect()
    assert record["key" if "keys" in name else "value"]


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_one_column(written: Written, name: str) -> None:
    records = [written.records(*compiled) for compiled in written.queries(PARTS[name]).values()]
    found = together(records).collect()
    assert found and all(record["key" if "keys" in name else "value"] for record in found)


def test_keys_of_one_column_are_read_as_they_are_written(written: Written) -> None:
    form = RECORDS["json keys"].replace("{columns}", "{columns} AS x").replace("BY {columns} AS x", "BY x")
    types = {column: type_ for type_, column in COLUMNS.items()}
    queries = written.queries(form)
    keys = together([written.records(*compiled) for compiled in queries.values()]).collect()
    read = [written.deleted(types[column], key["key"]) for column, key in zip(queries, keys, strict=True)]
    sent = [written.frame(query) for _, query in queries.values()]
    found, expected = (
        [row.shown for row in together([shown(frame, "x") for frame in frames]).collect()] for frames in (read, sent)
    )
    assert found == expected


@pytest.mark.parametrize("name", TABLES)
def test_tables(written: Written, name: str) -> None:
    columns = written.accepted(TABLES[name])
    assert written.load(TABLES[name], columns) == 1


@pytest.mark.servers
@pytest.mark.parametrize("name", SERVERS)
def test_tables_of_servers(written: Written, request: pytest.FixtureRequest, name: str) -> None:
    kind = name.split()[0]
    server: Server = request.getfixturevalue(kind.lower())
    written.stores = server.store
    columns = written.accepted(SERVERS[name])
    assert written.load(SERVERS[name], columns) == 1
    table = "written" if kind == "Postgres" else f"{snowflake_server.DATABASE}.WRITTEN.WRITTEN"
    (row,) = server.run(f"SELECT {', '.join(columns)} FROM {table}")
    assert None not in row
    server.run(f"DROP TABLE {table}")
