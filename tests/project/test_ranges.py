"""Which sources can be read again for a backfill: ``ds check`` warns above other tables, as the command refuses."""

from __future__ import annotations

from pathlib import Path

from ds_dagster.project.load import compile_texts
from ds_dagster.project.ranges import why_no_ranges
from ds_dagster.settings import Settings

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STORE s WITH ('type' = KINESIS, 'access_region' = 'us-east-2');
CREATE STORE f WITH ('type' = S3, 'uris' = 'file:///data/files');
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u',
  'postgres.password' = '${PASSWORD:-none}');
CREATE STREAM of_k (at TIMESTAMP(3), id BIGINT) WITH ('store' = 'k', 'value.format' = 'json');
CREATE STREAM of_s (at TIMESTAMP(3), id BIGINT) WITH ('store' = 's', 'value.format' = 'json');
CREATE STREAM of_f (at TIMESTAMP(3), id BIGINT) WITH ('store' = 'f', 'value.format' = 'parquet');
CREATE STREAM of_pg (ts_ms BIGINT, "after" STRUCT<id BIGINT>) WITH ('store' = 'pg', 'value.format' = 'json',
  'postgresql.table.name' = 'orders');
CREATE CHANGELOG rows_of_pg (at TIMESTAMP(3), id BIGINT, PRIMARY KEY (id)) WITH ('store' = 'pg',
  'postgresql.table.name' = 'orders');
"""
TABLE = """
-- @partitions daily from 2026-05-01 by at
CREATE TABLE t_{0} WITH ('store' = 'pg', 'refresh.mode' = 'incremental') AS SELECT {1} FROM {0};
"""
COLUMNS = {
    "of_k": "at, id",
    "of_f": "at, id",
    "of_s": "at, id",
    "of_pg": 'TO_TIMESTAMP_LTZ(ts_ms, 3) AS at, "after"->id AS id',
    "rows_of_pg": "at, id",
}
REASONS = {
    "of_s": "nobody can say which records are gone; copy the stream",
    "of_pg": "a replication slot keeps no changes that were read; `ds reset` begins again with a snapshot",
    "rows_of_pg": "its rows are updated by key",
}


def test_sources_whose_records_are_not_read_again_are_named(tmp_path: Path) -> None:
    text = SQL + "".join(TABLE.format(source, columns) for source, columns in COLUMNS.items())
    project = compile_texts([("a.sql", text)], Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="k"))
    assert not project.errors, [problem.text() for problem in project.errors]
    warnings = [problem.message for problem in project.diagnostics if problem.condition == "BACKFILL_REFUSED"]
    for source in COLUMNS:
        reason = why_no_ranges(project.catalog, project.queries[f"t_{source}"])
        assert REASONS.get(source, "") in reason and bool(reason) == (source in REASONS), reason
        assert len([warning for warning in warnings if f" t_{source} " in warning and reason in warning]) == bool(
            reason
        )
    assert len(warnings) == len(REASONS)
