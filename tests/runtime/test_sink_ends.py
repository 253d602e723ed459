"""Which sources may not give again what they gave once: a sink that lost its end is not filled from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.project.load import compile_texts
from ds_dagster.runtime.sink_ends import forgotten
from ds_dagster.settings import Settings

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STORE ks WITH ('type' = KINESIS, 'access_region' = 'us-east-2', 'uris' = 'http://127.0.0.1:1');
CREATE STORE lake WITH ('type' = S3, 'uris' = 's3://bucket/lake', 'access_region' = 'us-east-2');
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u',
  'postgres.password' = '${PASSWORD:-none}');
CREATE STREAM topic (id BIGINT) WITH ('store' = 'k', 'value.format' = 'json', 'topic.partitions' = 1,
  'topic.replicas' = 1);
CREATE STREAM shards (id BIGINT) WITH ('store' = 'ks', 'value.format' = 'json', 'topic.shards' = 1);
CREATE STREAM files (id BIGINT) WITH ('store' = 'lake', 'value.format' = 'json');
CREATE CHANGELOG changes (id BIGINT, PRIMARY KEY (id)) WITH ('store' = 'pg');
CREATE MATERIALIZED VIEW of_topic AS SELECT id FROM topic;
CREATE MATERIALIZED VIEW of_shards AS SELECT id FROM shards;
CREATE MATERIALIZED VIEW of_files AS SELECT id FROM files;
CREATE MATERIALIZED VIEW of_changes AS SELECT id FROM changes;
CREATE MATERIALIZED VIEW of_losses AS SELECT id FROM topic WITH ('source.data.loss' = 'skip');
"""


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("of_topic", ""),
        ("of_shards", ""),
        ("of_files", "lake.files may not have everything any more: files may be removed once they were read"),
        ("of_changes", "a replication slot drops changes that were read"),
        ("of_losses", "it skips records that are gone"),
    ],
)
def test_what_may_be_gone_is_named(tmp_path: Path, query: str, reason: str) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="k")
    project = compile_texts([("a.sql", SQL)], settings)
    assert not project.errors, [problem.text() for problem in project.errors]
    found = forgotten(project, project.queries[query])
    assert reason in found and bool(found) == bool(reason)
