"""What may be declared over changes of Postgres tables; no server is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.deciding.changes import recompiled
from ds_dagster.runtime.deciding.spec import job_spec
from ds_dagster.settings import Settings
from ds_dagster.spark.queries.progress import read_progress
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.postgres.entities import PostgresEntities

STORES = """
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h:5432/d', 'postgres.username' = 'u');
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'h:9092', 'tls.disabled' = TRUE);
"""


def compiled(sql: str) -> LoadedProject:
    root = Path("/nowhere")
    return compile_texts([("t.sql", STORES + sql)], Settings(root=root, sql=root, state=root / ".ds", store="k"))


def stream(columns: str, more: str = "") -> str:
    return f"CREATE STREAM t ({columns}) WITH ('store' = 'pg', 'value.format' = 'json'{more});"


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        (stream("id BIGINT"), "CDC_COLUMN_UNKNOWN"),
        (stream("op VARCHAR, source STRUCT<file VARCHAR>"), "CDC_COLUMN_UNKNOWN"),
        (stream("op BIGINT"), "CDC_COLUMN_TYPE"),
        (stream("before BIGINT"), "CDC_COLUMN_TYPE"),
        (stream("after STRUCT<a STRUCT<b BIGINT>>"), "CDC_COLUMN_TYPE"),
        (stream("source STRUCT<lsn VARCHAR>"), "CDC_COLUMN_TYPE"),
        (stream("system VARCHAR"), "CDC_COLUMN_TYPE"),
        (stream("after STRUCT<a BIGINT>", ", 'postgresql.cdc.table.list' = 'a.b,c.d'"), "CDC_TABLES_UNCLEAR"),
        (stream("after BYTES", ", 'postgresql.cdc.table.list' = 'a.b, a.b'"), "CDC_TABLES_UNCLEAR"),
        (
            stream("after BYTES", ", 'postgresql.cdc.table.list' = 'a.b', 'postgresql.table.name' = 'b'"),
            "CDC_TABLES_UNCLEAR",
        ),
        (
            "CREATE CHANGELOG c (id BIGINT, PRIMARY KEY(id)) "
            "WITH ('store' = 'pg', 'postgresql.cdc.table.list' = 'a.b,c.d');",
            "CDC_TABLES_UNCLEAR",
        ),
        (
            "CREATE CHANGELOG c (id BIGINT, m MAP<VARCHAR, BIGINT>, PRIMARY KEY(id)) WITH ('store'='pg');",
            "CDC_COLUMN_TYPE",
        ),
        ("CREATE STREAM c WITH ('store' = 'pg');", "COLUMNS_MISSING"),
        ("CREATE CHANGELOG c (id BIGINT) WITH ('store' = 'pg');", "PRIMARY_KEY_MISSING"),
        (stream("op VARCHAR", ", 'topic.partitions' = 1"), "PROPERTY_OF_OTHER_STORE"),
        (stream("op VARCHAR", ", 'key.format' = 'json'"), "PROPERTY_OF_OTHER_STORE"),
        (stream("op VARCHAR").replace("'json'", "'primitive'"), "PROPERTY_INVALID"),
        (
            stream("op VARCHAR") + "CREATE TABLE x WITH ('store' = 'pg', 'value.format' = 'json') AS SELECT op FROM t;",
            "CDC_SOURCE_ONLY",
        ),
        (stream("op VARCHAR") + "CREATE STREAM x WITH ('store' = 'pg') AS SELECT op FROM t;", "STORE_CANNOT_HOLD"),
    ],
)
def test_refusals(sql: str, condition: str) -> None:
    found = [diagnostic.condition for diagnostic in compiled(sql).errors if not diagnostic.caused_by]
    assert found == [condition], [diagnostic.text() for diagnostic in compiled(sql).errors]


def test_slots_and_table_lists_are_part_of_a_querys_meaning() -> None:
    sink = "CREATE TABLE x WITH ('store' = 'pg') AS SELECT op FROM t"
    texts = {
        "plain": stream("op VARCHAR") + sink + ";",
        "slot": stream("op VARCHAR") + sink + " WITH ('postgresql.slot.name' = 's1');",
        "of relation": stream("op VARCHAR", ", 'postgresql.slot.name' = 's1'") + sink + ";",
        "list": stream("op VARCHAR", ", 'postgresql.cdc.table.list' = 'a.b'") + sink + ";",
    }
    found = {name: compiled(sql) for name, sql in texts.items()}
    assert not [d.text() for project in found.values() for d in project.errors]
    queries = {name: project.queries["x"] for name, project in found.items()}
    assert queries["slot"].fingerprint == queries["of relation"].fingerprint
    assert len({query.fingerprint for query in queries.values()}) == 3
    assert len({query.state_signature for query in queries.values()}) == 3
    assert queries["slot"].scans[0].slot == "s1"
    assert queries["list"].scans[0].relation.entity == "a.b"


def test_a_stored_definition_compiles_to_the_same_query() -> None:
    project = compiled(
        stream("op VARCHAR", ", 'postgresql.cdc.table.list' = 'a.b', 'starting.position' = latest")
        + "CREATE CHANGELOG c (id BIGINT, v VARCHAR, PRIMARY KEY(id)) "
        "WITH ('store' = 'pg', 'postgresql.schema.name' = 's', 'postgresql.slot.name' = 's1');"
        "CREATE TABLE x WITH ('store' = 'pg') AS SELECT op FROM t WITH ('postgresql.slot.name' = 's2');"
        "CREATE MATERIALIZED VIEW y WITH ('store' = 'pg') AS SELECT id, v FROM c;"
    )
    assert not project.errors, [problem.text() for problem in project.errors]
    for name in ("x", "y"):
        query = project.queries[name]
        _, again = recompiled(job_spec(project, query), project.settings)
        assert again.fingerprint == query.fingerprint and again.state_signature == query.state_signature


TABLES = (
    (stream("op VARCHAR, after STRUCT<id BIGINT, v VARCHAR>"), {"public.t": ["id", "v"]}),
    (stream("after BYTES", ", 'postgresql.cdc.table.list' = 'a.b,c'"), {"a.b": [], "public.c": []}),
    (
        "CREATE CHANGELOG t (id BIGINT, v VARCHAR, PRIMARY KEY(id)) "
        "WITH ('store' = 'pg', 'postgresql.schema.name' = 's', 'postgresql.table.name' = 'x');",
        {"s.x": ["id", "v"]},
    ),
    (stream("op VARCHAR") + "CREATE TABLE u WITH ('store' = 'pg') AS SELECT op FROM t;", {}),
)


@pytest.mark.parametrize(("sql", "tables"), TABLES)
def test_the_columns_that_are_declared_of_each_table(sql: str, tables: dict[str, list[str]]) -> None:
    relation = list(compiled(sql).catalog.relations.values())[-1]
    read = PostgresEntities(PostgresAddress("pg", "postgresql://h/d")).tables_read(relation)
    assert {table: [column.name for column in columns] for table, columns in read.items()} == tables


def test_what_a_source_tells_of_itself_stands_in_its_progress() -> None:
    report = {"0": {"complete_until": 5, "millis_behind": 0, "lag_bytes": 7, "wal_status": "reserved"}}
    source = {"name": "t", "endOffset": {"s.t": {"0": {"lsn": "0/1"}}}, "latestOffset": report, "numInputRows": 1}
    batch = {"batchId": 1, "timestamp": "2026-01-01T00:00:00.000Z", "sources": [source]}
    (found,) = read_progress(batch).sources
    assert dict(found.facts) == {"lag_bytes": 7, "wal_status": "reserved"} and found.lag_records == 0
    kinesis = {"s1": {"millis_behind": 0}, "s2": {"millis_behind": 5}}
    (found,) = read_progress({**batch, "sources": [{**source, "latestOffset": kinesis}]}).sources
    assert not found.facts
