"""SELECTs that stand in files are bound, with all their mistakes, and not asked."""

from __future__ import annotations

from pathlib import Path

from ds_dagster.project.load import compile_texts
from ds_dagster.questions.checking import question_mistakes
from ds_dagster.settings import Settings

SQL = """CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'h:1');
USE STORE k;
CREATE STREAM s (k VARCHAR, v BIGINT) WITH ('value.format' = 'json', 'topic.partitions' = 1, 'topic.replicas' = 1);
CREATE MATERIALIZED VIEW counts AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
CREATE STREAM broken AS SELECT nothing FROM s;
SELECT k, n FROM counts WHERE n > 1 ORDER BY n DESC LIMIT 3;
SELECT nope, k FROM s
  WHERE zip = 1 AND v = 'a';
SELECT k FROM sss;
SELECT k FROM broken;
"""


def test_all_mistakes_of_a_select_in_a_file(tmp_path: Path) -> None:
    project = compile_texts([("a.sql", SQL)], Settings(root=tmp_path, sql=tmp_path, state=tmp_path))
    assert [found.condition for found in project.errors] == ["UNKNOWN_COLUMN"]
    found = question_mistakes(project)
    places = {(one.condition, one.span.line, one.span.column) for one in found if one.span}
    assert places == {
        ("UNKNOWN_COLUMN", 7, 8),
        ("UNKNOWN_COLUMN", 8, 9),
        ("OPERATOR_TYPES", 8, 21),
        ("UNKNOWN_RELATION", 9, 15),
    }
    assert {one.fragment for one in found} == {
        "SELECT nope, k FROM s",
        "  WHERE zip = 1 AND v = 'a'",
        "SELECT k FROM sss",
    }
