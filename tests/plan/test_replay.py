"""What a reset does to rows that are written already: a table of cases by kind of sink."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.plan.query import BoundQuery
from ds_dagster.plan.replay import Doubled, effect
from ds_dagster.project import Project, compile_texts
from ds_dagster.runtime.changes import doubled_in
from ds_dagster.settings import Settings

STORES = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u',
  'postgres.password' = '${PASSWORD:-none}');
CREATE STREAM s (id BIGINT, name VARCHAR) WITH ('value.format' = 'json');
CREATE STREAM filled (id BIGINT) WITH ('value.format' = 'json');
CREATE CHANGELOG latest (id BIGINT, name VARCHAR, PRIMARY KEY (id)) WITH ('value.format' = 'json');
CREATE TABLE shared (id BIGINT) WITH ('store' = 'pg');
CREATE STREAM changes (op VARCHAR) WITH ('store' = 'pg', 'value.format' = 'json');
"""
NOW = "s WITH ('starting.position' = 'latest')"
CASES = (
    ("added", True, "CREATE STREAM q AS SELECT id FROM s;"),
    ("added", True, "INSERT INTO filled SELECT id FROM s QUERY WITH ('query.name' = 'q');"),
    ("added", False, f"CREATE STREAM q AS SELECT id FROM {NOW};"),
    ("added", True, f"CREATE STREAM q AS SELECT s.id FROM {NOW} JOIN filled WITHIN 1 MINUTE ON s.id = filled.id;"),
    ("added", True, "CREATE STREAM q AS SELECT op FROM changes WITH ('starting.position' = 'latest');"),
    ("updated", False, "CREATE CHANGELOG q AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"),
    (
        "updated",
        False,
        "INSERT INTO latest SELECT id, MAX(name) AS name FROM s GROUP BY id QUERY WITH ('query.name' = 'q');",
    ),
    ("replaced", False, "CREATE MATERIALIZED VIEW q AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"),
    ("replaced", False, "CREATE MATERIALIZED VIEW q AS SELECT id FROM s;"),
    ("replaced", False, "CREATE TABLE q WITH ('store' = 'pg') AS SELECT id FROM s;"),
    ("replaced", False, "CREATE TABLE q WITH ('store' = 'pg', 'refresh.mode' = 'full') AS SELECT id FROM s;"),
    ("replaced", False, "CREATE TABLE q WITH ('store' = 'pg', 'refresh.mode' = 'incremental') AS SELECT id FROM s;"),
    ("added", True, "INSERT INTO shared SELECT id FROM s QUERY WITH ('query.name' = 'q');"),
)
CHAIN = """
CREATE STREAM q AS SELECT id FROM s;
CREATE STREAM behind AS SELECT id FROM q;
CREATE MATERIALIZED VIEW counted AS SELECT id, COUNT(*) AS n FROM behind GROUP BY id;
CREATE MATERIALIZED VIEW beside AS SELECT id FROM s;
"""


def compiled(folder: Path, sql: str) -> tuple[Project, BoundQuery]:
    settings = Settings(root=folder, sql=folder, state=folder, store="m")
    made = compile_texts([("a.sql", STORES + sql)], settings)
    assert not made.errors, made.errors
    return made, made.queries["q"]


@pytest.mark.parametrize(("expected", "doubles", "sql"), CASES)
def test_effect(expected: str, doubles: bool, sql: str, tmp_path: Path) -> None:
    project, query = compiled(tmp_path, sql)
    assert effect(query, query.sink) == expected
    found = doubled_in(project, query)
    assert found.sinks == ((str(query.sink.name),) if doubles else ())


def test_readers_are_named_through_the_whole_chain(tmp_path: Path) -> None:
    project, query = compiled(tmp_path, CHAIN)
    found = doubled_in(project, query)
    assert found == Doubled((str(query.sink.name),), ("behind", "counted"))
