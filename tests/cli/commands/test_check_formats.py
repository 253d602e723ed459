"""``ds check`` for machines that show mistakes beside the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.cli.diagnostic_formats import github_lines, sarif
from ds_dagster.diagnostics import Diagnostic, Span
from tests.command_line import Ds

WRONG = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM s (n BIGINT) WITH ('store'='k', 'topic'='s', 'value.format'='json', 'topic.partitions'=1);
CREATE STREAM a AS SELECT nn FROM s;
"""


@pytest.fixture
def wrong(project: Path) -> Path:
    (project / "sql" / "all.sql").write_text(WRONG)
    (project / "ds.toml").write_text('store = "k"\n')
    return project


def test_annotations_name_the_place(wrong: Path, ds: Ds) -> None:
    outcome = ds("check", "--format", "github")
    assert outcome.code == 1
    (line,) = outcome.out.splitlines()
    assert line.startswith("::error file=sql/all.sql,line=4,col=27,title=UNKNOWN_COLUMN::")
    assert "%0A" in line, "the hint is its second line"


def test_text_of_an_annotation_cannot_end_it() -> None:
    span = Span("sql/a,b:c.sql", 1, 2)
    (line,) = github_lines([Diagnostic("X", "100 % of\n::warning::a", span=span, severity="warning")])
    assert line == "::warning file=sql/a%2Cb%3Ac.sql,line=1,col=2,title=X::100 %25 of%0A::warning::a"
    assert list(github_lines([Diagnostic("X", "nowhere")])) == ["::error title=X::nowhere"]


def test_sarif_has_rule_and_region(wrong: Path, ds: Ds) -> None:
    outcome = ds("check", "--format", "sarif")
    assert outcome.code == 1
    (run,) = outcome.json["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "UNKNOWN_COLUMN"
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "sql/all.sql"
    assert place["physicalLocation"]["region"]["startLine"] == 4
    assert result["level"] == "error"
    assert sarif([])["runs"][0]["results"] == []  # type: ignore[index]


def test_files_are_named_from_the_repository(wrong: Path, ds: Ds) -> None:
    (wrong.parent / ".git").mkdir()
    assert f"file={wrong.name}/sql/all.sql," in ds("check", "--format", "github").out


def test_json_is_a_format_too(wrong: Path, ds: Ds) -> None:
    assert ds("check", "--format", "json").json == ds("check", "--json").json
