"""What a Spark cluster cannot do is known before a query starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.project.load import compile_texts
from ds_dagster.settings import EngineSettings, Settings

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM s (id BIGINT) WITH ('store' = 'k', 'value.format' = 'json', 'topic.partitions' = 1, 'topic.replicas' = 1);
CREATE STREAM exact WITH ('store' = 'k') AS SELECT id FROM s;
CREATE STREAM least WITH ('store' = 'k', 'delivery' = 'at_least_once') AS SELECT id FROM s;
CREATE MATERIALIZED VIEW v AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
"""


@pytest.mark.parametrize(
    ("master", "conditions"),
    [
        ("", []),
        ("local[4]", []),
        ("spark://head:7077", ["CLUSTER_NEEDS_AT_LEAST_ONCE"]),
        ("local-cluster[2,1,1024]", ["CLUSTER_NEEDS_AT_LEAST_ONCE"]),
    ],
)
def test_a_transaction_of_the_driver_is_refused_on_a_cluster(
    tmp_path: Path, master: str, conditions: list[str]
) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="k", engine=EngineSettings(master=master))
    project = compile_texts([("a.sql", SQL)], settings)
    assert [problem.condition for problem in project.errors] == conditions
    assert all("k.exact" in problem.message for problem in project.errors)
