# ruff: noqa: E501 - a form stands on one line
"""Every statement form of the dialect is known: it comes back as written, is a command of the shell, or is refused by a
condition that a fixture or case shows. None is answered with a syntax error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.conditions import CONDITIONS
from ds_dagster.errors import DsError
from ds_dagster.sql import parse_statement, print_statement
from ds_dagster.sql.command_script import parse_commands
from ds_dagster.sql.commands import Command
from tests.sql.grammar.test_identity import meaning

TESTS = Path(__file__).parents[2]

INFRASTRUCTURE = """
CREATE STORE s WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
UPDATE STORE s WITH ('uris' = 'localhost:9093');
DROP STORE s;
CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = 'http://localhost:8081');
UPDATE SCHEMA_REGISTRY r WITH ('uris' = 'http://localhost:8082');
DROP SCHEMA_REGISTRY r;
CREATE DATABASE d;
CREATE DATABASE IF NOT EXISTS d;
DROP DATABASE d;
CREATE SCHEMA raw IN DATABASE d;
DROP SCHEMA d.raw;
CREATE ENTITY e;
CREATE ENTITY "a"."b"."c" IN STORE s WITH ('kafka.partitions' = 3);
UPDATE ENTITY e IN STORE s WITH ('kafka.partitions' = 6);
DROP ENTITY e IN STORE s;
INSERT INTO ENTITY e IN STORE s VALUE('{"a": 1}') WITH ('key' = 'k');
CREATE DESCRIPTOR_SOURCE ds WITH ('file' = '@/x.desc', 'description' = 'x');
DROP DESCRIPTOR_SOURCE ds;
CREATE FUNCTION_SOURCE fs WITH ('file' = '@/x.jar', 'description' = 'x');
DROP FUNCTION_SOURCE fs;
CREATE FUNCTION f(a VARCHAR, b INTEGER) RETURNS VARCHAR LANGUAGE JAVA WITH ('source.name' = 'fs', 'class.name' = 'x.F');
DROP FUNCTION f(a VARCHAR, b INTEGER);
CREATE COMPUTE_POOL p WITH ('compute_pool.size' = 'small', 'compute_pool.timeout_min' = 5);
UPDATE COMPUTE_POOL p WITH ('compute_pool.size' = 'large');
START COMPUTE_POOL p;
STOP COMPUTE_POOL p;
DROP COMPUTE_POOL p;
CREATE SECRET x WITH ('type' = environment, 'variable' = 'X');
UPDATE SECRET x WITH ('variable' = 'Y');
DROP SECRET x;
CREATE API_TOKEN t WITH ('token.role_name' = r);
ALTER API_TOKEN t OWNER TO r;
DROP API_TOKEN t;
CREATE INDEX i ON v (a);
CREATE METRICS INTEGRATION m WITH ('type' = datadog);
DROP METRICS INTEGRATION m;
CREATE SECURITY INTEGRATION m WITH ('type' = x);
ALTER SECURITY INTEGRATION m SET x = 1;
DROP SECURITY INTEGRATION m;
CREATE ORGANIZATION o;
"""
RELATIONS = """
CREATE STREAM a (x BIGINT, y VARCHAR NOT NULL) WITH ('topic' = 'a', 'value.format' = 'json');
CREATE STREAM IF NOT EXISTS a (x BIGINT) WITH ('value.format' = 'json');
CREATE STREAM a WITH ('value.format' = 'avro');
CREATE CHANGELOG c (x BIGINT, y VARCHAR, PRIMARY KEY (x, y)) WITH ('value.format' = 'json');
CREATE CHANGELOG IF NOT EXISTS c (x BIGINT, PRIMARY KEY (x)) WITH ('value.format' = 'json');
CREATE CHANGELOG c WITH ('value.format' = 'protobuf');
CREATE TABLE t (x BIGINT) WITH ('store' = pg);
CREATE TABLE t (x BIGINT, PRIMARY KEY (x)) WITH ('store' = pg);
"""
QUERIES = """
CREATE STREAM s AS SELECT x FROM a;
CREATE STREAM s WITH ('topic' = 's') AS SELECT * FROM a PARTITION BY x, y;
CREATE CHANGELOG c WITH ('topic' = 'c') AS SELECT x, COUNT(*) AS n FROM a GROUP BY x;
CREATE TABLE t WITH ('store' = pg) AS SELECT x FROM a;
CREATE MATERIALIZED VIEW v AS SELECT x FROM a;
CREATE MATERIALIZED VIEW IF NOT EXISTS v WITH ('store' = pg) AS SELECT x FROM a;
INSERT INTO s SELECT x FROM a;
INSERT INTO s SELECT x FROM a PARTITION BY x;
BEGIN APPLICATION app CREATE VIRTUAL STREAM virtual.public.f AS SELECT * FROM a; INSERT INTO s SELECT x FROM f; END APPLICATION;
TERMINATE QUERY q;
RESTART QUERY q;
RESUME QUERY q;
ALTER QUERY q OWNER TO r;
"""
SELECTS = """
CREATE STREAM s AS WITH b AS (SELECT x FROM a) SELECT x FROM b;
CREATE STREAM s AS SELECT x + 1 AS y FROM a WHERE x > 1;
CREATE CHANGELOG s AS SELECT x, COUNT(*) AS n FROM a GROUP BY x HAVING COUNT(*) > 1;
SELECT x FROM v LIMIT 5;
CREATE STREAM s AS SELECT x FROM a QUERY WITH ('query.name' = n, 'state.ttl.millis' = '1000');
CREATE STREAM s AS SELECT p.x FROM a AS p WITH ('timestamp' = 'x');
CREATE STREAM s AS SELECT p.x FROM a p JOIN b q WITHIN 5 MINUTES ON p.x = q.x;
CREATE STREAM s AS SELECT p.x FROM a p INNER JOIN c q WITH ('starting.position' = 'earliest') ON p.x = q.x;
CREATE STREAM s AS SELECT p.x FROM a p LEFT OUTER JOIN b q WITHIN 1 SECOND ON p.x = q.x;
CREATE STREAM s AS SELECT p.x FROM a p FULL OUTER JOIN b q WITHIN 1 HOUR ON p.x = q.x;
CREATE STREAM s AS SELECT p.x FROM a p RIGHT JOIN b q WITHIN 1 DAY ON p.x = q.x;
CREATE CHANGELOG s AS SELECT window_end FROM TUMBLE(a, SIZE 1 MINUTE) GROUP BY window_start, window_end;
CREATE CHANGELOG s AS SELECT window_end FROM HOP(a, SIZE 1 MINUTE, ADVANCE BY 30 SECONDS) WITH ('timestamp' = 'x') GROUP BY window_start, window_end;
CREATE CHANGELOG s AS SELECT window_end FROM CUMULATE(a, SIZE 1 HOUR, STEP 10 MINUTES) GROUP BY window_start, window_end;
CREATE STREAM s AS SELECT q.x FROM (SELECT x FROM a) q;
SELECT x FROM a;
CREATE STREAM s AS SELECT y FROM a MATCH_RECOGNIZE (PARTITION BY x ORDER BY ts MEASURES A.x AS y ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+) WITHIN 10 MINUTES DEFINE B AS x > A.x) AS m WITH ('timestamp' = 'ts');
CREATE STREAM s AS SELECT a->b->c AS d, "data"->"path" AS p, m['k'] AS k, l[1] AS f, x || 'y' AS g FROM a;
CREATE STREAM s AS SELECT *, CASE WHEN x IN (1, 2) THEN 'a' ELSE 'b' END AS y FROM a WHERE x BETWEEN 1 AND 2 AND y LIKE 'z%' AND x IS NOT NULL;
CREATE STREAM s AS SELECT CAST(x AS VARCHAR) AS y FROM a;
"""
COMMANDS = """
USE DATABASE d;
USE SCHEMA d.raw;
USE STORE s;
USE ROLE r;
USE ORGANIZATION o;
USE COMPUTE_POOL p;
SET DEFAULT STORE s;
LIST DATABASES;
LIST SCHEMAS IN DATABASE d;
LIST RELATIONS IN SCHEMA d.raw;
LIST STORES;
LIST ENTITIES IN a.b IN STORE s;
LIST QUERIES;
LIST FUNCTIONS;
LIST FUNCTION_SOURCES;
LIST DESCRIPTORS;
LIST DESCRIPTOR_SOURCES;
LIST SCHEMA_REGISTRIES;
LIST COMPUTE_POOLS;
LIST SECRETS;
LIST ROLES;
LIST USERS;
LIST ORGANIZATIONS;
LIST API_TOKENS;
LIST INVITATIONS;
LIST METRICS INTEGRATIONS;
LIST SECURITY INTEGRATIONS;
SHOW STORES;
DESCRIBE STORE s;
DESCRIBE ENTITY e IN STORE s;
DESCRIBE RELATION r;
DESCRIBE RELATION COLUMNS r;
DESCRIBE QUERY q;
DESCRIBE QUERY METRICS q;
DESCRIBE QUERY EVENTS q;
DESCRIBE QUERY STATE q;
DESCRIBE ROLE r;
DESCRIBE USER u;
DESCRIBE SECURITY INTEGRATION i;
DESCRIBE SANDBOX b;
DESCRIBE CREATE STREAM s AS SELECT x FROM a;
DESCRIBE INSERT INTO s SELECT x FROM a;
PRINT ENTITY e IN STORE s WITH ('from_beginning');
PRINT TOPIC e;
DROP STREAM s;
DROP CHANGELOG s;
DROP MATERIALIZED VIEW s;
DROP RELATION s;
ALTER RELATION s SET description = 'x';
ALTER STREAM s OWNER TO r;
ALTER CHANGELOG s OWNER TO r;
ALTER TABLE s OWNER TO r;
GENERATE COLUMNS FOR ENTITY e;
GENERATE TEMPLATE e;
COPY DESCRIPTOR_SOURCE a TO b;
COPY FUNCTION_SOURCE a TO b;
CAN I CREATE_QUERY;
CREATE ROLE IF NOT EXISTS r;
GRANT ROLE r TO USER u;
GRANT USAGE ON DATABASE d TO ROLE r;
GRANT OWNERSHIP ON DATABASE d TO ROLE r;
REVOKE ROLE r FROM USER u;
REVOKE INVITATION i;
INVITE USER 'a@b.c';
ACCEPT INVITATION i;
REJECT INVITATION i;
DROP ROLE r;
DROP USER u;
START SANDBOX;
STOP SANDBOX;
"""
"""One form a line, each with its semicolon; an application has several."""


def forms() -> Iterator[str]:
    for block in (INFRASTRUCTURE, RELATIONS, QUERIES, SELECTS, COMMANDS):
        yield from (line.removesuffix(";") for line in block.strip().splitlines())


@lru_cache(maxsize=1)
def shown() -> frozenset[str]:
    """Conditions that a fixture, a case or a test of the shell shows."""
    files = [*(TESTS / "fixtures" / "refused").rglob("*.sql"), *(TESTS / "cases").rglob("*.case.yaml")]
    files += [*(TESTS / "cli" / "shell").glob("test_*.py")]
    words = {word for path in files for word in re.findall(r"\b[A-Z][A-Z0-9_]{4,}\b", path.read_text(encoding="utf-8"))}
    return frozenset(words & set(CONDITIONS))


def outcome(text: str) -> tuple[str, Any]:
    """``statement``, ``command`` or ``refused`` with what it is."""
    try:
        return "statement", parse_statement(text)
    except DsError as in_file:
        try:
            (found,) = parse_commands("a.sql", text)
        except DsError as in_shell:
            return "refused", {in_file.condition, in_shell.condition}
        return ("command" if isinstance(found, Command) else "statement"), found


@pytest.mark.parametrize("text", list(forms()))
def test_every_form_is_known(text: str) -> None:
    kind, found = outcome(text)
    if kind == "statement":
        assert meaning(parse_statement(print_statement(found))) == meaning(found)
    if kind == "refused":
        assert not [condition for condition in found if condition.startswith("SYNTAX")], found
        assert found <= shown(), f"no fixture shows {sorted(found - shown())}"


def test_what_is_no_form_is_not_known() -> None:
    kind, found = outcome("SELECT x FRM a")
    assert kind == "refused"
    assert any(condition.startswith("SYNTAX") for condition in found)
