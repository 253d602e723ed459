"""Where `@renamed_from` is refused, whatever runs, and which job it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.project.renames import former_name
from ds_dagster.settings import Settings

SOURCES = """CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM a (k INTEGER, n INTEGER) WITH ('topic' = 'a', 'value.format' = 'json');
"""
QUERY = "CREATE STREAM {} WITH ('topic' = 't') AS SELECT k, n FROM a;\n"
OTHER = QUERY.replace("'t'", "'t2'")
TAG = "-- @renamed_from {}\n"
TARGET = "CREATE STREAM s (k INTEGER, n INTEGER) WITH ('topic' = 's', 'value.format' = 'json');\n"
INSERT = TAG + "INSERT INTO s SELECT k, n FROM a QUERY WITH ('query.name' = 'load_2');\n"


def compiled(sql: str, folder: Path) -> LoadedProject:
    settings = Settings(root=folder, sql=folder / "sql", state=folder / ".ds", store="m")
    return compile_texts([("a.sql", SOURCES + sql)], settings)


@pytest.mark.parametrize(
    ("written", "target", "former"),
    [
        ("old", "new", "old"),
        ("OLD", "new", "old"),
        ("default.public.old", "new", "old"),
        ("other.old", "new", "default.other.old"),
        ("old", "default.public.new", "old"),
        ("a.b.old", "new", "a.b.old"),
    ],
)
def test_the_name_is_that_of_a_relation(tmp_path: Path, written: str, target: str, former: str) -> None:
    project = compiled(TAG.format(written) + QUERY.format(target), tmp_path)
    assert not project.errors
    assert former_name(project.queries["new"], project.settings) == former


def test_of_an_insert_it_is_the_name_of_the_query(tmp_path: Path) -> None:
    project = compiled(TARGET + INSERT.format("load_1"), tmp_path)
    assert not project.errors
    assert former_name(project.queries["load_2"], project.settings) == "load_1"


APPLICATION = f"BEGIN APPLICATION app\n{TAG.format('old')}{QUERY.format('new')}END APPLICATION;\n"
LOAD = """CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h:1/d', 'postgres.username' = 'u',
  'postgres.password' = '${P}');
-- @renamed_from old
CREATE TABLE new WITH ('store' = 'pg', 'postgresql.db.name' = 'd', 'postgresql.schema.name' = 'p',
  'postgresql.table.name' = 'new') AS SELECT k, n FROM a;
"""


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (TAG.format("old") + QUERY.format("new") + OTHER.format("old"), "old is still there"),
        (TAG.format("new") + QUERY.format("new"), "that is its name"),
        (TAG.format("old") + QUERY.format("x") + TAG.format("old") + OTHER.format("y"), "x has the line, too"),
        (APPLICATION, "application"),
        (LOAD, "ends by itself"),
        (TAG.format("old") + TARGET, "declared"),
    ],
)
def test_a_line_that_cannot_be_followed_is_refused(tmp_path: Path, sql: str, reason: str) -> None:
    (problem,) = compiled(sql, tmp_path).errors
    assert problem.condition == "RENAMED_FROM_INVALID"
    assert reason in problem.message


@pytest.mark.parametrize("value", ["", "two names", "a\n-- @renamed_from b"])
def test_a_line_without_one_name_is_named(tmp_path: Path, value: str) -> None:
    (problem,) = compiled(TAG.format(value) + QUERY.format("new"), tmp_path).errors
    assert (problem.condition, "not one name" in problem.message) == ("RENAMED_FROM_INVALID", True)
