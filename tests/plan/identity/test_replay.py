"""What a reset does to rows that are written already: a table of cases by kind of sink."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from ds_dagster.errors import UserError
from ds_dagster.plan.identity.replay import Doubled, effect
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.deciding.changes import check_consent, doubled_in, emptied_by
from ds_dagster.runtime.status import Consent
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


def compiled(folder: Path, sql: str) -> tuple[LoadedProject, BoundQuery]:
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


LOGGED = "s WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG')"
IN_KAFKA = "q WITH ('store' = 'kf', 'topic.partitions' = 1, 'topic.replicas' = 1) AS"
REFUSED = (
    ("from_now", "RESET_NOT_FROM_NOW", "replication slot of changes", "CREATE STREAM q AS SELECT op FROM changes;"),
    (
        "from_now",
        "RESET_NOT_FROM_NOW",
        "where the last one ended",
        "CREATE TABLE q WITH ('store' = 'pg', 'refresh.mode' = 'incremental') AS SELECT id FROM s;",
    ),
    (
        "empty",
        "RESET_NOT_EMPTY",
        "cannot delete the records",
        "CREATE STREAM q WITH ('store' = 'k', 'topic.shards' = 1) AS SELECT id FROM s;",
    ),
    (
        "empty",
        "RESET_NOT_EMPTY",
        "its statement declares it",
        """CREATE STREAM theirs (id BIGINT) WITH ('store' = 'kf', 'value.format' = 'json');
        INSERT INTO theirs SELECT id FROM s QUERY WITH ('query.name' = 'q');""",
    ),
    (
        "empty",
        "RESET_NOT_EMPTY",
        "more writes it too",
        f"CREATE STREAM {IN_KAFKA} SELECT id FROM s;"
        " INSERT INTO q SELECT id FROM s QUERY WITH ('query.name' = 'more');",
    ),
    ("empty", "RESET_NOT_EMPTY", "behind has read its rows", CHAIN.replace("q AS", IN_KAFKA, 1)),
    (
        "empty",
        "RESET_NOT_EMPTY",
        "compacted",
        f"CREATE CHANGELOG {IN_KAFKA} SELECT id, COUNT(*) AS n FROM s GROUP BY id;",
    ),
)
OTHERS = """CREATE STORE k WITH ('type' = KINESIS, 'uris' = 'http://127.0.0.1:1', 'kinesis.region' = 'eu-west-1');
CREATE STORE kf WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
"""


@pytest.mark.parametrize(("consent", "condition", "reason", "sql"), REFUSED)
def test_a_reset_that_cannot_begin_as_asked_is_refused(
    tmp_path: Path, consent: Consent, condition: str, reason: str, sql: str
) -> None:
    project, query = compiled(tmp_path, OTHERS + sql)
    with pytest.raises(UserError, match=reason) as refused:
        check_consent(project, query, [consent])
    assert refused.value.condition == condition


@pytest.mark.parametrize("consent", sorted({*get_args(Consent)} - {"partial"}))
def test_a_reset_that_doubles_needs_a_consent_of_a_reset(tmp_path: Path, consent: Consent) -> None:
    project, query = compiled(tmp_path, OTHERS + f"CREATE STREAM {IN_KAFKA} SELECT id FROM s;")
    check_consent(project, query, [consent])
    with pytest.raises(UserError) as refused:
        check_consent(project, query, ["partial"])
    assert refused.value.condition == "RESET_WOULD_DOUBLE"
    assert refused.value.message.endswith("downstream: nothing in this project")


def test_the_rows_of_a_log_are_doubled_like_those_of_a_stream(tmp_path: Path) -> None:
    sql = f"CREATE MATERIALIZED VIEW q AS SELECT id FROM {LOGGED};"
    project, query = compiled(tmp_path, sql)
    assert [str(log.name) for log in query.logs] == list(doubled_in(project, query).sinks)
    assert [target.entity for target in emptied_by(query)] == [query.logs[0].entity]
    project, query = compiled(tmp_path, sql.replace("IGNORE_AND_LOG", "IGNORE"))
    assert not doubled_in(project, query)
