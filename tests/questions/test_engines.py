"""What a question becomes in the SQL of each engine: accepted by that dialect's parser, refused by name where it would
mean something else."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot

from ds_dagster.errors import DsError
from ds_dagster.project import Project, compile_texts
from ds_dagster.questions.binding import bind_question
from ds_dagster.questions.pull_dialects import table_of, tables_of
from ds_dagster.questions.pull_engines import Engine
from ds_dagster.questions.pull_postgres import POSTGRES
from ds_dagster.questions.pull_warehouses import DATABRICKS, DATAFUSION, SNOWFLAKE
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_select

ENGINES = (POSTGRES, SNOWFLAKE, DATABRICKS, DATAFUSION)
SQL = """
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u',
  'postgres.password' = '${PASSWORD}');
CREATE TABLE t (url VARCHAR, n BIGINT, d DOUBLE, tz TIMESTAMP_LTZ(3), da DATE, tags ARRAY<VARCHAR>,
  place STRUCT<city VARCHAR>) WITH ('store' = 'pg');
"""
SAID = (
    ("n / 2", ('DIV("t"."n", 2)', '("t"."n") - ("t"."n") % (2)) / (2)) AS', "`t`.`n` DIV 2", '("t"."n") / (2)')),
    ("CAST(d AS BIGINT)", ('CAST(TRUNC("t"."d") AS', 'CAST(TRUNC("t"."d") AS', "CAST(`t`.`d` AS", 'CAST("t"."d" AS')),
    ("tz < '2024-01-01 00:00:00'", ("AS TIMESTAMPTZ(3))", "AS TIMESTAMPLTZ(3))", "AS TIMESTAMP)", "AS TIMESTAMPTZ)")),
    ("da + INTERVAL '1' DAY", ("AS DATE)", "AS DATE)", "AS DATE)", "AS DATE)")),
    ("CAST(tz AS VARCHAR)", ("AT TIME ZONE 'UTC' AS TEXT", None, "AS STRING)", None)),
    ("TRY_CAST(url AS INTEGER)", ("PG_INPUT_IS_VALID", None, "TRY_CAST(`t`.`url` AS INT)", None)),
    ("TRY_CAST(n AS INTEGER)", (None, None, None, None)),
    ("SUBSTRING(url, -2)", (None, None, None, None)),
    ("SPLIT_INDEX(url, '/', n)", ("STRING_TO_ARRAY", None, "GET(SPLIT(`t`.`url`, '[/]'), `t`.`n`)", "STRING_TO_ARRAY")),
    ("DATE_FORMAT(tz, 'yyyy-MM-dd''T''HH:mm')", ("""'YYYY-MM-DD"T"HH24:MI'""", None, "DATE_FORMAT", None)),
    ("DATE_FORMAT(tz, 'EEEE')", (None, None, "DATE_FORMAT", None)),
    ("place->city", ("JSONB_EXTRACT_PATH_TEXT", None, "(`t`.`place`).`city`", """"place"['city']""")),
    ("tags[1]", ('"tags"[1]', None, "TRY_ELEMENT_AT(`t`.`tags`, 1)", '"tags"[1]')),
    ("url LIKE 'a%'", ("LIKE 'a%'", "ESCAPE", "LIKE 'a%'", "LIKE 'a%'")),
    ("MD5(url)", ("MD5", "MD5", "MD5", "MD5")),
    ("JSON_VALUE(url, '$.a')", (None, None, None, None)),
)  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder: Path = tmp_path_factory.mktemp("engines")
    return compile_texts([("a.sql", SQL)], Settings(root=folder, sql=folder, state=folder, store="pg"))


@pytest.mark.parametrize(
    ("engine", "written", "said"),
    [(engine, written, said[n]) for written, said in SAID for n, engine in enumerate(ENGINES)],
    ids=[f"{engine.name}-{written}" for written, _ in SAID for engine in ENGINES],
)
def test_said_or_refused(project: Project, engine: Engine, written: str, said: str | None) -> None:
    question = bind_question(project, parse_select(f"SELECT {written} AS a FROM t"))
    tables = tables_of(question.relations, lambda relation: table_of("s", relation.name.name))
    if said is None:
        with pytest.raises(DsError) as problem:
            engine.text(question, tables)
        assert problem.value.condition == "QUESTION_FUNCTION_NOT_THERE"
        assert engine.name in problem.value.message
        return
    text = engine.text(question, tables)
    assert said in text
    assert sqlglot.parse_one(text, dialect=engine.dialect).sql(dialect=engine.dialect)
